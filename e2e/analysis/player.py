"""Replay of a trace on a cluster in real time, one event after the other."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from analysis.lab.lives import gang_name
from analysis.lab.trace import Job
from api.constants import LABEL_POD_GROUP
from e2e.analysis.spaced import APART, Event, Nodes, indices
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf_group, remove_finalizers, tree
from e2e.harness.objects import COMPOSITE_POD_GROUPS, POD_GROUPS, Json, pod
from e2e.harness.support.waiting import eventually
from kube.client.meta import RawObject
from kube.client.patch import PatchBuilder
from kube.client.resources import PODS
from kube.informers.cache import Cache

_HOLD = "test.muster.dev/hold"
_OTHER_WATCH = 1.0
"""Seconds until the API server has written an event to all watches."""


@dataclass
class _Round:
    """A job's current pods by name, since it last created them."""

    made: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    nodes: dict[str, str] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    started: bool = False


class Player:
    """Player of a trace: after each event it waits for the results that the lab predicts.

    So a slow machine delays the trace, and the next event still finds the predicted state. Victims
    remain until all of them are marked, and then end at once, as in the lab. The player then
    recreates their pods, as their Jobs would.
    """

    def __init__(
        self, env: Environment, jobs: Iterable[Job], nodes: list[str], urgent: str
    ) -> None:
        """Create a player; `nodes` are by the lab's indices, `urgent` is a priority class.

        Jobs with a priority get that class.
        """
        self._env, self._urgent = env, urgent
        self._jobs = {job.name: job for job in jobs}
        self._number = {name: str(index) for index, name in enumerate(nodes)}
        self._rounds = {name: _Round() for name in self._jobs}
        self._turns = dict.fromkeys(self._jobs, 0)
        self._starts: list[tuple[str, Nodes]] = []

    async def play(self, pods: Cache[RawObject], events: list[Event]) -> None:
        """Play the events. Raises AssertionError at the first that differs from the lab."""
        pods.subscribe(self._on_change)
        try:
            await self._play(events)
        except BaseException:
            await remove_finalizers(self._env, "")
            raise

    async def _play(self, events: list[Event]) -> None:
        begun = time.monotonic()
        for event in events:
            await asyncio.sleep(begun + event.time - time.monotonic())
            late = time.monotonic()
            await self._happens(event)
            begun += max(0.0, time.monotonic() - late - APART / 2)

    async def _happens(self, event: Event) -> None:
        self._starts.clear()
        await (self._come if event.comes else self._end)(self._jobs[event.name])
        if event.victims:
            await self._until(lambda: self._victims() == event.victims, f"the victims of {event}")
            await self._restart(event.victims)
        await self._until(lambda: len(self._starts) >= len(event.starts), f"the starts of {event}")
        # Jobs that start at the same moment may be observed in any order.
        assert sorted(self._starts) == event.starts, f"{self._starts}, not as in {event}"
        assert not self._victims(), f"{self._victims()} are evicted after {event}"

    async def _until(self, probe: Callable[[], bool], what: str) -> None:
        async def probed() -> bool:
            return probe()

        await eventually(probed, what, 60)

    def _victims(self) -> list[str]:
        """Return the jobs whose pods all terminate."""
        rounds = self._rounds.items()
        return sorted(name for name, it in rounds if it.made and it.leaving - it.gone >= it.made)

    def _on_change(self, old: RawObject | None, new: RawObject | None) -> None:
        """Handle a change of a pod; the last bound pod of a job starts the job."""
        pod = new or old
        assert pod is not None
        job, name = pod.metadata.labels["job"], pod.metadata.name
        its = self._rounds[job]
        if name not in its.made:
            return
        its.seen.add(name)
        if new is None:
            its.gone.add(name)
            return
        if "deletionTimestamp" in new.raw["metadata"]:
            its.leaving.add(name)
        if new.raw["spec"].get("nodeName"):
            its.nodes[name] = new.raw["spec"]["nodeName"]
        if len(its.nodes) == self._jobs[job].total and not its.started:
            its.started = True
            self._starts.append((job, self._nodes(self._jobs[job])))

    def _nodes(self, job: Job) -> Nodes:
        places: list[list[str]] = [[] for _ in range(job.replicas)]
        for name, node in self._rounds[job.name].nodes.items():
            places[int(name.split("-")[2])].append(f"-{self._number[node]}")
        return tuple(indices(tuple(names)) for names in places)

    async def _come(self, job: Job) -> None:
        named = self._urgent if job.priority else None
        if job.replicas > 1:
            key = job.key or None
            await tree(self._env, job.name, job.replicas, key=key, mode="all", priority_class=named)
        parent = job.name if job.replicas > 1 else None
        key = job.gang_key or (None if parent else job.key) or None
        for index in range(job.replicas):
            group = leaf_group(
                gang_name(job, index), job.pods,
                parent=parent, key=key, mode="all", priority_class=named,
            )  # fmt: skip
            await self._env.create(POD_GROUPS, group)
        await self._create_pods(job)

    async def _create_pods(self, job: Job) -> None:
        turn = self._turns[job.name] = self._turns[job.name] + 1
        members = [
            self._pod(job, f"{job.name}-{turn}-{gang}-{index}", gang_name(job, gang))
            for gang in range(job.replicas)
            for index in range(job.pods)
        ]
        made = {member["metadata"]["name"] for member in members}
        its = self._rounds[job.name] = _Round(made)
        await asyncio.gather(*(self._env.create(PODS, member) for member in members))
        await self._until(lambda: its.seen >= its.made, f"the pods of {job.name}")

    def _pod(self, job: Job, name: str, group: str) -> Json:
        made = pod(name, self._env.name, group=group)
        made["metadata"] |= {
            "labels": {LABEL_POD_GROUP: group, "job": job.name}, "finalizers": [_HOLD],
        }  # fmt: skip
        # The finalizer decides when the pod ends.
        made["spec"]["terminationGracePeriodSeconds"] = 0
        if job.priority:
            made["spec"]["priorityClassName"] = self._urgent
        return made

    async def _end(self, job: Job) -> None:
        await self._each_pod(job, self._free)
        async with self._nothing_decided():
            await self._each_pod(job, self._delete)
            await self._until_gone(job)
        self._rounds[job.name] = _Round()
        for index in range(job.replicas):
            await self._env.delete(POD_GROUPS, gang_name(job, index))
        if job.replicas > 1:
            await self._env.delete(COMPOSITE_POD_GROUPS, job.name)

    async def _restart(self, victims: list[str]) -> None:
        async with self._nothing_decided():
            for name in victims:
                await self._each_pod(self._jobs[name], self._free)
            for name in victims:
                await self._until_gone(self._jobs[name])
            for name in victims:
                await self._create_pods(self._jobs[name])

    async def _until_gone(self, job: Job) -> None:
        its = self._rounds[job.name]
        await self._until(lambda: its.gone >= its.made, f"{job.name} to be gone")
        # The API server writes the same events to the scheduler's watch, on a busy machine later
        # than to this one. With a part of them the scheduler would decide once more.
        await asyncio.sleep(_OTHER_WATCH)

    async def _each_pod(self, job: Job, do: Callable[[str], Awaitable[None]]) -> None:
        await asyncio.gather(*(do(name) for name in sorted(self._rounds[job.name].made)))

    async def _delete(self, name: str) -> None:
        await self._env.delete(PODS, name)

    async def _free(self, name: str) -> None:
        patch = PatchBuilder().add("/metadata/finalizers", [])
        await self._env.client.patch(PODS, name, patch, self._env.name)

    @asynccontextmanager
    async def _nothing_decided(self) -> AsyncIterator[None]:
        """Stop the scheduler during the block, so that it decides nothing on a partly ended job.

        In the lab a job ends at one moment. The scheduler then reads one event for each pod, all in
        one batch.
        """
        self._env.muster.send("scheduler", signal.SIGSTOP)
        try:
            yield
        finally:
            self._env.muster.send("scheduler", signal.SIGCONT)
