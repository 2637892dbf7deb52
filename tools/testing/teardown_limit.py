"""A pytest plugin that limits the time of the fixtures of a test that failed.

pytest-timeout stops its timer when a test fails, so nothing ends a fixture that waits forever. This
happens after a timeout: the error may interrupt an event loop, which then loses the handle that
resumes a task. The fixture that closes the loop waits for this task.
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
