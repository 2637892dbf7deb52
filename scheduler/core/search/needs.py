"""What groups need of a search: which pods in any case, what is equal, and the order to try it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scheduler.core.groups.forest import Group, in_order
from scheduler.core.nodes.node_table import Region
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.attempt import Attempt, Demand, needs_other_pods


@dataclass(frozen=True, slots=True)
class EqualNeed:
    """The need for `count` pods of the shape; only free resources and node filters decide."""

    shape: Shape
    count: int


def shapes_of(group: Group) -> frozenset[Shape]:
    """Return the shapes of all waiting pods in the subtree."""
    if not group.composite:
        return frozenset(group.pending)
    return frozenset(shape for leaf in group.leaves() for shape in leaf.pending)


def equal_need(group: Group) -> EqualNeed | None:
    """Return the need of a leaf that may be filled with others; None if it may not be."""
    if group.composite or group.topology is not None or len(group.pending) != 1:
        return None
    if group.slicing is not None:
        return None
    shape, pods = next(iter(group.pending.items()))
    wants = shape.requirements
    if shape.order_sensitive or shape.needs_other_pods or wants.claims or wants.unsupported:
        return None
    need = (group.minimum or 0) - group.running
    return EqualNeed(shape, need) if 0 < need <= len(pods) else None


def rank_of(leaf: Group) -> int:
    """Return the negated highest priority of the waiting pods, so that the lowest rank is first."""
    return min(pod.order[0] for pods in leaf.pending.values() for pod in pods.values())


def least(group: Group, pause: Callable[[], None] = lambda: None) -> Demand:
    """Return the pods that the minimums need in any case; none for groups with a choice."""
    if group.standing:
        return {}
    if not group.composite:
        need = (group.minimum or 0) - group.running
        counts = {shape: len(pods) for shape, pods in group.pending.items()}
        if len(counts) == 1:
            return dict.fromkeys(counts, need)
        return counts if sum(counts.values()) == need else {}
    waiting = [c for c in group.children.values() if c.quorate and not c.standing]
    if len(waiting) != (group.minimum or 0) - group.standing_children:
        return {}
    total: Counter[Shape] = Counter()
    for child in waiting:
        pause()
        total.update(least(child, pause))
    return total


class Needs:
    """The needs of groups; `attempt` counts the slots of the nodes as they are now."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def children_to_try(self, group: Group, region: Region | None) -> list[Group]:
        """Return the quorate children whose minimum is not met, in the order to try them.

        Incomplete ones come first, ones that need other pods last. If all are needed, the tightest
        comes first, otherwise the easiest.
        """
        waiting = [c for c in group.children_in_order() if c.quorate and not c.standing]
        if len(waiting) == 1:
            return waiting
        choice = len(waiting) > (group.minimum or 0) - group.standing_children
        tightness = self._tightnesses(waiting, region)
        return sorted(
            waiting,
            # Incomplete children run below their minimum and hold resources without working.
            key=lambda c: (
                not c.incomplete,
                needs_other_pods(c),
                tightness[c] if choice else -tightness[c],
            ),
        )

    def _tightnesses(self, groups: list[Group], region: Region | None) -> dict[Group, int]:
        """Return how tight each group is; 0 for those that the time does not suffice for."""
        found: dict[Group, int] = dict.fromkeys(groups, 0)
        by_need: dict[EqualNeed, int] = {}
        for number, group in enumerate(groups):
            need = equal_need(group)
            if need is not None and need in by_need:
                found[group] = by_need[need]
                continue
            if number >= self._attempt.budget.steps and self._attempt.budget.expired():
                break
            found[group] = self._tightness(group, region)
            if need is not None:
                by_need[need] = found[group]
        return found

    def _tightness(self, group: Group, region: Region | None) -> int:
        """Return the largest share of any shape's slots that the subtree needs, in millionths."""
        shares = [0]
        for shape, count in self.least(group).items():
            slots = max(1, self._attempt.slots(shape, region))
            shares.append(count * 1_000_000 // slots)
        return max(shares)

    def least(self, group: Group) -> Demand:
        """Return `least`, and give way for each child."""
        return least(group, self._attempt.budget.pause)

    def demands(self, group: Group, need: int) -> Iterator[Demand]:
        """Yield ways to pick `need` of the waiting pods: first by order, then by most slots."""
        counts = {shape: len(pods) for shape, pods in group.pending.items()}
        if len(counts) == 1:
            yield dict.fromkeys(counts, need)
            return
        pods = in_order(pod for same in group.pending.values() for pod in same.values())
        first = Counter(pod.shape for pod in pods[:need])
        yield first
        easy: dict[Shape, int] = {}
        for shape in sorted(counts, key=lambda s: -self._attempt.slots(s, None)):
            count = min(counts[shape], need - sum(easy.values()))
            if count:
                easy[shape] = count
        if easy != first:
            yield easy
