"""The process that evaluates one what-if question; `console.what_if` starts it."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from analysis.fit.fit import MOST_OBJECTS, answers, decisions, entries_of
from analysis.fit.known_ends import Times
from analysis.fit.messages import FitResult
from analysis.simulate.deciding import Setup
from analysis.simulate.simulate import id_of
from analysis.simulate.stored_pods import PodAdmission
from analysis.what_if.messages import MEMORY, SECONDS, WRONG, FitQuestion, Question, WhatIfAnswer
from analysis.what_if.what_if import what_if
from api.features import Feature, FeatureGates
from api.scheduler_names import SchedulerNames
from kube.base.clock import SystemClock
from kube.base.errors import ConfigError
from scheduler.snapshot import snapshot as snapshots
from scheduler.snapshot.snapshot import Snapshot

_CONTAINER: Final = Path("/sys/fs/cgroup/memory.max")
"""The container's memory limit (cgroup v2). Beyond it the kernel may end the console, too."""


def memory_limit(container: Path = _CONTAINER) -> int:
    """Return the bytes that this process may have: half of its container's, MEMORY at most."""
    try:
        said = container.read_text().strip()
    except OSError:
        return MEMORY
    return min(MEMORY, int(said) // 2) if said.isdecimal() else MEMORY


def _limit_memory(most: int) -> None:
    """Limit the memory, never above the limit that the process already has."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def main() -> int:
    """Evaluate the question on standard input."""
    # First the container's limit, as the question itself may be large; then that of the question.
    _limit_memory(memory_limit())
    # The kernel ends a process whose decision does not respect the time.
    resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS), int(SECONDS)))
    until = time.monotonic() + SECONDS / 2
    try:
        result = _result(sys.stdin.buffer.read(), until)
    except ConfigError as error:
        sys.stdout.buffer.write(str(error).encode())
        return WRONG
    sys.stdout.buffer.write(msgspec.json.encode(result))
    return 0


def _result(data: bytes, until: float) -> WhatIfAnswer | list[FitResult]:
    question = msgspec.json.decode(data, type=Question)
    _limit_memory(question.memory)
    taken = snapshots.decode(bytes(question.snapshot), "the cluster")
    on = frozenset(Feature(name) for name in question.gates)

    def expired() -> bool:
        return time.monotonic() >= until

    setup = Setup(
        budget=taken.limits.budget(),
        effort=taken.limits.effort(),
        preempts=taken.limits.preempts,
        pods=PodAdmission(tuple(taken.priorities)),
        schedulers=SchedulerNames(tuple(question.schedulers)),
        gates=FeatureGates(on),
        expired=expired,
    )
    if question.fit is not None:
        # A search that lasts longer is cut off, and its result is unknown.
        limited = replace(setup, budget=replace(setup.budget, expired=expired))
        return list(_fit(taken, question.fit, limited))
    return what_if(snapshots.restore(taken)[0], question.request, setup)


def _fit(taken: Snapshot, question: FitQuestion, setup: Setup) -> Iterator[FitResult]:
    """Yield the results, each decision on a copy of its own."""
    request, held = question.request, question.held_until
    entries = entries_of(request, setup.pause)
    asked = [entries[number] for number in question.only]
    # Pods' ends are in the time of this machine, which the process shares with the console.
    monotonic = SystemClock().monotonic()
    times = Times(question.now, monotonic, lambda key: held.get(id_of(key)))
    for some in decisions(asked, together=request.together):
        state, _ = snapshots.restore(taken)
        yield from answers(state, some, request.namespace, setup, times, most=MOST_OBJECTS)


if __name__ == "__main__":
    sys.exit(main())
