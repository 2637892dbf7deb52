"""Invariants of every trace: no slot is used twice, no job is lost, gangs start completely."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.lab.simulation import Run
from analysis.lab.trace import Job
from tests.analysis.lab.builders import RACK, cluster, job, play

EXAMPLES = settings(max_examples=settings.default.max_examples // 4 if settings.default else 15)
"""Fewer examples than for other properties, because each is a complete simulation."""

VARIANTS = [
    "muster",
    "spread",
    "no-preemption",
    "starvation",
    "one-by-one",
    "in-order",
    "preferred",
]


@st.composite
def traces(draw: st.DrawFn) -> list[Job]:
    jobs = []
    for number in range(draw(st.integers(1, 14))):
        pods = draw(st.integers(1, 4))
        confined = draw(st.booleans())
        jobs.append(
            job(
                f"j{number}",
                draw(st.integers(0, 60)),
                draw(st.integers(1, 40)),
                pods=pods,
                min_pods=draw(st.integers(0, pods)),
                replicas=draw(st.sampled_from([1, 1, 2])),
                cpu=draw(st.integers(1, 3)),
                priority=draw(st.sampled_from([0, 0, 1, 5])),
                topology="required" if confined else "",
                key=RACK if confined else "",
                disruption=draw(st.sampled_from(["all", "single"])),
                grace=float(draw(st.sampled_from([0, 3]))),
                checkpoint=float(draw(st.sampled_from([0, 5]))),
            )
        )
    return jobs


def _played(jobs: list[Job], variant: str) -> Run:
    parts = f"{variant}+give-up=20s" if variant == "one-by-one" else variant
    return play(cluster(4, rack_of=2), *jobs, variant=parts, until=5000)


@EXAMPLES
@given(jobs=traces(), variant=st.sampled_from(VARIANTS))
def test_what_is_used_is_there_and_is_given_back(jobs: list[Job], variant: str) -> None:
    run = _played(jobs, variant)

    usage = run.usage
    spans = np.diff(
        np.minimum(np.arange(len(usage.over_time.sums) + 1) * usage.over_time.seconds, run.end)
    )
    assert (usage.over_time.sums[:, 0] <= usage.capacity[0] * spans * (1 + 1e-9)).all()
    running = sum(len(life.placed) * life.job.requests[0][1] for life in run.lives)
    assert usage.used[0] == running
    partial = sum(
        len(life.placed) * life.job.requests[0][1] for life in run.lives if life.whole_since is None
    )
    assert abs(usage.partial[0] - partial) < 1e-6
    for life in run.lives:
        assert life.ended is None or not life.placed
        assert sum(life.gangs) == len(life.placed)


@EXAMPLES
@given(jobs=traces(), variant=st.sampled_from(["muster", "spread", "starvation", "no-preemption"]))
def test_a_gang_starts_whole_or_not_at_all(jobs: list[Job], variant: str) -> None:
    run = _played(jobs, variant)

    for life in run.lives:
        assert life.started == life.first_placed


@EXAMPLES
@given(jobs=traces())
def test_work_is_conserved(jobs: list[Job]) -> None:
    """The resources used by running jobs are the work of finished jobs plus the lost work."""
    whole = [job for job in jobs if not job.min_pods and job.replicas == 1]
    if not whole:
        return
    run = play(cluster(4, rack_of=2), *whole)

    done = sum(
        life.job.duration * life.job.total * life.job.requests[0][1]
        for life in run.lives
        if life.ended is not None
    )
    used = run.usage.over_time.sums.sum() - run.usage.partial_over_time.sums.sum()
    assert abs(used - done - run.lost.get("cpu", 0.0)) <= 1e-6 * max(used, 1.0)
    assert all(life.ended is not None or life.first_placed is None for life in run.lives)
