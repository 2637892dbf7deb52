"""The counters of groups, kept up to date along the chain of parents: O(depth) per change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal, TypeVar

from scheduler.core.groups.groups import Group, GroupState, Pod, Traits

T = TypeVar("T", int, str, Traits)
K = TypeVar("K")


class GroupCounters:
    """Updates of counters; `visited` counts the groups that updates visit, to measure their cost.

    `states` counts the groups by kind and state. `held_pods` and `held_groups` count the pods that
    are kept back, and the groups with such pods.
    """

    def __init__(self) -> None:
        self.visited = 0
        self.states: Counter[tuple[str, GroupState]] = Counter()
        self.held_pods = 0
        self.held_groups = 0

    def count(self, group: Group, pod: Pod, sign: int) -> None:
        """Add (+1) or remove (-1) a pod with its current state."""
        if pod.info.expected:
            self._count_expected(group, pod, sign)
        else:
            self._count_existing(group, pod, sign)

    def _count_existing(self, group: Group, pod: Pod, sign: int) -> None:
        info = pod.info
        ended, waiting, running = pod.counts_as()
        if not ended:
            group.alive += sign
            if info.node:
                group.bound_pods += sign
        failed = ended and failed_since(group, pod)
        group.failed += sign * failed
        alive = not ended and not info.terminating
        if alive and not info.ours:
            group.foreign += sign
        if waiting:
            _count_by(group.pending, pod.shape, pod, sign)
        if running:
            group.running += sign
            if not pod.assumed:
                group.settled += sign
        if waiting or running:
            group.available += sign
        elif not ended:
            self._count_idle(group, pod, sign)
        priorities = ((info.priority, sign),) if alive else ()
        schedulers = ((info.scheduler, sign),) if alive and info.ours else ()
        self._add(
            group,
            sign * waiting,
            sign * running,
            sign * pod.assumed,
            priorities=priorities,
            schedulers=schedulers,
        )
        # No other counter decides about quorum, minimum or flaws, so the walk is saved.
        if alive or running or failed:
            self.settle(group)

    def _count_expected(self, group: Group, pod: Pod, sign: int) -> None:
        """Count a pod that does not exist yet: it waits, or its node is reserved."""
        waiting = pod.waiting
        if waiting:
            _count_by(group.pending, pod.shape, pod, sign)
        elif pod.assumed:
            group.running += sign
        else:
            self._count_idle(group, pod, sign)
            return
        group.available += sign
        _add_expected(group, sign * waiting, sign * (not waiting))
        name = ((pod.info.scheduler, sign),)
        self._add(group, sign * waiting, sign * (not waiting), 0, priorities=(), schedulers=name)
        self.settle(group)

    def was_scheduled(self, group: Group) -> None:
        """Mark the group as initially_scheduled, because its status or a snapshot says so."""
        _set_scheduled(group)
        if group.parent is not None:
            # `settle` sees no change, because the flag is set already.
            group.parent.initially_scheduled_children += 1
            self.settle(group.parent)
        self.settle(group)
        self.note_state(group)

    def renew(self, group: Group) -> None:
        """Count the failed pods again after the group's object was created or deleted.

        Call `settle` afterwards. Costs O(pods of the group) where pods have ended.
        """
        group.initially_scheduled = False
        group.start_wait = None
        group.failed = 0
        # Failed pods have ended, so without ended pods there is nothing to count.
        if len(group.members) > group.alive:
            group.failed = sum(failed_since(group, pod) for pod in group.members.values())

    def recount(self, group: Group) -> None:
        """Count the pods of a PodGroup again, and the children of its ancestors.

        For a change that broke off half-way; costs O(pods of the group + children of ancestors).
        """
        parent, group.parent = group.parent, None  # the ancestors are counted below
        group.pending = {}
        group.priorities, group.schedulers = Counter(), Counter()
        group.alive = group.bound_pods = group.foreign = group.failed = 0
        group.available = group.running = group.settled = 0
        # Totals over all groups: counting the members adds to them again.
        self._count_strangers(group, -1)
        group.held = {}
        group.leaving = 0
        group.pending_total = group.running_total = group.assumed_total = 0
        group.expected_waiting = group.expected_held = 0
        for pod in group.members.values():
            self.count(group, pod, 1)
        self.settle(group)
        group.parent = parent
        while parent is not None:
            _recount_children(parent)
            self.note_state(parent)
            parent = parent.parent

    def credit(self, group: Group, sign: int) -> None:
        """Add (+1) the subtree's counters to all ancestors, or subtract (-1) them."""
        parent = group.parent
        if parent is None:
            raise LookupError(group.key)
        priorities = [(p, sign * count) for p, count in group.priorities.items()]
        schedulers = [(name, sign * count) for name, count in group.schedulers.items()]
        self._add(
            parent,
            sign * group.pending_total,
            sign * group.running_total,
            sign * group.assumed_total,
            size=sign * group.size,
            priorities=priorities,
            schedulers=schedulers,
        )
        if group.expected_waiting or group.expected_held:
            _add_expected(parent, sign * group.expected_waiting, sign * group.expected_held)
        parent.quorate_children += sign * group.quorate
        parent.standing_children += sign * group.standing
        parent.bound_children += sign * group.bound
        parent.initially_scheduled_children += sign * group.initially_scheduled
        if sign > 0 and group.faulty:
            parent.faulty_children[group.key] = group
        else:
            parent.faulty_children.pop(group.key, None)
        if sign > 0 and group.off:
            parent.off_children[group.key] = group
        else:
            parent.off_children.pop(group.key, None)
        if group.traits is not None:
            _count_traits(parent, group.traits, sign)
        height = group.height
        self._resize(parent, 0 if sign > 0 else height, height if sign > 0 else 0)
        self.settle(parent)

    def describe(self, group: Group, traits: Traits | None) -> None:
        """Set a group's traits, and compare them with those of its parent and children.

        O(1): equal traits of children are counted together. Call `settle` afterwards.
        """
        before, group.traits = group.traits, traits
        group.clashing = _clashing(group)
        parent = group.parent
        if parent is None or before == traits:
            return
        if before is not None:
            _count_traits(parent, before, -1)
        if traits is not None:
            _count_traits(parent, traits, 1)
        self.settle(parent)

    def settle(self, group: Group) -> None:
        """Update what follows from the counters, upwards as long as something changes."""
        node: Group | None = group
        while node is not None:
            self.visited += 1
            minimum = node.minimum
            quorate, standing, bound = _minimum_met(node, minimum)
            before = node.initially_scheduled
            initially = before or bound or _was_bound(node, minimum)
            # Before `_faulty`, which allows more in groups that were scheduled.
            if initially and not before:
                _set_scheduled(node)
            faulty, off = _faulty(node), _off(node)
            # Ancestors depend on these values alone. If none changed, nothing changes further up.
            if (
                quorate == node.quorate
                and standing == node.standing
                and bound == node.bound
                and initially == before
                and faulty == node.faulty
                and off == node.off
            ):
                return
            above = node.parent
            if above is not None:
                above.quorate_children += quorate - node.quorate
                above.standing_children += standing - node.standing
                above.bound_children += bound - node.bound
                above.initially_scheduled_children += initially - before
                if faulty:
                    above.faulty_children[node.key] = node
                else:
                    above.faulty_children.pop(node.key, None)
                if off:
                    above.off_children[node.key] = node
                else:
                    above.off_children.pop(node.key, None)
            node.off = off
            node.quorate, node.standing, node.bound, node.faulty = quorate, standing, bound, faulty
            self.note_state(node)
            node = above

    def note_state(self, group: Group) -> None:
        """Update the group's state and `states`; call it when its object is created or deleted."""
        before, after = group.state, _state_of(group)
        if before == after:
            return
        group.state = after
        if before:
            self.states[group.kind, before] -= 1
        if after:
            self.states[group.kind, after] += 1

    def _count_idle(self, group: Group, pod: Pod, sign: int) -> None:
        """Count a pod that counts for neither the quorum nor the minimum, and has not ended."""
        info = pod.info
        if info.terminating:
            group.leaving += sign
        elif info.hold is not None:
            self._count_strangers(group, -1)
            _count_by(group.held, info.hold, pod, sign)
            self._count_strangers(group, 1)

    def _count_strangers(self, group: Group, sign: int) -> None:
        """Add the pods of other owners, and the group if it has any, to the totals."""
        strangers = len(group.held_by("owner"))
        self.held_pods += sign * strangers
        self.held_groups += sign * (strangers > 0)

    def _add(
        self,
        group: Group,
        pending: int,
        running: int,
        assumed: int,
        *,
        size: int = 0,
        priorities: Iterable[tuple[int, int]],
        schedulers: Iterable[tuple[str, int]],
    ) -> None:
        """Add to the counters of the group and all ancestors; priorities and names are few."""
        node: Group | None = group
        changed = []
        while node is not None:
            self.visited += 1
            node.pending_total += pending
            node.running_total += running
            node.assumed_total += assumed
            node.size += size
            names, values = len(node.schedulers), len(node.priorities)
            for name, count in schedulers:
                _add_to(node.schedulers, name, count)
            for priority, count in priorities:
                _add_to(node.priorities, priority, count)
            if (names, values) != (len(node.schedulers), len(node.priorities)):
                changed.append(node)
            node = node.parent
        # These may differ although nothing else about the children of a composite changes.
        for node in changed:
            self.settle(node)
            self.note_state(node)

    def _resize(self, group: Group, old: int, new: int) -> None:
        """Change a child's height from `old` to `new`; 0 means no child."""
        node: Group | None = group
        while node is not None and old != new:
            self.visited += 1
            before = node.height
            if old:
                node.heights[old] -= 1
            if new:
                node.heights[new] += 1
            # The parent's own height may be the same: then the loop ends.
            old, new = before, node.height
            node = node.parent


