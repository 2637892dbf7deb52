"""Groups, their parents and children, and the counters that decide whether a tree may be tried.

The quorum is what kube-scheduler checks in PreEnqueue of its GangScheduling plug-in. A change to
one pod updates its ancestors only: O(depth), whatever the size of the tree. Objects may arrive in
any order: a group that only others name so far has `spec` None.

available  number of pods that count for the quorum: waiting (not gated), bound, assumed, succeeded
running    number of pods that count for the minimum: bound, assumed, succeeded
quorate    leaf: available >= minimum; composite: at least minimum children are quorate
standing   leaf: running >= minimum; composite: at least minimum children are standing
priorities number of pods in the subtree by priority, without ended and terminating pods

Failed and terminating pods count for neither the quorum nor the minimum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.core.model import (
    COMPOSITE_POD_GROUP,
    POD_GROUP,
    SINGLE_POD,
    GroupKey,
    GroupSpec,
    PodInfo,
    Topology,
)
from scheduler.core.shapes import Shape

MAX_DEPTH: Final = 4

_NO_POLICY: Final = (
    "has no scheduling policy yet: create the template it names, or give it a schedulingPolicy"
)


class Pod:
    """A pod that this scheduler places, or one that another scheduler places.

    `node` is the name of the node on which it takes room, or empty; `row` is the row of that node,
    -1 if there is none or it is not known.
    """

    __slots__ = ("assumed", "group", "info", "node", "row", "shape")

    def __init__(self, info: PodInfo, shape: Shape, group: Group | None) -> None:
        self.info = info
        self.shape = shape
        self.group = group
        self.node = ""
        self.row = -1
        self.assumed = False

    @property
    def key(self) -> GroupKey:
        """The queue key of a pod that belongs to no group."""
        return (SINGLE_POD, self.info.namespace, self.info.name)

    @property
    def ended(self) -> bool:
        return self.info.phase in ("Succeeded", "Failed")

    @property
    def placed(self) -> bool:
        """Whether the pod is bound, or assumed: a node was chosen and the Binding is under way."""
        return bool(self.info.node) or self.assumed

    @property
    def waiting(self) -> bool:
        """Whether this scheduler has to place the pod now."""
        info = self.info
        blocked = info.gated or info.terminating or self.ended
        return info.ours and not self.placed and not blocked

    @property
    def running(self) -> bool:
        """Whether it counts for the minimum: placed or succeeded, and not failed or terminating."""
        info = self.info
        if info.terminating or info.phase == "Failed":
            return False
        return self.placed or info.phase == "Succeeded"

    @property
    def priority(self) -> int:
        return self.info.priority

    @property
    def order(self) -> tuple[int, str, str, str]:
        """The sort key within a group: highest priority, then oldest, then by name."""
        info = self.info
        return (-info.priority, info.created, info.namespace, info.name)


class Group:
    """A PodGroup, which has pods, or a CompositePodGroup, which has child groups."""

    __slots__ = (
        "available", "children", "foreign", "key", "members", "parent", "pending", "pending_total",
        "priorities", "quorate", "quorate_children", "running", "running_total", "spec",
        "standing", "standing_children",
    )  # fmt: skip

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.spec: GroupSpec | None = None
        self.parent: Group | None = None
        self.children: dict[GroupKey, Group] = {}
        self.members: dict[str, Pod] = {}
        self.pending: dict[Shape, dict[str, Pod]] = {}
        self.priorities: Counter[int] = Counter()
        self.foreign = 0
        self.available = 0
        self.running = 0
        self.pending_total = 0
        self.running_total = 0
        self.quorate_children = 0
        self.standing_children = 0
        self.quorate = False
        self.standing = False

    def __repr__(self) -> str:
        return f"Group({'/'.join(self.key)})"

    @property
    def name(self) -> str:
        return self.key[2]

    @property
    def composite(self) -> bool:
        return self.key[0] == COMPOSITE_POD_GROUP

    @property
    def minimum(self) -> int | None:
        """The minCount or minGroupCount; None if the object or its policy does not exist yet."""
        return self.spec.minimum if self.spec is not None else None

    @property
    def topology(self) -> Topology | None:
        """The group's own topology constraint; None if it has none or has no object yet."""
        return self.spec.topology if self.spec is not None else None

    @property
    def known(self) -> bool:
        return self.minimum is not None

    @property
    def incomplete(self) -> bool:
        """Whether it runs below its minimum, after a disruption or an incomplete binding."""
        return self.running_total > 0 and not self.standing

    @property
    def top(self) -> Group:
        """The topmost ancestor, or the group itself. Not a root if its object does not exist."""
        group = self
        while group.parent is not None:
            group = group.parent
        return group

    @property
    def priority(self) -> int:
        """The spec's priority; if it was not resolved, the lowest of the pods', 0 without pods."""
        if self.spec is not None and self.spec.priority is not None:
            return self.spec.priority
        return min(self.priorities, default=0)

    def children_in_order(self) -> list[Group]:
        """The children, oldest first, then by name."""
        return sorted(self.children.values(), key=_by_creation)

    def walk(self) -> Iterator[Group]:
        """The groups of the subtree, parents before children, in the order of children_in_order."""
        stack = [self]
        while stack:
            group = stack.pop()
            yield group
            stack.extend(reversed(group.children_in_order()))

    def leaves(self) -> Iterator[Group]:
        return (group for group in self.walk() if not group.composite)


