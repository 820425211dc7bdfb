// The reviewers' workbench: keys for decisions, files opened in place, and a list that stays current.
const detail = find("[data-review]");
const part = (name, root = document) => find(`[data-part="${name}"]`, root);
// A refused decision is answered at an address that only forms are sent to.
const here = () => (location.pathname === "/admin" ? location.href : `/admin?review=${detail?.dataset.review ?? ""}`);
const openForms = () => findAll(".decisions details[open]");

function openDecision(action) {
  const decision = find(`[data-decision="${action}"]`);
  if (!decision) return announce("This decision is not available.");
  decision.open = true;
  find("[name=why]", decision).focus();
}

const leave = shortcuts.Escape;
Object.assign(shortcuts, {
  a: () => openDecision("approve"),
  r: () => openDecision("reject"),
  b: () => openDecision("block"),
  c: () => find('.claim [value="claim"]')?.click(),
  n: () => find("#note")?.focus(),
  Escape: () => {
    const open = openForms();
    for (const one of open) one.open = false;
    if (open.length) find("summary", open[0]).focus();
    else leave();
  },
});

// --- files: what was typed in a form stays ---

document.addEventListener("click", async (event) => {
  const link = event.target.closest("[data-review] a[href]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const url = new URL(link.href);
  if (url.pathname !== "/admin" || !url.searchParams.has("file")) return;
  event.preventDefault();
  try {
    const fresh = part("files", await pageAt(url));
    part("files").replaceWith(fresh);
    history.replaceState(null, "", url.pathname + url.search);
    if (url.hash) location.replace(url.hash);
    else find("#source-title").scrollIntoView();
    announce(`${find("#source-title").textContent} is open.`);
  } catch {
    location.assign(url);
  }
});

// --- the list, and what others do with this submission ---

function replaceRows(page) {
  const ticked = new Set(findAll("[data-rows] input:checked").map((box) => box.name));
  const focused = document.activeElement.closest("[data-rows] :is(a, input)");
  const key = focused && (focused.name || focused.getAttribute("href"));
  part("rows").replaceChildren(...part("rows", page).childNodes);
  for (const box of findAll("[data-rows] input")) box.checked = ticked.has(box.name);
  if (key) findAll("[data-rows] :is(a, input)").find((one) => [one.name, one.getAttribute("href")].includes(key))?.focus({ preventScroll: true });
}

const refresh = oneAtATime(async () => {
  const page = await pageAt(here());
  const fresh = find("[data-review]", page);
  if (!part("rows") !== !part("rows", page)) return location.assign(here()); // the first one, or none any more
  if (part("rows")) replaceRows(page);
  for (const name of ["totals", "summary"]) part(name).replaceChildren(...part(name, page).childNodes);
  if (!detail || !fresh || fresh.dataset.review !== detail.dataset.review) return;
  const hasChanged = fresh.dataset.version !== detail.dataset.version;
  find("[data-changed]").hidden = !hasChanged;
  if (hasChanged) return;
  part("notes").replaceChildren(...part("notes", page).childNodes);
  if (!openForms().length && !part("decide").contains(document.activeElement)) part("decide").replaceChildren(...part("decide", page).childNodes);
});

follow(find("[data-live]").dataset.since, refresh);
setInterval(() => { if (!document.hidden) refresh(); }, 30000); // claims and notes are not in the feed
