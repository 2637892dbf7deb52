"""An API server in memory, used by the methods of `kube.client.client.Client`.

It has kube-apiserver's rules about versions, UIDs, status, finalizers and grace periods, but no
schemas, defaults, admission or authorization. `test_memory_api.py` compares it with the embedded
cluster.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict, deque
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import unquote

import msgspec

from kube.base.clock import Clock, ServerClock, rfc3339
from kube.base.errors import AlreadyExists, ApiError, Conflict, Gone, Invalid, NotFound
from kube.client.client import JSON_PATCH, Client
from kube.client.meta import Json, Key
from kube.client.resources import Resource
from localcluster.base.errors import MODIFIED, StatusError
from localcluster.base.selectors import LabelSelector, parse_labels
from localcluster.patching.patch import json_patch, merge_patch
from tests.support.clock import FakeClock

WRITES: Final = frozenset(("create", "update", "patch", "delete"))
FOREVER: Final = 1 << 62

_HISTORY = 1000
"""Maximum number of a collection's events that a watch can resume over."""
_LEAVING_SECONDS = 1.0
"""Seconds that a pod takes to end, if its grace period is not shorter."""
_LARGEST = 1_500_000
"""Maximum size of an object in bytes, as in etcd."""
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_FINALIZERS: Final = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
"""Finalizers that let the garbage collector act before the deletion."""
_SERVER_SIDE: Final = ("metadata", "status")
_STAMPS: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


class Request(NamedTuple):
    """A request; `collection` is `pods` or `jobs.batch`, `verb` as in RBAC.

    `name` is that of the object, even for its creation.
    """

    verb: str
    collection: str
    namespace: str
    name: str
    subresource: str
    body: Any
    path: str
    content_type: str
    accept: str
    timeout: float


class Event(NamedTuple):
    """A change of an object as watches deliver it; `before` is None for a new object."""

    type: str
    collection: str
    version: int
    obj: Json
    before: Json | None
    raw: bytes

    def seen_by(self, selector: LabelSelector | None) -> str:
        """Return the type for a watch with this selector; empty if it does not see the change."""
        if selector is None:
            return self.type
        now = self.type != "DELETED" and _matches(selector, self.obj)
        before = self.before is not None and _matches(selector, self.before)
        return ("MODIFIED" if before else "ADDED") if now else "DELETED" if before else ""


Act = Callable[[Request], Awaitable[object] | object]


class Rule(NamedTuple):
    """An intervention in some of the requests. Its `act` may raise the response, and may wait."""

    act: Act
    takes: Callable[[Request], bool]
    answered: bool
    fails: bool


class _Stored(NamedTuple):
    obj: Json
    raw: bytes


@dataclass(eq=False)
class _Watcher:
    tell: Callable[[Event, str], None]
    selector: LabelSelector | None
    since: int


@dataclass
class _Collection:
    objects: dict[Key, _Stored] = field(default_factory=dict)
    history: deque[Event] = field(default_factory=lambda: deque(maxlen=_HISTORY))


@dataclass
class _Server:
    """The state that all clients of one server share."""

    collections: dict[str, _Collection] = field(default_factory=dict)
    version: int = 1
    clients: list[MemoryApi] = field(default_factory=list)
    on_gone: Callable[[Json], None] | None = None


