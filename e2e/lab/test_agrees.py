"""The simulator and the real thing agree: who starts after whom, and on which nodes."""

import asyncio
import bisect
import time
from collections.abc import Awaitable
from typing import Any

import pytest

from api.constants import LABEL_POD_GROUP
from e2e.lab.spaced import APART, CORES, NODES, RACK, RACK_OF, Expected, expected, spaced_trace
from e2e.muster import Muster
from e2e.suite.environment import Environment
from e2e.suite.objects import POD_GROUPS, Json, pod, pod_group
from e2e.support.rest import Rest
from kube.cache import Cache
from kube.meta import RawObject
from kube.resources import PODS
from lab.trace import Job


class Player:
    """Plays a trace on a cluster in real time; what is seen is read in ticks of the trace.

    A gang starts some moments after the event that made room for it. It counts as started at that
    event, and ends so long after it as the trace says: delays do not add up.
    """

    def __init__(self, env: Environment, rest: Rest, jobs: list[Job], nodes: list[str]) -> None:
        self.starts: list[str] = []
        self.nodes: dict[str, list[int]] = {}
        self.latest = 0.0
        self._env, self._rest, self._jobs = env, rest, {job.name: job for job in jobs}
        self._index = {name: index for index, name in enumerate(nodes)}
        self._where: dict[str, dict[str, str]] = {job.name: {} for job in jobs}
        self._events = [0.0]
        self._begun = 0.0
        self._group: asyncio.TaskGroup | None = None
        self._left = asyncio.Event()

    async def play(self, pods: Cache[RawObject]) -> None:
        pods.subscribe(self._on_change)
        self._begun = time.monotonic() + 1.0
        async with asyncio.TaskGroup() as self._group:
            for job in self._jobs.values():
                self._later(job.arrival, self._come(job))
            await self._left.wait()

    def _on_change(self, _old: RawObject | None, new: RawObject | None) -> None:
        """Of a pod that is bound; the last one of its gang starts the gang."""
        if new is None or not new.raw["spec"].get("nodeName"):
            return
        name = new.metadata.labels[LABEL_POD_GROUP]
        where = self._where[name]
        where[new.metadata.name] = new.raw["spec"]["nodeName"]
        if len(where) == self._jobs[name].pods and name not in self.nodes:
            self.nodes[name] = sorted(self._index[node] for node in where.values())
            self.starts.append(name)
            now = time.monotonic() - self._begun
            event = self._events[bisect.bisect_right(self._events, now) - 1]
            self.latest = max(self.latest, now - event)
            self._later(event + self._jobs[name].duration, self._end(name))

    def _later(self, moment: float, what: Awaitable[None]) -> None:
        async def waited() -> None:
            await asyncio.sleep(self._begun + moment - time.monotonic())
            bisect.insort(self._events, moment)
            await what

        assert self._group is not None
        self._group.create_task(waited())

    async def _come(self, job: Job) -> None:
        group: Json = pod_group(job.name, job.pods)
        if job.key:
            group["spec"]["schedulingConstraints"] = {"topology": [{"key": job.key}]}
        await self._env.create(POD_GROUPS, group)
        members = (
            pod(f"{job.name}-{index}", self._env.name, group=job.name) for index in range(job.pods)
        )
        await asyncio.gather(*(self._env.create(PODS, member) for member in members))

    async def _end(self, name: str) -> None:
        path = f"/api/v1/namespaces/{self._env.name}/pods"
        at_once: dict[str, Any] = {"gracePeriodSeconds": "0"}
        answers = await asyncio.gather(
            *(self._rest.delete(f"{path}/{member}", params=at_once) for member in self._where[name])
        )
        for answer in answers:
            answer.ok()
        await self._env.delete(POD_GROUPS, name)
        if len(self.starts) == len(self._jobs):
            self._left.set()


@pytest.mark.timeout(600)
async def test_the_same_gangs_start_in_the_same_order_on_the_same_nodes(
    env: Environment, rest: Rest, muster: Muster, *, long: bool
) -> None:
    jobs = spaced_trace(100 if long else 12, seed=3)
    said: Expected = expected(jobs)
    nodes = [
        await env.add_node(cpu=CORES, labels={RACK: f"rack-{index // RACK_OF}"})
        for index in range(NODES)
    ]
    # Of equal nodes the first that it has read is taken: now that is the order of their names.
    await muster.restart("scheduler")

    async with env.followed() as pods:
        player = Player(env, rest, jobs, nodes)
        await player.play(pods)

    assert player.latest < APART, "too slow to tell one event from the next"
    assert player.starts == said.starts
    assert player.nodes == said.nodes
