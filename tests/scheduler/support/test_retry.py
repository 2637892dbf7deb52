"""Requests are retried for connection errors, for as long as the lease is valid."""

import asyncio

import pytest

from kube.base.errors import (
    STARTING,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    Unreachable,
)
from kube.leader.election import Fence
from scheduler.support.retry import RETRIABLE, retry
from tests.support.clock import FakeClock, settle

FORBIDDEN = Forbidden(403, "Forbidden", "role")
RESET = Unreachable("GET", "/", "reset")


class Request:
    """A request that fails with these errors in sequence, and then succeeds."""

    def __init__(self, *errors: KubeError) -> None:
        self.errors = list(errors)
        self.sent = 0

    async def __call__(self) -> None:
        self.sent += 1
        if self.errors:
            raise self.errors.pop(0)


async def result_of(
    request: Request,
    fence: Fence,
    clock: FakeClock,
    on: tuple[type[KubeError], ...] = RETRIABLE,
) -> bool:
    task = asyncio.ensure_future(retry(request, fence, clock, on=on))
    for _ in range(20):
        await settle()
        await clock.advance(1)
    return await task


async def test_a_request_is_repeated_until_it_succeeds() -> None:
    clock, request = FakeClock(), Request(RESET, RESET)

    assert await result_of(request, Fence(clock, 1, float("inf")), clock)
    assert request.sent == 3


async def test_other_errors_are_the_callers() -> None:
    clock, request = FakeClock(), Request(RESET, Invalid(422, "Invalid", "no such field"))

    with pytest.raises(Invalid):
        await result_of(request, Fence(clock, 1, float("inf")), clock)
    assert request.sent == 2


async def test_a_403_is_repeated_while_the_api_server_may_be_starting() -> None:
    clock, request = FakeClock(), Request(RESET, FORBIDDEN, FORBIDDEN)

    assert await result_of(request, Fence(clock, 1, float("inf")), clock)
    assert request.sent == 4


async def test_a_403_that_stays_is_the_callers() -> None:
    clock, request = FakeClock(), Request(*[FORBIDDEN] * 99)
    begun = clock.monotonic()

    with pytest.raises(Forbidden):
        await result_of(request, Fence(clock, 1, float("inf")), clock)
    assert clock.monotonic() - begun >= STARTING
    assert request.sent < 12


async def test_further_errors_may_be_retried() -> None:
    clock, request = FakeClock(), Request(Conflict(409, "Conflict", "outdated"))

    assert await result_of(request, Fence(clock, 1, float("inf")), clock, (*RETRIABLE, Conflict))


async def test_nothing_is_sent_once_the_lease_may_be_lost() -> None:
    clock, request = FakeClock(), Request(*[RESET] * 20)
    fence = Fence(clock, 1, clock.monotonic() + 5)

    assert not await result_of(request, fence, clock)
    assert request.errors


async def test_from_its_time_on_an_error_is_the_callers() -> None:
    clock, request = FakeClock(), Request(*[RESET] * 99)
    task = asyncio.ensure_future(
        retry(request, Fence(clock, 1, float("inf")), clock, until=clock.monotonic() + 10)
    )
    for _ in range(20):
        await settle()
        await clock.advance(1)

    with pytest.raises(Unreachable):
        await task
    assert request.sent < 15
