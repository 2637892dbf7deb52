"""Conditions and blockers of groups and pods, derived from the state. No I/O.

Every group of a tree has a condition. The group at fault states the reason; the others name this
group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, assert_never

from api.constants import (
    CONDITION_COMPOSITE_SCHEDULED,
    CONDITION_POD_GROUP_SCHEDULED,
    REASON_GROUP_WAITS,
    REASON_INCOMPLETE,
    REASON_INVALID,
    REASON_SCHEDULED,
    REASON_SCHEDULER_ERROR,
    REASON_START_TIMEOUT,
    REASON_UNSCHEDULABLE,
)
from api.features import FeatureGates
from api.groups import incomplete_text
from kube.client.meta import Json
from scheduler.core.explain.explain import Blocker
from scheduler.core.groups import tree_validation
from scheduler.core.groups.forest import Group, NotReady, Pod, outer_topology_keys
from scheduler.core.state.state import State
from scheduler.core.topology.topology import UNLABELLED
from scheduler.core.values.model import SINGLE_POD, GroupKey, HoldKind, plain_kind
from scheduler.core.values.wording import sentence
from scheduler.status.quorum_messages import of_another_owner, summary

_SHOWN: Final = 5
"""Limit of domains that a message names; further ones appear as `...`."""

_RETRY_ON: Final = {
    "capacity": ["free capacity on a node", "a new or changed node", "a change of the group"],
    "constraint": ["a new or changed node", "a change of the group"],
    "quorum": ["a new member", "a change of the group"],
    "priority": ["the start of the group that is first", "a change of the group"],
    "invalid": ["a change of the group or its members"],
    "binding": ["the end of the back-off", "a change of the group or its members"],
    "error": ["the end of a back-off of 1 s, doubling to 5 min"],
    "timeout": ["new pods", "a change or the removal of the annotation start-timeout"],
}
"""Events that requeue a root, in words for users, by kind of blocker."""

_REASONS: Final = {
    "quorum": REASON_INCOMPLETE,
    "invalid": REASON_INVALID,
    "error": REASON_SCHEDULER_ERROR,
    "timeout": REASON_START_TIMEOUT,
}
"""Reasons of a group's condition by kind of blocker; Unschedulable for all other kinds."""

_POD_REASONS: Final = {
    "quorum": REASON_GROUP_WAITS,
    "invalid": REASON_INVALID,
    "binding": REASON_SCHEDULER_ERROR,
    "error": REASON_SCHEDULER_ERROR,
    "timeout": REASON_START_TIMEOUT,
}
"""Reasons of a pod's condition by kind of blocker; Unschedulable for all other kinds."""

_VOLUMES: Final = "a change of its claims or of volumes"
_DEVICES: Final = "a change of its ResourceClaims, or of devices or their classes"


def retry_on(blocker: Blocker) -> list[str]:
    """Return the events that requeue the root, as `status.blocker.retryOn` lists them."""
    more = [_VOLUMES] * blocker.volumes + [_DEVICES] * blocker.devices
    return _RETRY_ON[blocker.kind] + more


def reason_of(blocker: Blocker) -> str:
    """Return the reason of the group's condition."""
    return _REASONS.get(blocker.kind, REASON_UNSCHEDULABLE)


@dataclass(frozen=True, slots=True)
class GroupView:
    """The wanted status of a group. If `reason` is None, the condition remains unchanged.

    `event` is False if a change of the condition gets no event.
    """

    group: Group
    reason: str | None
    message: str
    counts: dict[str, int]
    blocker: Blocker | None
    event: bool = True

    @property
    def scheduled(self) -> bool:
        return self.reason == REASON_SCHEDULED


@dataclass(frozen=True, slots=True)
class PodView:
    """The wanted PodScheduled condition of a pending pod.

    The reporter writes it when `significant` changes, not for each change of free capacity.
    """

    pod: Pod
    reason: str
    message: str
    significant: tuple[object, ...]


def waiting_for(state: State, top: Group, gates: FeatureGates) -> Blocker | None:
    """Return why a tree is not ready for a decision, as a blocker; None if it is ready."""
    # A flaw first: more members do not help an invalid tree.
    flaw = tree_validation.check(top)
    if flaw is not None:
        return Blocker(flaw.message, "invalid", flaw.at.key, 0, 0)
    held = state.forest.not_ready(top)
    return None if held is None else _blocker(state, held, gates)


def group_views(state: State, top: Group, blocker: Blocker | None) -> list[GroupView]:
    """Return the views of all groups of a tree; `blocker` is why its root waits, if it waits."""
    # Groups that pods or children only name have no object to write to.
    groups = (group for group in top.walk() if group.spec is not None)
    return [group_view(state, group, blocker) for group in groups]


def group_view(state: State, group: Group, blocker: Blocker | None) -> GroupView:
    """Return the view of one group of a tree, in O(pods) only with a preferred topology."""
    view = _view(state, group, blocker)
    shared = group.spec is not None and group.spec.shared
    return _native(view, blocker) if shared else view


