"""The parts of the lab's benchmark have the same load, and growth is told as a power."""

from __future__ import annotations

import pytest

from bench.lab import EXAMPLES, Point, growth, part_of, table
from lab.cluster import read_cluster
from lab.generate import generate, read_recipe


def test_a_part_has_that_part_of_nodes_and_jobs_in_the_same_time() -> None:
    whole = read_cluster(EXAMPLES / "cluster.yaml"), read_recipe(EXAMPLES / "week.yaml")

    cluster, recipe = part_of(*whole, 100)

    assert len(cluster.nodes()) == 12
    jobs = generate(recipe, 1)
    assert len(jobs) == 200
    assert 5 * 86400 < jobs[-1].arrival <= 7 * 86400


@pytest.mark.parametrize(("seconds", "power"), [(4.0, 2.0), (2.0, 1.0), (1.0, 0.0)])
def test_growth_is_the_power_of_the_jobs(seconds: float, power: float) -> None:
    before, after = Point(100, 1, 1, 1.0), Point(200, 2, 1, seconds)

    assert growth(before, after) == pytest.approx(power)
    assert table([before, after])[-1].endswith(f"| {power:.2f} |")
