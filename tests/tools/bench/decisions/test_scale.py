"""The limit of one scheduler process alone: every kind of load is decided completely."""

from itertools import pairwise
from pathlib import Path

import pytest

from scheduler.core.search.batching import signature
from tools.bench.decisions import scale
from tools.bench.decisions.clusters import cluster
from tools.bench.report import scale_results
from tools.bench.report.scale_results import Held, Point, Scale

pytestmark = pytest.mark.long

MEASURED = Scale(
    [
        Point("gangs", 5_000, 10.0, 30.0),
        Point("gangs", 15_000, 10.0, 40.0),
        Point("trees", 15_000, 20.0, 60.0),
    ],
    {"a heartbeat": 12.3},
    [Held(5_000, 50_000, 99.6)],
)


@pytest.mark.parametrize("load", scale.WORKLOADS)
def test_each_load_is_taken_in_and_decided_wholly(load: str) -> None:
    """`decide_all` asserts that every pod is placed; no workload rounds its pods down."""
    taken, decided = scale.decide_all(100, 2_400, scale.WORKLOADS[load])

    assert taken > 0.0
    assert decided > 0.0


def test_no_two_gangs_that_follow_in_the_mixed_load_are_alike() -> None:
    state = cluster(10)
    scale.mixed(state, 500)

    kinds = [signature(group) for _, group in sorted(state.forest.groups.items())]

    assert len(state.pods) == 500
    assert all(one != other for one, other in pairwise(kinds))
    assert len(set(kinds)) > 50


def test_events_cost_something() -> None:
    assert all(each > 0.0 for each in scale.events(2).values())


def test_what_is_kept_is_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale_results, "FILE", tmp_path / "scale.json")
    assert scale_results.load() == scale_results.EMPTY

    scale_results.keep(MEASURED)

    assert scale_results.load() == MEASURED


def test_the_table_has_a_column_for_each_size_and_leaves_out_what_was_not_measured() -> None:
    tables = scale_results.tables(MEASURED)

    assert tables["decided"].splitlines() == [
        "| load | 5,000 nodes | 15,000 nodes |",
        "| --- | ---: | ---: |",
        "| gangs | 10 + 30 µs: 25,000/s | 10 + 40 µs: 20,000/s |",
        "| trees |  | 20 + 60 µs: 12,500/s |",
    ]
    assert "| a heartbeat | 12 µs |" in tables["events"]
    assert "| 5,000 | 50,000 | 100 MiB |" in tables["held"]
