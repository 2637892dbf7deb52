"""The order in which a JobSet starts its replicatedJobs, and which of them never run together."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from api.constants import MAX_EXPECTED_STAGE
from api.integration.jobset.view import JobSetView, ReplicatedJob


class _Order(NamedTuple):
    """Bit sets of indexes in `replicatedJobs`: which were created, and which have ended, before.

    One entry for each replicatedJob. JobSet lets one depend on those before it in the list only;
    a name that is none of theirs counts for nothing.
    """

    started: list[int]
    ended: list[int]


def is_ordered(view: JobSetView, jobs: Collection[ReplicatedJob]) -> bool:
    """Whether some of these replicatedJobs are created only after others of them."""
    return bool(later(view, jobs))


def later(view: JobSetView, jobs: Collection[ReplicatedJob]) -> set[str]:
    """The names of those of these replicatedJobs that are created only after others of them."""
    members, started = _bits(view, jobs), _order(view).started
    indexes = [*_indexes(members)]
    found = indexes[1:] if view.in_order else [at for at in indexes if members & started[at]]
    return {view.replicated_jobs[at].name for at in found}


def stages(view: JobSetView, jobs: Collection[ReplicatedJob]) -> dict[str, int]:
    """The stage of each of these replicatedJobs, by name: 0 is beside all others.

    Two in different stages never run at the same time: one is created after the other has ended.
    Stages are cut where all that come before have ended before all that come after; those that
    run beside every other are left out of that. What would come after the last stage is in it.
    """
    members, ended = _bits(view, jobs), _order(view).ended
    indexes = list(_indexes(members))
    before = 0
    for at in indexes:
        before |= ended[at] & members
    beside = {at for at in indexes if not ended[at] & members and not before >> at & 1}
    staged = [at for at in indexes if at not in beside]
    found = dict.fromkeys(indexes, 0) | _cut(staged, ended)
    return {view.replicated_jobs[at].name: stage for at, stage in found.items()}


def _cut(indexes: Sequence[int], ended: Sequence[int]) -> dict[int, int]:
    """Stages from 1 on; `indexes` are in an order in which each comes after what ended before."""
    # What has ended before each of those from here on: [at] is for indexes[at:].
    common = [-1] * (len(indexes) + 1)
    for at in reversed(range(len(indexes))):
        common[at] = common[at + 1] & ended[indexes[at]]
    found: dict[int, int] = {}
    passed, stage = 0, 1
    for at, index in enumerate(indexes):
        if passed and not passed & ~common[at]:
            stage = min(stage + 1, MAX_EXPECTED_STAGE)
        found[index] = stage
        passed |= 1 << index
    return found


def _order(view: JobSetView) -> _Order:
    known: dict[str, int] = {}
    order = _Order([], [])
    for at, job in enumerate(view.replicated_jobs):
        started = ended = 0
        for name in job.depends_on:
            if name in known:
                started |= 1 << known[name] | order.started[known[name]]
                ended |= order.ended[known[name]]
        for name in job.depends_on_complete:
            ended |= 1 << known[name] if name in known else 0
        order.started.append(started)
        order.ended.append(ended)
        known.setdefault(job.name, at)
    return order


def _bits(view: JobSetView, jobs: Collection[ReplicatedJob]) -> int:
    paths = {job.path for job in jobs}
    return sum(1 << at for at, job in enumerate(view.replicated_jobs) if job.path in paths)


def _indexes(bits: int) -> list[int]:
    return [at for at in range(bits.bit_length()) if bits >> at & 1]
