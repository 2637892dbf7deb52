"""The reflector against a scripted API server, in virtual time."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kube import config
from kube.client import Client
from kube.meta import Key, Partial, decode_partial
from kube.reflector import Reflector
from kube.resources import PODS
from tests.support.api_server import (
    Drop,
    Reply,
    ScriptedServer,
    Stream,
    failure,
    status_body,
)
from tests.support.builders import make_pod
from tests.support.clock import FakeClock

FIRST_WAIT = 0.2
"""Seconds that a first failure waits at most."""


class Record:
    """A sink that remembers what it was told and lets tests wait for it."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def upsert(self, obj: Partial) -> None:
        self._note(f"+{obj.metadata.name}")

    def delete(self, key: Key) -> None:
        self._note(f"-{key[1]}")

    async def until(self, *want: str) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.told == list(want))

    def _note(self, word: str) -> None:
        self.told.append(word)
        task = asyncio.ensure_future(self._notify())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def sink() -> Record:
    return Record()


Following = Callable[..., Any]


@pytest.fixture
def following(client: Client, clock: FakeClock, sink: Record) -> Following:
    @asynccontextmanager
    async def follow(**options: Any) -> AsyncIterator[Reflector[Partial]]:
        reflector = Reflector(
            client,
            PODS,
            sink,
            decode=decode_partial,
            clock=clock,
            jitter=random.Random(1),
            **options,
        )
        task = asyncio.ensure_future(reflector.run())
        try:
            yield reflector
        finally:
            task.cancel()
            await asyncio.wait({task})
        assert task.cancelled()

    return follow


def pod(name: str, version: int = 1) -> dict[str, Any]:
    return make_pod(name, "ns").stored(f"uid-{name}", str(version)).build()


def page(*names: str, version: str = "10", token: str = "") -> Reply:
    meta = {"resourceVersion": version, "continue": token}
    return Reply({"metadata": meta, "items": [pod(name) for name in names]})


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
        await server.answer(Stream({"type": "ADDED", "object": pod("c", 12)}))
        await clock.advance_to_next()
        await sink.until("+a", "+b", "+c")

    assert server.seen[-1].query["resourceVersion"] == "11"


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


async def test_a_silent_stream_counts_as_lost(
    server: ScriptedServer, sink: Record, clock: FakeClock, following: Following
) -> None:
    await server.answer(page("a"), Stream(), Stream({"type": "ADDED", "object": pod("b", 11)}))

    async with following(inactivity=0.05):
        await clock.sleeping()
        await clock.advance(0.2)
        await sink.until("+a", "+b")


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
    """Says when a watch is open, which a quiet one otherwise shows to nobody."""

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

    async with TellsOpening(await config.load(server.kubeconfig(tmp_path))) as client:
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
        stream.send({"type": "ADDED", "object": pod("b", 11)})
        await sink.until("+a", "+b")
        await server.received(2)
        assert reflector.lag() == 0


async def test_a_mistake_in_the_sink_ends_the_reflector(
    server: ScriptedServer, client: Client
) -> None:
    class Broken(Record):
        def upsert(self, obj: Partial) -> None:
            raise KeyError(obj.metadata.name)

    await server.answer(page("a"))

    with pytest.raises(KeyError):
        await Reflector(client, PODS, Broken(), decode=decode_partial).run()


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
