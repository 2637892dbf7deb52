"""Shapes: pods with equal requirements are one thing, placed by arithmetic and not one by one."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from scheduler.core.domain_quotas import Bounds
from scheduler.core.model import Requirements, Term
from scheduler.core.node_classes import NodeClass
from scheduler.core.node_table import PODS, Bools, Columns, Ints
from scheduler.core.plugins import node_affinity as filters
from scheduler.core.plugins import node_ports as ports
from scheduler.core.plugins.inter_pod_affinity import Codes, Company
from scheduler.core.plugins.preferred_scores import Leanings
from scheduler.core.pod_selectors import UNMARKED, Marks, Relations, Tally

_OK: Final = 0
_ATTRACTION: Final = 2000
_DISLIKE: Final = 3000

_SCALE: Final = 1000
"""Utilisation is counted in thousandths, so that scores stay integers."""


class Shape:
    """Interned requirements and marks with what follows from them, cached per node generation.

    `request` is (R,) with the resources known when the shape was met; later ones are zero.
    `demands` are the same as (resource, amount), `sizes` those of them that are amounts of
    something, host ports aside. `sees`: the tallies that decide where it may go, `weighs`: those
    that decide where it likes to. `leaning`: it needs pods of another shape beside it, so those go
    first. `pods` have this shape, `waiting` of them are still to be placed.
    """

    __slots__ = (
        "_codes", "_codes_generation", "_company", "_leanings", "_likes", "_likes_generation",
        "_slots", "_slots_basis", "_slots_stamp", "_slots_version", "_social", "_social_version",
        "_step", "_usage_stamp", "_used", "_verdicts", "_verdicts_epoch", "demands",
        "index", "leaning", "marks", "pods", "reasons", "request", "requirements", "sees", "sizes",
        "waiting", "weighed", "weighs",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        requirements: Requirements,
        marks: Marks,
        *,
        columns: Columns,
        company: Company,
        leanings: Leanings,
    ) -> None:
        self.index = index
        self.requirements = requirements
        self.marks = marks
        self.pods = 0
        self.waiting = 0
        self.sizes: tuple[tuple[int, int], ...] = tuple(
            (columns.resource(name), amount)
            for name, amount in ((PODS, 1), *requirements.requests)
            if amount > 0
        )
        held = ports.demands(requirements.ports)
        self.demands = self.sizes + tuple((columns.resource(n), a) for n, a in held.items())
        self.request: Ints = np.zeros(len(columns.resources), np.int64)
        for resource, amount in self.demands:
            self.request[resource] = amount
        self.reasons: list[str] = ["", "no node", filters.NODE_NAME, filters.AFFINITY]
        self._verdicts: list[int] = []
        self._verdicts_epoch = columns.classes.epoch
        pods = columns.resources[PODS]
        self.weighed = [(r, a) for r, a in self.sizes if r != pods] or list(self.sizes)
        """What tells full from empty: the resources asked for, the pod count only if none is."""
        self._company = company
        self._leanings = leanings
        self.rest()
        self.sees = company.sees(self)
        self.weighs = leanings.weighs(self)
        self.leaning = company.leans(self)

    def rest(self) -> None:
        """Let go of what was computed per node: no pod of the shape waits."""
        self._codes: npt.NDArray[np.int16] = np.zeros(0, np.int16)
        self._codes_generation = -1
        self._slots: Ints = np.zeros(0, np.int64)
        self._slots_version = -1
        self._slots_basis = (-1, -1)
        self._slots_stamp = -1
        self._used: Ints = np.zeros(0, np.int64)
        self._step: Ints = np.zeros(0, np.int64)
        self._usage_stamp = -1
        self._social: Codes = np.zeros(0, np.int16)
        self._social_version = -1
        self._likes: tuple[Ints, Ints] | None = None
        self._likes_generation = -1

    @property
    def sociable(self) -> bool:
        """Whether pods of this shape stand in each other's way or need each other."""
        return bool(self.sees.intersection(self.marks.counted))

    @property
    def minded(self) -> bool:
        """Whether where one pod of this shape is makes a difference to the next."""
        return self.sociable or bool(self.weighs.intersection(self.marks.counted))

    def bounds(self, *, wishes: bool) -> Bounds:
        """How far the next pods of the shape get at once; `wishes`: and what they would like."""
        company = self._company
        liked = self._leanings.wishes(self) if wishes and self.weighs else []
        return Bounds.of(
            company.limits(self), company.evens(self), liked, single=company.one_at_a_time(self)
        )

    def social(self, columns: Columns) -> Codes:
        """Per node (N,) the index into `reasons` of what other pods or volumes are against it."""
        if self._social_version != columns.version:
            self._social = self._company.judge(self)
            self._social_version = columns.version
        return self._social

    def liking(self, columns: Columns, rows: Ints) -> Ints | None:
        """How much each of the rows is preferred, in thousandths of its use; None: all alike.

        Weighted as by kube-scheduler: soft taints three times, all other preferences twice as
        much as the use of the node.
        """
        if self._likes_generation != columns.generation:
            self._likes = self._like(columns)
            self._likes_generation = columns.generation
        liking = self._leanings.score(self, rows) if self.weighs else None
        if self._likes is not None and len(rows):
            attraction, dislike = (likes[rows] for likes in self._likes)
            most, worst = max(1, int(attraction.max())), max(1, int(dislike.max()))
            own = attraction * _ATTRACTION // most - dislike * _DISLIKE // worst
            liking = own if liking is None else liking + own
        return liking

    def _like(self, columns: Columns) -> tuple[Ints, Ints] | None:
        """Per node (N,) the weights that attract to it, and the taints disliked; None: nothing."""
        wants = self.requirements
        attraction = np.zeros(columns.size, np.int64)
        for weight, term in wants.preferences:
            attraction += weight * self._meets(columns, term)
        table = np.array([*(filters.disliked(wants, c) for c in columns.classes.all), 0], np.int64)
        dislike: Ints = table[columns.node_class[: columns.size]]
        return (attraction, dislike) if attraction.any() or dislike.any() else None

    def included(self, columns: Columns, *, affinity: bool, taints: bool) -> Bools:
        """Nodes (N,) over which it spreads: all, or those its affinity or tolerations admit."""
        included = columns.node_class[: columns.size] >= 0
        wants = self.requirements
        if taints:
            included &= _by_class(columns, lambda c: filters.untolerated(wants, c) is None)
        if affinity:
            included &= _by_class(columns, lambda c: filters.attracted(wants, c))
            if filters.named(wants):
                included &= self._named(columns)
        return included

    def codes(self, columns: Columns) -> npt.NDArray[np.int16]:
        """Per node (N,) the index into `reasons` of what keeps the shape out; 0 if nothing does."""
        if self._codes_generation != columns.generation:
            self._codes = self._judge(columns)
            self._codes_generation = columns.generation
        return self._codes

    def permitted(self, columns: Columns) -> Bools:
        """Per node (N,) whether the shape may run there, room aside."""
        permitted: Bools = self.codes(columns) == _OK
        return permitted

    def slots(self, columns: Columns) -> Ints:
        """How many pods of this shape each node (N,) has room for. Shared: do not write to it."""
        if self._slots_version != columns.version:
            self._slots = self._count_slots(columns)
            if self.sees:
                self._slots = np.where(self.social(columns) == _OK, self._slots, 0)
            self._slots_version = columns.version
        return self._slots

    def _count_slots(self, columns: Columns) -> Ints:
        """Anew, or where that suffices only on the rows that changed since the last time."""
        basis, before = (columns.generation, columns.size), self._slots_stamp
        self._slots_stamp = columns.stamp
        if not self.sees and self._slots_basis == basis:
            rows = columns.changed_since(before)
            if len(rows) * 8 < columns.size:
                slots = self._slots.copy()  # callers may still look at the old one
                slots[rows] = self._room_at(columns, rows)
                return slots
        self._slots_basis = basis
        return self.room(columns, columns.free)

    def usage(self, columns: Columns) -> tuple[Ints, Ints]:
        """Mean use of the resources asked for, and what one pod adds, per node in thousandths.

        Both (N,), shared: do not write to them.
        """
        if len(self._used) != columns.size:
            self._used = np.zeros(columns.size, np.int64)
            self._step = np.zeros(columns.size, np.int64)
            self._usage_stamp = -1
        rows = columns.changed_since(self._usage_stamp)
        if len(rows):
            self._used[rows], self._step[rows] = self.usage_at(columns, rows)
        self._usage_stamp = columns.stamp
        return self._used, self._step

    def usage_at(self, columns: Columns, rows: Ints) -> tuple[Ints, Ints]:
        """The same for some nodes only, (len(rows),)."""
        used = np.zeros(len(rows), np.int64)
        step = np.zeros(len(rows), np.int64)
        for resource, amount in self.weighed:
            # A node without the resource takes no such pod; what it reads here is nobody's use.
            whole = np.maximum(columns.allocatable[resource][rows], 1)
            used += (whole - columns.free[resource][rows]) * _SCALE // whole
            step += amount * _SCALE // whole
        return used // len(self.weighed), np.maximum(step // len(self.weighed), 1)

    def slots_in(self, columns: Columns, region: Ints) -> Ints:
        """The same for the nodes of a region only, (len(region),); cheap for small regions."""
        if self._slots_version == columns.version:
            return self._slots[region]
        counts = self._room_at(columns, region)
        if self.sees:
            counts[self.social(columns)[region] != _OK] = 0
        return counts

    def _room_at(self, columns: Columns, region: Ints) -> Ints:
        counts: Ints | None = None
        for resource, amount in self.demands:
            fits = columns.free[resource][region] // amount
            counts = fits if counts is None else np.minimum(counts, fits)
        if counts is None:
            raise AssertionError("a pod requests at least itself")
        counts[(counts < 0) | (self.codes(columns)[region] != _OK)] = 0
        return counts

    def outlook(self, columns: Columns, region: Ints | None) -> Ints:
        """Slots as they may be once the pods that it leans on are there."""
        if self.leaning:
            room = self.room(columns, columns.free)
            return room if region is None else room[region]
        return self.slots(columns) if region is None else self.slots_in(columns, region)

    def start(self, rows: Ints, room: Ints, count: int) -> int:
        """Which of the rows, best first with `room` (len(rows),) each, is to take the first pod."""
        return self._company.start(self, rows, room, count)

    def most(self, room: Ints) -> int:
        """Pods of the shape that fit at most, where each node (N,) has this much room."""
        return self._company.most(self, room)

    def room(self, columns: Columns, free: Ints) -> Ints:
        """Slots per node (N,) if `free` (R, capacity) were what is free, whoever else is there."""
        size = columns.size
        counts: Ints | None = None
        for resource, amount in self.demands:
            fits = free[resource, :size] // amount
            counts = fits if counts is None else np.minimum(counts, fits, out=counts)
        if counts is None:
            raise AssertionError("a pod requests at least itself")
        counts[(counts < 0) | ~self.permitted(columns)] = 0
        return counts

    def _judge(self, columns: Columns) -> npt.NDArray[np.int16]:
        if self._verdicts_epoch != columns.classes.epoch:
            self._verdicts_epoch = columns.classes.epoch
            self._verdicts.clear()
        for node_class in columns.classes.all[len(self._verdicts) :]:
            self._verdicts.append(self.code(filters.refusal(self.requirements, node_class)))
        # Vacant columns have class -1 and so read the last entry.
        table = np.array([*self._verdicts, self.code("no node")], np.int16)
        codes: npt.NDArray[np.int16] = table[columns.node_class[: columns.size]]
        wanted = self.requirements.node_name
        if wanted:
            self._rule_out(codes, self._rows(columns, (wanted,)), filters.NODE_NAME)
        if filters.named(self.requirements):
            self._rule_out(codes, self._named(columns), filters.AFFINITY)
        return codes

    def code(self, reason: str) -> int:
        """The reason's index in `reasons`."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason)

    def _rule_out(self, codes: npt.NDArray[np.int16], keep: Bools, reason: str) -> None:
        codes[(codes == _OK) & ~keep] = self.code(reason)

    def _rows(self, columns: Columns, names: tuple[str, ...]) -> Bools:
        rows = [columns.row_of[name] for name in names if name in columns.row_of]
        mask = np.zeros(columns.size, np.bool_)
        mask[rows] = True
        return mask

    def _named(self, columns: Columns) -> Bools:
        """Nodes that meet one of the terms, where terms may name nodes."""
        some = np.zeros(columns.size, np.bool_)
        for term in self.requirements.affinity or ():
            some |= self._meets(columns, term)
        return some

    def _meets(self, columns: Columns, term: Term) -> Bools:
        mask = _by_class(columns, lambda c: filters.matches(term, c.labels))
        for entry in term.fields:
            mask &= self._field(columns, entry.key, entry.operator, entry.values)
        return mask

    def _field(self, columns: Columns, key: str, operator: str, values: tuple[str, ...]) -> Bools:
        if key != "metadata.name" or operator not in ("In", "NotIn"):
            return np.zeros(columns.size, np.bool_)  # as upstream: any other field matches nothing
        rows = self._rows(columns, values)
        return rows if operator == "In" else ~rows


class Shapes:
    """The registry; equal requirements and marks give the same Shape object.

    A shape is forgotten by the first `sweep` that finds no pod of it; its index is given again.
    """

    def __init__(
        self, columns: Columns, relations: Relations, company: Company, leanings: Leanings
    ) -> None:
        self._columns = columns
        self._relations = relations
        self._company = company
        self._leanings = leanings
        self._known: dict[tuple[Requirements, Marks], Shape] = {}
        self._vacant: list[int] = []
        self._idle: dict[Shape, None] = {}

    @property
    def idle(self) -> bool:
        """Whether there may be anything to free."""
        return bool(self._idle)

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Shape]:
        """By index."""
        return iter(sorted(self._known.values(), key=lambda shape: shape.index))

    def intern(self, requirements: Requirements, marks: Marks = UNMARKED) -> Shape:
        """The shape of these requirements; the labels they ask for become class labels."""
        shape = self._known.get((requirements, marks))
        if shape is None:
            self._relations.register(requirements)
            self._relations.retain(requirements)
            index = heapq.heappop(self._vacant) if self._vacant else len(self._known)
            shape = Shape(
                index,
                requirements,
                marks,
                columns=self._columns,
                company=self._company,
                leanings=self._leanings,
            )
            self._known[requirements, marks] = shape
            self._idle[shape] = None
            for key in _labels_of(requirements):
                self._columns.watch_label(key)
        return shape

    def count(self, shape: Shape, pods: int, waiting: int) -> None:
        """So many pods more, and so many more that wait, have the shape; negative: fewer."""
        shape.pods += pods
        shape.waiting += waiting
        if not shape.waiting:
            self._idle[shape] = None

    def sweep(self, kept: Collection[Shape] = ()) -> list[Tally]:
        """Free what no pod uses any more; the tallies that ended. Costs what changed.

        Shapes that are `kept` stay, with all that belongs to them.
        """
        ended: list[Tally] = []
        idle, self._idle = self._idle, {}
        for shape in idle:
            if shape in kept and not shape.pods:
                self._idle[shape] = None
            elif not shape.pods:
                del self._known[shape.requirements, shape.marks]
                heapq.heappush(self._vacant, shape.index)
                ended += self._relations.release(shape.requirements)
            elif not shape.waiting:
                shape.rest()
        return ended


def _by_class(columns: Columns, test: Callable[[NodeClass], bool]) -> Bools:
    """The test's answer for each node (N,); False for vacant columns."""
    answers = np.array([*map(test, columns.classes.all), False], np.bool_)
    chosen: Bools = answers[columns.node_class[: columns.size]]
    return chosen


def _labels_of(requirements: Requirements) -> set[str]:
    keys = {key for key, _ in requirements.selector}
    for term in requirements.affinity or ():
        keys.update(expression.key for expression in term.expressions)
    for _, term in requirements.preferences:
        keys.update(expression.key for expression in term.expressions)
    return keys
