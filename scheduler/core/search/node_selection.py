"""Selection of nodes for pods of one shape, by arithmetic on the node table.

This corresponds to scoring nodes and selecting the host in kube-scheduler.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

import numpy as np

from scheduler.core.framework.domain_quotas import Quotas
from scheduler.core.framework.framework import Framework
from scheduler.core.nodes.node_table import Ints, Region
from scheduler.core.pods.shapes import Shape
from scheduler.core.values.profiles import Profile

_NEVER: Final = np.iinfo(np.int64).max

_PREFERENCE_WAVES: Final = 16
"""Waves that respect preferences; later ones take whatever capacity there is."""


def choose(
    framework: Framework, shape: Shape, count: int, region: Region | None, profile: Profile
) -> tuple[Ints, Ints] | None:
    """Return nodes and how many pods each takes, `count` in all; None if fewer fit.

    pack fills the fullest nodes first, spread raises the emptiest to one level of utilisation. The
    preference score is added to the utilisation for pack, and subtracted for spread. Ties go to the
    lowest row, with spread to the first in the region.
    """
    slots = framework.slots_in(shape, region)
    if int(slots.sum()) < count:
        return None
    if shape.requirements.stage is None:
        return _chosen(framework, shape, count, region, profile, slots=slots)
    # First the capacity that is kept for other stages of its tree: it takes nothing from anybody.
    shared = _most_first(np.minimum(framework.shared_slots(shape, region), slots), count)
    rest = count - int(shared.sum())
    if rest:
        rows, counts = _chosen(framework, shape, rest, region, profile, slots=slots - shared)
        at = rows if region is None else np.searchsorted(region, rows)
        shared[at] += counts
    chosen = np.flatnonzero(shared)
    return chosen if region is None else region[chosen], shared[chosen]


def _chosen(
    framework: Framework,
    shape: Shape,
    count: int,
    region: Region | None,
    profile: Profile,
    *,
    slots: Ints,
) -> tuple[Ints, Ints]:
    """Choose nodes by the profile, with so many `slots` on the rows of the region."""
    used, step = framework.usage(shape) if region is None else framework.usage_at(shape, region)
    every = np.arange(framework.nodes.size) if region is None else region
    preferred = _preferred(framework, shape, every)
    if profile == "pack":
        return _fill(region, slots, -used - preferred, count)
    at = np.flatnonzero(slots)
    rows = at if region is None else region[at]
    return _level(rows, slots[at], (used - preferred)[at], step[at], count)


def waves(
    framework: Framework, shape: Shape, count: int, region: Region | None, profile: Profile
) -> Iterator[tuple[Ints, Ints]]:
    """Yield waves of up to `count` pods whose order matters, each as large as quotas allow.

    The caller must place a wave before it takes the next. Ends early if no node has a slot left.
    """
    for number in itertools.count():
        # Preferences make waves small, and a large gang would need too many of them.
        quotas = framework.quotas(shape, preferences=number < _PREFERENCE_WAVES)
        wave = _wave(framework, shape, count, region, profile, quotas=quotas)
        if wave is None:
            return
        yield wave
        count -= int(wave[1].sum())
        if not count:
            return


def _wave(
    framework: Framework,
    shape: Shape,
    count: int,
    region: Region | None,
    profile: Profile,
    *,
    quotas: Quotas,
) -> tuple[Ints, Ints] | None:
    slots = framework.slots_in(shape, region)
    at = np.flatnonzero(slots)
    if quotas.most is not None:
        count = min(count, quotas.most)
    if not len(at) or count <= 0:
        return None
    rows = at if region is None else region[at]
    used, _ = _usage(framework, shape, rows, region)
    cost = (-used if profile == "pack" else used) - _preferred(framework, shape, rows)
    # One pod needs the best node only, so nodes need not be sorted.
    is_open = quotas.open_to_one(rows) if count == 1 and not quotas.single else None
    if is_open is not None:
        return _one(rows[is_open], cost[is_open])
    order = np.argsort(cost, kind="stable")
    rows, capacity = rows[order], slots[at][order]
    if quotas.single:
        first = framework.start(shape, rows, capacity, count)
        rows, capacity, count = rows[first : first + 1], capacity[first : first + 1], 1
    if profile == "spread":
        # One pod per node and wave: the utilisation of a node changes with each pod.
        capacity = np.minimum(capacity, 1)
    counts = quotas.share(rows, capacity, count)
    return rows[counts > 0], counts[counts > 0]


def _most_first(slots: Ints, count: int) -> Ints:
    """Return how many of at most `count` pods each of the slots (n,) takes: the largest first."""
    order = np.argsort(-slots, kind="stable")
    before = np.cumsum(slots[order]) - slots[order]
    taken = np.zeros(len(slots), np.int64)
    taken[order] = np.clip(count - before, 0, slots[order])
    return taken


def _one(rows: Ints, cost: Ints) -> tuple[Ints, Ints] | None:
    """Return a wave of one pod on these rows, without sorting them; None if there are none."""
    if not len(rows):
        return None
    chosen = rows[cost == cost.min()].min(keepdims=True)
    return chosen, np.ones(1, np.int64)


def _preferred(framework: Framework, shape: Shape, rows: Ints) -> Ints | int:
    preference = framework.preference(shape, rows)
    return 0 if preference is None else preference


def _fill(region: Region | None, slots: Ints, cost: Ints, count: int) -> tuple[Ints, Ints]:
    """Fill the cheapest nodes one by one; `slots` must suffice for `count`. Changes `cost`."""
    cost[slots <= 0] = _NEVER
    # Usually many empty nodes are equally cheap. Then no sorting is needed.
    at = np.flatnonzero(cost == cost.min())
    rows = at if region is None else region[at]
    # Every node here has at least one slot, so the `count` cheapest are enough.
    if int(slots[at].sum()) >= count:
        order = np.arange(min(count, len(rows)))
    else:
        at = np.flatnonzero(slots)
        rows = at if region is None else region[at]
        # One integer for cost and row: argpartition has no second key for ties.
        key = cost[at] * (int(rows.max()) + 1) + rows
        best = (
            np.argpartition(key, count - 1)[:count] if count < len(rows) else np.arange(len(rows))
        )
        order = best[np.argsort(key[best])]
    rows, capacity = rows[order], slots[at][order]
    before = np.cumsum(capacity) - capacity
    counts = np.clip(count - before, 0, capacity)
    return rows[counts > 0], counts[counts > 0]


def _level(rows: Ints, capacity: Ints, used: Ints, step: Ints, count: int) -> tuple[Ints, Ints]:
    """Raise all nodes to the lowest common level of utilisation with capacity for `count` pods."""

    def held(level: int) -> Ints:
        pods: Ints = np.clip((level - used) // step + 1, 0, capacity)
        return pods

    # The level is found by bisection, because pods per node rise with the level.
    low, high = int(used.min()), int((used + step * capacity).max())
    while low < high:
        middle = (low + high) // 2
        if int(held(middle).sum()) >= count:
            high = middle
        else:
            low = middle + 1
    counts = held(low - 1)
    missing = count - int(counts.sum())
    # Only the first `missing` of the nodes that take one more at this level are needed.
    last = np.flatnonzero(held(low) > counts)[:missing]
    counts[last] += 1
    return rows[counts > 0], counts[counts > 0]


def _usage(
    framework: Framework, shape: Shape, rows: Ints, region: Region | None
) -> tuple[Ints, Ints]:
    """Return the rows' use and what a pod adds, (len(rows),) each; cached without a region."""
    if region is not None:
        return framework.usage_at(shape, rows)
    used, step = framework.usage(shape)
    return used[rows], step[rows]
