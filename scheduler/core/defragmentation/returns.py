"""The dry run of the return: gangs that are moved are decided again, next to the root.

Their pods do not exist yet, so workloads like them are decided on the live state, which stays as it
is (`hypothetical`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice, permutations
from typing import Final

from scheduler.core.defragmentation.movable import Mover
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.groups.groups import in_order
from scheduler.core.nodes.node_table import Ints
from scheduler.core.preemption.dry_run import DryRun
from scheduler.core.preemption.plan import occupy
from scheduler.core.search.place import Placement, place
from scheduler.core.state.hypothetical import HypotheticalState, hypothetical
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey, GroupSpec, PodInfo

_AGAIN: Final = "\0again"
"""The end of the names of workloads that are decided instead of those that run; no object's."""

_ORDERS: Final = 6
"""Orders in which moved gangs are decided: all of three. The order of the queue is the first."""

Nodes = dict[Mover, list[tuple[Pod, int]]]
"""For each mover, the row of the node that each pod would be on."""


class Returns:
    """The moved gangs as workloads that wait; made by `returns_of`."""

    def __init__(self, dry_run: DryRun, trial: HypotheticalState) -> None:
        self._dry_run = dry_run
        self._trial = trial

    def of(self, moved: Sequence[Mover], units: Ints, placement: Placement) -> Nodes | None:
        """Return where all pods of the movers would be once the root has its nodes.

        Returns None if one does not fit. `units` are those of the movers.
        """
        state = self._dry_run.state
        with state.nodes.trial():
            self._dry_run.release(units)
            occupy(state.framework, placement)
            for order in islice(permutations(sorted(moved, key=_in_queue)), _ORDERS):
                found = self._decided(order)
                if found is not None or self._dry_run.exhausted:
                    return found
        return None

    def _decided(self, order: Iterable[Mover]) -> Nodes | None:
        found: Nodes = {}
        with self._dry_run.state.nodes.trial():
            for mover in order:
                self._dry_run.pause()
                self._dry_run.solves += 1
                group = self._trial.forest.groups[again(mover.key)]
                placed = place(self._trial, group, self._dry_run.budget)
                if not isinstance(placed, Placement) or len(placed.pods) < len(mover.pods):
                    return None
                self._trial.assume(placed.pods, placed.rows)
                running = {again_uid(pod.info.uid): pod for pod in mover.pods}
                pairs = zip(placed.pods, placed.rows, strict=True)
                found[mover] = [(running[pod.info.uid], row) for pod, row in pairs]
        return found


@contextmanager
def returns_of(dry_run: DryRun, moved: Iterable[Mover]) -> Iterator[Returns]:
    """Add workloads like these to a trial on the state. Raises NeedsCopyError."""
    with hypothetical(dry_run.state, dry_run.pause) as trial:
        for mover in moved:
            for group in mover.root.walk():
                _add_group(trial, group)
            for pod in in_order(mover.pods):
                trial.set_pod(_waiting(pod.info))
        trial.complete()
        yield Returns(dry_run, trial)


def again(key: GroupKey) -> GroupKey:
    """Return the key of the workload that is decided instead of this one."""
    return (key[0], key[1], key[2] + _AGAIN)


def again_uid(uid: str) -> str:
    return uid + _AGAIN


def _in_queue(mover: Mover) -> tuple[int, str, GroupKey]:
    created = mover.root.spec.created if mover.root.spec is not None else ""
    return (-mover.root.priority, created, mover.key)


def _add_group(trial: State, group: Group) -> None:
    spec = group.spec
    if spec is None:
        raise AssertionError("a mover is a complete tree")
    # All of it returns, not only its minimum: nothing that runs may have less capacity afterwards.
    if group.composite:
        minimum = sum(child.running_total > 0 for child in group.children.values())
    else:
        minimum = sum(not pod.ended for pod in group.members.values())
    trial.set_group(_spec_again(spec, max(1, minimum)))


def _spec_again(spec: GroupSpec, minimum: int) -> GroupSpec:
    return replace(
        spec,
        key=again(spec.key),
        minimum=minimum,
        gang=True,
        parent=None if spec.parent is None else spec.parent + _AGAIN,
        # It was compared with its template, and started once: neither counts again.
        workload=None,
        template="",
        maker_off="",
        start_within=0.0,
        hold=None,
        reserves=False,
    )


def _waiting(info: PodInfo) -> PodInfo:
    return replace(
        info,
        uid=again_uid(info.uid),
        group=None if info.group is None else info.group + _AGAIN,
        node="",
        phase="Pending",
        nominated="",
        started=0.0,
    )
