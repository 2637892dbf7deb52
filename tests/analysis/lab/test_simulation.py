"""Scenarios whose events and times are small enough to predict."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.lab.errors import LabError
from analysis.lab.report import to_json
from analysis.lab.results import result_of
from analysis.lab.trace import Job
from tests.analysis.lab.builders import RACK, cluster, ended, job, play, started

ROOT = Path(__file__).resolve().parents[3]


def test_a_job_runs_as_long_as_the_trace_says() -> None:
    run = play(cluster(1), job("a", 10, 100, pods=4))

    assert started(run) == {"a": 10}
    assert ended(run) == {"a": 110}
    assert run.end == 110


def test_a_gang_waits_until_all_of_it_fits() -> None:
    run = play(cluster(2), job("a", 0, 100, pods=3), job("b", 1, 10, pods=6), job("c", 2, 10))

    assert started(run) == {"a": 0, "b": 100, "c": 2}
    assert run.usage.partial_over_time.sums.sum() == 0


def test_without_gangs_two_that_do_not_fit_together_hold_their_halves_until_one_gives_up() -> None:
    jobs = (job("a", 0, 100, pods=3, cpu=4), job("b", 0, 100, pods=3, cpu=4))

    gangs = play(cluster(4), *jobs)
    single = play(cluster(4), *jobs, variant="one-by-one+give-up=50s")

    assert sorted(started(gangs).values()) == [0, 100]  # type: ignore[type-var]
    result = result_of(single)
    assert result.finished == 2
    # "a" has 3 nodes and runs; "b" uses the fourth for 50 s, gives up, and takes it again.
    assert result.resources[0].idle_partial > 0
    assert result.given_up > 0
    assert result_of(gangs).resources[0].idle_partial == 0


def test_in_order_nobody_passes_the_first_that_waits() -> None:
    jobs = (job("a", 0, 100, pods=3), job("b", 1, 10, pods=6), job("c", 2, 10))

    run = play(cluster(2), *jobs, variant="in-order")

    assert started(run) == {"a": 0, "b": 100, "c": 100}


def test_in_order_a_higher_priority_goes_first() -> None:
    jobs = (job("a", 0, 100, pods=8), job("b", 1, 10, pods=8), job("c", 2, 10, pods=8, priority=5))

    run = play(cluster(2), *jobs, variant="in-order")

    assert started(run) == {"a": 0, "c": 100, "b": 110}


def test_an_evicted_gang_ends_after_its_grace_and_begins_anew() -> None:
    low = job("low", 0, 100, pods=4, grace=5.0)
    high = job("high", 30, 10, pods=4, priority=1)

    run = play(cluster(1), low, high)

    assert started(run) == {"low": 0, "high": 35}
    assert ended(run) == {"high": 45, "low": 145}
    assert run.evictions == 4
    assert run.lost == {"cpu": 35 * 4 * 1000}


def test_what_was_done_before_a_checkpoint_is_kept() -> None:
    low = job("low", 0, 100, pods=4, checkpoint=15.0)
    high = job("high", 40, 10, pods=4, priority=1)

    run = play(cluster(1), low, high)

    assert ended(run)["low"] == 50 + 70
    assert run.lost == {"cpu": 10 * 4 * 1000}


def test_without_preemption_the_higher_priority_waits() -> None:
    low, high = job("low", 0, 100, pods=4), job("high", 30, 10, pods=4, priority=1)

    run = play(cluster(1), low, high, variant="no-preemption")

    assert started(run)["high"] == 100
    assert run.evictions == 0


def test_an_extra_pod_that_is_evicted_is_replaced_and_its_job_runs_on() -> None:
    low = job("low", 0, 100, pods=4, min_pods=3, disruption="single")
    high = job("high", 30, 10, priority=1)

    run = play(cluster(1), low, high)

    assert started(run) == {"low": 0, "high": 30}
    assert ended(run)["low"] == 100
    assert run.evictions == 1
    assert run.lost == {}


@pytest.mark.parametrize(
    ("variant", "start", "confined"),
    [("muster", 50.0, True), ("preferred", 1.0, False), ("no-topology", 1.0, True)],
)
def test_a_gang_waits_for_one_rack_unless_it_only_prefers_one(
    variant: str, start: float, *, confined: bool
) -> None:
    # Two racks of three nodes; with topology, a gang of two uses most of each.
    first, second, gang = (
        job(name, arrival, duration, pods=2, cpu=4, topology="required", key=RACK)
        for name, arrival, duration in (("first", 0, 50), ("second", 0, 50), ("gang", 1, 10))
    )

    run = play(cluster(6, rack_of=3), first, second, gang, variant=variant)

    assert started(run)["gang"] == start
    assert next(life.confined for life in run.lives if life.job is gang) == confined


@pytest.mark.parametrize(
    ("variant", "nodes"), [("muster", ["n-00000"] * 2), ("spread", ["n-00000", "n-00001"])]
)
def test_nodes_are_filled_one_after_the_other_or_evenly(variant: str, nodes: list[str]) -> None:
    run = play(cluster(2), job("a", 0, 10), job("b", 1, 10), variant=variant)

    assert [life.starts[0].nodes[0][0] for life in run.lives] == nodes


@pytest.mark.parametrize(("variant", "start"), [("muster", 16_200), ("starvation", 4500)])
def test_the_starvation_gate_lets_a_large_gang_have_its_turn(variant: str, start: float) -> None:
    """One small job of five ends every 300 s, and the next takes its slot."""
    small = (job(f"s{n:02}", n * 300, 1500) for n in range(50))
    large = job("large", 7, 600, pods=6)

    run = play(cluster(1, cpu=6), *small, large, variant=variant)

    assert started(run)["large"] == start


def test_without_priorities_all_jobs_are_equal() -> None:
    low, high = job("low", 0, 100, pods=4), job("high", 30, 10, pods=4, priority=1)

    run = play(cluster(1), low, high, variant="no-priorities")

    assert (started(run)["high"], run.evictions) == (100, 0)


def test_a_tree_starts_whole() -> None:
    tree = job("tree", 0, 10, pods=2, replicas=3)
    first = job("first", 0, 30, pods=3)

    run = play(cluster(2), first, tree)

    assert started(run) == {"first": 0, "tree": 30}


def test_more_nodes_are_there_from_the_beginning() -> None:
    jobs = (job("a", 0, 100, pods=4), job("b", 0, 100, pods=4))

    assert play(cluster(1), *jobs).end == 200
    assert play(cluster(1), *jobs, variant="nodes=1").end == 100


def test_it_can_be_ended_before_the_jobs() -> None:
    run = play(cluster(1), job("a", 0, 100), job("b", 70, 100, pods=4), until=80)

    assert run.end == 80
    assert result_of(run).wait.unstarted == 1
    assert result_of(run).wait.longest == 10


def test_what_can_never_run_does_not_keep_it_going() -> None:
    run = play(cluster(1), job("a", 0, 10), job("big", 0, 10, pods=5))

    assert run.end == 10
    assert result_of(run).finished == 1


def test_what_no_node_has_is_an_error_that_names_it() -> None:
    with pytest.raises(LabError, match=r"requests example.com/tpu, but no node"):
        play(cluster(1), Job(name="a", arrival=0, duration=1, requests=(("example.com/tpu", 1),)))


def test_a_topology_key_that_no_node_has_is_an_error_that_names_it() -> None:
    with pytest.raises(LabError, match=r"no node of the cluster has the label example\.com/rack"):
        play(cluster(1), job("a", 0, 1, topology="required", key=RACK))


def report() -> bytes:
    chance = random.Random(7)
    jobs = [
        job(
            f"j{number}",
            chance.uniform(0, 500),
            chance.uniform(1, 90),
            pods=chance.choice((1, 2, 5)),
            priority=chance.choice((0, 0, 9)),
            namespace=chance.choice("abc"),
            grace=2.0,
        )
        for number in range(60)
    ]
    return to_json([result_of(play(cluster(6, rack_of=2), *jobs))])


def test_the_same_trace_gives_the_same_bytes_whatever_the_hash_seed() -> None:
    code = (
        "import sys, tests.analysis.lab.test_simulation as it; sys.stdout.buffer.write(it.report())"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
    ).stdout

    assert elsewhere == report()
    assert b'"evicted_jobs": 0' not in elsewhere
