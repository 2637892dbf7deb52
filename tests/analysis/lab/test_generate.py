"""Generated traces: the seed determines them, and they have the requested distributions."""

import statistics
from collections import Counter
from pathlib import Path

import pytest

from analysis.lab.errors import LabError
from analysis.lab.generate import JobKind, Recipe, generate, read_recipe
from analysis.lab.trace import write_trace

KIND = JobKind(
    requests={"cpu": "1"}, median="1h", pods={"1": 3, "8": 1}, topology="required", key="rack"
)


def recipe(**more: object) -> Recipe:
    return Recipe(**{"jobs": 4000, "span": "10d", "kinds": {"a": KIND}, **more})  # type: ignore[arg-type]


def test_the_seed_decides() -> None:
    small = recipe(jobs=200)

    assert write_trace(generate(small, 3)) == write_trace(generate(small, 3))
    assert generate(small, 3) != generate(small, 4)


def test_sizes_durations_and_arrivals_are_as_asked_for() -> None:
    jobs = generate(recipe(daily=1.0), 1)

    assert len(jobs) == 4000
    assert 0.2 < statistics.mean(job.pods == 8 for job in jobs) < 0.3
    assert 3300 < statistics.median(job.duration for job in jobs) < 3900
    assert max(job.duration for job in jobs) <= 7 * 86400
    by_day = statistics.mean(6 <= job.arrival / 3600 % 24 < 18 for job in jobs)
    assert by_day > 0.75  # the rate is highest at noon, and 0 at midnight
    assert all(0 <= job.arrival <= 864000 for job in jobs)


def test_jobs_may_come_in_bursts_and_are_no_more_for_that() -> None:
    sweep = JobKind(requests={"cpu": "1"}, median="1h", burst={"1": 1, "50": 1})
    jobs = generate(recipe(kinds={"a": KIND, "sweep": sweep}, namespaces=3), 1)

    assert len(jobs) == len({job.name for job in jobs}) == 4000
    bursts = Counter((job.arrival, job.namespace) for job in jobs if job.name.startswith("sweep"))
    assert {1, 50} <= set(bursts.values())
    assert sorted(bursts.values())[-10:] == [50] * 10
    alone = Counter(job.arrival for job in jobs if job.name.startswith("a"))
    assert max(alone.values()) <= 2


def test_only_jobs_of_several_pods_are_confined() -> None:
    assert {(job.pods, job.key) for job in generate(recipe(), 1)} == {(1, ""), (8, "rack")}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("jobs: 0", "at `$.jobs`"),
        ("jobs: 1\nspan: 1d\nkinds: {}", "at `$.kinds`"),
        (
            "jobs: 1\nspan: 1d\nkinds: {a: {requests: {}, median: 1h, sizes: 3}}",
            "unknown field `sizes`",
        ),
    ],
)
def test_a_wrong_recipe_is_named_with_its_field(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "r.yaml"
    file.write_text(text)

    with pytest.raises(LabError) as raised:
        read_recipe(file)

    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"span": "long"}, "the recipe: span: 'long' is not a duration"),
        (
            {"kinds": {"a": JobKind(requests={}, median=1, pods={"some": 1})}},
            "the recipe: pods: must map numbers to weights",
        ),
        (
            {"kinds": {"a": JobKind(requests={}, median=1, pods={"9" * 9: 1})}},
            "the recipe: pods: must map numbers to weights",
        ),
        (
            {"kinds": {"a": JobKind(requests={}, median=1, burst={"0": 1})}},
            "the recipe: burst: must map numbers to weights",
        ),
        (
            {"kinds": {"a": JobKind(requests={}, median=1, pods={"999": 1}, replicas=99_999)}},
            "the recipe: pods times replicas must be",
        ),
        (
            {"kinds": {"a": JobKind(requests={"cpu": "x"}, median=1)}},
            "requests: not a quantity: 'x'",
        ),
    ],
)
def test_a_wrong_value_is_named(change: dict[str, object], problem: str) -> None:
    with pytest.raises(LabError, match=problem):
        generate(recipe(**change), 1)
