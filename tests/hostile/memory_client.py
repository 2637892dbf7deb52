"""An API server in memory, reached by the methods of `kube.client.Client`.

It keeps what is sent to it, without rules, defaults or rights: a fuzz of whole processes needs no
more, and gets thousands of requests a second. Pods that are bound run at once.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote

from kube.client import Client
from kube.clock import Clock, rfc3339
from kube.errors import ApiError, from_status
from kube.meta import Json
from localcluster.errors import StatusError
from localcluster.patch import copy, json_patch, merge_patch

_HISTORY = 1000
"""How many events of a collection a watch can begin behind."""
_LEAVING_SECONDS = 1.0
"""How long a pod takes to end, if its grace period lets it."""


_LARGEST = 1_500_000
"""Bytes of an object: what etcd takes at most."""


_SERVED: Json = {
    "v1": [{"name": "pods", "kind": "Pod"}, {"name": "secrets", "kind": "Secret"}],
    "apps/v1": [{"name": "statefulsets", "kind": "StatefulSet"}],
}
"""What discovery says: kinds that others use are not served by anything but their names."""


class _Place(NamedTuple):
    """What a URL path names: a collection, an object or its sub-resource."""

    collection: str
    namespace: str
    name: str
    subresource: str


class _Collection:
    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Json] = {}
        self.watchers: set[asyncio.Queue[bytes]] = set()
        self.history: deque[tuple[int, bytes]] = deque(maxlen=_HISTORY)


class MemoryClient(Client):
    """Use it where a `Client` is asked for; `put` and `take` change objects as users do."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._collections: dict[str, _Collection] = {}
        self._version = 1

    @property
    def server(self) -> str:
        return "memory"

    async def open_connections(self, connections: int) -> None:
        """There are none."""

    async def close(self) -> None:
        """There is nothing to close."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = 30,
        throttle_retries: int = 0,
        urgent: bool = False,
        largest: int | None = None,
        accept: str | None = None,
    ) -> bytes:
        await asyncio.sleep(0)
        if path == "/version":
            return b'{"major": "1", "minor": "36"}'
        if (api_version := _group_version(path)) is not None:
            return json.dumps({"resources": _SERVED.get(api_version, [])}).encode()
        place = _place(path)
        sent = json.loads(body) if body else {}
        return json.dumps(self._answer(method, place, sent, content_type)).encode()

    async def watch_lines(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        inactivity: float | None = None,
        opened: Callable[[], None] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        collection, since = self._of(_place(path).collection), int(params["resourceVersion"])
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        for version, line in collection.history:
            if version > since:
                queue.put_nowait(line)
        collection.watchers.add(queue)
        try:
            if opened is not None:
                opened()
            while True:
                yield await queue.get()
        finally:
            collection.watchers.discard(queue)

    def all(self, plural: str, namespace: str | None = None) -> list[Json]:
        """The objects of a collection, `pods` or `jobs.batch`."""
        objects = self._of(plural).objects
        return [obj for key, obj in objects.items() if namespace in (None, key[0])]

    def put(self, plural: str, obj: Json, namespace: str = "") -> Json:
        """Create an object. Raises ApiError: AlreadyExists, or for one that is too large."""
        text = json.dumps(obj)
        if len(text) > _LARGEST:
            raise self._error(413, "RequestEntityTooLarge", f"{len(text)} bytes")
        return self._create(_Place(plural, namespace, "", ""), json.loads(text))

    def change(self, plural: str, namespace: str, name: str, patch: Json) -> Json:
        """Apply a merge patch. Raises ApiError: NotFound."""
        place = _Place(plural, namespace, name, "")
        return self._patch(place, patch, "application/merge-patch+json")

    def take(self, plural: str, namespace: str, name: str, grace: int | None = None) -> None:
        """Delete an object; finalizers and grace periods count. Raises ApiError: NotFound."""
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        self._delete(_Place(plural, namespace, name, ""), options)

    def end_pods(self) -> None:
        """What a kubelet does: pods that are being deleted end, if their time has come."""
        now = self._clock.now()
        for obj in self.all("pods"):
            moment = obj["metadata"].get("deletionTimestamp")
            if moment and datetime.fromisoformat(moment) <= now + timedelta(_LEAVING_SECONDS):
                obj["metadata"]["deletionGracePeriodSeconds"] = 0
                self._store("pods", obj)

    def _answer(self, method: str, place: _Place, sent: Any, content_type: str) -> Json:
        if method == "GET":
            return self._get(place)
        if method == "POST" and place.subresource == "binding":
            return self._bind(place, sent)
        if method == "POST":
            return self._create(place, sent)
        if method == "PUT":
            return self._replace(place, sent)
        if method == "PATCH":
            return self._patch(place, sent, content_type)
        return self._delete(place, sent)

    def _get(self, place: _Place) -> Json:
        if place.name:
            return self._existing(place)
        found = self._of(place.collection).objects.items()
        items = [obj for key, obj in found if place.namespace in ("", key[0])]
        return {"metadata": {"resourceVersion": str(self._version)}, "items": items}

    def _create(self, place: _Place, obj: Json) -> Json:
        if place.collection.startswith("selfsubjectaccessreviews."):
            return obj | {"status": {"allowed": True}}
        meta = obj.setdefault("metadata", {})
        name = meta.get("name") or f"{meta['generateName']}{self._version:05}"
        key = (place.namespace, name)
        if key in self._of(place.collection).objects:
            raise self._error(409, "AlreadyExists", f"{place.collection} {name}")
        stamps = {"uid": f"uid-{self._version}", "generation": 1, "name": name}
        meta |= stamps | {"creationTimestamp": rfc3339(self._clock.now())}
        if place.namespace:
            meta["namespace"] = place.namespace
        if place.collection == "pods":
            obj.setdefault("status", {"phase": "Pending"})
        return self._store(place.collection, obj)

    def _bind(self, place: _Place, sent: Json) -> Json:
        pod = copy(self._existing(place._replace(subresource="")))
        if pod["spec"].get("nodeName"):
            raise self._error(409, "Conflict", "already bound")
        if sent["metadata"].get("uid") not in (None, pod["metadata"]["uid"]):
            raise self._error(409, "Conflict", "another pod of that name")
        pod["spec"]["nodeName"] = sent["target"]["name"]
        pod["status"] |= {"phase": "Running", "startTime": rfc3339(self._clock.now())}
        return self._store("pods", pod)

    def _replace(self, place: _Place, obj: Json) -> Json:
        current = self._existing(place)
        said = obj["metadata"].get("resourceVersion")
        if said and said != current["metadata"]["resourceVersion"]:
            raise self._error(409, "Conflict", "it changed")
        return self._store(place.collection, self._kept(obj, current))

    def _patch(self, place: _Place, sent: Any, content_type: str) -> Json:
        current = self._existing(place._replace(subresource=""))
        apply = json_patch if "json-patch" in content_type else merge_patch
        try:
            new = apply(copy(current), sent)
        except StatusError as error:
            raise self._error(error.code, error.reason, error.message) from error
        if new["metadata"]["resourceVersion"] != current["metadata"]["resourceVersion"]:
            raise self._error(409, "Conflict", "it changed")
        return self._store(place.collection, self._kept(new, current))

    def _kept(self, new: Json, current: Json) -> Json:
        """The new form, with what the server alone decides."""
        before = current["metadata"]
        same = new.get("spec") == current.get("spec")
        new["metadata"] |= {
            "uid": before["uid"], "generation": before["generation"] + (not same),
        }  # fmt: skip
        return new

    def _delete(self, place: _Place, options: Json) -> Json:
        obj = copy(self._existing(place))
        meta = obj["metadata"]
        wanted = (options.get("preconditions") or {}).get("uid")
        if wanted not in (None, meta["uid"]):
            raise self._error(409, "Conflict", "another object of that name")
        grace = self._grace(place, obj, options)
        until = self._clock.now() + timedelta(seconds=grace)
        meta["deletionTimestamp"] = rfc3339(until)
        meta["deletionGracePeriodSeconds"] = grace
        return self._store(place.collection, obj)

    def _grace(self, place: _Place, obj: Json, options: Json) -> int:
        """As the API server: never longer than before; none for what runs nowhere."""
        if place.collection != "pods" or not obj["spec"].get("nodeName"):
            return 0
        said = options.get("gracePeriodSeconds")
        grace = obj["spec"].get("terminationGracePeriodSeconds", 30) if said is None else said
        before = obj["metadata"].get("deletionGracePeriodSeconds")
        grace = max(0, int(grace))
        return grace if before is None else min(grace, int(before))

    def _store(self, collection: str, obj: Json) -> Json:
        """Keep it, or take it out if nothing holds it any more; tell the watches."""
        self._version += 1
        meta = obj["metadata"]
        meta["resourceVersion"] = str(self._version)
        key = (meta.get("namespace", ""), meta["name"])
        place = self._of(collection)
        going = "deletionTimestamp" in meta and not meta.get("finalizers")
        gone = going and not meta.get("deletionGracePeriodSeconds")
        kind = "DELETED" if gone else "MODIFIED" if key in place.objects else "ADDED"
        if gone:
            place.objects.pop(key, None)
        else:
            place.objects[key] = obj
        line = json.dumps({"type": kind, "object": obj}).encode()
        place.history.append((self._version, line))
        for queue in place.watchers:
            queue.put_nowait(line)
        return obj

    def _existing(self, place: _Place) -> Json:
        found = self._of(place.collection).objects.get((place.namespace, place.name))
        if found is None:
            raise self._error(404, "NotFound", f"{place.collection} {place.name}")
        return found

    def _of(self, collection: str) -> _Collection:
        return self._collections.setdefault(collection, _Collection())

    def _error(self, code: int, reason: str, message: str) -> ApiError:
        status = {"kind": "Status", "code": code, "reason": reason, "message": message}
        return from_status(json.dumps(status).encode(), status=code)


def _group_version(path: str) -> str | None:
    """The group and version that discovery is asked for."""
    parts = path.strip("/").split("/")
    return "/".join(parts[1:]) if len(parts) == (2 if parts[0] == "api" else 3) else None


def _place(path: str) -> _Place:
    parts = [unquote(part) for part in path.strip("/").split("/")]
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = [*rest, "", ""][:3]
    return _Place(f"{plural}.{group}" if group else plural, namespace, name, subresource)
