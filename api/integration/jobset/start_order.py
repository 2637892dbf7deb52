"""The start order of a JobSet's replicatedJobs, and those of them that never run together."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from api.constants import MAX_EXPECTED_STAGE
from api.integration.jobset.view import JobSetView, ReplicatedJob


class _Order(NamedTuple):
    """Bit sets of indexes in `replicatedJobs`: those created before each, and those ended.

    Each list has one entry for each replicatedJob. JobSet allows dependencies on earlier entries
    only, and unknown names are ignored.
    """

    started: list[int]
    ended: list[int]


def is_ordered(view: JobSetView, jobs: Collection[ReplicatedJob]) -> bool:
    """Return True if some of these replicatedJobs are created only after others of them."""
    return bool(later(view, jobs))


def later(view: JobSetView, jobs: Collection[ReplicatedJob]) -> set[str]:
    """Return the names of these replicatedJobs that are created only after others of them."""
    members, started = _bits(view, jobs), _order(view).started
    indexes = [*_indexes(members)]
    found = indexes[1:] if view.in_order else [at for at in indexes if members & started[at]]
    return {view.replicated_jobs[at].name for at in found}


def stages(view: JobSetView, jobs: Collection[ReplicatedJob]) -> dict[str, int]:
    """Return the stage of each of these replicatedJobs by name; 0 runs alongside all others.

    Two in different stages never run at the same time: one is created after the other has ended. A
    new stage begins where all earlier ones have ended before all later ones. Those that run
    alongside every other are ignored for this. The last stage contains all later ones, too.
    """
    members, ended = _bits(view, jobs), _order(view).ended
    indexes = list(_indexes(members))
    before = 0
    for at in indexes:
        before |= ended[at] & members
    alongside = {at for at in indexes if not ended[at] & members and not before >> at & 1}
    staged = [at for at in indexes if at not in alongside]
    found = dict.fromkeys(indexes, 0) | _cut(staged, ended)
    return {view.replicated_jobs[at].name: stage for at, stage in found.items()}


def _cut(indexes: Sequence[int], ended: Sequence[int]) -> dict[int, int]:
    """Return stages from 1; each of `indexes` comes after those that ended before it."""
    # For each position, the bits of those that have ended before every index from there on.
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
