"""Event recording."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import REGISTRY

from kube.client.client import Client
from kube.client.meta import ObjectMeta
from kube.client.resources import NODES
from kube.events.events import ObjectReference, Recorder
from tests.support.api_server import Drop, Reply, ScriptedServer, Seen, failure
from tests.support.clock import FakeClock

POD = ObjectReference("v1", "Pod", "ns", "p", "u-1")


@pytest.fixture
async def recorder(client: Client, clock: FakeClock) -> AsyncIterator[Recorder]:
    recorder = Recorder(client, "muster-test", clock, capacity=2)
    task = asyncio.ensure_future(recorder.run())
    yield recorder
    task.cancel()
    await asyncio.wait({task})


@pytest.fixture
def dropped() -> Any:
    def count(reason: str) -> float:
        return REGISTRY.get_sample_value("muster_events_dropped_total", {"reason": reason}) or 0.0

    before = {reason: count(reason) for reason in ("queue full", "refused", "unreachable")}
    return lambda reason: count(reason) - before[reason]


async def test_an_event_may_be_reported_by_another_name(
    server: ScriptedServer, recorder: Recorder
) -> None:
    """kube-scheduler's profiles do so; it is another event than the Recorder's own."""
    await server.answer(Reply({}, 201))
    await server.answer(Reply({}, 201))

    recorder.event(POD, "Warning", "FailedScheduling", "no room", component="team-pack")
    recorder.event(POD, "Warning", "FailedScheduling", "no room")
    await recorder.drained()

    assert [seen.body["reportingComponent"] for seen in server.seen] == ["team-pack", "muster-test"]
    assert [seen.body["source"]["component"] for seen in server.seen] == [
        "team-pack",
        "muster-test",
    ]
    assert len({seen.body["metadata"]["name"] for seen in server.seen}) == 2


async def test_an_event_says_who_what_and_when(server: ScriptedServer, recorder: Recorder) -> None:
    await server.answer(Reply({}, 201))

    recorder.event(POD, "Warning", "Unschedulable", "no room")
    await recorder.drained()

    [seen] = server.seen
    assert (seen.method, seen.path) == ("POST", "/api/v1/namespaces/ns/events")
    name = seen.body["metadata"].pop("name")
    assert name.startswith("p.")
    stamp = "2026-01-01T00:00:00Z"
    assert seen.body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "ns"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "ns",
            "name": "p",
            "uid": "u-1",
        },
        "type": "Warning",
        "reason": "Unschedulable",
        "message": "no room",
        "source": {"component": "muster-test"},
        "reportingComponent": "muster-test",
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


async def test_a_repetition_raises_the_count(
    server: ScriptedServer, recorder: Recorder, clock: FakeClock
) -> None:
    await server.answer(Reply({}, 201), Reply({}))
    recorder.event(POD, "Normal", "Scheduled", "whole")
    await recorder.drained()

    clock.jump(60)
    recorder.event(POD, "Normal", "Scheduled", "whole")
    await recorder.drained()

    create, patch = server.seen
    assert patch.path == f"/api/v1/namespaces/ns/events/{create.body['metadata']['name']}"
    assert patch.body == [
        {"op": "add", "path": "/count", "value": 2},
        {"op": "add", "path": "/lastTimestamp", "value": "2026-01-01T00:01:00Z"},
    ]


async def test_repetitions_before_it_is_sent_are_one_event(
    server: ScriptedServer, recorder: Recorder
) -> None:
    for _ in range(3):
        recorder.event(POD, "Normal", "Scheduled", "whole")
    await server.answer(Reply({}, 201))
    await recorder.drained()

    assert [seen.body["count"] for seen in server.seen] == [3]


async def test_another_message_is_another_event(server: ScriptedServer, recorder: Recorder) -> None:
    await server.answer(Reply({}, 201), Reply({}, 201))

    recorder.event(POD, "Normal", "Waiting", "3 of 4")
    recorder.event(POD, "Normal", "Waiting", "2 of 4")
    await recorder.drained()

    names = {seen.body["metadata"]["name"] for seen in server.seen}
    assert len(names) == 2


async def test_events_from_before_a_restart_are_counted_on(
    server: ScriptedServer, recorder: Recorder
) -> None:
    await server.answer(failure(409, "AlreadyExists"), Reply({"count": 7}), Reply({}))

    recorder.event(POD, "Normal", "Scheduled", "whole")
    await recorder.drained()

    assert [seen.method for seen in server.seen] == ["POST", "GET", "PATCH"]
    assert server.seen[2].body[0]["value"] == 8


async def test_an_event_that_expired_in_between_is_told_anew(
    server: ScriptedServer, recorder: Recorder
) -> None:
    await server.answer(Reply({}, 201), failure(404, "NotFound"), Reply({}, 201))

    for _ in range(2):
        recorder.event(POD, "Normal", "Scheduled", "whole")
        await recorder.drained()

    assert [seen.method for seen in server.seen] == ["POST", "PATCH", "POST"]
    assert server.seen[2].body["count"] == 1


async def test_too_many_events_are_dropped_and_counted(
    server: ScriptedServer, recorder: Recorder, dropped: Any
) -> None:
    for number in range(5):
        recorder.event(POD, "Normal", "Scheduled", f"message {number}")

    assert dropped("queue full") == 3
    await server.answer(Reply({}, 201), Reply({}, 201))
    await recorder.drained()


async def test_a_refused_event_is_dropped_and_the_next_one_sent(
    server: ScriptedServer, recorder: Recorder, dropped: Any
) -> None:
    await server.answer(failure(403, "Forbidden", "namespace is being terminated"), Reply({}, 201))

    recorder.event(POD, "Normal", "A", "a")
    recorder.event(POD, "Normal", "B", "b")
    await recorder.drained()

    assert [seen.body["reason"] for seen in server.seen] == ["A", "B"]
    assert dropped("refused") == 1


async def test_an_event_survives_a_short_outage(
    server: ScriptedServer, recorder: Recorder, clock: FakeClock, dropped: Any
) -> None:
    await server.answer(Drop(), failure(503, "ServiceUnavailable"), Reply({}, 201))

    recorder.event(POD, "Normal", "A", "a")
    await clock.play(recorder.drained())

    assert len(server.seen) == 3
    assert dropped("unreachable") == 0


async def test_an_event_is_given_up_after_five_attempts(
    server: ScriptedServer, recorder: Recorder, clock: FakeClock, dropped: Any
) -> None:
    await server.answer(*[Drop()] * 5)

    recorder.event(POD, "Normal", "A", "a")
    await clock.play(recorder.drained())

    assert len(server.seen) == 5
    assert dropped("unreachable") == 1


async def test_long_texts_are_cut_to_what_the_server_takes(
    server: ScriptedServer, recorder: Recorder
) -> None:
    await server.answer(Reply({}, 201))
    ref = ObjectReference("v1", "Pod", "ns", "p" * 253, "u")

    recorder.event(ref, "Normal", "A", "m" * 5000)
    await recorder.drained()

    body = server.seen[0].body
    assert len(body["metadata"]["name"]) <= 253
    assert len(body["message"]) == 1024


async def test_events_of_cluster_scoped_objects_live_in_the_default_namespace(
    server: ScriptedServer, recorder: Recorder
) -> None:
    await server.answer(Reply({}, 201))

    recorder.event(ObjectReference.of(NODES, ObjectMeta(name="n", uid="u")), "Normal", "A", "a")
    await recorder.drained()

    assert server.seen[0].path == "/api/v1/namespaces/default/events"
    assert "namespace" not in server.seen[0].body["involvedObject"]


def about(namespace: str) -> ObjectReference:
    return ObjectReference("v1", "Pod", namespace, "p", f"u-{namespace}")


def namespaces(server: ScriptedServer) -> list[str]:
    return [seen.body["metadata"]["namespace"] for seen in server.seen if seen.method == "POST"]


async def test_a_flood_in_one_namespace_costs_others_no_event(
    server: ScriptedServer, client: Client, clock: FakeClock, dropped: Any
) -> None:
    recorder = Recorder(client, "muster-test", clock, capacity=10)
    for number in range(50):
        recorder.event(about("flood"), "Normal", "A", str(number))
    for namespace in ("a", "b", "c"):
        recorder.event(about(namespace), "Normal", "A", "a")
    for number in range(50):
        recorder.event(about("flood"), "Normal", "B", str(number))
    await server.answer(*[Reply({}, 201)] * 10)
    task = asyncio.ensure_future(recorder.run())
    await recorder.drained()
    task.cancel()
    await asyncio.wait({task})

    assert sorted(namespaces(server)) == ["a", "b", "c", *["flood"] * 7]
    assert set(namespaces(server)[:4]) == {"a", "b", "c", "flood"}
    assert dropped("queue full") == 93


async def test_a_namespace_that_answers_slowly_holds_up_only_itself(
    server: ScriptedServer, client: Client, clock: FakeClock
) -> None:
    slow = asyncio.Event()

    async def handle(seen: Seen) -> Reply:
        if "slow" in seen.path:
            await slow.wait()
        return Reply({}, 201)

    server.handler = handle
    recorder = Recorder(client, "muster-test", clock)
    task = asyncio.ensure_future(recorder.run())
    for number in range(3):
        for namespace in ("slow", "a", "b"):
            recorder.event(about(namespace), "Normal", "A", str(number))
    await server.received(7)
    before = sorted(namespaces(server))
    slow.set()
    await recorder.drained()
    task.cancel()
    await asyncio.wait({task})

    assert before == ["a"] * 3 + ["b"] * 3 + ["slow"]
    assert namespaces(server).count("slow") == 3
    messages = [seen.body["message"] for seen in server.seen if "slow" in seen.path]
    assert messages == ["0", "1", "2"]


async def test_a_namespace_sends_a_few_events_at_a_time_and_others_still_have_senders(
    server: ScriptedServer, client: Client, clock: FakeClock
) -> None:
    slow = asyncio.Event()

    async def handle(seen: Seen) -> Reply:
        if "slow" in seen.path:
            await slow.wait()
        return Reply({}, 201)

    server.handler = handle
    recorder = Recorder(client, "muster-test", clock)
    task = asyncio.ensure_future(recorder.run())
    for number in range(20):
        for namespace in ("slow0", "slow1", "slow2", "quick"):
            pod = ObjectReference("v1", "Pod", namespace, "p", f"u-{namespace}-{number}")
            recorder.event(pod, "Normal", "A", "a")
    await server.received(20 + 3 * 4)
    before = Counter(namespaces(server))
    slow.set()
    await recorder.drained()
    task.cancel()
    await asyncio.wait({task})

    assert before == {"quick": 20, "slow0": 4, "slow1": 4, "slow2": 4}
    assert Counter(namespaces(server)) == dict.fromkeys(before, 20)


@pytest.mark.parametrize("answer", [b"<html>", b"[]"], ids=["no JSON", "no object"])
async def test_an_answer_that_is_no_object_ends_nothing(
    server: ScriptedServer, recorder: Recorder, answer: bytes
) -> None:
    await server.answer(Reply(answer, 201), Reply({}, 201))

    recorder.event(POD, "Normal", "A", "a")
    recorder.event(POD, "Normal", "B", "b")
    await recorder.drained()

    assert [seen.body["reason"] for seen in server.seen] == ["A", "B"]


async def test_events_that_may_be_dropped_are_sent_one_after_another_with_pauses(
    server: ScriptedServer, client: Client, clock: FakeClock
) -> None:
    pauses = [0.0, 2.0, 0.0]
    recorder = Recorder(
        client, "muster-test", clock, senders=1, attempts=1, pause=lambda: pauses.pop(0)
    )
    task = asyncio.ensure_future(recorder.run())
    begun = clock.monotonic()
    for name in ("a", "b", "c"):
        await server.answer(Reply({}, 201))
        recorder.event(ObjectReference("v1", "Pod", "ns", name, name), "Normal", "Scheduled", "x")
    await clock.play(recorder.drained())

    assert len(server.seen) == 3
    assert clock.monotonic() - begun == 2.0
    task.cancel()
    await asyncio.wait({task})


async def test_what_is_tried_once_is_dropped_then(
    server: ScriptedServer, client: Client, clock: FakeClock, dropped: Any
) -> None:
    recorder = Recorder(client, "muster-test", clock, senders=1, attempts=1)
    task = asyncio.ensure_future(recorder.run())
    await server.answer(failure(429, "TooManyRequests"))
    recorder.event(POD, "Normal", "Scheduled", "x")
    await clock.play(recorder.drained())

    assert len(server.seen) == 1
    assert dropped("unreachable") == 1
    task.cancel()
    await asyncio.wait({task})
