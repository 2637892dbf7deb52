// The libraries under the names that the views use. Preact's files are classic scripts, so that
// they can be served as the package has them: its modules import "preact" by a bare name, which
// would need an import map, and that an inline script.
import htm from "/static/vendor/htm/htm.module.js";

export const { h, render, Fragment, createContext } = globalThis.preact;
export const { useContext, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } =
  globalThis.preactHooks;
export const html = htm.bind(h);
