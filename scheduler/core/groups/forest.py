"""Groups, their parents and children, and the counters that decide if a tree may be tried.

The quorum is what kube-scheduler checks in PreEnqueue of its GangScheduling plugin. A change to one
pod or group updates its ancestors only: O(depth), whatever the size of the tree, and no tree is
deeper than MAX_DEPTH. Objects may arrive in any order: a group that only others name so far has
`spec` None. `groups` describes the counters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from scheduler.core.groups.group_counters import GroupCounters
from scheduler.core.groups.group_links import GroupLinks
from scheduler.core.groups.groups import (
    MAX_DEPTH,
    Group,
    GroupState,
    Pod,
    StartWait,
    Traits,
    by_creation,
    in_order,
    outer_topology_keys,
    topology_keys_around,
)
from scheduler.core.groups.workload_templates import (
    Templates,
    WorkloadKey,
    contradiction,
    template_of,
)
from scheduler.core.values.model import WORKLOAD, GroupKey, GroupSpec

__all__ = [
    "MAX_DEPTH",
    "Forest",
    "Group",
    "NotReady",
    "Pod",
    "in_order",
    "outer_topology_keys",
    "topology_keys_around",
]

_STEPS: Final = 8
"""Postponed steps that each event does in passing."""

_NO_POLICY: Final = (
    "has no scheduling policy yet. Create the template that it names, or set its schedulingPolicy"
)


_PLACES_NONE: Final = "its running pods continue, new pods are not scheduled until it is on"
_STARTS_NONE: Final = "a group that was never scheduled waits until it is on"


@dataclass(frozen=True, slots=True)
class NotReady:
    """The reason why a group is not tried, and the group `at` which the cause is.

    `timeout` means that it did not start in time, `quorum` that it lacks something.
    """

    at: Group
    message: str
    needed: int = 0
    present: int = 0
    kind: Literal["quorum", "timeout"] = "quorum"


class Forest:
    """All groups, and the templates of the Workloads that they name.

    `moved` are the groups that postponed steps linked or compared again, until `take_moved`.
    """

    def __init__(self) -> None:
        self.groups: dict[GroupKey, Group] = {}
        self.templates: dict[WorkloadKey, Templates] = {}
        self._counters = GroupCounters()
        self._links = GroupLinks(self._counters, self.group, self.prune)
        self.moved: Sequence[Group] = self._links.moved
        self._made_from: dict[WorkloadKey, dict[GroupKey, Group]] = {}

    @property
    def visited(self) -> int:
        """Number of groups that updates visited, to measure their cost."""
        return self._counters.visited

    @property
    def states(self) -> Mapping[tuple[str, GroupState], int]:
        """Number of groups with an object, by kind and state."""
        return self._counters.states

    @property
    def held(self) -> tuple[int, int]:
        """Number of pods that are kept back, and number of groups with such pods."""
        return self._counters.held_pods, self._counters.held_groups

    def group(self, key: GroupKey) -> Group:
        """Return the group with that key, created without a spec if it is new."""
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group(key)
        return group

    def set_spec(self, spec: GroupSpec) -> Group:
        group = self.group(spec.key)
        before = group.set_spec(spec)
        self._index(group, _workload_of(spec))
        self._describe(group)
        # A new object may be a recreated one. Failures of pods before it do not count.
        if before is None:
            self._counters.renew(group)
        # Links depend on the parent alone; relinking a group moves the counters of its subtree.
        if before is None or before.parent != spec.parent:
            self._links.unlink(group)
            self._links.link(group)
        # Also without new links: the minimum or a gate may have changed.
        self._counters.settle(group)
        # A new object has a state even if no counter has changed.
        self._counters.note_state(group)
        self._links.catch_up(_STEPS)
        return group

    def remove_spec(self, key: GroupKey) -> Group | None:
        """Remove the spec; the group stays while pods or children name it. None if it had none."""
        group = self.groups.get(key)
        if group is None or group.spec is None:
            return None
        self._links.unlink(group)
        group.set_spec(None)
        self._index(group, _workload_named(next(iter(group.members.values()), None)))
        self._describe(group)
        self._counters.renew(group)
        self._counters.settle(group)
        self._counters.note_state(group)
        self.prune(group)
        self._links.catch_up(_STEPS)
        return group

    def was_scheduled(self, key: GroupKey) -> None:
        """Record that the group was scheduled before, as its status or a snapshot states."""
        group = self.groups.get(key)
        if group is not None and group.spec is not None and not group.initially_scheduled:
            self._counters.was_scheduled(group)

    def set_start_wait(self, group: Group, wait: StartWait | None) -> None:
        """Set the wait of a root for its first start; None ends it."""
        group.start_wait = wait
        self._counters.note_state(group)

    def set_templates(self, workload: WorkloadKey, templates: Templates | None) -> None:
        """Set the templates of a Workload; None if there is no such Workload.

        Its groups, and those that do not exist yet, are compared with them in postponed steps.
        """
        if self.templates.get(workload) == templates:
            return
        if templates is None:
            del self.templates[workload]
        else:
            self.templates[workload] = templates
        # A Workload may have thousands of groups; comparing all at once would block the event loop.
        if workload in self._made_from:
            self._links.postpone((WORKLOAD, *workload), self._compare_all(workload))
            self._links.catch_up(_STEPS)

    def prune(self, group: Group) -> None:
        """Remove a group without a spec that no pod and no child names."""
        # Pods and children may be delivered before the group's object, or outlive it.
        named = group.members or group.children or group.cut_children
        if group.spec is None and not named:
            self._index(group, None)
            self.groups.pop(group.key, None)

    def catch_up(self, steps: int) -> bool:
        """Do up to `steps` postponed steps, each O(depth). Return True if some are left."""
        return self._links.catch_up(steps)

    def take_moved(self) -> list[Group]:
        """Return the groups in `moved` and clear it."""
        moved = self._links.moved.copy()
        self._links.moved.clear()
        return moved

    def count(self, group: Group, pod: Pod, sign: int) -> None:
        """Add (+1) or remove (-1) a pod with its current state. Costs O(depth)."""
        if sign > 0:
            group.members[pod.info.uid] = pod
            if group.spec is None and group.made_from is None:
                self._index(group, _workload_named(pod))
        else:
            group.members.pop(pod.info.uid)
        self._counters.count(group, pod, sign)

    def recount(self, group: Group) -> None:
        """Count the members of a PodGroup again, and the children of its ancestors."""
        self._counters.recount(group)

    def not_ready(self, group: Group) -> NotReady | None:
        """Return what a topmost group without a flaw lacks; None for a root with its quorum."""
        # First, because a gate that is off blocks the tree whatever else it lacks.
        if group.switched_off:
            return _switched_off(group)
        if group.spec is None:
            return NotReady(group, f"{group.phrase} does not exist")
        if not group.known:
            return NotReady(group, f"{group.phrase} {_NO_POLICY}")
        if not group.quorate:
            return _shortage(group)
        if group.expected_waiting and not group.to_be_decided:
            return NotReady(group, "None of the expected pods exists yet")
        if group.start_wait is not None and group.start_wait.given_up:
            return NotReady(group, group.start_wait.given_up, kind="timeout")
        return None

    def ready(self, group: Group) -> bool:
        """Return True if this topmost group may be tried.

        It has its quorum, no flaw, no gate that is off, and was not given up.
        """
        return group.quorate and not (group.faulty or group.switched_off or group.given_up)

    def cyclic(self, group: Group) -> bool:
        """Return True if the group has no root: its link would close a cycle or is too deep."""
        return group.cut_from is not None

    def _index(self, group: Group, new: WorkloadKey | None) -> None:
        """Update the index of groups by the Workload that they, or their first pods, name."""
        old, group.made_from = group.made_from, new
        if old == new:
            return
        if old is not None:
            groups = self._made_from[old]
            del groups[group.key]
            if not groups:
                del self._made_from[old]
        if new is not None:
            self._made_from.setdefault(new, {})[group.key] = group

    def _describe(self, group: Group) -> None:
        """Compare the group with its template, its parent and its children."""
        spec, below = group.spec, None
        group.template_flaw = ""
        workload = _workload_of(spec)
        templates = self.templates.get(workload) if workload is not None else None
        if spec is not None and templates is not None:
            group.template_flaw = contradiction(spec, templates)
            template = template_of(spec, templates)
            below = template.below if template is not None else None
        traits = None
        # Without a policy, the group contradicts nothing yet.
        if spec is not None and group.known:
            traits = Traits(spec.workload, spec.priority, spec.disruption, below)
            if spec.shared:
                # kube-scheduler 1.37 compares no more than this.
                traits = Traits(spec.workload, None, "all", None)
        self._counters.describe(group, traits)

    def _compare_all(self, workload: WorkloadKey) -> Iterator[None]:
        """Compare the Workload's groups with its templates, one in each step."""
        # A copy: events between the steps change the index.
        for group in list(self._made_from.get(workload, {}).values()):
            # The group may name another Workload since the step was postponed.
            if group.made_from == workload:
                self._describe(group)
                self._counters.settle(group)
                self._links.moved.append(group)
            yield


