"""A harness with expected pods that have ResourceClaims."""

import copy
import json
from typing import Any, Final

from kube.client.meta import Json
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.search.place import Placement
from scheduler.core.values.model import POD_GROUP, GroupKey
from scheduler.decoding.device_objects import decode_claim_template
from scheduler.decoding.objects import decode_group
from scheduler.expected.pods import ExpectedPods
from scheduler.held_places.held_places import HeldPlaces
from scheduler.support.config import ExpectedLimits, HoldingLimits
from scheduler.support.kinds import GROUPS
from tests.scheduler.claims.claims_harness import ClaimsHarness
from tests.scheduler.holding_harness import places_held_for

MOST = 100

ADDED: Final = [
    {"key": f"node.kubernetes.io/{it}", "operator": "Exists", "effect": "NoExecute"}
    for it in ("not-ready", "unreachable")
]


def expected(name: str, count: int, *, own: int = 1, stage: int = 0, **spec: Any) -> Json:
    """Return one entry of expectedPods, whose pods have `own` claims from the template t."""
    entries = [{"name": f"own{at}", "resourceClaimTemplateName": "t"} for at in range(own)]
    made = {"schedulerName": "muster-scheduler", "resourceClaims": entries, **spec}
    return {"name": name, "count": count, "stage": stage, "template": {"spec": made}}


class HoldingClaimsHarness(ClaimsHarness):
    """A harness in which `template` and `group` deliver objects; it has no preemption."""

    expected: ExpectedPods
    held_places: HeldPlaces

    def build_holding(self) -> tuple[ExpectedPods, HeldPlaces]:
        expected = ExpectedPods(
            self.builder.state, ExpectedLimits(MOST), claims_refused=self.claims_refused
        )
        self.build_handlers(expected)
        held = HeldPlaces(
            self.shell,
            self.pods,
            expected,
            self.group_events,
            config=HoldingLimits(seconds=600, pods_per_namespace=MOST),
            observed=self.observed,
            evict=self._evict,
            store=self._store,
        )
        return expected, held

    def template(self, name: str = "t", *, count: int = 1, **request: Any) -> None:
        """Add a ResourceClaimTemplate for that many devices."""
        exactly = {"deviceClassName": "gpu", "count": count, **request}
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
        body = {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"}}
        obj = body | {"spec": {"spec": spec}}
        self.templates.upsert(decode_claim_template(json.dumps(obj).encode()))

    def group(self, name: str, minimum: int, *kinds: Json, priority: int = 0) -> GroupKey:
        """Add a gang that expects pods of these kinds; the same name again changes it."""
        metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
        spec = {
            "schedulingPolicy": {"gang": {"minCount": minimum}},
            "priority": priority,
            "expectedPods": list(kinds),
        }
        obj = {"metadata": metadata, "spec": spec, "status": {}}
        stored = self.api.put(GROUPS["PodGroup"], obj)
        self.groups.upsert(decode_group(json.dumps(stored).encode()))
        return (POD_GROUP, "ns", name)

    def worker(self, name: str, group: str, **more: Any) -> None:
        """Create a pod and its claim from the template."""
        self.pod(name, group, tolerations=ADDED, **more)
        self.claim(f"{name}-0", owner=name)

    def worker_without_claim(self, name: str, group: str, **more: Any) -> None:
        """Create a pod without an own claim."""
        self.pod(name, group, own=0, tolerations=ADDED, **more)

    def deliver_deletion(self, name: str, *, claim: bool = True) -> None:
        """Delete the pod; with `claim`, kube-controller-manager has deleted its claim already."""
        self.delete_pod(name)
        self.api.bound.pop(name, None)
        if claim:
            self.api.drop_claim(f"{name}-0")

    def where(self, prefix: str = "") -> dict[str, str]:
        return {name: node for name, node in self.api.bound.items() if name.startswith(prefix)}

    def held_for(self, group: str) -> dict[str, int]:
        """Return the number of places held for the group on each node."""
        return places_held_for(self.builder.state, group)

    def in_use(self) -> dict[tuple[str, str], str]:
        """Return devices by pool and name, each with the one claim that uses it."""
        table = self.builder.state.devices
        found: dict[tuple[str, str], str] = {}
        for claim in [*table.claims, *table.assumed]:
            allocation = table.allocation(claim)
            for each in allocation.devices if allocation is not None else ():
                at = each.key[1:]
                assert found.setdefault(at, claim[1]) == claim[1], (at, found[at], claim)
        return found

    async def restart(self) -> None:
        """Restart as another leader, with the objects and the Reservations, but no memory."""
        state = self.builder.state
        for uid in [uid for uid, pod in state.pods.items() if pod.assumed]:
            state.forget(uid)
        await self.new_term()

    def _evict(self, root: Group, pods: list[Pod], why: str) -> None:
        raise AssertionError((root, pods, why))

    def _store(self, placement: Placement) -> None:
        self.binder.submit(placement)

    def _parts(self) -> list[Any]:
        return [*super()._parts(), self.held_places.run(self.fence)]


def without_status(claim: Json) -> Json:
    """Return the claim after kube-controller-manager deallocated it."""
    freed = copy.deepcopy(claim)
    freed.pop("status", None)
    return freed
