"""Groups, their parents and children, and the counters that say whether a tree may be tried.

A change to one pod walks up its parent chain and no further: O(depth), whatever the tree's size.
Objects arrive in any order, so a group that is only named so far exists with `spec` None.

available  pods that count for the quorum: waiting ungated, bound, succeeded
running    pods that count for the minimum: bound (or decided to be), succeeded
quorate    leaf: available >= minimum; composite: at least minimum children are quorate
standing   leaf: running >= minimum; composite: at least minimum children are standing
priorities how many of the subtree's pods, neither done nor on their way out, have which priority
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
    """A pod of ours or of others.

    `node` is the name of the node it takes room on, empty for none; `row` is that node's, -1 while
    the node is not known.
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
        """What it is queued under where it belongs to no group."""
        return (SINGLE_POD, self.info.namespace, self.info.name)

    @property
    def ended(self) -> bool:
        return self.info.phase in ("Succeeded", "Failed")

    @property
    def placed(self) -> bool:
        """Bound, or decided and on its way to be."""
        return bool(self.info.node) or self.assumed

    @property
    def waiting(self) -> bool:
        """Ours to place, now."""
        info = self.info
        blocked = info.gated or info.terminating or self.ended
        return info.ours and not self.placed and not blocked

    @property
    def running(self) -> bool:
        """Counts for its group's minimum: bound and alive, or done and still there."""
        info = self.info
        if info.terminating or info.phase == "Failed":
            return False
        return self.placed or info.phase == "Succeeded"

    @property
    def priority(self) -> int:
        return self.info.priority

    @property
    def order(self) -> tuple[int, str, str, str]:
        """Within a group: priority, then creation, then name."""
        info = self.info
        return (-info.priority, info.created, info.namespace, info.name)


class Group:
    """A node of the forest: a PodGroup with pods or a CompositePodGroup with children."""

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
        """The minCount or minGroupCount; None while the object or its policy is not there."""
        return self.spec.minimum if self.spec is not None else None

    @property
    def topology(self) -> Topology | None:
        """What confines the subtree, as far as the object says so."""
        return self.spec.topology if self.spec is not None else None

    @property
    def known(self) -> bool:
        return self.minimum is not None

    @property
    def incomplete(self) -> bool:
        """Part of it runs, but less than its minimum: a disruption or an unfinished binding."""
        return self.running_total > 0 and not self.standing

    @property
    def top(self) -> Group:
        """The topmost group that is known by name; a root only if nothing above is missing."""
        group = self
        while group.parent is not None:
            group = group.parent
        return group

    @property
    def priority(self) -> int:
        """The spec's; where nobody resolved it, the least of its members'."""
        if self.spec is not None and self.spec.priority is not None:
            return self.spec.priority
        return min(self.priorities, default=0)

    def children_in_order(self) -> list[Group]:
        """Children by creation, then name."""
        return sorted(self.children.values(), key=_by_creation)

    def walk(self) -> Iterator[Group]:
        """The subtree, parents before children, children by creation, then name."""
        stack = [self]
        while stack:
            group = stack.pop()
            yield group
            stack.extend(reversed(group.children_in_order()))

    def leaves(self) -> Iterator[Group]:
        return (group for group in self.walk() if not group.composite)


@dataclass(frozen=True, slots=True)
class NotReady:
    """Why a group is not tried, and at which group the fault lies."""

    at: Group
    message: str
    needed: int = 0
    present: int = 0


class Forest:
    """All groups. `visited` counts the groups that updates walked over (what an event costs)."""

    def __init__(self) -> None:
        self.groups: dict[GroupKey, Group] = {}
        self.visited = 0
        self._cyclic: set[GroupKey] = set()

    def group(self, key: GroupKey) -> Group:
        """The group of that key, made where only others name it so far."""
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
            self._open_rings()
        self._settle(group)
        return group

    def remove_spec(self, key: GroupKey) -> Group | None:
        """The object is gone; pods or children that still name it keep its place."""
        group = self.groups.get(key)
        if group is None or group.spec is None:
            return None
        self._unlink(group)
        group.spec = None
        self._settle(group)
        self.prune(group)
        self._open_rings()
        return group

    def prune(self, group: Group) -> None:
        """Forget a group that nobody names any more."""
        if group.spec is None and not group.members and not group.children:
            self.groups.pop(group.key, None)
            self._cyclic.discard(group.key)

    def count(self, group: Group, pod: Pod, sign: int) -> None:
        """Add (+1) or take off (-1) a pod as it is now. Costs one step per ancestor."""
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
        """Why this topmost group may not be tried; None if it is a root with its quorum."""
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
        """Whether `not_ready` finds nothing, without looking for what to say."""
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
            # A link would close a ring, and a ring has no root to walk up to.
            self._cyclic.add(group.key)
            return
        group.parent = parent
        parent.children[group.key] = group
        self._credit(group, 1)

    def _open_rings(self) -> None:
        """Link what closed a ring that may be none any more."""
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
        """Let the new parent's chain know of all the subtree has, or the old one's forget it."""
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
        """Add to what the chain knows of its pods; there are few different priorities."""
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
        """Bring the two flags up to date, up the chain as long as one flips."""
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
    """The label keys that confine the group from above, the outermost first, without `key`."""
    keys: dict[str, None] = {}
    above = group.parent
    while above is not None:
        if above.topology is not None and above.topology.key != key:
            keys.setdefault(above.topology.key)
        above = above.parent
    return tuple(reversed(keys))


def topology_keys_around(group: Group | None, key: str) -> tuple[str, ...]:
    """The outer keys of the constraint on `key` that the group is under."""
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
