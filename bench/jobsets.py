"""Many JobSets at once: how long their groups take beside their Jobs, and what that costs.

    python -m bench.jobsets --cluster real --jobsets 1000

JobSets of four Jobs each are created as fast as the API server takes them, on nodes with room for
all. Stated are: when the last Job was made (the JobSet controller's own time), when the last group
was made, how many writes the controllers made for each JobSet (counted in the audit log), and
whether any pod was bound outside its group, or any gang in part.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter as Counts
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from api.constants import LABEL_POD_GROUP
from e2e.clusters.local import Local
from e2e.clusters.protocol import Cluster
from e2e.controlplane.commands import Options
from e2e.controlplane.controlplane import ControlPlane
from e2e.muster import ALL, Muster
from e2e.suite.objects import NODE_LABEL, POD_GROUPS, WORKLOADS, Json, jobset, replicated_job
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
# What a JobSet of one gang needs: a Workload and a PodGroup.
OBJECTS = 2
NODE_PODS = 100
_ACCOUNT = "system:serviceaccount:muster-system:muster-controller"


class Counter:
    """Follows one kind: how many objects there are, when the last came, how often they changed."""

    def __init__(self, client: Client, resource: Resource, namespace: str = NAMESPACE) -> None:
        self.cache: Cache[RawObject] = Cache()
        self.last = 0.0
        self._count = sys.maxsize
        self._reached = asyncio.Event()
        self.cache.subscribe(self._on_change)
        self._reflector = Reflector(
            client, resource, self.cache, decode=decode_raw, namespace=namespace
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


@dataclass(frozen=True, slots=True)
class Measured:
    """One run; times in seconds from the first creation."""

    count: int
    created: float
    jobs: float
    groups: float
    bound: int
    outside: int
    broken: int
    writes: Mapping[str, int]

    @property
    def kept(self) -> bool:
        """Whether every target was reached."""
        return (
            self.groups <= LIMIT * self.jobs
            and sum(self.writes.values()) <= (OBJECTS + 2) * self.count
            and not self.outside
            and not self.broken
        )

    def __str__(self) -> str:
        each = ", ".join(f"{verb} {n / self.count:.2f}" for verb, n in sorted(self.writes.items()))
        total = sum(self.writes.values()) / self.count
        return "\n".join(
            (
                f"{self.count} JobSets of {REPLICAS} Jobs: created in {self.created:.1f} s",
                f"  the last Job after {self.jobs:.1f} s, the last group after {self.groups:.1f} s",
                f"  groups / Jobs: {self.groups / self.jobs:.2f} (at most {LIMIT})",
                f"  controller's writes for each JobSet: {total:.2f} (at most {OBJECTS + 2})",
                f"    {each}",
                (
                    f"  pods bound: {self.bound}, outside their group: {self.outside}, "
                    f"gangs bound in part: {self.broken}"
                ),
            )
        )


async def measure(client: Client, cluster: Cluster, count: int) -> Measured:
    """Run it on a cluster that has Muster."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await client.create(NAMESPACES, body)
    for number in range(-(-count * REPLICAS // NODE_PODS)):
        capacity = {"cpu": str(NODE_PODS), "pods": str(NODE_PODS)}
        await cluster.add_node(f"n{number}", labels={NODE_LABEL: NAMESPACE}, capacity=capacity)
    jobs, groups, workloads = (Counter(client, it) for it in (JOBS, POD_GROUPS, WORKLOADS))
    follow = [asyncio.create_task(it.run()) for it in (jobs, groups, workloads)]
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
    await settled(client, count * REPLICAS)
    for task in follow:
        task.cancel()
    await asyncio.wait(follow)
    pods = (await client.list(PODS, NAMESPACE))["items"]
    there = {
        it["metadata"]["name"]: it for it in (await client.list(POD_GROUPS, NAMESPACE))["items"]
    }
    bound = [pod for pod in pods if pod["spec"].get("nodeName")]
    sizes = Counts(_group(pod) for pod in bound)
    return Measured(
        count=count,
        created=created,
        jobs=made,
        groups=grouped,
        bound=len(bound),
        outside=sum(is_outside(pod, there.get(_group(pod))) for pod in bound),
        broken=sum(size != REPLICAS for size in sizes.values()),
        writes=writes_in(NAMESPACE, cluster.audit_log) if cluster.audit_log else {},
    )


async def settled(client: Client, pods: int, namespace: str = NAMESPACE) -> None:
    """Wait for the bindings, at most a minute, and for what the controllers write about them."""
    for _ in range(12):
        await asyncio.sleep(5)
        found = (await client.list(PODS, namespace))["items"]
        if sum(bool(pod["spec"].get("nodeName")) for pod in found) >= pods:
            break
    await asyncio.sleep(5)


def is_outside(pod: Json, group: Json | None) -> bool:
    """Whether a bound pod's group is not there, or came after the binding."""
    if group is None:
        return True
    said = {it["type"]: it for it in pod["status"].get("conditions", [])}
    bound_at: str = said["PodScheduled"]["lastTransitionTime"]
    made_at: str = group["metadata"]["creationTimestamp"]
    return made_at > bound_at


def _group(pod: Json) -> str:
    name: str = pod["metadata"].get("labels", {}).get(LABEL_POD_GROUP, "")
    return name


def writes_in(namespace: str, audit: Path) -> Mapping[str, int]:
    """What the controller's account wrote in a namespace, by verb and resource."""
    found: Counts[str] = Counts()
    for line in audit.read_text().splitlines():
        event = json.loads(line)
        target = event.get("objectRef", {})
        if (
            event["stage"] == "ResponseComplete"
            and event["user"]["username"] == _ACCOUNT
            and event["verb"] in {"create", "update", "patch", "delete"}
            and target.get("namespace") == namespace
        ):
            found[f"{event['verb']} {target['resource']}"] += 1
    return found


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", choices=("local", "real"), default="local")
    parser.add_argument("--jobsets", type=int, default=100)
    parsed = parser.parse_args()
    local = parsed.cluster == "local"
    cluster: Local | ControlPlane = Local() if local else ControlPlane(Options())
    try:
        await cluster.start()
        muster = Muster(cluster.kubeconfig)
        try:
            await muster.install()
            await muster.start(*ALL)
            async with await Client.connect(cluster.kubeconfig) as client:
                measured = await measure(client, cluster, parsed.jobsets)
        finally:
            muster.stop()
    finally:
        await cluster.stop()
    print(measured)
    return 0 if measured.kept else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
