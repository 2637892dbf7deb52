"""The complete input of the scheduler as one value: state, queue, budget, and its decisions.

A state restored from a snapshot decides exactly as the one it was taken from: nodes keep their
rows, shapes and waiting pods their order. It contains only what decisions depend on, and no object
of the cluster: no environment variables, no commands, no Secrets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import merge
from itertools import islice
from typing import Final, TypeVar

import msgspec

from api.priority import PriorityClass
from kube.base.errors import ConfigError
from scheduler.cel.selectors import Selectors
from scheduler.core.decide import decide
from scheduler.core.devices.taint_rules import DeviceTaintRule
from scheduler.core.explain.explain import Blocker, explain
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.groups.groups import StartWait
from scheduler.core.groups.workload_templates import GroupTemplate, TemplateKey, WorkloadKey
from scheduler.core.pods.shapes import Shape
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.place import Placement, SearchBudget
from scheduler.core.state.disruption_budgets import DisruptionBudget
from scheduler.core.state.node_daemons import DaemonSetKey
from scheduler.core.state.nominations import Nomination
from scheduler.core.state.replica_counts import ServiceKey, ServiceSelector
from scheduler.core.state.starvation_gate import ClosedFor
from scheduler.core.state.state import State
from scheduler.core.values.devices import Allocation, DeviceClaimInfo, DeviceClassInfo, SliceInfo
from scheduler.core.values.model import (
    NEWEST_RELEASE,
    ClaimInfo,
    ClaimKey,
    GroupKey,
    GroupSpec,
    NodeInfo,
    PodInfo,
    Release,
    Requirements,
    StorageCapacityInfo,
    StorageClassInfo,
    VolumeInfo,
)
from scheduler.core.values.profiles import Profile, Scoring
from scheduler.core.values.run_protection import NO_PROTECTION, RunProtection
from scheduler.core.values.search_budget import nothing
from scheduler.core.volumes.assumed_volumes import AssumedVolume
from scheduler.decoding.decode import NEVER
from scheduler.queue.scheduling_queue import Queue
from scheduler.snapshot import device_snapshot

FORMAT = 8
"""The version of the file's format. Files of another version are rejected."""

_PART: Final = 256
"""Values that are collected, or encoded, between two pauses."""

T = TypeVar("T")


class Limits(msgspec.Struct, frozen=True):
    """The budget of one decision, without a limit of time.

    `preempts` is true if pods may be evicted. `overdue` (seconds of the monotonic clock, as all its
    times) is the limit for terminating pods that are no longer waited for, `soon` for those
    deleted by others that are not waited for yet; None waits for all. `profiles` are by
    schedulerName; `profile` and `by_score` are for others.
    """

    steps: int
    packing_steps: int
    profile: Profile
    preempts: bool = True
    overdue: float = 0.0
    soon: float | None = None
    profiles: dict[str, Scoring] = {}
    by_score: bool = False

    @classmethod
    def of(
        cls, budget: SearchBudget, effort: SearchEffort | None = None, *, preempts: bool = True
    ) -> Limits:
        effort = effort or SearchEffort()
        # JSON has no infinity.
        soon = effort.soon if math.isfinite(effort.soon) else None
        steps, packing_steps = budget.steps, budget.packing_steps
        profile, profiles = budget.profile, dict(budget.profiles)
        return cls(
            steps, packing_steps, profile, preempts, effort.overdue, soon, profiles, budget.by_score
        )

    def budget(self) -> SearchBudget:
        return SearchBudget(
            self.steps, self.packing_steps, self.profile, self.by_score, self.profiles
        )

    def effort(self) -> SearchEffort:
        return SearchEffort(overdue=self.overdue, soon=math.inf if self.soon is None else self.soon)


class Decision(msgspec.Struct, frozen=True):
    """The decision on one root: node by pod and devices by ResourceClaim, or the blocker.

    A root that does not fit may be `nominated`, node by pod, for the time when the pods that it
    `evicts` (namespace/name) and those that terminate already are gone.
    """

    root: GroupKey
    steps: int
    placed: dict[str, str] | None = None
    blocker: Blocker | None = None
    nominated: dict[str, str] | None = None
    evicts: list[str] = []
    devices: dict[str, list[str]] = {}


class SnapshotNomination(msgspec.Struct, frozen=True):
    """The nomination of a root: for each shape, by its index, the number of pods on each node."""

    root: GroupKey
    priority: int
    places: list[tuple[int, list[tuple[str, int]]]]


