"""The cost of a test run: by suite, folder and file, next to the last run's figures."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

_FILES: Final = 20  # rows of files; the JSON document has all
_TESTS: Final = 12
_DEPTH: Final = 2  # parts of a folder's path: tests/scheduler, e2e/faults


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds on the wall and of the processor."""

    wall: float = 0.0
    processor: float = 0.0

    def __add__(self, other: Self) -> "Cost":
        return Cost(self.wall + other.wall, self.processor + other.processor)


@dataclass(frozen=True, slots=True)
class SuiteCost:
    """The cost of one run of pytest.

    `whole` includes the servers that it started; `tests` maps a test to its own cost.
    """

    name: str
    whole: Cost
    collection: Cost = Cost()
    tests: Mapping[str, Cost] = field(default_factory=dict)

    @classmethod
    def read(cls, name: str, whole: Cost, file: Path) -> Self:
        """Read the file of `tools.testing.usage`; a killed run has written none."""
        if not file.is_file():
            return cls(name, whole)
        recorded = json.loads(file.read_text())
        tests = {test: Cost(*cost) for test, cost in recorded["tests"].items()}
        return cls(name, whole, Cost(*recorded["collection"]), tests)


def folders(suites: Sequence[SuiteCost]) -> Mapping[str, Cost]:
    """Sum the tests of each folder."""
    return _summed(suites, lambda file: "/".join(file.split("/")[:-1][:_DEPTH]))


def files(suites: Sequence[SuiteCost]) -> Mapping[str, Cost]:
    """Sum the tests of each file."""
    return _summed(suites, lambda file: file)


def _summed(suites: Sequence[SuiteCost], key: Callable[[str], str]) -> Mapping[str, Cost]:
    sums: dict[str, Cost] = {}
    for suite in suites:
        for test, cost in suite.tests.items():
            name = key(test.partition("::")[0])
            sums[name] = sums.get(name, Cost()) + cost
    return sums


def text(suites: Sequence[SuiteCost], last: Mapping[str, float]) -> str:
    """Return the report. `last` maps suites, folders and files to earlier processor seconds."""
    return "\n".join(_lines(suites, last))


def _lines(suites: Sequence[SuiteCost], last: Mapping[str, float]) -> Iterator[str]:
    total = sum((suite.whole.processor for suite in suites), 0.0)
    yield f"processor seconds: {total:.0f}"
    yield from _table("suite", {suite.name: suite.whole for suite in suites}, last)
    yield from _table("folder", folders(suites), last)
    yield from _table("slowest files", files(suites), last, most=_FILES)
    tests = {test: cost for suite in suites for test, cost in suite.tests.items()}
    yield from _table("slowest tests", tests, {}, most=_TESTS)


def _table(
    title: str, rows: Mapping[str, Cost], last: Mapping[str, float], most: int | None = None
) -> Iterator[str]:
    yield f"{'wall':>8} {'processor':>10} {'last':>8}  {title}"
    ordered = Counter({name: cost.processor for name, cost in rows.items()}).most_common(most)
    for name, processor in ordered:
        before = f"{last[name]:8.1f}" if name in last else " " * 8
        yield f"{rows[name].wall:8.1f} {processor:10.1f} {before}  {name}"


def to_keep(suites: Sequence[SuiteCost]) -> Mapping[str, float]:
    """Return the processor seconds that the next report compares with."""
    kept = {suite.name: suite.whole.processor for suite in suites}
    for sums in (folders(suites), files(suites)):
        kept |= {name: cost.processor for name, cost in sums.items()}
    return {name: round(seconds, 2) for name, seconds in kept.items()}
