// The feed of changes. The stream when it works, polling when it does not, and a dot that says which.
const POLL_EVERY = 5000;
const LONGEST_PAUSE = 60000;

function follow(since, onChange) {
  const seen = new Map(); // id -> newest version told: answers overlap, so that nothing is missed
  let position = since;
  let source = null;
  let timer = 0;
  let failures = 0;

  const tell = (state, text) => {
    const dot = find("[data-live]");
    if (!dot) return;
    dot.dataset.live = state;
    find("[data-live-text]", dot).textContent = text;
  };

  const take = (rows, isReset) => {
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
    source.addEventListener("stats", (event) => { // the last event of every answer
      position = event.lastEventId || position;
      failures = 0;
      tell("live", "Live");
      take(rows, isReset);
      rows = [];
      isReset = false;
    });
    source.addEventListener("error", () => {
      if (source.readyState !== EventSource.CLOSED) return; // an answer ended; the browser asks for the next one
      source = null;
      poll();
    });
  }

  async function poll() {
    try {
      const response = await fetch(`/api/v1/submissions/events?since=${encodeURIComponent(position)}`);
      if (!response.ok) throw new Error(response.status);
      const answer = await response.json();
      if (document.hidden) return; // becoming visible again starts anew
      position = answer.lastEventId;
      failures = 0;
      tell("polling", "Every 5 s");
      take(answer.events, answer.reset);
      timer = setTimeout(answer.more ? poll : stream, answer.more ? 0 : POLL_EVERY);
    } catch {
      failures += 1;
      tell("offline", "Offline, trying again");
      timer = setTimeout(poll, Math.min(LONGEST_PAUSE, POLL_EVERY * 2 ** (failures - 1)));
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

// The page as the server renders it now. Nothing is drawn twice, so nothing can differ.
async function freshPage() {
  const response = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!response.ok) throw new Error(response.status);
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

// One at a time, the last call always served: changes that arrive during a refresh are in the next one.
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
      // the dot tells; the next change tries again
    } finally {
      running = false;
    }
  };
}

function mark(element, name) {
  element.classList.add(name);
  element.addEventListener("animationend", () => element.classList.remove(name), { once: true });
}
