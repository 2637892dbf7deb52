"""The rate and the cost of creating many groups for bare pods.

   python -m tools.bench.components.groups_from_pods --cluster real --groups 1000

Half of the pods of each group are created first, as fast as the API server accepts them. The other
half follows once all groups exist. The report has: when the last pod of the first half and when the
last group was created, the number of groups created in a second, the number of the controllers'
writes for each group (counted in the audit log), and whether any pod was bound before the second
half came.
"""

import asyncio
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

from api.constants import ANNOTATION_GROUP_BY, ANNOTATION_MIN_COUNT
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.objects import POD_GROUPS, Json, pod
from kube.client.client import Client
from kube.client.resources import PODS
from tools.bench.components.created import AT_ONCE, Counter, main, make_room, settled, writes_in

NAMESPACE = "bench-groups-from-pods"
PODS_EACH = 4
LIMIT = 1.5
WRITES = 2.0
"""Writes for each group at most: half of what a JobSet may cost, which needs a Workload, too."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run; times in seconds from the first creation."""

    count: int
    pods: float
    groups: float
    early: int
    bound: int
    writes: Mapping[str, int]

    @property
    def kept(self) -> bool:
        """True if every target was reached."""
        return (
            self.groups <= LIMIT * self.pods
            and sum(self.writes.values()) <= WRITES * self.count
            and not self.early
            and self.bound == PODS_EACH * self.count
        )

    def __str__(self) -> str:
        each = ", ".join(f"{verb} {n / self.count:.2f}" for verb, n in sorted(self.writes.items()))
        return "\n".join(
            (
                f"{self.count} groups of {PODS_EACH} bare pods, half of them before their group",
                f"  the last pod of that half after {self.pods:.1f} s",
                (
                    f"  the last group after {self.groups:.1f} s:"
                    f" {self.count / self.groups:.0f} groups a second"
                ),
                f"  groups / pods: {self.groups / self.pods:.2f} (at most {LIMIT})",
                f"  controller's writes for each group: {each} (at most {WRITES:g} in all)",
                f"  pods bound: {self.bound}, before their group was whole: {self.early}",
            )
        )


async def measure(client: Client, cluster: Cluster, count: int) -> Measured:
    """Run the measurement on a cluster that has Muster."""
    await make_room(client, cluster, NAMESPACE, count * PODS_EACH)
    groups = Counter(client, POD_GROUPS, NAMESPACE)
    follow = asyncio.create_task(groups.run())
    started = time.perf_counter()
    await _make(client, count, range(PODS_EACH // 2))
    made = time.perf_counter() - started
    grouped = await groups.reach(count) - started
    early = await _bound(client)
    await _make(client, count, range(PODS_EACH // 2, PODS_EACH))
    await settled(client, count * PODS_EACH, NAMESPACE)
    follow.cancel()
    await asyncio.wait({follow})
    return Measured(
        count=count,
        pods=made,
        groups=grouped,
        early=early,
        bound=await _bound(client),
        writes=writes_in(NAMESPACE, cluster.audit_log) if cluster.audit_log else {},
    )


async def _make(client: Client, count: int, members: range) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def create(group: int, at: int) -> None:
        async with gate:
            await client.create(PODS, member(group, at), NAMESPACE)

    await asyncio.gather(*(create(group, at) for group in range(count) for at in members))


def member(group: int, at: int) -> Json:
    """Return a pod as users write it: a label names its group, and another divides it."""
    made = pod(f"m-{group}-{at}", NAMESPACE, group="many")
    made["metadata"]["labels"]["number"] = str(group)
    made["metadata"]["annotations"] = {
        ANNOTATION_MIN_COUNT: str(PODS_EACH),
        ANNOTATION_GROUP_BY: "number",
    }
    return made


async def _bound(client: Client) -> int:
    found = (await client.list(PODS, NAMESPACE))["items"]
    return sum(bool(it["spec"].get("nodeName")) for it in found)


if __name__ == "__main__":
    sys.exit(main(__doc__, "groups", measure))
