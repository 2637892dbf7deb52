"""Durations are measured by the monotonic clock; the wall clock is only for timestamps."""

import ast
from collections.abc import Iterator

import pytest

from tests.structure.graph import ROOT

PACKAGES = ("analysis", "api", "certs", "console", "controllers", "kube", "scheduler", "webhooks")

STAMPS = {"rfc3339", "rfc3339_micro"}
"""The functions that format a wall-clock time."""

READINGS = {"now", "utcnow", "time"}

ALLOWED = {
    "kube/base/clock.py": "it is the clock",
    "kube/events/events.py": "the stamps of events, which are written later",
    "kube/credentials/plugins.py": "credentials end at a time of day",
    "scheduler/held_places/held_places.py": "the stamp of a status, of which `since` measures",
    "console/fit.py": "compares the stamps at which pods and held places end",
    "scheduler/watch/departures.py": "compares a stamp with the time of day once",
    "scheduler/support/config.py": "how long pods have run, by their startTime",
    "scheduler/preemption/defragmenter.py": "compares the stamp until which moves are asked for",
    "scheduler/preemption/disruption_target.py": "compares its stamp in a status, and writes it",
    "controllers/groups/idle_groups.py": "compares its own annotation, and writes it",
    "webhooks/server/maintenance.py": "certificates are valid by the time of day",
}


def readings(source: str) -> Iterator[int]:
    """Yield the lines that read the wall clock for anything other than a timestamp."""
    # Most modules name no clock, and to parse all of them takes seconds.
    if not any(f"{name}(" in source for name in READINGS):
        return
    tree = ast.parse(source)
    stamped = {
        id(argument)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _name(call.func) in STAMPS
        for argument in call.args
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and id(node) not in stamped and _reads(node.func):
            yield node.lineno


def _reads(function: ast.expr) -> bool:
    if not isinstance(function, ast.Attribute):
        return False
    return function.attr in READINGS and (
        function.attr != "time" or _name(function.value) == "time"
    )


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def test_only_stamps_read_the_time_of_day() -> None:
    found = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if list(readings(path.read_text(encoding="utf-8")))
    }
    assert found == set(ALLOWED)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("rfc3339(clock.now())", False),
        ("clock.monotonic() - since", False),
        ("time.monotonic()", False),
        ("clock.now() - since > patience", True),
        ("now = self._clock.now().timestamp()", True),
        ("time.time()", True),
        ("self.now() - begun", True),
        ("datetime.now(UTC)", True),
    ],
)
def test_what_reads_the_time_of_day(line: str, found: bool) -> None:
    assert bool(list(readings(line))) == found
