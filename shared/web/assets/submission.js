// A submission is followed until it is settled: its story is the server's, put in place of the old one.
const story = () => find("[data-submission]");

if (!("settled" in story().dataset)) {
  const id = story().dataset.submission;
  const refresh = oneAtATime(async () => {
    const page = await freshPage();
    const fresh = find("[data-submission]", page);
    if (fresh.dataset.version === story().dataset.version) return;
    const state = find("[data-live]")?.dataset.live;
    story().replaceWith(fresh);
    if (state && find("[data-live]")) find("[data-live]").dataset.live = state;
    say(find(".verdict-line").textContent);
    if ("settled" in fresh.dataset) stop();
  });
  const stop = follow(story().dataset.since, (rows) => {
    if (!rows.length || rows.some((row) => row.id === id)) refresh();
  });
}
