"""What comes and goes while pods are scheduled, by the requests that are sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import pytest

from api.constants import SCHEDULER_NAME
from bench.e2e import victims
from bench.e2e.cases import CASES
from bench.e2e.changes import Changes
from bench.e2e.objects import OURS
from bench.e2e.observer import Seen
from bench.e2e.wire import Wire
from e2e.support.kubeconfig import Access

Json = dict[str, Any]


class FakeWire:
    """Notes requests; a scheduler says of each pod that it waits, and binds all when nodes come."""

    def __init__(self, seen: Seen, *, silent: bool = False) -> None:
        self.access = cast("Access", FakeAccess())
        self.sent: list[tuple[str, str, Json]] = []
        self._seen = seen
        self._silent = silent

    async def call(self, sent: bytes) -> bytes:
        head, _, body = sent.partition(b"\r\n\r\n")
        method, path = head.decode().split(" ")[:2]
        self.sent.append((method, path, json.loads(body or b"{}")))
        return b"{}"

    async def send(self, requests: Iterable[bytes]) -> None:
        for sent in requests:
            await self.call(sent)
        self._bind()

    def _bind(self) -> None:
        self._seen.bound.update(dict.fromkeys(self._seen.tried - self._seen.bound.keys(), 9e9))
        self._seen.changed.set()

    async def post(self, path: str, bodies: list[Json]) -> None:
        names = [body["metadata"]["name"] for body in bodies]
        self.sent += [("POST", path, body) for body in bodies]
        if path.endswith("pods") and not self._silent:
            self._seen.tried.update(names)
        elif path.endswith("nodes"):
            self._bind()
        self._seen.changed.set()


class FakeAccess:
    server = "https://127.0.0.1:6443"
    token = "none"


def kinds(wire: FakeWire) -> list[str]:
    return [body["kind"] for method, _, body in wire.sent if method == "POST"]


async def test_churn_takes_away_all_that_it_made_and_counts_it() -> None:
    seen = Seen()
    wire = FakeWire(seen)
    case = CASES["perf-churn"].scaled(10, 0.01)
    changes = Changes(cast("Wire", wire), case, OURS)

    await changes.begin(seen)
    await asyncio.sleep(0)  # what comes is under way
    await changes.end()

    assert kinds(wire) == ["Node", "Pod", "Service"]
    gone = [path for method, path, _ in wire.sent if method == "DELETE"]
    assert [path.rpartition("/")[2] for path in gone] == ["churn-0"] * 3
    assert wire.sent[1][2]["spec"]["schedulerName"] == SCHEDULER_NAME
    assert {what: count for what, count in changes.own.items() if "ip" not in what} == {
        "nodes": 1, "pods": 1, "services": 1,
        "nodes/delete": 1, "pods/delete": 1, "services/delete": 1,
    }  # fmt: skip


async def test_each_stages_pods_are_there_before_its_nodes_and_bound_before_the_next() -> None:
    seen = Seen()
    wire = FakeWire(seen)
    case = CASES["perf-node-added"].scaled(3, 0.001)
    changes = Changes(cast("Wire", wire), case, OURS)

    await changes.begin(seen)

    assert kinds(wire) == ["Pod", "Node", *["Pod", *["Node"] * 3], *["Pod"] * 3,
                           *["Node"] * 3, "Pod", *["Node"] * 3]  # fmt: skip
    assert changes.own == {"pods": 6, "nodes": 10}
    assert len({it["metadata"]["name"] for it in changes.nodes}) == 10
    assert changes.seconds > 0


@pytest.mark.parametrize(
    ("name", "method", "count"), [("perf-pod-deleted", "DELETE", 40), ("perf-ungated", "PATCH", 6)]
)
async def test_what_pods_wait_for_ends_once_all_of_them_wait(
    name: str, method: str, count: int
) -> None:
    seen = Seen()
    wire = FakeWire(seen)
    case = replace(CASES[name], nodes=2, size=6)
    changes = Changes(cast("Wire", wire), case, OURS)

    await changes.begin(seen)

    made, changed = wire.sent[:6], wire.sent[6:]
    assert {sent[0] for sent in made} == {"POST"}
    assert {sent[0] for sent in changed} == {method}
    assert len({path for _, path, _ in changed}) == count
    assert all(body in ({}, {"spec": {"schedulingGates": []}}) for _, _, body in changed)
    assert sum(changes.own.values()) == 6 + count


async def test_nodes_that_are_there_before_the_pods_are_changed_for_them() -> None:
    seen = Seen()
    wire = FakeWire(seen)
    changes = Changes(cast("Wire", wire), CASES["perf-node-updated"].scaled(2, 0.001), OURS)

    await changes.begin(seen)

    methods = [(method, path.rpartition("/")[2]) for method, path, _ in wire.sent]
    assert methods[:7] == [
        *[("POST", "nodes")] * 2, ("POST", "pods"),
        ("PATCH", "status"), ("PATCH", "s0-0"), ("PATCH", "status"), ("PATCH", "s0-1"),
    ]  # fmt: skip
    assert wire.sent[0][2]["spec"]["unschedulable"]
    assert wire.sent[4][2]["spec"]["unschedulable"] is None
    assert changes.own == {"nodes": 16, "nodes/status": 8, "pods": 6}


async def test_no_node_comes_for_pods_of_which_nobody_says_that_they_wait() -> None:
    seen = Seen()
    wire = FakeWire(seen, silent=True)
    case = replace(CASES["perf-node-added"].scaled(3, 0.001), limit=0.01)
    changes = Changes(cast("Wire", wire), case, OURS)

    await changes.begin(seen)

    assert kinds(wire) == ["Pod"]
    assert changes.seconds == 0


@pytest.mark.parametrize("name", ["perf-preemption-beside", "perf-unschedulable"])
async def test_urgent_pods_come_while_others_are_scheduled_and_stay(name: str) -> None:
    seen = Seen()
    wire = FakeWire(seen)
    changes = Changes(cast("Wire", wire), CASES[name].scaled(10, 0.01), OURS)

    await changes.begin(seen)
    await asyncio.sleep(0)
    await changes.end()

    ((method, path, body),) = wire.sent
    assert (method, path) == ("POST", "/api/v1/namespaces/default/pods")
    assert (body["spec"]["priorityClassName"], body["spec"]["schedulerName"]) == (
        victims.URGENT,
        SCHEDULER_NAME,
    )
    assert changes.own == {"pods": 1}
