// The frame around the views: session, navigation, and whether the page is live.
import { get, onSessionEnd, post } from "./api.js";
import { html, render, useEffect, useLayoutEffect, useRef, useState } from "./lib.js";
import { useConnection } from "./live.js";
import { Login } from "./login.js";
import { MapView } from "./map/view.js";
import { Name, Note, Problem } from "./parts.js";
import { QueueView } from "./queue.js";
import { address, Link, Router, useRoute, VIEWS } from "./router.js";
import { WhatIfView } from "./what-if.js";
import { HistoryView } from "./history.js";
import { WorkloadView } from "./workload.js";
import { WorkloadsView } from "./workloads.js";

const TITLES = {
  map: "Cluster map",
  queue: "Queue",
  workloads: "Workloads",
  "what-if": "What if",
  history: "History",
  missing: "Page not found",
};
const SHOWN = { map: MapView, queue: QueueView, workloads: WorkloadsView, "what-if": WhatIfView, history: HistoryView };

function App() {
  const [session, setSession] = useState(undefined); // undefined: not known yet, null: none
  const [ended, setEnded] = useState(false);
  const [error, setError] = useState(null);
  const load = () =>
    get("session").then(
      (found) => (setError(null), setSession(found)),
      (failed) => (failed.status === 401 ? setSession(null) : setError(failed)),
    );
  useEffect(() => {
    onSessionEnd(() => setSession((before) => (before && setEnded(true), null)));
    load();
  }, []);
  useEffect(() => {
    if (!error) return undefined;
    const timer = setTimeout(load, 2000);
    return () => clearTimeout(timer);
  }, [error]);
  const leave = () => post("logout").catch(() => {}).then(() => (setEnded(false), setSession(null)));

  if (error && !session) return html`<main><${Problem} error=${error} /></main>`;
  if (session === undefined) return html`<main aria-busy="true"></main>`;
  if (session === null) return html`<${Login} ended=${ended} onSession=${load} />`;
  // A server that does not say what it serves, serves all.
  const served = session.views ?? VIEWS;
  return html`<${Router} served=${served}><${Frame} session=${session} served=${served} onLeave=${leave} /><//>`;
}

function Frame({ session, served, onLeave }) {
  const route = useRoute();
  const main = useRef(null);
  const first = useRef(true);
  const title = route.id ? route.id.split("/").at(-1) : TITLES[route.view];
  useLayoutEffect(() => {
    document.title = `${title} – Muster`;
    if (!first.current) main.current.focus({ preventScroll: true });
    if (!first.current) scrollTo(0, 0);
    first.current = false;
  }, [route.view, route.id]);
  const View = route.id ? WorkloadView : SHOWN[route.view];
  return html`<div class="frame">
    <a class="skip" href="#main">Skip to the content</a>
    <header class="bar">
      <${Link} to="/" class="brand"><img src="/static/icon.svg" alt="" /> Muster<//>
      <nav aria-label="Views"><${Views} now=${route.view} served=${served} /></nav>
      <${Who} session=${session} onLeave=${onLeave} />
    </header>
    <${LostNote} />
    <main id="main" ref=${main} tabindex="-1">
      ${View
        ? html`<${View} key=${route.view + (route.id ?? "")} session=${session} />`
        : html`<${Note}>There is no page at this address.<//>`}
    </main>
  </div>`;
}

function Views({ now, served }) {
  return html`<ul class="views">
    ${["map", "queue", "workloads", "what-if", "history"].filter((view) => served.includes(view)).map(
      (view) => html`<li key=${view}>
        <${Link} to=${address(view)} aria-current=${view === now ? "page" : undefined}>${TITLES[view]}<//>
      </li>`,
    )}
  </ul>`;
}

function Who({ session, onLeave }) {
  const { live, attempt, current } = useConnection();
  const lost = live ? !current : attempt > 0;
  const state = lost ? "lost" : live ? "live" : "";
  return html`<div class="who">
    <span class="link-state ${state}">${lost ? (live ? "Out of date" : "Not connected") : live ? "Live" : "Connecting"}</span>
    <${Name}>${session.user}<//>
    ${!session.local && html`<button class="quiet" onClick=${onLeave}>Log out</button>`}
  </div>`;
}

function LostNote() {
  const { live, attempt, current } = useConnection();
  const lost = !live && attempt > 0;
  return html`<div class="lost-note" role="status">${
    lost
      ? "The connection to the server is lost. The page may be out of date; it keeps trying to reconnect."
      : !current
        ? "The cluster's API server does not respond. The page shows the last known state, and updates when it responds."
        : ""
  }</div>`;
}

render(html`<${App} />`, document.getElementById("console"));