class Snapshot(msgspec.Struct, frozen=True):
    """Values in the order in which they must be restored.

    `nodes` are by row, None where a row is vacant; `vacant` is the order in which those are reused.
    `waiting` has each group's waiting pods (UIDs) in their order; `assumed` is what is decided and
    not bound yet, node by UID; `assumed_volumes` the volume (empty: to be provisioned) and the node
    of the claims of those; `nominations` are the places of roots that preempted, `evicting` the
    UIDs of the pods evicted for them and when they should be gone (None if unknown), `spared` of
    those that cannot be evicted, and `units` those of all running pods in the order in which they
    are considered as victims. `queue` are the roots in the order of the queue, and `decisions`
    those on the first of them. `priorities` state who may preempt, and serve simulations:
    everything else in the snapshot has its priority already. `starvation` is the root that goes
    before others. `templates` are those of each Workload, with which groups are compared.
    `initially_scheduled` are the groups that were scheduled once, `given_up` the roots that did not
    start in time, with their messages. `slices`, `device_classes` and
    `device_claims` are all that is known of devices, `device_taint_rules` what else taints them,
    `assumed_devices` the allocations of claims that were decided and are not written yet. `release`
    is that of Kubernetes. `required_drivers` are the CSI drivers that a node must have for pods
    with their volumes, `measured_drivers` those whose volumes need `storage_capacities`. `services`
    are the selectors of Services, `images` the sizes in bytes of those that waiting pods need, and
    the names of the nodes that have them. `protection` is None if neither the age of units nor
    what they report or lost before makes a difference.
    """

    format: int
    limits: Limits
    resources: list[str]
    nodes: list[NodeInfo | None]
    vacant: list[int]
    namespaces: dict[str, dict[str, str]]
    claims: list[ClaimInfo]
    volumes: list[VolumeInfo]
    classes: list[StorageClassInfo]
    attachable: dict[str, dict[str, int]]
    requirements: list[Requirements]
    groups: list[GroupSpec]
    pods: list[PodInfo]
    assumed: dict[str, str]
    waiting: dict[str, list[str]]
    nominations: list[SnapshotNomination]
    evicting: dict[str, float | None]
    spared: list[str]
    units: list[str]
    disruption_budgets: list[DisruptionBudget]
    queue: list[GroupKey]
    decisions: list[Decision]
    priorities: list[PriorityClass]
    starvation: ClosedFor | None = None
    assumed_volumes: list[tuple[ClaimKey, str, str]] = []
    templates: list[tuple[WorkloadKey, list[tuple[TemplateKey, GroupTemplate]]]] = []
    daemon_sets: list[DaemonSetKey] = []
    initially_scheduled: list[GroupKey] = []
    given_up: list[tuple[GroupKey, str]] = []
    slices: list[SliceInfo] = []
    device_classes: list[DeviceClassInfo] = []
    device_claims: list[DeviceClaimInfo] = []
    assumed_devices: list[tuple[ClaimKey, Allocation]] = []
    device_taint_rules: list[DeviceTaintRule] = []
    release: Release = NEWEST_RELEASE
    required_drivers: list[str] = []
    measured_drivers: list[str] = []
    storage_capacities: list[StorageCapacityInfo] = []
    services: list[tuple[ServiceKey, ServiceSelector]] = []
    images: dict[str, tuple[int, list[str]]] = {}
    protection: RunProtection | None = None


