"""The reports of a run: the table, JSON, the page, limits."""

import json
import re

import pytest

from analysis.lab import usage
from analysis.lab.cluster import Cluster
from analysis.lab.errors import LabError
from analysis.lab.limits import broken, limit_of
from analysis.lab.page import page
from analysis.lab.report import table, to_json
from analysis.lab.results import Result, result_of
from analysis.lab.variants import Variant, variant_of
from tests.analysis.lab.builders import RACK, cluster, job, play


@pytest.fixture(scope="module")
def results() -> list[Result]:
    jobs = [job(f"j{n}", 10 * n, 3600, pods=1 + n % 5, priority=n % 2) for n in range(20)]
    nodes = cluster(3, rack_of=2)
    return [result_of(play(nodes, *jobs, variant=name)) for name in ("muster", "one-by-one")]


def test_the_table_has_a_column_for_each_variant(results: list[Result]) -> None:
    head, *rows = table(results)

    assert head.split() == ["muster", "one-by-one"]
    assert "nodes" in rows[0]
    found = {line[: line.index("  ")].strip(): line for line in rows}
    assert found["jobs finished"].split()[-3:] == ["20", "of", "20"]
    assert found["cpu held by jobs that do not run"].split()[-4:-2] == ["0.0", "%"]
    assert "wait P90, priority 1" in found


def test_json_has_all_numbers(results: list[Result]) -> None:
    read = json.loads(to_json(results))["results"]

    assert [each["variant"] for each in read] == ["muster", "one-by-one"]
    assert read[0]["wait"]["jobs"] == 20
    assert read[0]["domains"][0]["count"] == 2
    waits = read[0]["wait"]
    assert waits["median"] <= waits["p90"] <= waits["p99"] <= waits["longest"]


def test_json_has_each_domain_over_time() -> None:
    """Two racks: the first is full for one hour of two, the second empty."""
    run = play(cluster(2, rack_of=1), job("a", 0, 3600, pods=4), until=7200)
    (racks,) = result_of(run).domains

    assert racks.span == 128
    full = racks.over_time["cpu"]
    assert full.keys() == {"n-0000", "n-0001"}
    assert full["n-0000"][:28] == [1.0] * 28
    assert full["n-0000"][28] == pytest.approx(16 / 128)
    assert set(full["n-0000"][29:]) == set(full["n-0001"]) == {0.0}
    assert racks.used["cpu"] == (0.0, 0.25, 0.5)


def test_of_the_nodes_of_a_snapshot_those_keys_count_that_jobs_name() -> None:
    nodes = Cluster(others=tuple(cluster(4, rack_of=2).nodes()))
    gang = job("a", 0, 100, pods=8, topology="required", key=RACK)

    (racks,) = result_of(play(nodes, gang)).domains

    assert (racks.key, racks.count, racks.used["cpu"]) == (RACK, 2, (0.0, 0.5, 1.0))
    assert result_of(play(nodes, job("a", 0, 100))).domains == []


def test_thousands_of_domains_have_fewer_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MOST_VALUES", 6)
    run = play(cluster(3, rack_of=1), job("a", 0, 3600, pods=4), until=7200)
    (racks,) = result_of(run).domains

    assert [len(shares) for shares in racks.over_time["cpu"].values()] == [2, 2, 2]
    assert sum(racks.over_time["cpu"]["n-0000"]) * racks.span == pytest.approx(3600)


@pytest.mark.long
def test_the_page_comes_again(results: list[Result]) -> None:
    assert page(results, "t") == page(results, "t")


def test_the_page_is_one_file_that_asks_nobody_for_anything(results: list[Result]) -> None:
    text = page(results, "<script>alert(1)</script>")

    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert text.count("<svg") == 5  # cpu, wasted cpu, by rack, fragments, waits
    assert not re.search(r"""(src|href)=["'](?!#)""", re.sub(r"xmlns\S*", "", text))


def test_names_of_variants_are_text_in_plots_too(results: list[Result]) -> None:
    import msgspec

    hostile = [msgspec.structs.replace(results[0], variant="<b>$x^2$")]

    assert "<b>" not in page(hostile, "t")


@pytest.mark.parametrize(
    ("limit", "holds"),
    [
        ("wait.p99 > 1s", True),
        ("wait.p99 > 1000d", False),
        ("muster: cpu.idle_partial > 0", False),
        ("one-by-one: cpu.idle_partial > 0%", True),
        ("wait_by_priority.1.p90 >= 0", True),
        ("cpu.used < 100.1%", True),
        ("fragmentation.largest.example.com/rack <= 100", True),
        ("finished < 20", False),
    ],
)
def test_a_limit_is_broken_where_it_holds(
    results: list[Result], limit: str, *, holds: bool
) -> None:
    assert bool(broken([limit_of(limit)], results)) == holds


def test_what_breaks_a_limit_is_said_with_its_number(results: list[Result]) -> None:
    assert broken([limit_of("muster: nodes >= 3")], results) == [
        "muster: nodes is 3, 'muster: nodes >= 3' is true"
    ]


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        ("wait.p99", "use the form"),
        ("wait.p99 > soon", "'soon' is not a duration"),
        ("wait.p98 > 1", "wait.p98 not found: use one of jobs, unstarted"),
        ("wait > 1", "wait is not a number"),
        ("spread: wait.p99 > 1", "no variant has the name spread"),
    ],
)
def test_a_limit_that_cannot_be_judged_says_why(
    results: list[Result], limit: str, problem: str
) -> None:
    with pytest.raises(LabError, match=re.escape(problem)):
        broken([limit_of(limit)], results)


def test_parts_of_a_variant_are_joined() -> None:
    assert variant_of("spread+nodes=8+no-preemption") == Variant(
        "spread+nodes=8+no-preemption", scoring="spread", preemption=False, nodes=8
    )


@pytest.mark.parametrize("written", ["fast", "nodes=0", "nodes=many", "give-up=soon", "", "a+b"])
def test_an_unknown_part_is_named_with_those_there_are(written: str) -> None:
    with pytest.raises(LabError, match="variant"):
        variant_of(written)
