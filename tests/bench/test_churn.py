"""The report of an hour of churn: growth is told apart from noise."""

import pytest

from bench import churn
from e2e.muster import ALL


def _rows(memory: list[float], latency: list[float]) -> list[churn.Row]:
    return [
        churn.Row(minute + 1, 100, 300, p50, p50, dict.fromkeys(ALL, mib), dict.fromkeys(ALL, 1.0))
        for minute, (mib, p50) in enumerate(zip(memory, latency, strict=True))
    ]


@pytest.mark.parametrize(
    ("memory", "latency", "good"),
    [
        pytest.param([100] * 12, [0.01] * 12, True, id="all is as it was"),
        pytest.param([90, 95] + [100] * 10, [0.01] * 12, True, id="more in the beginning"),
        pytest.param([100 + 5 * m for m in range(12)], [0.01] * 12, False, id="more and more"),
        pytest.param([100] * 12, [0.01] * 8 + [0.03] * 4, False, id="slower in the end"),
    ],
)
def test_growth_is_reported(memory: list[float], latency: list[float], good: bool) -> None:
    text, kept = churn.report(_rows(memory, latency), 2.0)

    assert kept is good
    assert text.count("\n| ") >= 12
