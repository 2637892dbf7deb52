// Which view an address names, and back. Everything that a view shows by choice is in the
// address, so that it can be shared.
import { createContext, html, useContext, useEffect, useState } from "./lib.js";

export const VIEWS = ["map", "queue", "workloads", "what-if", "history"];

// {view, id, query}: id is "NS/KIND/NAME" or null, query a plain object of strings. `served` are the
// views that this user has; the first one is at the address without a view.
export function parse(pathname, search, served) {
  const [first, ...rest] = pathname.split("/").filter(Boolean).map(decode);
  const query = Object.fromEntries(new URLSearchParams(search));
  const view = first ?? served[0];
  if (!served.includes(view)) return { view: "missing", id: null, query };
  if (view !== "workloads") return { view: rest.length ? "missing" : view, id: null, query };
  if (rest.length !== 0 && rest.length !== 3) return { view: "missing", id: null, query };
  return { view, id: rest.length ? rest.join("/") : null, query };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // not percent-encoded as it should be: taken as it stands
  }
}

// Names hold no slash (Kubernetes allows none), so the parts of an ID are the path's.
export function address(view, id = null, query = {}) {
  const parts = [view, ...(id ? id.split("/") : [])].map(encodeURIComponent);
  const chosen = Object.entries(query).filter(([, v]) => v !== null && v !== undefined && v !== "");
  const search = new URLSearchParams(chosen.map(([k, v]) => [k, String(v)])).toString();
  return `/${parts.join("/")}${search ? `?${search}` : ""}`;
}

const Route = createContext(null);
export const useRoute = () => useContext(Route);

export function Router({ served, children }) {
  const [route, setRoute] = useState(() => parse(location.pathname, location.search, served));
  useEffect(() => {
    const read = () => setRoute(parse(location.pathname, location.search, served));
    addEventListener("popstate", read);
    return () => removeEventListener("popstate", read);
  }, [served]);
  const go = (target, { replace = false } = {}) => {
    const { pathname, search } = new URL(target, location.href);
    try {
      history[replace ? "replaceState" : "pushState"](null, "", target);
    } catch {
      // Some browsers allow so many a second; the view changes all the same.
    }
    setRoute(parse(pathname, search, served));
  };
  // Change some of the query; an empty value takes a key away.
  const choose = (changes) =>
    go(address(route.view, route.id, { ...route.query, ...changes }), { replace: true });
  return html`<${Route.Provider} value=${{ ...route, go, choose }}>${children}<//>`;
}

export function Link({ to, children, ...rest }) {
  const { go } = useRoute();
  const follow = (event) => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to);
  };
  return html`<a href=${to} onClick=${follow} ...${rest}>${children}</a>`;
}
