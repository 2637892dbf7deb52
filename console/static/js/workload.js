// One workload: its tree, what happened to it, what it says of itself, and why not on a node.
import { get, pathOf } from "./api.js";
import { clock, day, identity, plural } from "./format.js";
import { html, useState } from "./lib.js";
import { useFollowed } from "./live.js";
import { Age, Name, Note, Panel, Problem, State, useAnswer } from "./parts.js";
import { address, Link, useRoute } from "./router.js";
import { Tree } from "./tree.js";

export function WorkloadView() {
  const { id } = useRoute();
  const { namespace, kind, name } = identity(id);
  const { data, error } = useFollowed((signal) => get(pathOf(id), {}, { signal }), [id], {
    views: `workload:${id}`,
    // The YAML is read for an answer alone.
    events: { workload: (before, whole) => (whole.id === id ? { ...whole, yaml: whole.yaml || before.yaml } : before) },
  });
  return html`
    <div class="heading">
      <div><p class="muted small">${kind} in <${Name}>${namespace}<//></p><h1><${Name}>${name}<//></h1></div>
      ${data && html`<div class="facts" role="status"><${State} value=${data.tree.state} /> <${Counts} of=${data.tree.counts} /></div>`}
      <div class="aside"><${Link} class="button" to=${address("map", null, { workload: id })}>Show on the map<//></div>
    </div>
    ${error && html`<${Panel} label="Problem"><${Problem} error=${error} /><//>`}
    ${data &&
    html`<div class="workload-view">
      <div class="column">
        <${Panel} title="Tree"><div class="inside"><${Tree} roots=${[data.tree]} /></div><//>
        <${WhyNot} id=${id} />
        <${Panel} title="Conditions"><${Conditions} of=${data.conditions} /><//>
      </div>
      <div class="column">
        <${Panel} title="Timeline" aside=${day(data.timeline[0]?.at)}><${Timeline} of=${data.timeline} /><//>
        <${Panel} title="YAML"><${Yaml} text=${data.yaml} /><//>
      </div>
    </div>`}`;
}

/** @param {{ of: Message<"Counts"> }} counts */
const Counts = ({ of: { pods, bound, running, minimum } }) =>
  html`<span>${running} running, ${bound} bound of ${plural(pods, "pod")}${minimum !== null && minimum !== undefined ? `, minimum ${minimum}` : ""}</span>`;

/** @param {{ of: Message<"Event">[] }} timeline */
function Timeline({ of: events }) {
  if (!events.length) return html`<${Note}>No events since the console started.<//>`;
  return html`<ol class="timeline">${events.map(
    ({ at, event, sentence, by }, number) => html`<li key=${number} class=${kindOf(event)}>
      <time datetime=${at} class="muted small">${clock(at)}</time>
      <div><strong>${event}</strong><p>${sentence}</p>${by && html`<p class="muted small">by <${Name}>${by}<//></p>`}</div>
    </li>`,
  )}</ol>`;
}

// The colour of each event that has one.
const KINDS = {
  ok: ["Scheduled", "Bound", "Started", "All started"],
  wait: ["Unschedulable", "Incomplete", "Preempting"],
  bad: ["Preempted", "Evicted", "Invalid", "SchedulerError", "StartTimeout"],
};
const kindOf = (event) => Object.keys(KINDS).find((kind) => KINDS[kind].includes(event)) ?? "";

/** @param {{ of: Message<"Condition">[] }} list */
function Conditions({ of: conditions }) {
  if (!conditions.length) return html`<${Note}>It has no conditions yet.<//>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Conditions, all columns"><table>
    <thead><tr><th scope="col">Type</th><th scope="col">Status</th><th scope="col">Reason</th><th scope="col" class="number">Since</th></tr></thead>
    <tbody>${conditions.map(
      (one) => html`<tr key=${one.type}>
        <th scope="row">${one.type}</th><td><${State} value=${one.status} /></td>
        <td>${one.reason}${one.message && html`<p class="muted small break">${one.message}</p>`}</td>
        <td class="number"><${Age} at=${one.lastTransitionTime} /></td></tr>`,
    )}</tbody>
  </table></div>`;
}

function WhyNot({ id }) {
  const { query, choose } = useRoute();
  const node = query.node;
  const { data, error, loading } = useAnswer(
    (signal) => (node ? get(`${pathOf(id)}/why`, { node }, { signal }) : Promise.resolve(null)),
    [id, node],
  );
  const send = (event) => {
    event.preventDefault();
    choose({ node: `${new FormData(event.target).get("node")}`.trim() });
  };
  return html`<${Panel} title="Why not on a node">
    <div class="inside">
      <form class="one-line" onSubmit=${send}>
        <label class="field">Node <input name="node" class="mono" defaultValue=${node ?? ""} autocomplete="off" spellcheck=${false} required /></label>
        <button>Ask</button>
      </form>
      <div role="status" aria-busy=${loading}>${node && error && html`<p class="problem">${error.message}</p>`}
        ${node && data && !error && html`<p><${State} value=${data.fits ? "Fits" : "Does not fit"} /> <${Name}>${data.node}<//></p>
          <ul class="reasons">${data.reasons.map((reason) => html`<li key=${reason}>${reason}</li>`)}</ul>`}</div>
    </div>
  <//>`;
}

function Yaml({ text }) {
  const [copied, setCopied] = useState(false);
  if (!text) return html`<${Note}>The manifest is not available.<//>`;
  const copy = () => navigator.clipboard.writeText(text).then(() => setCopied(true), () => {});
  return html`<div class="yaml">
    ${navigator.clipboard && html`<button class="quiet" onClick=${copy}>${copied ? "Copied" : "Copy"}</button>`}
    <pre class="scroll" tabindex="0" role="region" aria-label="The manifest">${text}</pre></div>`;
}
