// /queue stays current while it is open: rows and figures change in place.
const live = find("[data-live]");
let changed = [];

const refresh = oneAtATime(async () => {
  const page = await freshPage();
  updateFigures(page);
  for (const part of ["banners", "summary"]) replacePart(page, part);
  updateFilter(page);
  updateTable(page);
  announceChanges(changed);
  changed = [];
});

follow(live.dataset.since, (rows) => {
  changed = changed.concat(rows);
  refresh();
});

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
  const focused = document.activeElement?.closest("tr")?.dataset.id;
  const shown = new Map(findAll("tr", body).map((row) => [row.dataset.id, row]));
  const rows = [...fresh.children].map((row) => sameOrChanged(shown.get(row.dataset.id), row));
  body.replaceChildren(...rows);
  find(".pager").replaceWith(find(".pager", page));
  if (focused) find(`tr[data-id="${focused}"] .row-link`)?.focus({ preventScroll: true });
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
