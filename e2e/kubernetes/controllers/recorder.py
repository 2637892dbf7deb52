"""Recorder of one flow: the actions on a namespace, and all subsequent changes in it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Self

from e2e.harness.support.rest import Answer, Rest, Watch
from e2e.kubernetes.controllers.normalise import Normaliser

Object = dict[str, Any]

# The Job controller batches pod changes for one second before it syncs a Job again.
QUIET_SECONDS = 2.0

PATHS = {
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets",
    "Job": "/apis/batch/v1/namespaces/{namespace}/jobs",
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "Event": "/api/v1/namespaces/{namespace}/events",
}


class Recorder:
    """Recorder of a namespace: each `step` acts, waits until nothing changes, and records.

    A step has: `action` and its `input`; `created` and `deleted` in the order of their revisions;
    `transitions`, the distinct statuses of each Job and JobSet (the number of observed counters
    depends on timing, the conditions do not); `events`, and `final`, the status (and the changing
    metadata) of every remaining object.
    """

    def __init__(self, rest: Rest, namespace: str) -> None:
        self._rest = rest
        self._namespace = namespace
        self._seen: list[tuple[int, str, Object]] = []
        self._changed = asyncio.Event()
        self._normal = Normaliser()
        self._live: dict[tuple[str, str], Object] = {}
        self._statuses: dict[tuple[str, str], Any] = {}
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self.steps: list[Object] = []

    def path(self, kind: str, name: str | None = None) -> str:
        path = PATHS[kind].format(namespace=self._namespace)
        return f"{path}/{name}" if name else path

    async def __aenter__(self) -> Self:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}}
        (await self._rest.post("/api/v1/namespaces", namespace)).ok()
        for kind in PATHS:
            watch = await self._stack.enter_async_context(self._rest.watch(self.path(kind)))
            self._tasks.append(asyncio.create_task(self._follow(kind, watch)))
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()
        await self._rest.delete(f"/api/v1/namespaces/{self._namespace}")

    async def _follow(self, kind: str, watch: Watch) -> None:
        while True:
            event = await watch.next(timeout=600)
            obj = event["object"]
            obj.setdefault("kind", kind)
            self._seen.append((int(obj["metadata"]["resourceVersion"]), event["type"], obj))
            self._changed.set()

    # Actions

    async def create(self, kind: str, manifest: Object) -> Answer:
        return await self._rest.post(self.path(kind), manifest)

    async def patch(self, kind: str, name: str, patch: Object) -> Answer:
        return await self._rest.patch(self.path(kind, name), patch)

    async def delete(self, kind: str, name: str, propagation: str = "Background") -> Answer:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        return await self._rest.delete(self.path(kind, name), options)

    async def pods(self, selector: str = "") -> list[Object]:
        answer = await self._rest.get(self.path("Pod"), params={"labelSelector": selector})
        pods: list[Object] = answer.ok()["items"]
        return pods

    async def bind(self, node: str, selector: str = "") -> None:
        """Bind every pod that has no node, as a scheduler would."""
        for pod in await self.pods(selector):
            meta = pod["metadata"]
            if pod["spec"].get("nodeName") or "deletionTimestamp" in meta:
                continue
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": meta["name"], "uid": meta["uid"]},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            }
            (await self._rest.post(f"{self.path('Pod', meta['name'])}/binding", binding)).ok()

    # Steps

    async def step(
        self,
        action: str,
        done: Callable[[], Awaitable[Any]],
        *,
        given: Object | None = None,
        until: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """Act, wait until nothing changes (and `until` is true), and record the result."""
        answer = await done()
        step: Object = {"action": action}
        if given is not None:
            step["input"] = given
        if isinstance(answer, Answer) and answer.status >= 400:
            step["refused"] = self._normal.value(answer.body)
        async with asyncio.timeout(60):
            await self._quiet()
            while until is not None and not await until():
                await self._quiet()
        self.steps.append({**step, **self._outcome()})

    async def _quiet(self) -> None:
        while True:
            self._changed.clear()
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _outcome(self) -> Object:
        seen, self._seen = sorted(self._seen, key=lambda entry: entry[0]), []
        outcome: Object = {"created": [], "deleted": [], "transitions": [], "events": []}
        for _, kind_of_event, obj in seen:
            if obj["kind"] == "Event":
                self._note_event(obj, outcome)
            else:
                self._note(kind_of_event, obj, outcome)
        outcome["final"] = [self._final(obj) for obj in self._live.values()]
        return {key: value for key, value in outcome.items() if value}

    def _note(self, kind_of_event: str, obj: Object, outcome: Object) -> None:
        key = (obj["kind"], obj["metadata"]["name"])
        if kind_of_event == "ADDED":
            self._normal.learn(obj)
            self._live[key] = obj
            outcome["created"].append(self._normal.value(obj))
        elif kind_of_event == "DELETED":
            del self._live[key]
            outcome["deleted"].append(f"{obj['kind']}/{self._normal.text(key[1])}")
        else:
            self._live[key] = obj
        if obj["kind"] in ("Job", "JobSet") and kind_of_event != "DELETED":
            status = self._normal.value(obj.get("status", {}))
            if status != self._statuses.get(key):
                self._statuses[key] = status
                outcome["transitions"].append({"object": "/".join(key), "status": status})

    def _note_event(self, event: Object, outcome: Object) -> None:
        about = event["involvedObject"]
        note = {
            "object": f"{about['kind']}/{self._normal.text(about['name'])}",
            "type": event["type"],
            "reason": event["reason"],
            "message": self._normal.text(event["message"]),
        }
        if note not in outcome["events"]:
            outcome["events"].append(note)

    def _final(self, obj: Object) -> Object:
        meta = obj["metadata"]
        final: Object = {
            "object": f"{obj['kind']}/{self._normal.text(meta['name'])}",
            "metadata": {
                key: self._normal.value(meta[key])
                for key in ("generation", "finalizers", "deletionTimestamp")
                if key in meta
            },
            "status": self._normal.value(obj.get("status", {})),
        }
        if obj["kind"] == "Job":
            final["suspend"] = obj["spec"].get("suspend")
        return final
