// The canvas as a part: keeps the drawing in step with the model, the pointer and the keys.
import { quantity } from "../format.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib.js";
import { boxAt, layout, neighbour, slotAt } from "./layout.js";
import { Name } from "../parts.js";
import { Painter } from "./paint.js";

const KEYS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };
const LEAST = 320; // pixels of height that the map always gets
const BELOW = 72; // what the legend takes

// `handle` is given {some}: draws what changed, without a pass through the components.
export function MapCanvas({ model, view, onNode, onDomain, handle, label }) {
  const frame = useRef(null);
  const canvas = useRef(null);
  const painter = useRef(null);
  const [spoken, setSpoken] = useState("");
  const [tip, setTip] = useState(null);

  const draw = () => {
    painter.current ??= new Painter(canvas.current);
    painter.current.view = view;
    painter.current.all();
  };
  const plan = () => {
    const top = frame.current.getBoundingClientRect().top + scrollY;
    const zoom = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
    const room = Math.max(LEAST, innerHeight - top - BELOW * zoom);
    painter.current ??= new Painter(canvas.current);
    painter.current.take(layout(model.roots, frame.current.clientWidth, room, zoom));
    draw();
  };
  const latest = useRef(null);
  latest.current = plan;

  useLayoutEffect(plan, [model]);
  useLayoutEffect(draw, [view]);
  useEffect(() => {
    let width = frame.current.clientWidth;
    const again = () => latest.current();
    const watcher = new ResizeObserver(() => {
      if (frame.current.clientWidth === width) return;
      width = frame.current.clientWidth;
      again();
    });
    watcher.observe(frame.current);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const recolour = () => (painter.current.readColours(), again());
    scheme.addEventListener("change", recolour);
    addEventListener("resize", again);
    handle.current = { some: (names, domains) => painter.current.some(names, domains) };
    return () => {
      watcher.disconnect();
      scheme.removeEventListener("change", recolour);
      removeEventListener("resize", again);
      handle.current = null;
    };
  }, []);

  const at = (event) => {
    const box = canvas.current.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const choose = (event) => {
    const drawn = painter.current.plan;
    const slot = slotAt(drawn, ...at(event));
    if (slot) return onNode(slot.node.name);
    return onDomain(boxAt(drawn, ...at(event))?.domain.id ?? null);
  };
  const hover = (event) => {
    const [x, y] = at(event);
    const drawn = painter.current.plan;
    const slot = slotAt(drawn, x, y);
    const box = slot ? null : boxAt(drawn, x, y);
    setTip(slot || (box && !box.domain.nameless) ? { node: slot?.node, domain: box?.domain, x, y } : null);
  };
  const press = (event) => {
    const direction = KEYS[event.key];
    if (event.key === "Escape") return onNode(null);
    if (!direction) return undefined;
    event.preventDefault();
    const drawn = painter.current.plan;
    if (!drawn.slots.length) return undefined;
    const from = painter.current.slots.get(view.node);
    const to = from ? neighbour(drawn, from, direction) : drawn.slots[0];
    setSpoken(sentence(to.node, view.unit, view.lit));
    return onNode(to.node.name);
  };

  return html`<div class="map-frame" ref=${frame}>
    <canvas ref=${canvas} tabindex="0" role="application" aria-label=${label}
      aria-describedby="map-keys" onClick=${choose} onPointerMove=${hover}
      onPointerLeave=${() => setTip(null)} onKeyDown=${press}></canvas>
    <p id="map-keys" class="unseen">Arrow keys go from node to node, Escape leaves. The tables next to the map have the same information.</p>
    <p class="unseen" aria-live="polite">${spoken}</p>
    ${tip && html`<${Tip} ...${tip} view=${view} width=${frame.current.clientWidth} />`}
  </div>`;
}

function Tip({ node, domain, x, y, view, width }) {
  const element = useRef(null);
  useLayoutEffect(() => {
    const { style, offsetWidth } = element.current;
    style.left = `${Math.max(0, Math.min(x + 14, width - offsetWidth - 4))}px`;
    style.top = `${y + 18}px`;
  });
  return html`<div class="map-tip" ref=${element} aria-hidden="true">
    <${Name}>${node ? node.name : domain.value}<//>
    <span>${node ? sentence(node, view.unit, view.lit, false) : room(domain, view.unit)}</span>
  </div>`;
}

const room = ({ used, capacity, free }, unit) =>
  `${quantity(used, unit)} of ${quantity(capacity, unit)} used, ${quantity(free, unit)} free`;

function sentence(node, unit, lit, named = true) {
  const pods = lit?.get(node.name);
  return [
    named ? `${node.name}:` : "",
    `${room(node, unit)},`,
    `${node.pods} ${node.pods === 1 ? "pod" : "pods"}`,
    pods ? `, ${pods} of them of the chosen workload` : "",
    node.schedulable === false ? ", cordoned" : "",
    node.ready === false ? ", not ready" : "",
  ].filter(Boolean).join(" ").replaceAll(" ,", ",");
}
