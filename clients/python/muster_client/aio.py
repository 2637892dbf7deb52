"""The asynchronous client, on the connections and credentials of `kubernetes.aio`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Generic, Self

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from muster_client.base import ObjectMeta
from muster_client.connections import Connections
from muster_client.decoding import MAX_BYTES, Lines, decode, metadata_of, read
from muster_client.groups import (
    PENDING,
    Event,
    G,
    GroupDeletedError,
    Outcome,
    ResponseTooLargeError,
    T,
    UnreadableResponseError,
    outcome,
)

Patch = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A mapping is a JSON merge patch; a sequence has the operations of a JSON patch."""

PAGE: Final = 256
"""Objects of a page of a list."""

WATCH_SECONDS: Final = 290
"""Seconds after which the API server ends a watch. The client then watches on."""

SILENT_SECONDS: Final = 60
"""Seconds without a byte, beyond those of a watch, after which a connection counts as lost."""

_MAX_PAUSE: Final = 30.0
"""Seconds between attempts to watch. Each pause is twice as long as the last one, up to this."""

_EXPIRED: Final = 410
_TRANSIENT: Final = frozenset({408, _EXPIRED, 429, 500, 502, 503, 504})
_log = logging.getLogger("muster_client")


class Client:
    """Workloads, PodGroups and CompositePodGroups of one API server.

    All methods raise `kubernetes.aio.client.ApiException` for responses of the server, aiohttp's
    errors for those of connections, the errors of `muster_client.groups`, and ValueError for names
    that no object has.
    """

    def __init__(
        self, api: ApiClient, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        """Use the connections of `api`."""
        self._api: Any = api
        self._sleep = sleep

    @classmethod
    async def connect(cls, kubeconfig: str | None = None, context: str | None = None) -> Self:
        """Return a client for the API server of a kubeconfig.

        Without arguments it is that of the pod's service account, else of the usual kubeconfig.
        Raises `kubernetes.aio.config.ConfigException`.
        """
        config: Any = Configuration()
        if kubeconfig is None and context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
            load_incluster_config(client_configuration=config)  # type: ignore[no-untyped-call]
        else:
            files = _existing(kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config")
            await load_kube_config(files, context, config)  # type: ignore[no-untyped-call]
        api = ApiClient(config)
        api.rest_client = Connections(config)
        return cls(api)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await self._api.close()

    async def get(self, kind: type[T], name: str, namespace: str) -> T:
        """Return an object."""
        return await self._object(kind, "GET", kind.resource.path(namespace, name))

    async def create(self, obj: T) -> T:
        """Create an object in the namespace of its metadata; return it as stored."""
        path = obj.resource.path(obj.metadata.namespace)
        return await self._object(type(obj), "POST", path, body=obj.to_json())

    async def patch(self, kind: type[T], name: str, namespace: str, changes: Patch) -> T:
        """Apply a merge patch (a mapping) or a JSON patch (a sequence); return the object."""
        form, body = "json-patch", changes
        if isinstance(changes, Mapping):
            form, body = "merge-patch", dict(changes)
        path, content_type = kind.resource.path(namespace, name), f"application/{form}+json"
        return await self._object(kind, "PATCH", path, body=body, content_type=content_type)

    async def delete(
        self, kind: type[T], name: str, namespace: str, *, uid: str | None = None
    ) -> None:
        """Delete an object; with a UID only the object that has it."""
        body = {"preconditions": {"uid": uid}} if uid else None
        await self._send("DELETE", kind.resource.path(namespace, name), body=body)

    async def list(
        self, kind: type[T], namespace: str | None = None, **selectors: str
    ) -> AsyncGenerator[T, None]:
        """Yield the objects of a namespace, or of all; log those that cannot be read.

        `selectors` are `label_selector` and `field_selector`.
        """
        async for items, _ in self._pages(_Collection(kind, namespace, **selectors)):
            for item in items:
                if found := read(kind, item):
                    yield found

    def watch(
        self, kind: type[T], namespace: str | None = None, **selectors: str
    ) -> AsyncGenerator[Event[T], None]:
        """Yield the existing objects as ADDED, and then each change.

        It goes on after the server ends the watch, after outages, and after an expired version,
        when it lists the objects again and yields the differences, deletions among them.
        """
        return self._follow(_Collection(kind, namespace, **selectors))

    async def wait_until_placed(
        self,
        kind: type[G],
        name: str,
        namespace: str,
        *,
        timeout: float,
        pending: Collection[str] = PENDING,
    ) -> Outcome[G]:
        """Wait until the scheduler places or refuses a group; return which, and the reason.

        The scheduler tries a refused group again when the cluster changes: with
        REASON_UNSCHEDULABLE in `pending` the wait goes on until then. Raises TimeoutError, and
        GroupDeletedError.
        """
        async with asyncio.timeout(timeout):
            first = await self.get(kind, name, namespace)
            if found := outcome(first, pending):
                return found
            of = _Collection(kind, namespace, field_selector=f"metadata.name={name}")
            of.version = first.metadata.resourceVersion
            of.known[first.metadata.uid] = first.metadata
            async with aclosing(self._follow(of)) as events:
                async for event in events:
                    if event.type == "DELETED":
                        break
                    if found := outcome(event.object, pending):
                        return found
        raise GroupDeletedError(f"{kind.__name__} {namespace}/{name}")

    async def _follow(self, of: _Collection[T]) -> AsyncGenerator[Event[T], None]:
        pause = 0.0
        while True:
            try:
                if not of.version:
                    pages = [page async for page in self._pages(of)]
                    for event in of.listed([item for items, _ in pages for item in items]):
                        yield event
                    of.version = pages[-1][1]
                async with aclosing(self._lines(of)) as lines:
                    async for line in lines:
                        change = of.changed(decode(line))
                        pause = 0.0
                        if change:
                            yield change
            except ApiException as error:
                if error.status not in _TRANSIENT:
                    raise
                of.version = "" if error.status == _EXPIRED else of.version
                _log.warning("watch %s again: %s", of.kind.__name__, error.reason)
            except (aiohttp.ClientError, OSError, UnreadableResponseError) as error:
                _log.warning("watch %s again: %s", of.kind.__name__, error)
            await self._sleep(pause)
            pause = min(max(0.25, pause * 2), _MAX_PAUSE)

    async def _lines(self, of: _Collection[T]) -> AsyncGenerator[bytes, None]:
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": of.version}
        query |= {"timeoutSeconds": str(WATCH_SECONDS)}
        seconds = WATCH_SECONDS + SILENT_SECONDS
        lines = Lines()
        async with self._open("GET", of.path, query=of.selectors | query, seconds=seconds) as body:
            async for chunk in body.iter_any():
                for line in lines.feed(chunk):
                    yield line

    async def _pages(self, of: _Collection[T]) -> AsyncIterator[tuple[Sequence[Any], str]]:
        """Yield the undecoded objects of each page, and the version of the collection."""
        limit, more = PAGE, ""
        while True:
            query = of.selectors | {"limit": str(limit)} | ({"continue": more} if more else {})
            try:
                page = decode(await self._send("GET", of.path, query=query))
            except ResponseTooLargeError:
                limit //= 2
                if limit == 0:
                    raise
                continue
            items, meta = page.get("items") or [], metadata_of(page)
            if not isinstance(items, list):
                raise UnreadableResponseError("the API server sent no list")
            yield items, meta.resourceVersion
            more = (meta.model_extra or {}).get("continue", "")
            if not more:
                return

    async def _object(self, kind: type[T], method: str, path: str, **request: Any) -> T:
        return kind.model_validate(decode(await self._send(method, path, **request)))

    async def _send(self, method: str, path: str, **request: Any) -> bytes:
        data = bytearray()
        async with self._open(method, path, **request) as body:
            async for chunk in body.iter_any():
                data += chunk
                if len(data) > MAX_BYTES:
                    raise ResponseTooLargeError(f"{method} {path}: more than {MAX_BYTES} bytes")
        return bytes(data)

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        seconds: float = SILENT_SECONDS,
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Send a request and yield the body of the response. Raises ApiException."""
        request = await self._api.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json", "Content-Type": content_type},
            body=body,
            auth_settings=["BearerToken"],
        )
        timeout = aiohttp.ClientTimeout(sock_connect=SILENT_SECONDS, sock_read=seconds)
        answer = await self._api.call_api(*request, _request_timeout=timeout)
        try:
            if not 200 <= answer.status <= 299:
                text = (await answer.response.content.read(MAX_BYTES)).decode(errors="replace")
                raise ApiException.from_response(http_resp=answer, body=text, data=None)
            yield answer.response.content
        finally:
            answer.response.close()


def _existing(files: str) -> str:
    """Return the paths of a kubeconfig. Raises ConfigException if none of them exists."""
    if any(Path(each).expanduser().is_file() for each in files.split(os.pathsep)):
        return files
    raise ConfigException(f"there is no kubeconfig {files}")


class _Collection(Generic[T]):
    """What is listed and watched: the version from which to watch, and the known objects."""

    def __init__(
        self,
        kind: type[T],
        namespace: str | None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> None:
        self.kind = kind
        self.path = kind.resource.path(namespace)
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self.selectors = {name: text for name, text in selectors.items() if text}
        self.version = ""
        self.known: dict[str, ObjectMeta] = {}

    def listed(self, items: Sequence[Any]) -> list[Event[T]]:
        """Return what changed since the objects were listed or watched."""
        there = {metadata_of(item).uid: item for item in items}
        before, self.known = self.known, {}
        # Deletions first: another object may have the name by now.
        gone = [metadata for uid, metadata in before.items() if uid not in there]
        events = [Event("DELETED", self.kind(metadata=metadata)) for metadata in gone]
        for uid, item in there.items():
            self.known[uid], old = metadata_of(item), before.get(uid)
            unchanged = old is not None and old.resourceVersion == self.known[uid].resourceVersion
            if not unchanged and (found := read(self.kind, item)):
                events.append(Event("MODIFIED" if old else "ADDED", found))
        return events

    def changed(self, event: Mapping[str, Any]) -> Event[T] | None:
        """Return the change in an event of the watch, if there is any. Raises ApiException."""
        kind, item = str(event.get("type")), event.get("object")
        if kind == "ERROR" and isinstance(item, Mapping):
            raise ApiException(status=item.get("code"), reason=item.get("message"))
        metadata = metadata_of(item)
        self.version = metadata.resourceVersion
        if kind == "BOOKMARK":
            return None
        found = read(self.kind, item)
        if kind == "DELETED":
            self.known.pop(metadata.uid, None)
            return Event(kind, found or self.kind(metadata=metadata))
        self.known[metadata.uid] = metadata
        return Event(kind, found) if found else None
