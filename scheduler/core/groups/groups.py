"""Pods and groups as the forest keeps them: their objects, their links and their counters.

available  number of pods that count for the quorum: waiting (not gated), bound, assumed, succeeded
running    number of pods that count for the minimum: bound, assumed, succeeded
settled    number of pods that are running and not assumed
quorate    leaf: available >= minimum; composite: at least minimum children are quorate
standing   leaf: running >= minimum; composite: at least minimum children are standing
bound      leaf: settled >= minimum; composite: at least minimum children are bound
failed     number of Failed pods that were bound since the group's object exists
initially_scheduled
           leaf: its minimum was bound once, including pods that failed since, however briefly;
           composite: at least minimum children are initially_scheduled
priorities number of pods in the subtree by priority, without ended and terminating pods
schedulers the same by schedulerName, of the pods that are this scheduler's
faulty     true if `tree_validation` finds a flaw in the subtree
off        true if a group of the subtree uses a feature whose gate is off

state      summary of the counters, see GROUP_STATES; empty without an object

held       pods that wait and are not decided, by kind of hold and UID; without empty tables
expected_waiting, expected_held
           number of expected pods in the subtree, which do not exist yet: without a node, and
           with one that is reserved for them. They count as available and running like others,
           but neither as settled nor as alive
leaving    number of terminating pods that have not ended
start_wait the wait for the first start, of a root with a limit for it; else None

Failed and terminating pods count for neither the quorum nor the minimum. Once a group is
initially_scheduled it stays so as long as its object exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, Literal

from scheduler.core.groups.workload_templates import WorkloadKey
from scheduler.core.pods.shapes import Shape
from scheduler.core.values.model import (
    COMPOSITE_POD_GROUP,
    SINGLE_POD,
    GroupKey,
    GroupSpec,
    HoldKind,
    PodInfo,
    plain_kind,
)

MAX_DEPTH: Final = 4
"""Levels of a tree. A link that would add a level is cut, and the group is Invalid."""

_ENDED: Final = ("Succeeded", "Failed")

GroupState = Literal["", "scheduled", "binding", "invalid", "disrupted", "pending", "incomplete"]
GROUP_STATES: Final[tuple[GroupState, ...]] = (
    "scheduled",  # its minimum is bound
    "binding",  # its minimum is bound or assumed
    "invalid",  # `tree_validation` finds a flaw
    "disrupted",  # its minimum was bound once, and has lost pods
    "pending",  # it has its quorum, and waits for capacity
    "incomplete",  # it lacks members, a feature gate is off, or it did not start in time
)
"""A group's state: the first of these that applies."""


class Pod:
    """A pod that this scheduler places, or one that another scheduler places.

    `key` is its queue key if it has no group. `node` is the name of the node whose resources it
    takes, or empty. `row` is the row of that node, -1 if there is none or it is not known.
    """

    __slots__ = ("assumed", "group", "info", "key", "node", "row", "shape")

    def __init__(self, info: PodInfo, shape: Shape, group: Group | None) -> None:
        self.key: GroupKey = (SINGLE_POD, info.namespace, info.name)
        self.info = info
        self.shape = shape
        self.group = group
        self.node = ""
        self.row = -1
        self.assumed = False

    @property
    def top(self) -> Group | Pod:
        """The topmost group of its tree, or the pod itself if it has no group."""
        return self if self.group is None else self.group.top

    @property
    def ended(self) -> bool:
        return self.info.phase in _ENDED

    @property
    def placed(self) -> bool:
        """True if the pod is bound, or assumed: a node was chosen and the Binding is under way."""
        return bool(self.info.node) or self.assumed

    @property
    def waiting(self) -> bool:
        """True if this scheduler has to place the pod now."""
        return self.counts_as()[1]

    @property
    def running(self) -> bool:
        """True if it counts for the minimum: placed or succeeded, not failed or terminating."""
        return self.counts_as()[2]

    def counts_as(self) -> tuple[bool, bool, bool]:
        """Return whether it has ended, is waiting, and is running: one call for each event."""
        info = self.info
        ended, placed = info.phase in _ENDED, bool(info.node) or self.assumed
        waiting = info.ours and not (placed or ended or info.terminating or info.hold)
        # A Job's last pods must not wait for members that are done.
        done = info.phase == "Succeeded"
        running = (placed or done) and not (info.terminating or info.phase == "Failed")
        return ended, waiting, running

    @property
    def hold(self) -> HoldKind | None:
        """Why this scheduler holds the pod instead of deciding it; None if it does not hold it."""
        info = self.info
        mine = info.ours and not (self.placed or self.ended or info.terminating)
        return info.hold if mine else None

    @property
    def failed(self) -> bool:
        """True if the pod failed after it was bound."""
        return self.info.phase == "Failed" and bool(self.info.node)

    @property
    def priority(self) -> int:
        return self.info.priority

    @property
    def order(self) -> tuple[int, str, str, str]:
        """Sort key within a group: highest priority, then oldest, then by name."""
        info = self.info
        return (-info.priority, info.created, info.namespace, info.name)


