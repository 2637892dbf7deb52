"""The runtime: writes are bounded and fenced, even those that waited their turn."""

import asyncio
from typing import Any, cast

import pytest

from controllers.objects import POD_GROUPS
from controllers.runtime import Controller, NotLeadingError, Writer
from kube.client import Client
from kube.election import Fence
from kube.errors import ServerError
from tests.support.clock import FakeClock, settle


class SlowServer:
    """Answers nothing until `open`."""

    def __init__(self) -> None:
        self.asked = 0
        self.open = asyncio.Event()

    async def create(self, *_: Any) -> dict[str, Any]:
        self.asked += 1
        await self.open.wait()
        return {}


async def test_a_burst_leaves_connections_for_the_lease() -> None:
    server = SlowServer()
    writer = Writer(cast("Client", server))
    writer.lead(Fence(FakeClock(), 0, float("inf")))

    burst = asyncio.gather(*(writer.create(POD_GROUPS, {}) for _ in range(100)))
    await settle()
    asked = server.asked
    server.open.set()
    await burst

    assert asked == 32
    assert server.asked == 100


async def test_a_write_that_waited_is_dropped_when_the_lease_is_lost_meanwhile() -> None:
    server = SlowServer()
    writer, fence = Writer(cast("Client", server)), Fence(FakeClock(), 0, float("inf"))
    writer.lead(fence)

    burst = asyncio.gather(
        *(writer.create(POD_GROUPS, {}) for _ in range(40)), return_exceptions=True
    )
    await settle()
    fence.revoke()
    server.open.set()
    results = await burst

    assert server.asked == 32
    assert sum(isinstance(result, NotLeadingError) for result in results) == 8


async def test_nothing_is_written_before_there_is_a_lease() -> None:
    with pytest.raises(NotLeadingError):
        await Writer(cast("Client", SlowServer())).create(POD_GROUPS, {})


async def test_after_a_success_failures_are_counted_anew() -> None:
    clock, fails = FakeClock(), True

    async def reconcile(_key: str) -> None:
        if fails:
            raise ServerError(500, "InternalError", "no")

    controller = Controller("t", reconcile, clock)
    for _ in range(8):
        await controller.handle("k")
    fails = False
    await controller.handle("k")
    await clock.advance(120)
    controller.queue.done(await controller.queue.get())
    fails = True
    await controller.handle("k")

    await clock.advance(0.2)
    assert len(controller.queue) == 1
    controller.queue.close()
