"""The environment of one test: a namespace, its own nodes, and queries and waits on them."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from api.constants import ANNOTATION_WAITING_FOR
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.muster import Muster
from e2e.harness.objects import (
    COMPOSITE_POD_GROUPS,
    NODE_LABEL,
    POD_GROUPS,
    WORKLOADS,
    Json,
)
from e2e.harness.support.waiting import eventually
from kube.base.errors import NotFound
from kube.client.client import Client
from kube.client.meta import RawObject, decode_raw
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBS, JOBSETS, NAMESPACES, NODES, PODS, Resource
from kube.informers.cache import Cache
from kube.informers.reflector import Reflector

TIMEOUT_SECONDS = 90.0
"""Maximum seconds of a wait; usually about one, unless an earlier test caused an outage.

After an outage, Kubernetes' own controllers (garbage collection, Jobs, taints of new nodes) back
off for half a minute or more.
"""

TAINT = "test.muster.dev/tainted"
_KINDS = (JOBSETS, JOBS, WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS, PODS)


class Environment:
    """The environment; `name` is the namespace, and the label value of the nodes for its pods."""

    def __init__(self, cluster: Cluster, muster: Muster, client: Client, name: str) -> None:
        self.cluster = cluster
        self.muster = muster
        self.client = client
        self.name = name
        self.timeout_seconds = TIMEOUT_SECONDS
        self._nodes: list[str] = []
        self._numbers = itertools.count()

    async def open(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}}
        await self.client.create(NAMESPACES, body)

    async def close(self) -> None:
        """Delete all objects of the flow, wait, then delete the nodes; leave the namespace.

        Deleting only the namespace would take its controller ten seconds.
        """
        await self.clear()
        await self.cluster.leave_namespace(self.name)

    async def clear(self) -> None:
        """Delete all objects of the flow, wait, then delete the nodes; the namespace is kept."""
        for kind in _KINDS:
            for name in await self._names(kind):
                await self._delete_if_there(kind, name)
        await self.empty()
        while self._nodes:
            await self.cluster.remove_node(self._nodes.pop())

    async def add_node(
        self,
        *,
        cpu: int,
        tainted: bool = False,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        resources: Mapping[str, str] | None = None,
    ) -> str:
        """Add a node for `cpu` pods of this test; `untaint_node` opens a tainted one to them.

        It may offer other `resources`, too. `labels` may replace the label of this test's nodes.
        """
        name = f"{self.name}-{next(self._numbers)}"
        self._nodes.append(name)
        capacity = {"cpu": str(cpu), "pods": "200", **(resources or {})}
        own = [{"key": TAINT, "effect": "NoSchedule"}] if tainted else []
        await self.cluster.add_node(
            name,
            labels={NODE_LABEL: self.name, **(labels or {})},
            capacity=capacity,
            taints=[*own, *taints],
        )
        return name

    async def remove_node(self, name: str) -> None:
        """Remove the node with its pods."""
        self._nodes.remove(name)
        await self.cluster.remove_node(name)

    async def untaint_node(self, name: str) -> None:
        """Remove the taint of a node. Unlike a new node this needs no other component."""
        node = await self.client.get(NODES, name)
        kept = [taint for taint in node["spec"]["taints"] if taint["key"] != TAINT]
        await self.client.patch(NODES, name, PatchBuilder().replace("/spec/taints", kept))

    async def create(self, resource: Resource, obj: Json) -> Json:
        return await self.client.create(resource, obj, self.name)

    async def delete(self, resource: Resource, name: str) -> None:
        """Delete as `kubectl delete`: dependents follow in the background."""
        await self.client.delete(resource, name, self.name, propagation="Background")

    async def delete_pods(self, selector: str = "") -> None:
        """Delete these pods; one that was already terminating may end at any time."""
        for found in await self.pods(selector):
            await self._delete_if_there(PODS, found["metadata"]["name"])

    async def pods(self, selector: str = "") -> list[Json]:
        found = await self.client.list(PODS, self.name, label_selector=selector)
        pods: list[Json] = found["items"]
        return pods

    async def uids(self, selector: str = "") -> set[str]:
        return {pod["metadata"]["uid"] for pod in await self.pods(selector)}

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[Cache[RawObject]]:
        """Follow this test's pods by a watch; the cache is synced at the start."""
        pods: Cache[RawObject] = Cache()
        reflector = Reflector(self.client, PODS, pods, decode=decode_raw, namespace=self.name)
        task = asyncio.ensure_future(reflector.run())
        try:
            await reflector.synced.wait()
            yield pods
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def bound(self, selector: str = "") -> int:
        return sum(1 for pod in await self.pods(selector) if pod["spec"].get("nodeName"))

    async def running(self, selector: str = "") -> int:
        pods = await self.pods(selector)
        return sum(1 for pod in pods if pod.get("status", {}).get("phase") == "Running")

    async def runs(self, selector: str, count: int) -> None:
        """Wait until exactly that many pods run."""

        async def probe() -> bool:
            return await self.running(selector) == count

        await self.until(f"{count} pods of {selector} to run", probe)

    async def gone(self, resource: Resource, name: str) -> None:
        """Wait until an object of the flow, or one without a namespace, does not exist."""

        async def probe() -> bool:
            try:
                await self.client.get(resource, name, self.name if resource.namespaced else None)
            except NotFound:
                return True
            return False

        await self.until(f"{resource.kind} {name} to be gone", probe)

    async def has_pods(self, selector: str, count: int) -> None:
        """Wait until that many pods exist, bound or not."""

        async def probe() -> bool:
            return len(await self.pods(selector)) == count

        await self.until(f"{count} pods of {selector} to exist", probe)

    async def group(self, name: str) -> Json:
        return await self.client.get(POD_GROUPS, name, self.name)

    async def blocker(self, name: str) -> Json:
        """Return `status.blocker` of a PodGroup, {} if there is none."""
        try:
            group = await self.group(name)
        except NotFound:
            return {}
        blocker: Json = group.get("status", {}).get("blocker") or {}
        return blocker

    async def waits(self, name: str, **numbers: Any) -> Json:
        """Wait until the group reports insufficient capacity with these numbers.

        Return the blocker.

        While its members arrive it waits for them, perhaps with the same numbers.
        """
        seen: Json = {}
        wanted = {"kind": "capacity", **numbers}

        async def probe() -> bool:
            nonlocal seen
            seen = await self.blocker(name)
            return bool(seen.get("summary")) and all(
                seen.get(key) == value for key, value in wanted.items()
            )

        try:
            await self.until(f"{name} to wait with {wanted}", probe)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; its blocker is {seen}") from error
        return seen

    async def waits_for_nothing(self, kind: Resource, name: str) -> None:
        """Wait until the owner no longer reports that it waits, a moment after its group."""

        async def probe() -> bool:
            found = await self.client.get(kind, name, self.name)
            return ANNOTATION_WAITING_FOR not in found["metadata"].get("annotations", {})

        await self.until(f"{name} to wait for nothing", probe)

    async def grouped(self, name: str) -> Json:
        """Wait until the group exists, and return it."""
        found: Json = {}

        async def probe() -> bool:
            nonlocal found
            try:
                found = await self.group(name)
            except NotFound:
                return False
            return True

        await self.until(f"{name} to exist", probe)
        return found

    async def scheduled(self, name: str) -> None:
        """Wait until the group exists, is scheduled, and has no blocker."""
        await self.grouped(name)

        async def probe() -> bool:
            status = (await self.group(name)).get("status") or {}
            said = {c["type"]: c["status"] for c in status.get("conditions") or []}
            return said.get("PodGroupInitiallyScheduled") == "True" and not status.get("blocker")

        await self.until(f"{name} to be scheduled", probe)

    async def remaining(self) -> dict[str, list[str]]:
        """Return the names of all remaining objects of the flows, by kind."""
        found = {kind.plural: await self._names(kind) for kind in _KINDS}
        return {plural: names for plural, names in found.items() if names}

    async def empty(self) -> None:
        """Wait until no object of the flows remains."""
        left: dict[str, list[str]] = {}

        async def probe() -> bool:
            nonlocal left
            left = await self.remaining()
            return not left

        try:
            await self.until("everything to be gone", probe)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; left are {left}") from error

    async def until(
        self, what: str, probe: Callable[[], Awaitable[bool]], timeout: float | None = None
    ) -> None:
        await eventually(probe, what, self.timeout_seconds if timeout is None else timeout)

    async def _names(self, kind: Resource) -> list[str]:
        try:
            found = await self.client.list(kind, self.name)
        except NotFound:  # a flow removed Muster from the cluster
            return []
        return [item["metadata"]["name"] for item in found["items"]]

    async def _delete_if_there(self, kind: Resource, name: str) -> None:
        try:
            await self.delete(kind, name)
        except NotFound:  # it was terminating, or its owner was deleted first
            return
