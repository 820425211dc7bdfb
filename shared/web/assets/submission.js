// Follows a submission until it is settled, replacing the article with the server's newer one.
const article = () => find("[data-submission]");

if (!("settled" in article().dataset)) {
  const id = article().dataset.submission;
  const refresh = oneAtATime(async () => {
    const page = await freshPage();
    const fresh = find("[data-submission]", page);
    if (fresh.dataset.version === article().dataset.version) return;
    const state = find("[data-live]")?.dataset.live;
    article().replaceWith(fresh);
    if (state && find("[data-live]")) find("[data-live]").dataset.live = state;
    announce(find(".verdict-line").textContent);
    if ("settled" in fresh.dataset) stop();
  });
  const stop = follow(article().dataset.since, (rows) => {
    if (!rows.length || rows.some((row) => row.id === id)) refresh();
  });
}
