"""A pytest plugin that limits the time of the fixtures of a test that failed.

pytest-timeout stops its timer when a test fails, so nothing ends a fixture that waits for ever. One
does if the test ran out of time: the error was raised wherever the test was, also in the middle of
an event loop, which may then lose the handle that a task waits for. Whoever closes the loop waits
for that task.
"""

import signal
from collections.abc import Iterator

import pytest

SECONDS = 300.0
"""Seconds that all fixtures of a test have after it failed."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Fail the teardown after some time, unless pytest-timeout still limits it."""
    if signal.getitimer(signal.ITIMER_REAL)[0] > 0.0:
        return (yield)
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"Teardown took {SECONDS:g} s."))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