def take(
    state: State,
    queue: Queue,
    limits: Limits,
    priorities: Sequence[PriorityClass] = (),
    *,
    decisions: int = 20,
    pause: Callable[[], None] = nothing,
) -> Snapshot:
    """Take everything as it is now, with the decisions on the first roots. Change nothing.

    Nothing may change at a `pause` either.
    """

    def all_of(values: Iterable[T]) -> Iterator[T]:
        for number, value in enumerate(values):
            if number % _PART == 0:
                pause()
            yield value

    roots = queue.waiting()
    storage, shapes = state.volumes, list(state.shapes)
    groups = state.forest.groups.values()
    # A group without an object exists because pods name it: they create it again.
    specs = [group.spec for group in all_of(groups) if group.spec is not None]
    pods = list(all_of(_in_order(all_of(state.pods.values()))))
    return Snapshot(
        format=FORMAT,
        limits=limits,
        resources=sorted(state.nodes.resources.indices),
        nodes=list(state.nodes.infos),
        vacant=list(state.nodes.vacant),
        namespaces={name: dict(labels) for name, labels in state.selectors.namespaces.items()},
        claims=list(all_of(storage.claims.values())),
        volumes=list(all_of(storage.volumes.values())),
        classes=list(storage.classes.values()),
        attachable={node: dict(limit) for node, limit in storage.limits.items()},
        # In the order of the shapes: nominations refer to a shape by its index.
        requirements=[
            device_snapshot.shown_requirements(shape.requirements) for shape in all_of(shapes)
        ],
        # Sorted, so that equal states give equal snapshots.
        groups=sorted(specs, key=lambda spec: spec.key),
        initially_scheduled=sorted(
            group.key for group in all_of(groups) if group.initially_scheduled
        ),
        given_up=sorted(
            (group.key, group.start_wait.given_up)
            for group in all_of(groups)
            if group.start_wait is not None and group.given_up
        ),
        pods=[device_snapshot.shown_pod(pod.info) for pod in all_of(pods)],
        assumed=dict(sorted((pod.info.uid, pod.node) for pod in all_of(pods) if pod.assumed)),
        waiting={
            "/".join(group.key): [uid for pods in group.pending.values() for uid in pods]
            for group in all_of(groups)
            if group.pending
        },
        # A foreign one follows from nominatedNodeName, which is restored with the pod.
        nominations=[_places_of(each, shapes) for each in state.nominations if not each.foreign],
        # JSON has no infinity, which is the time of pods that may never end.
        evicting={
            uid: by if math.isfinite(by) else None
            for uid, by in sorted(state.units.evicting.items())
        },
        daemon_sets=list(state.units.daemons),
        spared=sorted(state.units.spared),
        units=state.units.order(pause),
        disruption_budgets=list(state.disruption_budgets),
        protection=state.units.protection if state.units.depends_on_time else None,
        queue=roots,
        decisions=list(decide_all(state, roots[:decisions], limits, pause)),
        priorities=sorted(priorities, key=lambda each: each.name),
        starvation=state.starvation.closed_for,
        assumed_volumes=[
            (key, assumed.volume, state.nodes.name_of(assumed.row))
            for key, assumed in state.volumes.assumed
        ],
        templates=[
            (workload, list(templates.items()))
            for workload, templates in sorted(state.forest.templates.items())
        ],
        slices=list(state.devices.slices.written.values()),
        device_classes=[device_snapshot.shown_class(c) for c in state.devices.classes.values()],
        device_claims=[
            device_snapshot.shown_claim(each) for each in all_of(state.devices.claims.values())
        ],
        assumed_devices=[
            (key, device_snapshot.shown_allocation(each))
            for key, each in state.devices.assumed.items()
        ],
        device_taint_rules=sorted(
            state.devices.slices.rules.all.values(), key=lambda each: each.name
        ),
        release=state.release,
        required_drivers=sorted(storage.required_drivers),
        measured_drivers=sorted(storage.measured_drivers),
        storage_capacities=list(all_of(storage.capacities.known.values())),
        services=sorted(state.replicas.services.items()),
        images=dict(_images(state)),
    )


def _images(state: State) -> Iterator[tuple[str, tuple[int, list[str]]]]:
    """Yield the images that waiting pods without a group need, with the nodes that have them."""
    nodes = state.nodes
    for name in sorted({name for pod in state.singles.values() for name in pod.info.images}):
        size, rows = nodes.images.on(name)
        if len(rows):
            yield name, (size, [nodes.name_of(row) for row in sorted(rows.tolist())])


def decide_all(
    state: State, roots: list[GroupKey], limits: Limits, pause: Callable[[], None] = nothing
) -> Iterator[Decision]:
    """Decide each root on the state as it is, without carrying anything out."""
    budget = replace(limits.budget(), pause=pause)
    for root in roots:
        entity: Group | Pod | None = state.singles.get(root) or state.forest.groups.get(root)
        if entity is None:
            continue
        outcome = decide(state, entity, budget)
        if isinstance(outcome, Placement):
            devices = device_snapshot.allocated(outcome.devices or {})
            placed = _nodes(state, outcome)
            yield Decision(root, outcome.steps, placed=placed, devices=devices)
            continue
        blocker, plan = explain(state, outcome), None
        if limits.preempts:
            plan = preempt(state, entity, outcome, budget, limits.effort())
        if not isinstance(plan, Plan):
            yield Decision(root, outcome.steps, blocker=blocker)
            continue
        victims = (pod.info for pod in plan.pods)
        yield Decision(
            root,
            outcome.steps,
            blocker=blocker,
            nominated=_nodes(state, plan.placement),
            evicts=sorted(f"{info.namespace}/{info.name}" for info in victims),
        )


