"""Ten minutes of contention: Kueue preempts by quota, Muster by priority, and neither loops."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable

import aiohttp
import pytest

from e2e.harness.environment import Environment
from e2e.harness.muster import SCHEDULER
from e2e.harness.objects import POD_GROUPS, Json, job, jobset, of_job, of_jobset, replicated_job
from e2e.harness.priorities import known_class
from e2e.harness.settled import read_metrics
from e2e.neighbours.kueue.queues import HIGH, Queue, opened, queued
from kube.client.resources import JOBS, JOBSETS

SECONDS, SECONDS_LONG = 60, 600
HALF_SECONDS = 40
"""Seconds that a gang may be half bound: its pods are bound, or end, one after the other."""
GANG = 8

pytestmark = pytest.mark.timeout(1500)


class Contention:
    """Low gangs that fill the quota, and what is seen of them."""

    def __init__(self, env: Environment, queue: Queue) -> None:
        self.env, self.queue = env, queue
        self.arrivals = 0
        self._half: dict[str, float] = {}

    async def fill(self, *names: str) -> None:
        """Start low gangs."""
        for name in names:
            await self.env.create(JOBSETS, _low(name, self.env.name))
        await self.env.runs("", GANG * len(names))

    async def come_and_go(self, seconds: float, arrive: Callable[[str], Awaitable[Json]]) -> None:
        """Let gangs arrive one after the other, and finish when they ran."""
        watching = asyncio.create_task(self._watch())
        try:
            loop = asyncio.get_running_loop()
            end = loop.time() + seconds
            for number in itertools.count():
                if loop.time() > end:
                    break
                name = f"urgent-{number}"
                await self.env.create(JOBS, await arrive(name))
                self.arrivals += 1
                await self.env.runs(of_job(name), GANG)
                await self.env.cluster.finish_pods(self.env.name, of_job(name))
                await self._all_low_run()
        finally:
            watching.cancel()
            await asyncio.wait({watching})
        if not watching.cancelled():
            watching.result()

    async def restarts(self) -> int:
        """Return how often the low gangs restarted."""
        found = [await self.env.client.get(JOBSETS, it, self.env.name) for it in ("low-a", "low-b")]
        return sum(it["status"].get("restarts", 0) for it in found)

    async def _all_low_run(self) -> None:
        async def probe() -> bool:
            return await self.env.running("test.muster.dev/low=yes") == 2 * GANG

        # At the end Kueue may have suspended them, and then they have no pods.
        told = list[str]()
        for _ in range(4):
            try:
                await self.env.until("both low gangs to run again", probe, 60)
            except TimeoutError:
                told.append(await self._told())
            else:
                return
        raise TimeoutError("both low gangs do not run again:\n" + "\n\n".join(told))

    async def _told(self) -> str:
        """Return what the low gangs report, and how many pods of each Job there are by phase."""
        phases = Counter(
            (it["metadata"]["labels"]["batch.kubernetes.io/job-name"], it["status"]["phase"])
            for it in await self.env.pods()
        )
        lines = [f"{dict(phases)}"]
        for name in ("low-a", "low-b"):
            found = await self.env.client.get(JOBSETS, name, self.env.name)
            lines.append(f"{name}: {found['status']}, {found['metadata'].get('annotations')}")
            for kind in (JOBS, POD_GROUPS):
                for it in (await self.env.client.list(kind, self.env.name))["items"]:
                    if name in it["metadata"]["name"]:
                        lines.append(f"  {kind.kind} {it['metadata']}: {it.get('status')}")
            workload = await self.queue.workload(name)
            lines.append(f"  Kueue: {workload['spec'].get('active')} {workload.get('status')}")
            for pod in await self.env.pods(of_jobset(name)):
                lines.append(f"  {pod['metadata']['name']}: {pod['status']}")
        return "\n".join(lines)

    async def _watch(self) -> None:
        """Fail if a gang is half bound for long."""
        loop = asyncio.get_running_loop()
        while True:
            bound = Counter(
                pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
                for pod in await self.env.pods()
                if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
            )
            half = {name for name, count in bound.items() if 0 < count < GANG}
            self._half = {name: self._half.get(name, loop.time()) for name in half}
            for name, since in self._half.items():
                assert loop.time() - since < HALF_SECONDS, f"{name} is half bound"
            await asyncio.sleep(0.5)


def _low(name: str, room: str) -> Json:
    """Return a JobSet, which restarts at once when pods of it are evicted.

    A Job would wait for ten seconds after a failed pod, and twice as long after each further one.
    """
    part = replicated_job("part", room, replicas=1, pods=GANG)
    labels = {"test.muster.dev/low": "yes"}
    part["template"]["spec"]["template"]["metadata"] = {"labels": labels}
    made = queued(jobset(name, part))
    made["spec"]["failurePolicy"] = {"maxRestarts": 10_000}
    return made


@pytest.mark.parametrize("evicts", ["Kueue", "Muster"])
async def test_each_arrival_evicts_one_gang(env: Environment, long: bool, evicts: str) -> None:
    """An urgent gang comes by Kueue's class, or by a PriorityClass without Kueue.

    Kueue counts its evictions in its Workloads; a gang that Muster evicts restarts once.
    """
    for _ in range(4):
        await env.add_node(cpu=4)
    async with (
        opened(env, {env.name: 2 * GANG}) as queue,
        known_class(env, "urgent", 1000) as urgent,
    ):

        async def by_quota(name: str) -> Json:
            return queued(job(name, env.name, pods=GANG), HIGH)

        async def by_priority(name: str) -> Json:
            made = job(name, env.name, pods=GANG)
            made["spec"]["template"]["spec"]["priorityClassName"] = urgent
            return made

        contention = Contention(env, queue)
        await contention.fill("low-a", "low-b")
        before = await evicted_by_muster(env)
        arrive = by_quota if evicts == "Kueue" else by_priority
        await contention.come_and_go(SECONDS_LONG if long else SECONDS, arrive)
        arrivals, restarts = contention.arrivals, await contention.restarts()
        by_kueue = sum((await queue.evictions()).values())
        pods = await evicted_by_muster(env) - before
        print(f"{arrivals} arrivals; Kueue evicted {by_kueue} gangs, Muster {pods} pods", restarts)
        if evicts == "Kueue":
            assert (by_kueue, pods) == (arrivals, 0)
        else:
            assert (by_kueue, restarts) == (0, arrivals)
            # Some pods of a gang are deleted first by their JobSet, which restarts.
            assert arrivals <= pods <= arrivals * GANG


async def evicted_by_muster(env: Environment) -> int:
    """Return how many pods the scheduler has evicted since it started."""
    async with aiohttp.ClientSession(trust_env=False) as session:
        found = await read_metrics(session, env.muster.page(SCHEDULER, "/metrics"))
    return int(found["muster_scheduler_preemption_victims_total"])
