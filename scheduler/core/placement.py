"""`place`: where the pods of one root go, or why they go nowhere.

Floors first over the whole tree, extras only then, so that nothing optional can take what a floor
needs. All of it happens in one trial on the columns that is always undone: the answer is a value,
and the same state gives the same answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from scheduler.core import layout
from scheduler.core.columns import Ints
from scheduler.core.exhaust import exhaust
from scheduler.core.fit import Profile, choose, choose_some
from scheduler.core.forest import Group, Pod
from scheduler.core.regions import Confined, Demand, Regions
from scheduler.core.shapes import Shape
from scheduler.core.shortage import Shortage
from scheduler.core.state import State
from scheduler.core.values import SINGLE_POD, GroupKey, GroupSpec


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Budget:
    """How hard to search: `steps` are fills of one leaf; `expired` may end the search earlier.

    `exhaust` are pods tried one by one where unequal pods do not fit the simple way.
    """

    steps: int = 500
    exhaust: int = 2000
    profile: Profile = "pack"
    expired: Callable[[], bool] = _never


@dataclass(frozen=True, slots=True)
class Placement:
    """`pods[i]` goes to node row `rows[i]`; the first `floors` pods are those the floors need."""

    root: GroupKey
    pods: tuple[Pod, ...]
    rows: tuple[int, ...]
    floors: int
    steps: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """The root cannot be placed now: what is short, and the shapes whose slots could help."""

    root: GroupKey
    shortage: Shortage
    shapes: frozenset[Shape]
    steps: int = 0


@dataclass(frozen=True, slots=True)
class _Run:
    group: Group
    shape: Shape
    rows: Ints
    counts: Ints


def place(
    state: State,
    root: Group | Pod,
    budget: Budget,
    *,
    region: Ints | None = None,
    extras: bool = True,
) -> Placement | Refusal:
    """Decide one root: a topmost group with its quorum, or a single pod. Changes nothing.

    `region` confines it to some nodes; without `extras` only what its floors need is placed.
    Places held for roots of its priority or a higher one are not free to it.
    """
    group = root if isinstance(root, Group) else _alone(root)
    flaw = layout.check(group)
    if flaw is not None:
        shortage = Shortage("invalid", flaw.at.key, flaw.message, resolvable=False)
        return Refusal(group.key, shortage, frozenset())
    priority = root.priority if isinstance(root, Group) else root.info.priority
    with state.columns.trial(), state.holds.respected(group.key, priority):
        search = _Search(state, budget)
        shortage_or_none = search.floors(group, region)
        if shortage_or_none is not None:
            return Refusal(group.key, shortage_or_none, _shapes(group), search.steps)
        floors = search.total
        if extras:
            search.extras(group)
        if not search.total:
            return Refusal(group.key, search.left_over(group), _shapes(group), search.steps)
        return _placement(group, search, floors)


def _alone(pod: Pod) -> Group:
    """A group of its own for a pod that belongs to none."""
    group = Group((SINGLE_POD, pod.info.namespace, pod.info.name))
    group.spec = GroupSpec(group.key, floor=1, gang=False, created=pod.info.created)
    group.pending = {pod.shape: {pod.info.uid: pod}}
    group.available = group.pending_total = 1
    group.quorate = True
    return group


def _shapes(group: Group) -> frozenset[Shape]:
    return frozenset(shape for leaf in group.leaves() for shape in leaf.pending)


def _leans(group: Group) -> bool:
    """Whether pods of the subtree need others beside them."""
    return any(shape.leaning for leaf in group.leaves() for shape in leaf.pending)


def _placement(root: Group, search: _Search, floors: int) -> Placement:
    """Give the chosen places to pods: within a shape by priority, creation and name."""
    queues: dict[tuple[Group, Shape], Iterator[Pod]] = {}
    pods: list[Pod] = []
    rows: list[int] = []
    for run in search.log:
        key = (run.group, run.shape)
        if key not in queues:
            waiting = run.group.pending[run.shape].values()
            queues[key] = iter(sorted(waiting, key=lambda pod: pod.order))
        targets = np.repeat(run.rows, run.counts).tolist()
        pods.extend(islice(queues[key], len(targets)))
        rows.extend(targets)
    return Placement(root.key, tuple(pods), tuple(rows), floors, search.steps)


class _Search:
    """One attempt at one root. What it takes is in `log` and in the columns' open trial."""

    def __init__(self, state: State, budget: Budget) -> None:
        self.columns = state.columns
        self._company = state.company
        self._topologies = state.topologies
        self.budget = budget
        self.log: list[_Run] = []
        self.steps = 0
        self.total = 0
        self._taken: Counter[tuple[Group, Shape]] = Counter()
        self._regions = Regions(state)
        self._chosen: dict[Group, Ints | None] = {}

    def floors(self, group: Group, region: Ints | None) -> Shortage | None:
        """Place what the subtree needs to stand, inside the region; all of it or nothing."""
        if group.composite:
            return self._confined(group, region, self._least(group), self._children)
        need = (group.floor or 0) - group.running
        if need <= 0:
            return self._confined(group, region, {}, lambda *_: None)
        if group.available < (group.floor or 0):
            waiting = group.available - group.running
            return Shortage("quorum", group.key, "", need, waiting, resolvable=False)
        shortage: Shortage | None = None
        for demand in self._demands(group, need):

            def fill(group: Group, inner: Ints | None, demand: Demand = demand) -> Shortage | None:
                return self._fill(group, demand, inner)

            again = self._confined(group, region, demand, fill)
            if again is None:
                return None
            shortage = shortage or again
        return shortage

    def extras(self, group: Group) -> None:
        """Place what may come beyond the floors, as long as there is room."""
        region = self._chosen[group]
        if not group.composite:
            self._extra_pods(group, region)
            return
        children = [c for c in group.offspring() if c.quorate]
        for child in children:
            if child not in self._chosen and child.known:
                self.floors(child, region)
        for child in children:
            if child in self._chosen:
                self.extras(child)

    def left_over(self, group: Group) -> Shortage:
        """Why nothing at all was placed although the root stands: no room for an extra."""
        for leaf in group.leaves():
            for shape, pods in leaf.pending.items():
                return self._short(leaf, shape, len(pods), self._chosen.get(leaf), floor=False)
        return Shortage("quorum", group.key, "nothing is waiting")

    def _confined(
        self,
        group: Group,
        region: Ints | None,
        demand: Demand,
        work: Callable[[Group, Ints | None], Shortage | None],
    ) -> Shortage | None:
        """Try `work` in each part of the region the group's topology allows, best first."""
        confined = self._regions.confine(group, region, demand)
        if isinstance(confined, Shortage):
            return confined
        first: Shortage | None = None
        for inner in confined:
            mark = self._mark()
            self._chosen[group] = inner.rows
            shortage = work(group, inner.rows)
            if shortage is None:
                return None
            self._undo(mark)
            first = first or _inside(shortage, inner)
            if self._exhausted():
                break
        if first is None:
            raise AssertionError("confine offers one region at least, or says why not")
        return first

    def _children(self, group: Group, region: Ints | None) -> Shortage | None:
        """Place the floors of as many children as the composite lacks."""
        needed = (group.floor or 0) - group.standing_children
        order = self._by_promise(group, region)
        if len(order) < needed:
            return Shortage("quorum", group.key, "", needed, len(order), resolvable=False)
        shortage: Shortage | None = None
        promoted: set[Group] = set()
        demoted: set[Group] = set()
        while len(order) >= needed:
            mark = self._mark()
            failed, fault = self._in_order(order, needed, region)
            if failed is None:
                return None
            self._undo(mark)
            shortage = shortage or fault
            if self._exhausted():
                break
            if order[0] is failed and len(order) > 1 and failed not in demoted and _leans(failed):
                # What it leans on may be among its siblings.
                demoted.add(failed)
                order = [*order[1:], failed]
                continue
            if order[0] is failed:
                # It fails even with all the room to itself, so the others have to do.
                order = order[1:]
                continue
            if failed in promoted:
                break
            # Whoever failed for the places its siblings took chooses before them next time.
            promoted.add(failed)
            order = [failed, *(child for child in order if child is not failed)]
        return shortage

    def _in_order(
        self, order: list[Group], needed: int, region: Ints | None
    ) -> tuple[Group | None, Shortage | None]:
        """Place children in this order until `needed` stand; else the first that failed."""
        failed: Group | None = None
        fault: Shortage | None = None
        for index, child in enumerate(order):
            if needed == 0:
                break
            if needed > len(order) - index:
                return failed, fault
            shortage = self.floors(child, region)
            if shortage is None:
                needed -= 1
            elif failed is None:
                failed, fault = child, shortage
        return (None, None) if needed == 0 else (failed, fault)

    def _by_promise(self, group: Group, region: Ints | None) -> list[Group]:
        """Children to try, half-running ones first.

        If all are needed the tightest is first, if there is a choice the easiest.
        """
        waiting = [c for c in group.offspring() if c.quorate and not c.standing]
        if len(waiting) == 1:
            return waiting
        choice = len(waiting) > (group.floor or 0) - group.standing_children
        tightness = {child: self._tightness(child, region) for child in waiting}
        return sorted(
            waiting,
            key=lambda c: (not c.incomplete, _leans(c), tightness[c] if choice else -tightness[c]),
        )

    def _tightness(self, group: Group, region: Ints | None) -> int:
        """The largest share of a shape's slots that the subtree needs, in millionths."""
        shares = [0]
        for shape, count in self._least(group).items():
            slots = max(1, int(self._slots(shape, region).sum()))
            shares.append(count * 1_000_000 // slots)
        return max(shares)

    def _least(self, group: Group) -> Demand:
        """What the subtree needs in any case: nothing where there is a choice."""
        if group.standing:
            return {}
        if not group.composite:
            need = (group.floor or 0) - group.running
            counts = {shape: len(pods) for shape, pods in group.pending.items()}
            if len(counts) == 1:
                return dict.fromkeys(counts, need)
            return counts if sum(counts.values()) == need else {}
        waiting = [c for c in group.children.values() if c.quorate and not c.standing]
        if len(waiting) != (group.floor or 0) - group.standing_children:
            return {}
        total: Counter[Shape] = Counter()
        for child in waiting:
            total.update(self._least(child))
        return total

    def _demands(self, group: Group, need: int) -> Iterator[Demand]:
        """Ways to pick `need` of the waiting pods: by order, then those that find room easily."""
        counts = {shape: len(pods) for shape, pods in group.pending.items()}
        if len(counts) == 1:
            yield dict.fromkeys(counts, need)
            return
        pods = sorted(
            (pod for same in group.pending.values() for pod in same.values()),
            key=lambda pod: pod.order,
        )
        first = Counter(pod.shape for pod in pods[:need])
        yield first
        easy: dict[Shape, int] = {}
        for shape in sorted(counts, key=lambda s: -int(self._slots(s, None).sum())):
            count = min(counts[shape], need - sum(easy.values()))
            if count:
                easy[shape] = count
        if easy != first:
            yield easy

    def _fill(self, group: Group, demand: Demand, region: Ints | None) -> Shortage | None:
        """Place the demand, all or nothing: the shape with the fewest slots per pod first."""
        shortage = self._fill_within(group, demand, region)
        if shortage is None:
            return None
        for part in self._neighbourhoods(demand, region):
            if self._exhausted():
                break
            if self._fill_within(group, demand, part) is None:
                return None
        return shortage

    def _neighbourhoods(self, demand: Demand, region: Ints | None) -> Iterator[Ints]:
        """Domains in which pods that need each other may all go, roomiest last."""
        keys = sorted({term.key for shape in demand for term in shape.requirements.near})
        for key in keys:
            domains = self._topologies.domains(key)
            fits = np.ones(len(domains.values), np.bool_)
            spare = np.zeros(len(domains.values), np.int64)
            for shape, count in demand.items():
                sums = domains.sums(shape.outlook(self.columns, region), region)
                fits &= sums >= count
                spare += sums
            for code in np.argsort(spare, kind="stable").tolist():
                if fits[code]:
                    yield domains.rows(code, region)

    def _fill_within(self, group: Group, demand: Demand, region: Ints | None) -> Shortage | None:
        self.steps += 1
        ratio = {s: int(self._slots(s, region).sum()) * 1000 // n for s, n in demand.items()}
        hardest = sorted(demand, key=lambda s: (ratio[s], s.index))
        largest = sorted(demand, key=lambda s: (-max(a for _, a in s.sizes), s.index))
        profile = self.budget.profile
        other: Profile = "spread" if profile == "pack" else "pack"
        attempts = [(hardest, profile)]
        if len(demand) > 1:
            attempts += [(largest, profile), (hardest, other), (hardest[::-1], profile)]
        shortage: Shortage | None = None
        for order, how in attempts:
            # Pods that need others beside them come after those.
            shapes = sorted(order, key=lambda s: s.leaning)
            mark = self._mark()
            short = next(
                (s for s in shapes if not self._run(group, s, demand[s], region, how)), None
            )
            if short is None:
                return None
            shortage = shortage or self._short(group, short, demand[short], region)
            self._undo(mark)
        if len(demand) > 1 and self._exhaust(group, demand, region):
            return None
        return shortage

    def _exhaust(self, group: Group, demand: Demand, region: Ints | None) -> bool:
        if any(shape.requirements.undecided or shape.sees for shape in demand):
            return False
        runs = exhaust(self.columns, demand, region, self.budget.exhaust)
        for shape, rows, counts in runs or ():
            self._take(group, shape, rows, counts)
        return runs is not None

    def _run(
        self, group: Group, shape: Shape, count: int, region: Ints | None, profile: Profile
    ) -> bool:
        if shape.requirements.undecided:
            return False
        if shape.sociable:
            return self._gather(group, shape, count, region, profile) == count
        chosen = choose(self.columns, shape, count, region, profile)
        if chosen is None:
            return False
        self._take(group, shape, *chosen)
        return True

    def _gather(
        self, group: Group, shape: Shape, count: int, region: Ints | None, profile: Profile
    ) -> int:
        """Place up to `count` pods that mind each other, wave by wave; how many found a place."""
        placed = 0
        while placed < count:
            wanted = 1 if self._company.one_at_a_time(shape) else count - placed
            limits = self._company.limits(shape)
            wave = choose_some(self.columns, shape, wanted, region, profile, limits=limits)
            if wave is None:
                break
            self._take(group, shape, *wave)
            placed += int(wave[1].sum())
        return placed

    def _take(self, group: Group, shape: Shape, rows: Ints, counts: Ints) -> None:
        count = int(counts.sum())
        self.columns.take(rows, counts, shape.request, shape.marks.counted)
        self.log.append(_Run(group, shape, rows, counts))
        self._taken[group, shape] += count
        self.total += count

    def _extra_pods(self, group: Group, region: Ints | None) -> None:
        for shape, pods in sorted(group.pending.items(), key=lambda item: item[0].leaning):
            left = len(pods) - self._taken[group, shape]
            count = min(left, int(self._slots(shape, region).sum())) if left else 0
            if count and shape.sociable:
                self._gather(group, shape, count, region, self.budget.profile)
            elif count:
                self._run(group, shape, count, region, self.budget.profile)

    def _slots(self, shape: Shape, region: Ints | None) -> Ints:
        if region is None:
            return shape.slots(self.columns)
        return shape.slots_in(self.columns, region)

    def _short(
        self, group: Group, shape: Shape, needed: int, region: Ints | None, *, floor: bool = True
    ) -> Shortage:
        if shape.requirements.undecided:
            features = ", ".join(shape.requirements.undecided)
            message = f"its pods use what is not supported yet: {features}"
            return Shortage("constraint", group.key, message, needed, 0, shape, resolvable=False)
        free = int(self._slots(shape, region).sum())
        return Shortage("capacity", group.key, "", needed, free, shape, floor=floor)

    def _mark(self) -> tuple[int, int, int]:
        return (self.columns.mark(), len(self.log), len(self._chosen))

    def _undo(self, mark: tuple[int, int, int]) -> None:
        columns, log, chosen = mark
        self.columns.rollback(columns)
        for run in self.log[log:]:
            count = int(run.counts.sum())
            self._taken[run.group, run.shape] -= count
            self.total -= count
        del self.log[log:]
        while len(self._chosen) > chosen:
            self._chosen.popitem()

    def _exhausted(self) -> bool:
        return self.steps >= self.budget.steps or self.budget.expired()


def _inside(shortage: Shortage, inner: Confined) -> Shortage:
    """Name the domain in which it was short, if the group was confined to one."""
    return shortage if inner.best is None else shortage.within(inner.best, key=inner.key)