def _nodes(state: State, placement: Placement) -> dict[str, str]:
    names = state.nodes.name_of
    pairs = zip(placement.pods, placement.rows, strict=True)
    return {pod.info.name: names(row) for pod, row in pairs}


def restore(snapshot: Snapshot) -> tuple[State, Queue]:
    """Return a state and a queue that decide as those that the snapshot was taken from."""
    state = State(evaluate=Selectors().evaluate)
    state.set_release(snapshot.release)
    _put_nodes(state, snapshot)
    for name, labels in snapshot.namespaces.items():
        state.set_namespace(name, labels)
    for key, selector in snapshot.services:
        state.replicas.set_service(key, dict(selector))
    _put_storage(state, snapshot)
    _put_devices(state, snapshot)
    # Before the pods: the match counts of all shapes exist, in the order of the shapes.
    for requirements in snapshot.requirements:
        state.selectors.register(requirements)
    _put_groups(state, snapshot)
    for info in snapshot.pods:
        state.set_pod(info)
    for uid, node in snapshot.assumed.items():
        state.assume([state.pods[uid]], [state.nodes.row_of[node]])
    for group in state.forest.groups.values():
        # Which equal pods go first depends on the order in which they came.
        _order_pending(state, group, snapshot.waiting.get("/".join(group.key), []))
    _put_preemption(state, snapshot)
    for places in snapshot.nominations:
        state.nominations.set(_nomination(state, snapshot, places))
    state.starvation.closed_for = snapshot.starvation
    for _ in state.catch_up():
        pass
    queue = Queue(state)
    for root in snapshot.queue:
        queue.review(root)
    # Everything was just queued: the changes would make the same roots ready again.
    state.take_changes()
    return state, queue


def queue_of(state: State, pause: Callable[[], None] = nothing) -> Queue:
    """Return a queue of all that may be decided."""
    queue = Queue(state)
    for number, key in enumerate((*state.forest.groups, *state.singles)):
        if number % _PART == 0:
            pause()
        queue.review(key)
    return queue


def encode(value: object) -> bytes:
    """Return a snapshot, or a part of it, as JSON; equal values give equal bytes."""
    return msgspec.json.encode(value, order="deterministic")


def encode_in_parts(snapshot: Snapshot, pause: Callable[[], None]) -> list[bytes]:
    """Return the same JSON in parts, each of some values; `pause` is called in between."""
    fields = (f'"{name}":'.encode() for name in snapshot.__struct_encode_fields__)
    values = (getattr(snapshot, name) for name in snapshot.__struct_fields__)
    parts: list[bytes] = []
    for field, value in zip(fields, values, strict=True):
        parts += [b"," if parts else b"{", field]
        # Only lists grow with the cluster.
        if not isinstance(value, list):
            parts.append(encode(value))
            continue
        parts.append(b"[")
        for first in range(0, len(value), _PART):
            pause()
            parts += [b","] * (first > 0) + [encode(value[first : first + _PART])[1:-1]]
        parts.append(b"]")
    return [*parts, b"}"]


def decode(data: bytes, source: str) -> Snapshot:
    """Decode a snapshot. Raises ConfigError, which names the source, if the data are none."""
    try:
        snapshot = msgspec.json.decode(data, type=Snapshot)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{source} is no snapshot: {error}") from error
    if snapshot.format != FORMAT:
        raise ConfigError(
            f"{source} has format {snapshot.format}, this version of muster reads {FORMAT}"
        )
    return snapshot


def _places_of(nomination: Nomination, shapes: list[Shape]) -> SnapshotNomination:
    places = [(shapes.index(shape), list(there)) for shape, there in nomination.places]
    return SnapshotNomination(nomination.root, nomination.priority, places)


def _nomination(state: State, snapshot: Snapshot, nominated: SnapshotNomination) -> Nomination:
    places = tuple(
        (state.shapes.intern(snapshot.requirements[index]), tuple(there))
        for index, there in nominated.places
    )
    return Nomination(nominated.root, nominated.priority, places)


