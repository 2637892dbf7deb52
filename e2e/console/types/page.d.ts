// Types for the page's modules: the messages of the server's OpenAPI document, and its requests.
import type { components, paths } from "./openapi";

type Route<P extends string> = P extends `workloads/${string}/why`
  ? "/api/workloads/{namespace}/{kind}/{name}/why"
  : P extends `workloads/${string}/tree`
  ? "/api/workloads/{namespace}/{kind}/{name}/tree"
  : P extends `workloads/${string}`
    ? "/api/workloads/{namespace}/{kind}/{name}"
    : `/api/${P}`;
type Operation<P extends string, M extends string> = Route<P> extends keyof paths
  ? M extends keyof paths[Route<P>]
    ? paths[Route<P>][M]
    : never
  : never;
type Answer<O> = O extends { responses: { 200: { content: { "application/json": infer T } } } } ? T : unknown;
type Query<O> = O extends { parameters: { query?: infer Q } } ? { [K in keyof ([Q] extends [never] ? {} : Q)]?: unknown } : {};
type Body<O> = O extends { requestBody?: { content: { "application/json": infer T } } } ? T : never;

declare global {
  type Message<N extends keyof components["schemas"]> = components["schemas"][N];

  type Get = <P extends string>(
    path: P,
    query?: Query<Operation<P, "get">>,
    options?: { signal?: AbortSignal },
  ) => Promise<Answer<Operation<P, "get">>>;

  type Post = <P extends string>(
    path: P,
    body?: Body<Operation<P, "post">>,
    options?: { signal?: AbortSignal },
  ) => Promise<Answer<Operation<P, "post">>>;

  type Answered<T> = { data: T | null; error: any; loading: boolean; reload: () => void; setData: (change: (before: T) => T) => void };

  /** Functions that apply each event to the data; undefined fetches the data again. */
  type Events<T> = { [name: string]: (before: T, event: any) => T | undefined };

  // Preact's classic scripts set these.
  var preact: any;
  var preactHooks: any;
}
