"""The lab's benchmark: parts of the same load, growth as a power, and pictures of results."""

import math
import re

import pytest

from analysis.lab.amounts import seconds_of
from analysis.lab.cluster import read_cluster
from analysis.lab.generate import generate, read_recipe
from tools.bench import page
from tools.bench.components.lab import EXAMPLES, part_of, play_week
from tools.bench.report import lab_results
from tools.bench.report.lab_results import Point, growth, table

PAGE = page.LAB.read_text("utf-8")
KEPT = lab_results.load()


def shown(question: int, label: str) -> list[float]:
    """Return a row of one of the page's printed tables, in seconds."""
    block = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)[question]
    row = next(line for line in block.splitlines() if line.startswith(label))
    cells = re.split(r"\s{2,}", row[len(label) :].strip())
    return [seconds_of(cell.replace(" ", "")) for cell in cells]


def test_a_part_has_that_part_of_nodes_and_jobs_in_the_same_time() -> None:
    whole = read_cluster(EXAMPLES / "cluster.yaml"), read_recipe(EXAMPLES / "week.yaml")

    cluster, recipe = part_of(*whole, of_nodes=50, of_jobs=100)

    assert len(cluster.nodes()) == 24
    jobs = generate(recipe, 1)
    assert len(jobs) == 200
    assert 5 * 86400 < jobs[-1].arrival <= 7 * 86400


def test_a_part_of_the_time_has_the_same_load() -> None:
    whole = read_cluster(EXAMPLES / "cluster.yaml"), read_recipe(EXAMPLES / "week.yaml")

    cluster, recipe = part_of(*whole, of_jobs=10, of_time=10)

    assert len(cluster.nodes()) == 1200
    assert recipe.jobs / seconds_of(recipe.span) == pytest.approx(20_000 / (7 * 86400))


@pytest.mark.parametrize(("seconds", "power"), [(4.0, 2.0), (2.0, 1.0), (1.0, 0.0)])
def test_growth_is_the_power_of_what_grows(seconds: float, power: float) -> None:
    before, after = Point(100, 1, 1, 1.0), Point(200, 2, 1, seconds)
    nodes_alone = Point(100, 2, 1, seconds)

    assert growth(before, after) == pytest.approx(power)
    assert growth(before, nodes_alone) == pytest.approx(power)
    assert table([before, after]).endswith(f"| {power:.2f} |\n")


def test_the_page_and_its_pictures_are_of_what_was_kept() -> None:
    assert lab_results.tables(KEPT.growth) in PAGE
    drawn = lab_results.pictures(KEPT)
    for name, picture in drawn.items():
        assert f"(pictures/{name})" in PAGE
        assert (page.PICTURES / name).read_text("utf-8") == picture, name
    assert len(drawn) == len(set(re.findall(r"\(pictures/(lab-.*?\.svg)\)", PAGE)))


def test_the_kept_week_is_that_of_the_printed_tables() -> None:
    weeks = {week.variant: week for week in KEPT.weeks}
    baselines = [weeks[name] for name in lab_results.BASELINES]
    more = [weeks[name] for name in ("muster", *lab_results.MORE_NODES)]

    for label, key in (("wait, P90", "all"), ("wait P90, 5-8 pods", "5-8")):
        assert shown(0, label) == pytest.approx([it.p90[key] for it in baselines], abs=60)
    assert shown(2, "wait, P90") == pytest.approx([it.p90["all"] for it in more], abs=60)
    assert shown(2, "wait, P99") == pytest.approx([it.p99 for it in more], abs=60)


@pytest.mark.long  # tests/analysis/lab/test_docs.py plays it in each run
def test_the_kept_week_comes_again() -> None:
    assert play_week("muster") == KEPT.weeks[0]


def test_time_grows_at_most_linearly() -> None:
    """With more jobs in the same time the cluster fills, and more decisions are repeated.

    So the stored results are compared by decisions.
    """
    both, jobs, nodes = KEPT.growth.both, KEPT.growth.jobs, KEPT.growth.nodes

    assert growth(both[0], both[-1]) < 1.1
    assert growth(KEPT.growth.longer[0], KEPT.growth.longer[-1]) < 1.1
    assert growth(nodes[0], nodes[-1]) < 1.1
    decided = math.log(jobs[-1].decisions / jobs[0].decisions)
    assert math.log(jobs[-1].seconds / jobs[0].seconds) / decided < 1.1