def _native(view: GroupView, blocker: Blocker | None) -> GroupView:
    """Return the view as Kubernetes' own groups have it: conditions only, in its reasons."""
    group, reason, message = view.group, view.reason, view.message
    above = _ancestor(group, blocker.at) if blocker is not None else None
    if not view.scheduled and above is not None and blocker is not None:
        failed = "encountered an error" if blocker.kind == "error" else "is unschedulable"
        message = f'ancestor composite pod group "{above.name}" {failed}'
    if reason == REASON_INCOMPLETE:
        reason = REASON_UNSCHEDULABLE
    elif reason == REASON_INVALID:
        reason = f"{group.kind}Error"
    return replace(view, reason=reason, message=message, counts={}, blocker=None)


def _ancestor(group: Group, key: GroupKey) -> Group | None:
    """Return the ancestor of the group with this key, if there is one."""
    above = group.parent
    while above is not None and above.key != key:
        above = above.parent
    return above


def _view(state: State, group: Group, blocker: Blocker | None) -> GroupView:
    counts = _counts(group)
    if group.bound:
        # A bound group may wait for pods beyond minCount. Blockers of other groups are not its own.
        own = blocker if blocker is not None and blocker.at == group.key else None
        message = _scheduled(group, _topology_reached(state, group))
        return GroupView(group, REASON_SCHEDULED, message, counts, own)
    if blocker is None:
        # Its pods are being bound: it neither waits nor is it scheduled yet.
        if not group.initially_scheduled:
            return GroupView(group, None, "", counts, None)
        return GroupView(group, REASON_SCHEDULED, _scheduled(group, verb="were"), counts, None)
    fault = blocker.at == group.key
    reason = reason_of(blocker)
    message = _message(blocker, at=None if fault else blocker.at)
    blocker = replace(blocker, summary=message)
    # PodGroupInitiallyScheduled reports the first start, so it stays True when pods are lost.
    if group.initially_scheduled:
        reason, message = REASON_SCHEDULED, f"{_scheduled(group, verb='were')} {message}"
    # Every group lacks members at first, so that gets no event.
    return GroupView(group, reason, message, counts, blocker, reason != REASON_INCOMPLETE)


def binding_failed(state: State, root: GroupKey, message: str) -> Blocker | None:
    """Return the blocker of a root whose Bindings failed; None if it no longer has a policy."""
    if root[0] == SINGLE_POD:
        return Blocker(message, "binding", root, 1, 0)
    group = state.forest.groups.get(root)
    if group is None or group.minimum is None:
        return None
    # Pods that were bound before the failure remain bound and count.
    present = group.standing_children if group.composite else group.running
    return Blocker(message, "binding", root, max(0, group.minimum - present), 0)


def pod_views(
    state: State, pods: Iterator[Pod], blocker: Blocker, gates: FeatureGates
) -> Iterator[PodView]:
    """Yield the views of a root's pending pods.

    While the root waits for capacity, all of them are Unschedulable, even if some fit. Pods of a
    group that lacks members have another reason, because no new node would help them.
    """
    causes: dict[GroupKey, Blocker] = {}
    for pod in pods:
        group, cause = pod.group, blocker
        if group is not None:
            if group.key not in causes:
                causes[group.key] = _missing_members(state, group, blocker, gates) or blocker
            cause = causes[group.key]
        fault = group is None or group.key == cause.at
        # Autoscalers add nodes for pods with the reason Unschedulable, and for no others. If the
        # pods of a gang that fit had another reason, it would get too few nodes and never start.
        reason = _POD_REASONS.get(cause.kind, REASON_UNSCHEDULABLE)
        message = _pod_message(cause, at_fault=fault)
        yield PodView(pod, reason, message, (reason, *cause.significant))


def _missing_members(
    state: State, leaf: Group, blocker: Blocker, gates: FeatureGates
) -> Blocker | None:
    """Return the blocker of the outermost group around the leaf that lacks members, if any.

    The root does not count: `blocker` is about the root.
    """
    # Blockers of these kinds apply to all pods of the tree.
    if blocker.kind in _POD_REASONS:
        return None
    found, group = None, leaf
    while group.parent is not None:
        found = found if group.quorate else group
        group = group.parent
    held = state.forest.not_ready(found) if found is not None else None
    return None if held is None else _blocker(state, held, gates)


def held_views(pods: Iterable[Pod]) -> Iterator[PodView]:
    """Yield the views of pods that are held: the only place that derives their conditions."""
    # Copied: a report may take several rounds, in which pods come and go.
    for pod in list(pods):
        if pod.hold is not None and pod.hold != "gate":
            reason, message = held_condition(pod, pod.hold)
            yield PodView(pod, reason, message, (reason, message))


def held_condition(pod: Pod, hold: HoldKind) -> tuple[str, str]:
    """Return the reason and message of a held pod; a new kind of hold has to add its own."""
    match hold:
        case "gate":
            # The API server writes it when it stores the pod, in these words.
            return "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"
        case "reference":
            return REASON_INVALID, sentence(incomplete_text(pod.info.labels))
        case "owner":
            return REASON_GROUP_WAITS, of_another_owner(pod)
        case "growth":
            return REASON_GROUP_WAITS, _exceeds(pod.group)
        case "claims":
            return REASON_UNSCHEDULABLE, pod.info.unclaimed
        case _:
            assert_never(hold)


