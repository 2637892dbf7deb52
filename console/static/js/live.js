// Server-sent events: one stream for what the page shows, opened anew when it is lost.
import { get, plain } from "./api.js";
import { useEffect, useRef, useState } from "./lib.js";

const FIRST_PAUSE = 500; // milliseconds; doubled after each attempt that fails
const LONGEST_PAUSE = 10_000;
const EVENTS = ["map", "queue", "workload", "history", "resync", "end"];

let listeners = new Set();
let state = { live: false, attempt: 0 };

// {live, attempt}: whether the stream is open, and how many attempts have failed since it was.
export function useConnection() {
  const [seen, setSeen] = useState(state);
  useEffect(() => {
    listeners.add(setSeen);
    setSeen(state);
    return () => listeners.delete(setSeen);
  }, []);
  return seen;
}

function say(next) {
  if (next.live === state.live && next.attempt === state.attempt) return;
  state = next;
  for (const listener of listeners) listener(state);
}

// Opens a stream of `views`. `on` has a function for each event; `on.resync` fetches everything
// anew, and is called too when a stream that was lost is back. Returns what closes it.
export function open(views, query, on) {
  let source = null;
  let timer = null;
  let closed = false;
  let lost = false;

  const connect = () => {
    const search = new URLSearchParams({ views, ...query });
    source = new EventSource(`/api/events?${search}`);
    source.onopen = () => {
      say({ live: true, attempt: 0 });
      if (lost) on.resync?.();
      lost = false;
    };
    source.onerror = fail;
    for (const name of EVENTS) source.addEventListener(name, (event) => take(name, event));
  };
  const take = (name, event) => {
    if (closed) return;
    on[name]?.(event.data ? JSON.parse(plain(event.data)) : null);
    if (name === "end") fail();
  };
  // The browser's own attempts stop at the first answer with an error, so these are ours.
  const fail = () => {
    source.close();
    if (closed) return;
    lost = true;
    const pause = Math.min(FIRST_PAUSE * 2 ** state.attempt, LONGEST_PAUSE);
    say({ live: false, attempt: state.attempt + 1 });
    clearTimeout(timer);
    timer = setTimeout(again, pause * (0.75 + Math.random() / 2));
  };
  // Asked first, as a stream does not say why it was refused: this finds a session that ended.
  const again = () =>
    get("session").then(
      () => closed || connect(),
      (error) => closed || error.status === 401 || fail(),
    );

  connect();
  return () => {
    closed = true;
    clearTimeout(timer);
    source.close();
  };
}

// The same for a component: open while it is shown, anew when `views` or `query` change.
export function useLive(views, query, on) {
  const latest = useRef(on);
  latest.current = on;
  const key = JSON.stringify(query);
  useEffect(() => {
    if (!views) return undefined;
    const call = (name) => (data) => latest.current[name]?.(data);
    return open(views, query, Object.fromEntries(EVENTS.map((name) => [name, call(name)])));
  }, [views, key]);
}