_PRIORITY: Final = attrgetter("info.priority")
_LAST_PARTS: Final = tuple(map(attrgetter, ("info.name", "info.namespace", "info.created")))


def in_order(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods sorted by `order`.

    Sorts by one part after the other, the last first. A tuple for each of 10,000 pods would start
    Python's garbage collector, which takes longer than the decision.
    """
    ordered = list(pods)
    for part in _LAST_PARTS:
        ordered.sort(key=part)
    ordered.sort(key=_PRIORITY, reverse=True)
    return ordered


@dataclass(frozen=True, slots=True)
class Traits:
    """The properties that a group must have in common with its parent.

    `below` is the template under which the Workload has the group's own template, empty if there is
    none; None if that is not known.
    """

    workload: str | None
    priority: int | None
    disruption: Literal["single", "all"]
    below: str | None


@dataclass(frozen=True, slots=True)
class StartWait:
    """The wait of a root for its first start.

    `since` is the time (RFC 3339) at which it began, and `limit` the seconds that it may take. Once
    the root was given up, `since` is the time of that, and `given_up` the message for users.
    """

    since: str
    limit: float
    given_up: str = ""


@dataclass(slots=True)
class _Below:
    """The counters of a composite's children."""

    heights: list[int] = field(default_factory=lambda: [0] * MAX_DEPTH)
    cut: dict[GroupKey, Group] = field(default_factory=dict)
    traits: Counter[Traits] = field(default_factory=Counter)
    faulty: dict[GroupKey, Group] = field(default_factory=dict)
    off: dict[GroupKey, Group] = field(default_factory=dict)


_NOTHING_BELOW: Final = _Below()


class Group:
    """A PodGroup, which has pods, or a CompositePodGroup, which has child groups.

    `minimum` is the minCount or minGroupCount, None if
    the object or its policy does not exist yet; `topology` is its own topology constraint, if any,
    `slicing` are its slices.
    `parent` is the linked parent. A group whose link would close a cycle, or make its tree deeper
    than MAX_DEPTH, is `cut_from` the parent that it names, and is in that parent's `cut_children`.
    `made_from` is the Workload that it names, or a pod of it as long as the group does not exist.
    `traits` is None while the group has no policy. `clashing` is how many of the
    `described_children`, those with traits, contradict the group's own.
    """

    __slots__ = (
        "alive", "assumed_total", "available", "bound", "bound_children", "bound_pods",
        "child_traits", "children", "clashing", "composite", "cut_children", "cut_from",
        "described_children", "expected_held", "expected_waiting", "failed", "faulty",
        "faulty_children", "foreign",
        "heights", "held", "initially_scheduled", "initially_scheduled_children", "key",
        "leaving", "made_from", "members", "minimum", "off", "off_children", "parent", "pending",
        "pending_total",
        "priorities", "quorate", "quorate_children", "running", "running_total", "schedulers",
        "settled", "size", "slicing", "spec", "standing", "standing_children", "start_wait",
        "state", "template_flaw", "topology", "traits",
    )  # fmt: skip

    def __init__(self, key: GroupKey, spec: GroupSpec | None = None) -> None:
        self.key = key
        # The kind of a group of another API ends with that.
        self.composite = key[0].startswith(COMPOSITE_POD_GROUP)
        self.set_spec(spec)
        self.made_from: WorkloadKey | None = None
        self.parent: Group | None = None
        self.children: dict[GroupKey, Group] = {}
        self.members: dict[str, Pod] = {}
        self.pending: dict[Shape, dict[str, Pod]] = {}
        self.held: dict[HoldKind, dict[str, Pod]] = {}
        self.priorities: Counter[int] = Counter()
        self.schedulers: Counter[str] = Counter()
        self.foreign = 0
        self.alive = 0
        self.bound_pods = 0
        self.available = 0
        self.running = 0
        self.settled = 0
        self.failed = 0
        self.leaving = 0
        self.size = 1
        self.pending_total = 0
        self.running_total = 0
        self.assumed_total = 0
        self.expected_waiting = self.expected_held = 0
        self.quorate_children = 0
        self.standing_children = 0
        self.bound_children = 0
        self.initially_scheduled_children = 0
        self.quorate = self.standing = self.bound = False
        self.initially_scheduled = False
        self.cut_from: Group | None = None
        self.traits: Traits | None = None
        # Only composites have children; the many PodGroups share empty containers.
        below = _Below() if self.composite else _NOTHING_BELOW
        self.heights = below.heights
        self.cut_children = below.cut
        self.child_traits = below.traits
        self.faulty_children = below.faulty
        self.off_children = below.off
        self.described_children = 0
        self.clashing = 0
        self.template_flaw = ""
        self.faulty = self.off = False
        self.state: GroupState = ""
        self.start_wait: StartWait | None = None

    def set_spec(self, spec: GroupSpec | None) -> GroupSpec | None:
        """Set the spec, and return the one before."""
        before = getattr(self, "spec", None)
        self.spec = spec
        self.minimum = spec.minimum if spec is not None else None
        self.topology = spec.topology if spec is not None else None
        self.slicing = spec.slicing if spec is not None else None
        return before

    def __repr__(self) -> str:
        return f"Group({'/'.join(self.key)})"

    @property
    def name(self) -> str:
        return self.key[2]

    @property
    def kind(self) -> str:
        """The kind of the key, without its API."""
        return plain_kind(self.key[0])

    @property
    def phrase(self) -> str:
        """The kind and name of the group, for messages."""
        return f'{self.kind} "{self.name}"'

    @property
    def known(self) -> bool:
        return self.minimum is not None

    @property
    def switched_off(self) -> bool:
        """True if the group may not be decided as a root, because a feature gate is off."""
        if self.off:
            return True
        # A group that was scheduled before the gate was turned off continues.
        return self.spec is not None and self.spec.maker_off != "" and not self.initially_scheduled

    @property
    def given_up(self) -> bool:
        """True if the root did not start in time, and is not tried until somebody acts."""
        return self.start_wait is not None and self.start_wait.given_up != ""

    @property
    def awaits_start(self) -> bool:
        """True if the group is a root with a limit for its first start that counts now."""
        spec = self.spec
        if spec is None or not spec.start_within or self.parent is not None:
            return False
        if self.initially_scheduled or not self.quorate or self.faulty or self.switched_off:
            return False
        # Places that are held before the first pod have a limit of their own.
        return (self.to_be_decided or self.running_total > 0) and not self.only_reserves

    @property
    def incomplete(self) -> bool:
        """True if it runs below its minimum, after a disruption or an incomplete binding."""
        return self.running_total > 0 and not self.standing

    @property
    def to_be_decided(self) -> bool:
        """True if pods wait for a node. Expected ones count while some that exist wait or run."""
        if self.pending_total > self.expected_waiting:
            return True
        # A group of expected pods alone would reserve capacity that may never be used.
        reserves = self.spec is not None and self.spec.reserves
        return self.expected_waiting > 0 and (reserves or self.running_total > self.expected_held)

    @property
    def only_reserves(self) -> bool:
        """True if places are held for it, or are to be, and none of its pods waits or runs."""
        return (
            self.spec is not None
            and self.spec.reserves
            and self.pending_total == self.expected_waiting
            and self.running_total == self.expected_held
        )

    def held_by(self, kind: HoldKind) -> Mapping[str, Pod]:
        """Return the pods with this kind of hold, by UID."""
        return self.held.get(kind, {})

    @property
    def level(self) -> int:
        """1 for the topmost group, one more for each linked parent; at most MAX_DEPTH."""
        level, group = 1, self
        while group.parent is not None:
            level, group = level + 1, group.parent
        return level

    @property
    def height(self) -> int:
        """Number of levels of the subtree, 1 without children; at most MAX_DEPTH."""
        for below in range(MAX_DEPTH - 1, 0, -1):
            if self.heights[below]:
                return below + 1
        return 1

    @property
    def top(self) -> Group:
        """The topmost ancestor, or the group itself. Not a root if its object does not exist."""
        group = self
        while group.parent is not None:
            group = group.parent
        return group

    @property
    def priority(self) -> int:
        """The lowest of the spec's priority and the pods', 0 if there are none.

        If Muster created the group, the pods' priority counts, if there are any. Their template may
        name another PriorityClass by now, or its class may have another value.
        """
        own = self.spec.priority if self.spec is not None else None
        least = min(self.priorities, default=None)
        # A priority of 0 is valid, so test for None.
        if own is None or least is None:
            return own or least or 0
        return least if self.created_by_muster else min(own, least)

    @property
    def created_by_muster(self) -> bool:
        """True if Muster created it, for an owner or for pods.

        For the rules of a group of Kubernetes' own, it does not matter who created it.
        """
        return self.spec is not None and self.spec.owner is not None and not self.spec.shared

    @property
    def of_others(self) -> bool:
        """True for a shared group that no pod of this scheduler shows to be this scheduler's."""
        return self.spec is not None and self.spec.shared and not self.top.schedulers

    @property
    def has_foreign_pods(self) -> bool:
        """True if its tree has pods of another scheduler. Visits the leaves of the tree."""
        return any(leaf.foreign for leaf in self.top.leaves())

    @property
    def scheduler(self) -> str:
        """The schedulerName of its pods; any of them if they differ, empty without pods."""
        return next(iter(self.schedulers), "")

    def children_in_order(self) -> list[Group]:
        """Return the children, oldest first, then by name."""
        return sorted(self.children.values(), key=by_creation)

    def walk(self) -> Iterator[Group]:
        """Yield the subtree's groups, parents first, siblings in the order of children_in_order."""
        stack = [self]
        while stack:
            group = stack.pop()
            yield group
            if group.children:
                # A stack returns the last one first.
                stack.extend(reversed(group.children_in_order()))

    def subtree(self) -> Iterator[Group]:
        """Yield the groups of the subtree, parents before children, siblings in any order."""
        stack = [self]
        while stack:
            group = stack.pop()
            yield group
            stack.extend(group.children.values())

    def leaves(self) -> Iterator[Group]:
        """Return the PodGroups of the subtree, in the order of walk."""
        if not self.composite:
            return iter((self,))
        return (group for group in self.walk() if not group.composite)


def by_creation(group: Group) -> tuple[str, str, str]:
    """Return the sort key of siblings: oldest first, then by name."""
    return (group.spec.created if group.spec else "", group.key[2], group.key[0])


def outer_topology_keys(group: Group, key: str) -> tuple[str, ...]:
    """Return the topology keys of the group's ancestors, the outermost first, without `key`."""
    keys: dict[str, None] = {}
    above = group.parent
    while above is not None:
        if above.topology is not None and above.topology.key != key:
            keys.setdefault(above.topology.key)
        above = above.parent
    return tuple(reversed(keys))


def slice_topology_keys(group: Group, key: str) -> tuple[str, ...]:
    """Return the keys around the domains of the group's slices, the outermost first."""
    own = () if group.topology is None or group.topology.key == key else (group.topology.key,)
    return (*(it for it in outer_topology_keys(group, key) if it not in own), *own)


def topology_keys_around(group: Group | None, key: str) -> tuple[str, ...]:
    """Return the outer keys of the nearest constraint on `key`, of the group or an ancestor."""
    if group is not None and group.slicing is not None and group.slicing.key == key:
        return slice_topology_keys(group, key)
    while group is not None and (group.topology is None or group.topology.key != key):
        group = group.parent
    return () if group is None else outer_topology_keys(group, key)
