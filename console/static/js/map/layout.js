// Where each box of the map is drawn: domains within domains, nodes in rows and columns within
// the innermost. All lengths are CSS pixels.

const LARGEST = 190; // the width of a node that is large enough for its name and numbers
const SMALLEST = 8;
const STEP = 0.93;
const STRETCH = 1.5; // how much wider or higher nodes may get to fill the room that is left
const ASPECT = 1.7; // width to height of a box of nodes
const HEAD = 18; // the line of a domain's name, at the usual size of text
const MOST_COLUMNS = 12; // of outermost domains side by side

// Lays out `roots`: {width, height, cell, boxes, slots}. A box is {domain, x, y, w, h, depth};
// a slot is {node, x, y} in the order of drawing. Nodes are as large as lets all of them fit;
// where even the smallest do not, the map is taller than its room. `zoom` is the reader's own
// size of text, 1 for 16 pixels.
export function layout(roots, width, height, zoom = 1) {
  let made = null;
  for (const cell of cells(zoom)) {
    made = best(roots, width, cell);
    if (made.height <= height && made.width <= width) break;
  }
  made = stretched(roots, width, height, made);
  const boxes = [];
  const slots = [];
  for (const [part, x, y] of made.places) emit(part, x, y, 0, made.cell, boxes, slots);
  const { cell } = made;
  return { width: Math.max(width, made.width), height: made.height, cell, boxes, slots, zoom };
}

// Sizes of a node, the largest first: flat ones have room for text, small ones are squares.
function* cells(zoom) {
  for (let w = LARGEST * zoom; w >= SMALLEST; w *= STEP) {
    const part = Math.min(1, Math.max(0, (w / zoom - 14) / 110));
    const h = w * (1 - 0.64 * part);
    const small = w < 18 * zoom;
    yield {
      w: Math.round(w),
      h: Math.round(h),
      flat: h / w, // of which the columns follow, so that stretching changes none
      gap: w >= 40 ? 4 : small ? 1 : 2,
      pad: small ? 4 : 6,
      head: Math.round(HEAD * zoom),
      leafHead: Math.round((small ? 15 : HEAD) * zoom),
    };
  }
}

// The lowest arrangement with nodes of this size: with one outermost domain beside another, or more.
function best(roots, width, cell) {
  let lowest = null;
  for (let columns = 1; columns <= Math.min(MOST_COLUMNS, roots.length || 1); columns += 1) {
    const gap = cell.pad + 4;
    const limit = Math.floor((width - (columns - 1) * gap) / columns);
    const parts = roots.map((root) => measure(root, limit, cell));
    const made = { ...shelves(parts, width, gap), cell };
    if (made.width > width && lowest) break;
    if (!lowest || made.height < lowest.height) lowest = made;
  }
  return lowest;
}

// The same with wider nodes, then with higher ones, as far as they still fit.
function stretched(roots, width, height, made) {
  const room = Math.max(height, made.height);
  let found = made;
  for (const side of ["w", "h"]) {
    const usual = found.cell[side];
    const least = Math.max(1, Math.floor(usual / 20));
    for (let size = Math.round(usual * STRETCH); size > usual; size -= least) {
      const larger = best(roots, width, { ...found.cell, [side]: size });
      const limit = side === "w" ? made.height : room;
      if (larger.width > width || larger.height > limit) continue;
      found = larger;
      break;
    }
  }
  return found;
}

