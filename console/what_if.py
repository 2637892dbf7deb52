"""A process of its own for each what-if question, so that none can harm the console.

The process gets a snapshot and the question on its standard input, and has limits of memory and
time. It runs `python -m analysis.what_if.worker`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Final, TypeVar

import msgspec

from analysis.fit.messages import FitResult
from analysis.what_if.messages import (
    MEMORY,
    SECONDS,
    WRONG,
    FitQuestion,
    Question,
    WhatIfAnswer,
    WhatIfRequest,
)
from console.base.protocols import WHAT_IF_BUSY, RefusedError, Viewer
from console.state.state import LiveCluster
from kube.base.clock import SystemClock
from kube.concurrency.stepwise import Stepwise
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.snapshot import snapshot as snapshots
from scheduler.snapshot.snapshot import Limits, Snapshot, queue_of

WAITING: Final = 4
"""Questions that may wait, one per viewer; one process runs at a time."""

T = TypeVar("T")

_FORBIDDEN: Final = (
    "What-if uses the complete cluster. It needs access to all namespaces and nodes."
)
_TOO_LONG: Final = (
    f"No result within {SECONDS:g} s, or too much memory: use fewer manifests or changes."
)


class WhatIfProcess:
    """Evaluates what-if questions about one cluster."""

    def __init__(
        self,
        cluster: LiveCluster,
        *,
        seconds: float = SECONDS,
        memory: int = MEMORY,
        stepwise: Stepwise | None = None,
    ) -> None:
        """Store the limits of a question.

        `stepwise` encodes the snapshot in steps: that takes long for a large cluster.
        """
        self._cluster = cluster
        self._seconds = seconds
        self._memory = memory
        self._turn = asyncio.Lock()
        self._asking: set[str] = set()
        spent = getattr(time, "thread_time", None)
        self._stepwise = stepwise or Stepwise(SystemClock(), spent)

    async def __call__(self, request: WhatIfRequest, viewer: Viewer) -> WhatIfAnswer:
        """Return the outcome of the changes. Raises RefusedError."""
        if viewer.namespaces is not None or not viewer.nodes:
            raise RefusedError(403, _FORBIDDEN)
        return await self._asked(viewer, WhatIfAnswer, request)

    async def fit(self, question: FitQuestion, viewer: Viewer) -> list[FitResult]:
        """Return the complete answers. Some viewers may see a part of them only.

        Raises RefusedError.
        """
        return await self._asked(viewer, list[FitResult], WhatIfRequest(), question)

    async def _asked(
        self, viewer: Viewer, form: type[T], request: WhatIfRequest, fit: FitQuestion | None = None
    ) -> T:
        if viewer.session in self._asking or len(self._asking) > WAITING:
            raise RefusedError(429, WHAT_IF_BUSY)
        self._asking.add(viewer.session)
        try:
            async with self._turn:
                question = await self._question(request, fit)
                code, output = await _run(question, self._seconds)
        finally:
            self._asking.discard(viewer.session)
        if code == WRONG:
            raise RefusedError(400 if fit is None else 422, output.decode("utf-8", "replace"))
        if code != 0:
            raise RefusedError(400 if fit is None else 503, _TOO_LONG)
        return msgspec.json.decode(output, type=form)

    async def _question(self, request: WhatIfRequest, fit: FitQuestion | None) -> bytes:
        """Return the current cluster with the question. Other tasks run while it is encoded."""
        taken, settings = await self._snapshot(), self._cluster.settings
        parts = await self._stepwise.awaited(
            lambda: snapshots.encode_in_parts(taken, self._stepwise.pause)
        )
        return msgspec.json.encode(
            Question(
                request,
                msgspec.Raw(b"".join(parts)),
                [str(feature) for feature in settings.gates.on],
                list(settings.scheduler_names.all),
                self._memory,
                fit,
            )
        )

    async def _snapshot(self) -> Snapshot:
        """Take a snapshot in steps; the freeze keeps the state unchanged meanwhile."""
        cluster, state, pause = self._cluster, self._cluster.state, self._stepwise.pause
        clock, preemption = SystemClock(), cluster.settings.preemption
        effort = SearchEffort.at(clock.monotonic(), preemption.patience_seconds)
        state.units.protection = preemption.protection(clock)
        limits = Limits.of(cluster.settings.budget, effort, preempts=cluster.settings.preempts)

        def taken() -> Snapshot:
            queue = queue_of(state, pause)
            return snapshots.take(
                state, queue, limits, cluster.priorities, decisions=0, pause=pause
            )

        await cluster.settled()
        with cluster.freeze:
            for _ in state.catch_up():
                await asyncio.sleep(0)
            for _ in state.units.refresh_in_steps():
                await asyncio.sleep(0)
            return await self._stepwise.awaited(taken)


async def _run(question: bytes, seconds: float) -> tuple[int | None, bytes]:
    """Return exit code and output of the process, which is killed when its time is over."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "analysis.what_if.worker"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate(question)
    except TimeoutError:
        return None, b""
    finally:
        # Also after a cancellation, when the viewer has left.
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, output
