// Server-sent events: one stream for what the page shows, reopened when it is lost.
import { get, plain } from "./api.js";
import { useEffect, useRef, useState } from "./lib.js";

const FIRST_PAUSE = 500; // milliseconds; doubled after each attempt that fails
const LONGEST_PAUSE = 10_000;
const EVENTS = ["map", "queue", "workloads", "workload", "history", "cluster", "resync", "end"];

let listeners = new Set();
let state = { live: false, attempt: 0, current: true };

// {live, attempt, current}: whether the stream is open, how many attempts have failed since it was,
// and whether the server has the cluster as it is now.
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
  if (Object.keys(state).every((key) => next[key] === state[key])) return;
  state = next;
  for (const listener of listeners) listener(state);
}

// Opens a stream of `views`. `on` has a function for each event; `on.resync` fetches everything
// again, and is called too when a stream that was lost is back. `on.opened` is called once, when the
// stream is open or the first attempt has failed. Returns what closes it.
export function open(views, query, on) {
  let source = null;
  let timer = null;
  let closed = false;
  let lost = false;
  let begun = false;

  const begin = () => {
    if (!begun) on.opened?.();
    begun = true;
  };
  const connect = () => {
    const search = new URLSearchParams({ views, ...query });
    source = new EventSource(`/api/events?${search}`);
    source.onopen = () => {
      say({ live: true, attempt: 0, current: true }); // if it is not, that is told next
      if (lost) on.resync?.();
      lost = false;
      begin();
    };
    source.onerror = fail;
    for (const name of EVENTS) source.addEventListener(name, (event) => take(name, event));
  };
  const take = (name, event) => {
    if (closed) return;
    const data = event.data ? JSON.parse(plain(event.data)) : null;
    if (name === "cluster") say({ ...state, current: data.current });
    on[name]?.(data);
    if (name === "end") fail();
  };
  // The browser's own attempts stop at the first answer with an error, so these are ours.
  const fail = () => {
    source.close();
    if (closed) return;
    lost = true;
    begin();
    const pause = Math.min(FIRST_PAUSE * 2 ** state.attempt, LONGEST_PAUSE);
    say({ live: false, attempt: state.attempt + 1, current: true });
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

// The same for a component: open while it is shown, reopened when `views` or `query` change.
export function useLive(views, query, on) {
  const latest = useRef(on);
  latest.current = on;
  const key = JSON.stringify(query);
  useEffect(() => {
    if (!views) return undefined;
    const call = (name) => (data) => latest.current[name]?.(data);
    const all = [...EVENTS, "opened"].map((name) => [name, call(name)]);
    return open(views, query, Object.fromEntries(all));
  }, [views, key]);
}

// What `ask` answers, kept up to date by the stream: {data, error, loading, reload, setData}.
// `events` has for each event a function of data and event; it returns the new data, the same if
// it changed that itself, or undefined if it needs a new answer.
//
// The answer is asked for once the stream is open, and what comes while it is under way is applied
// to it: otherwise a change between the two would be lost. An event says how things are, not by how
// much they changed, so one that the answer knows already does no harm.
/**
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} ask
 * @param {unknown[]} keys
 * @param {{ views: string, query?: object, events: Events<T> }} followed
 * @returns {Answered<T>}
 */
export function useFollowed(ask, keys, { views, query = {}, events }) {
  const [answer, setAnswer] = useState({ data: null, error: null, loading: true });
  const [round, setRound] = useState(0);
  const data = useRef(null);
  const early = useRef(null); // events that came while an answer was under way; null: none is
  const latest = useRef(events);
  latest.current = events;
  const reload = () => setRound((count) => count + 1);
  const setData = (change) => {
    if (data.current === null) return;
    const next = change(data.current);
    if (next === undefined) return reload();
    if (next !== data.current) setAnswer({ data: next, error: null, loading: false });
    data.current = next;
  };
  const take = (name) => (event) =>
    early.current
      ? early.current.push([name, event])
      : setData((before) => latest.current[name](before, event));
  const followed = Object.keys(events).map((name) => [name, take(name)]);
  useLive(views, query, { ...Object.fromEntries(followed), resync: reload, opened: reload });

  useEffect(() => {
    if (round === 0) return undefined; // the stream is not open yet
    const controller = new AbortController();
    early.current = [];
    const done = (result) => {
      if (controller.signal.aborted) return;
      const late = early.current;
      early.current = null;
      result();
      for (const [name, event] of late) take(name)(event);
    };
    setAnswer((before) => ({ ...before, loading: true }));
    ask(controller.signal).then(
      (found) =>
        done(() => {
          data.current = found;
          setAnswer({ data: found, error: null, loading: false });
        }),
      (error) => done(() => setAnswer({ data: data.current, error, loading: false })),
    );
    return () => controller.abort();
  }, [...keys, round]);
  return { ...answer, reload, setData };
}
