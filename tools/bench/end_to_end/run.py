"""One measurement: a fresh control plane, the objects, one scheduler, and its cost."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from e2e.harness.controlplane.controlplane import ControlPlane
from tools.bench.end_to_end import claims, outcome, raw_rates, victims, workload_cluster
from tools.bench.end_to_end.cases import AS_MUSTER, RAW, Case, Victims
from tools.bench.end_to_end.changes import Changes
from tools.bench.end_to_end.fresh_cluster import SERVERS, fresh_cluster
from tools.bench.end_to_end.objects import NAMESPACE, PODS, Json
from tools.bench.end_to_end.observer import Seen, observed
from tools.bench.end_to_end.results import Result
from tools.bench.end_to_end.subjects import SUBJECTS, Subject
from tools.bench.end_to_end.usage import Meter, idle, peak_mib
from tools.bench.end_to_end.wire import Wire, WireError, request

_SETTLE = 20.0
"""Seconds after the last bind in which statuses and events still count."""
_EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITES = ("POST", "PUT", "PATCH", "DELETE", "APPLY")


async def measure(case: Case, subject: str) -> Result:
    """Measure one subject in one case. Raises WireError, BuildError, ProcessFailedError."""
    if subject in (RAW, AS_MUSTER):
        return await raw_rates.measure(case, subject)
    async with fresh_cluster(case) as (plane, wire):
        with _subject(subject, plane) as scheduler:
            return await _Run(case, subject, plane, wire, scheduler).measure()


@contextmanager
def _subject(name: str, plane: ControlPlane) -> Iterator[Subject]:
    scheduler = SUBJECTS[name](plane)
    try:
        yield scheduler
    finally:
        scheduler.stop()


class _Run:
    def __init__(
        self, case: Case, name: str, plane: ControlPlane, wire: Wire, subject: Subject
    ) -> None:
        self._case = case
        self._plane = plane
        self._wire = wire
        self._subject = subject
        self._flavour = subject.flavour
        self._created: dict[str, float] = {}
        self._changes = Changes(wire, case, subject.flavour)
        self._result = Result(case.name, name, case.nodes, case.pods, case.gangs)

    async def measure(self) -> Result:
        case, result = self._case, self._result
        await self._subject.prepare()
        await self._create_what_is_there()
        await idle(self._pids(ours=False).values())
        groups_path = self._flavour.groups_path if case.gangs else None
        async with self._plane.client() as rest, observed(rest, groups_path) as seen:
            writes = await self._writes()
            meter = Meter(self._pids())
            started = time.time()
            synced = await self._subject.start()
            result.start_seconds = round(synced - started, 2)
            if case.rate:
                await self._arrive()
            if case.steady:
                await self._come_and_go(seen)
            await self._changes.begin(seen)
            limit = synced + case.limit - time.time()
            await seen.until(lambda: len(seen.bound) >= result.pods, max(1.0, limit))
            result.cpu = meter.read(self._pids())
            await self._changes.end()
            result.writes = dict(await self._writes() - writes - self._own())
            result.memory = {name: round(peak_mib(pid)) for name, pid in self._pids().items()}
            await self._settle(seen)
            self._times(seen, synced)
            result.early = await self._early(seen)
            result.faults = await self._faults()  # last: it would delay what is timed
        return result

    async def _faults(self) -> list[str]:
        if self._case.claims is not None:
            return await outcome.complaints(self._wire)
        if self._case.suite or (self._case.gangs and not self._case.evicts):
            return await workload_cluster.complaints(
                self._wire, self._case, self._flavour, self._changes.nodes
            )
        return []

    def _pids(self, *, ours: bool = True) -> dict[str, int]:
        servers = {name: self._plane.processes[name].pid for name in SERVERS}
        own = {"bench": os.getpid()} if ours else {}
        return servers | self._subject.pids() | own

    async def _create_what_is_there(self) -> None:
        case = self._case
        if case.gangs:
            await self._groups_are_taken()
        if case.preemption:
            running = list(self._flavour.running(case))
            groups = [self._flavour.group(case, name, lower=True) for name, _ in running]
            await self._wire.post(self._flavour.groups_path, groups)
            await self._wire.post(PODS, [pod for _, pods in running for pod in pods])
        if case.victims is not None:
            await self._create_victims(case.victims)
        await workload_cluster.create(self._wire, case, self._flavour)
        if case.rate or case.steady or case.staged:
            return
        waiting = list(self._flavour.waiting(case))
        await self._create_groups(case, [name for name, _ in waiting if name])
        pods = [pod for _, pods in waiting for pod in pods]
        await self._wire.post(PODS, pods)
        if case.claims is not None:
            await claims.give(self._wire, case, [pod["metadata"]["name"] for pod in pods])

    async def _create_victims(self, those: Victims) -> None:
        await self._wire.post(PODS, list(victims.anchors(self._case)))
        if those.composite:
            case = replace(self._case, size=victims.GANG, composite=those.composite)
            names = {name.partition("-")[0] for name in victims.names(case)}
            await self._create_groups(case, sorted(names, key=lambda it: int(it[1:])), lower=True)
        await self._wire.post(PODS, list(self._flavour.victims(self._case)))
        if those.volumes:
            await workload_cluster.give_volumes(self._wire, self._case, "in-tree-volume")

    async def _create_groups(self, case: Case, names: list[str], *, lower: bool = False) -> None:
        """Create composite groups before the gangs in them."""
        if case.composite:
            lots = [names[at : at + case.composite] for at in range(0, len(names), case.composite)]
            roots = [self._flavour.composite(case, lot, lower=lower) for lot in lots]
            await self._wire.post(self._flavour.composites_path, roots)
        groups = [self._flavour.group(case, name, lower=lower) for name in names]
        await self._wire.post(self._flavour.groups_path, groups)

    async def _groups_are_taken(self) -> None:
        """Wait until groups are accepted: a webhook and a new priority class take effect late."""
        body = self._flavour.group(replace(self._case, composite=0), "asking")
        async with asyncio.timeout(30):
            while True:
                try:
                    await self._wire.post(f"{self._flavour.groups_path}?dryRun=All", [body])
                except WireError:
                    await asyncio.sleep(0.1)
                else:
                    return

    async def _arrive(self) -> None:
        """Create pods at the case's rate, each gang's group first; late ones follow at once."""
        case, started = self._case, time.time()
        async with asyncio.TaskGroup() as group:
            for number, (gang, pods) in enumerate(self._flavour.waiting(case)):
                await asyncio.sleep(started + number * case.size / case.rate - time.time())
                assert gang is not None
                group.create_task(self._create_gang(gang, pods))
        self._result.arrival_rate = round(case.pods / (time.time() - started), 1)

    async def _come_and_go(self, seen: Seen) -> None:
        """Create a few pods at a time and delete them, but the last; record each lot's wait."""
        case, result, lot, ends = self._case, self._result, 0, time.time() + self._case.steady
        assert case.claims is not None
        result.pods, names, waits = 0, list[str](), list[float]()
        while time.time() < ends:
            await claims.take_away(self._wire, names)
            names = [f"p{lot}-{index}" for index in range(case.size)]
            await self._wire.post(PODS, [self._flavour.pod(case, None, name) for name in names])
            await claims.give(self._wire, case, names)
            made = time.time()
            lot, result.pods = lot + 1, result.pods + case.size
            if not await seen.until(lambda: len(seen.bound) >= result.pods, case.limit):
                return
            waits.append(max(seen.bound[name] for name in names) - made)
        waits.sort()
        result.p50, result.p99 = (round(waits[len(waits) * of // 100], 3) for of in (50, 99))

    async def _create_gang(self, gang: str, pods: list[Json]) -> None:
        group = self._flavour.group(self._case, gang)
        access = self._wire.access
        await self._wire.call(request(access, "POST", self._flavour.groups_path, group))
        members = [request(access, "POST", PODS, pod) for pod in pods]
        await asyncio.gather(*map(self._wire.call, members))
        self._created[gang] = time.time()

    async def _writes(self) -> Counter[str]:
        """Return the completed writes, by resource; without those of leases."""
        found: Counter[str] = Counter()
        for line in (await self._wire.get("/metrics")).decode().splitlines():
            if line.startswith("apiserver_request_total{"):
                labels = dict(_LABEL.findall(line))
                if labels["verb"] in _WRITES and labels["resource"] != "leases":
                    what = (labels["resource"], labels["subresource"])
                    gone = ("delete",) if labels["verb"] == "DELETE" else ()
                    name = "/".join(filter(None, (*what, *gone)))
                    found[name] += int(float(line.rpartition(" ")[2]))
        return found

    def _own(self) -> Counter[str]:
        """Return our own writes while the scheduler worked."""
        case = self._case
        if case.steady:
            return self._of_coming_and_going()
        return Counter(
            {"pods": case.pods, "podgroups": case.gangs} if case.rate else self._changes.own
        )

    def _of_coming_and_going(self) -> Counter[str]:
        pods, gone = self._result.pods, max(0, self._result.pods - self._case.size)
        return Counter(
            {
                "pods": pods, "pods/status": pods, "pods/delete": gone,
                "resourceclaims": pods + gone, "resourceclaims/status": gone,
                "resourceclaims/delete": gone,
            }
        )  # fmt: skip

    async def _settle(self, seen: Seen) -> None:
        """Wait until every group is reported as scheduled and no more events arrive."""
        last = max(seen.bound.values(), default=time.time())
        ends = last + _SETTLE
        if self._case.gangs:
            whole = lambda: len(seen.scheduled) >= self._case.gangs  # noqa: E731
            await seen.until(whole, max(0.1, ends - time.time()))
        count, changed = await self._events(), time.time()
        while (now := time.time()) < ends and now - changed < 2.0:
            if (new := await self._events()) != count:
                count, changed = new, now
            await asyncio.sleep(0.25)
        self._result.events = count
        self._result.events_lag = round(max(0.0, changed - last), 2)

    async def _events(self) -> int:
        page = json.loads(await self._wire.get(f"{_EVENTS}?limit=1"))
        left: int = page["metadata"].get("remainingItemCount", 0)
        return len(page["items"]) + left

    async def _early(self, seen: Seen) -> int:
        """Return the writes besides Bindings, each until its own gang's last bind.

        Statuses of groups are counted by their watch. Events for a pod or gang that runs do not
        count, nor do deletions of Reservations: none of their pods was left to bind.
        """
        if not self._case.gangs:
            return self._result.others
        ends = _last_binds(seen)
        statuses = sum(when < ends.get(gang, 0.0) for gang, when in seen.told)
        found = json.loads(await self._wire.get(f"{_EVENTS}?limit=50000"))["items"]
        events = len([event for event in found if event["reason"] != "Scheduled"])
        later = {"podgroups/status", "events", "reservations/delete"}
        rest = sum(n for what, n in self._result.writes.items() if what not in later)
        return rest - self._result.writes.get("pods/binding", 0) + statuses + events

    def _times(self, seen: Seen, synced: float) -> None:
        result, times = self._result, seen.bound.values()
        result.bound = len(times)
        if not times:
            return
        # The probe of kube-scheduler's caches runs 20 times a second: it may bind before the
        # answer.
        result.first = round(max(0.0, min(times) - synced), 3)
        result.last = round(max(times) - synced, 3)
        result.rate = round(len(times) / (self._changes.seconds or max(times) - synced), 1)
        aside = self._case.victims is not None and self._case.victims.urgent
        if seen.ended and self._case.evicts and not aside:
            last = max(seen.ended.values())
            result.ended = len(seen.ended)
            result.evictions = round(len(seen.ended) / (last - synced), 1)
            result.after_last = round(max(times) - last, 3)
        ends = _last_binds(seen) if self._case.gangs else {}
        lags = [said - ends[gang] for gang, said in seen.scheduled.items() if gang in ends]
        if lags:
            result.status_lag = round(max(lags), 2)
            result.statuses = len(lags)
        waits = sorted(ends[gang] - made for gang, made in self._created.items() if gang in ends)
        if waits:
            result.p50 = round(waits[len(waits) // 2], 3)
            result.p99 = round(waits[len(waits) * 99 // 100], 3)


def _last_binds(seen: Seen) -> dict[str, float]:
    """Return when the last pod of each gang was bound, including incomplete gangs."""
    ends: dict[str, float] = {}
    for pod, when in seen.bound.items():
        gang = pod.rpartition("-")[0]
        ends[gang] = max(when, ends.get(gang, 0.0))
    return ends
