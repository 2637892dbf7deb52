"""The search for one root: `place` finds nodes for its pods, or returns what is insufficient.

It places all minimums of the tree before any extras, so that extras never take what a minimum
needs. Everything happens in one trial on the node table, which is always undone. The result is a
value, and the same state gives the same result. Placement corresponds to kube-scheduler's
ScheduleResult, Refusal to its FitError.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np

from scheduler.core.groups import tree_validation
from scheduler.core.groups.forest import Group, Pod, in_order
from scheduler.core.nodes.node_table import Region
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.needs import shapes_of
from scheduler.core.search.slices import SlicePods
from scheduler.core.search.tree import TreeSearch
from scheduler.core.state.search_memory import SearchMemory, asked_by
from scheduler.core.state.shortage import Shortage
from scheduler.core.state.state import State
from scheduler.core.values.devices import Allocation
from scheduler.core.values.model import ClaimKey, GroupKey, GroupSpec
from scheduler.core.values.search_budget import SearchBudget
from scheduler.core.volumes.assumed_volumes import AssumedVolume

__all__ = ["Placement", "Refusal", "SearchBudget", "place"]


_STEPS_OF_DRY_RUNS: Final = 64
"""Pods that the exhaustive search places on trial, where many searches follow each other."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The node row `rows[i]` for each of `pods`; the minimums need the first `minimums` pods.

    `volumes` are assumed for claims that are not bound yet; None if no pod has a claim. `devices`
    are the allocations of ResourceClaims that have none yet; None if no pod needs devices.
    """

    root: GroupKey
    pods: tuple[Pod, ...]
    rows: tuple[int, ...]
    minimums: int
    steps: int
    volumes: Mapping[ClaimKey, AssumedVolume] | None = None
    devices: Mapping[ClaimKey, Allocation] | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why the root does not fit now; more slots for one of the `shapes` may change that.

    With `timed_out` the budget ended before all candidates were tried. Another search may find a
    placement, and continues after the `tried` candidate placements.
    """

    root: GroupKey
    shortage: Shortage
    shapes: frozenset[Shape]
    steps: int = 0
    timed_out: bool = False
    tried: int = 0

    def of(self, shape: Shape) -> Refusal:
        """Return the same for pods of this shape, which fit where those of the only other do."""
        return replace(
            self, shortage=replace(self.shortage, shape=shape), shapes=frozenset((shape,))
        )


def place(
    state: State,
    root: Group | Pod,
    budget: SearchBudget,
    *,
    region: Region | None = None,
    extras: bool = True,
    nominations: bool = True,
    memory: SearchMemory | None = None,
) -> Placement | Refusal:
    """Place one root: a topmost group that has its quorum, or a single pod. Changes nothing.

    `region` restricts it to these rows. Without `extras`, only the pods that the minimums need are
    placed. The root cannot use capacity nominated for other roots of the same or a higher priority,
    unless `nominations` is false. `memory` has the candidates that earlier searches for the root
    have completed; this search adds its own.
    """
    group = root if isinstance(root, Group) else group_of([root], minimum=1)
    # First, because it costs no search: an invalid tree is refused however much capacity is free.
    flaw = tree_validation.check(group)
    if flaw is not None:
        shortage = Shortage("invalid", flaw.at.key, flaw.message, resolvable=False)
        return Refusal(group.key, shortage, frozenset())
    # A pod that checks few nodes of its own need not respect what is nominated on all others.
    alone = isinstance(root, Pod) and state.framework.alone(root.shape)
    shapes = shapes_of(group)
    respected = state.nominations.respected(
        group.key, root.priority, region if alone else None, shapes=shapes
    )
    waiting = state.framework.plugins.dynamic_resources.quotas.deciding(
        [each for leaf in group.leaves() for each in leaf.pending.items()]
    )
    if memory is not None:
        version = (state.nodes.version, state.nominations.version)
        memory.begin((asked_by(group), _read_by(state, shapes)), version)
    with state.nodes.trial(), waiting, respected if nominations else nullcontext():
        # A root may use a profile of its own, by the schedulerName of its pods.
        single = isinstance(root, Pod)
        search = TreeSearch(state, budget.of(group.scheduler, single=single), memory)
        attempt = search.attempt
        short = search.minimums(group, region)
        # Dry runs have no memory, so an unfinished exhaustive search would be lost.
        most = _STEPS_OF_DRY_RUNS if memory is None else budget.steps
        if short is not None and not (short.resolvable and search.all_ways(group, region, most)):
            # A walk that completed has proved the refusal, even if the budget is used up.
            cut = attempt.exhausted or (memory is not None and memory.packings.cuts > 0)
            late = cut if search.complete is None else not search.complete
            tried = 0 if memory is None else memory.tried
            return Refusal(group.key, short, shapes, attempt.steps, late, tried)
        minimums = attempt.total
        if extras:
            search.extras(group)
        # The pods that run meet all minimums already, so only extras could have been placed.
        if not attempt.total:
            late = attempt.budget.expired()
            return Refusal(group.key, search.extras_shortage(group), shapes, attempt.steps, late)
        # While the trial is open: volumes and devices are assumed in it.
        placement = _placement(state, group, search, minimums)
        attempt.give_back()
        return placement