// The size of a domain's box, and where its parts are within it.
function measure(domain, limit, cell) {
  const { pad, head, leafHead } = cell;
  const inner = limit - 2 * pad;
  if (domain.children?.length) {
    const parts = [...domain.children, ...unplaced(domain)].map((child) => measure(child, inner, cell));
    const { places, width, height } = shelves(parts, inner, pad);
    return { domain, places, w: width + 2 * pad, h: height + head + pad };
  }
  const count = domain.nodes?.length ?? 0;
  const fit = Math.max(1, Math.floor((inner + cell.gap) / (cell.w + cell.gap)));
  const wanted = Math.ceil(Math.sqrt(count * ASPECT * cell.flat));
  const columns = Math.max(1, Math.min(fit, wanted, count || 1));
  const rows = Math.ceil(count / columns);
  return {
    domain,
    columns,
    w: Math.max(columns * (cell.w + cell.gap) - cell.gap, 34) + 2 * pad,
    h: Math.max(rows * (cell.h + cell.gap) - cell.gap, 4) + leafHead + pad,
  };
}

// Nodes of a domain that are in none of its parts, as they lack the inner label: a part without a name.
const unplaced = ({ nodes }) => (nodes?.length ? [{ id: null, nameless: true, nodes }] : []);

// Parts from left to right in rows, as many in each row as keeps the rows alike.
function shelves(parts, limit, gap) {
  const widest = Math.max(0, ...parts.map((part) => part.w)) + gap;
  const fit = Math.max(1, Math.floor((limit + gap) / (widest || 1)));
  const rows = Math.ceil(parts.length / fit);
  const most = Math.min(limit, Math.ceil(parts.length / Math.max(1, rows)) * widest - gap);
  const places = [];
  let [x, y, tall, width] = [0, 0, 0, 0];
  for (const part of parts) {
    if (x > 0 && x + part.w > most) {
      y += tall + gap;
      [x, tall] = [0, 0];
    }
    places.push([part, x, y]);
    x += part.w + gap;
    tall = Math.max(tall, part.h);
    width = Math.max(width, x - gap);
  }
  return { places, width, height: parts.length ? y + tall : 0 };
}

function emit(part, x, y, depth, cell, boxes, slots) {
  const box = { domain: part.domain, x, y, w: part.w, h: part.h, depth, first: slots.length };
  boxes.push(box);
  for (const [child, dx, dy] of part.places ?? []) {
    emit(child, x + cell.pad + dx, y + cell.head + dy, depth + 1, cell, boxes, slots);
  }
  if (!part.places) {
    (part.domain.nodes ?? []).forEach((node, at) => {
      const column = at % part.columns;
      const row = Math.floor(at / part.columns);
      slots.push({
        node,
        x: x + cell.pad + column * (cell.w + cell.gap),
        y: y + cell.leafHead + row * (cell.h + cell.gap),
      });
    });
  }
  box.last = slots.length;
}

// The slot at a point, or null. Only boxes around the point are looked into.
export function slotAt({ boxes, slots, cell }, x, y) {
  const leaf = boxAt({ boxes }, x, y);
  if (!leaf || leaf.domain.children?.length) return null;
  for (let at = leaf.first; at < leaf.last; at += 1) {
    const slot = slots[at];
    if (x >= slot.x && x < slot.x + cell.w && y >= slot.y && y < slot.y + cell.h) return slot;
  }
  return null;
}

// The innermost box at a point, or null.
export function boxAt({ boxes }, x, y) {
  let found = null;
  for (const box of boxes) {
    const inside = x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + box.h;
    if (inside && (!found || box.depth > found.depth)) found = box;
  }
  return found;
}

// The slot next to one in a direction ("left", "right", "up", "down"), or the same at the edge.
export function neighbour({ slots }, from, direction) {
  const at = slots.indexOf(from);
  if (direction === "left") return slots[Math.max(0, at - 1)];
  if (direction === "right") return slots[Math.min(slots.length - 1, at + 1)];
  const sign = direction === "down" ? 1 : -1;
  let best = from;
  let distance = Infinity;
  for (const slot of slots) {
    const dy = (slot.y - from.y) * sign;
    if (dy <= 0) continue;
    const cost = dy + 2 * Math.abs(slot.x - from.x);
    if (cost < distance) [best, distance] = [slot, cost];
  }
  return best;
}
