"""The supported numbers: each is measured, and the table states what."""

from functools import partial
from pathlib import Path

import pytest

from tools.bench.decisions import supported
from tools.bench.report import supported_results
from tools.bench.report.supported_results import Supported

pytestmark = pytest.mark.long

FOUND = [
    Supported("PodGroups", 50_000, 203.4, "MiB"),
    Supported("pods in one PodGroup", 10_000, 1.25, "s"),
    Supported("gangs of eight that wait", 10_000, 0.012, "s"),
]


@pytest.mark.parametrize("what", supported.MEASURED)
def test_each_number_is_measured(what: str) -> None:
    """The functions assert that all is placed, or that nothing is."""
    _, unit, run = supported.MEASURED[what]
    small = run if unit == "MiB" else partial(run, nodes=100)

    assert small(100) >= 0.0


def test_what_is_kept_is_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supported_results, "FILE", tmp_path / "supported.json")
    assert supported_results.load() == []

    supported_results.keep(FOUND)

    assert supported_results.load() == FOUND


def test_the_table_states_number_and_cost() -> None:
    assert supported_results.table(FOUND).splitlines()[2:] == [
        "| 50,000 PodGroups | 203 MiB in the scheduler |",
        "| 10,000 pods in one PodGroup | 1.2 s for the decision |",
        "| 10,000 gangs of eight that wait | 12 ms for each pod that ends |",
    ]
