"""Bindings that wait for ResourceClaims: when they are sent, and when they are given up.

No pod of a root's minimum is bound before the claims of the complete minimum are ready. Each pod
beyond the minimum is bound once its own claims are ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from kube.leader.election import Fence
from scheduler.binding.in_flight import PodBinding
from scheduler.claims.allocation_writer import AllocationWriter
from scheduler.core.values.model import GroupKey
from scheduler.queue.shell import Shell

_WITH_OTHERS: Final = "the ResourceClaims of its group could not be had"

_log = structlog.get_logger()


class Allocating:
    """The Bindings whose ResourceClaims are being written.

    `ready` gets Bindings whose claims are ready, `failed` a Binding that is not sent, and the
    reason. Neither is called during a freeze.
    """

    def __init__(
        self,
        allocations: AllocationWriter,
        shell: Shell,
        *,
        timeout_of: Callable[[GroupKey], float],
        ready: Callable[[list[PodBinding]], None],
        failed: Callable[[PodBinding, str, Fence], None],
    ) -> None:
        self._allocations = allocations
        self._clock = shell.clock
        self._timeout_of = timeout_of
        self._ready = ready
        self._failed = failed
        self._freeze = shell.freeze
        self.reset()

    def reset(self) -> None:
        """Begin a new term: nothing is under way."""
        self._queued: asyncio.Queue[tuple[list[PodBinding], int]] = asyncio.Queue()

    def put(self, bindings: list[PodBinding], minimums: int) -> None:
        """Write the claims of these pods; the first `minimums` depend on each other."""
        self._queued.put_nowait((bindings, minimums))

    async def run(self, fence: Fence) -> None:
        """Write claims while the lease is held, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                bindings, minimums = await self._queued.get()
                group.create_task(self._begin(bindings, minimums, fence, group))

    async def _begin(
        self, bindings: list[PodBinding], minimums: int, fence: Fence, group: asyncio.TaskGroup
    ) -> None:
        first, extras = bindings[:minimums], bindings[minimums:]
        if first and not await self._send_once_ready(first, fence):
            # Extras run only next to a complete minimum.
            for binding in extras:
                self._failed(binding, _WITH_OTHERS, fence)
            return
        for binding in extras:
            # A task for each: the claims of one extra must not delay the others.
            group.create_task(self._send_once_ready([binding], fence))

    async def _send_once_ready(self, bindings: list[PodBinding], fence: Fence) -> bool:
        """Send the Bindings once the claims of all of them are ready, otherwise none of them."""
        intent, pods = bindings[0].intent, [binding.pod for binding in bindings]
        try:
            problem = await self._allocations.write_and_confirm(pods, intent.deadline, fence)
        except Exception as error:  # noqa: BLE001 - logged; the root is decided again
            _log.exception("ResourceClaims raised an unexpected error", root="/".join(intent.root))
            problem = f"{type(error).__name__} in the scheduler"
        await self._freeze.over()
        if problem:
            for binding in bindings:
                self._failed(binding, problem, fence)
            return False
        if self._allocations.with_conditions(pods):
            # Drivers prepared the devices meanwhile. That time does not count for the Bindings.
            intent.deadline = self._clock.monotonic() + self._timeout_of(intent.root)
        self._ready(bindings)
        return True