def _in_order(pods: Iterator[Pod]) -> Iterator[Pod]:
    """Yield the pods sorted by `_order`, some at a time, as long as there are more."""
    # One sort of all pods would be a long stretch without a pause.
    some = iter(lambda: sorted(islice(pods, 16 * _PART), key=_order), [])
    return merge(*some, key=_order)


def _order(pod: Pod) -> tuple[int, str]:
    """Return a sort key: pods restored by shape intern their shapes in the same order."""
    return (pod.shape.index, pod.info.uid)


def _put_nodes(state: State, snapshot: Snapshot) -> None:
    # A node takes the next row, so each vacant row gets a node that is then removed.
    holes = {row: f"\0{row}" for row, node in enumerate(snapshot.nodes) if node is None}
    for row, node in enumerate(snapshot.nodes):
        state.set_node(node or NodeInfo(holes[row], {}))
    for row in snapshot.vacant:
        # In the order of `vacant`: the next node that is added has to get the same row.
        state.remove_node(holes[row])
    on_nodes: dict[str, list[tuple[str, int]]] = {}
    for image, (size, names) in snapshot.images.items():
        for name in names:
            on_nodes.setdefault(name, []).append((image, size))
    for name, images in on_nodes.items():
        state.set_images(name, images)


def _put_groups(state: State, snapshot: Snapshot) -> None:
    # Before the groups, which are compared with their templates.
    for workload, templates in snapshot.templates:
        state.set_templates(workload, dict(templates))
    for spec in snapshot.groups:
        state.set_group(spec)
    # Links may be postponed after many groups, and decisions rely on all of them.
    while state.forest.catch_up(1000):
        pass
    for key in snapshot.initially_scheduled:
        state.forest.was_scheduled(key)
    for key, message in snapshot.given_up:
        group = state.forest.groups[key]
        limit = group.spec.start_within if group.spec is not None else 0.0
        state.set_start_wait(group, StartWait("", limit, message))


def _put_preemption(state: State, snapshot: Snapshot) -> None:
    for uid, by in snapshot.evicting.items():
        if uid in state.pods:
            state.units.mark_evicting([state.pods[uid]], math.inf if by is None else by)
    state.units.spare(state.pods[uid] for uid in snapshot.spared if uid in state.pods)
    state.units.arrange(snapshot.units)
    state.units.protection = snapshot.protection or NO_PROTECTION
    for daemon_set in snapshot.daemon_sets:
        state.units.daemons.set(daemon_set)
    for budget in snapshot.disruption_budgets:
        state.disruption_budgets.set(budget)
    state.modest_classes.update(
        each.name for each in snapshot.priorities if each.preemption_policy == NEVER
    )


def _put_storage(state: State, snapshot: Snapshot) -> None:
    for claim in snapshot.claims:
        state.volumes.set_claim(claim)
    for volume in snapshot.volumes:
        state.volumes.set_volume(volume)
    for storage_class in snapshot.classes:
        state.volumes.set_class(storage_class)
    required, measured = set(snapshot.required_drivers), set(snapshot.measured_drivers)
    for driver in required | measured:
        state.volumes.set_driver(driver, required=driver in required, measured=driver in measured)
    for capacity in snapshot.storage_capacities:
        state.volumes.capacities.set(capacity)
    for node, limits in snapshot.attachable.items():
        state.volumes.set_limits(node, limits)
    for key, name, node in snapshot.assumed_volumes:
        assumed = AssumedVolume(name, state.nodes.row_of[node])
        state.volumes.assumed.keep({key: assumed})


def _put_devices(state: State, snapshot: Snapshot) -> None:
    # Before the slices, which get the taints of the rules that exist.
    for rule in snapshot.device_taint_rules:
        state.devices.slices.set_rule(rule)
    for info in snapshot.slices:
        state.devices.slices.set(info)
    for device_class in snapshot.device_classes:
        state.devices.set_class(device_class)
    for claim in snapshot.device_claims:
        state.devices.set_claim(claim)
    state.devices.keep(dict(snapshot.assumed_devices))


def _order_pending(state: State, group: Group, uids: list[str]) -> None:
    # Dictionaries keep the order of insertion, which is the order of the pods.
    before, group.pending = group.pending, {}
    for uid in uids:
        pod = state.pods[uid]
        group.pending.setdefault(pod.shape, {})[uid] = before[pod.shape][uid]
