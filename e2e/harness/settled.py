"""The common end of every flow: the scheduler has no work left, and changes nothing.

A flow is over when no decision, Binding, eviction or report is in progress. Then the scheduler
decides on all pending pods five more times, and in all of that nothing may change: no pod's node,
no status, no Reservation, no counter of the scheduler's work.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from api.constants import RESERVATION
from e2e.harness.environment import Environment
from e2e.harness.muster import CONTROLLER, SCHEDULER, WEBHOOK
from e2e.harness.objects import COMPOSITE_POD_GROUPS, POD_GROUPS, Json, resource
from e2e.harness.support.waiting import eventually
from kube.client.resources import NODES, PODS, PVCS, Resource

ROUNDS = 5
RESERVATIONS = resource(RESERVATION)

_OPEN = (
    'muster_scheduler_pending_roots{queue="active"}',
    'muster_scheduler_pending_roots{queue="backoff"}',
    "muster_scheduler_binds_open",
    "muster_scheduler_evictions_open",
    "muster_scheduler_reports_due",
    "muster_scheduler_reservations_open",
)
_DONE = (
    'muster_scheduler_schedule_attempts_total{result="scheduled"}',
    'muster_scheduler_preemption_attempts_total{result="evict"}',
    "muster_scheduler_bindings_given_up_total",
    "muster_scheduler_binds_total",
    "muster_scheduler_reservations_total",
    "muster_scheduler_resumed_total",
    "muster_scheduler_status_writes_total",
    "muster_scheduler_preemption_victims_total",
)
_LISTS = "muster_watch_lists_total"
"""The counter of lists: a restarted watch may deliver others' changes late, so it was no rest."""
_SERIES = re.compile(rf"^((?:muster_scheduler_\w+|{_LISTS})(?:\{{.*\}})?) (\S+)$", re.MULTILINE)
_OURS = ("PodScheduled", "DisruptionTarget")

Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """The `facts` are what others decide, `answer` is the scheduler's result."""

    facts: Facts
    answer: Facts


async def settled(env: Environment, *schedulers: str) -> None:
    """Wait until no work is in progress, and check that five more decisions change nothing.

    `schedulers` are the processes of which one leads, unless they are the default ones. Raises
    AssertionError with all changes if the facts did not change, and TimeoutError if the cluster
    never settles.
    """
    muster = env.muster
    for name in (WEBHOOK, CONTROLLER, *(schedulers or [SCHEDULER])):
        if not muster.running(name):
            await muster.start(name)
    async with aiohttp.ClientSession(trust_env=False) as session:
        leader = _Scheduler(session, env, schedulers or (SCHEDULER,))
        await env.until("the scheduler to lead", leader.decide)
        before = await leader.at_rest()
        async with asyncio.timeout(env.timeout_seconds):
            while True:
                rounds = (await leader.metrics()).get("muster_scheduler_rounds_total", 0)
                led = [await leader.decide() for _ in range(ROUNDS)]
                if not all(led):
                    # Leases are short here: a machine that pauses for two seconds loses them.
                    await env.until("the scheduler to lead again", leader.decide)
                after = await leader.at_rest(before)
                if all(led) and after.facts == before.facts:
                    break
                before = after
            done = (await leader.metrics())["muster_scheduler_rounds_total"] - rounds
    assert done >= ROUNDS, f"{done} rounds instead of {ROUNDS}"
    changed = list(_differences(before.answer, after.answer))
    assert not changed, f"after the flow had come to rest, {ROUNDS} more rounds changed:\n" + (
        "\n".join(changed)
    )


async def read_metrics(session: aiohttp.ClientSession, page: str) -> dict[str, float]:
    """Return values of the scheduler's own metrics, and by name the sum over its labels."""
    async with session.get(page) as answer:
        return _values(await answer.text())


class _Scheduler:
    """The leading scheduler, observed by its metrics and debug pages."""

    def __init__(
        self, session: aiohttp.ClientSession, env: Environment, names: Sequence[str]
    ) -> None:
        self._session = session
        self._env = env
        self._names = names
        self._name = names[0]

    async def decide(self) -> bool:
        """Make the scheduler decide on all pending pods again, and wait for it.

        Returns False if none leads, or another than before.
        """
        before = self._name
        for name in self._names:
            page = self._env.muster.page(name, "/debug/decide")
            async with self._session.post(page) as answer:
                assert answer.status == 200
                if (await answer.json())["leads"]:
                    self._name = name
                    return name == before
        return False

    async def metrics(self) -> dict[str, float]:
        """Return values of the scheduler's own metrics, and by name the sum over its labels."""
        return await read_metrics(self._session, self._env.muster.page(self._name, "/metrics"))

    async def at_rest(self, *seen_before: Record) -> Record:
        """Wait until no work is in progress and a complete round has changed nothing."""
        seen = list(seen_before)
        under_way: list[str] = []

        async def probe() -> bool:
            metrics = await self.metrics()
            under_way[:] = [name for name in _OPEN if metrics.get(name)]
            if under_way:
                return False
            if (await self._env.client.list(RESERVATIONS))["items"]:
                return False
            seen.append(await self._record(metrics))
            if len(seen) > 1 and seen[-1] == seen[-2]:
                return True
            await self.decide()
            return False

        try:
            await eventually(probe, "nothing to be under way", self._env.timeout_seconds)
        except TimeoutError as error:
            changed = [] if len(seen) < 2 else _differences(seen[-2].answer, seen[-1].answer)
            raise TimeoutError(
                "\n".join((f"{error}; in the last round:", *under_way, *changed))
            ) from error
        return seen[-1]

    async def _record(self, metrics: dict[str, float]) -> Record:
        facts: Facts = {_LISTS: metrics.get(_LISTS, 0)}
        answer: Facts = {name: metrics.get(name, 0) for name in _DONE}
        for kind in (PODS, POD_GROUPS, COMPOSITE_POD_GROUPS, PVCS, NODES):
            namespace = None if kind is NODES else self._env.name
            for obj in (await self._env.client.list(kind, namespace))["items"]:
                name = f"{kind.kind} {obj['metadata']['name']}"
                facts[name], answer[name] = _facts(kind, obj)
        return Record(facts, answer)


def _facts(kind: Resource, obj: Json) -> tuple[Facts, Facts]:
    """Return the parts of an object that others write, and those that the scheduler writes."""
    meta, spec, status = obj["metadata"], obj["spec"], obj.get("status", {})
    facts = {"uid": meta["uid"], "generation": meta.get("generation")}
    if kind is NODES:
        told = {"labels": meta.get("labels"), "allocatable": status.get("allocatable")}
        return facts | told | {"spec": spec}, {}
    if kind is PVCS:
        return facts | status, {"annotations": meta.get("annotations")}
    if kind is not PODS:
        return facts, {"status": status}
    said = [c for c in status.get("conditions") or () if c["type"] in _OURS]
    place = {"node": spec.get("nodeName"), "nominated": status.get("nominatedNodeName")}
    left = {"leaves": meta.get("deletionTimestamp"), "conditions": said}
    return facts | {"phase": status.get("phase"), "labels": meta.get("labels")}, place | left


def _values(text: str) -> dict[str, float]:
    # The client library's parser took half of the tests' CPU time.
    values: dict[str, float] = {}
    for series, value in _SERIES.findall(text):
        values[series] = float(value)
        name, labels, _ = series.partition("{")
        if labels:
            values[name] = values.get(name, 0) + float(value)
    return values


def _differences(before: Facts, after: Facts) -> Iterator[str]:
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield f"  {name}: {before.get(name)} -> {after.get(name)}"