def _add_to(counted: Counter[T], key: T, count: int) -> None:
    """Add to a number; numbers of 0 are removed."""
    total = counted.get(key, 0) + count
    if total:
        counted[key] = total
    else:
        counted.pop(key, None)


def _add_expected(group: Group, waiting: int, held: int) -> None:
    """Add to the numbers of expected pods of the group and all its ancestors."""
    node: Group | None = group
    while node is not None:
        node.expected_waiting += waiting
        node.expected_held += held
        node = node.parent


def _recount_children(parent: Group) -> None:
    """Set a composite's counters from its children."""
    children = list(parent.children.values())
    parent.pending_total = sum(child.pending_total for child in children)
    parent.running_total = sum(child.running_total for child in children)
    parent.assumed_total = sum(child.assumed_total for child in children)
    parent.expected_waiting = sum(child.expected_waiting for child in children)
    parent.expected_held = sum(child.expected_held for child in children)
    parent.quorate_children = sum(child.quorate for child in children)
    parent.standing_children = sum(child.standing for child in children)
    parent.bound_children = sum(child.bound for child in children)
    parent.initially_scheduled_children = sum(child.initially_scheduled for child in children)
    parent.faulty_children = {child.key: child for child in children if child.faulty}
    parent.off_children = {child.key: child for child in children if child.off}
    parent.priorities = sum((child.priorities for child in children), Counter())
    parent.schedulers = sum((child.schedulers for child in children), Counter())
    parent.quorate, parent.standing, parent.bound = _minimum_met(parent, parent.minimum)
    parent.faulty, parent.off = _faulty(parent), _off(parent)


