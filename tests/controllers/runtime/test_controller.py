"""The runtime: writes are bounded and fenced, including queued ones."""

import asyncio
from typing import Any

from structlog.testing import capture_logs

from controllers.cache.objects import POD_GROUPS
from controllers.runtime.controller import Controller, NotLeadingError, Writer, queue_all
from kube.base.errors import ServerError
from kube.client.meta import ObjectMeta, Partial
from kube.leader.election import Fence
from tests.support.clock import FakeClock, settle
from tests.support.memory_api import MemoryApi


def group(namespace: str) -> dict[str, Any]:
    return {"metadata": {"generateName": "g-", "namespace": namespace}}


def slow_server() -> tuple[MemoryApi, asyncio.Event]:
    """Return an API server that delays creations until the event."""
    api, opened = MemoryApi(), asyncio.Event()
    api.on(lambda _: opened.wait(), "create")
    return api, opened


async def test_a_burst_leaves_connections_for_the_lease() -> None:
    server, opened = slow_server()
    writer = Writer(server, Fence(FakeClock(), 0, float("inf")))

    burst = asyncio.gather(
        *(writer.create(POD_GROUPS, group(f"ns{number}")) for number in range(100))
    )
    await settle()
    asked = len(server.sent)
    opened.set()
    await burst

    assert asked == 48
    assert len(server.sent) == 100


async def test_a_write_that_waited_is_dropped_when_the_lease_is_lost_meanwhile() -> None:
    server, opened = slow_server()
    fence = Fence(FakeClock(), 0, float("inf"))
    writer = Writer(server, fence)

    burst = asyncio.gather(
        *(writer.create(POD_GROUPS, group("ns")) for _ in range(40)), return_exceptions=True
    )
    await settle()
    fence.revoke()
    opened.set()
    results = await burst

    assert len(server.sent) == 32
    assert sum(isinstance(result, NotLeadingError) for result in results) == 8


async def test_a_slow_namespace_leaves_slots_for_the_writes_of_others() -> None:
    server, opened = slow_server()
    writer = Writer(server, Fence(FakeClock(), 0, float("inf")))

    slow = asyncio.gather(*(writer.create(POD_GROUPS, group("slow")) for _ in range(100)))
    await settle()
    assert {it.namespace for it in server.sent} == {"slow"}
    assert len(server.sent) == 32
    others = asyncio.gather(*(writer.create(POD_GROUPS, group(f"ns{it}")) for it in range(8)))
    await settle()

    assert {it.namespace for it in server.sent[32:]} == {f"ns{it}" for it in range(8)}
    opened.set()
    await asyncio.gather(slow, others)


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


async def test_a_key_that_raises_an_error_of_ours_backs_off_and_stops_nobody() -> None:
    clock, tried, done = FakeClock(), list[float](), list[str]()
    fails = True

    async def reconcile(key: str) -> None:
        if key == "poison":
            tried.append(clock.monotonic())
            if fails:
                raise RecursionError("too deep")
        done.append(key)

    controller = Controller("spinning", reconcile, clock)
    running = asyncio.ensure_future(controller.run())
    with capture_logs() as logs:
        controller.queue.add("poison")
        for number in range(400):
            controller.queue.add(f"k{number}")
            await clock.advance(5)
    details = list(controller.details())
    fails = False
    await clock.advance(300)
    running.cancel()
    await asyncio.wait({running})

    assert len(done) == 401
    assert done[-1] == "poison"
    assert 8 <= len(tried) <= 20
    assert details == ["spinning: failing: poison (RecursionError: too deep)"]
    assert list(controller.details()) == []
    assert [log["key"] for log in logs] == ["poison"]


async def test_an_object_for_which_queueing_raises_does_not_end_a_term() -> None:
    queued: list[str] = []

    def queue(obj: Partial) -> None:
        if obj.metadata.name == "poison":
            raise KeyError
        queued.append(obj.metadata.name)

    names = ("a", "poison", "z")
    await queue_all((Partial(ObjectMeta(name=name)) for name in names), queue)

    assert queued == ["a", "z"]
