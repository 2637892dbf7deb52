"""The effort of tests: little in `make test`, much with `--long`.

The mutation run (tools.mutation) shows what the short counts catch; choose a count by that.
"""

from collections.abc import Container, Mapping
from typing import Final

import pytest
from _pytest.mark import ParameterSet
from hypothesis import HealthCheck, settings

EXAMPLES: Final = 20
"""Examples of a property in `make test`."""
LONG_EXAMPLES: Final = 100


def load(*, long: bool) -> None:
    """Set Hypothesis' defaults; call it before test modules are imported."""
    # No deadline: a noisy machine must not fail a test.
    common = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("short", common, max_examples=EXAMPLES)
    settings.register_profile("long", common, max_examples=LONG_EXAMPLES)
    settings.load_profile("long" if long else "short")


def is_long() -> bool:
    """Return true if the full counts are requested."""
    return settings.get_current_profile_name() == "long"


def examples(short: int, long: int) -> settings:
    """Return the settings of a property that needs counts of its own."""
    return settings(max_examples=long if is_long() else short)


def count(short: int, long: int) -> int:
    """Return the number of repetitions of a test."""
    return long if is_long() else short


def seeds(short: int, long: int) -> range:
    """Return the seeds of a test that repeats itself."""
    return range(count(short, long))


def selected(cases: Mapping[str, object], short: Container[str]) -> list[ParameterSet]:
    """Return the cases as parameters with their names; those not in `short` are marked long."""
    return [
        pytest.param(case, id=name, marks=[] if name in short else pytest.mark.long)
        for name, case in cases.items()
    ]
