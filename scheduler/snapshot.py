"""The whole input of the scheduler as one value: state, queue, budget, and what it decides.

A state made from a snapshot decides exactly as the one it was taken from: nodes keep their rows,
shapes and waiting pods their order. It has only what decisions depend on, and no object of the
cluster: no environment variables, no commands, no Secrets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from api.priority import PriorityClass
from kube.errors import ConfigError
from scheduler.core.assumed_volumes import AssumedVolume
from scheduler.core.decide import decide
from scheduler.core.explain import Blocker, explain
from scheduler.core.forest import Group, Pod
from scheduler.core.model import (
    ClaimInfo,
    ClaimKey,
    GroupKey,
    GroupSpec,
    NodeInfo,
    PodInfo,
    Requirements,
    StorageClassInfo,
    VolumeInfo,
)
from scheduler.core.node_table import NodeTable
from scheduler.core.nominations import Nomination
from scheduler.core.place import Placement, SearchBudget
from scheduler.core.preemption.disruption_budgets import DisruptionBudget
from scheduler.core.preemption.dry_run import Effort
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.node_selection import Profile
from scheduler.core.shapes import Shape
from scheduler.core.starvation import ClosedFor
from scheduler.core.state import State
from scheduler.queue import Queue

FORMAT = 4


class Limits(msgspec.Struct, frozen=True):
    """The budget of one decision, without a limit of time.

    `preempts` says whether anybody may be evicted, `overdue` (seconds since 1970) which
    terminating pods are not waited for any more.
    """

    steps: int
    packing_steps: int
    profile: Profile
    preempts: bool = True
    overdue: float = 0.0

    @classmethod
    def of(cls, budget: SearchBudget, *, preempts: bool = True, overdue: float = 0.0) -> Limits:
        return cls(budget.steps, budget.packing_steps, budget.profile, preempts, overdue)

    def budget(self) -> SearchBudget:
        return SearchBudget(self.steps, self.packing_steps, self.profile)


class Decision(msgspec.Struct, frozen=True):
    """The decision on one root: node by pod, or the blocker.

    A root that does not fit may be `nominated`, node by pod, for the time when the pods that it
    `evicts` (namespace/name) and those that terminate already are gone.
    """

    root: GroupKey
    steps: int
    placed: dict[str, str] | None = None
    blocker: Blocker | None = None
    nominated: dict[str, str] | None = None
    evicts: list[str] = []


class NominatedPlaces(msgspec.Struct, frozen=True):
    """The nomination of a root: for each shape, by its index, how many pods on which nodes."""

    root: GroupKey
    priority: int
    places: list[tuple[int, list[tuple[str, int]]]]


class Snapshot(msgspec.Struct, frozen=True):
    """Values in the order in which they must be put back.

    `nodes` are by row, None where a row is vacant; `vacant` is the order in which those are taken.
    `waiting` has each group's waiting pods (UIDs) in their order; `assumed` what is decided and not
    bound yet, node by UID; `assumed_volumes` the volume (empty: to be provisioned) and the node for
    claims of those; `nominations` are the places of roots that preempted, `evicting` the UIDs of
    the pods evicted for them, `spared` of those that cannot be, and `units` those of all running
    pods in the order in which they are considered as victims. `queue` are the roots in the order of
    the queue, and `decisions` those on the first of them. `priorities` are for simulations only:
    all that is here has its priority already. `starvation` is the root that goes before others.
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
    nominations: list[NominatedPlaces]
    evicting: list[str]
    spared: list[str]
    units: list[str]
    disruption_budgets: list[DisruptionBudget]
    queue: list[GroupKey]
    decisions: list[Decision]
    priorities: list[PriorityClass]
    starvation: ClosedFor | None = None
    assumed_volumes: list[tuple[ClaimKey, str, str]] = []


def take(
    state: State,
    queue: Queue,
    limits: Limits,
    priorities: Sequence[PriorityClass] = (),
    *,
    decisions: int = 20,
) -> Snapshot:
    """Everything as it is now, with the decisions on the first roots. Changes nothing."""
    roots = queue.waiting()
    storage, shapes = state.volumes, list(state.shapes)
    specs = [group.spec for group in state.forest.groups.values() if group.spec is not None]
    return Snapshot(
        format=FORMAT,
        limits=limits,
        resources=list(state.nodes.resources),
        nodes=list(state.nodes.infos),
        vacant=list(state.nodes.vacant),
        namespaces={name: dict(labels) for name, labels in state.selectors.namespaces.items()},
        claims=list(storage.claims.values()),
        volumes=list(storage.volumes.values()),
        classes=list(storage.classes.values()),
        attachable={node: dict(limit) for node, limit in storage.limits.items()},
        requirements=[shape.requirements for shape in shapes],
        groups=sorted(specs, key=lambda spec: spec.key),
        pods=[p.info for p in sorted(state.pods.values(), key=_order)],
        assumed={uid: pod.node for uid, pod in sorted(state.pods.items()) if pod.assumed},
        waiting={
            "/".join(group.key): [uid for pods in group.pending.values() for uid in pods]
            for group in state.forest.groups.values()
            if group.pending
        },
        nominations=[_places_of(each, shapes) for each in state.nominations],
        evicting=sorted(state.units.evicting),
        spared=sorted(state.units.spared),
        units=state.units.order(),
        disruption_budgets=list(state.disruption_budgets),
        queue=roots,
        decisions=list(decide_all(state, roots[:decisions], limits)),
        priorities=sorted(priorities, key=lambda each: each.name),
        starvation=state.starvation.closed_for,
        assumed_volumes=[
            (key, assumed.volume, state.nodes.name_of(assumed.row))
            for key, assumed in state.volumes.assumed
        ],
    )