@dataclass(frozen=True, slots=True)
class NotReady:
    """Why a group is not tried, and at which group (`at`) the cause is."""

    at: Group
    message: str
    needed: int = 0
    present: int = 0


class Forest:
    """All groups. `visited` counts the groups that updates visited, to measure their cost."""

    def __init__(self) -> None:
        self.groups: dict[GroupKey, Group] = {}
        self.visited = 0
        self._cyclic: set[GroupKey] = set()

    def group(self, key: GroupKey) -> Group:
        """The group with that key, created without a spec if it is new."""
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group(key)
        return group

    def set_spec(self, spec: GroupSpec) -> Group:
        group = self.group(spec.key)
        moved = group.spec is None or group.spec.parent != spec.parent
        group.spec = spec
        if moved:
            self._unlink(group)
            self._link(group)
            self._relink_cycles()
        self._settle(group)
        return group

    def remove_spec(self, key: GroupKey) -> Group | None:
        """Remove the spec; the group stays while pods or children name it. None if it had none."""
        group = self.groups.get(key)
        if group is None or group.spec is None:
            return None
        self._unlink(group)
        group.spec = None
        self._settle(group)
        self.prune(group)
        self._relink_cycles()
        return group

    def prune(self, group: Group) -> None:
        """Remove a group without a spec that no pod and no child names any more."""
        if group.spec is None and not group.members and not group.children:
            self.groups.pop(group.key, None)
            self._cyclic.discard(group.key)

    def count(self, group: Group, pod: Pod, sign: int) -> None:
        """Add (+1) or remove (-1) a pod with its current state. Costs O(depth)."""
        info = pod.info
        if sign > 0:
            group.members[info.uid] = pod
        else:
            group.members.pop(info.uid)
        alive = not pod.ended and not info.terminating
        if alive and not info.ours:
            group.foreign += sign
        waiting, running = pod.waiting, pod.running
        if waiting:
            self._count_pending(group, pod, sign)
        if running:
            group.running += sign
        priorities = {info.priority: sign} if alive else {}
        self._total(group, sign * waiting, sign * running, priorities)
        if waiting or running:
            group.available += sign
            self._settle(group)

    def not_ready(self, group: Group) -> NotReady | None:
        """Why this topmost group may not be tried; None if it is a root that has its quorum."""
        if group.key in self._cyclic:
            return NotReady(
                group, "its parents form a cycle: take parentCompositePodGroupName off one of them"
            )
        if group.spec is None:
            return NotReady(group, f"{_words(group)} does not exist")
        if not group.known:
            return NotReady(group, f"{_words(group)} {_NO_POLICY}")
        return None if group.quorate else self._shortage(group)

    def ready(self, group: Group) -> bool:
        """Whether `not_ready` would return None; cheaper, because it writes no message."""
        return group.quorate and group.key not in self._cyclic

    def cyclic(self, group: Group) -> bool:
        return group.key in self._cyclic

    def _shortage(self, group: Group) -> NotReady:
        minimum = group.minimum or 0
        if not group.composite:
            message = f"has {group.available} of {minimum} pods"
            return NotReady(group, message, minimum, group.available)
        for child in group.children_in_order():
            if not child.quorate:
                return self._shortage(child) if child.known else NotReady(child, _NO_POLICY)
        message = f"has {group.quorate_children} of {minimum} child groups"
        return NotReady(group, message, minimum, group.quorate_children)

    def _count_pending(self, group: Group, pod: Pod, sign: int) -> None:
        pods = group.pending.setdefault(pod.shape, {})
        if sign > 0:
            pods[pod.info.uid] = pod
        else:
            pods.pop(pod.info.uid)
            if not pods:
                del group.pending[pod.shape]

    def _link(self, group: Group) -> None:
        self._cyclic.discard(group.key)
        if group.spec is None or group.spec.parent is None:
            return
        parent = self.group((COMPOSITE_POD_GROUP, group.key[1], group.spec.parent))
        if parent.top is group:
            # Linking it would close a cycle, which has no root.
            self._cyclic.add(group.key)
            return
        group.parent = parent
        parent.children[group.key] = group
        self._credit(group, 1)

    def _relink_cycles(self) -> None:
        """Link the groups that would have closed a cycle, if they no longer would."""
        for cyclic in sorted(self._cyclic):
            self._link(self.groups[cyclic])

    def _unlink(self, group: Group) -> None:
        parent = group.parent
        if parent is None:
            return
        self._credit(group, -1)
        group.parent = None
        del parent.children[group.key]
        self.prune(parent)

    def _credit(self, group: Group, sign: int) -> None:
        """Add (+1) the subtree's counters to all ancestors, or subtract (-1) them."""
        parent = group.parent
        if parent is None:
            raise LookupError(group.key)
        priorities = {p: sign * count for p, count in group.priorities.items()}
        self._total(parent, sign * group.pending_total, sign * group.running_total, priorities)
        parent.quorate_children += sign * group.quorate
        parent.standing_children += sign * group.standing
        self._settle(parent)

    def _total(
        self, group: Group, pending: int, running: int, priorities: Mapping[int, int]
    ) -> None:
        """Add to the pod counters of the group and all ancestors; priorities are few."""
        node: Group | None = group
        while node is not None:
            self.visited += 1
            node.pending_total += pending
            node.running_total += running
            for priority, count in priorities.items():
                node.priorities[priority] += count
                if not node.priorities[priority]:
                    del node.priorities[priority]
            node = node.parent

    def _settle(self, group: Group) -> None:
        """Update `quorate` and `standing`, going up as long as one of them changes."""
        node: Group | None = group
        while node is not None:
            self.visited += 1
            quorate, standing = _judge(node)
            gained = (quorate - node.quorate, standing - node.standing)
            if gained == (0, 0):
                return
            node.quorate, node.standing = quorate, standing
            node = node.parent
            if node is not None:
                node.quorate_children += gained[0]
                node.standing_children += gained[1]


def outer_topology_keys(group: Group, key: str) -> tuple[str, ...]:
    """The topology keys of the group's ancestors, the outermost first, without `key`."""
    keys: dict[str, None] = {}
    above = group.parent
    while above is not None:
        if above.topology is not None and above.topology.key != key:
            keys.setdefault(above.topology.key)
        above = above.parent
    return tuple(reversed(keys))


def topology_keys_around(group: Group | None, key: str) -> tuple[str, ...]:
    """The outer keys of the nearest constraint on `key`, of the group or an ancestor."""
    while group is not None and (group.topology is None or group.topology.key != key):
        group = group.parent
    return () if group is None else outer_topology_keys(group, key)


def _judge(group: Group) -> tuple[bool, bool]:
    minimum = group.minimum
    if minimum is None:
        return (False, False)
    if group.composite:
        return (group.quorate_children >= minimum, group.standing_children >= minimum)
    return (group.available >= minimum, group.running >= minimum)


def _by_creation(group: Group) -> tuple[str, str, str]:
    return (group.spec.created if group.spec else "", group.key[2], group.key[0])


def _words(group: Group) -> str:
    kind = "pod group" if group.key[0] == POD_GROUP else "composite pod group"
    return f'{kind} "{group.name}"'
