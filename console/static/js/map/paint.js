// Draws a layout on a canvas: all of it, or only the nodes that changed.
import { plural, quantity } from "../format.js";
import { share } from "./model.js";

const STEPS = 5; // of the colours from free to full
const NAMED = 68; // a node of this width has room for its name
const FAINT = 0.35; // how strong the others are while a workload is highlighted
const LEAST_NAME = 64; // less room than this is not worth a part of a name
const LONGEST = 80; // characters of a name that are tried
const TOKENS = [
  "surface", "sunken", "ground", "line", "line-strong", "ink", "ink-2", "ink-3", "accent", "bad",
  "lit", "held", "focus", "use-0", "use-1", "use-2", "use-3", "use-4", "use-5",
];

// Names as text of their own direction, so that one in another script turns nothing around it.
const isolated = (text) => `\u2068${text}\u2069`;

export class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.view = { unit: "", lit: null, node: null, domain: null };
    this.readColours();
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    this.colours = Object.fromEntries(
      TOKENS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
    );
    this.sans = style.getPropertyValue("--sans");
  }

  // Sets what is drawn and the canvas to its size; large canvases are drawn less finely.
  take(plan) {
    this.plan = plan;
    this.slots = new Map(plan.slots.map((slot) => [slot.node.name, slot]));
    const longest = Math.max(plan.width, plan.height, 1);
    this.scale = Math.min(window.devicePixelRatio || 1, 16_000 / longest);
    this.canvas.width = Math.round(plan.width * this.scale);
    this.canvas.height = Math.round(Math.max(1, plan.height) * this.scale);
    this.canvas.style.width = `${plan.width}px`;
    this.canvas.style.height = `${plan.height}px`;
  }

  all() {
    const { context, plan, colours } = this;
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.fillStyle = colours.surface;
    context.fillRect(0, 0, plan.width, plan.height);
    for (const box of plan.boxes) this.#box(box);
    for (const slot of plan.slots) this.#node(slot);
  }

  // Draws the nodes of these names, and the heads of the domains of these IDs.
  some(names, domains) {
    for (const name of names) {
      const slot = this.slots.get(name);
      if (slot) this.#node(slot);
    }
    for (const box of this.plan.boxes) if (domains.has(box.domain.id)) this.#head(box);
  }

  #ground(box) {
    return box.depth % 2 ? this.colours.surface : this.colours.sunken;
  }

  #box(box) {
    const { context, colours } = this;
    const chosen = box.domain.id === this.view.domain;
    context.beginPath();
    context.roundRect(box.x + 0.5, box.y + 0.5, box.w - 1, box.h - 1, 5);
    context.fillStyle = this.#ground(box);
    context.fill();
    context.lineWidth = chosen ? 2 : 1;
    context.strokeStyle = chosen ? colours.focus : colours.line;
    context.stroke();
    this.#head(box);
  }

  // The domain's value, and what is free in it.
  #head(box) {
    const { context, colours } = this;
    const { plan } = this;
    const { zoom } = plan;
    const { domain } = box;
    if (domain.nameless) return;
    const right = quantity(domain.free, this.view.unit);
    const line = box.y + (domain.children?.length ? plan.cell.head : plan.cell.leafHead) / 2 + 1;
    context.globalAlpha = 1;
    context.fillStyle = this.#ground(box);
    context.fillRect(box.x + 4, box.y + 2, box.w - 8, 12 * zoom);
    context.textBaseline = "middle";
    this.#font(500, 10.5);
    const room = box.w - 12;
    const name = domain.value || "without label";
    const number = Math.max(context.measureText(right).width, context.measureText("0,000").width);
    this.#font(box.depth ? 500 : 650, box.depth ? 10.5 : 11.5);
    // An inner domain's number goes before its name, which the pointer shows; an outer one's after.
    const named = Math.min(room, context.measureText(name.slice(0, LONGEST)).width);
    const left = room - number - 8;
    const shown = box.depth ? number <= room : named <= left || left >= LEAST_NAME * zoom;
    context.fillStyle = colours[box.depth ? "ink-2" : "ink"];
    if (!shown) this.#text(name, box.x + 6, line, room);
    else if (named <= left || left >= LEAST_NAME * zoom) this.#text(name, box.x + 6, line, left);
    if (!shown) return;
    this.#font(500, 10.5);
    context.fillStyle = colours[domain.free > 0 ? "ink-2" : "ink-3"];
    context.textAlign = "right";
    context.fillText(right, box.x + box.w - 6, line);
  }

  #font(weight, size) {
    this.context.font = `${weight} ${size * this.plan.zoom}px ${this.sans}`;
  }

  // As much of a text as fits, cut with an ellipsis.
  #text(text, x, y, room) {
    const { context } = this;
    context.direction = "ltr";
    context.textAlign = "left";
    let end = Math.min(text.length, LONGEST);
    const fits = (cut) => context.measureText(cut).width <= room;
    if (end === text.length && fits(text)) return context.fillText(isolated(text), x, y);
    while (end > 1 && !fits(`${text.slice(0, end)}…`)) end -= 1;
    return context.fillText(`${isolated(text.slice(0, end))}…`, x, y);
  }

  #node(slot) {
    const { context, colours, plan, view } = this;
    const { node, x, y } = slot;
    const { w, h } = plan.cell;
    const lit = view.lit?.get(node.name) ?? 0;
    const named = w >= NAMED * plan.zoom;
    context.globalAlpha = 1;
    context.fillStyle = colours["use-0"];
    context.fillRect(x, y, w, h);
    if (lit) {
      context.fillStyle = colours.lit;
      context.fillRect(x, y, w, h);
    } else {
      if (view.lit) context.globalAlpha = FAINT;
      this.#fill(share(node), x, y, w, h, named);
      context.globalAlpha = 1;
    }
    this.#marks(node, x, y, w, h);
    if (named) this.#label(node, lit, x, y, w, h);
    else if (lit && w >= 18) this.#count(lit, x, y, w, h);
    if (node.name === view.node) {
      context.strokeStyle = colours.ink;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, w - 2, h - 2);
    }
  }

  // Small nodes by colour alone, larger ones as a level too.
  #fill(part, x, y, w, h, named) {
    if (part === 0) return;
    const { context, colours } = this;
    const step = Math.max(1, Math.ceil(part * (named ? STEPS - 2 : STEPS)));
    context.fillStyle = colours[`use-${step}`];
    if (named) context.fillRect(x, y, w * part, h);
    else if (w < 18) context.fillRect(x, y, w, h);
    else context.fillRect(x, y + h - h * part, w, h * part);
  }

  #count(pods, x, y, w, h) {
    const { context, colours } = this;
    context.fillStyle = colours.surface;
    this.#font(700, Math.min(13, h - 6));
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(String(pods), x + w / 2, y + h / 2 + 0.5);
  }

  // Not ready: a frame and a diagonal. Cordoned: a dashed frame.
  #marks(node, x, y, w, h) {
    if (node.ready !== false && node.schedulable !== false) return;
    const { context, colours } = this;
    context.strokeStyle = colours[node.ready === false ? "bad" : "ink-3"];
    context.lineWidth = w < 12 ? 1 : 1.5;
    context.setLineDash(node.ready === false ? [] : [3, 2]);
    context.strokeRect(x + 0.75, y + 0.75, w - 1.5, h - 1.5);
    context.setLineDash([]);
    if (node.ready !== false) return;
    const corner = Math.min(w, h, 12);
    context.beginPath();
    context.moveTo(x + w - corner, y + h - 1);
    context.lineTo(x + w - 1, y + h - corner);
    context.stroke();
  }

  #label(node, lit, x, y, w, h) {
    const { context, colours, view } = this;
    const { zoom } = this.plan;
    const size = h >= 44 * zoom ? 11.5 : 10;
    const middle = y + h / 2;
    const used = lit
      ? plural(lit, "pod")
      : `${quantity(node.used, view.unit)} of ${quantity(node.capacity, view.unit)}`;
    context.textBaseline = "middle";
    context.fillStyle = lit ? colours.surface : colours.ink;
    this.#font(550, size);
    this.#text(node.name, x + 6, middle - size * 0.68 * zoom, w - 12);
    this.#font(lit ? 700 : 400, size);
    this.#text(used, x + 6, middle + size * 0.72 * zoom, w - 12);
  }
}
