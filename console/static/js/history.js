// The last hours: what waited, arrived and was preempted, and how full each domain was.
import { get } from "./api.js";
import { clock, duration, instant, number, percent } from "./format.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./lib.js";
import { useFollowed } from "./live.js";
import { Name, Note, Panel, Problem, useNow } from "./parts.js";
import { useRoute } from "./router.js";

const HOURS = [1, 3, 6, 12, 24];
const LOWEST = 190; // pixels of height of a plot
const MOST_LINES = 8;
const COLOURS = ["#2f6fd6", "#c2410c", "#0f8a6a", "#8b46c9", "#b58900", "#c2297a", "#4d7c0f", "#0e7490"];

export function HistoryView() {
  const { query, choose } = useRoute();
  const hours = HOURS.includes(Number(query.hours)) ? Number(query.hours) : 3;
  const { data, error } = useFollowed((signal) => get("history", { hours }, { signal }), [hours], {
    views: "history",
    events: { history: (before, step) => appended(before, step, hours) },
  });
  return html`
    <div class="heading">
      <div><h1>History</h1><p>${data ? `One point every ${duration(data.step)}, since the console started and for ${hours === 1 ? "one hour" : `${hours} hours`} at most.` : ""}</p></div>
      <div class="aside"><label class="field">Span
        <select value=${hours} onChange=${(event) => choose({ hours: event.target.value })}>
          ${HOURS.map((count) => html`<option key=${count} value=${count}>${count === 1 ? "1 hour" : `${count} hours`}</option>`)}
        </select></label></div>
    </div>
    ${error && html`<${Panel} label="Problem"><${Problem} error=${error} /><//>`}
    ${data && (data.at.length ? html`<${Plots} of=${data} />` : html`<${Panel} label="History"><${Note}><${First} at=${data.first} /><//><//>`)}`;
}

// When the first point comes: a console that just started has none.
function First({ at }) {
  const seconds = (instant(at)?.getTime() - useNow()) / 1000;
  if (!at) return html`The first point comes a minute after the console has read the cluster.`;
  return html`The first point comes at ${clock(at)}${seconds > 0 ? `, in ${duration(seconds)}` : ""}.`;
}

/** @type {(before: Message<"History">, step: Message<"HistoryStep">, hours: number) => Message<"History">} */
function appended(before, step, hours) {
  if (before.at.at(-1) === step.at) return before; // the answer had it already
  const most = Math.ceil((hours * 3600) / before.step);
  const add = (values, value) => [...values, value].slice(-most);
  /** @type {Message<"History">["utilisation"]} */
  const utilisation = {};
  for (const name of new Set([...Object.keys(before.utilisation), ...Object.keys(step.utilisation ?? {})])) {
    const values = before.utilisation[name] ?? before.at.map(() => null);
    utilisation[name] = add(values, step.utilisation?.[name] ?? null);
  }
  const next = { ...before, utilisation };
  for (const name of ["at", "waiting", "arrivals", "preemptions"]) next[name] = add(before[name], step[name]);
  return next;
}

/** @param {{ of: Message<"History"> }} history */
function Plots({ of: data }) {
  const times = useMemo(() => data.at.map((at) => instant(at).getTime() / 1000), [data.at]);
  const domains = Object.entries(data.utilisation).sort(([, a], [, b]) => (b.at(-1) ?? 0) - (a.at(-1) ?? 0));
  const drawn = domains.slice(0, MOST_LINES);
  const rest = domains.length - drawn.length;
  return html`<div class="history-view">
    <${Plot} title="Waiting" now=${number(data.waiting.at(-1))} times=${times} lines=${[["waiting workloads", data.waiting]]} fill=${true} />
    <${Plot} title="Arrivals" now=${sum(data.arrivals)} times=${times} lines=${[["new workloads", data.arrivals]]} bars=${true} />
    <${Plot} title="Preemptions" now=${sum(data.preemptions)} times=${times} lines=${[["workloads that preempted others", data.preemptions]]} bars=${true} />
    <${Plot} title="Utilisation by domain" now=${rest > 0 ? `the ${MOST_LINES} fullest of ${domains.length}` : ""} times=${times} lines=${drawn} share=${true} wide=${true} />
    <${Table} data=${data} domains=${domains} />
  </div>`;
}

const sum = (values) => `${number(values.reduce((total, value) => total + (value ?? 0), 0))} in total`;

function Plot({ title, now, times, lines, fill, bars, share, wide }) {
  const frame = useRef(null);
  const plot = useRef(null);
  const [library, setLibrary] = useState(null);
  const scheme = useScheme();
  useEffect(() => {
    import("/static/vendor/uplot/uPlot.esm.js").then((module) => setLibrary(() => module.default));
  }, []);
  const names = lines.map(([name]) => name).join("\n");
  useLayoutEffect(() => {
    if (!library) return undefined;
    plot.current = new library(options(sizeOf(frame.current), lines, { library, fill, bars, share }), columns(times, lines), frame.current);
    const watcher = new ResizeObserver(() => plot.current.setSize(sizeOf(frame.current)));
    watcher.observe(frame.current);
    return () => (watcher.disconnect(), plot.current.destroy(), (plot.current = null));
  }, [library, names, scheme]);
  useEffect(() => plot.current?.setData(columns(times, lines)), [times, lines]);
  const last = lines.map(([name, values]) => `${name}: ${shown(values.at(-1), share)}`).join(", ");
  return html`<${Panel} title=${title} aside=${now} class="panel ${wide ? "wide" : ""}">
    <div class="plot" role="img" aria-label=${`${title} over time. Now ${last}`} ref=${frame}></div>
    ${lines.length > 1 && html`<ul class="legend" aria-hidden="true">${lines.map(
      ([name, values], at) => html`<li key=${name}><span class="swatch line-${at}"></span><${Name}>${name || "–"}<//> ${shown(values.at(-1), share)}</li>`)}</ul>`}
  <//>`;
}

const shown = (value, share) => (value === null || value === undefined ? "–" : share ? percent(value, 1) : number(value));
const columns = (times, lines) => [times, ...lines.map(([, values]) => values)];

// As wide as its frame; on a high screen higher, so that it can be read from afar.
const sizeOf = (frame) => ({ width: frame.clientWidth, height: Math.max(LOWEST, Math.round(innerHeight * 0.26)) });

function options(size, lines, { library, fill, bars, share }) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const zoom = parseFloat(style.fontSize) / 16;
  const font = `${11 * zoom}px ${colour("sans")}`;
  const axis = { stroke: colour("ink-3"), font, ticks: { show: false }, grid: { stroke: colour("line"), width: 1 } };
  const line = (label, at) => ({
    label,
    stroke: lines.length > 1 ? COLOURS[at] : colour("use-5"),
    width: 1.75,
    points: { show: false },
    spanGaps: false,
    ...(fill || bars ? { fill: colour("use-2") } : {}),
    ...(bars ? { paths: library.paths.bars({ size: [0.8, 14] }), width: 0 , fill: colour("use-4") } : { paths: library.paths.stepped({ align: 1 }) }),
  });
  return {
    ...size,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    padding: [8, 12, 0, 0],
    scales: { y: { range: (_, low, high) => [0, share ? 1 : Math.max(1, high * 1.1)] } },
    axes: [
      { ...axis, size: 30 * zoom, grid: { show: false }, values: (_, ticks) => ticks.map((tick) => (tick % 60 ? "" : clock(tick).slice(0, 5))) },
      { ...axis, size: 46 * zoom, values: (_, ticks) => ticks.map((tick) => (share ? `${Math.round(tick * 100)} %` : Number.isInteger(tick) ? number(tick) : "")) },
    ],
    series: [{}, ...lines.map(([name], at) => line(name, at))],
  };
}

