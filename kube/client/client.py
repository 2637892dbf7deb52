"""One API server over one pool of connections: bytes in, bytes out.

This is the hot path, so it does without the official client's models: requests use the pool of
`kube.client.connections` (through a proxy: aiohttp), watches aiohttp. Nothing is retried here: a
caller whose response was lost (`Unreachable`) must know it, since the write may have happened. A
caller that retries waits as `kube.concurrency.backoff` computes, which respects `Retry-After`.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

import aiohttp
import msgspec
from prometheus_client import Counter
from yarl import URL

from kube.base.clock import Clock, ServerClock, SystemClock
from kube.base.errors import (
    Gone,
    ProtocolError,
    Silent,
    TooLarge,
    Unauthorized,
    Unreachable,
    from_status,
)
from kube.base.metrics import API_REQUESTS
from kube.client.connections import ConnectionPool, Response, ResponseTooLarge
from kube.client.decoding import decode_deep
from kube.client.meta import Json
from kube.client.open_sockets import OpenSockets
from kube.client.patch import Operation, PatchBuilder
from kube.client.proxied import ProxiedPool
from kube.client.resources import PODS, Resource
from kube.client.watch_session import watch_session
from kube.credentials.loading import ClientConfig, load
from kube.credentials.rest_config import RestConfig

JSON_PATCH = "application/json-patch+json"
_PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
CONNECTIONS = 608
"""Requests in flight by default: more than a process ever has at once, so that none waits."""
_PAGE_SIZE = 500
"""Objects of one page of a list."""

_CREDENTIALS_SECONDS = 60.0
"""Seconds after which the token is read again."""

_CREDENTIALS_SECONDS_AFTER_FAILURE = 1.0
"""Seconds until the next read of the token after a failed one."""

_REPORTED_SECONDS = 10.0
"""Seconds without any response after which `/readyz` reports the API server."""

_CONNECT_SECONDS = 10.0
"""Seconds that a connection may take to open. Then the request fails."""

# A watch line is one object. etcd takes 1.5 MiB of protobuf, whose JSON can be five times as long.
_LONGEST_LINE = 16 * 1024 * 1024
"""Bytes of one watch event. The watch ends at a longer one."""

_object = msgspec.json.Decoder(dict[str, Any])


class Client:
    """A connection pool to one API server; use it as an async context manager or `close` it.

    All methods raise the errors of `kube.base.errors`; cancelling one drops its connection.
    """

    def __init__(
        self,
        rest_config: RestConfig,
        *,
        user_agent: str = "muster",
        connections: int = CONNECTIONS,
        clock: Clock | None = None,
    ) -> None:
        """Open no connection yet; `connections` bounds the requests in flight, except watches."""
        self._config = rest_config
        where = urlsplit(rest_config.server)
        self._origin, self._base = f"{where.scheme}://{where.netloc}", where.path.rstrip("/")
        self._clock = clock or SystemClock()
        self.server_clock = ServerClock(self._clock)
        """The time of day as the server's responses report it."""
        # identity: compressing lists within one network costs both sides more than it saves.
        self._headers = {
            "User-Agent": user_agent,
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        self._authorization_due = float("-inf")
        self._unreachable_since: float | None = None
        self._problem = ""
        # Watches hold a connection for minutes, so they have a pool of their own, without limit.
        self._calls = self._pool(connections)
        # The lease is renewed by these: it must not wait behind other requests.
        self._urgent = self._pool(0)
        self._watch_sockets = OpenSockets()
        self._watches = watch_session(rest_config, self._watch_sockets)

    @classmethod
    async def connect(
        cls,
        config: str | Path | ClientConfig | None = None,
        *,
        user_agent: str = "muster",
        connections: int = CONNECTIONS,
    ) -> Self:
        """Read the configuration (see `kube.credentials.loading.load`) and open the pool.

        No request is made yet. Raises ConfigError.
        """
        rest_config = await load(config)
        return cls(rest_config, user_agent=user_agent, connections=connections)

    @property
    def server(self) -> str:
        """The base URL of the API server."""
        return self._config.server

    @property
    def namespace(self) -> str:
        """The namespace of the kubeconfig's context, or of the pod we run in; else `default`."""
        return self._config.namespace

    def details(self) -> Iterator[str]:
        """Yield a line for `/readyz` while the API server responds to no request at all."""
        if self._unreachable_since is None:
            return
        seconds = self._clock.monotonic() - self._unreachable_since
        if seconds >= _REPORTED_SECONDS:
            yield f"no response from {self.server} for {seconds:.0f} s: {self._problem}"

    async def open_connections(self, connections: int) -> None:
        """Open so many connections before they are needed: handshakes are costly on both sides.

        Raises Unreachable.
        """
        try:
            await self._calls.open(connections)
        except OSError as error:
            raise Unreachable("CONNECT", "/", _error_text(error)) from error

    async def close(self) -> None:
        """Close all connections; running requests fail."""
        await self._calls.close()
        await self._urgent.close()
        await self._watches.close()
        await self._watch_sockets.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = 30,
        urgent: bool = False,
        largest: int | None = None,
        accept: str | None = None,
    ) -> bytes:
        """Send one request and return the body of a 2xx response.

        `path` starts with `/` and is already escaped; `timeout` bounds the request in seconds,
        including the wait for a free connection; `urgent` requests never wait for one; `accept` is
        the form of the response, where it is not the object as JSON. Raises ApiError and its kinds,
        Unreachable, TooLarge beyond `largest` bytes.
        """
        response = await self._exchange(
            self._urgent if urgent else self._calls,
            method,
            f"{path}?{urlencode(params)}" if params else path,
            body=body,
            content_type=content_type,
            timeout=timeout,
            largest=largest,
            accept=accept,
        )
        return response.body

    async def behind(self, path: str, *, timeout: float, largest: int) -> Response:
        """Return the 2xx response of a process behind the API server's proxy, in any form.

        Its headers are that process's own, and so is its Date: the server's clock ignores it.
        Raises like `request`.
        """
        return await self._exchange(
            self._calls, "GET", path, timeout=timeout, largest=largest, accept="*/*", own=False
        )

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        """Return one object. Raises NotFound."""
        return _decode(await self.request("GET", resource.path(namespace, name)))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> Json:
        """Return the complete list, all pages; `metadata` is that of the last page.

        A list whose history expired between two pages is read again in one piece.
        """
        params = selectors(label_selector, field_selector) | {"limit": str(_PAGE_SIZE)}
        path = resource.path(namespace)
        items: list[Json] = []
        while True:
            try:
                page = _decode(await self.request("GET", path, params=params))
            except Gone:
                if "continue" not in params:
                    raise
                items.clear()
                params = selectors(label_selector, field_selector)
                continue
            items += page.get("items") or []
            token = page.get("metadata", {}).get("continue")
            if not token:
                return page | {"items": items}
            params["continue"] = token

    async def create(
        self,
        resource: Resource,
        obj: Json,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
    ) -> Json:
        """Create an object and return it as stored. Raises AlreadyExists, Invalid, Forbidden.

        Without `namespace` the object's own counts.
        """
        if resource.namespaced and not namespace:
            namespace = obj.get("metadata", {}).get("namespace")
            if not namespace:
                raise ValueError(f"{resource.full_name}: namespace is required to create one")
        params = {"dryRun": "All"} if dry_run else None
        path = resource.path(namespace)
        return _decode(
            await self.request("POST", path, params=params, body=msgspec.json.encode(obj))
        )

    async def replace(self, resource: Resource, obj: Json) -> Json:
        """Replace an object that was read completely, as a dict; 409 if it changed in between.

        Never use it for a typed object: that would drop the fields it does not know.
        """
        meta = obj["metadata"]
        path = resource.path(meta.get("namespace"), meta["name"])
        return _decode(await self.request("PUT", path, body=msgspec.json.encode(obj)))

    async def patch(
        self,
        resource: Resource,
        name: str,
        ops: PatchBuilder | Sequence[Operation],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Json:
        """Apply a JSON patch and return the object. Raises NotFound, Conflict, Invalid."""
        return _decode(
            await self.patch_unread(resource, name, ops, namespace, subresource=subresource)
        )

    async def patch_unread(
        self,
        resource: Resource,
        name: str,
        ops: PatchBuilder | Sequence[Operation],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> bytes:
        """Apply a JSON patch and return the object as bytes, for callers with a type for it."""
        body = ops.encode() if isinstance(ops, PatchBuilder) else msgspec.json.encode(ops)
        path = resource.path(namespace, name, subresource)
        return await self.request("PATCH", path, body=body, content_type=JSON_PATCH)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        propagation: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete one object; it may exist until its finalizers are removed.

        `uid` protects another object of the name (409 Conflict); `propagation` is Foreground,
        Background or Orphan. Raises NotFound, Conflict.
        """
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        path = resource.path(namespace, name)
        body = msgspec.json.encode(options)
        # No caller reads the deleted object: its metadata is less to write and to send.
        await self.request("DELETE", path, body=body, accept=_PARTIAL)

    async def bind(self, namespace: str, pod: str, uid: str, node: str) -> None:
        """Bind a pod to a node. Raises Conflict (bound or replaced already), NotFound."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        body = msgspec.json.encode(binding)
        await self.request("POST", PODS.path(namespace, pod, "binding"), body=body)

    async def watch_lines(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        inactivity: float | None = None,
        opened: Callable[[], None] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the lines of one watch stream until the server ends it.

        `params` are passed by the caller, `watch` included. After `inactivity` seconds without a
        byte the stream counts as lost; `opened` is called once the server has accepted the request.
        Raises ApiError kinds, Unreachable, Silent after `inactivity`, ProtocolError. Close it
        (`contextlib.aclosing`) when leaving early.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_SECONDS, sock_read=inactivity
        )
        await self._renew_authorization()
        accepted = False
        try:
            async with self._watches.get(
                URL(f"{self.server}{path}?{urlencode(params)}", encoded=True),
                headers=self._headers,
                timeout=timeout,
                server_hostname=self._config.server_name,
                ssl=True if self._config.tls is None else self._config.tls.context,
            ) as response:
                self._count_response("WATCH", response.status)
                if response.status >= 400:
                    after = response.headers.get("Retry-After")
                    failure = Response(response.status, await response.read(), after)
                    raise self._error_of("WATCH", path, failure)
                accepted = True
                if opened is not None:
                    opened()
                begun: list[bytes] = []  # of the next line; joined once, however many they are
                async for chunk in response.content.iter_any():
                    begun.append(chunk)
                    if b"\n" in chunk:
                        *lines, rest = b"".join(begun).split(b"\n")
                        begun = [rest]
                        for line in lines:
                            yield line
                    if sum(map(len, begun)) > _LONGEST_LINE:
                        problem = f"a line of more than {_LONGEST_LINE} bytes"
                        raise ProtocolError(f"WATCH {path}: {problem}")
                if rest := b"".join(begun):
                    yield rest
        except (aiohttp.ClientError, OSError) as error:
            # Before the server accepted the watch, silence means that it is not reachable.
            if accepted and isinstance(error, aiohttp.SocketTimeoutError):
                raise Silent("WATCH", path, _error_text(error)) from error
            raise self._unreachable("WATCH", path, error) from error

    async def _exchange(
        self,
        pool: ConnectionPool | ProxiedPool,
        method: str,
        target: str,
        *,
        timeout: float,
        largest: int | None,
        accept: str | None,
        body: bytes | None = None,
        content_type: str = "",
        own: bool = True,
    ) -> Response:
        """Return a 2xx response; `own` if the API server itself responds."""
        await self._renew_authorization()
        headers = self._headers
        if accept is not None:
            headers = {**headers, "Accept": accept}
        if body is not None:
            headers = {**headers, "Content-Type": content_type}
        path = target.partition("?")[0]
        try:
            response = await pool.exchange(
                method, self._base + target, headers, body, timeout, largest=largest
            )
        except ResponseTooLarge as error:
            raise TooLarge(f"{method} {path}: {error}") from error
        except OSError as error:
            raise self._unreachable(method, path, error) from error
        self._count_response(method, response.status)
        if own:
            self.server_clock.heard(response.date)
        if response.status >= 400:
            raise self._error_of(method, path, response)
        return response

    def _count_response(self, method: str, status: int) -> None:
        _counter(method, status).inc()
        self._unreachable_since = None

    def _unreachable(self, method: str, path: str, error: BaseException) -> Unreachable:
        """Return the error for a request without a response.

        Certificates may have been rotated: credentials are read again soon.
        """
        _counter(method, 0).inc()
        now = self._clock.monotonic()
        self._authorization_due = min(
            self._authorization_due, now + _CREDENTIALS_SECONDS_AFTER_FAILURE
        )
        self._problem = _error_text(error)
        if self._unreachable_since is None:
            self._unreachable_since = now
        return Unreachable(method, path, self._problem)

    def _error_of(self, method: str, path: str, response: Response) -> Exception:
        error = from_status(
            response.body,
            status=response.status,
            method=method,
            path=path,
            retry_after=_seconds(response.retry_after),
        )
        if isinstance(error, Unauthorized):
            # The credentials may have been replaced early: read them again before the next request.
            self._authorization_due = float("-inf")
        return error

    async def _renew_authorization(self) -> None:
        if self._clock.monotonic() < self._authorization_due:
            return
        value = await self._config.authorization()
        if value is not None:
            self._headers["Authorization"] = value
        if self._config.tls is not None:
            self._config.tls.renew()
        self._authorization_due = self._clock.monotonic() + _CREDENTIALS_SECONDS

    def _pool(self, limit: int) -> ConnectionPool | ProxiedPool:
        """Return a pool; `limit` 0 means no limit."""
        to = self._config
        if to.proxy is not None:
            return ProxiedPool(self._origin, to.tls, to.proxy, limit=limit)
        return ConnectionPool(self._origin, to.tls, server_name=to.server_name, limit=limit)


def selectors(label_selector: str | None, field_selector: str | None) -> dict[str, str]:
    """Return the query parameters of a filtered list or watch."""
    params = {}
    if label_selector:
        params["labelSelector"] = label_selector
    if field_selector:
        params["fieldSelector"] = field_selector
    return params


@cache
def _counter(method: str, code: int) -> Counter:
    return API_REQUESTS.labels(method, str(code or "<error>"))


def _decode(body: bytes) -> Json:
    """Decode a complete object, however many levels it has."""
    return decode_deep(_object.decode, body)


def _seconds(header: str | None) -> float | None:
    """Return the seconds form of Retry-After, the only one that Kubernetes sends."""
    return float(header) if header is not None and header.isdigit() else None


def _error_text(error: BaseException) -> str:
    return str(error) or type(error).__name__
