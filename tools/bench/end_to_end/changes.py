"""Changes of a cluster while a workload is scheduled: churn, or what its pods wait for."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from tools.bench.end_to_end import stage_changes, workload_objects
from tools.bench.end_to_end.cases import Case
from tools.bench.end_to_end.objects import NAMESPACE, PODS, Flavour, Json
from tools.bench.end_to_end.observer import Seen
from tools.bench.end_to_end.victims import preemptor
from tools.bench.end_to_end.wire import Wire, request
from tools.bench.end_to_end.workloads import Stage

_NODES = "/api/v1/nodes"
_OTHERS = "/api/v1/namespaces/default"
"""Namespace of objects that come and go, away from the pods whose binds are watched."""


class Changes:
    """The changes of one run. `nodes` are all that it created, some of which may be deleted.

    `own` counts its requests that change objects, by resource. `seconds` is the time of the pods of
    all stages, each from the first change for them to the last of their binds.
    """

    def __init__(self, wire: Wire, case: Case, flavour: Flavour) -> None:
        self._wire = wire
        self._case = case
        self._flavour = flavour
        self._stop = asyncio.Event()
        self._churning: asyncio.Task[None] | None = None
        self.nodes: list[Json] = []
        self.own: Counter[str] = Counter()
        self.seconds = 0.0

    async def begin(self, seen: Seen) -> None:
        """Let objects come and go until `end`; or run all stages."""
        victims, workload = self._case.victims, self._case.workload
        if victims is not None and victims.urgent:
            coming = self._come(victims.urgent, lambda name: preemptor(victims, name))
            self._churning = asyncio.create_task(coming)
        if workload is None:
            return
        if workload.arriving:
            kind = workload.blocks
            coming = self._come(
                workload.arriving, lambda name: workload_objects.pod(kind, name, NAMESPACE)
            )
            self._churning = asyncio.create_task(coming)
        if workload.churn:
            self._churning = asyncio.create_task(self._churn(workload.churn))
        if workload.stages:
            await self._stages(seen)

    async def end(self) -> None:
        """Stop the churn. Raises WireError if a request failed."""
        self._stop.set()
        if self._churning is not None:
            await self._churning

    async def _come(self, seconds: float, pod_of: Callable[[str], Json]) -> None:
        """Create pods one by one, and leave them there."""
        number = 0
        while not self._stop.is_set():
            pod = self._flavour.ours(pod_of(f"late-{number}"))
            await self._write("POST", f"{_OTHERS}/pods", pod)
            await self._pause(seconds)
            number += 1

    async def _churn(self, seconds: float) -> None:
        """Create a node, a pod that never fits, and a service; delete them after a while."""
        number = 0
        while not self._stop.is_set():
            things = self._things(number)
            for path, body in things:
                await self._write("POST", path, body)
            await self._pause(seconds)
            for path, body in things:
                await self._write("DELETE", f"{path}/{body['metadata']['name']}")
            await self._pause(seconds)
            number += 1

    def _things(self, number: int) -> list[tuple[str, Json]]:
        name = f"churn-{number}"
        node = workload_objects.coming(name)
        self.nodes.append(node)
        pod = self._flavour.ours(workload_objects.urgent(name))
        service = workload_objects.service(name)
        return [(_NODES, node), (f"{_OTHERS}/pods", pod), (f"{_OTHERS}/services", service)]

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return

    async def _write(self, method: str, path: str, body: Json | None = None) -> None:
        await self._wire.call(request(self._wire.access, method, path, body))
        what, gone = path.removeprefix(f"{_OTHERS}/").removeprefix("/api/v1/"), ""
        if method == "DELETE":
            what, gone = what.partition("/")[0], "/delete"
        self.own[f"{what}{gone}"] += 1
        if what == "services":
            self.own[f"ipaddresses{gone}"] += 1  # the API server writes one for each service

    async def _stages(self, seen: Seen) -> None:
        """Run each stage: its pods wait before its change, and run before the next begins."""
        case, bound = self._case, 0
        assert case.workload is not None
        lots = [pods for _, pods in self._flavour.waiting(case)]
        for number, (stage, pods) in enumerate(zip(case.workload.stages, lots, strict=True)):
            if stage.before:
                before = stage_changes.nodes(case, number, stage, stage.before)
                await self._post(_NODES, before)
            await self._post(PODS, stage_changes.given(case, number, stage))
            await self._post(PODS, pods)
            names = {pod["metadata"]["name"] for pod in pods}
            tried = lambda names=names: names <= seen.tried  # noqa: E731
            if not await seen.until(tried, case.limit):
                return  # no scheduler has reported that they wait
            begun, bound = time.time(), bound + len(pods)
            await self._change(number, stage, sorted(names))
            enough = lambda bound=bound: len(seen.bound) >= bound  # noqa: E731
            if not await seen.until(enough, case.limit):
                self.seconds += time.time() - begun
                return
            self.seconds += max(seen.bound[name] for name in names) - begun

    async def _change(self, number: int, stage: Stage, names: list[str]) -> None:
        """Send what the pods of these names wait for."""
        if stage.node:
            self.nodes += stage_changes.nodes(self._case, number, stage, stage.node)
        sent = stage_changes.needed(self._case, number, stage, names)
        await self._wire.send(each.request(self._wire.access) for each in sent)
        self.own.update(map(stage_changes.written, sent))

    async def _post(self, path: str, bodies: list[Json]) -> None:
        await self._wire.post(path, bodies)
        self.own[path.rpartition("/")[2]] += len(bodies)
