// Numbers, times and names as text.

const POWERS = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

// A quantity in its unit: "milli" (thousandths), "bytes", or a plain count.
export function quantity(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "milli") return number(value / 1000);
  if (unit === "bytes") return bytes(value);
  return number(value);
}

export const number = (value) =>
  (Math.abs(value) < 100 ? SHORT : WHOLE).format(value);

function bytes(value) {
  let power = 0;
  let rest = Math.abs(value);
  while (rest >= 1024 && power < POWERS.length - 1) {
    rest /= 1024;
    power += 1;
  }
  return `${value < 0 ? "-" : ""}${number(rest)} ${POWERS[power]}B`;
}

export const percent = (part, whole) => (whole > 0 ? `${Math.round((100 * part) / whole)} %` : "–");

// A time as the server says it, RFC 3339 or seconds since 1970, as a Date; null if there is none.
export function instant(value) {
  if (value === null || value === undefined || value === "") return null;
  const date = new Date(typeof value === "number" ? value * 1000 : value);
  return Number.isNaN(date.getTime()) ? null : date;
}

/** @type {[number, string][]} */
const STEPS = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];

// A length in seconds in its two largest units: "3 h 5 min".
export function duration(seconds) {
  let rest = Math.max(0, Math.round(seconds));
  if (rest === 0) return "0 s";
  const parts = [];
  for (const [size, unit] of STEPS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count) parts.push(`${count} ${unit}`);
    if (parts.length === 2 || (parts.length && !count)) break;
  }
  return parts.join(" ");
}

export function age(value, now = Date.now()) {
  const date = instant(value);
  return date ? duration((now - date.getTime()) / 1000) : "–";
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const DAY = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" });

export const clock = (value) => (instant(value) ? CLOCK.format(instant(value)) : "–");
export const day = (value) => (instant(value) ? DAY.format(instant(value)) : "");
export const full = (value) => (instant(value) ? `${day(value)}, ${clock(value)}` : "");

export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

// "NS/KIND/NAME" in its parts.
export function identity(id) {
  const [namespace, kind, ...rest] = id.split("/");
  return { namespace, kind, name: rest.join("/") };
}

// The label key without its prefix: "topology.kubernetes.io/rack" is "rack".
export const shortKey = (key) => key.slice(key.lastIndexOf("/") + 1) || key;
