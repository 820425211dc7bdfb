// On every page: theme, copy buttons, ticking ages, keyboard shortcuts. Pages work without them.
const find = (selector, root = document) => root.querySelector(selector);
const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];

function announce(text) {
  const news = find("[data-news]");
  if (news) news.textContent = text;
}

// --- theme: a cookie, so that the server renders the next page with it ---

find("[data-theme-toggle]")?.addEventListener("click", (event) => {
  event.preventDefault();
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `theme=${root.dataset.theme}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
});

// --- copy ---

function enableCopyButtons(root = document) {
  for (const button of findAll("[data-copy]", root)) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      const source = find(button.dataset.copy);
      await navigator.clipboard.writeText(source.value ?? source.textContent);
      const label = button.lastChild;
      label.textContent = "Copied";
      setTimeout(() => { label.textContent = "Copy"; }, 1500);
    });
  }
}
enableCopyButtons();

// --- ages ---

const DAY = 86400;
const AGES = [[365.25 * DAY, "year"], [(365.25 / 12) * DAY, "month"], [DAY, "day"], [3600, "h"], [60, "min"], [1, "s"]];
const plural = (n, one) => `${n} ${one}${n === 1 ? "" : "s"}`;

// The same units as labels.py, which renders the first text.
function age(seconds) {
  const [size, unit] = AGES.find(([size]) => seconds >= size) ?? AGES.at(-1);
  const n = Math.max(0, Math.floor(seconds / size));
  return size < DAY ? `${n} ${unit}` : plural(n, unit);
}

function tick() {
  for (const time of findAll("time[data-age]")) {
    const text = age((Date.now() - Date.parse(time.dateTime)) / 1000);
    if (time.textContent !== text) time.textContent = text;
  }
}
function showLocalTimes() {
  for (const time of findAll("time[data-local]:not([title])")) {
    time.title = time.textContent;
    const style = time.dataset.local === "clock" ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "medium" };
    time.textContent = new Date(time.dateTime).toLocaleString(undefined, style);
  }
}
showLocalTimes();
setInterval(() => { tick(); showLocalTimes(); }, 1000);

// --- forms: a second click does not send one twice, which would show a conflict with the first ---

const SENDING = 5000; // milliseconds; a stopped request can be sent again then

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.method !== "post") return;
  if (form.dataset.sent) return event.preventDefault();
  form.dataset.sent = "yes";
  setTimeout(() => { delete form.dataset.sent; }, SENDING);
});
addEventListener("pageshow", () => { for (const form of findAll("form[data-sent]")) delete form.dataset.sent; });

// --- keyboard shortcuts ---

function rowLinks() {
  return findAll("[data-rows] :is(.row-link, .review-link)");
}

function moveFocus(by) {
  const links = rowLinks();
  if (!links.length) return;
  const focused = links.indexOf(document.activeElement);
  const at = focused < 0 ? links.findIndex((link) => link.ariaCurrent) : focused;
  links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by))].focus();
}

// Back to the list with its search and page if we came from it, otherwise to the list.
function goBack() {
  const back = find("[data-back]");
  if (!back) return;
  if (document.referrer.split("?")[0] === back.href && history.length > 1) history.back();
  else location.assign(back.href);
}

const isTyping = (target) => target.matches?.("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");

const shortcuts = {
  "/": () => find("[data-search]")?.focus(),
  j: () => moveFocus(1),
  k: () => moveFocus(-1),
  "?": () => find("dialog.keys").showModal(),
  Escape: goBack,
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && isTyping(event.target)) return event.target.blur();
  if (isTyping(event.target) || find("dialog[open]")) return;
  if (Object.hasOwn(shortcuts, event.key)) {
    event.preventDefault();
    shortcuts[event.key]();
  }
});
