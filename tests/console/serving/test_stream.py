"""Streams: their events per viewer, slow viewers, and the end of a session."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest

from console.base import messages
from console.base.protocols import RefusedError, Viewer
from console.following.following import Following
from console.following.history import RecentHistory
from console.serving.stream import (
    BUFFER,
    END,
    HEARTBEAT,
    MOST_STREAMS,
    PER_SECOND,
    RESYNC,
    Streams,
    StreamSubject,
    wanted_of,
)
from console.views.queue import MOST_TOLD
from tests.console.browser import browser, site
from tests.console.cluster_builder import ALL, BLOCK, RACK, Builder


async def lasting() -> Viewer | None:
    return ALL


def streams_of(cluster: Builder) -> Streams:
    return timed(cluster.refresh())


def timed(following: Following, now: Callable[[], float] = time.monotonic) -> Streams:
    return Streams(following, RecentHistory(following), monotonic=now)


async def opened(
    streams: Streams, wanted: StreamSubject, viewer: Viewer = ALL, *, lasts: bool = True
) -> AsyncIterator[bytes]:
    async def gone() -> Viewer | None:
        return None

    stream = streams.open(viewer, wanted, lasting if lasts else gone)
    assert await anext(stream) == b": here\n\n"
    return stream


async def test_a_stream_begins_at_once_and_tells_changes_of_nodes() -> None:
    cluster = Builder()
    cluster.racks()
    cluster.use_keys(BLOCK, RACK)
    streams = streams_of(cluster)
    stream = await opened(streams, StreamSubject(map=True))
    streams.tick()
    cluster.pod(node="n-1-1-1", cpu=2)
    streams.tick()

    event = await anext(stream)

    assert event.startswith(b'event: map\ndata: {"revision":1,"nodes":[{"name":"n-1-1-1"')
    assert event.endswith(b"\n\n")
    assert b'"id":"b1/r1","used":2000' in event


async def test_a_change_between_the_stream_and_its_first_round_is_told() -> None:
    """The page requests the map as soon as its stream is open."""
    cluster = Builder()
    cluster.racks()
    streams = streams_of(cluster)
    stream = await opened(streams, StreamSubject(map=True))
    cluster.pod(node="n-1-1-1", cpu=2)
    streams.tick()

    assert b'"name":"n-1-1-1"' in await anext(stream)


async def test_those_who_look_at_one_resource_share_one_message() -> None:
    cluster = Builder()
    cluster.racks()
    streams = streams_of(cluster)
    both = [await opened(streams, StreamSubject(map=True)) for _ in range(2)]
    other = await opened(streams, StreamSubject(map=True, resource="memory"))
    streams.tick()
    cluster.pod(node="n-1-1-1")
    streams.tick()

    first, second = [await anext(stream) for stream in both]
    assert first is second
    assert b'"used":1000' not in await anext(other)


async def test_new_nodes_and_labels_need_a_new_answer() -> None:
    cluster = Builder()
    cluster.racks()
    streams = streams_of(cluster)
    stream = await opened(streams, StreamSubject(map=True))
    streams.tick()
    cluster.node("new")
    streams.tick()

    assert await anext(stream) == RESYNC


async def test_a_workload_is_told_whole_when_something_of_it_changed() -> None:
    cluster = Builder()
    cluster.nodes(1)
    cluster.gang("g", 1)
    streams = streams_of(cluster)
    stream = await opened(streams, StreamSubject(workload="ns/PodGroup/g"))
    streams.tick()
    assert b'"pods":0' in await anext(stream)
    cluster.pod("g", name="p")
    streams.tick()
    assert b'"name":"p","node":null' in await anext(stream)

    cluster.pod(name="another")
    streams.tick()
    cluster.state.remove_group(("PodGroup", "ns", "g"))
    cluster.state.remove_pod("uid-p")
    streams.tick()
    streams.tick()

    assert await anext(stream) == RESYNC


async def test_a_slow_viewer_is_told_to_ask_anew_and_nobody_else_waits() -> None:
    cluster = Builder()
    streams = streams_of(cluster)
    slow = await opened(streams, StreamSubject(queue=True))
    quick = await opened(streams, StreamSubject(queue=True))
    told = 0
    for number in range(3 * BUFFER):
        cluster.pod(name=f"p{number}")
        streams.tick()
        assert (await anext(quick)).startswith(b"event: queue")
        told += 1
    assert told == 3 * BUFFER

    assert await anext(slow) == RESYNC
    cluster.pod(name="later")
    streams.tick()
    assert (await anext(slow)).startswith(b"event: cluster")
    assert b'"name":"later"' in await anext(slow)


async def test_history_is_told_once_for_each_step() -> None:
    class Steps(RecentHistory):
        at = ""

        def latest(self, viewer: Viewer) -> messages.HistoryStep | None:
            if not self.at:
                return None
            return messages.HistoryStep(
                at=self.at, waiting=1, arrivals=2, preemptions=3, utilisation={"b1": 0.5}
            )

    following = Builder().refresh()
    steps = Steps(following)
    streams = Streams(following, steps)
    stream = await opened(streams, StreamSubject(history=True))
    streams.tick()
    for at in ("2026-11-23T12:00:00Z", "2026-11-23T12:01:00Z"):
        steps.at = at
        streams.tick()
        streams.tick()
        assert at.encode() in await anext(stream)


async def test_an_api_server_that_does_not_answer_is_told_to_all_and_to_who_comes_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Builder()
    streams = streams_of(cluster)
    answers = True
    monkeypatch.setattr(Following, "current", property(lambda _: answers))
    early = await opened(streams, StreamSubject(queue=True))
    streams.tick()
    answers = False
    streams.tick()
    late = await opened(streams, StreamSubject())
    streams.tick()
    answers = True
    streams.tick()

    for stream in (early, late):
        told = [await anext(stream) for _ in range(2)]
        assert told == [
            b'event: cluster\ndata: {"current":false}\n\n',
            b'event: cluster\ndata: {"current":true}\n\n',
        ]


async def test_who_did_not_keep_up_is_told_of_it_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Builder()
    cluster.racks()
    streams = streams_of(cluster)
    stream = await opened(streams, StreamSubject(map=True))
    streams.tick()
    for _ in range(BUFFER + 1):
        cluster.pod(node="n-1-1-1")
        streams.tick()
    monkeypatch.setattr(Following, "current", property(lambda _: False))
    streams.tick()
    assert await anext(stream) == RESYNC

    streams.tick()

    assert await anext(stream) == b'event: cluster\ndata: {"current":false}\n\n'


async def test_the_end_of_the_server_ends_streams_in_order() -> None:
    streams = streams_of(Builder())
    stream = await opened(streams, StreamSubject(queue=True))
    streams.end()

    assert [event async for event in stream] == [END]
    assert len(streams) == 0


async def test_the_end_of_a_session_ends_its_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.serving.stream.HEARTBEAT", 0.01)
    streams = streams_of(Builder())
    stream = await opened(streams, StreamSubject(queue=True), lasts=False)

    assert [event async for event in stream] == [b": still here\n\n", END]


async def test_fewer_rights_end_a_stream_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.serving.stream.HEARTBEAT", 0.01)
    streams = streams_of(Builder())

    async def less() -> Viewer | None:
        return Viewer("admin", "one", nodes=False)

    stream = streams.open(ALL, StreamSubject(map=True), less)

    assert [event async for event in stream][-1] == END


async def test_a_session_is_checked_once_per_heartbeat_and_not_with_each_event() -> None:
    """A check can be a request to the API server. A slow reader always has an event that waits."""
    now = 0.0
    checks = 0

    async def again() -> Viewer | None:
        nonlocal checks
        checks += 1
        return ALL

    streams = timed(Builder().refresh(), lambda: now)
    stream = streams.open(ALL, StreamSubject(map=True), again)
    assert await anext(stream) == b": here\n\n"
    (reader,) = streams._open

    async def event() -> None:
        reader.put(RESYNC)
        assert await anext(stream) == RESYNC

    reader.put(RESYNC)
    await event()
    assert checks == 0
    for expected in (1, 2):
        now += HEARTBEAT
        for _ in range(3):
            await event()
        assert checks == expected


async def test_there_are_only_so_many_streams() -> None:
    streams = streams_of(Builder())
    kept = [
        await opened(streams, StreamSubject(queue=True), Viewer("v", f"s{number}"))
        for number in range(MOST_STREAMS)
    ]
    with pytest.raises(RefusedError) as raised:
        streams.open(ALL, StreamSubject(queue=True), lasting)
    assert raised.value.status == 429

    streams.end()
    for stream in kept:
        async for _ in stream:
            pass
    assert len(streams) == 0


async def test_a_stream_that_is_never_read_takes_no_place() -> None:
    streams = streams_of(Builder())
    for _ in range(MOST_STREAMS + 1):
        streams.open(ALL, StreamSubject(queue=True), lasting)

    assert len(streams) == 0


async def test_a_view_that_breaks_tells_everybody_to_ask_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Builder()
    asked = "views=queue,map"
    async with site(cluster) as at, browser(at) as page, page.events(asked) as events:
        with monkeypatch.context() as patch:
            patch.setattr(cluster.following.queue, "take_change", _broken)
            cluster.pod(name="p")
            await events.until("resync")
        cluster.pod(name="q")
        change = await events.until("queue")
        assert "q" in {row["name"] for row in change["changed"]}


def _broken() -> None:
    raise RuntimeError("of the test")


async def test_names_with_line_ends_cannot_make_events_of_their_own() -> None:
    cluster = Builder()
    name = "x\n\nevent: end\ndata: {}\r\n\u2028"
    async with site(cluster) as at, browser(at) as page, page.events("views=queue") as events:
        cluster.pod(name=name)
        found, change = await events.next()

    assert found == "queue"
    assert change["changed"][0]["name"] == name


@pytest.mark.parametrize(
    ("views", "want"),
    [
        ("map", StreamSubject(map=True)),
        ("queue,history", StreamSubject(queue=True, history=True)),
        ("workload:ns/Job/a", StreamSubject(workload="ns/Job/a")),
        ("", StreamSubject()),
    ],
)
def test_what_is_wanted(views: str, want: StreamSubject) -> None:
    assert wanted_of(views, "cpu", ALL) == want


async def test_following_a_change_costs_no_look_at_other_roots() -> None:
    cluster = Builder()
    cluster.nodes(2)
    for number in range(50):
        cluster.pod(name=f"p{number}", cpu=50)
    streams = streams_of(cluster)
    streams.tick()
    followed: list[int] = []
    follow = cluster.following.queue.follow

    def counted(roots: set[tuple[str, str, str]]) -> None:
        followed.append(len(roots))
        follow(roots)

    cluster.following.queue.follow = counted  # type: ignore[method-assign,assignment]
    streams.tick()
    cluster.pod(name="new")
    streams.tick()
    await asyncio.sleep(0)

    assert followed == [0, 1]


async def test_pages_that_were_open_before_all_was_read_ask_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Builder()
    monkeypatch.setattr(type(cluster.following), "synced", False)
    async with site(cluster) as at, browser(at) as page, page.events("views=map") as events:
        status, answer = await page.get("/api/map")
        assert (status, answer["message"]) == (503, "The console is still reading the cluster.")
        monkeypatch.setattr(type(cluster.following), "synced", True)
        await events.until("resync")
        assert (await page.get("/api/map"))[0] == 200


async def test_a_large_workload_is_told_less_often_and_its_last_change_is_not_lost() -> None:
    cluster = Builder()
    cluster.gang("g", 1)
    cluster.refresh()
    now = [100.0]
    streams = timed(cluster.following, lambda: now[0])
    stream = await opened(streams, StreamSubject(workload="ns/PodGroup/g"))
    cluster.pods("g", 2_000)
    streams.tick()
    size = len(await anext(stream))

    cluster.pod("g", name="another")
    streams.tick()
    cluster.refresh()
    streams.tick()
    later = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    assert not later.done()

    now[0] += size / PER_SECOND
    streams.tick()
    assert b'"name":"another"' in await later


async def test_a_flood_of_changed_rows_is_not_told_row_by_row() -> None:
    cluster = Builder()
    streams = streams_of(cluster)
    stream = await opened(streams, StreamSubject(queue=True))
    for number in range(MOST_TOLD + 1):
        cluster.pod(name=f"p{number}")
    streams.tick()
    assert await anext(stream) == RESYNC

    cluster.pod(name="later", priority=9)
    streams.tick()
    assert b'"name":"later"' in await anext(stream)
