// Small parts that several views use.
import { ApiError } from "./api.js";
import { age, full, identity, instant } from "./format.js";
import { html, useEffect, useState } from "./lib.js";
import { address, Link } from "./router.js";

const OK = new Set(["Running", "Bound", "Placed", "Scheduled", "Succeeded", "Complete", "True"]);
const BAD = new Set(["Failed", "Invalid", "SchedulerError", "Lost", "Error"]);
const QUIET = new Set(["", "Unknown", "False", "Suspended", "Finished", "Other scheduler"]);

export const kindOf = (state) => (OK.has(state) ? "ok" : BAD.has(state) ? "bad" : QUIET.has(state) ? "" : "wait");

export const State = ({ value }) => html`<span class="state ${kindOf(value)}">${value || "–"}</span>`;

// Names are text in a direction of their own: one in another script turns nothing around it.
export const Name = ({ children }) => html`<bdi class="name">${children}</bdi>`;

export function Workload({ id, brief = false }) {
  const { namespace, kind, name } = identity(id);
  const where = brief ? null : html`<span class="muted small">${kind} in <${Name}>${namespace}<//></span>`;
  return html`<${Link} to=${address("workloads", id)}><${Name}>${name}<//><//> ${where}`;
}

export function Panel({ title, aside, children, label, ...rest }) {
  return html`<section class="panel" aria-label=${label ?? title} ...${rest}>
    ${title && html`<header><h2>${title}</h2>${aside && html`<div class="aside">${aside}</div>`}</header>`}
    ${children}
  </section>`;
}

export const Note = ({ children }) => html`<p class="note">${children}</p>`;

export const Problem = ({ error }) =>
  html`<p class="note bad" role="alert">${error instanceof ApiError ? error.message : String(error)}</p>`;

// The age of an instant, with the instant itself for those who point at it.
export function Age({ at }) {
  const now = useNow();
  const date = instant(at);
  if (!date) return html`<span class="muted">–</span>`;
  return html`<time datetime=${date.toISOString()} title=${full(at)}>${age(at, now)}</time>`;
}

let ticking = new Set();
let interval = null;

// The time now, updated each second; one timer for all that show an age.
export function useNow() {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    ticking.add(setNow);
    interval ??= setInterval(() => {
      const at = Date.now();
      for (const tick of ticking) tick(at);
    }, 1000);
    return () => {
      ticking.delete(setNow);
      if (ticking.size) return;
      clearInterval(interval);
      interval = null;
    };
  }, []);
  return now;
}

// What `ask` answers, asked again when `keys` change: {data, error, loading, reload, setData}.
// What was there before stays until the new answer, so that nothing flickers.
/** @template T @param {(signal: AbortSignal) => Promise<T>} ask @param {unknown[]} keys @returns {Answered<T>} */
export function useAnswer(ask, keys) {
  const [answer, setAnswer] = useState({ data: null, error: null, loading: true });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    setAnswer((before) => ({ ...before, loading: true }));
    ask(controller.signal).then(
      (data) => controller.signal.aborted || setAnswer({ data, error: null, loading: false }),
      (error) =>
        controller.signal.aborted ||
        setAnswer((before) => ({ data: before.data, error, loading: false })),
    );
    return () => controller.abort();
  }, [...keys, round]);
  const setData = (change) => setAnswer((before) => ({ ...before, data: change(before.data) }));
  return { ...answer, reload: () => setRound((n) => n + 1), setData };
}

// A text field that tells its value once typing has paused, or at once on Enter.
export function Search({ label, value, onValue, ...rest }) {
  const [text, setText] = useState(value ?? "");
  useEffect(() => setText(value ?? ""), [value]);
  useEffect(() => {
    if (text === (value ?? "")) return undefined;
    const timer = setTimeout(() => onValue(text), 350);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<label class="field">${label}
    <input value=${text} autocomplete="off" spellcheck=${false} ...${rest}
      onInput=${(event) => setText(event.target.value)}
      onKeyDown=${(event) => event.key === "Enter" && onValue(text)} /></label>`;
}
