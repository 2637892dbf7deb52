"""The conditions and blockers of groups and pods, derived from the state. No I/O.

Every group of a tree has a condition; that of the group at fault says why, the others name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from api import features
from api.constants import (
    CONDITION_COMPOSITE_SCHEDULED,
    CONDITION_POD_GROUP_SCHEDULED,
    REASON_GROUP_WAITS,
    REASON_INCOMPLETE,
    REASON_INVALID,
    REASON_SCHEDULED,
    REASON_SCHEDULER_ERROR,
    REASON_UNSCHEDULABLE,
)
from api.features import FeatureGates
from kube.client.meta import Json
from scheduler.core.explain.advice import about_volumes
from scheduler.core.explain.explain import Blocker
from scheduler.core.groups import tree_validation
from scheduler.core.groups.forest import Group, NotReady, Pod, outer_topology_keys
from scheduler.core.state.state import State
from scheduler.core.topology.topology import UNLABELLED
from scheduler.core.values.model import SINGLE_POD, GroupKey
from scheduler.status.quorum_messages import claims_missing, summary

_SHOWN: Final = 5
"""Names that a message lists. Further ones are `...`."""

_RETRY_ON: Final = {
    "capacity": ["room on a node", "a new or changed node", "a change of the group"],
    "constraint": ["a new or changed node", "a change of the group"],
    "quorum": ["a new member", "a change of the group"],
    "priority": ["the start of the group that goes first", "a change of the group"],
    "invalid": ["a change of the group or its members"],
    "binding": ["the end of the pause", "a change of the group or its members"],
    "error": ["the end of a back-off of 1 s, doubling to 5 min"],
}


_REASONS: Final = {
    "quorum": REASON_INCOMPLETE,
    "invalid": REASON_INVALID,
    "error": REASON_SCHEDULER_ERROR,
}
"""Of a group's condition; otherwise it is Unschedulable."""

_POD_REASONS: Final = {
    "quorum": REASON_GROUP_WAITS,
    "invalid": REASON_SCHEDULER_ERROR,
    "binding": REASON_SCHEDULER_ERROR,
    "error": REASON_SCHEDULER_ERROR,
}
"""Of a pod's condition; otherwise its root waits for room, and it is Unschedulable."""

_VOLUMES: Final = "a change of its claims or of volumes"
_DEVICES: Final = "a change of its ResourceClaims, or of devices or their classes"


def retry_on(blocker: Blocker) -> list[str]:
    """The events after which the root is decided again."""
    volumes = any(about_volumes(reason) for reason, _ in blocker.counts)
    more = [_VOLUMES] * volumes + [_DEVICES] * blocker.devices
    return _RETRY_ON[blocker.kind] + more


@dataclass(frozen=True, slots=True)
class GroupView:
    """What a group's status should say; `reason` None leaves the condition as it is."""

    group: Group
    reason: str | None
    message: str
    counts: dict[str, int]
    blocker: Blocker | None

    @property
    def scheduled(self) -> bool:
        return self.reason == REASON_SCHEDULED


@dataclass(frozen=True, slots=True)
class PodView:
    """What the PodScheduled condition of a waiting pod should say.

    It is written again only when `significant` changes, not for each change of free places.
    """

    pod: Pod
    reason: str
    message: str
    significant: tuple[object, ...]


def waiting_for(state: State, top: Group, gates: FeatureGates = features.USUAL) -> Blocker | None:
    """Why a tree is not ready to be decided, as a blocker; None if it is."""
    flaw = tree_validation.check(top)
    if flaw is not None:
        return Blocker(flaw.message, "invalid", flaw.at.key, 0, 0)
    held = state.forest.not_ready(top)
    return None if held is None else _blocker(held, gates)


def group_views(state: State, top: Group, blocker: Blocker | None) -> list[GroupView]:
    """The views of a whole tree; `blocker` is why its root waits, if it does."""
    groups = (group for group in top.walk() if group.spec is not None)
    return [group_view(state, group, blocker) for group in groups]


def group_view(state: State, group: Group, blocker: Blocker | None) -> GroupView:
    """The view of one group of a tree. Walks its pods only for a preferred topology."""
    counts = _counts(group)
    if group.bound:
        # It may still wait for pods beyond minCount; other groups report theirs themselves.
        own = blocker if blocker is not None and blocker.at == group.key else None
        message = _minimum_placed(group) + _topology_reached(state, group)
        return GroupView(group, REASON_SCHEDULED, message, counts, own)
    if blocker is None:
        if not group.initially_scheduled:
            return GroupView(group, None, "", counts, None)
        return GroupView(group, REASON_SCHEDULED, _minimum_was_placed(group), counts, None)
    fault = blocker.at == group.key
    reason = _REASONS.get(blocker.kind, REASON_UNSCHEDULABLE)
    message = _message(blocker, at=None if fault else blocker.at)
    blocker = replace(blocker, summary=message)
    if group.initially_scheduled:
        reason, message = REASON_SCHEDULED, f"{_minimum_was_placed(group)}, now waits: {message}"
    return GroupView(group, reason, message, counts, blocker)


def binding_failed(state: State, root: GroupKey, message: str) -> Blocker | None:
    """Why a root waits that was placed and could not be bound; None if it is gone."""
    if root[0] == SINGLE_POD:
        return Blocker(message, "binding", root, 1, 0)
    group = state.forest.groups.get(root)
    if group is None or group.minimum is None:
        return None
    present = group.standing_children if group.composite else group.running
    return Blocker(message, "binding", root, max(0, group.minimum - present), 0)


