// The home page's totals and newest skills stay current while it is open.
const refresh = oneAtATime(async () => {
  const page = await freshPage();
  const fresh = findAll("[data-total]", page);
  findAll("[data-total]").forEach((shown, n) => {
    if (shown.textContent === fresh[n].textContent) return;
    shown.replaceWith(fresh[n]);
    mark(fresh[n], "faded");
  });
  const newest = find('[data-part="newest"]');
  if (!newest.contains(document.activeElement)) newest.replaceChildren(...find('[data-part="newest"]', page).childNodes);
});

follow(find("[data-totals]").dataset.since, refresh);
