"""Shapes: pods with equal requirements are one thing, placed by arithmetic and not one by one."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from scheduler.core.domain_quotas import Quotas
from scheduler.core.model import Requirements, Term
from scheduler.core.node_classes import NodeClass
from scheduler.core.node_table import PODS, Bools, Ints, NodeTable
from scheduler.core.plugins import node_affinity as filters
from scheduler.core.plugins import node_ports as ports
from scheduler.core.plugins.inter_pod_affinity import Codes, Company
from scheduler.core.plugins.preferred_scores import Leanings
from scheduler.core.pod_selectors import UNMARKED, Marks, MatchCount, PodSelectors

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
        "_codes",
        "_codes_generation",
        "_company",
        "_leanings",
        "_likes",
        "_likes_generation",
        "_slots",
        "_slots_basis",
        "_slots_stamp",
        "_slots_version",
        "_social",
        "_social_version",
        "_step",
        "_usage_stamp",
        "_used",
        "_verdicts",
        "_verdicts_epoch",
        "demands",
        "filter_match_ids",
        "index",
        "marks",
        "needs_other_pods",
        "pods",
        "reasons",
        "request",
        "requirements",
        "score_match_ids",
        "scored_resources",
        "sizes",
        "waiting",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        requirements: Requirements,
        marks: Marks,
        *,
        nodes: NodeTable,
        company: Company,
        leanings: Leanings,
    ) -> None:
        self.index = index
        self.requirements = requirements
        self.marks = marks
        self.pods = 0
        self.waiting = 0
        self.sizes: tuple[tuple[int, int], ...] = tuple(
            (nodes.resource(name), amount)
            for name, amount in ((PODS, 1), *requirements.requests)
            if amount > 0
        )
        held = ports.demands(requirements.ports)
        self.demands = self.sizes + tuple((nodes.resource(n), a) for n, a in held.items())
        self.request: Ints = np.zeros(len(nodes.resources), np.int64)
        for resource, amount in self.demands:
            self.request[resource] = amount
        self.reasons: list[str] = ["", "no node", filters.NODE_NAME, filters.AFFINITY]
        self._verdicts: list[int] = []
        self._verdicts_epoch = nodes.classes.epoch
        pods = nodes.resources[PODS]
        self.scored_resources = [(r, a) for r, a in self.sizes if r != pods] or list(self.sizes)
        """What tells full from empty: the resources asked for, the pod count only if none is."""
        self._company = company
        self._leanings = leanings
        self.drop_caches()
        self.filter_match_ids = company.filter_match_ids(self)
        self.score_match_ids = leanings.score_match_ids(self)
        self.needs_other_pods = company.needs_other_pods(self)

    def drop_caches(self) -> None:
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
    def self_interacting(self) -> bool:
        """Whether pods of this shape stand in each other's way or need each other."""
        return bool(self.filter_match_ids.intersection(self.marks.counted))

    @property
    def order_sensitive(self) -> bool:
        """Whether where one pod of this shape is makes a difference to the next."""
        return self.self_interacting or bool(self.score_match_ids.intersection(self.marks.counted))

    def quotas(self, *, preferences: bool) -> Quotas:
        """How far the next pods of the shape get at once; `wishes`: and what they would like."""
        company = self._company
        liked = self._leanings.preferences(self) if preferences and self.score_match_ids else []
        return Quotas.of(
            company.domain_quotas(self),
            company.skew_limits(self),
            liked,
            single=company.one_at_a_time(self),
        )

    def social(self, nodes: NodeTable) -> Codes:
        """Per node (N,) the index into `reasons` of what other pods or volumes are against it."""
        if self._social_version != nodes.version:
            self._social = self._company.judge(self)
            self._social_version = nodes.version
        return self._social

    def liking(self, nodes: NodeTable, rows: Ints) -> Ints | None:
        """How much each of the rows is preferred, in thousandths of its use; None: all alike.

        Weighted as by kube-scheduler: soft taints three times, all other preferences twice as
        much as the use of the node.
        """
        if self._likes_generation != nodes.generation:
            self._likes = self._like(nodes)
            self._likes_generation = nodes.generation
        liking = self._leanings.score(self, rows) if self.score_match_ids else None
        if self._likes is not None and len(rows):
            attraction, dislike = (preferred_affinity[rows] for preferred_affinity in self._likes)
            most, worst = max(1, int(attraction.max())), max(1, int(dislike.max()))
            own = attraction * _ATTRACTION // most - dislike * _DISLIKE // worst
            liking = own if liking is None else liking + own
        return liking

    def _like(self, nodes: NodeTable) -> tuple[Ints, Ints] | None:
        """Per node (N,) the weights that attract to it, and the taints disliked; None: nothing."""
        wants = self.requirements
        attraction = np.zeros(nodes.size, np.int64)
        for weight, term in wants.preferred_node_affinity:
            attraction += weight * self._meets(nodes, term)
        table = np.array([*(filters.disliked(wants, c) for c in nodes.classes.all), 0], np.int64)
        dislike: Ints = table[nodes.node_class[: nodes.size]]
        return (attraction, dislike) if attraction.any() or dislike.any() else None

    def included(self, nodes: NodeTable, *, affinity: bool, taints: bool) -> Bools:
        """Nodes (N,) over which it spreads: all, or those its affinity or tolerations admit."""
        included = nodes.node_class[: nodes.size] >= 0
        wants = self.requirements
        if taints:
            included &= _by_class(nodes, lambda c: filters.untolerated(wants, c) is None)
        if affinity:
            included &= _by_class(nodes, lambda c: filters.attracted(wants, c))
            if filters.named(wants):
                included &= self._named(nodes)
        return included

    def codes(self, nodes: NodeTable) -> npt.NDArray[np.int16]:
        """Per node (N,) the index into `reasons` of what keeps the shape out; 0 if nothing does."""
        if self._codes_generation != nodes.generation:
            self._codes = self._judge(nodes)
            self._codes_generation = nodes.generation
        return self._codes

    def permitted(self, nodes: NodeTable) -> Bools:
        """Per node (N,) whether the shape may run there, room aside."""
        permitted: Bools = self.codes(nodes) == _OK
        return permitted

    def slots(self, nodes: NodeTable) -> Ints:
        """How many pods of this shape each node (N,) has room for. Shared: do not write to it."""
        if self._slots_version != nodes.version:
            self._slots = self._count_slots(nodes)
            if self.filter_match_ids:
                self._slots = np.where(self.social(nodes) == _OK, self._slots, 0)
            self._slots_version = nodes.version
        return self._slots

    def _count_slots(self, nodes: NodeTable) -> Ints:
        """Anew, or where that suffices only on the rows that changed since the last time."""
        basis, before = (nodes.generation, nodes.size), self._slots_stamp
        self._slots_stamp = nodes.stamp
        if not self.filter_match_ids and self._slots_basis == basis:
            rows = nodes.changed_since(before)
            if len(rows) * 8 < nodes.size:
                slots = self._slots.copy()  # callers may still look at the old one
                slots[rows] = self._room_at(nodes, rows)
                return slots
        self._slots_basis = basis
        return self.room(nodes, nodes.free)

    def usage(self, nodes: NodeTable) -> tuple[Ints, Ints]:
        """Mean use of the resources asked for, and what one pod adds, per node in thousandths.

        Both (N,), shared: do not write to them.
        """
        if len(self._used) != nodes.size:
            self._used = np.zeros(nodes.size, np.int64)
            self._step = np.zeros(nodes.size, np.int64)
            self._usage_stamp = -1
        rows = nodes.changed_since(self._usage_stamp)
        if len(rows):
            self._used[rows], self._step[rows] = self.usage_at(nodes, rows)
        self._usage_stamp = nodes.stamp
        return self._used, self._step

    def usage_at(self, nodes: NodeTable, rows: Ints) -> tuple[Ints, Ints]:
        """The same for some nodes only, (len(rows),)."""
        used = np.zeros(len(rows), np.int64)
        step = np.zeros(len(rows), np.int64)
        for resource, amount in self.scored_resources:
            # A node without the resource takes no such pod; what it reads here is nobody's use.
            whole = np.maximum(nodes.allocatable[resource][rows], 1)
            used += (whole - nodes.free[resource][rows]) * _SCALE // whole
            step += amount * _SCALE // whole
        return used // len(self.scored_resources), np.maximum(step // len(self.scored_resources), 1)

    def slots_in(self, nodes: NodeTable, region: Ints) -> Ints:
        """The same for the nodes of a region only, (len(region),); cheap for small regions."""
        if self._slots_version == nodes.version:
            return self._slots[region]
        counts = self._room_at(nodes, region)
        if self.filter_match_ids:
            counts[self.social(nodes)[region] != _OK] = 0
        return counts

    def _room_at(self, nodes: NodeTable, region: Ints) -> Ints:
        counts: Ints | None = None
        for resource, amount in self.demands:
            fits = nodes.free[resource][region] // amount
            counts = fits if counts is None else np.minimum(counts, fits)
        if counts is None:
            raise AssertionError("a pod requests at least itself")
        counts[(counts < 0) | (self.codes(nodes)[region] != _OK)] = 0
        return counts

    def optimistic_slots(self, nodes: NodeTable, region: Ints | None) -> Ints:
        """Slots as they may be once the pods that it leans on are there."""
        if self.needs_other_pods:
            room = self.room(nodes, nodes.free)
            return room if region is None else room[region]
        return self.slots(nodes) if region is None else self.slots_in(nodes, region)

    def start(self, rows: Ints, room: Ints, count: int) -> int:
        """Which of the rows, best first with `room` (len(rows),) each, is to take the first pod."""
        return self._company.start(self, rows, room, count)

    def most(self, room: Ints) -> int:
        """Pods of the shape that fit at most, where each node (N,) has this much room."""
        return self._company.most(self, room)

    def room(self, nodes: NodeTable, free: Ints) -> Ints:
        """Slots per node (N,) if `free` (R, capacity) were what is free, whoever else is there."""
        size = nodes.size
        counts: Ints | None = None
        for resource, amount in self.demands:
            fits = free[resource, :size] // amount
            counts = fits if counts is None else np.minimum(counts, fits, out=counts)
        if counts is None:
            raise AssertionError("a pod requests at least itself")
        counts[(counts < 0) | ~self.permitted(nodes)] = 0
        return counts

    def _judge(self, nodes: NodeTable) -> npt.NDArray[np.int16]:
        if self._verdicts_epoch != nodes.classes.epoch:
            self._verdicts_epoch = nodes.classes.epoch
            self._verdicts.clear()
        for node_class in nodes.classes.all[len(self._verdicts) :]:
            self._verdicts.append(self.code(filters.refusal(self.requirements, node_class)))
        # Vacant columns have class -1 and so read the last entry.
        table = np.array([*self._verdicts, self.code("no node")], np.int16)
        codes: npt.NDArray[np.int16] = table[nodes.node_class[: nodes.size]]
        wanted = self.requirements.node_name
        if wanted:
            self._rule_out(codes, self._rows(nodes, (wanted,)), filters.NODE_NAME)
        if filters.named(self.requirements):
            self._rule_out(codes, self._named(nodes), filters.AFFINITY)
        return codes

    def code(self, reason: str) -> int:
        """The reason's index in `reasons`."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason)

    def _rule_out(self, codes: npt.NDArray[np.int16], keep: Bools, reason: str) -> None:
        codes[(codes == _OK) & ~keep] = self.code(reason)

    def _rows(self, nodes: NodeTable, names: tuple[str, ...]) -> Bools:
        rows = [nodes.row_of[name] for name in names if name in nodes.row_of]
        mask = np.zeros(nodes.size, np.bool_)
        mask[rows] = True
        return mask

    def _named(self, nodes: NodeTable) -> Bools:
        """Nodes that meet one of the terms, where terms may name nodes."""
        some = np.zeros(nodes.size, np.bool_)
        for term in self.requirements.affinity or ():
            some |= self._meets(nodes, term)
        return some

    def _meets(self, nodes: NodeTable, term: Term) -> Bools:
        mask = _by_class(nodes, lambda c: filters.matches(term, c.labels))
        for entry in term.fields:
            mask &= self._field(nodes, entry.key, entry.operator, entry.values)
        return mask

    def _field(self, nodes: NodeTable, key: str, operator: str, values: tuple[str, ...]) -> Bools:
        if key != "metadata.name" or operator not in ("In", "NotIn"):
            return np.zeros(nodes.size, np.bool_)  # as upstream: any other field matches nothing
        rows = self._rows(nodes, values)
        return rows if operator == "In" else ~rows


class Shapes:
    """The registry; equal requirements and marks give the same Shape object.

    A shape is forgotten by the first `sweep` that finds no pod of it; its index is given again.
    """

    def __init__(
        self, nodes: NodeTable, selectors: PodSelectors, company: Company, leanings: Leanings
    ) -> None:
        self._nodes = nodes
        self._selectors = selectors
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
            self._selectors.register(requirements)
            self._selectors.retain(requirements)
            index = heapq.heappop(self._vacant) if self._vacant else len(self._known)
            shape = Shape(
                index,
                requirements,
                marks,
                nodes=self._nodes,
                company=self._company,
                leanings=self._leanings,
            )
            self._known[requirements, marks] = shape
            self._idle[shape] = None
            for key in _labels_of(requirements):
                self._nodes.watch_label(key)
        return shape

    def count(self, shape: Shape, pods: int, waiting: int) -> None:
        """So many pods more, and so many more that wait, have the shape; negative: fewer."""
        shape.pods += pods
        shape.waiting += waiting
        if not shape.waiting:
            self._idle[shape] = None

    def sweep(self, kept: Collection[Shape] = ()) -> list[MatchCount]:
        """Free what no pod uses any more; the tallies that ended. Costs what changed.

        Shapes that are `kept` stay, with all that belongs to them.
        """
        ended: list[MatchCount] = []
        idle, self._idle = self._idle, {}
        for shape in idle:
            if shape in kept and not shape.pods:
                self._idle[shape] = None
            elif not shape.pods:
                del self._known[shape.requirements, shape.marks]
                heapq.heappush(self._vacant, shape.index)
                ended += self._selectors.release(shape.requirements)
            elif not shape.waiting:
                shape.drop_caches()
        return ended


def _by_class(nodes: NodeTable, test: Callable[[NodeClass], bool]) -> Bools:
    """The test's answer for each node (N,); False for vacant columns."""
    answers = np.array([*map(test, nodes.classes.all), False], np.bool_)
    chosen: Bools = answers[nodes.node_class[: nodes.size]]
    return chosen


def _labels_of(requirements: Requirements) -> set[str]:
    keys = {key for key, _ in requirements.selector}
    for term in requirements.affinity or ():
        keys.update(expression.key for expression in term.expressions)
    for _, term in requirements.preferred_node_affinity:
        keys.update(expression.key for expression in term.expressions)
    return keys
