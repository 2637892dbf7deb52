"""The benchmarks of the console work, at a small size."""

from functools import partial

import pytest

from tools.bench.components import console
from tools.bench.report.frame import Case

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "NODES", 500)
    watched = partial(console.watched, nodes=500, pods=1_000, waiting=300)
    monkeypatch.setattr(console, "watched", watched)


@pytest.mark.parametrize("case", console.CASES, ids=lambda case: case.title)
def test_a_case_runs(case: Case) -> None:
    assert all(seconds >= 0 for seconds in case.run())


def test_an_update_is_told_to_every_page() -> None:
    assert len(list(console.updates(rounds=3, viewers=4))) == 3
