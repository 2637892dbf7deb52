// What is said of the workload that is highlighted.
import { plural } from "../format.js";
import { html } from "../lib.js";
import { Name, Workload } from "../parts.js";
import { useRoute } from "../router.js";

export function Chosen({ id, lit }) {
  const { choose } = useRoute();
  const pods = lit.data ? [...lit.data.values()].reduce((sum, count) => sum + count, 0) : 0;
  const known = id.split("/").length === 3;
  return html`<div class="chosen" role="status">
    <span class="swatch lit" aria-hidden="true"></span>
    <span>${known ? html`<${Workload} id=${id} />` : html`<${Name}>${id}<//>`}</span>
    <span class="muted">${
      lit.error
        ? lit.error.message
        : lit.data
          ? pods
            ? `${plural(pods, "pod")} on ${plural(lit.data.size, "node")}`
            : "has no pod on a node"
          : ""
    }</span>
    <button class="quiet" onClick=${() => choose({ workload: null })}>Clear</button>
  </div>`;
}
