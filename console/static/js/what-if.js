// What if: manifests alone, decided on the live cluster, or with changes of it, tried on a copy.
import { post } from "./api.js";
import { plural } from "./format.js";
import { html, useRef, useState } from "./lib.js";
import { useLive } from "./live.js";
import { Name, Note, Panel, Problem, Workload } from "./parts.js";
import { useRoute } from "./router.js";

const LARGEST = 1_000_000; // characters of manifests
const LIVE = 64 * 1024; // characters of manifests that the server decides on the live cluster
const KINDS = {
  addNodes: { title: "Add nodes", fields: [["count", "How many", "number"], ["like", "Like the node", "text"]] },
  removeNode: { title: "Remove a node", fields: [["name", "Node", "text"]] },
  removeDomain: { title: "Remove a domain", fields: [["key", "Topology key", "text"], ["value", "Value", "text"]] },
  evict: { title: "Evict a workload", fields: [["id", "namespace/kind/name", "text"]] },
};

let kept = ""; // the manifests while the page is open: other views may be looked at meanwhile

export function WhatIfView() {
  const { query, choose } = useRoute();
  const changes = read(query.changes);
  const [manifests, setManifests] = useState(kept);
  const [result, setResult] = useState({ data: null, error: null, busy: false });
  const setChanges = (next) => choose({ changes: next.length ? JSON.stringify(next) : null });
  const type = (text) => setManifests((kept = text));
  const run = async () => {
    setResult((before) => ({ ...before, busy: true }));
    try {
      setResult({ data: await tried(manifests, changes), error: null, busy: false });
    } catch (error) {
      setResult({ data: null, error, busy: false });
    }
  };
  useLive("history", {}, {}); // nothing is shown of it, but the loss of the server is

  const nothing = !manifests.trim() && !changes.length;
  return html`
    <div class="heading"><div><h1>What if</h1><p>Computed ${changes.length ? "on a copy " : ""}by the scheduler's own code. The cluster does not change.</p></div></div>
    <div class="what-if-view">
      <div class="column">
        <${Manifests} value=${manifests} onValue=${type} />
        <${Changes} of=${changes} onChanges=${setChanges} />
        <p><button class="primary" disabled=${nothing || result.busy} onClick=${run}>${result.busy ? "Trying…" : "Try it"}</button></p>
      </div>
      <p class="unseen" role="status">${result.busy ? "Trying…" : (result.data?.lines.join(" ") ?? "")}</p>
      <div class="column" aria-busy=${result.busy}>
        ${result.error && html`<${Panel} label="Problem"><${Problem} error=${result.error} /><//>`}
        ${result.data ? html`<${Result} of=${result.data} />`
        : !result.error && html`<${Panel} label="Result"><${Note}>The result shows which workloads would be scheduled, evicted or still wait.<//><//>`}
      </div>
    </div>`;
}

// Both answers in one form: where workloads would be, whom they would evict, and what waits.
async function tried(manifests, changes) {
  if (changes.length || manifests.length > LIVE) {
    const { placements, ...rest } = await post("what-if", { manifests, changes });
    return { ...rest, placements: placements.map(({ id, pods }) => ({ id, pods: pods.length, nodes: counted(pods) })) };
  }
  const asked = [{ manifests, objects: [] }];
  const { workloads } = await post("fit", { workloads: asked, together: false, namespace: "default" });
  const roots = workloads.flatMap((workload) => workload.roots);
  const waits = ({ fits }) => fits === "no" || fits === "unknown";
  const placements = roots.filter((root) => !waits(root));
  return {
    placements: placements.map(({ id, pods, nodes }) => ({ id, pods, nodes: nodes?.map(({ name, pods }) => [name, pods]) })),
    waiting: roots.filter(waits).map(({ id, sentence, knownFrom }) => ({ id, sentence: knownFrom ? `${sentence} ${from(knownFrom)}` : sentence })),
    evicted: placements.flatMap(({ id: by, evicts }) => evicts.map(({ id }) => ({ id, by }))),
    lines: [...summary(placements, roots.length - placements.length), ...workloads.flatMap(({ notes }) => notes)],
  };
}

const from = (time) => `It fits from ${time}, if nothing else changes.`;

function* summary(placements, waiting) {
  const pods = placements.reduce((sum, root) => sum + root.pods, 0);
  yield `${plural(pods, "pod")} of ${plural(placements.length, "workload")} would be scheduled.`;
  for (const { id, fits, knownFrom, hiddenWorkloads, hiddenPods } of placements) {
    if (fits === "afterTermination") yield `${id} waits for pods that terminate already.${knownFrom ? ` ${from(knownFrom)}` : ""}`;
    if (hiddenWorkloads) yield `${id} would evict ${plural(hiddenPods, "pod")} of ${plural(hiddenWorkloads, "workload")} that you cannot see.`;
  }
  yield `${plural(waiting, "workload")} would still wait.`;
}

function counted(pods) {
  const nodes = new Map();
  for (const { node } of pods) nodes.set(node, (nodes.get(node) ?? 0) + 1);
  return [...nodes];
}

function read(text) {
  try {
    const changes = JSON.parse(text ?? "[]");
    return Array.isArray(changes) ? changes.filter((change) => kindOf(change)) : [];
  } catch {
    return []; // an address that was cut short
  }
}

const kindOf = (change) => Object.keys(KINDS).find((kind) => change && Object.hasOwn(change, kind));

function Manifests({ value, onValue }) {
  const [over, setOver] = useState(false);
  const [problem, setProblem] = useState(null);
  const take = async (files) => {
    const texts = await Promise.all([...files].map((file) => file.text()));
    const text = [value.trim(), ...texts].filter(Boolean).join("\n---\n");
    setProblem(text.length > LARGEST ? "These files are too large." : null);
    if (text.length <= LARGEST) onValue(text);
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    take(event.dataTransfer.files);
  };
  const hover = (event) => (event.preventDefault(), setOver(true));
  return html`<${Panel} title="Manifests" aside="pods, Jobs, JobSets, groups">
    <div class="inside drop ${over ? "over" : ""}" onDragOver=${hover} onDragLeave=${() => setOver(false)} onDrop=${drop}>
      <label class="field"><span class="unseen">Manifests, YAML</span>
        <textarea rows="14" spellcheck=${false} placeholder="Paste YAML, or drop files here" value=${value}
          onInput=${(event) => onValue(event.target.value)}></textarea></label>
      <p class="one-line small"><label class="button">Choose files
        <input class="unseen" type="file" multiple accept=".yaml,.yml,.json" onChange=${(event) => take(event.target.files)} /></label>
        ${value && html`<button class="quiet" onClick=${() => onValue("")}>Clear</button>`}
        ${problem && html`<span role="alert" class="problem">${problem}</span>`}</p>
    </div>
  <//>`;
}

