"""What all suites share: the full counts, how much the tests try, and what ends with a run.

`--long` runs tests marked `long`, too, and makes every property try more examples.
A run's processes and temporary files end with it, even if it is killed (tools.testing.guardian).
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
import yaml
from structlog.dev import ConsoleRenderer, plain_traceback

from tools.testing import effort
from tools.testing.guardian import Guardian

# For `yaml.safe_load`: it reads the same, in a tenth of the time.
yaml.SafeLoader = yaml.CSafeLoader  # type: ignore[misc, assignment]

pytest_plugins = ("tools.testing.usage",)

LONG_SECONDS = 3600  # of a test that tries many examples
GARBAGE = (50_000, 20, 100)  # the scheduler's own; with Python's it is a sixth of the unit tests
_GUARDIAN = pytest.StashKey[Guardian]()
_LOGGING = pytest.StashKey[dict[str, Any]]()
_LINE = 240  # characters of a line of the summary where no terminal says how many


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that `make test-long` gives."""
    parser.getgroup("muster").addoption(
        "--long", action="store_true", help="the full counts, and tests marked long"
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the counts, and have the summary name each failure's cause in full."""
    if not sys.stdout.isatty():
        config.get_terminal_writer().fullwidth = _LINE
    # Rich tracebacks cost a tenth of a second each.
    *processors, _ = structlog.get_config()["processors"]
    renderer = ConsoleRenderer(colors=False, exception_formatter=plain_traceback)
    structlog.configure(processors=[*processors, renderer])
    config.stash[_LOGGING] = structlog.get_config()
    config.stash[_GUARDIAN] = Guardian.begin()
    effort.load(long=config.getoption("--long"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is marked `long` unless asked for; with `--long` tests may take longer."""
    if config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(LONG_SECONDS))
        return
    long = [item for item in items if "long" in item.keywords]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if "long" not in item.keywords]


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at all test items again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """A command that configures the log of its process does so for its own test alone."""
    if structlog.get_config() != item.config.stash[_LOGGING]:
        structlog.configure(**item.config.stash[_LOGGING])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run fails that leaves a process behind: a test started it and did not end it."""
    for command in session.config.stash[_GUARDIAN].left():
        sys.stderr.write(f"\nERROR a process was left running: {command}\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what was left running."""
    config.stash[_GUARDIAN].end()


@pytest.fixture(scope="session", autouse=True)
def temporary_files(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Temporary files of the run, its child processes' included, are in pytest's own folder."""
    pytestconfig.stash[_GUARDIAN].remove(tmp_path_factory.getbasetemp())
    folder = str(tmp_path_factory.mktemp("temporary"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(os.environ, "TMPDIR", folder)
        patched.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(scope="session")
def long(pytestconfig: pytest.Config) -> bool:
    """Whether the full counts are wanted."""
    return bool(pytestconfig.getoption("--long"))
