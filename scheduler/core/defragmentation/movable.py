"""The gangs that may be moved: those whose owners, or administrators, agreed to it.

A gang is moved complete or not at all, so a gang with one pod that must stay, or that would not be
created again, is no candidate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.groups.slices import in_steps
from scheduler.core.nodes.node_table import Bools, Ints
from scheduler.core.state.eviction_costs import preempted_lately
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey

MOVABLE_LABEL: Final = "scheduling.muster.dev/movable"
"""The label of a namespace whose gangs may be moved, with the value `true`."""

MOST_PODS: Final = 512
"""Pods of a gang that may be moved. Larger gangs stay where they are."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search came: all sets of the first `gangs`, and `sets` of those after them."""

    gangs: int = 0
    sets: int = 0


@dataclass(frozen=True, slots=True)
class MoveLimits:
    """The limits of a plan: at most `gangs`, `left(namespace)` of each namespace.

    The roots in `rests` are not moved. The search continues after `tried`.
    """

    gangs: int = 3
    left: Callable[[str], int] = lambda _namespace: 1_000_000
    rests: Container[GroupKey] = ()
    tried: Progress = Progress()


@dataclass(frozen=True, slots=True, eq=False)
class Mover:
    """A root that may be moved, with its running pods and their units (sorted).

    `ran` are the seconds that its pods have run, in all, and `lost` those since its last
    checkpoint.
    """

    root: Group
    pods: tuple[Pod, ...]
    units: Ints
    ran: float
    lost: float

    @property
    def key(self) -> GroupKey:
        return self.root.key


def movers(
    state: State,
    root: Group | Pod,
    rests: Container[GroupKey],
    soon: float,
    pause: Callable[[], None],
) -> list[Mover]:
    """Return the roots that may be moved for this one, those with the fewest pods first.

    Those that `rests` contains stay. Pods that others deleted, and that end before `soon`
    (monotonic seconds), leave anyway.
    """
    units = state.units
    units.refresh()
    # As a preemptor of the next priority could evict them: equals may be moved.
    free = units.prompt(units.below(root.priority + 1, soon))
    evictable = np.zeros(len(units.priorities) + 1, np.bool_)
    evictable[free] = True
    found: list[Mover] = []
    for group in in_steps(state.forest.groups.values(), pause):
        if group.key != root.key and group.key not in rests and _agreed(state, group):
            # A group has up to MOST_PODS pods, so a step of groups would be long.
            pause()
            found += _mover(state, group, evictable)
    return sorted(found, key=lambda it: (len(it.pods), it.ran, it.key))


def _agreed(state: State, group: Group) -> bool:
    """Return True if the root, or its namespace, allows that it is moved, and it rests."""
    spec = group.spec
    if spec is None or group.parent is not None or spec.parent or group.of_others:
        return False
    if spec.movable is None:
        labels = state.selectors.namespaces.get(group.key[1], {})
        agreed = labels.get(MOVABLE_LABEL) == "true"
    else:
        agreed = spec.movable
    # A gang that was preempted or moved lately is left alone for the same time.
    return agreed and not preempted_lately(group, state.units.protection)


def _mover(state: State, group: Group, evictable: Bools) -> Iterator[Mover]:
    """Yield the root if all its pods run, may be evicted, and would be created again."""
    units = state.units
    if group.faulty or group.off or group.pending_total or not 0 < group.running_total <= MOST_PODS:
        return
    # A group that has lost pods would not start again.
    if not all(each.standing for each in group.walk() if each.running_total):
        return
    pods = [pod for leaf in group.leaves() for pod in leaf.members.values() if not pod.ended]
    if not 0 < len(pods) <= MOST_PODS or not all(map(_returns, pods)):
        return
    slots = units.slots_of_pods(pod.info.uid for pod in pods)
    owners: Ints = np.unique(units.owners[slots])
    if len(slots) < len(pods) or not evictable[owners].all():
        return
    work = units.costs.reported(group, pods, units.protection).work
    starts = [pod.info.started for pod in pods if pod.info.started]
    yield Mover(
        group,
        tuple(pods),
        owners,
        _passed(state, min(starts, default=0.0)) * len(pods),
        _passed(state, -work) * len(pods),
    )


def _returns(pod: Pod) -> bool:
    """Return True if the pod runs, and one like it is created and can be decided on any node."""
    info, wants = pod.info, pod.info.requirements
    runs = bool(info.node) and info.ours and not (info.terminating or info.expected)
    # Only a controller creates a pod again.
    made = bool(info.membership.maker)
    # Volumes and devices of a pod that does not exist yet are not known.
    bound = info.device_claims or info.consumer or wants.needs_devices or wants.volumes
    return runs and made and not bound and not wants.disks


def _passed(state: State, moment: float) -> float:
    """Return the seconds since this time, 0 for none; also 0 if the time of day is not known."""
    now = state.units.protection.now
    return max(0.0, now - moment) if moment and math.isfinite(now) else 0.0
