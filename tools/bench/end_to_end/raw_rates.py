"""The raw rates: what two clients reach with the writes of a case and nothing else.

The raw rate is an administrator's, with only the writes that no scheduler can leave out. The rate
"as Muster writes" is the same work by the scheduler's account with its rights. It has one more
watcher of each kind that is written, and the Reservations that Muster needs to bind gangs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from api.constants import RESERVATION
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.muster import NAMESPACE as INSTALLED
from e2e.harness.muster import SCHEDULER, Muster
from scheduler.binding.reservations import RootReference, WrittenIntent
from tools.bench.end_to_end import claims, raw, reader, stage_changes, victims, workload_cluster
from tools.bench.end_to_end.cases import AS_MUSTER, RAW, Case
from tools.bench.end_to_end.fresh_cluster import SERVERS, fresh_cluster
from tools.bench.end_to_end.objects import NAMESPACE, NATIVE, PODS, Json
from tools.bench.end_to_end.observer import Seen, observed
from tools.bench.end_to_end.results import Result
from tools.bench.end_to_end.usage import idle
from tools.bench.end_to_end.wire import Wire

_STEADY = 1_000
"""Pods for the raw rate of cases in which a few come and go."""
_RESERVED = 750
"""Pods in one Reservation: Muster writes up to three for 3,000 pods, two clients two each."""
_READ = ("/api/v1/pods", "/apis/resource.k8s.io/v1/resourceclaims")
"""Kinds that the scheduler both reads and writes; claims only in cases with claims."""


async def measure(case: Case, subject: str) -> Result:
    """Measure with the watch that sees the schedulers' binds: its cost and delay are equal."""
    if case.victims is not None and not case.victims.urgent:
        return await _evictions(case)
    if case.staged:
        return await _in_stages(case)
    count = _STEADY if case.steady else min(case.pods, 3_000)
    result = Result(case.name, subject, case.nodes, count, bound=count)
    names = [f"raw-{index}" for index in range(count)]
    single = replace(case, preemption=False)  # the pods that they would evict do not exist
    pods = [NATIVE.pod(single, None, name) for name in names]

    async def prepared(wire: Wire) -> list[raw.Lot]:
        await workload_cluster.create(wire, case, NATIVE)
        await wire.post(PODS, list(NATIVE.victims(case)))
        await wire.post(PODS, pods)
        if subject == AS_MUSTER and case.gangs:
            return await _reserved(wire, case, names)
        return raw.shared(await _writes(wire, case, names))

    await _rates(case, result, prepared, lambda seen: seen.bound)
    return result


async def _evictions(case: Case) -> Result:
    """Evict as many of the victims as the case does."""
    assert case.victims is not None
    names = victims.names(case)
    count = case.pods * case.victims.fewest
    result = Result(case.name, RAW, case.nodes, count, ended=count)

    async def prepared(wire: Wire) -> list[raw.Lot]:
        await wire.post(PODS, [victims.of(case, name) for name in names])
        return raw.shared([[raw.Write(name)] for name in names[:count]])

    await _rates(case, result, prepared, lambda seen: seen.ended)
    result.evictions = result.rate
    return result


async def _rates(
    case: Case,
    result: Result,
    prepared: Callable[[Wire], Awaitable[list[raw.Lot]]],
    done: Callable[[Seen], dict[str, float]],
) -> None:
    """Set the rates by the number of connections; `done` returns the pods whose write was seen."""
    count = result.pods
    for connections in raw.CONNECTIONS:
        async with (
            fresh_cluster(case) as (plane, wire),
            _access(plane, case, result.subject) as access,
        ):
            lots = await prepared(wire)
            await idle(plane.processes[name].pid for name in SERVERS)
            async with plane.client() as rest, observed(rest, None) as seen:
                begun = await asyncio.to_thread(raw.send, access, lots, connections)
                times = done(seen)
                whole = await seen.until(_at_least(count, times), 30)
            assert whole, f"{count} writes were accepted, {len(times)} seen"
            result.rates[str(connections)] = round(count / (max(times.values()) - begun), 1)
    result.rate = max(result.rates.values())


async def _in_stages(case: Case) -> Result:
    """Send the changes that each stage's pods wait for, and their Bindings, as fast as possible."""
    result = Result(case.name, RAW, case.nodes, case.size, bound=case.size)
    for connections in raw.CONNECTIONS:
        async with fresh_cluster(case) as (plane, wire):
            await workload_cluster.create(wire, case, NATIVE)
            async with plane.client() as rest, observed(rest, None) as seen:
                seconds = await _stages(case, plane, wire, seen, connections)
        result.rates[str(connections)] = round(case.size / seconds, 1)
    result.rate = max(result.rates.values())
    return result


