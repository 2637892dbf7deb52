"""Simulated nodes: one loop acts as the kubelet of every node in the cluster.

A Node object of any client is enough. Its kubelet reports Ready and then handles the pods bound to
it: it starts them once their claims are reserved, rejects those that do not fit, terminates those
that must end, and removes deleted ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from localcluster.base.clock import Clock
from localcluster.base.errors import StatusError
from localcluster.base.selectors import parse_labels
from localcluster.controllers import kubelet
from localcluster.controllers.base.api_protocol import CLAIMS, NODES, PODS
from localcluster.controllers.base.client import CachedClient
from localcluster.controllers.base.objects import (
    Key,
    Obj,
    condition,
    is_deleting,
    is_terminal,
    key_of,
    labels_of,
    phase_of,
    uid_of,
    with_status,
)
from localcluster.controllers.base.pod_requests import Amounts, pod_requests
from localcluster.controllers.base.workqueue import Loop
from localcluster.controllers.kubelet import Phase, Readiness
from localcluster.controllers.resource_claims import claims

CAPACITY = {"cpu": "8", "memory": "32Gi", "pods": "110"}
BY_NODE = "node"

NodesKey = tuple[Literal["node", "pod"], Key]


def node_name(pod: Obj) -> Iterable[str]:
    """Index pods by the node they are bound to."""
    name = pod["spec"].get("nodeName")
    return (name,) if name else ()


class Nodes:
    """The nodes of the cluster, and the operations of tests on them and on their pods.

    `grace_cap` is the longest that a deleted pod takes to stop, in seconds, whatever its grace
    period.
    """

    def __init__(self, client: CachedClient, clock: Clock, *, grace_cap: float = 0.05) -> None:
        self.grace_cap = grace_cap
        self._client = client
        self._clock = clock
        self._readiness: dict[str, Readiness] = {}
        self._capacities: dict[str, Mapping[str, str]] = {}
        self._used: dict[str, Amounts] = {}  # by node
        self._admitted: dict[str, tuple[str, Amounts]] = {}  # by pod UID: node and requests
        self._stops: dict[str, float] = {}  # by pod UID: time at which a deleted pod has stopped
        self._addresses = 0
        self.loop: Loop[NodesKey] = Loop("kubelet", clock, self._reconcile)
        client[PODS].add_index(BY_NODE, node_name)
        client[PODS].subscribe(self._pod_changed)
        client[PODS].add_index(claims.BY_CLAIM, claims.by_claim)
        client[NODES].subscribe(self._node_changed)
        client[CLAIMS].subscribe(self._claim_changed)

    async def add(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        capacity: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
    ) -> Obj:
        """Register a Ready node; capacity defaults to cpu 8, memory 32Gi and 110 pods.

        Raises StatusError if the name exists or a field is invalid.
        """
        self._capacities[name] = {**CAPACITY, **(capacity or {})}
        own = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        }
        node: Obj = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {**own, **(labels or {})}},
            "spec": {"taints": [dict(taint) for taint in taints]} if taints else {},
        }
        node["status"] = self._status(node)
        await self._client.create(NODES, "", node)
        return await self._report(name) or node

    async def remove(self, name: str) -> None:
        """Delete the node; its pods are removed afterwards."""
        node = self._client[NODES].get(("", name))
        if node is not None:
            await self._client.delete(NODES, node)

    async def set_ready(self, name: str, readiness: Readiness) -> None:
        """Set a node's Ready condition to True, False (not ready) or Unknown (lost).

        The kubelet of a node that is not ready does not act on its pods until it is ready again.
        """
        self._readiness[name] = readiness
        await self._report(name)
        self._wake_pods(name)

    async def finish(self, namespace: str, selector: str = "", phase: Phase = "Succeeded") -> int:
        """Terminate the running pods that match the label selector, and return their number."""
        wanted = parse_labels(selector)
        count = 0
        for pod in self._client[PODS].values():
            if (
                pod["metadata"]["namespace"] == namespace
                and phase_of(pod) == "Running"
                and wanted.matches(labels_of(pod))
            ):
                await self._end(pod, phase)
                count += 1
        return count

    # Events

    def _node_changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is None:
            name = (old or {})["metadata"]["name"]
            self._readiness.pop(name, None)
            self._capacities.pop(name, None)
            return
        name = new["metadata"]["name"]
        if condition(new, "Ready") is None:
            self.loop.queue.add(("node", ("", name)))
        if old is None or old.get("status") != new.get("status"):
            self._wake_pods(name)

    def _claim_changed(self, old: Obj | None, new: Obj | None) -> None:
        for pod in self._client[PODS].by_index(claims.BY_CLAIM, key_of(new or old or {})):
            if pod["spec"].get("nodeName"):
                self.loop.queue.add(("pod", key_of(pod)))

    def _wake_pods(self, name: str) -> None:
        for pod in self._client[PODS].by_index(BY_NODE, name):
            self.loop.queue.add(("pod", key_of(pod)))

    def _pod_changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is None or is_terminal(new):
            self._forget(new or old or {})
        if new is not None and new["spec"].get("nodeName"):
            self.loop.queue.add(("pod", key_of(new)))

    def _forget(self, pod: Obj) -> None:
        self._stops.pop(uid_of(pod), None)
        admitted = self._admitted.pop(uid_of(pod), None)
        if admitted is not None:
            self._take(admitted[0], {name: -amount for name, amount in admitted[1].items()})

    # Reconciling

    async def _reconcile(self, key: NodesKey) -> float | None:
        what, where = key
        if what == "node":
            await self._report(where[1])
            return None
        pod = self._client[PODS].get(where)
        if pod is None:
            return None
        node = self._client[NODES].get(("", pod["spec"].get("nodeName", "")))
        if node is None or self._readiness.get(node["metadata"]["name"], "True") != "True":
            return None
        if is_deleting(pod):
            return await self._stop(pod)
        if phase_of(pod) == "Pending":
            if self._has_claims(pod):
                await self._start(pod, node)
        elif phase_of(pod) == "Running":
            self._admit(pod, node["metadata"]["name"], pod_requests(pod))
            if phase := kubelet.wanted_end(pod):
                await self._end(pod, phase)
        return None

    def _has_claims(self, pod: Obj) -> bool:
        """Return True if the pod may use all its claims; until then its containers do not start."""
        return all(self._may_use(pod, entry) for entry in claims.entries_of(pod))

    def _may_use(self, pod: Obj, entry: Obj) -> bool:
        name = claims.claim_name(pod, entry)
        if name is None:  # not in the status yet, or no claim to wait for
            return not claims.waits_for_claim(pod, entry)
        claim = self._client[CLAIMS].get((pod["metadata"]["namespace"], name))
        if claim is None or not claims.is_of(claim, pod, entry):
            return False
        return claims.is_reserved_for(claim, pod)

    async def _report(self, name: str) -> Obj | None:
        """Write the node's status."""
        node = self._client[NODES].get(("", name))
        if node is None:
            return None

        def edit(present: Obj) -> Obj | None:
            status = self._status(present)
            return None if status == present.get("status") else with_status(present, status)

        return await self._client.change(
            NODES, ("", name), uid_of(node), edit, subresource="status"
        )

    def _status(self, node: Obj) -> Obj:
        name = node["metadata"]["name"]
        ready = condition(node, "Ready")
        readiness = self._readiness.get(name, "True")
        if ready is not None and ready["status"] == readiness:
            status: Obj = node["status"]
            return status
        capacity = self._capacities.get(name, CAPACITY)
        address, now = self._address("172.16"), self._clock.now()
        return kubelet.node_status(node, readiness, capacity, address, now)

    async def _start(self, pod: Obj, node: Obj) -> None:
        name = node["metadata"]["name"]
        requested = kubelet.of_node(pod, pod_requests(pod))
        shortage = kubelet.first_shortage(
            requested, self._used.get(name, {}), kubelet.allocatable(node)
        )
        if shortage is not None:
            await self._write(pod, kubelet.not_fitting(pod, *shortage))
            return
        self._admit(pod, name, requested)
        address = self._address("10.244")
        try:
            await self._write(pod, kubelet.running(pod, node, address, self._clock.now()))
        except StatusError:
            self._forget(pod)
            raise

    async def _end(self, pod: Obj, phase: Phase) -> None:
        now = self._clock.now()

        def edit(present: Obj) -> Obj | None:
            if phase_of(present) != "Running":
                return None
            return with_status(present, kubelet.ended(present, phase, now))

        await self._client.change(PODS, key_of(pod), uid_of(pod), edit, subresource="status")

    async def _stop(self, pod: Obj) -> float | None:
        """Remove a deleted pod once its grace period is over."""
        grace = pod["metadata"].get("deletionGracePeriodSeconds", 0)
        now = self._clock.monotonic()
        due = self._stops.setdefault(uid_of(pod), now + min(float(grace), self.grace_cap))
        if due > now:
            return due - now
        await self._client.delete(PODS, pod, grace_seconds=0)
        return None

    async def _write(self, pod: Obj, status: Obj) -> None:
        await self._client.update(PODS, with_status(pod, status), subresource="status")

    # Accounting

    def _admit(self, pod: Obj, node: str, requested: Amounts) -> None:
        if uid_of(pod) not in self._admitted:
            self._admitted[uid_of(pod)] = node, requested
            self._take(node, requested)

    def _take(self, node: str, requested: Amounts) -> None:
        used = self._used.setdefault(node, {})
        for name, amount in requested.items():
            used[name] = used.get(name, 0) + amount

    def _address(self, network: str) -> str:
        self._addresses += 1
        return f"{network}.{self._addresses // 250 % 250}.{self._addresses % 250 + 1}"