def _exceeds(group: Group | None) -> str:
    """Return the message of a pod that waits until the group's minCount follows its owner."""
    phrase = group.phrase if group is not None else "The group"
    off = group.spec.maker_off if group is not None and group.spec is not None else ""
    if off:
        return (
            f"{phrase} does not grow with its owner because feature gate {off} is off. The pod"
            " waits until it is on."
        )
    return f"{phrase} grows with its owner. The pod waits until muster-controller updates minCount."


def waiting_pods(state: State, root: GroupKey) -> Iterator[Pod]:
    """Yield the pending pods of a root. The state may change between two of them."""
    if root[0] == SINGLE_POD:
        pod = state.singles.get(root)
        if pod is not None:
            yield pod
        return
    group = state.forest.groups.get(root)
    for leaf in group.leaves() if group is not None else ():
        # Copied, so that a pod that comes or leaves in between does not break the iteration.
        for pods in list(leaf.pending.values()):
            yield from list(pods.values())


def condition_type(group: Group) -> str:
    return CONDITION_COMPOSITE_SCHEDULED if group.composite else CONDITION_POD_GROUP_SCHEDULED


def blocker_json(blocker: Blocker, group: GroupKey, since: str) -> Json:
    """Return the blocker as `status.blocker` of the group."""
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
    # A field, because controllers must not read the group at fault from the summary.
    if blocker.at != group:
        kind, _, name = blocker.at
        document["waitsFor"] = {"kind": kind, "name": name}
    if best is not None:
        document["bestDomain"] = {
            "key": best.key,
            "value": best.value,
            "missing": best.missing,
        }
    return document


def _blocker(state: State, not_ready: NotReady, gates: FeatureGates) -> Blocker:
    at, needed, present = not_ready.at.key, not_ready.needed, not_ready.present
    if not_ready.kind == "timeout":
        return Blocker(not_ready.message, "timeout", at, needed, present)
    text = summary(not_ready, gates, state.forest.templates)
    return Blocker(text, "quorum", at, needed, present)


def has_leaving_pods(state: State, group: Group) -> bool:
    """Return True if pods of the subtree are terminating or being evicted."""
    members = (pod for leaf in group.leaves() for pod in leaf.members.values())
    return any(pod.node and state.units.leaves(pod) for pod in members)


def _scheduled(group: Group, more: str = "", *, verb: str = "are") -> str:
    """Return the sentence that the group's minimum is scheduled, or was, followed by `more`."""
    if group.spec is not None and group.spec.gang:
        what = "minGroupCount child groups" if group.composite else "minCount pods"
        return f"{what} {verb} scheduled{more}."
    what = "a child group" if group.composite else "a pod"
    return sentence(f"{what} {'is' if verb == 'are' else 'was'} scheduled{more}")


def _topology_reached(state: State, group: Group) -> str:
    """Return the domains of a preferred topology in which the group runs; empty without one."""
    if group.topology is None or not group.topology.preferred:
        return ""
    key = group.topology.key
    domains = state.topologies.of_groups(key, outer_topology_keys(group, key))
    members = (pod for leaf in group.leaves() for pod in leaf.members.values())
    # A bound pod may have no row: the watch of nodes may be behind that of pods.
    rows = [pod.row for pod in members if pod.running and pod.row >= 0]
    found = sorted(domains.of(rows))
    names = ["none" if code == UNLABELLED else domains.paths[code] for code in found]
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    if len(found) == 1 and found[0] != UNLABELLED:
        return f" in one {domains.key}, as preferred: {shown}"
    return f" in {len(found)} values of {domains.key}, one is preferred: {shown}"


def _counts(group: Group) -> dict[str, int]:
    if group.composite:
        return {"children": len(group.children), "scheduledChildren": group.bound_children}
    return {"members": group.alive, "scheduledPods": group.bound_pods}


def _message(blocker: Blocker, at: GroupKey | None) -> str:
    """Return the message of a group; `at` is the group at fault, None for the group itself."""
    if at is None or at[0] == SINGLE_POD:
        return blocker.summary
    return f'Waiting for {plain_kind(at[0])} "{at[2]}": {blocker.summary}'


def _pod_message(blocker: Blocker, *, at_fault: bool) -> str:
    """Return kube-scheduler's sentence with the name of the group, or why the group waits."""
    # The group's status has the other sentences; thousands of pods need not repeat them.
    kind, name = plain_kind(blocker.at[0]), blocker.at[2]
    if kind == SINGLE_POD:
        return blocker.summary
    if not blocker.nodes:
        return f'Waiting for {kind} "{name}": {blocker.summary}'
    verb = "belongs to" if at_fault else "waits for"
    return f'{blocker.nodes} The pod {verb} {kind} "{name}".'
