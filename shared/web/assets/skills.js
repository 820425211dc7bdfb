// Search as you type: fetches the server's page shortly after the last key.
const form = find("[data-search-form]");

if (form) {
  let timer = 0;
  let latest = 0;
  const address = () => {
    const fields = [...new FormData(form)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value);
    const query = new URLSearchParams(fields).toString();
    return form.action + (query && `?${query}`);
  };
  const search = async () => {
    clearTimeout(timer);
    const number = ++latest;
    const url = address();
    const response = await fetch(url).catch(() => null);
    if (number !== latest) return; // a newer search is under way
    if (!response?.ok) return location.assign(url); // the page explains the error
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (number !== latest) return;
    history.replaceState(null, "", url);
    for (const part of ["list", "summary"]) {
      find(`[data-part="${part}"]`).replaceChildren(...find(`[data-part="${part}"]`, page).childNodes);
    }
    const order = find("#sort");
    if (document.activeElement !== order) order.replaceWith(find("#sort", page));
    announce(find('[data-part="summary"]').textContent.trim());
  };
  find("[data-search-button]").hidden = true; // every change searches
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, 200);
  });
  form.addEventListener("change", (event) => event.target.matches("select") && search());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
}
