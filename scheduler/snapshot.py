"""The whole input of the scheduler as one value: state, queue, budget, and what it decides.

A state made from a snapshot decides bit for bit as the one it was taken from: nodes keep their
rows, shapes and waiting pods their order. No object of the cluster is in it, only what decisions
look at: no environment, no commands, no Secrets.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kube.errors import ConfigError
from scheduler.core.columns import Columns
from scheduler.core.explain import Blocker, explain
from scheduler.core.fit import Profile
from scheduler.core.forest import Group, Pod
from scheduler.core.holds import Hold
from scheduler.core.placement import Budget, Placement, place
from scheduler.core.state import State
from scheduler.core.values import (
    ClaimInfo,
    GroupKey,
    GroupSpec,
    NodeInfo,
    PodInfo,
    Requirements,
    StorageClassInfo,
    VolumeInfo,
)
from scheduler.queue import Queue

FORMAT = 1


class Limits(msgspec.Struct, frozen=True):
    """The budget of one decision; time is not in it, a replay takes what it needs."""

    steps: int
    exhaust: int
    profile: Profile

    @classmethod
    def of(cls, budget: Budget) -> Limits:
        return cls(budget.steps, budget.exhaust, budget.profile)

    def budget(self) -> Budget:
        return Budget(self.steps, self.exhaust, self.profile)


class Decision(msgspec.Struct, frozen=True):
    """What is decided on one root: node by pod, or why not."""

    root: GroupKey
    steps: int
    placed: dict[str, str] | None = None
    blocker: Blocker | None = None


class Held(msgspec.Struct, frozen=True):
    """Places kept for a root whose victims leave: for each shape, by its number, pods by node."""

    root: GroupKey
    priority: int
    places: list[tuple[int, list[tuple[str, int]]]]


class Snapshot(msgspec.Struct, frozen=True):
    """Values in the order in which they must be put back.

    `nodes` are by row, None where a row is vacant; `vacant` is the order in which those are taken.
    `waiting` has each group's waiting pods (UIDs) in their order; `assumed` what is decided and not
    bound yet, node by UID; `held` what is kept free for roots that preempted. `queue` are the roots
    in the order of their turn, and `decisions` what was decided on the first of them.
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
    held: list[Held]
    queue: list[GroupKey]
    decisions: list[Decision]


def take(state: State, queue: Queue, budget: Budget, *, decisions: int = 20) -> Snapshot:
    """Everything as it is now, with the decisions on the first roots. Changes nothing."""
    limits, roots = Limits.of(budget), queue.waiting()
    storage = state.storage
    return Snapshot(
        format=FORMAT,
        limits=limits,
        resources=list(state.columns.resources),
        nodes=list(state.columns.nodes),
        vacant=list(state.columns.vacant),
        namespaces={name: dict(labels) for name, labels in state.relations.namespaces.items()},
        claims=list(storage.claims.values()),
        volumes=list(storage.volumes.values()),
        classes=list(storage.classes.values()),
        attachable={node: dict(limit) for node, limit in storage.limits.items()},
        requirements=[shape.requirements for shape in state.shapes.all],
        groups=[g.spec for g in state.forest.groups.values() if g.spec is not None],
        pods=[p.info for p in sorted(state.pods.values(), key=_order)],
        assumed={uid: pod.node for uid, pod in sorted(state.pods.items()) if pod.assumed},
        waiting={
            "/".join(group.key): [uid for pods in group.pending.values() for uid in pods]
            for group in state.forest.groups.values()
            if group.pending
        },
        held=[_held(hold) for hold in state.holds],
        queue=roots,
        decisions=list(decide(state, roots[:decisions], limits)),
    )


def decide(state: State, roots: list[GroupKey], limits: Limits) -> Iterator[Decision]:
    """Each root against the state as it is, none of them carried out."""
    for root in roots:
        entity: Group | Pod | None = state.singles.get(root) or state.forest.groups.get(root)
        if entity is None:
            continue
        outcome = place(state, entity, limits.budget())
        if isinstance(outcome, Placement):
            names = state.columns.name_of
            pairs = zip(outcome.pods, outcome.rows, strict=True)
            placed = {pod.info.name: names(row) for pod, row in pairs}
            yield Decision(root, outcome.steps, placed=placed)
        else:
            yield Decision(root, outcome.steps, blocker=explain(state, outcome))


def restore(snapshot: Snapshot) -> tuple[State, Queue]:
    """A state and a queue that decide as those the snapshot was taken of."""
    state = State()
    _put_nodes(state, snapshot)
    for name, labels in snapshot.namespaces.items():
        state.set_namespace(name, labels)
    _put_storage(state, snapshot)
    for requirements in snapshot.requirements:
        state.relations.register(requirements)
    for spec in snapshot.groups:
        state.set_group(spec)
    for info in snapshot.pods:
        state.set_pod(info)
    for uid, node in snapshot.assumed.items():
        state.assume([state.pods[uid]], [state.columns.row_of[node]])
    for group in state.forest.groups.values():
        _order_pending(state, group, snapshot.waiting.get("/".join(group.key), []))
    for held in snapshot.held:
        state.holds.set(_hold(state, snapshot, held))
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


def encode(snapshot: Snapshot) -> bytes:
    """JSON."""
    return msgspec.json.encode(snapshot)


def decode(data: bytes, source: str) -> Snapshot:
    """Raises ConfigError, which names the source, for anything that is no snapshot."""
    try:
        snapshot = msgspec.json.decode(data, type=Snapshot)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{source} is no snapshot: {error}") from error
    if snapshot.format != FORMAT:
        raise ConfigError(
            f"{source} has format {snapshot.format}, this version of muster reads {FORMAT}"
        )
    return snapshot


def _held(hold: Hold) -> Held:
    return Held(
        hold.root, hold.priority, [(shape.index, list(places)) for shape, places in hold.places]
    )


def _hold(state: State, snapshot: Snapshot, held: Held) -> Hold:
    places = tuple(
        (state.shapes.intern(snapshot.requirements[index]), tuple(there))
        for index, there in held.places
    )
    return Hold(held.root, held.priority, places)


def _order(pod: Pod) -> tuple[int, str]:
    """By shape: put back so, shapes come to the order that they have among each other."""
    return (pod.shape.index, pod.info.uid)


def _put_nodes(state: State, snapshot: Snapshot) -> None:
    columns: Columns = state.columns
    for name in snapshot.resources:
        columns.resource(name)
    holes = {row: f"\0{row}" for row, node in enumerate(snapshot.nodes) if node is None}
    for row, node in enumerate(snapshot.nodes):
        state.set_node(node or NodeInfo(holes[row], {}))
    for row in snapshot.vacant:
        state.remove_node(holes[row])


def _put_storage(state: State, snapshot: Snapshot) -> None:
    for claim in snapshot.claims:
        state.storage.set_claim(claim)
    for volume in snapshot.volumes:
        state.storage.set_volume(volume)
    for storage_class in snapshot.classes:
        state.storage.set_class(storage_class)
    for node, limits in snapshot.attachable.items():
        state.storage.set_limits(node, limits)


def _order_pending(state: State, group: Group, uids: list[str]) -> None:
    before, group.pending = group.pending, {}
    for uid in uids:
        pod = state.pods[uid]
        group.pending.setdefault(pod.shape, {})[uid] = before[pod.shape][uid]
