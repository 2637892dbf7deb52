"""When capacity is known to become free: pods that end at a known time, and held places.

Nothing is known about pods that run without a deadline, so most refusals have no such time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from analysis.simulate.deciding import Setup
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.nodes.node_table import Ints
from scheduler.core.search.place import Placement, place
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey

_PART: Final = 1_000
"""Pods whose deadlines are read between two pauses."""

_FARTHEST: Final = 10 * 365 * 86_400
"""Seconds from now after which an end counts as unknown: users may write any deadline."""


def _never(_key: GroupKey) -> float | None:
    return None


@dataclass(frozen=True, slots=True)
class Times:
    """The current time in seconds since 1970, and on the monotonic clock that pods' ends have.

    `held_until` returns when a group's held places end, in seconds since 1970; None if unknown.
    """

    now: float
    monotonic: float
    held_until: Callable[[GroupKey], float | None] = _never


def fits_from(state: State, entity: Group | Pod, setup: Setup, times: Times) -> float | None:
    """Return the earliest known time, in seconds since 1970, at which a refused root fits.

    Only what ends until then is gone, and nothing comes. None if no known end lets it fit.
    """
    moments, slots = _known_ends(state, setup, times)
    ends = np.unique(moments)
    # More capacity does not take away a placement, so the first time is found by halving.
    low, high = 0, len(ends)
    if not high or not _fits(state, entity, setup, slots):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(state, entity, setup, slots[moments <= ends[middle - 1]]):
            high = middle
        else:
            low = middle
    # A search that was cut off tells nothing.
    return None if setup.budget.expired() else float(ends[high - 1])


def terminated_at(state: State, placement: Placement, times: Times) -> float | None:
    """Return when the last terminating pod on the nodes of a placement ends, if that is known."""
    units = state.units
    slots = np.flatnonzero(units.leaving & np.isin(units.rows, placement.rows))
    last = float(units.leaves_by[slots].max(initial=0.0))
    if not len(slots) or last > times.monotonic + _FARTHEST:
        return None
    return times.now + max(0.0, last - times.monotonic)


def _known_ends(state: State, setup: Setup, times: Times) -> tuple[Ints, Ints]:
    """Return the known ends in whole seconds since 1970, and the slot of the pod of each."""
    # A pod may have two; the one that is yielded last counts.
    ends = dict(_ends_of_pods(state, setup, times))
    for group in state.known_groups.values() if state.units.places else ():
        setup.budget.pause()
        until = times.held_until(group.key) if group.expected_held else None
        if until is not None and until < times.now + _FARTHEST and not group.composite:
            uids = [uid for uid, pod in group.members.items() if pod.info.expected]
            slots = state.units.slots_of_pods(uids).tolist()
            ends |= dict.fromkeys(slots, max(until, times.now))
    moments = np.ceil(np.fromiter(ends.values(), np.float64, len(ends))).astype(np.int64)
    return moments, np.fromiter(ends, np.int64, len(ends))


def _ends_of_pods(state: State, setup: Setup, times: Times) -> Iterator[tuple[int, float]]:
    """Yield the slot and the end of each pod that terminates or has a deadline."""
    units = state.units
    for number, (slot, deadline) in enumerate(units.deadlines()):
        if number % _PART == 0:
            setup.budget.pause()
        # A pod that runs beyond its deadline ends soon, but nobody knows when.
        if times.now <= deadline <= times.now + _FARTHEST:
            yield slot, deadline
    # The same for a pod that should have been deleted by now. After the deadlines: these are
    # earlier, whatever a pod's deadline is.
    known = units.leaving & (units.leaves_by < times.monotonic + _FARTHEST)
    for slot in np.flatnonzero(known & (units.leaves_by >= setup.effort.overdue)).tolist():
        yield slot, times.now + max(0.0, float(units.leaves_by[slot]) - times.monotonic)


def _fits(state: State, entity: Group | Pod, setup: Setup, slots: Ints) -> bool:
    """Return True if the root fits once the pods of these slots are gone."""
    setup.budget.pause()
    with state.nodes.trial():
        state.units.release(np.sort(slots))
        return isinstance(place(state, entity, setup.budget), Placement)
