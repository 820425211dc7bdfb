// What every page does: the theme, copy buttons, ticking ages, keys. All of it is extra; pages work without.
const find = (selector, root = document) => root.querySelector(selector);
const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];

function say(text) {
  const news = find("[data-news]");
  if (news) news.textContent = text;
}

// --- theme: a cookie, so that the server's next page has it from its first byte ---

find("[data-theme-toggle]")?.addEventListener("click", (event) => {
  event.preventDefault();
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `theme=${root.dataset.theme}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
});

// --- copy ---

function offerCopying(root = document) {
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
offerCopying();

// --- ages ---

function age(seconds) {
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.max(0, Math.floor(seconds))} s`;
}

function tick() {
  for (const time of findAll("time[data-age]")) {
    const text = age((Date.now() - Date.parse(time.dateTime)) / 1000);
    if (time.textContent !== text) time.textContent = text;
  }
}
setInterval(tick, 1000);

// --- keys ---

function rowLinks() {
  return findAll("[data-rows] .row-link");
}

function step(by) {
  const links = rowLinks();
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by))].focus();
}

// To the list as it was left, with its search and its page; else to the list itself.
function goBack() {
  const back = find("[data-back]");
  if (!back) return;
  if (document.referrer.split("?")[0] === back.href && history.length > 1) history.back();
  else location.assign(back.href);
}

const isTyping = (target) => target.matches?.("input, textarea, select, [contenteditable]");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && isTyping(event.target)) return event.target.blur();
  if (isTyping(event.target) || find("dialog[open]")) return;
  const actions = {
    "/": () => find("[data-search]")?.focus(),
    j: () => step(1),
    k: () => step(-1),
    "?": () => find("dialog.keys").showModal(),
    Escape: goBack,
  };
  if (Object.hasOwn(actions, event.key)) {
    event.preventDefault();
    actions[event.key]();
  }
});