// A new value whenever light turns to dark or back, as a canvas does not know it by itself.
function useScheme() {
  const [dark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const read = () => setDark(scheme.matches);
    scheme.addEventListener("change", read);
    return () => scheme.removeEventListener("change", read);
  }, []);
  return dark;
}

// The same in numbers, the latest first.
function Table({ data, domains }) {
  const rows = data.at.map((at, index) => [at, index]).reverse().slice(0, 60);
  return html`<details class="panel wide numbers"><summary>The same in numbers</summary>
    <div class="scroll" tabindex="0" role="region" aria-label="History in numbers"><table>
      <thead><tr><th scope="col">At</th><th scope="col" class="number">Waiting</th><th scope="col" class="number">Arrivals</th><th scope="col" class="number">Preemptions</th>
        ${domains.map(([name]) => html`<th scope="col" class="number" key=${name}><${Name}>${name || "–"}<//></th>`)}</tr></thead>
      <tbody>${rows.map(([at, index]) => html`<tr key=${index}><th scope="row">${clock(at)}</th>
        <td class="number">${data.waiting[index]}</td><td class="number">${data.arrivals[index]}</td><td class="number">${data.preemptions[index]}</td>
        ${domains.map(([name, values]) => html`<td class="number" key=${name}>${shown(values[index], true)}</td>`)}</tr>`)}</tbody>
    </table></div></details>`;
}