async def _stages(
    case: Case, plane: ControlPlane, wire: Wire, seen: Seen, connections: int
) -> float:
    """Return the seconds from each stage's first request to its last bind, in total."""
    assert case.workload is not None
    seconds, lots = 0.0, [pods for _, pods in NATIVE.waiting(case)]
    for number, (stage, pods) in enumerate(zip(case.workload.stages, lots, strict=True)):
        if stage.before:
            before = stage_changes.nodes(case, number, stage, stage.before)
            await wire.post("/api/v1/nodes", before)
        await wire.post(PODS, [*stage_changes.given(case, number, stage), *pods])
        await idle(plane.processes[name].pid for name in SERVERS)
        names = [pod["metadata"]["name"] for pod in pods]
        needed = stage_changes.needed(case, number, stage, names)
        writes = raw.shared(_of_stage(names, needed, own=stage.own))
        begun = await asyncio.to_thread(raw.send, plane.kubeconfig, writes, connections)
        whole = await seen.until(partial(set(names).issubset, seen.bound), 60)
        assert whole, f"{len(names)} Bindings were accepted, not all seen"
        seconds += max(seen.bound[name] for name in names) - begun
    return seconds


def _of_stage(
    names: Sequence[str], needed: Sequence[raw.Change], *, own: bool
) -> list[list[raw.Write]]:
    """Return each pod's own change before its Binding; or all changes first."""
    if own:
        both = zip(names, needed, strict=True)
        return [[raw.Write(name, "n0", change=change)] for name, change in both]
    binds = [[raw.Write(name, f"n{at}")] for at, name in enumerate(names)]
    return [*([raw.Write("", change=change)] for change in needed), *binds]


@asynccontextmanager
async def _access(plane: ControlPlane, case: Case, subject: str) -> AsyncIterator[Path]:
    """Yield the kubeconfig of the writer, or that of an installed Muster with readers."""
    if subject != AS_MUSTER:
        yield plane.kubeconfig
        return
    muster = Muster(plane.kubeconfig, config={"namespace": INSTALLED})
    await muster.install()
    try:
        access = muster.kubeconfig(SCHEDULER)
        with ExitStack() as readers:
            for path in _READ if case.claims is not None else _READ[:1]:
                readers.enter_context(reader.reading(access, path))
            yield access
    finally:
        muster.stop()


def _at_least(count: int, times: dict[str, float]) -> Callable[[], bool]:
    return lambda: len(times) >= count


async def _uids(wire: Wire) -> dict[str, str]:
    found = json.loads(await wire.get(PODS))["items"]
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}


async def _reserved(wire: Wire, case: Case, pods: list[str]) -> list[raw.Lot]:
    """Return the pods in lots, each with its Reservation, stored before and deleted after."""
    uids, writes, lots = await _uids(wire), await _writes(wire, case, pods), list[raw.Lot]()
    for first in range(0, len(pods), _RESERVED):
        lot = writes[first : first + _RESERVED]
        nodes = {uids[write.pod]: write.node for chain in lot for write in chain}
        lots.append(raw.Lot(lot, _reservation(case, f"raw-{first}", nodes)))
    return lots


def _reservation(case: Case, name: str, nodes: dict[str, str]) -> Json:
    """Return a Reservation with one intent for each gang."""
    pods, intents = list(nodes.items()), list[str]()
    for at in range(0, len(pods), case.size):
        root = RootReference("PodGroup", NAMESPACE, f"{name}-{at}")
        intent = WrittenIntent(root, 1, "2026-01-01T00:00:00Z", dict(pods[at : at + case.size]))
        intents.append(msgspec.json.encode(intent).decode())
    return {
        "apiVersion": RESERVATION.api_version,
        "kind": RESERVATION.kind,
        "metadata": {"name": name},
        "spec": {"roots": len(intents), "intents": intents},
    }


async def _writes(wire: Wire, case: Case, pods: list[str]) -> list[list[raw.Write]]:
    """Return a claim's pods as one chain: the first of them writes its status for all.

    Every allocation is of one device on a node, whatever the claims request: the cost is the same.
    """
    nodes = [f"n{index % case.nodes}" for index in range(len(pods))]
    if case.claims is None:
        return [[raw.Write(pod, at)] for pod, at in zip(pods, nodes, strict=True)]
    await claims.give(wire, case, pods)
    uids = await _uids(wire)
    lots: dict[str, list[str]] = {}
    for pod in pods:
        lots.setdefault(claims.claim_of(case.claims, pod), []).append(pod)
    writes: list[list[raw.Write]] = []
    for number, (claim, sharers) in enumerate(lots.items()):
        at, device = nodes[number], number // case.nodes
        users = claims.consumers({pod: uids[pod] for pod in sharers})
        status = {"allocation": claims.allocation(at, device), "reservedFor": users}
        first, *others = sharers
        writes.append(
            [raw.Write(first, at, claim, status), *(raw.Write(pod, at) for pod in others)]
        )
    return writes
