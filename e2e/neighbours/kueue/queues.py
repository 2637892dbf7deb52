"""A queue of Kueue with its quota, and the Jobs and JobSets in it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from e2e.harness.environment import Environment
from e2e.harness.objects import NODE_LABEL, Json
from e2e.neighbours.kueue.controller import CLASSES
from kube.base.errors import NotFound
from kube.client.resources import JOBS, Resource

_GROUP, _VERSION = "kueue.x-k8s.io", "v1beta2"
FLAVORS = Resource(_GROUP, _VERSION, "resourceflavors", "ResourceFlavor", namespaced=False)
CLUSTER_QUEUES = Resource(_GROUP, _VERSION, "clusterqueues", "ClusterQueue", namespaced=False)
LOCAL_QUEUES = Resource(_GROUP, _VERSION, "localqueues", "LocalQueue")
KUEUE_WORKLOADS = Resource(_GROUP, _VERSION, "workloads", "Workload")
QUEUE = "queue"
_QUEUE_NAME = "kueue.x-k8s.io/queue-name"
_PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
HIGH, LOW = CLASSES


def queued(obj: Json, priority: str = LOW, **annotations: str) -> Json:
    """Put a Job or JobSet into the queue. It has to be suspended when it is created."""
    meta = obj["metadata"]
    meta.setdefault("labels", {}).update({_QUEUE_NAME: QUEUE, _PRIORITY_CLASS: priority})
    meta.setdefault("annotations", {}).update(annotations)
    obj["spec"]["suspend"] = True
    return obj


@dataclass(frozen=True, slots=True)
class Queue:
    """The queue `queue` of a test's namespace, with the quota of its ClusterQueue."""

    env: Environment

    async def workload(self, owner: str) -> Json:
        """Return Kueue's Workload of the Job or JobSet."""
        found = (await self.env.client.list(KUEUE_WORKLOADS, self.env.name))["items"]
        (workload,) = (w for w in found if w["metadata"]["ownerReferences"][0]["name"] == owner)
        return dict(workload)

    async def states(self, owner: str) -> dict[str, str]:
        """Return condition -> status of its Workload, {} before Kueue has created it."""
        try:
            workload = await self.workload(owner)
        except ValueError:
            return {}
        return {c["type"]: c["status"] for c in workload.get("status", {}).get("conditions", [])}

    async def admits(self, owner: str) -> None:
        """Wait until it has its quota."""
        await self._has(owner, "Admitted", "True")

    async def refuses(self, owner: str) -> None:
        """Wait until Kueue has decided that it does not get its quota now."""
        await self._has(owner, "QuotaReserved", "False")

    async def _has(self, owner: str, kind: str, status: str) -> None:
        async def probe() -> bool:
            return (await self.states(owner)).get(kind) == status

        await self.env.until(f"the Workload of {owner} to have {kind} {status}", probe)

    async def evictions(self) -> dict[tuple[str, str], int]:
        """Return (owner, reason) -> how often Kueue evicted it."""
        found = (await self.env.client.list(KUEUE_WORKLOADS, self.env.name))["items"]
        return {
            (workload["metadata"]["ownerReferences"][0]["name"], each["reason"]): each["count"]
            for workload in found
            for each in workload["status"].get("schedulingStats", {}).get("evictions", [])
        }

    async def is_suspended(self, job: str) -> bool:
        found = await self.env.client.get(JOBS, job, self.env.name)
        return bool(found["spec"].get("suspend"))


@asynccontextmanager
async def opened(env: Environment, quotas: Mapping[str, int]) -> AsyncIterator[Queue]:
    """Create the queue, with a number of CPUs for each flavor; remove all of it at the end.

    A flavor is a value of the label by which the nodes of a test are known: its pods get it as
    node selector.
    """
    made: list[tuple[Resource, str, str | None]] = []

    async def create(kind: Resource, name: str, namespace: str | None = None, **more: Json) -> None:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
        await env.client.create(kind, {**body, **more}, namespace)
        made.append((kind, name, namespace))

    try:
        for flavor in quotas:
            await create(FLAVORS, flavor, spec={"nodeLabels": {NODE_LABEL: flavor}})
        await create(CLUSTER_QUEUES, env.name, spec=_cluster_queue(env.name, quotas))
        await create(LOCAL_QUEUES, QUEUE, env.name, spec={"clusterQueue": env.name})
        yield Queue(env)
    finally:
        await env.clear()
        for kind, name, namespace in reversed(made):
            try:
                await env.client.delete(kind, name, namespace)
            except NotFound:  # its namespace is gone
                continue


def _cluster_queue(namespace: str, quotas: Mapping[str, int]) -> Json:
    flavors = [
        {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": str(cpu)}]}
        for flavor, cpu in quotas.items()
    ]
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
