"""The event that tells open pages that their list of workloads changed."""

from console.base.protocols import Viewer
from console.serving.stream import LISTED, StreamSubject
from tests.console.cluster_builder import Builder
from tests.console.serving.test_stream import opened, timed

THEIRS = Viewer("b", "two", namespaces=frozenset({"b"}), nodes=False)


async def test_changes_are_told_once_in_a_while_and_the_last_one_is_not_lost() -> None:
    cluster = Builder()
    now = 100.0
    streams = timed(cluster.refresh(), lambda: now)
    stream = await opened(streams, StreamSubject(workloads=True), THEIRS)

    def tick(name: str, namespace: str) -> int:
        cluster.pod(name=name, namespace=namespace)
        streams.tick()
        return len(next(iter(streams._open))._events)

    assert tick("not-theirs", "a") == 0
    assert tick("theirs", "b") == 1
    event = await anext(stream)
    assert event.startswith(b'event: workloads\ndata: {"at":"')
    assert tick("soon-after", "b") == 0
    now += LISTED
    assert tick("not-theirs-either", "a") == 1
    await anext(stream)
    now += LISTED
    streams.tick()
    assert len(next(iter(streams._open))._events) == 0
