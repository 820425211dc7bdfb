// /queue stays current while it is open: rows and figures change in place. The page asks for what changed, and for all
// of itself only where that is not enough.
const ROWS = 50;
const live = find("[data-live]");
let changed = [];

const refresh = oneAtATime(async () => {
  const rows = changed;
  changed = [];
  try {
    const ids = idsOf(rows);
    if (!canPatch(rows, ids) || !patch(await pageAt(urlOf(ids)), new Set(ids))) await replaceAll();
  } catch (error) {
    changed = rows.concat(changed);
    throw error;
  }
  announceChanges(rows);
});

follow(live.dataset.since, (rows) => {
  changed = changed.concat(rows);
  refresh();
});

async function replaceAll() {
  const page = await freshPage();
  updateFigures(page);
  for (const part of ["banners", "summary"]) replacePart(page, part);
  updateFilter(page);
  updateTable(page);
}

// Of the first page of a list, newest first. No rows: the feed cannot say what changed.
function canPatch(rows, ids) {
  const query = new URLSearchParams(location.search);
  const isPlain = !query.get("cursor") && !query.get("q") && query.get("sortDir") !== "asc";
  return isPlain && rows.length > 0 && ids.length <= 2 * ROWS && find("[data-rows] tbody") !== null;
}

// What changed, and what is active: it moves up in the queue.
function idsOf(rows) {
  const active = findAll('[data-rows] tr[data-category="active"]').map((row) => row.dataset.id);
  return [...new Set([...rows.map((row) => row.id), ...active])];
}

function urlOf(ids) {
  const url = new URL(location.href);
  url.searchParams.set("changed", ids.join(","));
  return url;
}

// False: rows would have to come from the next page, or go there.
function patch(page, asked) {
  const body = find("[data-rows] tbody");
  const shown = new Map(findAll("tr", body).map((row) => [row.dataset.id, row]));
  const fresh = findAll("[data-rows] tbody tr", page).map((row) => sameOrChanged(shown.get(row.dataset.id), row));
  const kept = [...shown.values()].filter((row) => !asked.has(row.dataset.id));
  const rows = [...kept, ...fresh].sort((a, b) => (a.dataset.order < b.dataset.order ? 1 : -1));
  const hasNext = find('.pager a[rel="next"]') !== null;
  if (!rows.length || (hasNext ? rows.length < shown.size : rows.length > ROWS)) return false;
  updateFigures(page);
  for (const part of ["banners", "summary"]) replacePart(page, part);
  updateFilter(page);
  showRows(body, rows.slice(0, ROWS));
  return true;
}

function showRows(body, rows) {
  const focused = document.activeElement?.closest("tr")?.dataset.id;
  body.replaceChildren(...rows);
  if (focused) find(`tr[data-id="${focused}"] .row-link`)?.focus({ preventScroll: true });
}

function replacePart(page, name) {
  find(`[data-part="${name}"]`).replaceChildren(...find(`[data-part="${name}"]`, page).childNodes);
}

function updateFigures(page) {
  for (const card of findAll(".card", page)) {
    const figure = find("[data-figure]", card);
    const shown = find(`[data-figure="${figure.dataset.figure}"]`);
    const isChanged = shown.textContent !== figure.textContent;
    shown.closest(".card").replaceChildren(...card.childNodes);
    if (isChanged) mark(find(`[data-figure="${figure.dataset.figure}"]`), "faded");
  }
}

// The numbers in it, not what is chosen: that may not have been sent yet.
function updateFilter(page) {
  const select = find("[data-state-filter]");
  if (document.activeElement === select) return;
  const chosen = select.value;
  select.replaceChildren(...find("[data-state-filter]", page).childNodes);
  if (![...select.options].some((option) => option.value === chosen)) return;
  select.value = chosen;
}

function updateTable(page) {
  const body = find("[data-rows] tbody");
  const fresh = find("[data-rows] tbody", page);
  if (!body || !fresh) return replacePart(page, "table");
  const shown = new Map(findAll("tr", body).map((row) => [row.dataset.id, row]));
  showRows(body, [...fresh.children].map((row) => sameOrChanged(shown.get(row.dataset.id), row)));
  find(".pager").replaceWith(find(".pager", page));
}

function sameOrChanged(shown, fresh) {
  if (shown?.dataset.version === fresh.dataset.version && find(".place", shown).textContent === find(".place", fresh).textContent) return shown;
  if (shown?.dataset.version !== fresh.dataset.version) mark(fresh, "changed");
  return fresh;
}

function announceChanges(rows) {
  const last = new Map(rows.map((row) => [row.id, row.state]));
  const published = [...last.values()].filter((state) => state === "PUBLISHED" || state === "VENDOR_APPROVED").length;
  const other = last.size - published;
  const news = [];
  if (published) news.push(`${plural(published, "submission")} published`);
  if (other) news.push(`${plural(other, "submission")} updated`);
  if (news.length) announce(news.join(", "));
}
