"""The node lifecycle controller: taints by node condition, and pods of deleted nodes.

It does not evict pods from a node that is not ready: Kubernetes does so only after five minutes.
"""

from collections.abc import Callable
from typing import Literal

from localcluster.base.clock import Clock, timestamp
from localcluster.controllers.base.api_protocol import NODES, PODS
from localcluster.controllers.base.client import CachedClient
from localcluster.controllers.base.objects import (
    Obj,
    condition,
    is_terminal,
    is_true,
    key_of,
    uid_of,
    with_conditions,
    with_status,
)
from localcluster.controllers.base.workqueue import Loop
from localcluster.controllers.nodes import BY_NODE

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_TAINTS = {"False": NOT_READY, "Unknown": UNREACHABLE}

StatusEdit = Callable[[Obj], Obj]
LifecycleKey = tuple[Literal["node", "orphans"], str]


def condition_taints(node: Obj) -> list[Obj]:
    """Return the node's taints with those for its Ready condition corrected.

    The order of the others is kept; effects are NoSchedule and NoExecute, as upstream.
    """
    ready = condition(node, "Ready")
    wanted = _TAINTS.get(ready["status"] if ready else "False")
    taints: list[Obj] = node["spec"].get("taints") or []
    kept = [one for one in taints if one["key"] not in _TAINTS.values() or one["key"] == wanted]
    for effect in ("NoSchedule", "NoExecute"):
        present = any(one["key"] == wanted and one["effect"] == effect for one in kept)
        if wanted is not None and not present:
            kept.append({"key": wanted, "effect": effect})
    return kept


def unready_status(pod: Obj, stamp: str) -> Obj:
    """Return the status of a pod whose node is no longer ready."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    lost = {
        "type": "Ready",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": stamp,
        "reason": "NodeNotReady",
        "message": "Node is not ready",
    }
    return {**pod["status"], "conditions": with_conditions(conditions, [lost])}


def ready_status(pod: Obj, stamp: str) -> Obj:
    """Return the status of such a pod once its node is ready again."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    back = {
        "type": "Ready",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": stamp,
    }
    return {**pod["status"], "conditions": with_conditions(conditions, [back])}


def lost_node_status(pod: Obj, stamp: str) -> Obj:
    """Return the status of a pod whose node no longer exists: Failed, with DisruptionTarget."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
        "lastProbeTime": None,
        "lastTransitionTime": stamp,
    }
    marked = with_conditions(conditions, [target])
    return {**(pod.get("status") or {}), "phase": "Failed", "conditions": marked}


class NodeLifecycle:
    """Controller that taints nodes by condition, and removes the pods of deleted nodes."""

    def __init__(self, client: CachedClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self.loop: Loop[LifecycleKey] = Loop("node-lifecycle", clock, self._reconcile)
        client[NODES].subscribe(self._node_changed)
        client[PODS].subscribe(self._pod_changed)

    def _node_changed(self, old: Obj | None, new: Obj | None) -> None:
        node = new or old
        if node is not None:
            what: Literal["node", "orphans"] = "node" if new is not None else "orphans"
            self.loop.queue.add((what, node["metadata"]["name"]))

    def _pod_changed(self, _old: Obj | None, new: Obj | None) -> None:
        name = new["spec"].get("nodeName") if new is not None else None
        if name and self._client[NODES].get(("", name)) is None:
            self.loop.queue.add(("orphans", name))

    async def _reconcile(self, key: LifecycleKey) -> None:
        what, name = key
        if what == "orphans":
            await self._clear(name)
            return
        node = self._client[NODES].get(("", name))
        if node is None:
            return

        def edit(present: Obj) -> Obj | None:
            taints = condition_taints(present)
            if taints == (present["spec"].get("taints") or []):
                return None
            spec = {name: value for name, value in present["spec"].items() if name != "taints"}
            return {**present, "spec": {**spec, "taints": taints} if taints else spec}

        await self._client.change(NODES, ("", name), uid_of(node), edit)
        if condition(node, "Ready") is not None:
            await self._mark_pods(name, ready=is_true(node, "Ready"))

    async def _mark_pods(self, node: str, *, ready: bool) -> None:
        stamp = timestamp(self._clock.now())
        for pod in self._client[PODS].by_index(BY_NODE, node):
            found = condition(pod, "Ready") or {}
            if not ready and found.get("status") == "True":
                await self._change(pod, lambda one: unready_status(one, stamp))
            elif ready and found.get("reason") == "NodeNotReady" and not is_terminal(pod):
                await self._change(pod, lambda one: ready_status(one, stamp))

    async def _clear(self, node: str) -> None:
        """Fail and delete the pods of a node that the server, not only the cache, lacks."""
        if await self._client.get(NODES, ("", node)) is not None:
            return
        stamp = timestamp(self._clock.now())
        for pod in self._client[PODS].by_index(BY_NODE, node):
            if not is_terminal(pod):
                await self._change(pod, lambda one: lost_node_status(one, stamp))
            await self._client.delete(PODS, pod, grace_seconds=0)

    async def _change(self, pod: Obj, status: StatusEdit) -> None:
        def edit(present: Obj) -> Obj:
            return with_status(present, status(present))

        await self._client.change(PODS, key_of(pod), uid_of(pod), edit, subresource="status")
