"""A scheduler's state with the objects of an instance, and its decisions as plain values."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from api.constants import NATIVE_COMPOSITE_POD_GROUP, NATIVE_POD_GROUP
from kube.client.meta import Json, decode_partial
from kube.client.resources import (
    CSI_NODES,
    DAEMON_SETS,
    DEVICE_CLASSES,
    NODES,
    PDBS,
    PODS,
    PVCS,
    PVS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    Resource,
)
from scheduler.cel.selectors import Selectors
from scheduler.core.decide import decide
from scheduler.core.defragmentation.movable import MoveLimits
from scheduler.core.defragmentation.plan import MovePlan, defragment
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.nominations import Nomination
from scheduler.core.state.state import State
from scheduler.core.values.devices import Allocation
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP, GroupKey
from scheduler.decoding.device_objects import (
    decode_claim_template,
    decode_device_class,
    decode_resource_claim,
    decode_resource_slice,
)
from scheduler.decoding.objects import decode_budget, decode_group, decode_node, decode_pod
from scheduler.decoding.volume_objects import (
    decode_claim,
    decode_class,
    decode_csi_node,
    decode_volume,
)
from scheduler.expected.pod_info import UID_PREFIX
from scheduler.expected.pods import ExpectedPods
from scheduler.queue.scheduling_queue import Queue
from scheduler.support.config import ExpectedLimits
from scheduler.support.kinds import GROUP_RESOURCES
from scheduler.watch.claim_notifications import ClaimNews
from scheduler.watch.device_handlers import (
    DeviceClassHandler,
    ResourceClaimHandler,
    ResourceSliceHandler,
)
from scheduler.watch.event_handlers import (
    DaemonSetHandler,
    GroupHandler,
    PodHandler,
)
from scheduler.watch.object_handlers import (
    claim_handler,
    claim_template_handler,
    csi_node_handler,
    disruption_budget_handler,
    node_handler,
    storage_class_handler,
    volume_handler,
)
from tests.scheduler.crossings.objects import BEGIN, key_of, named, objects
from tests.support.dated_clock import DatedClock

SELECTORS = Selectors()
NANO = 1_000_000_000


def _nothing() -> None:
    """Do nothing: no task waits for changes."""


class Built:
    """The state, its queue, and the event handlers of the objects."""

    def __init__(self, instance: Mapping[str, Any]) -> None:
        self.state = state = State(evaluate=SELECTORS.evaluate)
        self.queue = Queue(state)
        self.now = 0.0
        self._budget = SearchBudget(profile="spread" if instance.get("spread") else "pack")
        expected = ExpectedPods(state, ExpectedLimits(1000))
        pods = PodHandler(state, _nothing, expected=expected, clock=DatedClock(BEGIN))
        self._sinks: dict[Resource, tuple[Any, Callable[[bytes], Any]]] = {
            NODES: (node_handler(state, _nothing), decode_node),
            PDBS: (disruption_budget_handler(state), decode_budget),
            DAEMON_SETS: (DaemonSetHandler(state), decode_partial),
            PVCS: (claim_handler(state, _nothing), decode_claim),
            PVS: (volume_handler(state, _nothing), decode_volume),
            STORAGE_CLASSES: (storage_class_handler(state, _nothing), decode_class),
            CSI_NODES: (csi_node_handler(state, _nothing), decode_csi_node),
            PODS: (pods, decode_pod),
            DEVICE_CLASSES: (DeviceClassHandler(state, _nothing, pods), decode_device_class),
            RESOURCE_SLICES: (ResourceSliceHandler(state, _nothing), decode_resource_slice),
            RESOURCE_CLAIMS: (
                ResourceClaimHandler(state, _nothing, pods, ClaimNews()),
                decode_resource_claim,
            ),
            RESOURCE_CLAIM_TEMPLATES: (
                claim_template_handler(_nothing, pods),
                decode_claim_template,
            ),
        }
        pods.native = True
        for name, members in (
            (COMPOSITE_POD_GROUP, ()),
            (POD_GROUP, (pods.on_group_changed,)),
            (NATIVE_COMPOSITE_POD_GROUP.full_kind, ()),
            (NATIVE_POD_GROUP.full_kind, (pods.on_native_group_changed,)),
        ):
            handler = GroupHandler(name, state, _nothing, {}, *members)
            self._sinks[GROUP_RESOURCES[name]] = (handler, decode_group)
        pods.serve_claims(templates=True)
        for kind, obj in objects(instance):
            self.deliver(kind, obj)

    def deliver(self, kind: Resource, obj: Json) -> None:
        """Deliver the object as a watch does."""
        handler, decode = self._sinks[kind]
        handler.upsert(decode(msgspec.json.encode(obj)))

    def delete_pod(self, name: str) -> None:
        self._sinks[PODS][0].delete(key_of(name))

    def delete_claim(self, name: str) -> None:
        self._sinks[RESOURCE_CLAIMS][0].delete(key_of(name))

    def next(self) -> GroupKey | None:
        """Return the root to decide next."""
        for _ in self.state.catch_up():
            pass
        while True:
            self.queue.refresh(self.state.take_changes(), self.now)
            key = self.queue.pop()
            if key is None or self.queue.entity(key) is not None:
                return key

    def decide(self, key: GroupKey) -> Json:
        """Decide the root, and apply the decision to the state."""
        entity = self.queue.entity(key)
        assert entity is not None
        free = self.state.nodes.free.copy()
        decision = decide(self.state, entity, self._budget)
        if isinstance(decision, Placement):
            assert (self.state.nodes.free == free).all(), "the decision changed the state"
            result = self._placed(decision)
            self.state.assume(decision.pods, decision.rows, decision.volumes, decision.devices)
            self.state.end_nomination(key, decision.rows)
            self.queue.review(key)
            return result | {"minimums": decision.minimums, "steps": decision.steps}
        plan = preempt(self.state, entity, decision, self._budget, SearchEffort())
        assert (self.state.nodes.free == free).all(), "the decision changed the state"
        self.queue.refuse(key, decision, self.now)
        if not isinstance(plan, Plan):
            self.state.end_nomination(key)
            refused = {"root": _root_name(key), "kind": key[0], "steps": decision.steps}
            return refused | self._moves(entity, decision)
        self._nominate(plan, entity)
        victims = [[*map(pod_name, unit.pods.values())] for unit in plan.victims]
        gone = [pod for unit in plan.victims for pod in unit.pods.values()]
        for pod in gone:
            if pod.info.expected:
                self.state.forget(pod.info.uid)
            else:
                self.state.units.mark_evicting([pod])
                self.state.set_pod(replace(pod.info, terminating=True))
        said = {"victims": victims, "minimal": plan.minimal, "steps": decision.steps}
        return self._placed(plan.placement) | said

    def _moves(self, entity: Group | Pod, refusal: Refusal) -> Json:
        """Return the gangs that would be moved for the root, in the order of their return."""
        state = self.state
        before = state.nodes.free.copy(), set(state.forest.groups), set(state.pods)
        plan = defragment(state, entity, refusal, lambda: self._budget, MoveLimits())
        assert (state.nodes.free == before[0]).all(), "the search for moves changed the state"
        assert (set(state.forest.groups), set(state.pods)) == before[1:]
        if not isinstance(plan, MovePlan):
            return {}
        moves = [
            {
                "root": _root_name(mover.key),
                "kind": mover.key[0],
                "places": [[pod_name(pod), state.nodes.name_of(row)] for pod, row in pairs],
            }
            for mover, pairs in plan.moves.items()
        ]
        return {"moves": [self._placed(plan.placement), *moves]}

    def _nominate(self, plan: Plan, entity: Group | Pod) -> None:
        name = self.state.nodes.name_of
        placement = plan.placement
        places = tuple(
            (pod.shape, ((name(row), 1),))
            for pod, row in zip(placement.pods, placement.rows, strict=True)
        )
        self.state.nominations.set(Nomination(plan.root, entity.priority, places))

    def _placed(self, placement: Placement) -> Json:
        name = self.state.nodes.name_of
        pods = list(zip(placement.pods, map(name, placement.rows), strict=True))
        claims: dict[str, list[list[Any]]] = {}
        for key, allocation in (placement.devices or {}).items():
            claims[_claim_name(key)] = _given(allocation)
        volumes = {
            named(key[1], key[0]): assumed.volume
            for key, assumed in (placement.volumes or {}).items()
        }
        return {
            "root": _root_name(placement.root),
            "kind": placement.root[0],
            "places": [[pod_name(pod), node] for pod, node in pods],
            "users": {pod_name(pod): _claims(pod) for pod, _ in pods if pod.info.device_claims},
            "claims": claims,
            "volumes": volumes,
        }


def pod_name(pod: Pod) -> str:
    """Return the name; of an expected pod GROUP/KIND/NUMBER."""
    return _name(pod.info.uid, pod.info.name, pod.info.namespace)


def _name(uid: str, name: str, namespace: str) -> str:
    if not uid.startswith(UID_PREFIX):
        return named(name, namespace)
    group, _, rest = uid.split("/", 2)[2].partition("/")
    return f"{named(group, namespace)}/{rest}"


def _root_name(key: GroupKey) -> str:
    return named(key[2], key[1])


def _claim_name(key: tuple[str, str]) -> str:
    return _name(key[1], key[1], key[0])


def _claims(pod: Pod) -> list[str]:
    return [*map(_claim_name, pod.info.device_claims)]


def _given(allocation: Allocation) -> list[list[Any]]:
    """Return [pool, device, option, amount] of each device."""
    return [
        [
            each.key[1],
            each.key[2],
            int(each.request.rpartition("/o")[2]) if "/" in each.request else 0,
            sum(amount for _, amount in each.consumed) // NANO,
        ]
        for each in allocation.devices
    ]
