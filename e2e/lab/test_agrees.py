"""The simulator and the real thing agree: who starts after whom, and on which nodes."""

import asyncio
import signal
import time
from functools import partial

import pytest

from api.constants import LABEL_POD_GROUP
from e2e.lab.spaced import APART, CORES, NODES, RACK, RACK_OF, Expected, expected, spaced_trace
from e2e.muster import Muster
from e2e.suite.environment import Environment
from e2e.suite.objects import POD_GROUPS, Json, pod, pod_group
from e2e.support.rest import Rest
from e2e.support.waiting import eventually
from kube.cache import Cache
from kube.meta import RawObject
from kube.resources import PODS
from lab.trace import Job


class Player:
    """Plays a trace on a cluster in real time; on a slow machine time passes more slowly.

    After each event it is waited until as many gangs have started as the lab says, whichever they
    are. So the next one finds what it found there.
    """

    def __init__(self, env: Environment, rest: Rest, jobs: list[Job], nodes: list[str]) -> None:
        self.starts: list[str] = []
        self.nodes: dict[str, list[int]] = {}
        self._env, self._rest, self._jobs = env, rest, {job.name: job for job in jobs}
        self._index = {name: index for index, name in enumerate(nodes)}
        self._where: dict[str, dict[str, str]] = {job.name: {} for job in jobs}
        self._gone: set[str] = set()

    async def play(self, pods: Cache[RawObject], said: Expected) -> None:
        """Raises AssertionError at the first gang that starts elsewhere than the lab says."""
        pods.subscribe(self._on_change)
        begun = time.monotonic()
        for event in said.events:
            await asyncio.sleep(begun + event.time - time.monotonic())
            late, before = time.monotonic(), len(self.starts)
            await (self._come if event.comes else self._end)(self._jobs[event.name])
            what = f"{event.starts} gangs to have started after {event}"
            await eventually(partial(self._started, event.starts), what, 60)
            # Which of those that start at one moment is seen first is chance.
            self.starts[before:] = sorted(self.starts[before:])
            seen = {name: self.nodes[name] for name in self.starts[before:]}
            assert seen == {name: said.nodes[name] for name in said.starts[before : event.starts]}
            begun += max(0.0, time.monotonic() - late - APART / 2)

    async def _ended(self, job: Job) -> bool:
        return self._gone >= {f"{job.name}-{index}" for index in range(job.pods)}

    async def _started(self, count: int) -> bool:
        return len(self.starts) >= count

    def _on_change(self, old: RawObject | None, new: RawObject | None) -> None:
        """Of a pod that is bound; the last one of its gang starts the gang."""
        if new is None:
            self._gone.add(old.metadata.name if old is not None else "")
            return
        if not new.raw["spec"].get("nodeName"):
            return
        name = new.metadata.labels[LABEL_POD_GROUP]
        where = self._where[name]
        where[new.metadata.name] = new.raw["spec"]["nodeName"]
        if len(where) == self._jobs[name].pods and name not in self.nodes:
            self.nodes[name] = sorted(self._index[node] for node in where.values())
            self.starts.append(name)

    async def _come(self, job: Job) -> None:
        group: Json = pod_group(job.name, job.pods)
        if job.key:
            group["spec"]["schedulingConstraints"] = {"topology": [{"key": job.key}]}
        await self._env.create(POD_GROUPS, group)
        members = (
            pod(f"{job.name}-{index}", self._env.name, group=job.name) for index in range(job.pods)
        )
        await asyncio.gather(*(self._env.create(PODS, member) for member in members))

    async def _end(self, job: Job) -> None:
        path = f"/api/v1/namespaces/{self._env.name}/pods"
        at_once = {"gracePeriodSeconds": "0"}
        members = (f"{path}/{job.name}-{index}" for index in range(job.pods))
        # In the lab a gang ends at one moment: nothing is decided with a part of its room.
        self._env.muster.send("scheduler", signal.SIGSTOP)
        try:
            for answer in await asyncio.gather(
                *(self._rest.delete(member, params=at_once) for member in members)
            ):
                answer.ok()
            # What this watch was told is on its way to the scheduler, too.
            await eventually(partial(self._ended, job), f"{job.name} to be gone", 60)
        finally:
            self._env.muster.send("scheduler", signal.SIGCONT)
        await self._env.delete(POD_GROUPS, job.name)


@pytest.mark.timeout(600)
async def test_the_same_gangs_start_in_the_same_order_on_the_same_nodes(
    env: Environment, rest: Rest, muster: Muster, *, long: bool
) -> None:
    jobs = spaced_trace(100 if long else 12, seed=3)
    said = expected(jobs)
    nodes = [
        await env.add_node(cpu=CORES, labels={RACK: f"rack-{index // RACK_OF}"})
        for index in range(NODES)
    ]
    # Of equal nodes the first that it has read is taken: now that is the order of their names.
    await muster.restart("scheduler")

    async with env.followed() as pods:
        player = Player(env, rest, jobs, nodes)
        await player.play(pods, said)

    assert player.starts == said.starts
    assert player.nodes == said.nodes
