"""How the time of decisions grows."""

import pytest

from bench.growth_curves import power


@pytest.mark.parametrize("wanted", [0.5, 1.0, 2.0])
def test_the_power_of_growth_is_that_of_the_upper_half(wanted: float) -> None:
    points = [(1.0, 50.0), (10.0, 10.0**wanted), (100.0, 100.0**wanted)]
    assert power([(0.1, 50.0), *points]) == pytest.approx(wanted)