class MemoryApi(Client):
    """A `Client` of a server in memory; `add`, `put`, `change` and `remove` act as users.

    `sent` lists the requests. Objects that it stores or returns are never changed in place. With
    `runs_pods` pods run as soon as they are bound. `served` are the kinds in discovery, `unserved`
    those not served, by full name; for the plurals in `no_right` a SelfSubjectAccessReview reports
    no permission.
    """

    def __init__(
        self, clock: Clock | None = None, *, served: Sequence[Resource] = (), runs_pods: bool = True
    ) -> None:
        self._clock = clock or FakeClock()
        self.server_clock = ServerClock(self._clock)
        self.sent: list[Request] = []
        self.rules: list[Rule] = []
        self.unserved: set[str] = set()
        self.no_right: set[str] = set()
        self.checks: dict[str, Callable[[Json, Json], None]] = {}
        """Validations of updates by the full name of the kind, from the object before and after."""
        self.runs_pods = runs_pods
        self.held_events: list[Event] = []
        self._holding: set[str] = set()
        self._watchers: defaultdict[str, list[_Watcher]] = defaultdict(list)
        self._served = served
        self._server = _Server(clients=[self])

    @property
    def server(self) -> str:
        return "memory"

    async def open_connections(self, connections: int) -> None:
        """Do nothing: there are no connections."""

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

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
        await asyncio.sleep(0)
        collection, namespace, name, subresource = _place(path)
        sent = msgspec.json.decode(body) if body else {}
        verb = _VERBS.get(method) or ("get" if name else "list")
        if verb == "create" and not name:
            name = sent.get("metadata", {}).get("name", "")
        request = Request(
            verb, collection, namespace, name, subresource, sent, path, content_type,
            accept or "", timeout,
        )  # fmt: skip
        self.sent.append(request)
        if self.rules:
            await self._apply_rules(request, answered=False)
        answer = self._answer(request, params or {})
        if self.rules:
            await self._apply_rules(request, answered=True)
        return answer

    async def watch_lines(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        inactivity: float | None = None,
        opened: Callable[[], None] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        collection, since = _place(path)[0], int(params["resourceVersion"])
        history = self._of(collection).history
        if len(history) == _HISTORY and history[0].version > since + 1:
            raise Gone(410, "Expired", f"too old resource version: {since}")
        queue: asyncio.Queue[bytes] = asyncio.Queue()

        def tell(event: Event, kind: str) -> None:
            queue.put_nowait(b'{"type":"%s","object":%s}' % (kind.encode(), event.raw))

        watcher = _Watcher(tell, _selector(params), since)
        for event in history:
            _tell(watcher, event)
        watcher.since = self._server.version
        self._watchers[collection].append(watcher)
        try:
            if opened is not None:
                opened()
            while True:
                yield await queue.get()
        finally:
            self._watchers[collection].remove(watcher)

    # What happens to requests and to events.

    def on(
        self,
        act: Act,
        *verbs: str,
        of: Resource | None = None,
        name: str | None = None,
        answered: bool = False,
        nth: int = 1,
        times: int = FOREVER,
        fails: bool = False,
    ) -> Rule:
        """Call `act` before such requests are carried out, or before their responses.

        It is called `times` times, from the `nth` of them on. The error that it raises is the
        response; with `answered` the request has been carried out by then. `recover` removes the
        rule if it `fails`.
        """
        collection, seen = of.full_name if of is not None else None, itertools.count(1)

        def takes(request: Request) -> bool:
            return (
                (not verbs or request.verb in verbs)
                and collection in (None, request.collection)
                and name in (None, request.name)
                and nth <= next(seen) < nth + times
            )

        rule = Rule(act, takes, answered, fails)
        self.rules.append(rule)
        return rule

    def fail(self, *errors: Exception, verbs: Sequence[str] = tuple(WRITES), **match: Any) -> Rule:
        """Fail the next writes with these errors in sequence, one each; `match` as for `on`."""
        left = itertools.cycle(errors)

        def act(_request: Request) -> NoReturn:
            raise next(left)

        return self.on(act, *verbs, fails=True, **{"times": len(errors)} | match)

    def recover(self) -> None:
        """Remove all failures."""
        self.rules = [rule for rule in self.rules if not rule.fails]

    def join(self, other: MemoryApi) -> None:
        """Use the server of another client; requests, rules and watches remain separate."""
        self.disconnect()
        self._server = other._server
        self._server.clients.append(self)

    def follow(
        self, resource: Resource, tell: Callable[[Event, str], None], selector: str = ""
    ) -> None:
        """Deliver each change, with its type, at once, unless events are delayed."""
        watcher = _Watcher(tell, _selector({"labelSelector": selector}), 0)
        self._watchers[resource.full_name].append(watcher)

    def disconnect(self) -> None:
        """Stop all deliveries."""
        self._server.clients.remove(self)

    def hold_events(self, *resources: Resource) -> None:
        """Delay the events of this client's watches, of these kinds or of all."""
        self._holding |= {it.full_name for it in resources} or {""}

    def release_events(self) -> None:
        """Deliver the delayed events in order, and stop delaying."""
        self._holding.clear()
        while self.held_events:
            self._take(self.held_events.pop(0))

    @property
    def holds_events(self) -> bool:
        """True from `hold_events` to `release_events`."""
        return bool(self._holding)

    def on_gone(self, act: Callable[[Json], None]) -> None:
        """Call `act` with every deleted object, for garbage collection."""
        self._server.on_gone = act

    # What tests see of the cluster, and do to it.

    def all(self, resource: Resource, namespace: str | None = None) -> list[Json]:
        """Return the objects of a kind."""
        found = self._of(resource.full_name).objects.items()
        return [stored.obj for key, stored in found if namespace in (None, key[0])]

    def stored(self, resource: Resource, name: str, namespace: str = "") -> Json | None:
        """Return a stored object, or None."""
        found = self._of(resource.full_name).objects.get((namespace, name))
        return found.obj if found is not None else None

    def view(self, resource: Resource, namespace: str = "") -> Objects:
        """Return copies of the objects of a kind by name; changes there produce no watch events."""
        return Objects(self, resource, namespace)

    def add(self, resource: Resource, obj: Json, namespace: str = "") -> Json:
        """Create an object. Raises ApiError: AlreadyExists, or for one that is too large."""
        raw = msgspec.json.encode(obj)
        if len(raw) > _LARGEST:
            raise ApiError(413, "RequestEntityTooLarge", f"{len(raw)} bytes")
        made = {"apiVersion": resource.api_version, "kind": resource.kind}
        return self._create(resource.full_name, namespace, made | msgspec.json.decode(raw)).obj

    def put(self, resource: Resource, obj: Json, namespace: str = "", *, told: bool = True) -> Json:
        """Store an object, new or not, and fill in missing fields.

        Without a UID it is another object of the same name. Unless `told`, no watch delivers it.
        """
        made = {"apiVersion": resource.api_version, "kind": resource.kind}
        obj = made | msgspec.json.decode(msgspec.json.encode(obj))
        meta = obj["metadata"]
        namespace = namespace or meta.get("namespace") or ""
        before = self.stored(resource, meta["name"], namespace)
        if before is not None and "uid" in meta:
            old = before["metadata"]
            meta.setdefault("creationTimestamp", old["creationTimestamp"])
            if meta.get("generation") in (None, old["generation"]):
                meta["generation"] = old["generation"] + _changes(obj, before)
        obj["metadata"] = self._stamps(meta["name"], namespace) | meta
        return self._store(resource.full_name, obj, told=told).obj

    def change(self, resource: Resource, name: str, patch: Json, namespace: str = "") -> Json:
        """Apply a merge patch to any part of an object. Raises ApiError: NotFound."""
        before = self._existing(resource.full_name, namespace, name).obj
        return self.put(resource, merge_patch(before, patch))

    @contextmanager
    def edit(self, resource: Resource, name: str, namespace: str = "") -> Iterator[Json]:
        """Yield an object to change in any part, and store it. Raises ApiError: NotFound."""
        obj: Json = msgspec.json.decode(self._existing(resource.full_name, namespace, name).raw)
        yield obj
        self.put(resource, obj)

    def remove(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        grace: int | None = None,
        propagation: str = "",
    ) -> None:
        """Delete an object; finalizers and grace periods count. Raises ApiError: NotFound."""
        collection = resource.full_name
        options = {"gracePeriodSeconds": grace, "propagationPolicy": propagation}
        self._delete(collection, options, self._existing(collection, namespace, name))

    def drop(
        self, resource: Resource, name: str, namespace: str = "", *, told: bool = True
    ) -> None:
        """Remove an object despite finalizers, so that no garbage collector notices."""
        found = self._of(resource.full_name).objects.pop((namespace, name))
        if told:
            self._server.version += 1
            self._tell("DELETED", resource.full_name, found, found.obj)

    def end_pods(self) -> None:
        """End pods that are being deleted, a second later or after their grace period."""
        now = self._clock.now()
        for stored in list(self._of("pods").objects.values()):
            meta = stored.obj["metadata"]
            if grace := meta.get("deletionGracePeriodSeconds"):
                left = timedelta(seconds=max(0.0, grace - _LEAVING_SECONDS))
                if datetime.fromisoformat(meta["deletionTimestamp"]) - left <= now:
                    meta = meta | {"deletionGracePeriodSeconds": 0}
                    self._store("pods", stored.obj | {"metadata": meta})

    # How requests are answered.

    async def _apply_rules(self, request: Request, *, answered: bool) -> None:
        for rule in list(self.rules):
            if rule.answered is answered and rule.takes(request):
                result = rule.act(request)
                if isinstance(result, Awaitable):
                    await result

    def _answer(self, request: Request, params: Mapping[str, str]) -> bytes:
        if not request.collection:
            return self._discover(request.path)
        if request.collection in self.unserved:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        if request.verb == "list":
            return self._list(request.collection, request.namespace, _selector(params))
        if request.collection.startswith("selfsubjectaccessreviews."):
            asked = request.body["spec"]["resourceAttributes"]
            allowed = asked["resource"] not in self.no_right
            return msgspec.json.encode(request.body | {"status": {"allowed": allowed}})
        stored = self._carry_out(request)
        if request.accept.startswith("application/json;as=PartialObjectMetadata"):
            return msgspec.json.encode({"metadata": stored.obj["metadata"]})
        return stored.raw

    def _carry_out(self, request: Request) -> _Stored:
        verb, collection, namespace, name, subresource, sent, *_ = request
        if verb == "create" and subresource == "binding":
            return self._bind(namespace, name, sent)
        if verb == "create":
            if collection != "nodes":
                sent.pop("status", None)
            return self._create(collection, namespace, sent)
        current = self._existing(collection, namespace, name)
        if verb == "update":
            return self._update(collection, subresource, sent, current)
        if verb == "patch":
            return self._patch(request, current)
        return self._delete(collection, sent, current) if verb == "delete" else current

    def _discover(self, path: str) -> bytes:
        if path == "/version":
            return b'{"major": "1", "minor": "36"}'
        names = [
            {"name": f"{it.plural}{sub}", "kind": it.kind}
            for it in self._served
            for sub in ("/status", "")
            if it.path().rpartition("/")[0] == path
        ]
        if self._served and not names:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        return msgspec.json.encode({"resources": names})

    def _list(self, collection: str, namespace: str, selector: LabelSelector | None) -> bytes:
        raws = [
            stored.raw
            for key, stored in self._of(collection).objects.items()
            if namespace in ("", key[0]) and (selector is None or _matches(selector, stored.obj))
        ]
        version = b'"resourceVersion":"%d"' % self._server.version
        return b'{"metadata":{%s},"items":[%s]}' % (version, b",".join(raws))

    def _create(self, collection: str, namespace: str, obj: Json) -> _Stored:
        meta = obj.setdefault("metadata", {})
        if not meta.get("name"):
            meta["name"] = f"{meta['generateName']}{self._server.version:05}"
        if (namespace, meta["name"]) in self._of(collection).objects:
            raise AlreadyExists(
                409, "AlreadyExists", f"{collection} {meta['name']}", name=meta["name"]
            )
        for stamp in _STAMPS:
            meta.pop(stamp, None)
        meta |= self._stamps(meta["name"], namespace)
        if collection == "pods":
            obj.setdefault("status", {"phase": "Pending"})
        return self._store(collection, obj)

    def _stamps(self, name: str, namespace: str) -> Json:
        uid, now = f"uid-{self._server.version}", rfc3339(self._clock.now())
        made = {"name": name, "uid": uid, "generation": 1, "creationTimestamp": now}
        return made | {"namespace": namespace} if namespace else made

    def _bind(self, namespace: str, name: str, sent: Json) -> _Stored:
        pod = self._existing("pods", namespace, name).obj
        meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
        if sent["metadata"].get("uid") not in (None, meta["uid"]):
            raise _conflict("pods", name, f"UID in precondition: {sent['metadata']['uid']}")
        if spec.get("nodeName"):
            raise _conflict("pods", name, f"it is already assigned to node {spec['nodeName']}")
        if meta.get("deletionTimestamp"):
            raise _conflict("pods", name, "it is being deleted, cannot be assigned to a host")
        others = [it for it in status.get("conditions") or () if it.get("type") != "PodScheduled"]
        now = rfc3339(self._clock.now())
        bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
        status = status | {"conditions": [*others, bound]}
        if self.runs_pods:
            status |= {"phase": "Running", "startTime": now}
        spec = spec | {"nodeName": sent["target"]["name"]}
        new = pod | {"metadata": dict(meta), "spec": spec, "status": status}
        return self._store("pods", new)

    def _update(self, collection: str, subresource: str, new: Json, current: _Stored) -> _Stored:
        meta, old = new["metadata"], current.obj["metadata"]
        if meta.get("uid") not in (None, "", old["uid"]):
            raise _conflict(collection, old["name"], f"UID in precondition: {meta['uid']}")
        if not meta.get("resourceVersion"):
            if _is_custom(collection):
                problem = "metadata.resourceVersion: must be specified for an update"
                raise Invalid(422, "Invalid", problem, name=old["name"])
            meta["resourceVersion"] = old["resourceVersion"]
        return self._write(collection, subresource, new, current)

    def _patch(self, request: Request, current: _Stored) -> _Stored:
        try:
            apply = json_patch if request.content_type == JSON_PATCH else merge_patch
            new = apply(msgspec.json.decode(current.raw), request.body)
        except StatusError as error:
            kind = Invalid if error.code == 422 else ApiError
            raise kind(error.code, error.reason, error.message) from error
        if new["metadata"].get("uid") != current.obj["metadata"]["uid"]:
            raise Invalid(422, "Invalid", "metadata.uid: field is immutable", name=request.name)
        return self._write(request.collection, request.subresource, new, current)

    def _write(self, collection: str, subresource: str, new: Json, current: _Stored) -> _Stored:
        """Store the result of a request, if it is based on the current version of the object."""
        meta, old = new["metadata"], current.obj["metadata"]
        if meta.get("resourceVersion") != old["resourceVersion"]:
            raise _conflict(collection, old["name"], MODIFIED)
        if subresource and _is_custom(collection):
            meta = dict(old)
        changed, kept = (new, current.obj) if subresource else (current.obj, new)
        new = {key: value for key, value in kept.items() if key != "status"} | {"metadata": meta}
        if "status" in changed:
            new["status"] = changed["status"]
        for stamp in _STAMPS:
            meta.pop(stamp, None)
        meta |= {stamp: old[stamp] for stamp in _STAMPS if stamp in old}
        added = set(meta.get("finalizers") or ()) - set(old.get("finalizers") or ())
        if added and old.get("deletionTimestamp"):
            problem = f"metadata.finalizers: Forbidden: no new finalizers can be added: {added}"
            raise Invalid(422, "Invalid", problem, name=old["name"])
        meta["generation"] = old["generation"] + _changes(new, current.obj)
        if new == current.obj:
            return current
        if check := self.checks.get(collection):
            check(current.obj, new)
        return self._store(collection, new)

    def _delete(self, collection: str, options: Json, current: _Stored) -> _Stored:
        meta = dict(current.obj["metadata"])
        wanted = options.get("preconditions") or {}
        for which in ("uid", "resourceVersion"):
            if wanted.get(which) not in (None, meta[which]):
                raise _conflict(collection, meta["name"], f"the {which} in the precondition")
        before = 0 if meta.get("deletionTimestamp") else None
        before = meta.get("deletionGracePeriodSeconds", before)
        grace = self._grace(collection, current.obj, options)
        if before is not None and grace >= before:
            return current
        until = self._clock.now() + timedelta(seconds=grace)
        if finalizer := _FINALIZERS.get(options.get("propagationPolicy") or ""):
            meta["finalizers"] = [*(meta.get("finalizers") or ()), finalizer]
        if before is None:
            meta["generation"] += 1
        meta["deletionTimestamp"] = rfc3339(until)
        meta["deletionGracePeriodSeconds"] = grace
        return self._store(collection, current.obj | {"metadata": meta})

    def _grace(self, collection: str, obj: Json, options: Json) -> int:
        """Return the grace period of the object in seconds: 0 unless it runs."""
        ended = (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if collection != "pods" or not obj["spec"].get("nodeName") or ended:
            return 0
        said = options.get("gracePeriodSeconds")
        grace = obj["spec"].get("terminationGracePeriodSeconds", 30) if said is None else said
        return max(0, int(grace))

    def _store(self, collection: str, obj: Json, *, told: bool = True) -> _Stored:
        """Store the object, or remove it if its deletion can complete; notify the watches."""
        server, objects = self._server, self._of(collection).objects
        server.version += 1
        meta = obj["metadata"]
        meta["resourceVersion"] = str(server.version)
        key = (meta.get("namespace") or "", meta["name"])
        stored = _Stored(obj, msgspec.json.encode(obj))
        before = objects.get(key)
        going = meta.get("deletionTimestamp") and not meta.get("finalizers")
        if going and not meta.get("deletionGracePeriodSeconds"):
            kind = "DELETED"
            objects.pop(key, None)
        else:
            kind = "ADDED" if before is None else "MODIFIED"
            objects[key] = stored
        if told:
            self._tell(kind, collection, stored, before.obj if before is not None else None)
        if kind == "DELETED" and server.on_gone is not None:
            server.on_gone(obj)
        return stored

    def _tell(self, kind: str, collection: str, stored: _Stored, before: Json | None) -> None:
        server = self._server
        event = Event(kind, collection, server.version, stored.obj, before, stored.raw)
        self._of(collection).history.append(event)
        for client in list(server.clients):
            client._take(event)

    def _take(self, event: Event) -> None:
        if self._holding and (event.collection in self._holding or "" in self._holding):
            self.held_events.append(event)
            return
        for watcher in list(self._watchers[event.collection]):
            _tell(watcher, event)

    def _existing(self, collection: str, namespace: str, name: str) -> _Stored:
        found = self._of(collection).objects.get((namespace, name))
        if found is None:
            raise NotFound(404, "NotFound", f'{collection} "{name}" not found', name=name)
        return found

    def _of(self, collection: str) -> _Collection:
        found = self._server.collections.get(collection)
        if found is None:
            found = self._server.collections[collection] = _Collection()
        return found


class Objects(MutableMapping[str, Json]):
    """The copies that `view` returns."""

    def __init__(self, api: MemoryApi, resource: Resource, namespace: str) -> None:
        self._api = api
        self._resource = resource
        self._namespace = namespace

    def __getitem__(self, name: str) -> Json:
        objects = self._api._of(self._resource.full_name).objects
        found: Json = msgspec.json.decode(objects[self._namespace, name].raw)
        return found

    def __setitem__(self, name: str, obj: Json) -> None:
        obj = obj | {"metadata": obj["metadata"] | {"name": name}}
        self._api.put(self._resource, obj, self._namespace, told=False)

    def __delitem__(self, name: str) -> None:
        self._api.drop(self._resource, name, self._namespace, told=False)

    def __iter__(self) -> Iterator[str]:
        found = self._api.all(self._resource, self._namespace)
        return iter([obj["metadata"]["name"] for obj in found])

    def __len__(self) -> int:
        return len(self._api.all(self._resource, self._namespace))


def _conflict(collection: str, name: str, why: str) -> Conflict:
    problem = f'Operation cannot be fulfilled on {collection} "{name}": {why}'
    return Conflict(409, "Conflict", problem, name=name)


def _is_custom(collection: str) -> bool:
    """Return True for a kind of a CRD, whose PUT needs a version and whose metadata is separate."""
    group = collection.partition(".")[2]
    return "." in group and (not group.endswith(".k8s.io") or group.endswith(".x-k8s.io"))


def _changes(new: Json, old: Json) -> bool:
    """Return True for a new generation: more than the metadata and the status differ."""
    keys = (new.keys() | old.keys()).difference(_SERVER_SIDE)
    return any(new.get(key) != old.get(key) for key in keys)


def _matches(selector: LabelSelector, obj: Json) -> bool:
    return selector.matches(obj["metadata"].get("labels"))


def _tell(watcher: _Watcher, event: Event) -> None:
    if event.version > watcher.since and (kind := event.seen_by(watcher.selector)):
        watcher.tell(event, kind)


@lru_cache(maxsize=10_000)
def _place(path: str) -> tuple[str, str, str, str]:
    """Return the collection, namespace, name and subresource of a URL path."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1:2], parts[3:])
    if not rest:
        return "", "", "", ""
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = [*rest, "", ""][:3]
    return ".".join((plural, *group)), namespace, name, subresource


def _selector(params: Mapping[str, str]) -> LabelSelector | None:
    text = params.get("labelSelector")
    return parse_labels(text) if text else None