def pod_views(state: State, pods: Iterator[Pod], blocker: Blocker) -> Iterator[PodView]:
    """The views of a root's waiting pods.

    While it waits for room all of them are Unschedulable, whether there is room for some or not:
    autoscalers look for this word alone, and add what all pods that bear it lack together. Only
    pods of a group that lacks members are not, as no node would help them.
    """
    causes: dict[GroupKey, Blocker] = {}
    for pod in pods:
        group, cause = pod.group, blocker
        if group is not None:
            if group.key not in causes:
                causes[group.key] = _missing_members(state, group, blocker) or blocker
            cause = causes[group.key]
        fault = group is None or group.key == cause.at
        reason = _POD_REASONS.get(cause.kind, REASON_UNSCHEDULABLE)
        message = _message(cause, at=None if fault else cause.at)
        yield PodView(pod, reason, message, (reason, *cause.significant))


def _missing_members(state: State, leaf: Group, blocker: Blocker) -> Blocker | None:
    """What the leaf, or a group around it, lacks for its quorum while the root waits for room."""
    if blocker.kind in _POD_REASONS:
        return None
    found, group = None, leaf
    while group.parent is not None:
        found = found if group.quorate else group
        group = group.parent
    held = state.forest.not_ready(found) if found is not None else None
    return None if held is None else _blocker(held)


def exceeding_views(group: Group) -> Iterator[PodView]:
    """The views of the pods that wait until the group's minCount has followed its owner."""
    off = group.spec.maker_off if group.spec is not None else ""
    how = (
        f"with feature gate {off} off its minCount stays as it is, and its new pods wait"
        if off
        else "its new pods wait until muster-controller has moved minCount;"
        " nothing is to be done while that runs"
    )
    message = f"{group.words} is to grow with its owner: {how}"
    for pod in list((group.exceeding or {}).values()):
        yield PodView(pod, REASON_GROUP_WAITS, message, (REASON_GROUP_WAITS, "exceeds"))


def unclaimed_views(pods: Iterable[Pod]) -> Iterator[PodView]:
    """The views of pods that wait for their ResourceClaims."""
    for pod in list(pods):
        message = claims_missing(pod)
        yield PodView(pod, REASON_UNSCHEDULABLE, message, (REASON_UNSCHEDULABLE, message))


def waiting_pods(state: State, root: GroupKey) -> Iterator[Pod]:
    """The pods of a root that wait for a place; the state may change between two of them."""
    if root[0] == SINGLE_POD:
        pod = state.singles.get(root)
        if pod is not None:
            yield pod
        return
    group = state.forest.groups.get(root)
    for leaf in group.leaves() if group is not None else ():
        for pods in list(leaf.pending.values()):
            yield from list(pods.values())


def condition_type(group: Group) -> str:
    return CONDITION_COMPOSITE_SCHEDULED if group.composite else CONDITION_POD_GROUP_SCHEDULED


def blocker_json(blocker: Blocker, since: str) -> Json:
    """`status.blocker`."""
    best = blocker.best_domain
    document: Json = {
        "summary": blocker.summary,
        "kind": blocker.kind,
        "needed": blocker.needed,
        "free": blocker.free,
        "counts": [{"reason": reason, "nodes": nodes} for reason, nodes in blocker.counts],
        "impossible": blocker.impossible,
        "since": since,
        "retryOn": retry_on(blocker),
    }
    if best is not None:
        document["bestDomain"] = {
            "key": best.key,
            "value": best.value,
            "missing": best.missing,
        }
    return document


def _blocker(not_ready: NotReady, gates: FeatureGates = features.USUAL) -> Blocker:
    at, needed, present = not_ready.at.key, not_ready.needed, not_ready.present
    return Blocker(summary(not_ready, gates), "quorum", at, needed, present)


def has_leaving_pods(state: State, group: Group) -> bool:
    """Whether pods of the subtree are terminating or being evicted."""
    members = (pod for leaf in group.leaves() for pod in leaf.members.values())
    return any(pod.node and state.units.leaves(pod) for pod in members)


def _minimum_placed(group: Group) -> str:
    return f"has {_what_is_placed(group)}"


def _minimum_was_placed(group: Group) -> str:
    return f"had {_what_is_placed(group)}"


def _what_is_placed(group: Group) -> str:
    if group.spec is not None and group.spec.gang:
        return "its minGroupCount placed" if group.composite else "its minCount placed"
    return "a child group placed" if group.composite else "a pod placed"


def _topology_reached(state: State, group: Group) -> str:
    """In how many domains of a preferred topology the group runs."""
    if group.topology is None or not group.topology.preferred:
        return ""
    key = group.topology.key
    domains = state.topologies.of_groups(key, outer_topology_keys(group, key))
    members = (pod for leaf in group.leaves() for pod in leaf.members.values())
    rows = [pod.row for pod in members if pod.running and pod.row >= 0]
    found = sorted(domains.of(rows))
    names = ["none" if code == UNLABELLED else domains.paths[code] for code in found]
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    if len(found) == 1 and found[0] != UNLABELLED:
        return f", in one {domains.key} as preferred: {shown}"
    return f", in {len(found)} values of {domains.key} where one was preferred: {shown}"


def _counts(group: Group) -> dict[str, int]:
    if group.composite:
        return {"children": len(group.children), "scheduledChildren": group.bound_children}
    return {"members": group.alive, "scheduledPods": group.bound_pods}


def confirmed(group: Group) -> bool:
    """Whether the watch has delivered all Bindings of the subtree."""
    return not group.assumed_total


def _message(blocker: Blocker, at: GroupKey | None) -> str:
    if at is None or at[0] == SINGLE_POD:
        return blocker.summary
    kind = "pod group" if at[0] == "PodGroup" else "composite pod group"
    return f'waits for {kind} "{at[2]}": {blocker.summary}'