def _count_traits(parent: Group, traits: Traits, sign: int) -> None:
    _add_to(parent.child_traits, traits, sign)
    parent.described_children += sign
    parent.clashing = _clashing(parent)


def _set_scheduled(group: Group) -> None:
    group.initially_scheduled = True
    group.clashing = _clashing(group)


def _clashing(group: Group) -> int:
    """Return how many children's traits contradict the group's; distinct traits are few."""
    traits = group.traits
    if traits is None or group.spec is None:
        return 0
    # A running tree may mix priorities, so count child by child. Otherwise look up the few traits
    # that are allowed, however many children there are.
    if group.initially_scheduled:
        return sum(
            count
            for child, count in group.child_traits.items()
            if not _traits_match(child, traits, group.spec.template)
        )
    modes: tuple[Literal["single", "all"], ...] = ("single", "all")
    alike = sum(
        group.child_traits[Traits(traits.workload, traits.priority, disruption, below)]
        for disruption in modes
        for below in {None, group.spec.template}
        if disruption == "all" or traits.disruption == "single"
    )
    return group.described_children - alike


def _traits_match(child: Traits, traits: Traits, template: str) -> bool:
    """Return True if a child's traits fit these, whatever its priority: the tree runs already."""
    modes = child.disruption == "all" or traits.disruption == "single"
    return child.workload == traits.workload and modes and child.below in (None, template)


