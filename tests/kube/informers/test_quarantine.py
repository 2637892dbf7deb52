"""An object's content, or its failure in the sink, affects only that object."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from kube.client.client import Client
from kube.client.meta import Key, Partial, decode_partial
from kube.client.quantity import QuantityError
from kube.client.resources import NODES, PODS
from kube.informers.quarantine import Quarantine
from tests.kube.following import Record, following, page, pod
from tests.support.api_server import ScriptedServer, Stream
from tests.support.clock import FakeClock
from tests.support.events import RecordedEvents


class Picky(Record):
    """A sink that accepts no pod with a label `poison`, and fails to remove some."""

    def __init__(self) -> None:
        super().__init__()
        self.sticky: set[str] = set()

    def upsert(self, obj: Partial) -> None:
        if "poison" in obj.metadata.labels:
            raise OverflowError(obj.metadata.labels["poison"])
        super().upsert(obj)

    def delete(self, key: Key) -> None:
        super().delete(key)
        if key[1] in self.sticky:
            raise KeyError(key[1])


@pytest.fixture
def sink() -> Picky:
    return Picky()


@pytest.fixture
def events() -> RecordedEvents:
    return RecordedEvents()


@pytest.fixture
def quarantine(events: RecordedEvents) -> Quarantine:
    return Quarantine(events)


def poison(name: str, version: int = 1, why: str = "too much") -> dict[str, Any]:
    obj = pod(name, version)
    obj["metadata"]["labels"] = {"poison": why}
    return obj


def event(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": obj}


def gauge(resource: str = "pods") -> float:
    labels = {"resource": resource}
    return REGISTRY.get_sample_value("muster_quarantined_objects", labels) or 0.0


async def test_an_object_that_the_sink_cannot_take_is_set_aside_and_all_others_go_on(
    server: ScriptedServer, client: Client, clock: FakeClock, sink: Picky, quarantine: Quarantine
) -> None:
    before = gauge()
    answer = page("a", "b")
    answer.body["items"].insert(1, poison("x"))
    await server.answer(answer, Stream(event("ADDED", poison("y")), event("ADDED", pod("c"))))

    async with following(client, sink, clock, quarantine=quarantine) as reflector:
        await sink.until("+a", "+b", "+c")
        assert reflector.synced.is_set()

    assert gauge() - before == 2
    assert list(quarantine.details()) == [
        "pods: skipped: ns/x (OverflowError: too much), ns/y (OverflowError: too much)"
    ]


@pytest.mark.parametrize("end", ["MODIFIED", "DELETED"])
async def test_its_later_good_form_is_taken_and_its_deletion_clears_it(
    server: ScriptedServer,
    client: Client,
    clock: FakeClock,
    sink: Picky,
    quarantine: Quarantine,
    end: str,
) -> None:
    before = gauge()
    stream = Stream(event("ADDED", poison("x")), event(end, pod("x", 2)), event("ADDED", pod("z")))
    await server.answer(page(), stream)

    async with following(client, sink, clock, quarantine=quarantine):
        await sink.until("+x" if end == "MODIFIED" else "-x", "+z")

    assert gauge() == before
    assert list(quarantine.details()) == []


async def test_an_object_that_cannot_be_decoded_is_set_aside_in_the_same_way(
    server: ScriptedServer, client: Client, clock: FakeClock, sink: Picky, quarantine: Quarantine
) -> None:
    def decode(data: bytes) -> Partial:
        obj = decode_partial(data)
        if obj.metadata.name == "x":
            raise ValueError("year 20000 is out of range")
        return obj

    await server.answer(page("x", "a"), Stream(event("ADDED", pod("b"))))

    async with following(client, sink, clock, quarantine=quarantine, decode=decode):
        await sink.until("+a", "+b")

    [detail] = quarantine.details()
    assert "ns/x (ValueError: year 20000 is out of range)" in detail


async def test_a_deletion_that_fails_is_told_too(
    server: ScriptedServer, client: Client, clock: FakeClock, sink: Picky, quarantine: Quarantine
) -> None:
    sink.sticky = {"a"}
    stream = Stream(event("DELETED", pod("a", 2)), event("ADDED", pod("b", 3)))
    await server.answer(page("a"), stream)

    async with following(client, sink, clock, quarantine=quarantine):
        await sink.until("+a", "-a", "+b")

    assert "ns/a (KeyError: 'a')" in "".join(quarantine.details())


async def test_what_must_not_be_overlooked_is_held_whatever_holding_raises(
    server: ScriptedServer, client: Client, clock: FakeClock, sink: Picky
) -> None:
    held: list[tuple[Key, str]] = []

    def hold(key: Key, raw: bytes) -> None:
        held.append((key, json.loads(bytes(raw))["spec"]["nodeName"]))
        raise OverflowError

    first, second = poison("x"), poison("y")
    first["spec"]["nodeName"], second["spec"]["nodeName"] = "n1", "n2"
    answer = page()
    answer.body["items"] = [first]
    await server.answer(answer, Stream(event("ADDED", second), event("ADDED", pod("a"))))

    async with following(client, sink, clock, on_set_aside=hold):
        await sink.until("+a")

    assert held == [(("ns", "x"), "n1"), (("ns", "y"), "n2")]


def test_an_object_is_told_of_once_for_each_problem(
    events: RecordedEvents, quarantine: Quarantine
) -> None:
    with capture_logs() as logs:
        for number in range(100):
            quarantine.set_aside(PODS, ("ns", "x"), "u", OverflowError("a"))
            quarantine.set_aside(PODS, ("ns", f"y{number}"), "u", OverflowError("a"))
        quarantine.set_aside(PODS, ("ns", "x"), "u", OverflowError("b"))

    mine = [log["error"] for log in logs if log["name"] == "x"]
    assert mine == ["OverflowError: a", "OverflowError: b"]
    assert sum(log["exc_info"] is not None for log in logs) == 1
    assert events.objects.count("Pod/x") == 2
    assert len(events.told) == 102


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(QuantityError("lots"), "not a quantity: 'lots'", id="a quantity"),
        pytest.param(msgspec.ValidationError("Expected `int`"), "Expected `int`", id="a type"),
        pytest.param(KeyError("theirs/secret"), "KeyError; the log has the details", id="a bug"),
    ],
)
def test_the_event_says_what_is_wrong_with_the_object_and_nothing_of_others(
    events: RecordedEvents, quarantine: Quarantine, error: Exception, want: str
) -> None:
    quarantine.set_aside(PODS, ("ns", "x"), "u", error)

    [(name, reason, message)] = events.told
    assert (name, reason) == ("Pod/x", "Quarantined")
    assert (events.regarding[0].namespace, events.types) == ("ns", ["Warning"])
    assert message == (
        f"cannot be decoded or applied, and is skipped until it changes or is deleted: {want}"
    )


def test_the_details_name_the_first_few_of_each_resource() -> None:
    quarantine = Quarantine()
    for number in range(7):
        quarantine.set_aside(PODS, ("ns", f"p{number}"), "", ValueError())
    quarantine.set_aside(NODES, ("", "n"), "", ValueError("odd"))
    for number in range(7):
        quarantine.release(PODS, ("other", f"p{number}"))

    pods, nodes = quarantine.details()
    assert pods.count("ns/p") == 5
    assert pods.endswith(" and 2 more")
    assert nodes == "nodes: skipped: n (ValueError: odd)"


async def test_a_long_page_gives_way_to_other_tasks(
    server: ScriptedServer, client: Client, clock: FakeClock
) -> None:
    class Slow(Record):
        def upsert(self, obj: Partial) -> None:
            clock.jump(0.002)
            super().upsert(obj)

    sink, seen = Slow(), list[int]()

    async def look_on() -> None:
        while len(sink.told) < 100:
            await asyncio.sleep(0)
            seen.append(len(sink.told))

    looking = asyncio.ensure_future(look_on())
    await server.answer(page(*(f"p{number}" for number in range(100))), Stream())
    async with following(client, sink, clock):
        await looking

    steps = [after - before for before, after in zip([0, *seen], seen, strict=False)]
    assert max(steps) == 3