def _read_by(state: State, shapes: Iterable[Shape]) -> Hashable:
    """Return versions of what a search for such pods reads besides the free resources of nodes."""
    plain = all(
        state.framework.independent(shape)
        and not (shape.needs_devices or shape.volumes)
        and shape.requirements.stage is None
        for shape in shapes
    )
    # `SearchMemory` compares free resources itself, row by row.
    if plain:
        return (state.nodes.generation, state.nominations.version)
    return (state.nodes.version, state.nominations.version)


def assume_on(state: State, pod: Pod, row: int, budget: SearchBudget | None = None) -> bool:
    """Assume the node of the row for a waiting pod, if the pod fits. Nominations do not count."""
    region, wants = Region(np.array([row], np.int64)), pod.shape.requirements
    # Resources need one comparison. Devices and volumes have to be chosen, which `place` does.
    if not (wants.needs_devices or wants.volumes):
        fits = bool(state.framework.slots_in(pod.shape, region)[0])
        if fits:
            state.assume([pod], [row])
        return fits
    group = group_of([pod], minimum=1)
    found = place(state, group, budget or SearchBudget(), region=region, nominations=False)
    if not isinstance(found, Placement):
        return False
    state.assume(found.pods, found.rows, found.volumes, found.devices)
    return True


def group_of(pods: Sequence[Pod], *, minimum: int, priority: int | None = None) -> Group:
    """Return a temporary group, with the first pod's key, for pods of one shape and any group.

    At least `minimum` of them must be placed; the others are extras. Without `priority`, the group
    has the first pod's priority.
    """
    first = pods[0]
    own = first.info.priority if priority is None else priority
    spec = GroupSpec(first.key, minimum, gang=False, priority=own, created=first.info.created)
    group = Group(first.key, spec)
    group.pending = {first.shape: {pod.info.uid: pod for pod in pods}}
    group.available = group.pending_total = len(pods)
    group.quorate = True
    group.schedulers[first.info.scheduler] = len(pods)
    return group


def _placement(state: State, root: Group, search: TreeSearch, minimums: int) -> Placement:
    """Assign the chosen nodes to pods, within a group and shape in the order of `Pod.order`."""
    queues: dict[tuple[Group, Shape], Iterator[Pod]] = {}
    pods: list[Pod] = []
    rows: list[int] = []
    for run in search.attempt.log:
        search.attempt.budget.pause()
        key = (run.group, run.shape)
        if key not in queues:
            waiting = run.group.pending[run.shape].values()
            # Those of slices are in order already: by slice, and by index within it.
            ordered = isinstance(run.group, SlicePods)
            queues[key] = iter(waiting if ordered else in_order(waiting))
        targets = np.repeat(run.rows, run.counts).tolist()
        pods.extend(islice(queues[key], len(targets)))
        rows.extend(targets)
    claims = {key for run in search.attempt.log for key in run.shape.requirements.claims}
    volumes = state.volumes.assumed.of(sorted(claims)) if claims else None
    devices: Mapping[ClaimKey, Allocation] | None = None
    if any(run.shape.needs_devices for run in search.attempt.log):
        places = zip(pods, rows, strict=True)
        devices = state.framework.plugins.dynamic_resources.allocations(
            (pod.shape, row, pod.info.device_claims) for pod, row in places
        )
    steps = search.attempt.steps
    return Placement(root.key, tuple(pods), tuple(rows), minimums, steps, volumes, devices)
