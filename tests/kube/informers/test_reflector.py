"""The reflector against a scripted API server, in virtual time."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from kube.base.errors import STARTING, Forbidden
from kube.client.client import Client
from kube.client.meta import decode_partial
from kube.client.resources import PODS
from kube.concurrency.freeze import Freeze
from kube.credentials.loading import load
from kube.informers.reflector import Reflector
from tests.kube.following import Following, Record, page, pod
from tests.support.api_server import (
    Answer,
    Drop,
    Reply,
    ScriptedServer,
    Seen,
    Stream,
    failure,
    status_body,
)
from tests.support.clock import FakeClock, settle

FIRST_WAIT = 0.2
"""Maximum backoff after a first failure, in seconds."""


async def test_lists_in_pages_then_watches_from_the_version_of_the_list(
    server: ScriptedServer, sink: Record, following: Following
) -> None:
    stream = Stream({"type": "ADDED", "object": pod("c", 11)})
    await server.answer(page("a", token="more"), page("b", version="10"), stream)

    async with following(namespace="ns", label_selector="x=y", page_size=1) as reflector:
        await sink.until("+a", "+b", "+c")
        assert reflector.synced.is_set()

    first, second, watch = server.seen
    assert first.path == "/api/v1/namespaces/ns/pods"
    assert first.query == {"limit": "1", "labelSelector": "x=y"}
    assert second.query == first.query | {"continue": "more"}
    seconds = int(watch.query.pop("timeoutSeconds"))
    assert 300 <= seconds <= 600
    assert watch.query == {
        "labelSelector": "x=y",
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "10",
    }


async def test_says_when_a_list_begins_and_when_the_sink_has_all_of_it(
    server: ScriptedServer, sink: Record, following: Following
) -> None:
    stream = Stream({"type": "ADDED", "object": pod("c", 11)})
    await server.answer(page("a", token="more"), page("b", version="10"), stream)

    def told(under_way: bool) -> None:
        sink.told.append("begins" if under_way else "complete")

    async with following(page_size=1, on_list=told):
        await sink.until("begins", "+a", "+b", "complete", "+c")


async def test_is_not_in_sync_before_the_last_page(
    server: ScriptedServer, sink: Record, following: Following
) -> None:
    await server.answer(page("a", token="more"))

    async with following() as reflector:
        await sink.until("+a")
        assert not reflector.synced.is_set()
        await server.answer(page("b"))
        await reflector.synced.wait()


async def test_a_stream_that_ends_is_taken_up_where_it_stopped(
    server: ScriptedServer, sink: Record, following: Following
) -> None:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "40"}}}
    stream = Stream({"type": "ADDED", "object": pod("b", 12)}, bookmark)
    stream.end()
    await server.answer(page("a"), stream, Stream({"type": "DELETED", "object": pod("a", 41)}))

    async with following():
        await sink.until("+a", "+b", "-a")

    assert server.seen[2].query["resourceVersion"] == "40"


@pytest.mark.parametrize(
    "expired",
    [
        pytest.param(failure(410, "Expired"), id="as the answer to the watch"),
        pytest.param(
            Stream({"type": "ERROR", "object": status_body(410, "Expired")}), id="in the stream"
        ),
    ],
)
async def test_expired_history_leads_to_a_list_with_the_missed_deletions(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following, expired: Any
) -> None:
    await server.answer(page("a", "b"), expired, page("b", version="50"), Stream())

    async with following():
        await clock.sleeping()
        await clock.advance(0.2)
        await sink.until("+a", "+b", "+b", "-a")
        await server.received(4)

    assert server.seen[3].query["resourceVersion"] == "50"


async def test_a_list_that_expires_between_pages_is_read_in_one_piece(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    await server.answer(page("a", token="old"), failure(410, "Expired"), page("a", "b"), Stream())

    async with following():
        await clock.sleeping()
        await clock.advance(0.2)
        await sink.until("+a", "+a", "+b")

    assert server.seen[2].query == {}


async def test_a_page_of_large_objects_is_read_in_smaller_ones(
    server: ScriptedServer, sink: Record, following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kube.informers.reflector._LARGEST_PAGE", 20_000)
    names = [f"p{number:03}" for number in range(200)]
    large = set(names[50:100])
    limits: list[int] = []

    async def serve(seen: Seen) -> Reply | Stream:
        if "watch" in seen.query:
            return Stream()
        limit, first = int(seen.query["limit"]), int(seen.query.get("continue", "0"))
        limits.append(limit)
        answer = page(*names[first : first + limit], token=str(first + limit))
        for item in answer.body["items"]:
            if item["metadata"]["name"] in large:
                item["metadata"]["annotations"] = {"filler": "x" * 4000}
        if first + limit >= len(names):
            answer.body["metadata"]["continue"] = ""
        return answer

    server.handler = serve
    async with following(page_size=40):
        await sink.until(*(f"+{name}" for name in names))

    assert limits[0] == 40
    assert min(limits) < 5
    assert limits[-1] == 40
    assert len(limits) < 60


@pytest.mark.parametrize("size", [1, 40])
async def test_an_object_that_is_larger_than_a_page_may_be_is_read_alone(
    server: ScriptedServer,
    sink: Record,
    following: Following,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
) -> None:
    monkeypatch.setattr("kube.informers.reflector._LARGEST_PAGE", 10)
    await server.answer(*[page("a")] * (1 if size == 1 else 3), Stream())

    async with following(page_size=size):
        await sink.until("+a")


async def test_waits_longer_with_each_failure_up_to_five_seconds(
    server: ScriptedServer, clock: FakeClock, following: Following
) -> None:
    await server.answer(*[failure(500, "InternalError")] * 9, page(), Stream())
    waits = []

    async with following() as reflector:
        for _ in range(9):
            await clock.sleeping()
            before = clock.monotonic()
            await clock.advance_to_next()
            waits.append(clock.monotonic() - before)
        await reflector.synced.wait()

    limits = [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, 5.0]
    assert all(limit / 2 <= wait <= limit for wait, limit in zip(waits, limits, strict=True))


async def test_survives_an_api_server_that_goes_away_and_comes_back(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    await server.answer(page("a"), Stream({"type": "ADDED", "object": pod("b", 11)}))

    async with following():
        await sink.until("+a", "+b")
        await server.stop()
        await clock.sleeping()
        await clock.advance_to_next()
        await clock.sleeping()
        await server.start()
        await server.answer(at("11"), Stream({"type": "ADDED", "object": pod("c", 12)}))
        await clock.advance_to_next()
        await sink.until("+a", "+b", "+c")

    assert server.seen[-1].query["resourceVersion"] == "11"


async def test_data_that_were_restored_meanwhile_are_listed_anew(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    """A watch from version 11 would be accepted, and silent until the server comes to it."""
    await server.answer(page("a", version="10"), Stream({"type": "ADDED", "object": pod("b", 11)}))

    async with following():
        await sink.until("+a", "+b")
        await server.stop()
        await clock.sleeping()
        await clock.advance_to_next()
        await clock.sleeping()
        await server.start()
        await server.answer(at("10"), page("a", version="10"), Stream())
        await clock.advance_to_next()
        await sink.until("+a", "+b", "+a", "-b")
        await server.received(5)

    assert server.seen[-1].query["resourceVersion"] == "10"


async def test_a_new_leader_lists_data_that_were_restored_without_its_notice(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    await server.answer(page("a", "b", token="more"), page("c", version="10"), Stream())

    async with following(page_size=2) as reflector:
        await reflector.synced.wait()
        await server.received(3)
        await server.answer(at("9"), page("a", version="9"), Stream())
        await clock.play(reflector.catch_up(clock.monotonic() + 1))

    assert sink.told[3:] == ["+a", "-b", "-c"]


async def test_a_long_outage_does_not_delay_the_list_after_it(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    await server.answer(page("a"), *(failure(500, "InternalError") for _ in range(2)))
    await server.answer(failure(410, "Expired"), page("a", "b"), Stream())

    async with following():
        for _ in range(2):
            await clock.sleeping()
            await clock.advance_to_next()
        await clock.sleeping()
        await clock.advance(FIRST_WAIT)
        await sink.until("+a", "+a", "+b")


async def test_a_server_that_expires_again_and_again_is_asked_more_and_more_seldom(
    server: ScriptedServer, clock: FakeClock, following: Following
) -> None:
    for _ in range(6):
        await server.answer(page("a"), failure(410, "Expired"))

    async with following():
        waits = []
        for _ in range(6):
            await clock.sleeping()
            before = clock.monotonic()
            await clock.advance_to_next()
            waits.append(clock.monotonic() - before)

    assert waits[-1] > FIRST_WAIT * 4


async def test_a_silent_stream_is_renewed_at_once_and_without_a_word(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    async def answer(_seen: Seen) -> Answer:
        """Keep two streams silent; a busy machine may be too late for the third as well."""
        asked = len(server.seen)
        if asked == 4:
            clock.jump(100)
        if asked == 1:
            return page("a", version="10")
        return Stream({"type": "ADDED", "object": pod("b", 11)}) if asked > 3 else Stream()

    server.handler = answer
    with capture_logs() as logs:
        async with following(inactivity=0.05) as reflector:
            await sink.until("+a", "+b")
            assert reflector.lag() == 0

    assert [seen.query["resourceVersion"] for seen in server.seen[1:4]] == ["10"] * 3
    assert {log["log_level"] for log in logs} == {"debug"}


async def test_an_old_version_is_a_warning_only_if_the_new_one_is_old_too(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    await server.answer(page("a"), failure(410, "Expired"), page("a"), failure(410, "Expired"))

    with capture_logs() as logs:
        async with following():
            for _ in range(2):
                await clock.sleeping()
                await clock.advance_to_next()

    levels = [log["log_level"] for log in logs if log["event"] == "watch interrupted"]
    assert levels[:2] == ["info", "warning"]


async def test_a_silent_server_that_accepts_no_watch_is_told_of(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    await server.answer(page("a"), Stream(), Drop())

    with capture_logs() as logs:
        async with following(inactivity=0.05):
            await clock.sleeping()

    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["watch interrupted"]


async def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_tight_loop(
    server: ScriptedServer, clock: FakeClock, following: Following
) -> None:
    stream = Stream()
    stream.end()
    await server.answer(page(), stream)

    async with following():
        await clock.sleeping()

    assert len(server.seen) == 2


async def test_a_bad_line_leads_to_a_new_list(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    stream = Stream()
    stream.send_bytes(b"half a li\n")
    await server.answer(page("a"), stream, page("b"), Stream())

    async with following():
        await clock.sleeping()
        await clock.advance(0.2)
        await sink.until("+a", "+b", "-a")


async def test_a_version_that_the_server_keeps_refusing_leads_to_a_new_list(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    await server.answer(page("a"), *[failure(504, "Timeout")] * 3, page("b"), Stream())

    async with following():
        for _ in range(3):
            await clock.sleeping()
            await clock.advance_to_next()
        await sink.until("+a", "+b", "-a")


async def test_an_overloaded_server_gets_no_list_request(
    server: ScriptedServer, clock: FakeClock, following: Following
) -> None:
    await server.answer(page("a"), *[failure(429, "TooManyRequests")] * 4, Stream())

    async with following():
        for _ in range(4):
            await clock.sleeping()
            await clock.advance_to_next()
        seen = await server.received(6)

    assert ["watch" in request.query for request in seen] == [False] + [True] * 5


class TellsOpening(Client):
    """Client that reports an open watch, which is otherwise invisible while quiet."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.open = asyncio.Event()

    def watch_lines(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        inactivity: float | None = None,
        opened: Callable[[], None] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        def both() -> None:
            assert opened is not None
            opened()
            self.open.set()

        return super().watch_lines(path, params, inactivity=inactivity, opened=both)


async def test_a_quiet_stream_that_was_open_resets_the_failures(
    server: ScriptedServer, sink: Record, clock: FakeClock, tmp_path: Path
) -> None:
    await server.answer(*[failure(500, "InternalError")] * 5, page(), Stream())

    async with TellsOpening(await load(server.kubeconfig(tmp_path))) as client:
        reflector = Reflector(client, PODS, sink, decode=decode_partial, clock=clock)
        task = asyncio.ensure_future(reflector.run())
        for _ in range(5):
            await clock.sleeping()
            await clock.advance_to_next()
        await client.open.wait()
        clock.jump(2)
        await server.stop()
        await clock.sleeping()
        before = clock.monotonic()
        await clock.advance_to_next()
        task.cancel()
        await asyncio.wait({task})

    assert clock.monotonic() - before <= 0.2


async def test_lag_is_the_age_of_the_last_sign_of_life(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    stream = Stream()
    await server.answer(page("a"), stream)

    async with following() as reflector:
        await reflector.synced.wait()
        clock.jump(30)
        assert reflector.lag() == 30
        assert not reflector.interrupted()
        clock.jump(151)
        assert reflector.interrupted()
        stream.send({"type": "ADDED", "object": pod("b", 11)})
        await sink.until("+a", "+b")
        await server.received(2)
        assert reflector.lag() == 0
        assert not reflector.interrupted()


async def test_it_is_interrupted_from_the_second_failure_until_it_is_let_in_again(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    await server.answer(page("a"), Stream({"type": "ADDED", "object": pod("b", 11)}))

    async with following() as reflector:
        await sink.until("+a", "+b")
        await server.stop()
        await clock.sleeping()
        assert not reflector.interrupted()
        await clock.advance_to_next()
        await clock.sleeping()
        assert reflector.interrupted()

        await server.start()
        await server.answer(at("11"), Stream({"type": "ADDED", "object": pod("c", 12)}))
        await clock.advance_to_next()
        await sink.until("+a", "+b", "+c")
        assert not reflector.interrupted()


async def test_dropped_connections_are_not_the_end(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    await server.answer(Drop(), Drop(), page("a"), Stream())

    async with following() as reflector:
        await clock.play(reflector.synced.wait())

    assert sink.told == ["+a"]


def test_decoders_of_msgspec_take_the_raw_slice_of_a_line() -> None:
    raw = msgspec.json.decode(b'{"o":{"metadata":{"name":"x"}}}', type=dict[str, msgspec.Raw])["o"]

    assert decode_partial(raw).metadata.name == "x"


BEFORE = 4000.0
"""A time before the clock of these tests starts."""


def at(version: str) -> Reply:
    """Return the response to a request for the version only."""
    return Reply({"metadata": {"resourceVersion": version}, "items": []})


async def test_a_list_that_was_begun_later_is_new_enough(
    server: ScriptedServer, following: Following
) -> None:
    await server.answer(page("a"), Stream())

    async with following() as reflector:
        await reflector.synced.wait()
        await server.received(2)
        await reflector.catch_up(BEFORE)

    assert len(server.seen) == 2


async def test_a_small_resource_whose_watch_is_silent_is_listed_anew(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    await server.answer(page("a", "b", version="10"), Stream())

    async with following() as reflector:
        await reflector.synced.wait()
        await server.received(2)
        await server.answer(at("20"), page("b", "c", version="20"), Stream())
        await clock.play(reflector.catch_up(clock.monotonic() + 1))
        assert sink.told == ["+a", "+b", "+b", "+c", "-a"]
        await server.received(5)

    assert server.seen[2].query == {"limit": "1"}
    assert server.seen[4].query["resourceVersion"] == "20"


async def test_a_cache_at_the_servers_version_is_new_enough(
    server: ScriptedServer, clock: FakeClock, following: Following
) -> None:
    await server.answer(page("a", version="opaque"), Stream())

    async with following() as reflector:
        await reflector.synced.wait()
        await server.received(2)
        await server.answer(at("opaque"))
        await clock.play(reflector.catch_up(clock.monotonic() + 1))

    assert len(server.seen) == 3


@pytest.mark.parametrize("beyond", [20, 21])
async def test_a_large_resource_is_up_to_date_once_its_watch_is(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following, beyond: int
) -> None:
    stream = Stream()
    await server.answer(page("a", "b", token="more"), page("c", version="10"), stream)

    async with following(page_size=2) as reflector:
        await reflector.synced.wait()
        await server.received(3)
        await server.answer(at("20"))
        catching_up = asyncio.ensure_future(reflector.catch_up(clock.monotonic() + 1))
        stream.send({"type": "ADDED", "object": pod("d", 19)})
        await sink.until("+a", "+b", "+c", "+d")
        await server.received(4)
        await clock.advance(0.5)
        assert not catching_up.done()
        bookmark = {"metadata": {"resourceVersion": str(beyond)}}
        stream.send({"type": "BOOKMARK", "object": bookmark})
        stream.send({"type": "ADDED", "object": pod("e", beyond + 1)})
        await sink.until("+a", "+b", "+c", "+d", "+e")
        await clock.play(catching_up)

    assert len(server.seen) == 4


@pytest.mark.parametrize("version", ["20", "opaque"])
async def test_a_large_resource_is_listed_anew_if_its_watch_is_silent_or_says_nothing(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following, version: str
) -> None:
    stream = Stream()
    await server.answer(page("a", "b", token="more"), page("c", version="10"), stream)

    async with following(page_size=2) as reflector:
        await reflector.synced.wait()
        await server.received(3)
        await server.answer(at(version), page("d", version="21"), Stream())
        started = clock.monotonic()
        await clock.play(reflector.catch_up(started + 1))

    assert sink.told[3:] == ["+d", "-a", "-b", "-c"]
    assert 1 <= clock.monotonic() - started < 1.5


async def test_catching_up_outlives_failures_of_the_server(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    await server.answer(page("a"), Stream())

    async with following() as reflector:
        await reflector.synced.wait()
        await server.received(2)
        broken = failure(500, "InternalError"), Drop(), Reply("no list")
        await server.answer(*broken, at("20"), failure(429, "TooManyRequests"), page("b"), Stream())
        await clock.play(reflector.catch_up(clock.monotonic() + 1))

    assert sink.told == ["+a", "+b", "-a"]


async def test_catching_up_without_the_right_ends_where_that_may_be_so(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    await server.answer(page("a"), Stream())
    refused = failure(403, "Forbidden")

    async with following() as reflector:
        await reflector.synced.wait()
        await server.received(2)
        await server.answer(*[refused] * 20)
        begun = clock.monotonic()
        with pytest.raises(Forbidden):
            await clock.play(reflector.catch_up(begun + 1, permitted=False))
        assert clock.monotonic() - begun >= STARTING


@pytest.mark.parametrize("permitted", [True, False])
async def test_catching_up_outlives_the_403_of_a_server_that_starts(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following, permitted: bool
) -> None:
    await server.answer(page("a"), Stream())
    refused = failure(403, "Forbidden")

    async with following() as reflector:
        await reflector.synced.wait()
        await server.received(2)
        await server.answer(refused, refused, at("20"), page("b"), Stream())
        await clock.play(reflector.catch_up(clock.monotonic() + 1, permitted=permitted))

    assert sink.told == ["+a", "+b", "-a"]


async def test_catching_up_between_two_watches_lists_and_does_not_watch(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    await server.answer(page("a"), failure(500, "InternalError"))

    async with following() as reflector:
        await reflector.synced.wait()
        await clock.sleeping()  # until the next attempt to watch
        await server.answer(at("20"), page("b", version="20"), Stream())
        await clock.play(reflector.catch_up(clock.monotonic() + 1))

    assert sink.told == ["+a", "+b", "-a"]


async def test_catching_up_during_a_list_waits_for_one_that_began_later(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    lists = iter([page("a", token="more"), page("b", version="20")])
    never = asyncio.Event()

    async def serve(seen: Seen) -> Answer:
        if "continue" in seen.query:
            await never.wait()
        if "watch" in seen.query:
            return Stream()
        return at("20") if seen.query["limit"] == "1" else next(lists)

    server.handler = serve
    async with following() as reflector:
        await server.received(2)
        await clock.play(reflector.catch_up(clock.monotonic() + 1))
        assert reflector.synced.is_set()
        never.set()

    assert "+b" in sink.told


async def test_nothing_reaches_the_sink_during_a_freeze(
    server: ScriptedServer, sink: Record, following: Following
) -> None:
    freeze = Freeze()
    stream = Stream({"type": "ADDED", "object": pod("b", 11)})
    await server.answer(page("a"), stream)

    async with following(freeze=freeze):
        with freeze:
            await server.received(1)
            await settle()
            assert not sink.told
        await sink.until("+a", "+b")
