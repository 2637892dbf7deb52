"""The page of metrics: the meaning of each is its help, and the help can be read alone."""

import pytest

from tools.metrics_page import PAGE, Exported, exported, page

EXPORTED = list(exported())


def test_the_committed_page_has_the_help_of_the_code() -> None:
    committed = PAGE.read_text("utf-8")

    assert committed == page(committed), "docs/metrics.md is stale: run make generate"


@pytest.mark.parametrize("metric", EXPORTED, ids=lambda it: it.name)
def test_a_help_is_a_sentence_that_stands_alone(metric: Exported) -> None:
    first, *rest = metric.text.split()

    assert first[0].isupper() or first == "1"
    assert metric.text.endswith(".")
    assert not {"such", "these", "those"} & set(rest)


@pytest.mark.parametrize("metric", EXPORTED, ids=lambda it: it.name)
def test_a_help_names_what_is_counted_or_the_unit(metric: Exported) -> None:
    if metric.histogram and metric.name.endswith("_seconds"):
        assert metric.text.startswith("Duration in seconds ")
    elif metric.name.endswith("_total") and "seconds" not in metric.name:
        assert metric.text.startswith("Number of ")
