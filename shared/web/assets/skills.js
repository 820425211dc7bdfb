// Search as you type: the server's own page, asked a moment after the last key.
const form = find("[data-search-form]");
const input = form && find("[data-search]", form);

if (input) {
  let timer = 0;
  let asked = 0;
  const search = async () => {
    const number = ++asked;
    const url = new URL(location.pathname, location.href);
    if (input.value.trim()) url.searchParams.set("q", input.value.trim());
    const response = await fetch(url);
    if (!response.ok || number !== asked) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    history.replaceState(null, "", url);
    for (const part of ["list", "summary"]) {
      find(`[data-part="${part}"]`).replaceChildren(...find(`[data-part="${part}"]`, page).childNodes);
    }
    say(find('[data-part="summary"]').textContent);
  };
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, 200);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    search();
  });
}
