// What waits, in the scheduler's order, and why.
import { get } from "./api.js";
import { number, plural, shortKey } from "./format.js";
import { html, useState } from "./lib.js";
import { useFollowed } from "./live.js";
import { Age, Name, Note, Panel, Problem, Search, State, Workload } from "./parts.js";
import { useRoute } from "./router.js";

const PAGE = 200;
const REASONS = { Incomplete: "Members missing", Unschedulable: "Insufficient capacity", Preempting: "Eviction in progress", Nominated: "Nominated", Gate: "Gate", StartTimeout: "Not started in time", Invalid: "Invalid", SchedulerError: "SchedulerError" };
const COLUMNS = [
  ["#", "number"], ["Workload", ""], ["Priority", "number"], ["Waiting", "number"], ["Pods", "number"],
  ["Why", ""], ["Nearest domain", ""],
];

const filtersOf = ({ namespace, priorityMin, reason }) => ({ namespace, priorityMin, reason });

export function QueueView() {
  const { query } = useRoute();
  const filters = filtersOf(query);
  const [fresh, setFresh] = useState(() => new Set());
  const queue = useFollowed(
    (signal) => get("queue", { ...filters, limit: PAGE }, { signal }),
    Object.values(filters),
    {
      views: "queue",
      events: {
        queue: (before, change) => {
          setFresh(new Set(change.changed.map(({ id }) => id)));
          return changed(before, change, filters);
        },
      },
    },
  );

  const more = async () => {
    const next = await get("queue", { ...filters, limit: PAGE, after: queue.data.next });
    queue.setData((before) => ({ ...next, items: merged(before.items, next.items) }));
  };
  const { data, error } = queue;
  return html`
    <div class="heading">
      <div><h1>Queue</h1><p role="status">${data ? `${plural(data.total, "workload")} ${data.total === 1 ? "waits" : "wait"}, in the order in which the scheduler tries them.` : ""}</p></div>
      <div class="aside"><${Filters} /></div>
    </div>
    <${Panel} label="Queue" aria-busy=${queue.loading}>
      ${error && html`<${Problem} error=${error} />`}
      ${data && (data.items.length ? html`<${Rows} items=${data.items} fresh=${fresh} />` : html`<${Empty} filters=${filters} />`)}
      ${data?.next && html`<p class="more"><button onClick=${more}>Show more</button></p>`}
    <//>`;
}

function Empty({ filters }) {
  const filtered = Object.values(filters).some(Boolean);
  return html`<${Note}>${filtered ? "No waiting workload matches these filters." : "No workload that you can see is waiting."}<//>`;
}

function Filters() {
  const { query, choose } = useRoute();
  return html`
    <${Search} label="Namespace" value=${query.namespace} onValue=${(namespace) => choose({ namespace: namespace.trim() })} />
    <${Search} label="Priority from" type="number" class="narrow" value=${query.priorityMin} onValue=${(priorityMin) => choose({ priorityMin })} />
    <label class="field">Reason
      <select value=${query.reason ?? ""} onChange=${(event) => choose({ reason: event.target.value })}>
        <option value="">any</option>
        ${Object.entries(REASONS).map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
      </select></label>`;
}

// The rows after a change; what the filters leave out is not taken in.
/** @type {(before: Message<"QueuePage">, change: Message<"QueueChange">, filters: any) => Message<"QueuePage">} */
function changed(before, { changed: items, gone, total }, filters) {
  const passes = ({ namespace, priority, reason }) =>
    (!filters.namespace || namespace === filters.namespace) &&
    (!filters.priorityMin || priority >= Number(filters.priorityMin)) &&
    (!filters.reason || reason === filters.reason);
  const out = new Set([...(gone ?? []), ...items.filter((item) => !passes(item)).map(({ id }) => id)]);
  const left = before.items.filter(({ id }) => !out.has(id));
  const filtered = Object.values(filters).some(Boolean);
  const rows = merged(left, items.filter(passes));
  return { ...before, items: rows, total: filtered && !before.next ? rows.length : (total ?? rows.length) };
}

/** @type {(old: Message<"Waiting">[], young: Message<"Waiting">[]) => Message<"Waiting">[]} */
function merged(old, young) {
  const byId = new Map(old.map((item) => [item.id, item]));
  for (const item of young) byId.set(item.id, item);
  return [...byId.values()].sort((a, b) => a.position - b.position);
}

// The roles are written out, as the rows are cards on a phone, and would lose them.
function Rows({ items, fresh }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Queue, all columns"><table class="queue" role="table">
    <thead role="rowgroup"><tr role="row">${COLUMNS.map(
      ([title, kind]) => html`<th scope="col" role="columnheader" class=${kind} key=${title}>${title}</th>`,
    )}</tr></thead>
    <tbody role="rowgroup">${items.map((item) => html`<${Row} key=${item.id} item=${item} fresh=${fresh.has(item.id)} />`)}</tbody>
  </table></div>`;
}

/** @param {{ item: Message<"Waiting">, fresh: boolean }} row */
function Row({ item, fresh }) {
  return html`<tr role="row" class=${fresh ? "fresh" : ""}>
    <td role="cell" class="number muted">${item.position}</td>
    <th scope="row" role="rowheader" class="who-waits"><${Workload} id=${item.id} brief=${true} />
      <span class="muted small">${item.owner ? html`${item.owner.kind} <${Name}>${item.owner.name}<//>` : item.kind} in <${Name}>${item.namespace}<//></span></th>
    <td role="cell" class="number" data-label="Priority">${number(item.priority)}</td>
    <td role="cell" class="number" data-label="Since"><${Age} at=${item.since} /></td>
    <td role="cell" class="number" data-label="Pods">${item.pods}${item.minimum !== null && item.minimum !== undefined && html`<span class="muted small"> min ${item.minimum}</span>`}</td>
    <td role="cell" class="why"><${State} value=${REASONS[item.reason] ?? item.reason} />
      <p>${item.sentence}</p>
      ${item.waitsFor && html`<p class="muted small">Waits for ${item.waitsFor}</p>`}</td>
    <td role="cell" class="nearest">${item.nearest ? html`<${Nearest} of=${item.nearest} />` : html`<span class="muted">–</span>`}</td>
  </tr>`;
}

/** @param {{ of: Message<"Nearest"> }} nearest */
function Nearest({ of: { key, value, slots, needed } }) {
  const width = `${needed > 0 ? Math.min(100, (100 * slots) / needed) : 0}%`;
  return html`<span class="muted small">${shortKey(key)} </span><${Name}>${value}<//>
    <span class="share"><span class="meter" aria-hidden="true"><i class="running" style=${{ width }}></i></span>
      <span>${slots} of ${needed}</span></span>`;
}
