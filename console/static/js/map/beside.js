// The tables beside the map: domains, the nodes of one, and one node.
import { percent, plural, quantity, shortKey } from "../format.js";
import { html, useState } from "../lib.js";
import { Name, Panel, State } from "../parts.js";
import { useRoute } from "../router.js";
import { nodesOf, share } from "./model.js";

const PAGE = 50;

export function Domains({ model, unit, room, onDomain }) {
  const { query } = useRoute();
  const [opened, setOpened] = useState(() => new Set());
  if (!model.roots.length) return null;
  const within = new Set(model.path(query.domain).map(({ id }) => id));
  const rows = [...visible(model.roots, (id) => opened.has(id) || (within.has(id) && id !== query.domain))];
  const turn = (id) => {
    const next = new Set(opened);
    if (!next.delete(id)) next.add(id);
    setOpened(next);
  };
  return html`<${Panel} title="Domains" aside=${model.keys.map(shortKey).join(" › ")}>
    <div class="scroll short" tabindex="0" role="region" aria-label="Domains, all columns">
      <table>
        <thead><tr><th scope="col">Domain</th><th scope="col">Used</th><th scope="col" class="number">Free</th>
          <th scope="col" class="number"><abbr title=${`Pods of ${room.shape} that fit now`}>Fits</abbr></th></tr></thead>
        <tbody>${rows.map(
          ({ domain, depth }) => html`<tr key=${domain.id} class=${domain.id === query.domain ? "chosen-row" : ""}>
            <th scope="row" class="depth-${Math.min(depth, 4)}">
              ${domain.children?.length
                ? html`<button class="quiet turn" aria-expanded=${opened.has(domain.id) || within.has(domain.id)}
                    aria-label=${`Parts of ${domain.value}`} onClick=${() => turn(domain.id)}></button>`
                : html`<span class="turn"></span>`}
              <button class="quiet pick" aria-pressed=${domain.id === query.domain} onClick=${() => onDomain(domain.id)}>
                <${Name}>${domain.value || `no ${shortKey(domain.key)}`}<//></button></th>
            <td><${Share} of=${domain} /></td>
            <td class="number">${quantity(domain.free, unit)}</td>
            <td class="number">${room.fits.get(domain.id) ?? domain.largest ?? "–"}</td>
          </tr>`,
        )}</tbody>
      </table>
    </div>
  <//>`;
}

function* visible(domains, isOpen, depth = 0) {
  for (const domain of domains) {
    yield { domain, depth };
    if (domain.children?.length && isOpen(domain.id)) yield* visible(domain.children, isOpen, depth + 1);
  }
}

const Share = ({ of }) => {
  const width = (part) => ({ width: `${of.capacity > 0 ? (100 * part) / of.capacity : 0}%` });
  const held = Math.min(of.held ?? 0, of.used);
  return html`<span class="share"><span class="meter" aria-hidden="true">
    <i class="running" style=${width(of.used - held)}></i><i class="held" style=${width(held)}></i></span>
    <span>${percent(of.used, of.capacity)}</span></span>`;
};

// The nodes of the chosen domain, the fullest last; a page of them at a time.
export function Nodes({ model, unit, onNode }) {
  const { query } = useRoute();
  const [pages, setPages] = useState(1);
  const domain = model.domains.get(query.domain);
  const roots = domain ? [domain] : model.roots;
  const nodes = roots.flatMap((root) => [...nodesOf(root)]).sort((a, b) => share(a) - share(b) || (a.name < b.name ? -1 : 1));
  if (!nodes.length) return null;
  const shown = nodes.slice(0, pages * PAGE);
  const title = domain ? html`Nodes of <${Name}>${domain.value}<//>` : "Nodes";
  return html`<${Panel} title=${title} label="Nodes" aside="the emptiest first">
    <div class="scroll short" tabindex="0" role="region" aria-label="Nodes, all columns">
      <table>
        <thead><tr><th scope="col">Node</th><th scope="col">Used</th><th scope="col" class="number">Free</th>
          <th scope="col" class="number">Pods</th></tr></thead>
        <tbody>${shown.map(
          (node) => html`<tr key=${node.name} class=${node.name === query.node ? "chosen-row" : ""}>
            <th scope="row"><button class="quiet pick" aria-pressed=${node.name === query.node} onClick=${() => onNode(node.name)}>
              <${Name}>${node.name}<//></button>${flags(node)}</th>
            <td><${Share} of=${node} /></td>
            <td class="number">${quantity(node.free, unit)}</td>
            <td class="number">${node.pods}</td></tr>`,
        )}</tbody>
      </table>
      ${nodes.length > shown.length &&
      html`<p class="more"><button onClick=${() => setPages(pages + 1)}>Show more of ${plural(nodes.length, "node")}</button></p>`}
    </div>
  <//>`;
}

const flags = (node) => [
  node.schedulable === false && html` <${State} value="Cordoned" />`,
  node.ready === false && html` <${State} value="Not ready" />`,
];

export function NodeFacts({ model, name, unit, resource }) {
  const { choose } = useRoute();
  const node = model.nodes.get(name);
  const path = model.path(model.homes.get(name)?.id);
  const close = html`<button class="quiet" onClick=${() => choose({ node: null })}>Close</button>`;
  if (!node) {
    return html`<${Panel} title="Node" aside=${close}><p class="note"><${Name}>${name}<//> is not in this cluster.</p><//>`;
  }
  return html`<${Panel} title=${html`<${Name}>${name}<//>`} label="Node" aside=${close}>
    <div class="inside">
      <p class="muted small">${path.map(({ key, value }, at) => html`${at > 0 && " › "}${shortKey(key)} <${Name}>${value || "–"}<//>`)}${flags(node)}</p>
      <${Share} of=${node} />
      <p>${quantity(node.used, unit)} of ${quantity(node.capacity, unit)} ${resource} used, ${quantity(node.free, unit)} free,
        ${" "}${plural(node.pods, "pod")}.</p>
    </div>
  <//>`;
}
