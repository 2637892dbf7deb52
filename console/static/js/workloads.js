// All workloads: what runs, waits, or has finished recently; each opens to its groups and pods.
import { get, pathOf } from "./api.js";
import { number, plural } from "./format.js";
import { html, useRef, useState } from "./lib.js";
import { useFollowed } from "./live.js";
import { Age, Name, Note, Panel, Problem, Search, State, useAnswer, Workload } from "./parts.js";
import { useRoute } from "./router.js";
import { Tree } from "./tree.js";

const PAGE = 200;
const COLUMNS = [
  ["Workload", ""], ["State", ""], ["Pods running", ""], ["Priority", "number"], ["Age", "number"], ["Finished", "number"],
];
const STATUSES = { running: "Running", waiting: "Waiting", finished: "Finished" };

const filtersOf = ({ search, namespace, kind, node, status }) => ({ search, namespace, kind, node, status });

export function WorkloadsView() {
  const { query } = useRoute();
  const filters = filtersOf(query);
  const key = JSON.stringify(filters);
  const wanted = useRef({ key, rows: PAGE }); // rows that are shown, and asked for again after a change
  if (wanted.current.key !== key) wanted.current = { key, rows: PAGE };
  const { data, error, loading, setData } = useFollowed(
    (signal) => pages(filters, wanted.current.rows, signal),
    Object.values(filters),
    { views: "workloads", events: { workloads: () => undefined } },
  );
  const more = async () => {
    const next = await get("workloads", { ...filters, limit: PAGE, after: data.next });
    wanted.current.rows = data.items.length + next.items.length;
    setData((before) => ({ ...next, items: [...before.items, ...next.items] }));
  };
  return html`
    <div class="heading">
      <div><h1>Workloads</h1><p role="status">${data ? `${number(data.running)} running, ${number(data.waiting)} waiting, ${number(data.finished)} finished.` : ""}</p></div>
      <div class="aside"><${Filters} /></div>
    </div>
    <${Panel} label="Workloads" aria-busy=${loading}>
      ${error && html`<${Problem} error=${error} />`}
      ${data && (data.items.length ? html`<${Rows} items=${data.items} />` : html`<${Empty} filters=${filters} />`)}
      ${data?.next && html`<p class="more"><button onClick=${more}>Show more</button> <span class="muted small">${plural(data.items.length, "row")} of ${number(data.total)}</span></p>`}
    <//>`;
}

// So many rows, or some more: the server gives a page at a time.
async function pages(filters, count, signal) {
  const first = await get("workloads", { ...filters, limit: PAGE }, { signal });
  let last = first;
  const items = [...first.items];
  while (last.next && items.length < count) {
    last = await get("workloads", { ...filters, limit: PAGE, after: last.next }, { signal });
    items.push(...last.items);
  }
  return { ...first, items, next: last.next };
}

function Empty({ filters }) {
  const filtered = Object.values(filters).some(Boolean);
  return html`<${Note}>${filtered ? "No workload matches these filters." : "There is no workload that you can see."}<//>`;
}

function Filters() {
  const { query, choose } = useRoute();
  const text = (label, key) =>
    html`<${Search} label=${label} value=${query[key]} onValue=${(value) => choose({ [key]: value.trim() })} />`;
  return html`
    ${text("Search", "search")} ${text("Namespace", "namespace")} ${text("Owner kind", "kind")} ${text("Node", "node")}
    <label class="field">Status
      <select value=${query.status ?? ""} onChange=${(event) => choose({ status: event.target.value })}>
        <option value="">any</option>
        ${Object.entries(STATUSES).map(([value, title]) => html`<option key=${value} value=${value}>${title}</option>`)}
      </select></label>`;
}

// The roles are written out, as the rows are cards on a phone, and would lose them.
/** @param {{ items: Message<"WorkloadRow">[] }} rows */
function Rows({ items }) {
  const [open, setOpen] = useState(() => new Set());
  const turn = (id) => {
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    setOpen(next);
  };
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Workloads, all columns"><table class="workloads" role="table">
    <thead role="rowgroup"><tr role="row">${COLUMNS.map(
      ([title, kind]) => html`<th scope="col" role="columnheader" class=${kind} key=${title}>${title}</th>`,
    )}</tr></thead>
    <tbody role="rowgroup">${items.map((item) => html`<${Row} key=${item.id} item=${item} open=${open.has(item.id)} onTurn=${() => turn(item.id)} />`)}</tbody>
  </table></div>`;
}

/** @param {{ item: Message<"WorkloadRow">, open: boolean, onTurn: () => void }} row */
function Row({ item, open, onTurn }) {
  const { id, namespace, kind, name, deleted } = item;
  const shown = open && !deleted;
  return html`<tr role="row">
      <th scope="row" role="rowheader" class="listed">
        ${deleted
          ? html`<span class="turn"></span>`
          : html`<button class="quiet turn" aria-expanded=${shown} aria-label=${`Groups and pods of ${kind} ${name}`} onClick=${onTurn}></button>`}
        <span>${deleted ? html`<${Name}>${name}<//>` : html`<${Workload} id=${id} brief=${true} />`}
          <span class="muted small">${kind} in <${Name}>${namespace}<//></span></span></th>
      <td role="cell"><${State} value=${item.state} />${deleted && html` <span class="muted small">deleted</span>`}</td>
      <td role="cell"><${Pods} of=${item} /></td>
      <td role="cell" class="number" data-label="Priority">${deleted ? "–" : number(item.priority)}</td>
      <td role="cell" class="number" data-label="Age"><${Age} at=${item.created} /></td>
      <td role="cell" class="number" data-label="Finished">${item.status === "finished" ? html`<${Finished} at=${item.ended} />` : html`<span class="muted">–</span>`}</td>
    </tr>
    ${shown && html`<tr role="row" class="opened"><td role="cell" colspan=${COLUMNS.length}><${Groups} item=${item} /></td></tr>`}`;
}

const Finished = ({ at }) => (at ? html`<${Age} at=${at} /> ago` : html`<span class="muted">before the console started</span>`);

/** @param {{ of: Message<"WorkloadRow"> }} pods */
function Pods({ of: { pods, bound, running, minimum, deleted } }) {
  if (deleted) return html`<span class="muted">${plural(pods, "pod")} at most</span>`;
  const width = (count) => ({ width: `${pods > 0 ? (100 * count) / pods : 0}%` });
  return html`<span class="share"><span class="meter" aria-hidden="true">
    <i class="running" style=${width(running)}></i><i class="bound" style=${width(Math.max(0, bound - running))}></i></span>
    <span>${running}/${pods}${minimum !== null && minimum !== undefined ? html`<span class="muted small"> min ${minimum}</span>` : ""}</span></span>`;
}

// The tree is asked for again when the row shows a change.
/** @param {{ item: Message<"WorkloadRow"> }} groups */
function Groups({ item }) {
  const { id, state, pods, bound, running } = item;
  const { data, error } = useAnswer((signal) => get(`${pathOf(id)}/tree`, {}, { signal }), [id, state, pods, bound, running]);
  if (error) return html`<${Problem} error=${error} />`;
  // The row itself is the root.
  return data ? html`<${Tree} roots=${data.children.length ? data.children : [data]} />` : html`<div aria-busy="true"></div>`;
}