def _workload_of(spec: GroupSpec | None) -> WorkloadKey | None:
    # The Workload of a shared group is of another API, and its templates are not known.
    if spec is None or spec.workload is None or spec.shared:
        return None
    return (spec.key[1], spec.workload)


def _workload_named(pod: Pod | None) -> WorkloadKey | None:
    """Return the Workload from which the missing group of the pod would be created."""
    name = pod.info.membership.workload if pod is not None else ""
    return (pod.info.namespace, name) if pod is not None and name else None


def _switched_off(group: Group) -> NotReady:
    """Return the group at which a disabled feature gate blocks the tree, and the effect."""
    # The gate may belong to a child, and the message has to name that child.
    while group.spec is None or not group.spec.gate_off:
        child = min(group.off_children.values(), key=by_creation, default=None)
        if child is None:
            break
        group = child
    spec = group.spec
    if spec is not None and spec.gate_off:
        return NotReady(group, f"Feature gate {spec.gate_off} is off: {_PLACES_NONE}")
    gate = spec.maker_off if spec is not None else ""
    return NotReady(group, f"Feature gate {gate} is off: {_STARTS_NONE}")


def _shortage(group: Group) -> NotReady:
    """Return what a group of known policy lacks for its quorum, at the first such child."""
    # The child is what the user has to change; its parent only counts children.
    while group.composite:
        lacking = (child for child in group.children.values() if not child.quorate)
        first = min(lacking, key=by_creation, default=None)
        if first is None:
            break
        if not first.known:
            return NotReady(first, f"{first.phrase} {_NO_POLICY}")
        group = first
    minimum = group.minimum or 0
    if group.composite:
        message = f"The group has {group.quorate_children} of {minimum} child groups"
        return NotReady(group, message, minimum, group.quorate_children)
    gang = group.spec is None or group.spec.gang
    have = f"{group.available} of {minimum} pods" if gang else "no pods"
    message = f"The group has {have}"
    return NotReady(group, message, minimum, group.available)
