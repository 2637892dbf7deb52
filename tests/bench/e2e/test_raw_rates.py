"""What the clients of the raw rates write, and in which order."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import msgspec
import pytest

from bench.e2e import raw, raw_rates
from bench.e2e.cases import CASES
from bench.e2e.wire import Wire
from e2e.support.kubeconfig import Access
from scheduler.reservations import WrittenIntent


class FakeAccess:
    server = "https://127.0.0.1:6443"
    token = "none"


class FakeWire:
    """Notes requests by method and the end of their path."""

    access = cast("Access", FakeAccess())

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Any]] = []

    async def call(self, sent: bytes) -> bytes:
        head, _, body = sent.partition(b"\r\n\r\n")
        method, path = head.decode().split(" ")[:2]
        await asyncio.sleep(0)
        self.sent.append((method, path, json.loads(body or b"{}")))
        return b"{}"

    async def get(self, path: str) -> bytes:
        assert path.endswith("/pods")
        pods = [{"metadata": {"name": f"p{at}", "uid": f"u{at}"}} for at in range(7)]
        return json.dumps({"items": pods}).encode()


async def test_bindings_of_gangs_come_after_their_reservation_which_goes_after_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(raw_rates, "_RESERVED", 6)
    wire = FakeWire()
    case = CASES["gangs-3"]
    lots = await raw_rates._reserved(cast("Wire", wire), case, [f"p{at}" for at in range(7)])
    prepared = [raw._PreparedLot(cast("Wire", wire), lot) for lot in lots]
    storing = asyncio.create_task(raw._store(prepared))
    await asyncio.gather(*(raw._work(prepared) for _ in range(2)), storing)

    methods = [method for method, _, _ in wire.sent]
    assert sorted(methods) == ["DELETE"] * 2 + ["POST"] * 9
    reserved: dict[str, set[str]] = {}
    for method, path, body in wire.sent:
        if method == "DELETE":
            assert not reserved[path.rpartition("/")[2]], "a Binding is not sent yet"
        elif path.endswith("/binding"):
            uid = "u" + body["metadata"]["name"][1:]
            (lot,) = (it for it in reserved.values() if uid in it)
            lot.remove(uid)
        else:
            intents = [
                msgspec.json.decode(it, type=WrittenIntent) for it in body["spec"]["intents"]
            ]
            assert [len(it.pods) for it in intents] in ([3, 3], [1])
            reserved[body["metadata"]["name"]] = {uid for it in intents for uid in it.pods}


def test_each_client_has_as_much_to_write() -> None:
    writes = [[raw.Write(f"p{at}", "n0")] for at in range(7)]
    first, second = raw.shared(writes)

    assert [len(first.writes), len(second.writes)] == [4, 3]
    assert {it[0].pod for lot in (first, second) for it in lot.writes} == {
        f"p{at}" for at in range(7)
    }
