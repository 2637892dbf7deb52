// Fragmentation: how large a gang of one shape would fit now, in each domain.
import { get } from "../api.js";
import { number, plural, shortKey } from "../format.js";
import { html, useEffect, useMemo, useState } from "../lib.js";
import { Name, Panel, useAnswer } from "../parts.js";
import { useRoute } from "../router.js";

const shapeOf = (resource, shape) => shape || `${resource}=1`;

// {shape, fits: Map of domain ID to pods, error}, for every topology key.
export function useRoom(model, resource, asked, turn) {
  const shape = shapeOf(resource, asked);
  const { data, error } = useAnswer(
    async (signal) =>
      Promise.all(model.keys.map((key) => get("map/largest", { shape, key }, { signal }))),
    [shape, resource, model, turn],
  );
  const fits = useMemo(
    () => new Map((data ?? []).flatMap(({ domains }) => domains.map(({ id, pods }) => [id, pods]))),
    [data],
  );
  return { shape, fits, error };
}

export function Room({ model, room, resource }) {
  const { query, choose } = useRoute();
  const [text, setText] = useState(room.shape);
  useEffect(() => setText(shapeOf(resource, query.shape)), [query.shape, resource]);
  const send = (event) => {
    event.preventDefault();
    choose({ shape: text.trim() });
  };
  return html`<${Panel} title="Largest gang that fits now">
    <div class="inside">
      <form class="shape" onSubmit=${send}>
        <label class="field">One pod requests
          <input class="mono" value=${text} spellcheck=${false} autocomplete="off"
            onInput=${(event) => setText(event.target.value)} /></label>
        <button>Show</button>
      </form>
      ${room.error
        ? html`<p role="alert" class="problem">${room.error.message}</p>`
        : html`<dl class="largest">${largest(model, room.fits).map(
            ({ key, pods, domain, sum }) => html`<div key=${key}>
              <dt>one ${shortKey(key)}</dt>
              <dd><strong>${number(pods)}</strong> ${pods === 1 ? "pod" : "pods"}
                ${pods > 0 && html`<span class="muted"> in <${Name}>${domain}<//></span>`}</dd>
              <dd class="muted small">${scattered(sum, pods)}</dd>
            </div>`,
          )}</dl>`}
    </div>
  <//>`;
}

// The best domain of each key, and the room of all of them together.
function largest(model, fits) {
  return model.keys.map((key) => {
    let best = { key, pods: 0, domain: "", sum: 0 };
    for (const domain of model.domains.values()) {
      if (domain.key !== key || !fits.has(domain.id)) continue;
      const pods = fits.get(domain.id);
      best.sum += pods;
      if (pods > best.pods) best = { ...best, pods, domain: domain.value };
    }
    return best;
  });
}

function scattered(sum, pods) {
  if (!sum) return "does not fit on any node";
  return `${plural(sum, "pod")} fit in total, ${Math.round((100 * pods) / sum)} % of them in this domain`;
}