def decide_all(state: State, roots: list[GroupKey], limits: Limits) -> Iterator[Decision]:
    """Decide each root against the state as it is, without carrying anything out."""
    for root in roots:
        entity: Group | Pod | None = state.singles.get(root) or state.forest.groups.get(root)
        if entity is None:
            continue
        outcome = decide(state, entity, limits.budget())
        if isinstance(outcome, Placement):
            yield Decision(root, outcome.steps, placed=_nodes(state, outcome))
            continue
        blocker, plan = explain(state, outcome), None
        if limits.preempts:
            effort = Effort(overdue=limits.overdue)
            plan = preempt(state, entity, outcome, limits.budget(), effort)
        if not isinstance(plan, Plan):
            yield Decision(root, outcome.steps, blocker=blocker)
            continue
        victims = (pod.info for unit in plan.victims for pod in unit.pods.values())
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
    """A state and a queue that decide as those that the snapshot was taken from."""
    state = State()
    _put_nodes(state, snapshot)
    for name, labels in snapshot.namespaces.items():
        state.set_namespace(name, labels)
    _put_storage(state, snapshot)
    for requirements in snapshot.requirements:
        state.selectors.register(requirements)
    for spec in snapshot.groups:
        state.set_group(spec)
    for info in snapshot.pods:
        state.set_pod(info)
    for uid, node in snapshot.assumed.items():
        state.assume([state.pods[uid]], [state.nodes.row_of[node]])
    for group in state.forest.groups.values():
        _order_pending(state, group, snapshot.waiting.get("/".join(group.key), []))
    state.units.mark_evicting(state.pods[uid] for uid in snapshot.evicting if uid in state.pods)
    state.units.spare(state.pods[uid] for uid in snapshot.spared if uid in state.pods)
    state.units.arrange(snapshot.units)
    for budget in snapshot.disruption_budgets:
        state.disruption_budgets.set(budget)
    for places in snapshot.nominations:
        state.nominations.set(_nomination(state, snapshot, places))
    state.starvation.closed_for = snapshot.starvation
    queue = Queue(state)
    for root in snapshot.queue:
        queue.review(root)
    state.take_changes()
    return state, queue


def queue_of(state: State) -> Queue:
    """A queue of all that may be decided."""
    queue = Queue(state)
    for key in (*state.forest.groups, *state.singles):
        queue.review(key)
    return queue


def encode(value: Snapshot | Decision) -> bytes:
    """JSON; equal values give equal bytes."""
    return msgspec.json.encode(value, order="deterministic")


def decode(data: bytes, source: str) -> Snapshot:
    """Raises ConfigError, which names the source, if the data are not a snapshot."""
    try:
        snapshot = msgspec.json.decode(data, type=Snapshot)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{source} is no snapshot: {error}") from error
    if snapshot.format != FORMAT:
        raise ConfigError(
            f"{source} has format {snapshot.format}, this version of muster reads {FORMAT}"
        )
    return snapshot


def _places_of(nomination: Nomination, shapes: list[Shape]) -> NominatedPlaces:
    places = [(shapes.index(shape), list(there)) for shape, there in nomination.places]
    return NominatedPlaces(nomination.root, nomination.priority, places)


def _nomination(state: State, snapshot: Snapshot, nominated: NominatedPlaces) -> Nomination:
    places = tuple(
        (state.shapes.intern(snapshot.requirements[index]), tuple(there))
        for index, there in nominated.places
    )
    return Nomination(nominated.root, nominated.priority, places)


def _order(pod: Pod) -> tuple[int, str]:
    """By shape: pods restored in this order intern their shapes in the same order."""
    return (pod.shape.index, pod.info.uid)


def _put_nodes(state: State, snapshot: Snapshot) -> None:
    nodes: NodeTable = state.nodes
    for name in snapshot.resources:
        nodes.resource(name)
    holes = {row: f"\0{row}" for row, node in enumerate(snapshot.nodes) if node is None}
    for row, node in enumerate(snapshot.nodes):
        state.set_node(node or NodeInfo(holes[row], {}))
    for row in snapshot.vacant:
        state.remove_node(holes[row])


def _put_storage(state: State, snapshot: Snapshot) -> None:
    for claim in snapshot.claims:
        state.volumes.set_claim(claim)
    for volume in snapshot.volumes:
        state.volumes.set_volume(volume)
    for storage_class in snapshot.classes:
        state.volumes.set_class(storage_class)
    for node, limits in snapshot.attachable.items():
        state.volumes.set_limits(node, limits)
    for key, name, node in snapshot.assumed_volumes:
        assumed = AssumedVolume(name, state.nodes.row_of[node])
        state.volumes.assumed.keep({key: assumed})


def _order_pending(state: State, group: Group, uids: list[str]) -> None:
    before, group.pending = group.pending, {}
    for uid in uids:
        pod = state.pods[uid]
        group.pending.setdefault(pod.shape, {})[uid] = before[pod.shape][uid]