function Changes({ of: changes, onChanges }) {
  const [kind, setKind] = useState("addNodes");
  const form = useRef(null);
  const add = (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(form.current));
    onChanges([...changes, made(kind, given)]);
    form.current.reset();
  };
  return html`<${Panel} title="Changes of the cluster">
    <div class="inside">
      <ul class="changes">${changes.map(
        (change, at) => html`<li key=${at}><span>${said(change)}</span>
          <button class="quiet" aria-label=${`Discard: ${said(change)}`} onClick=${() => onChanges(changes.filter((_, other) => other !== at))}>Discard</button></li>`,
      )}</ul>
      <form class="one-line" ref=${form} onSubmit=${add}>
        <label class="field">Change
          <select value=${kind} onChange=${(event) => setKind(event.target.value)}>
            ${Object.entries(KINDS).map(([name, { title }]) => html`<option key=${name} value=${name}>${title}</option>`)}
          </select></label>
        ${KINDS[kind].fields.map(
          ([name, label, type]) => html`<label class="field" key=${kind + name}>${label}
            <input name=${name} type=${type} min="1" required autocomplete="off" spellcheck=${false} class=${type === "number" ? "narrow" : ""} /></label>`,
        )}
        <button>Add</button>
      </form>
    </div>
  <//>`;
}

function made(kind, given) {
  if (kind === "addNodes") return { addNodes: { like: given.like, count: Number(given.count) } };
  if (kind === "removeDomain") return { removeDomain: { key: given.key, value: given.value } };
  return kind === "evict" ? { evict: given.id } : { removeNode: given.name };
}

function said(change) {
  const kind = kindOf(change);
  const given = change[kind];
  if (kind === "addNodes") return `Add ${plural(Number(given?.count), "node")} like ${given?.like}`;
  if (kind === "removeDomain") return `Remove ${given?.key}=${given?.value}`;
  return kind === "evict" ? `Evict ${given}` : `Remove node ${given}`;
}

function Result({ of: { placements, waiting, evicted, lines } }) {
  return html`
    ${lines.length > 0 && html`<${Panel} title="Summary"><ul class="inside lines">${lines.map((line, at) => html`<li key=${at}>${line}</li>`)}</ul><//>`}
    <${Panel} title="Would be scheduled" aside=${plural(placements.length, "workload")}>
      ${placements.length ? html`<ul class="inside results">${placements.map((one) => html`<${Placement} key=${one.id} of=${one} />`)}</ul>` : html`<${Note}>Nothing.<//>`}<//>
    <${Panel} title="Would be evicted" aside=${plural(evicted.length, "workload")}>
      ${evicted.length ? html`<ul class="inside results">${evicted.map(
        ({ id, by }) => html`<li key=${id}><${Workload} id=${id} />${by && html`<p class="muted small">for <${Name}>${by}<//></p>`}</li>`)}</ul>` : html`<${Note}>Nothing.<//>`}<//>
    <${Panel} title="Would still wait" aside=${plural(waiting.length, "workload")}>
      ${waiting.length ? html`<ul class="inside results">${waiting.map(
        ({ id, sentence }) => html`<li key=${id}><${Workload} id=${id} /><p class="small">${sentence}</p></li>`)}</ul>` : html`<${Note}>Nothing.<//>`}<//>`;
}

function Placement({ of: { id, pods, nodes } }) {
  if (!nodes) return html`<li><${Workload} id=${id} /><p class="muted small">${plural(pods, "pod")}</p></li>`;
  return html`<li><${Workload} id=${id} />
    <details><summary>${plural(pods, "pod")} on ${plural(nodes.length, "node")}</summary>
      <ul class="where">${nodes.map(([node, count]) => html`<li key=${node}><${Name}>${node}<//> <span class="muted">× ${count}</span></li>`)}</ul></details></li>`;
}
