// A tree of workloads as nested lists: Job or JobSet, composite groups, groups, pods.
import { plural } from "./format.js";
import { html, useState } from "./lib.js";
import { Age, kindOf, Name, State } from "./parts.js";
import { address, Link } from "./router.js";

const MANY = 24; // more pods than this are shown when they are asked for

export const Tree = ({ roots }) =>
  html`<ul class="tree">${roots.map((root) => html`<${Branch} key=${root.kind + root.name} of=${root} depth=${0} />`)}</ul>`;

/** @param {{ of: Message<"Branch">, depth: number }} branch */
function Branch({ of: branch, depth }) {
  const { kind, name, state, counts, conditions, children, pods } = branch;
  const [open, setOpen] = useState(depth < 2 || counts.running < counts.pods);
  const has = children.length + pods.length > 0;
  const said = conditions?.find(({ message }) => message)?.message;
  return html`<li>
    <div class="branch">
      ${has
        ? html`<button class="quiet turn" aria-expanded=${open} aria-label=${`Parts of ${kind} ${name}`} onClick=${() => setOpen(!open)}></button>`
        : html`<span class="turn"></span>`}
      <span class="branch-name"><span class="muted small">${kind}</span> <strong><${Name}>${name}<//></strong></span>
      <span class="branch-state"><${State} value=${state} /></span>
      <${Progress} of=${counts} />
      ${said && depth > 0 && html`<p class="said small ${kindOf(state)}">${said}</p>`}
    </div>
    ${open && children.length > 0 &&
    html`<ul>${children.map((child) => html`<${Branch} key=${child.kind + child.name} of=${child} depth=${depth + 1} />`)}</ul>`}
    ${open && pods.length > 0 && html`<${Pods} of=${pods} group=${`${kind} ${name}`} />`}
  </li>`;
}

/** @param {{ of: Message<"Counts"> }} progress */
function Progress({ of: { pods, bound, running, minimum } }) {
  const width = (count) => ({ width: `${pods > 0 ? (100 * count) / pods : 0}%` });
  return html`<span class="share"><span class="meter" aria-hidden="true">
    <i class="running" style=${width(running)}></i><i class="bound" style=${width(Math.max(0, bound - running))}></i></span>
    <span>${running}/${pods}${minimum !== null && minimum !== undefined ? html`<span class="muted small"> min ${minimum}</span>` : ""}</span></span>`;
}

/** @param {{ of: Message<"PodRow">[], group: string }} pods */
function Pods({ of: pods, group }) {
  const [all, setAll] = useState(false);
  const shown = all ? pods : pods.slice(0, MANY);
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${`Pods of ${group}`}><table class="pods">
    <thead><tr><th scope="col">Pod</th><th scope="col">Node</th><th scope="col">State</th><th scope="col" class="number">Since</th></tr></thead>
    <tbody>${shown.map(
      ({ name, node, state, since }) => html`<tr key=${name}>
        <th scope="row"><${Name}>${name}<//></th>
        <td>${node ? html`<${Link} to=${address("map", null, { node })}><${Name}>${node}<//><//>` : html`<span class="muted">–</span>`}</td>
        <td><${State} value=${state} /></td><td class="number"><${Age} at=${since} /></td></tr>`,
    )}</tbody></table>
    ${pods.length > shown.length && html`<p class="more"><button onClick=${() => setAll(true)}>Show all ${plural(pods.length, "pod")}</button></p>`}
  </div>`;
}
