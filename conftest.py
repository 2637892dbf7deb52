"""Common configuration of all suites: example counts, and the cleanup at the end of a run.

`--long` also runs tests marked `long`, and lets every property test use more examples. A run's
processes and temporary files end with it, even if it is killed (tools.testing.guardian).
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from structlog.dev import ConsoleRenderer, plain_traceback

from tools.testing import effort
from tools.testing.guardian import Guardian

# For `yaml.safe_load`: the same result, in a tenth of the time.
yaml.SafeLoader = yaml.CSafeLoader  # type: ignore[misc, assignment]

pytest_plugins = ("tools.testing.teardown_limit", "tools.testing.usage")

LONG_SECONDS = 3600  # of a test with many examples
GARBAGE = (50_000, 20, 100)  # the scheduler's own; Python's default costs a sixth of the unit tests
_GUARDIAN = pytest.StashKey[Guardian]()
_LOGGING = pytest.StashKey[dict[str, Any]]()
_LINE = 240  # width of a line of the summary unless a terminal reports its own


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make test-long`."""
    parser.getgroup("muster").addoption(
        "--long", action="store_true", help="the full counts, and tests marked long"
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the example counts, and let the summary show each failure's complete cause."""
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
    """Skip tests marked `long` unless requested; with `--long` tests may take longer."""
    if config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(LONG_SECONDS))
        return
    # Not its keywords: these have the names of folders too, and a checkout may be called `long`.
    long = [item for item in items if item.get_closest_marker("long") is not None]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item.get_closest_marker("long") is None]


def pytest_collection_finish() -> None:
    """Exclude all test items from later garbage collections."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Restore the logging configuration that a command changed for its process."""
    if structlog.get_config() != item.config.stash[_LOGGING]:
        structlog.configure(**item.config.stash[_LOGGING])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run whose tests left a process running."""
    for command in session.config.stash[_GUARDIAN].left():
        sys.stderr.write(f"\nERROR a process was left running: {command}\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    """End all remaining processes."""
    config.stash[_GUARDIAN].end()


@pytest.fixture(scope="session", autouse=True)
def temporary_files(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """The folder for temporary files of the run and its child processes, inside pytest's own."""
    pytestconfig.stash[_GUARDIAN].remove(tmp_path_factory.getbasetemp())
    folder = str(tmp_path_factory.mktemp("temporary"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(os.environ, "TMPDIR", folder)
        patched.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(scope="session")
def removed_at_end(pytestconfig: pytest.Config) -> Callable[[Path], None]:
    """A function that has a folder outside of pytest's own removed if the run is killed."""
    return pytestconfig.stash[_GUARDIAN].remove


@pytest.fixture(scope="session")
def long(pytestconfig: pytest.Config) -> bool:
    """True if the full example counts are requested."""
    return bool(pytestconfig.getoption("--long"))
