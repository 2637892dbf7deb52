// The cluster map: the drawing, and the same in tables beside it.
import { get } from "../api.js";
import { percent, plural, quantity } from "../format.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { useFollowed } from "../live.js";
import { Note, Panel, Problem, useAnswer } from "../parts.js";
import { useRoute } from "../router.js";
import { MapCanvas } from "./canvas.js";
import { Domains, NodeFacts, Nodes } from "./beside.js";
import { ClusterModel } from "./model.js";
import { Room, useRoom } from "./room.js";
import { Chosen } from "./chosen.js";

const MANY = 1500; // more nodes than this get the whole width
const PAUSE = 1000; // milliseconds between two passes over the tables while changes come in

export function MapView() {
  const { query } = useRoute();
  const resource = query.resource ?? "cpu";
  const [turn, setTurn] = useState(0); // a new number: the tables are to show what has changed
  const later = usePaced(() => setTurn((count) => count + 1), PAUSE);
  const drawing = useRef(null);
  const map = useFollowed(
    (signal) => get("map", { resource }, { signal }).then((found) => new ClusterModel(found)),
    [resource],
    {
      views: "map",
      query: { resource },
      events: {
        map: (model, change) => {
          const names = model.apply(change);
          if (names === null) return undefined;
          drawing.current?.some(names, new Set((change.domains ?? []).map(({ id }) => id)));
          later();
          return model;
        },
      },
    },
  );
  if (map.error && !map.data) return html`<${Problem} error=${map.error} />`;
  if (!map.data) return html`<p class="note" aria-busy="true">Reading the cluster…</p>`;
  return html`<${Cluster} model=${map.data} turn=${turn} drawing=${drawing} />`;
}

function Cluster({ model, turn, drawing }) {
  const { query, choose } = useRoute();
  const { unit, resource } = model;
  const lit = useLit(query.workload, turn);
  const room = useRoom(model, resource, query.shape, turn);
  const view = useMemo(
    () => ({ unit, lit: lit.data, node: query.node, domain: query.domain }),
    [unit, lit.data, query.node, query.domain],
  );

  const onNode = (node) => choose({ node });
  const onDomain = (domain) => choose({ domain: domain === query.domain ? null : domain, node: null });
  const totals = model.totals();
  return html`
    <div class="heading">
      <div><h1>Cluster map</h1><${Totals} totals=${totals} unit=${unit} /></div>
      <div class="aside"><${Controls} model=${model} /></div>
    </div>
    ${query.workload && html`<${Chosen} id=${query.workload} lit=${lit} />`}
    <div class="map-view ${totals.nodes > MANY ? "many" : ""}">
      <${Panel} label="Map">
        ${model.nodes.size || model.roots.length
          ? html`<${MapCanvas} model=${model} view=${view} onNode=${onNode} onDomain=${onDomain} handle=${drawing}
              label=${`Map of ${plural(totals.nodes, "node")}, ${percent(totals.used, totals.capacity)} of ${resource} used`} />
              <${Legend} lit=${Boolean(lit.data)} />`
          : html`<${Note}>There are no nodes that you can see.<//>`}
      <//>
      <div class="beside">
        ${query.node && html`<${NodeFacts} model=${model} name=${query.node} unit=${unit} resource=${resource} />`}
        <${Room} model=${model} room=${room} resource=${resource} turn=${turn} />
        <${Domains} model=${model} unit=${unit} room=${room} turn=${turn} onDomain=${onDomain} />
        <${Nodes} model=${model} unit=${unit} turn=${turn} onNode=${onNode} />
      </div>
    </div>`;
}

function Totals({ totals, unit }) {
  return html`<p>${plural(totals.nodes, "node")}, ${quantity(totals.used, unit)} of
    ${" "}${quantity(totals.capacity, unit)} used (${percent(totals.used, totals.capacity)}),
    ${" "}${quantity(totals.free, unit)} free${totals.held > 0 ? `, ${quantity(totals.held, unit)} reserved for workloads that are about to start` : ""}.</p>`;
}

function Controls({ model }) {
  const { query, choose } = useRoute();
  const [found, setFound] = useState([]);
  const [text, setText] = useState(query.workload ?? "");
  useEffect(() => setText(query.workload ?? ""), [query.workload]);
  const search = usePaced(
    (value) => get("workloads", { search: value, status: "running", limit: 30 }).then(({ items }) => setFound(items), () => setFound([])),
    250,
  );
  const type = (value) => {
    setText(value);
    if (value === "" || value.split("/").length === 3) choose({ workload: value });
    search(value);
  };
  return html`
    <label class="field">Resource
      <select value=${model.resource} onChange=${(event) => choose({ resource: event.target.value })}>
        ${model.resources.map(({ name }) => html`<option key=${name} value=${name}>${name}</option>`)}
      </select></label>
    <label class="field">Highlight a workload
      <input type="search" list="workloads-found" placeholder="namespace/kind/name" autocomplete="off" spellcheck=${false}
        value=${text} onFocus=${() => search(text)} onInput=${(event) => type(event.target.value)}
        onKeyDown=${(event) => event.key === "Enter" && choose({ workload: text })} /></label>
    <datalist id="workloads-found">${found.map(({ id, state }) => html`<option key=${id} value=${id}>${state}</option>`)}</datalist>`;
}

function Legend({ lit }) {
  return html`<ul class="legend" aria-hidden="true">
    <li><span class="ramp"><i></i><i></i><i></i><i></i><i></i><i></i></span> free to full</li>
    ${lit && html`<li><span class="swatch lit"></span> runs the chosen workload</li>`}
    <li><span class="swatch cordoned"></span> cordoned</li>
    <li><span class="swatch unready"></span> not ready</li>
    <li class="far">number beside a domain: free in it</li>
  </ul>`;
}

// Which nodes run the chosen workload, and how many pods each: {data: Map or null, error}.
function useLit(workload, turn) {
  const { data, error } = useAnswer(
    (signal) => (workload ? get("map/pods", { workload }, { signal }) : Promise.resolve(null)),
    [workload, turn],
  );
  const key = JSON.stringify(data);
  const lit = useMemo(
    () => (workload && Array.isArray(data) ? new Map(data.map(({ node, pods }) => [node, pods])) : null),
    [key, workload],
  );
  return { data: lit, error: workload ? error : null };
}

// Calls `act` at most once in `pause` milliseconds, the last time after the last call.
export function usePaced(act, pause) {
  const latest = useRef(act);
  latest.current = act;
  const timer = useRef(null);
  const waiting = useRef(null);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (...values) => {
    waiting.current = values;
    timer.current ??= setTimeout(() => {
      timer.current = null;
      latest.current(...waiting.current);
    }, pause);
  };
}
