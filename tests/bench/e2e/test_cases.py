"""The cases of the end-to-end measurements."""

import pytest

from bench.e2e.cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_a_small_case_keeps_its_shape(name: str) -> None:
    case = CASES[name]
    small = case.scaled(100, 0.1)
    assert small.pods == pytest.approx(case.pods * 0.1, rel=0.5, abs=case.size)
    assert (small.racks, small.rate, small.subjects) == (case.racks, case.rate, case.subjects)
