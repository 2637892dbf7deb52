"""Many JobSets at once: the time of their groups compared to their Jobs, and the cost.

   python -m tools.bench.components.jobsets --cluster real --jobsets 1000

JobSets of four Jobs each are created as fast as the API server accepts them, on nodes with capacity
for all. The report has: when the last Job was created (the JobSet controller's own time), when the
last group was created, the number of the controllers' writes for each JobSet (counted in the audit
log), and whether any pod was bound outside its group, or any gang in part.
"""

import asyncio
import sys
import time
from collections import Counter as Counts
from collections.abc import Mapping
from dataclasses import dataclass

from api.constants import LABEL_POD_GROUP
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.objects import POD_GROUPS, WORKLOADS, Json, jobset, replicated_job
from kube.client.client import Client
from kube.client.resources import JOBS, JOBSETS, PODS
from tools.bench.components.created import AT_ONCE, Counter, main, make_room, settled, writes_in

NAMESPACE = "bench-jobsets"
REPLICAS = 4
LIMIT = 1.5
# The objects of a JobSet with one gang: a Workload and a PodGroup.
OBJECTS = 2


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
        """True if every target was reached."""
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
    """Run the measurement on a cluster that has Muster."""
    await make_room(client, cluster, NAMESPACE, count * REPLICAS)
    jobs, groups, workloads = (
        Counter(client, it, NAMESPACE) for it in (JOBS, POD_GROUPS, WORKLOADS)
    )
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
    await settled(client, count * REPLICAS, NAMESPACE)
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


def is_outside(pod: Json, group: Json | None) -> bool:
    """Return true if a bound pod's group does not exist, or was created after the binding."""
    if group is None:
        return True
    said = {it["type"]: it for it in pod["status"].get("conditions", [])}
    bound_at: str = said["PodScheduled"]["lastTransitionTime"]
    made_at: str = group["metadata"]["creationTimestamp"]
    return made_at > bound_at


def _group(pod: Json) -> str:
    name: str = pod["metadata"].get("labels", {}).get(LABEL_POD_GROUP, "")
    return name


if __name__ == "__main__":
    sys.exit(main(__doc__, "jobsets", measure))