def _count_by(tables: dict[K, dict[str, Pod]], key: K, pod: Pod, sign: int) -> None:
    """Add the pod to the table of the key, or remove it; empty tables are removed."""
    pods = tables.setdefault(key, {})
    if sign > 0:
        pods[pod.info.uid] = pod
    else:
        pods.pop(pod.info.uid)
        if not pods:
            del tables[key]


def _state_of(group: Group) -> GroupState:
    # A shared group without pods may be of any scheduler.
    if group.spec is None or (group.spec.shared and not group.schedulers):
        return ""
    if group.bound:
        return "scheduled"
    if group.standing:
        return "binding"
    if group.faulty:
        return "invalid"
    if group.initially_scheduled:
        return "disrupted"
    waits = group.quorate and not (group.switched_off or group.given_up)
    return "pending" if waits else "incomplete"


def _minimum_met(group: Group, minimum: int | None) -> tuple[bool, bool, bool]:
    """Return `quorate`, `standing` and `bound`."""
    if minimum is None:
        return (False, False, False)
    if group.composite:
        return (
            group.quorate_children >= minimum,
            group.standing_children >= minimum,
            group.bound_children >= minimum,
        )
    return (group.available >= minimum, group.running >= minimum, group.settled >= minimum)


def _was_bound(group: Group, minimum: int | None) -> bool:
    """Return True if enough pods were bound, though never at the same time as far as seen."""
    if minimum is None:
        return False
    if group.composite:
        return group.initially_scheduled_children >= minimum
    # Without failed pods this is the same as `bound`.
    return group.failed > 0 and group.settled + group.failed >= minimum


def failed_since(group: Group, pod: Pod) -> bool:
    """Return True if the pod failed after it was bound while the group's object existed."""
    return (
        # Timestamps of one format compare as strings.
        pod.failed and group.spec is not None and pod.info.membership.bound_at >= group.spec.created
    )


def _faulty(group: Group) -> bool:
    if (
        group.cut_from is not None
        or group.cut_children
        or group.clashing
        or group.faulty_children
        or group.template_flaw
        or (group.slicing is not None and group.slicing.flaw != "")
    ):
        return True
    mixed = group.foreign > 0 or len(group.schedulers) > 1
    return (mixed or has_other_priorities(group)) and group.known


def _off(group: Group) -> bool:
    return (group.spec is not None and group.spec.gate_off != "") or bool(group.off_children)


def has_other_priorities(group: Group) -> bool:
    """Return True if a pod of the leaf has another priority than the leaf. Composites have no pods.

    In a shared tree, the root alone is compared, with all pods below it. If Muster created the
    group, its priority is that of its pods, provided these agree. A group that was scheduled once
    continues whatever its new pods have: a PriorityClass may be created, changed and deleted.
    """
    spec, present = group.spec, group.priorities
    if spec is None or spec.priority is None or not present or group.initially_scheduled:
        return False
    if spec.parent is not None if spec.shared else group.composite:
        return False
    priority = spec.priority
    return len(present) > 1 or (priority not in present and not group.created_by_muster)
