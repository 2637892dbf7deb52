// The page for those without a session: a token of the cluster, which is sent once and not kept.
import { post } from "./api.js";
import { html, useEffect, useRef, useState } from "./lib.js";

export function Login({ ended, onSession }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const field = useRef(null);
  useEffect(() => {
    document.title = "Log in – Muster";
    field.current.focus();
  }, []);
  const send = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await post("login", { token: field.current.value.trim() });
      field.current.value = "";
      await onSession();
    } catch (failed) {
      setError(failed);
      setBusy(false);
      field.current.select();
    }
  };
  return html`<main class="login">
    <form class="panel" onSubmit=${send}>
      <h1 class="brand"><img src="/static/icon.svg" alt="" /> Muster</h1>
      ${ended && html`<p role="status">Your session has ended. Log in to continue.</p>`}
      <p>Log in with a token of this cluster. You see what its owner may list, and nothing else.
        One of a service account: <code>kubectl create token NAME -n NAMESPACE</code>. On your own machine,
        open the address that <code>muster console</code> prints.</p>
      <label class="field">Token
        <input ref=${field} type="password" autocomplete="off" spellcheck=${false} required
          aria-invalid=${error ? "true" : undefined} aria-describedby=${error ? "login-error" : undefined} />
      </label>
      ${error && html`<p id="login-error" role="alert" class="problem">${error.message}</p>`}
      <button class="primary" disabled=${busy}>Log in</button>
    </form>
  </main>`;
}
