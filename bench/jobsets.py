"""Many JobSets at once: how long their groups take beside their Jobs, and what that costs.

    python -m bench.jobsets --cluster real --jobsets 1000

JobSets of four Jobs each are created as fast as the API server takes them. Stated are: when the
last Job was made (the JobSet controller's own time), when the last group was made, how many writes
the controllers made for each JobSet (two objects, and notes on the JobSet), and whether any pod
was bound outside its group.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable

from api.constants import LABEL_POD_GROUP
from e2e.clusters.local import Local
from e2e.clusters.protocol import Cluster
from e2e.controlplane.commands import Options
from e2e.controlplane.controlplane import ControlPlane
from e2e.muster import ALL, Muster
from e2e.suite.objects import POD_GROUPS, WORKLOADS, jobset, replicated_job
from kube.cache import Cache
from kube.client import Client
from kube.meta import RawObject, decode_raw
from kube.reflector import Reflector
from kube.resources import JOBS, JOBSETS, NAMESPACES, PODS, Resource

NAMESPACE = "bench-jobsets"
REPLICAS = 4
# How many creations are under way at once.
AT_ONCE = 32
LIMIT = 1.5


class Counter:
    """Follows one kind: how many objects there are, when the last came, how often they changed."""

    def __init__(self, client: Client, resource: Resource) -> None:
        self.cache: Cache[RawObject] = Cache()
        self.last = 0.0
        self._count = sys.maxsize
        self._reached = asyncio.Event()
        self.cache.subscribe(self._on_change)
        self._reflector = Reflector(
            client, resource, self.cache, decode=decode_raw, namespace=NAMESPACE
        )

    async def run(self) -> None:
        await self._reflector.run()

    async def reach(self, count: int) -> float:
        """When there were so many."""
        self._count = count
        self._on_change(None, None)
        await self._reached.wait()
        return self.last

    def _on_change(self, old: RawObject | None, new: RawObject | None) -> None:
        if old is None and new is not None:
            self.last = time.perf_counter()
        if len(self.cache) >= self._count:
            self._reached.set()


async def measure(client: Client, count: int) -> bool:
    """Run it; whether the promises were kept."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await client.create(NAMESPACES, body)
    jobs, groups, workloads, pods, owners = (
        Counter(client, it) for it in (JOBS, POD_GROUPS, WORKLOADS, PODS, JOBSETS)
    )
    follow = [asyncio.create_task(it.run()) for it in (jobs, groups, workloads, pods, owners)]
    gate = asyncio.Semaphore(AT_ONCE)

    async def create(number: int) -> None:
        async with gate:
            workers = replicated_job("w", NAMESPACE, replicas=REPLICAS, pods=1)
            await client.create(JOBSETS, jobset(f"a{number}", workers), NAMESPACE)

    started = time.perf_counter()
    await asyncio.gather(*(create(number) for number in range(count)))
    created = time.perf_counter() - started
    made = await jobs.reach(REPLICAS * count) - started
    grouped = max(await groups.reach(count), await workloads.reach(count)) - started
    await asyncio.sleep(5)  # what else the controllers write about it
    for task in follow:
        task.cancel()
    await asyncio.wait(follow)
    return _report(count, created, made, grouped, groups, owners, pods)


def _report(
    count: int,
    created: float,
    made: float,
    grouped: float,
    groups: Counter,
    owners: Counter,
    pods: Counter,
) -> bool:
    noted = sum(
        any(field.get("manager") == "muster" for field in obj.raw["metadata"]["managedFields"])
        for obj in owners.cache.values()
    )
    outside = sum(
        bool(pod.raw["spec"].get("nodeName")) and not _group(pod, groups.cache.get)
        for pod in pods.cache.values()
    )
    print(f"{count} JobSets of {REPLICAS} Jobs: created in {created:.1f} s")
    print(f"  the last Job after {made:.1f} s, the last group after {grouped:.1f} s")
    print(f"  groups / Jobs: {grouped / made:.2f} (at most {LIMIT})")
    writes = (count * 2 + noted) / count
    print(f"  controller's writes for each JobSet: {writes:.2f} (2 objects; at most 4)")
    print(f"  pods bound outside their group: {outside} of {len(pods.cache)}")
    return grouped <= LIMIT * made and writes <= 4 and not outside


def _group(pod: RawObject, find: Callable[[str, str], RawObject | None]) -> RawObject | None:
    name = pod.raw["metadata"].get("labels", {}).get(LABEL_POD_GROUP, "")
    return find(NAMESPACE, name)


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", choices=("local", "real"), default="local")
    parser.add_argument("--jobsets", type=int, default=100)
    parsed = parser.parse_args()
    cluster: Cluster = Local() if parsed.cluster == "local" else ControlPlane(Options())
    try:
        await cluster.start()  # type: ignore[attr-defined]
        muster = Muster(cluster.kubeconfig)
        try:
            await muster.install()
            await muster.start(*ALL)
            async with await Client.connect(cluster.kubeconfig) as client:
                kept = await measure(client, parsed.jobsets)
        finally:
            muster.stop()
    finally:
        await cluster.stop()
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
