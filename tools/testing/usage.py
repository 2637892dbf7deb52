"""A pytest plugin that records the cost of each test, and names those that fail at once.

`pytest -p tools.testing.usage --usage=FILE` writes one JSON document when the run ends. Processor
seconds are those of pytest itself and of child processes that ended during the test. Servers that
live for the complete run count for the run only; the process that starts pytest measures them.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


class Recorder:
    """Wall and processor seconds by test, and of the collection."""

    def __init__(self, file: Path, config: pytest.Config) -> None:
        self._file = file
        self._config = config
        self._begin = (time.monotonic(), _processor())
        self._collection = (0.0, 0.0)
        self._tests: dict[str, tuple[float, float]] = {}

    @pytest.hookimpl
    def pytest_collection_finish(self) -> None:
        self._collection = _since(self._begin)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begin = (time.monotonic(), _processor())
        try:
            return (yield)
        finally:
            self._tests[item.nodeid] = _since(begin)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name a test that failed: pytest itself does so when a suite of an hour has ended."""
        if report.failed:
            terminal = self._config.get_terminal_writer()
            terminal.line(f" {report.when} of {report.nodeid}", flush=True)

    @pytest.hookimpl
    def pytest_unconfigure(self) -> None:
        report = {"collection": self._collection, "tests": self._tests}
        self._file.write_text(json.dumps(report))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the file."""
    parser.getgroup("muster").addoption(
        "--usage", type=Path, metavar="FILE", help="write what each test costs, as JSON"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Record if a file is named."""
    file: Path | None = config.getoption("--usage")
    if file is not None:
        config.pluginmanager.register(Recorder(file, config), "muster-usage")


def _processor() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _since(begin: tuple[float, float]) -> tuple[float, float]:
    wall, processor = begin
    return time.monotonic() - wall, _processor() - processor
