"""The conditions and blockers of groups and pods, derived from the state. No I/O.

Every group of a tree has a condition; that of the group at fault says why, the others name it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

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
from kube.meta import Json
from scheduler.core.advice import about_volumes
from scheduler.core.explain import Blocker
from scheduler.core.forest import Group, NotReady, Pod, outer_topology_keys
from scheduler.core.model import SINGLE_POD, GroupKey
from scheduler.core.state import State
from scheduler.core.topology import UNLABELLED

_SHOWN: Final = 5

_RETRY_ON: Final = {
    "capacity": ["room on a node", "a new or changed node", "a change of the group"],
    "constraint": ["a new or changed node", "a change of the group"],
    "quorum": ["a new member", "a change of the group"],
    "priority": ["the start of the group that goes first", "a change of the group"],
    "invalid": ["a change of the group or its members"],
}


_VOLUMES: Final = "a change of its claims or of volumes"


def retry_on(blocker: Blocker) -> list[str]:
    """The events after which the root is decided again."""
    volumes = any(about_volumes(reason) for reason, _ in blocker.counts)
    return _RETRY_ON[blocker.kind] + ([_VOLUMES] if volumes else [])


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


def waiting_for(state: State, top: Group) -> Blocker | None:
    """Why a tree is not ready to be decided, as a blocker; None if it is."""
    held = state.forest.not_ready(top)
    return None if held is None else _blocker(held)


def group_views(state: State, top: Group, blocker: Blocker | None) -> list[GroupView]:
    """The views of a whole tree; `blocker` is why its root waits, if it does."""
    bound: dict[GroupKey, bool] = {}
    groups = [group for group in top.walk() if group.spec is not None]
    for group in reversed(groups):
        bound[group.key] = _minimum_bound(group, bound)
    return [_view(state, group, blocker, scheduled=bound[group.key]) for group in groups]


def pod_views(root: GroupKey, pods: Iterator[Pod], blocker: Blocker) -> Iterator[PodView]:
    """The views of a root's waiting pods."""
    for pod in pods:
        fault = pod.group is None or pod.group.key == blocker.at
        if blocker.kind == "invalid":
            reason = REASON_SCHEDULER_ERROR
        elif root[0] == SINGLE_POD or (
            fault and blocker.kind in ("capacity", "constraint") and not blocker.pods_fit
        ):
            reason = REASON_UNSCHEDULABLE
        else:
            reason = REASON_GROUP_WAITS
        message = _message(blocker, at=None if fault else blocker.at)
        same = (reason, blocker.kind, blocker.at, blocker.needed, blocker.impossible)
        yield PodView(pod, reason, message, same)


def waiting_pods(state: State, root: GroupKey) -> Iterator[Pod]:
    """The pods of a root that wait for a place."""
    if root[0] == SINGLE_POD:
        pod = state.singles.get(root)
        if pod is not None:
            yield pod
        return
    group = state.forest.groups.get(root)
    for leaf in group.leaves() if group is not None else ():
        for pods in leaf.pending.values():
            yield from pods.values()


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


def _blocker(not_ready: NotReady) -> Blocker:
    summary, needed = _summary(not_ready), not_ready.needed
    return Blocker(summary, "quorum", not_ready.at.key, needed, not_ready.present)


def _summary(not_ready: NotReady) -> str:
    """The message, and what users can do about it."""
    group, missing = not_ready.at, not_ready.needed - not_ready.present
    if group.spec is None:
        callers = "child groups" if group.composite else "pods"
        return f"{not_ready.message}: create it, or correct the name that its {callers} give"
    if missing > 0 and not group.composite:
        return f"{not_ready.message}: if no more come, the events of their Job say why"
    if missing > 0:
        return f"{not_ready.message}: if no more come, lower minGroupCount"
    return not_ready.message


def _minimum_bound(group: Group, bound: dict[GroupKey, bool]) -> bool:
    """Whether minCount pods or minGroupCount groups are bound; assumed pods do not count."""
    minimum = group.minimum
    if minimum is None:
        return False
    if group.composite:
        return sum(bound.get(child, False) for child in group.children) >= minimum
    if group.running < minimum:
        return False
    return sum(pod.running and not pod.assumed for pod in group.members.values()) >= minimum


def has_leaving_pods(state: State, group: Group) -> bool:
    """Whether pods of the subtree are terminating or being evicted."""
    members = (pod for leaf in group.leaves() for pod in leaf.members.values())
    return any(pod.node and state.units.leaves(pod) for pod in members)


def _view(state: State, group: Group, blocker: Blocker | None, *, scheduled: bool) -> GroupView:
    counts = _counts(group)
    if scheduled:
        # It may still wait for pods beyond minCount; other groups report theirs themselves.
        own = blocker if blocker is not None and blocker.at == group.key else None
        message = _minimum_placed(group) + _topology_reached(state, group)
        return GroupView(group, REASON_SCHEDULED, message, counts, own)
    if blocker is None:
        return GroupView(group, None, "", counts, None)
    fault = blocker.at == group.key
    reason = {"quorum": REASON_INCOMPLETE, "invalid": REASON_INVALID}.get(
        blocker.kind, REASON_UNSCHEDULABLE
    )
    message = _message(blocker, at=None if fault else blocker.at)
    return GroupView(group, reason, message, counts, replace(blocker, summary=message))


def _minimum_placed(group: Group) -> str:
    if group.spec is not None and group.spec.gang:
        return "has its minGroupCount placed" if group.composite else "has its minCount placed"
    return "has a child group placed" if group.composite else "has a pod placed"


def _topology_reached(state: State, group: Group) -> str:
    """In how many domains of a preferred topology the group runs."""
    if group.topology is None or not group.topology.preferred:
        return ""
    key = group.topology.key
    domains = state.topologies.domains(key, outer_topology_keys(group, key))
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
        return {
            "children": len(group.children),
            "scheduledChildren": sum(
                child.standing and confirmed(child) for child in group.children.values()
            ),
        }
    members = [pod for pod in group.members.values() if not pod.ended]
    return {"members": len(members), "scheduledPods": sum(bool(p.info.node) for p in members)}


def confirmed(group: Group) -> bool:
    """Whether the watch has delivered all Bindings of the subtree."""
    return not any(pod.assumed for leaf in group.leaves() for pod in leaf.members.values())


def _message(blocker: Blocker, at: GroupKey | None) -> str:
    if at is None or at[0] == SINGLE_POD:
        return blocker.summary
    kind = "pod group" if at[0] == "PodGroup" else "composite pod group"
    return f'waits for {kind} "{at[2]}": {blocker.summary}'
