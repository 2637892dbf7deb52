"""The server's time of day, according to its responses."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.base.clock import ServerClock, SystemClock
from kube.client.client import Client
from kube.leader.election import Fence
from tests.support.api_server import Reply, ScriptedServer
from tests.support.clock import FakeClock

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def http(moment: datetime) -> str:
    return format_datetime(moment, usegmt=True)


def test_it_is_the_local_time_of_day_until_the_server_has_answered() -> None:
    local = FakeClock()

    assert ServerClock(local).now() == local.now()


async def test_it_is_the_servers_time_and_passes_with_the_local_clock() -> None:
    local = FakeClock()
    clock = ServerClock(local)

    clock.heard(http(NOON))
    await local.advance(90)

    assert clock.now() == NOON + timedelta(seconds=90)
    assert clock.monotonic() == local.monotonic()


async def test_dates_of_whole_seconds_do_not_make_it_jump_and_a_changed_clock_does() -> None:
    local = FakeClock()
    clock = ServerClock(local)
    clock.heard(http(NOON))
    await local.advance(10.7)

    clock.heard(http(NOON + timedelta(seconds=10)))
    assert clock.now() == NOON + timedelta(seconds=10.7)
    clock.heard(http(NOON + timedelta(seconds=311)))
    assert clock.now() == NOON + timedelta(seconds=311)


@pytest.mark.parametrize(
    "date", [None, "", "noon", "Thu, 99 Jan 2026 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"]
)
def test_a_date_that_cannot_be_read_says_nothing(date: str | None) -> None:
    local = FakeClock()
    clock = ServerClock(local)

    clock.heard(date)

    assert clock.now() == local.now()


@given(st.text(max_size=40) | st.datetimes().map(format_datetime))
def test_no_date_makes_it_fail(date: str) -> None:
    clock = ServerClock(FakeClock())

    clock.heard(date)

    assert clock.now().tzinfo is UTC


@pytest.mark.parametrize("minutes", [-5, 5])
async def test_a_client_hears_the_servers_time(
    server: ScriptedServer, client: Client, minutes: int
) -> None:
    there = datetime.now(UTC) + timedelta(minutes=minutes)
    await server.answer(Reply(headers={"Date": http(there)}))

    await client.request("GET", "/version")

    assert abs(client.server_clock.now() - there) < timedelta(minutes=1)


async def test_a_process_behind_the_server_does_not_set_the_servers_time(
    server: ScriptedServer, client: Client
) -> None:
    there = datetime.now(UTC) + timedelta(minutes=5)
    await server.answer(Reply(b"ok", headers={"Date": http(there)}))

    said = await client.behind("/api/v1/namespaces/n/pods/p:1/proxy/readyz", timeout=5, largest=9)

    assert (said.body, said.date) == (b"ok", http(there))
    assert abs(client.server_clock.now() - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="has no clock that counts it")
def test_a_fence_ends_while_the_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    suspended = 0.0
    usual = time.clock_gettime

    def clock_gettime(clock: int) -> float:
        return usual(clock) + (suspended if clock == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", clock_gettime)
    clock = SystemClock()
    fence = Fence(clock, 1, clock.monotonic() + 10)
    before = fence.valid()
    suspended = 3600.0

    assert (before, fence.valid()) == (True, False)
