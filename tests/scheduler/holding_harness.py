"""A harness with expected pods: groups and pods arrive as the watch delivers them."""

import json
from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from api import features
from kube.client.resources import PODS
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.search.place import Placement
from scheduler.core.state.state import State
from scheduler.core.values.model import POD_GROUP, GroupKey, PodInfo
from scheduler.decoding.objects import decode_group, decode_pod
from scheduler.expected.pods import ExpectedPods
from scheduler.held_places.held_places import HeldPlaces
from scheduler.support.config import ExpectedLimits, HoldingLimits
from scheduler.support.kinds import GROUPS
from scheduler.watch.event_handlers import GroupHandler, PodHandler
from tests.scheduler.eviction_harness import EvictionHarness

Json = dict[str, Any]

POD_GROUPS = GROUPS["PodGroup"]
HOLD = 600.0
MOST = 100


def template(cpu: int = 1, *, port: int = 0, app: str = "", **spec: Any) -> Json:
    """Return the template of pods with this many cores, a host `port`, and the label `app`."""
    requests = {"cpu": str(cpu)} if cpu else {}
    ports = [{"hostPort": port, "containerPort": port}] if port else []
    container = {"name": "main", "resources": {"requests": requests}, "ports": ports}
    made = {"schedulerName": "muster-scheduler", "containers": [container], **spec}
    return {"spec": made} | ({"metadata": {"labels": {"app": app}}} if app else {})


def kind(name: str, count: int, cpu: int = 1, *, stage: int = 0, **spec: Any) -> Json:
    """Return one entry of expectedPods."""
    return {"name": name, "count": count, "stage": stage, "template": template(cpu, **spec)}


class HoldingHarness(EvictionHarness):
    """A harness in which `group` and `pod` deliver objects; deletions also reach the API server."""

    expected: ExpectedPods
    held_places: HeldPlaces
    limits = ExpectedLimits(MOST)
    gates = features.USUAL

    def build_holding(self) -> tuple[ExpectedPods, HeldPlaces]:
        state = self.builder.state
        expected = ExpectedPods(state, self.limits)
        self.pods = PodHandler(state, self.changed.set, expected=expected, clock=self.server_clock)
        self.pending = self.pods.pending
        self.groups = GroupHandler(
            POD_GROUP,
            state,
            self.changed.set,
            self.observed,
            self.pods.on_group_changed,
            gates=self.gates,
        )
        held = HeldPlaces(
            self.shell,
            self.pods,
            expected,
            self.group_events,
            config=HoldingLimits(seconds=HOLD, pods_per_namespace=MOST),
            observed=self.observed,
            evict=self._evict,
            store=self._store,
        )
        return expected, held

    def group(
        self,
        name: str,
        minimum: int,
        *kinds: Json,
        priority: int = 0,
        mode: str = "single",
        parent: str | None = None,
        annotations: dict[str, str] | None = None,
        status: Json | None = None,
        rack: bool = False,
    ) -> GroupKey:
        """Add a gang that expects pods of these kinds; the same name again changes it."""
        obj = {
            "metadata": self._meta(name) | {"annotations": annotations or {}},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": minimum}},
                "priority": priority,
                "disruptionMode": {mode: {}},
                "expectedPods": list(kinds),
                "parentCompositePodGroupName": parent,
                "schedulingConstraints": {"topology": [{"key": "rack"}]} if rack else None,
            },
            "status": status or {},
        }
        stored = self.status_api.put(POD_GROUPS, obj)
        self.groups.upsert(decode_group(json.dumps(stored).encode()))
        return (POD_GROUP, "ns", name)

    def pod(
        self,
        name: str,
        group: str,
        cpu: int = 1,
        *,
        priority: int = 0,
        phase: str = "Pending",
        **spec: Any,
    ) -> None:
        """Add a pod with the tolerations that the API server adds.

        In another `phase` it has the node where it was bound.
        """
        made = template(cpu, priority=priority, **spec)
        added = [
            {"key": f"node.kubernetes.io/{it}", "operator": "Exists", "effect": "NoExecute"}
            for it in ("not-ready", "unreachable")
        ]
        made["spec"]["tolerations"] = [*spec.get("tolerations", ()), *added]
        labels = {"scheduling.muster.dev/pod-group": group}
        labels |= made.get("metadata", {}).get("labels", {})
        if phase != "Pending":
            made["spec"]["nodeName"] = self.where()[name]
        metadata, status = self._meta(name) | {"labels": labels}, {"phase": phase}
        obj = {"metadata": metadata, "spec": made["spec"], "status": status}
        stored = self.status_api.put(PODS, obj)
        self.pods.upsert(decode_pod(json.dumps(stored).encode()))

    def delete_pod(self, name: str) -> None:
        self.pods.delete(("ns", name))
        self.api.bound.pop(name, None)

    def with_phase(self, uid: str, phase: str) -> PodInfo:
        """Return the pod as the API server would show it in another phase."""
        return replace(self.builder.state.pods[uid].info, phase=phase)

    def delete_group(self, name: str) -> None:
        self.groups.delete(("ns", name))

    def where(self, prefix: str = "") -> dict[str, str]:
        """Return the nodes of the bound pods."""
        return {name: node for name, node in self.api.bound.items() if name.startswith(prefix)}

    def held(self, group: str) -> dict[str, int]:
        """Return the number of places held for the group on each node."""
        return places_held_for(self.builder.state, group)

    async def restart(self) -> None:
        """Restart as another leader, with the objects and the Reservations, but no memory."""
        await self.new_term()

    def _evict(self, root: Group, pods: list[Pod], why: str) -> None:
        self.evictor.disrupt(root, pods, why)

    def _store(self, placement: Placement) -> None:
        self.binder.submit(placement)

    def _parts(self) -> list[Coroutine[Any, Any, None]]:
        return [*super()._parts(), self.held_places.run(self.fence)]

    def _meta(self, name: str) -> Json:
        self._serial = getattr(self, "_serial", 0) + 1
        return {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "generation": 1,
            "creationTimestamp": f"2026-01-01T00:{self._serial // 60:02}:{self._serial % 60:02}Z",
        }


def places_held_for(state: State, group: str) -> dict[str, int]:
    """Return the number of places held for the group on each node."""
    return dict(
        Counter(
            pod.node
            for pod in state.pods.values()
            if pod.info.expected and pod.info.group == group and pod.assumed
        )
    )
