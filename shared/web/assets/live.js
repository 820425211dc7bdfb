// The change feed: a stream when available, polling otherwise, and a dot that shows which.
const POLL_EVERY = 5000;
const MAX_BACKOFF = 60000;

function follow(since, onChange) {
  const seen = new Map(); // id -> newest version seen: responses overlap so that nothing is missed
  let position = since;
  let source = null;
  let timer = 0;
  let failures = 0;

  const showStatus = (state, text) => {
    const dot = find("[data-live]");
    if (!dot) return;
    dot.dataset.live = state;
    find("[data-live-text]", dot).textContent = text;
  };

  const apply = (rows, isReset) => {
    const fresh = rows.filter((row) => (seen.get(row.id) ?? 0) < row.version);
    for (const row of fresh) seen.set(row.id, row.version);
    if (fresh.length || isReset) onChange(fresh);
  };

  function stream() {
    let rows = [];
    let isReset = false;
    source = new EventSource(`/api/v1/submissions/stream?since=${encodeURIComponent(position)}`);
    source.addEventListener("submission", (event) => { rows.push(JSON.parse(event.data)); });
    source.addEventListener("reset", () => { isReset = true; });
    source.addEventListener("stats", (event) => { // the last event of every response
      position = event.lastEventId || position;
      failures = 0;
      showStatus("live", "Live");
      apply(rows, isReset);
      rows = [];
      isReset = false;
    });
    source.addEventListener("error", () => {
      if (source.readyState !== EventSource.CLOSED) return; // a response ended; the browser reconnects
      source = null;
      poll();
    });
  }

  async function poll() {
    try {
      const response = await fetch(`/api/v1/submissions/events?since=${encodeURIComponent(position)}`);
      if (!response.ok) throw new Error(response.status);
      const body = await response.json();
      if (document.hidden) return; // restarted when the page becomes visible again
      position = body.lastEventId;
      failures = 0;
      showStatus("polling", "Updates every 5 s");
      apply(body.events, body.reset);
      timer = setTimeout(body.more ? poll : stream, body.more ? 0 : POLL_EVERY);
    } catch {
      failures += 1;
      showStatus("offline", "Offline, reconnecting…");
      timer = setTimeout(poll, Math.min(MAX_BACKOFF, POLL_EVERY * 2 ** (failures - 1)));
    }
  }

  function stop() {
    source?.close();
    source = null;
    clearTimeout(timer);
  }

  document.addEventListener("visibilitychange", () => {
    stop();
    if (!document.hidden) stream();
  });
  addEventListener("pagehide", stop);
  stream();
  return stop;
}

// The page as the server renders it now: markup has one source.
const freshPage = () => pageAt(location.href);

async function pageAt(url) {
  const response = await fetch(url, { headers: { accept: "text/html" } });
  if (!response.ok) throw new Error(response.status);
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

// Serialises runs: calls that arrive during a run are coalesced into one more run.
function oneAtATime(work) {
  let running = false;
  let again = false;
  return async function run() {
    if (running) { again = true; return; }
    running = true;
    try {
      do {
        again = false;
        await work();
      } while (again);
    } catch {
      // the dot shows it; the next change retries
    } finally {
      running = false;
    }
  };
}

function mark(element, name) {
  element.classList.add(name);
  element.addEventListener("animationend", () => element.classList.remove(name), { once: true });
}
