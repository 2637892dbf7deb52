"""The reads of owners, and the lifetime of cached results."""

from collections import Counter

import msgspec
import pytest

from controllers.groups.owner_chain import _KEPT_SECONDS, OwnerChains
from controllers.groups.owner_chain import _MOST_KEPT as MOST_KEPT
from kube.base.errors import NotFound, Unreachable
from kube.client.resources import Resource
from tests.support.clock import FakeClock

SET = ("apps/v1", "StatefulSet", "s", "uid-s")


class Server:
    """StatefulSets of any name, with the UID `uid-NAME` and no owner."""

    def __init__(self) -> None:
        self.reads: Counter[str] = Counter()
        self.asked = 0
        self.failing = False
        self.kinds = [
            {"name": "statefulsets/scale", "kind": "StatefulSet"},
            {"name": "statefulsets", "kind": "StatefulSet"},
        ]

    async def read(self, path: str, form: str, namespace: str) -> bytes:
        self.reads[path] += 1
        if path == "/apis/apps/v1":
            assert form == "application/json"
            return msgspec.json.encode({"resources": self.kinds})
        if path.startswith("/apis/apps/v1/namespaces/ns/statefulsets/"):
            assert "PartialObjectMetadata" in form
            name = path.rpartition("/")[2]
            return msgspec.json.encode({"metadata": {"name": name, "uid": f"uid-{name}"}})
        raise NotFound(404, "NotFound", path)

    async def may(self, verb: str, resource: Resource, namespace: str) -> bool:
        self.asked += 1
        if self.failing:
            raise Unreachable("POST", "", "reset")
        return (verb, resource.plural, namespace) == ("get", "statefulsets", "ns")


async def test_a_kind_is_found_by_its_own_resource_and_not_by_a_part_of_it() -> None:
    server = Server()

    common = await OwnerChains(server, FakeClock()).common("ns", [SET])

    assert common.owner is not None
    assert common.owner.uid == "uid-s"
    assert common.certain


async def test_what_was_read_is_believed_for_a_minute() -> None:
    server, clock = Server(), FakeClock()
    chains = OwnerChains(server, clock)
    await chains.common("ns", [SET])
    await clock.advance(_KEPT_SECONDS - 1)
    await chains.common("ns", [SET])
    assert set(server.reads.values()) == {1}

    await clock.advance(1)
    await chains.common("ns", [SET])
    assert set(server.reads.values()) == {2}


async def test_no_more_is_kept_than_a_bound() -> None:
    server = Server()
    chains = OwnerChains(server, FakeClock())
    for at in range(MOST_KEPT + 1):
        await chains.common("ns", [("apps/v1", "StatefulSet", f"s{at}", f"uid-s{at}")])

    await chains.common("ns", [("apps/v1", "StatefulSet", "s1", "uid-s1")])
    await chains.common("ns", [("apps/v1", "StatefulSet", "s0", "uid-s0")])

    path = "/apis/apps/v1/namespaces/ns/statefulsets"
    assert server.reads[f"{path}/s1"] == 1
    assert server.reads[f"{path}/s0"] == 2


@pytest.mark.parametrize("body", [b"", b"[]", b'{"resources": 1}', b"\xff"])
async def test_an_answer_that_is_none_leaves_it_open(body: bytes) -> None:
    class Odd(Server):
        async def read(self, path: str, form: str, namespace: str) -> bytes:
            return body

    common = await OwnerChains(Odd(), FakeClock()).common("ns", [SET])

    assert common.owner is not None
    assert not common.certain


async def test_owners_in_another_namespace_are_others() -> None:
    server = Server()
    chains = OwnerChains(server, FakeClock())
    await chains.common("ns", [SET])

    other = (await chains.common("elsewhere", [SET])).owner

    assert other is not None  # trusted, because permissions are per namespace
    assert len(server.reads) == 2
    assert server.asked == 2


async def test_rights_are_asked_for_once_in_a_while_and_not_for_each_object() -> None:
    server = Server()
    chains = OwnerChains(server, FakeClock())
    for at in range(9):
        await chains.common("ns", [("apps/v1", "StatefulSet", f"s{at}", f"uid-s{at}")])

    assert server.asked == 1


async def test_where_rights_are_not_known_nothing_is_tried() -> None:
    server = Server()
    server.failing = True

    common = await OwnerChains(server, FakeClock()).common("ns", [SET])

    assert common.owner is not None
    assert set(server.reads) == {"/apis/apps/v1"}
