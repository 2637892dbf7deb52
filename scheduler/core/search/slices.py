"""The slices of the groups of one search: what they need, and where equal ones go.

Slices of equal pods are placed by arithmetic over all domains at once: a huge gang has thousands.
All others are placed one by one, as if each were a group of its own (`SlicePods`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.groups.slices import Slice, Slices, in_steps, slices_of
from scheduler.core.nodes.node_table import Ints, Region
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.attempt import Attempt
from scheduler.core.search.topology_placement import CandidatePlacement, TopologyPlacements
from scheduler.core.state.shortage import Shortage
from scheduler.core.state.state import State
from scheduler.core.topology.topology import UNLABELLED, Domains
from scheduler.core.values.model import GroupSpec, Topology
from scheduler.core.values.wording import count

_MOST_APART: Final = 2_048
"""Slices of one group that are placed one by one. A group with more of them is refused."""


class SlicePods(Group):
    """Pods of some slices of the group `leaf`, which the search places as one group.

    `numbers` are those of the slices, `title` is the name of a single one in messages. The pods
    that wait are in the order in which they get their nodes.
    """

    __slots__ = ("leaf", "numbers", "title")

    def __init__(self, leaf: Group, numbers: Sequence[int], waiting: Iterable[Pod]) -> None:
        super().__init__(leaf.key)
        self.leaf = leaf
        self.numbers = numbers
        self.title = ""
        for pod in waiting:
            self.pending.setdefault(pod.shape, {})[pod.info.uid] = pod
        self.pending_total = sum(map(len, self.pending.values()))

    @classmethod
    def of_one(cls, leaf: Group, part: Slice, topology: Topology, title: str) -> SlicePods:
        """Return a slice that is placed as one, in the domain of its pods that run."""
        made = cls(leaf, (part.number,), part.waiting)
        minimum = len(part.running) + len(part.waiting)
        made.set_spec(GroupSpec(leaf.key, minimum, topology=topology))
        made.members = {pod.info.uid: pod for pod in (*part.running, *part.waiting)}
        made.running = made.running_total = len(part.running)
        made.available, made.quorate, made.title = minimum, True, title
        return made


class _Sliced:
    """The slices of one group, and the groups in their place."""

    def __init__(
        self, leaf: Group, slices: Slices, domains: Domains, pause: Callable[[], None]
    ) -> None:
        self.leaf = leaf
        self.slices = slices
        self.domains = domains
        self.startable = [part for part in in_steps(slices.all, pause) if part.may_start]
        self.completable = [part for part in in_steps(self.startable, pause) if part.can_complete]
        self.shapes = {
            pod.shape for part in in_steps(self.startable, pause) for pod in part.waiting
        }
        # Of a slice whose other pods have succeeded, the rest is in no domain yet.
        self.unpinned = any(part.present and not part.rows for part in self.startable)
        self.mirror = Group(leaf.key, replace(_spec(leaf), slicing=None))
        self.mirror.composite = True
        self.mirror.parent = leaf.parent
        self._views: dict[int, SlicePods] = {}

    def view(self, part: Slice) -> SlicePods:
        """Return the slice as a group of its own, in the place of a child of `mirror`."""
        found = self._views.get(part.number)
        if found is None:
            topology, title = Topology(self.domains.key), self.slices.title(part)
            found = SlicePods.of_one(self.leaf, part, topology, title)
            found.parent = self.mirror
            self._views[part.number] = found
        return found

    def as_composite(self, needed: int) -> Group:
        """Return the group as the parent of its slices, with `needed` as its minimum."""
        views = (self.view(part) for part in self.completable)
        kind, namespace, name = self.leaf.key
        self.mirror.children = {
            (kind, namespace, f"{name}/{view.numbers[0]}"): view for view in views
        }
        self.mirror.minimum = needed
        return self.mirror


class SlicedGroups:
    """All groups with slices of one search."""

    def __init__(self, state: State, attempt: Attempt, placements: TopologyPlacements) -> None:
        self._attempt = attempt
        self._framework = state.framework
        self._placements = placements
        self._known: dict[Group, _Sliced] = {}

    def needed(self, leaf: Group) -> int:
        """Return how many slices its minimum lacks, 0 if it is met."""
        slicing, minimum = leaf.slicing, leaf.minimum or 0
        if slicing is None or leaf.standing:
            return 0
        # One pod is enough for the basic policy, but a slice starts only as one.
        wanted = -(-minimum // slicing.size)
        pause = self._attempt.budget.pause
        return wanted - sum(part.complete for part in in_steps(self.of(leaf).slices.all, pause))

    def of(self, leaf: Group) -> _Sliced:
        found = self._known.get(leaf)
        if found is None:
            domains = self._placements.slice_domains(leaf)
            pause = self._attempt.budget.pause
            slices = slices_of(leaf, domains.codes, pause)
            found = self._known[leaf] = _Sliced(leaf, slices, domains, pause)
        return found

    def too_few(self, leaf: Group, needed: int) -> Shortage | None:
        """Return the shortage if fewer slices than needed have all their pods."""
        sliced = self.of(leaf)
        if len(sliced.completable) >= needed:
            return None
        have, lack = len(sliced.completable), count(needed, "more slice")
        message = f"The group needs {lack} with all pods; {have} exist{'s' * (have == 1)}."
        return self._incomplete(sliced, message, minimum=True)

    def too_many_apart(self, leaf: Group) -> Shortage | None:
        """Return the shortage if too many slices would have to be placed one by one."""
        size, found = len(self.of(leaf).startable), None
        if size > _MOST_APART:
            message = (
                f"The group has {size} slices of different pods, or of pods that depend on each"
                f" other; at most {_MOST_APART} of these can be placed. Use a larger slice-size."
            )
            found = Shortage("constraint", leaf.key, message, resolvable=False)
        return found

    def equal_shape(self, leaf: Group) -> Shape | None:
        """Return the shape of all slices if arithmetic decides where they fit, else None."""
        sliced = self.of(leaf)
        if len(sliced.shapes) != 1 or sliced.unpinned:
            return None
        (shape,) = sliced.shapes
        wants, framework = shape.requirements, self._framework
        if shape.needs_other_pods or wants.claims or wants.unsupported or wants.stage is not None:
            return None
        if not framework.independent(shape) or framework.in_waves(shape):
            return None
        return shape

    def left(self, leaf: Group) -> list[Slice]:
        """Return the slices that may start and were not placed by this search."""
        done = {
            number
            for run in self._attempt.log
            if isinstance(run.group, SlicePods) and run.group.leaf is leaf
            for number in run.group.numbers
        }
        pause = self._attempt.budget.pause
        return [
            part for part in in_steps(self.of(leaf).startable, pause) if part.number not in done
        ]

    def remaining_demand(self, leaf: Group) -> dict[Shape, int]:
        """Return the pods of these slices by shape."""
        demand: dict[Shape, int] = {}
        for part in in_steps(self.left(leaf), self._attempt.budget.pause):
            for pod in part.waiting:
                demand[pod.shape] = demand.get(pod.shape, 0) + 1
        return demand

    def place_equal(
        self, leaf: Group, parts: Sequence[Slice], shape: Shape, region: Region | None, most: int
    ) -> list[Slice] | None:
        """Place up to `most` of these slices, as many as fit. Return those that were placed.

        None if their devices do not suffice together: then they have to be placed one by one.
        """
        sliced = self.of(leaf)
        self._attempt.budget.pause()
        self._attempt.steps += 1
        slots = self._framework.slots_in(shape, region)
        chosen = _assign(parts, sliced.domains, sliced.domains.sums(slots, region), most)
        if not chosen:
            return []
        # By domain, as the places are; the slices of one domain in the order of their numbers.
        pause, codes = self._attempt.budget.pause, np.array([code for _, code in chosen])
        pods = np.array([len(part.waiting) for part, _ in chosen])
        totals = np.zeros(len(sliced.domains.values), np.int64)
        np.add.at(totals, codes, pods)
        numbers = np.array([part.number for part, _ in chosen])
        pause()
        order = np.lexsort((numbers, codes))
        placed = [chosen[at][0] for at in order.tolist()]
        places = self._places(shape, region, slots, sliced.domains.codes, totals)
        waiting = (pod for part in in_steps(placed, pause) for pod in part.waiting)
        batch = SlicePods(leaf, numbers[order].tolist(), waiting)
        pause()
        return placed if self._attempt.take_places(batch, shape, places) else None

    def _places(
        self, shape: Shape, region: Region | None, slots: Ints, codes: Ints, totals: Ints
    ) -> Ints:
        """Return the row of each pod: `totals` (D,) pods by domain, ordered by domain."""
        framework = self._framework
        rows = np.arange(framework.nodes.size) if region is None else region
        inside = np.flatnonzero((slots > 0) & (codes[rows] != UNLABELLED))
        inside = inside[totals[codes[rows[inside]]] > 0]
        rows, codes = rows[inside], codes[rows[inside]]
        slots = np.minimum(slots[inside], totals[codes])
        used, step = framework.usage_at(shape, rows)
        preferred = framework.preference(shape, rows)
        scores = 0 if preferred is None else preferred
        pack = self._attempt.budget.profile == "pack"
        # One entry for each pod that a node may take: `nth` on its node.
        each = np.repeat(np.arange(len(rows)), slots)
        nth = np.arange(len(each)) - np.repeat(np.cumsum(slots) - slots, slots)
        level = (-used - scores)[each] if pack else (used - scores)[each] + step[each] * nth
        order = np.lexsort((nth, rows[each], level, codes[each]))
        domain = codes[each][order]
        first = np.searchsorted(domain, domain)
        within = np.arange(len(domain)) - first < totals[domain]
        places: Ints = rows[each][order][within]
        return places

    def shortage(
        self,
        leaf: Group,
        parts: Iterable[Slice],
        region: Region | None,
        above: CandidatePlacement | None,
        *,
        minimum: bool = True,
    ) -> Shortage:
        """Return why the first of these slices that does not fit lacks capacity."""
        sliced, attempt = self.of(leaf), self._attempt
        # A slice that runs in part has no choice, so it says most.
        part = min(parts, key=lambda part: (part.present == 0, part.number), default=None)
        if part is None:
            return self._incomplete(sliced, "", minimum=minimum)
        view = sliced.view(part)
        demand = {shape: len(pods) for shape, pods in view.pending.items()}
        found = self._placements.candidates(view, region, above, demand)
        if not isinstance(found, Shortage):
            inner, (shape, needed) = next(found), next(iter(demand.items()))
            free = min(needed, attempt.slots(shape, inner.rows))
            found = attempt.short(view, shape, needed, free)
            found = found if inner.best is None else found.within(inner.best, key=inner.key)
        placed = sum(pods for group, pods in attempt.taken() if group.key == leaf.key)
        return replace(found, part=view.title, minimum=minimum, own=placed)

    def _incomplete(self, sliced: _Sliced, message: str, *, minimum: bool) -> Shortage:
        """Return the shortage of a group whose slices lack pods that do not exist yet."""
        part = next((it for it in sliced.slices.all if not (it.complete or it.can_complete)), None)
        if part is not None:
            title = sliced.slices.title(part)
            have = f"{part.present + len(part.waiting)} of {part.size} pods"
            message = f"{message} {title[0].upper()}{title[1:]} has {have}.".strip()
        message = message or "No pods are pending."
        return Shortage("quorum", sliced.leaf.key, message, resolvable=False, minimum=minimum)


def _assign(
    parts: Sequence[Slice], domains: Domains, capacity: Ints, most: int
) -> list[tuple[Slice, int]]:
    """Return up to `most` slices with their domains; `capacity` (D,) is in pods, and changes.

    Slices that run in part go to their domain first, those that lack the fewest pods before others.
    The others go to the domains with the least capacity, which keeps the others for larger groups.
    """
    chosen: list[tuple[Slice, int]] = []
    started = sorted((part for part in parts if part.present), key=lambda it: len(it.waiting))
    for part in started:
        if len(chosen) == most:
            return chosen
        there = domains.of(list(part.rows))
        code = there.pop()
        if there or code == UNLABELLED or capacity[code] < len(part.waiting):
            continue
        capacity[code] -= len(part.waiting)
        chosen.append((part, code))
    fresh = [part for part in parts if not part.present]
    if not fresh:
        return chosen
    size, wanted = fresh[0].size, min(len(fresh), most - len(chosen))
    order = np.argsort(capacity, kind="stable")
    fits = capacity[order] // size
    counts = np.clip(wanted - (np.cumsum(fits) - fits), 0, fits)
    codes = np.repeat(order, counts).tolist()
    chosen += zip(fresh, codes, strict=False)
    return chosen


def _spec(leaf: Group) -> GroupSpec:
    if leaf.spec is None:
        raise LookupError(leaf.key)
    return leaf.spec
