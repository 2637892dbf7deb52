"""`Retry-After` of an API server: no client retries earlier, whatever it requests."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable
from itertools import pairwise
from random import Random

import pytest

from controllers.cache.objects import POD_GROUPS
from controllers.runtime.controller import Controller, Writer
from kube.base.errors import (
    AlreadyExists,
    ApiError,
    ConfigError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from kube.client.meta import decode_partial
from kube.client.resources import LEASES, NODES
from kube.concurrency.backoff import LONGEST_RETRY_AFTER, Backoff
from kube.events.events import ObjectReference, Recorder
from kube.informers.cache import Cache
from kube.informers.reflector import Reflector
from kube.leader.election import Fence, LeaderElector
from scheduler.support.retry import retry
from tests.support.clock import FakeClock
from tests.support.memory_api import MemoryApi, Request

ASKED = 7.0
LASTS = 100.0

Asking = Callable[[MemoryApi, FakeClock], Awaitable[object]]


def fence(clock: FakeClock) -> Fence:
    return Fence(clock, 1, math.inf)


async def controller(api: MemoryApi, clock: FakeClock) -> None:
    writer = Writer(api, fence(clock))

    async def reconcile(key: tuple[str, str]) -> None:
        await writer.create(POD_GROUPS, {"metadata": {"namespace": key[0], "name": key[1]}})

    made = Controller("test", reconcile, clock)
    made.queue.add(("default", "g"))
    await made.run()


async def reflector(api: MemoryApi, clock: FakeClock) -> None:
    await Reflector(api, NODES, Cache(), decode=decode_partial, clock=clock).run()


async def catching_up(api: MemoryApi, clock: FakeClock) -> None:
    follower = Reflector(api, NODES, Cache(), decode=decode_partial, clock=clock)
    await follower.catch_up(clock.monotonic())


async def events(api: MemoryApi, clock: FakeClock) -> None:
    recorder = Recorder(api, "test", clock)
    recorder.event(ObjectReference("v1", "Pod", "default", "p", "u"), "Normal", "R", "m")
    await recorder.run()


async def lease(api: MemoryApi, clock: FakeClock) -> None:
    async def work(_fence: Fence) -> None:
        return

    await LeaderElector(api, "l", "ns", "me", clock, jitter=Random(1)).run(work)


async def scheduler(api: MemoryApi, clock: FakeClock) -> None:
    await retry(lambda: api.bind("default", "p", "u", "n"), fence(clock), clock)


EVERY: tuple[Asking, ...] = (controller, reflector, catching_up, events, lease, scheduler)


def asking_for(seconds: float) -> list[ApiError]:
    return [
        TooManyRequests(429, "TooManyRequests", "", retry_after=seconds),
        ServerError(503, "ServiceUnavailable", "", retry_after=seconds),
    ]


@pytest.mark.parametrize("answer", asking_for(ASKED), ids=lambda error: str(error.status))
@pytest.mark.parametrize("asking", EVERY)
async def test_nothing_is_asked_again_any_sooner(asking: Asking, answer: ApiError) -> None:
    clock = FakeClock()
    api, at = MemoryApi(clock), defaultdict[str, list[float]](list)

    def act(request: Request) -> None:
        # A candidate reads the lease and lists it to watch it, each with waits of its own.
        at[request.verb].append(clock.monotonic())
        raise answer

    api.on(act)
    task = asyncio.ensure_future(asking(api, clock))
    await clock.advance(LASTS)
    task.cancel()
    await asyncio.wait({task})

    waits = [[later - earlier for earlier, later in pairwise(times)] for times in at.values()]
    assert min(map(len, waits)) >= 4, "it is asked again"
    assert min(map(min, waits)) >= ASKED


async def test_a_lease_is_renewed_in_time_whatever_is_asked_for() -> None:
    clock = FakeClock()
    api, renewals = MemoryApi(clock), list[float]()

    def act(_request: Request) -> None:
        renewals.append(clock.monotonic())
        if len(renewals) == 1:
            raise asking_for(1000)[0]

    async def work(_fence: Fence) -> None:
        await clock.sleep(LASTS)

    elector = LeaderElector(api, "l", "ns", "me", clock)
    api.on(act, "update", of=LEASES)
    task = asyncio.ensure_future(elector.run(work))
    began = clock.monotonic()
    await clock.advance(LASTS / 2)

    assert not task.done()
    assert renewals[1] - began < 10
    assert len(renewals) > 10
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.parametrize(
    ("error", "least", "most"),
    [
        (None, 0.5, 1.0),
        (Unreachable("GET", "/", "reset"), 0.5, 1.0),
        (asking_for(0)[0], 0.5, 1.0),
        (asking_for(20)[0], 20.0, 30.0),
        (asking_for(1e9)[0], LONGEST_RETRY_AFTER, 1.5 * LONGEST_RETRY_AFTER),
    ],
)
def test_a_wait_is_no_shorter_than_asked_for_and_differs_between_clients(
    error: Exception | None, least: float, most: float
) -> None:
    waits = [Backoff(first=1.0, random=Random(seed)).next(error) for seed in range(50)]

    assert all(least <= wait <= most for wait in waits)
    assert len(set(waits)) > 25


ANSWERS: tuple[KubeError, ...] = (
    ApiError(400, "BadRequest", "no"),
    Unauthorized(401, "Unauthorized", "no"),
    Forbidden(403, "Forbidden", "no"),
    NotFound(404, "NotFound", "the server could not find the requested resource"),
    ApiError(408, "Timeout", "no"),
    Conflict(409, "Conflict", "no"),
    AlreadyExists(409, "AlreadyExists", "no"),
    Gone(410, "Expired", "no"),
    ApiError(413, "RequestEntityTooLarge", "no"),
    Invalid(422, "Invalid", "no"),
    TooManyRequests(429, "TooManyRequests", "no"),
    ServerError(500, "InternalError", "no"),
    ServerError(503, "ServiceUnavailable", "no"),
    ServerError(504, "Timeout", "no"),
    Unreachable("GET", "/", "reset"),
    ConfigError("the token file is empty"),
)


@pytest.mark.parametrize("done", [False, True], ids=["", "done"])
@pytest.mark.parametrize("answer", ANSWERS, ids=lambda error: getattr(error, "reason", str(error)))
@pytest.mark.parametrize("asking", [it for it in EVERY if it is not scheduler])
async def test_whatever_is_answered_it_goes_on(
    asking: Asking, answer: KubeError, done: bool
) -> None:
    """The first requests get the response, and may have been carried out (`done`) anyway."""
    clock = FakeClock()
    api = MemoryApi(clock)

    def act(_request: Request) -> None:
        if len(api.sent) <= 5:
            raise answer

    api.on(act, answered=done)
    task = asyncio.ensure_future(asking(api, clock))
    await clock.advance(LASTS)

    assert not task.done() or task.exception() is None
    # A rejected event is dropped: it is not worth a second request.
    assert len(api.sent) > 5 or asking is events
    task.cancel()
    await asyncio.wait({task})
