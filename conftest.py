"""What all suites share: the full counts, and how hard Hypothesis tries.

`--long` runs tests marked `long` and makes every property try LONG_TIMES as many examples.
"""

from __future__ import annotations

import sys

import pytest
from hypothesis import HealthCheck, settings

LONG_TIMES = 25
EXAMPLES = 60
_LINE = 240  # characters of a line of the summary where no terminal says how many


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that `make test-long` gives."""
    parser.getgroup("muster").addoption(
        "--long", action="store_true", help="the full counts, and tests marked long"
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """No deadline: a noisy machine must fail no test. The summary names each failure's cause."""
    if not sys.stdout.isatty():
        config.get_terminal_writer().fullwidth = _LINE
    common = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("short", common, max_examples=EXAMPLES)
    settings.register_profile("long", common, max_examples=EXAMPLES * LONG_TIMES)
    settings.load_profile("long" if config.getoption("--long") else "short")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is marked `long` unless asked for."""
    if config.getoption("--long"):
        return
    skip = pytest.mark.skip(reason="full counts: run with --long")
    for item in items:
        if "long" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def long(pytestconfig: pytest.Config) -> bool:
    """Whether the full counts are wanted."""
    return bool(pytestconfig.getoption("--long"))
