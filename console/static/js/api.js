// Requests to the server of this page, and to no other.

// An answer that is not 2xx, or none at all (status 0).
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const SAID = {
  0: "The server does not respond.",
  401: "The session has ended.",
  403: "You do not have access to this.",
  404: "It was not found, or you do not have access to it.",
};

let ended = () => {};

// `callback` is told when an answer says that there is no session.
export function onSessionEnd(callback) {
  ended = callback;
}

/** @type {Get} */
export const get = async (path, query, { signal } = {}) => {
  const chosen = Object.entries(query ?? {}).filter(([, v]) => v !== null && v !== undefined && v !== "");
  const search = new URLSearchParams(chosen).toString();
  return ask(`/api/${path}${search ? `?${search}` : ""}`, { signal });
};

/** @type {Post} */
export const post = async (path, body, { signal } = {}) =>
  ask(`/api/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body ?? {}),
    signal,
  });

/** @type {(id: string) => `workloads/${string}`} */
export const pathOf = (id) => `workloads/${id.split("/").map(encodeURIComponent).join("/")}`;

async function ask(url, options) {
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, SAID[0]);
  }
  const text = plain(await response.text());
  if (response.ok) return text ? JSON.parse(text) : null;
  const error = new ApiError(response.status, messageOf(text) ?? saidOf(response.status));
  if (response.status === 401 && url !== "/api/login") ended();
  throw error;
}

// Characters that turn the text after them around are shown as what they are: out of place.
// No name of an object can have them; a message can.
export const plain = (text) => text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

const saidOf = (status) => SAID[status] ?? `The server responded with status ${status}.`;

function messageOf(text) {
  try {
    const { message } = JSON.parse(text);
    return typeof message === "string" && message ? message : null;
  } catch {
    return null;
  }
}
