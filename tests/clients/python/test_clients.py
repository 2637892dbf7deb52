"""Both clients, against a server that answers as the test wants."""

import asyncio
import concurrent.futures
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio.client import ApiException
from kubernetes.aio.config import ConfigException, incluster_config

from muster_client import (
    Client,
    CompositePodGroup,
    GroupDeletedError,
    ObjectMeta,
    PodGroup,
    Workload,
    aio,
    decoding,
)
from muster_client.groups import ResponseTooLargeError
from muster_client.models import (
    REASON_INCOMPLETE,
    REASON_UNSCHEDULABLE,
    GangSchedulingPolicy,
    PodGroupSpec,
    SchedulingPolicy,
)
from tests.clients.python.both import Pauses, connected
from tests.support.api_server import (
    Drop,
    Reply,
    ScriptedServer,
    Stream,
    failure,
    server_certificate,
)

Json = dict[str, Any]
PATH = "/apis/scheduling.muster.dev/v1alpha3/namespaces/team/podgroups"


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as server:
        yield server


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture(params=["sync", "async"])
async def client(
    request: pytest.FixtureRequest,
    server: ScriptedServer,
    pauses: Pauses,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[aio.Client]:
    monkeypatch.setattr(aio.Client.__init__, "__kwdefaults__", {"sleep": pauses.sleep})
    async with connected(request.param, str(server.kubeconfig(tmp_path))) as client:
        yield client


def group(name: str = "a", version: int = 1, uid: str = "", **fields: Any) -> Json:
    meta = {"name": name, "namespace": "team", "uid": uid or name, "resourceVersion": str(version)}
    return {"metadata": meta} | fields


def decided(status: str, reason: str, *, version: int = 2, seen: int = 0, **meta: Any) -> Json:
    condition: Json = {"type": "PodGroupInitiallyScheduled", "status": status, "reason": reason}
    condition |= {"message": f"{reason} it is", "observedGeneration": seen}
    made = group(version=version, status={"conditions": [condition]})
    made["metadata"] |= meta
    return made


def listing(*items: Json, version: int = 9, more: str = "") -> Reply:
    return Reply({"metadata": {"resourceVersion": str(version), "continue": more}, "items": items})


def event(kind: str, obj: Json) -> Json:
    return {"type": kind, "object": obj}


def ended(*events: Json) -> Stream:
    stream = Stream(*events)
    stream.end()
    return stream


async def told(client: aio.Client, count: int) -> list[tuple[str, str, str]]:
    found = []
    async for each in client.watch(PodGroup, "team"):
        meta = each.object.metadata
        found.append((each.type, meta.name, meta.resourceVersion))
        if len(found) == count:
            break
    return found


async def test_a_group_is_created_with_the_fields_that_are_set_and_no_others(
    client: aio.Client, server: ScriptedServer
) -> None:
    await server.answer(Reply(group(unknown={"kept": True}), 201))
    policy = SchedulingPolicy(gang=GangSchedulingPolicy(minCount=3))
    spec = PodGroupSpec(schedulingPolicy=policy, priority=0)
    meta = ObjectMeta(name="a", namespace="team")

    made = await client.create(PodGroup(metadata=meta, spec=spec))

    seen = server.seen[0]
    assert (seen.method, seen.path) == ("POST", PATH)
    assert seen.body == {
        "apiVersion": "scheduling.muster.dev/v1alpha3",
        "kind": "PodGroup",
        "metadata": {"name": "a", "namespace": "team"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}, "priority": 0},
    }
    assert made.to_json()["unknown"] == {"kept": True}


async def test_a_mapping_is_a_merge_patch_and_a_list_a_json_patch(
    client: aio.Client, server: ScriptedServer
) -> None:
    await server.answer(Reply(group()), Reply(group(version=2)))
    ops = [{"op": "remove", "path": "/metadata/labels"}]

    await client.patch(PodGroup, "a", "team", {"metadata": {"labels": {"x": "y"}}})
    changed = await client.patch(PodGroup, "a", "team", ops)

    merge, json_patch = server.seen
    assert merge.headers["Content-Type"] == "application/merge-patch+json"
    assert json_patch.headers["Content-Type"] == "application/json-patch+json"
    assert (json_patch.path, json_patch.body) == (f"{PATH}/a", ops)
    assert changed.metadata.resourceVersion == "2"


async def test_a_deletion_may_name_the_object_by_its_uid(
    client: aio.Client, server: ScriptedServer
) -> None:
    await server.answer(Reply(), Reply())

    await client.delete(Workload, "w", "team")
    await client.delete(Workload, "w", "team", uid="u")

    assert [seen.method for seen in server.seen] == ["DELETE", "DELETE"]
    assert server.seen[1].body == {"preconditions": {"uid": "u"}}


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_a_name_that_is_none_never_becomes_a_request(
    client: aio.Client, server: ScriptedServer, name: str
) -> None:
    """An empty one would delete all groups of the namespace."""
    with pytest.raises(ValueError, match="no name of an object"):
        await client.delete(PodGroup, name, "team")
    with pytest.raises(ValueError, match="or a namespace"):
        await client.delete(PodGroup, "a", name)

    assert server.seen == []


async def test_a_name_stays_one_segment_of_the_path(
    client: aio.Client, server: ScriptedServer
) -> None:
    await server.answer(Reply(group()))

    await client.get(PodGroup, "../../pods/x?a=b", "team")

    assert server.seen[0].path.startswith(PATH)
    assert server.seen[0].query == {}


async def test_an_error_response_is_raised_with_its_status(
    client: aio.Client, server: ScriptedServer
) -> None:
    await server.answer(failure(404, "NotFound", "no such group"))

    with pytest.raises(ApiException) as raised:
        await client.get(PodGroup, "a", "team")

    assert raised.value.status == 404
    assert "no such group" in str(raised.value)


async def test_a_list_takes_all_pages_with_its_selectors(
    client: aio.Client, server: ScriptedServer
) -> None:
    await server.answer(listing(group("a"), more="next"), listing(group("b")))

    names = [each.metadata.name async for each in client.list(PodGroup, label_selector="x=y")]

    assert names == ["a", "b"]
    assert server.seen[0].path == "/apis/scheduling.muster.dev/v1alpha3/podgroups"
    assert [seen.query.get("continue") for seen in server.seen] == [None, "next"]
    assert {seen.query["labelSelector"] for seen in server.seen} == {"x=y"}


ODD = {
    "null lists": (group(spec={"expectedPods": None, "resourceClaims": None}), True),
    "null parts": ({**group(), "spec": None, "status": None}, True),
    "unknown fields": (group(spec={"later": [1, {"a": None}]}), True),
    "a text for a number": (group(status={"members": "many"}), False),
    "a null condition": (group(status={"conditions": [None]}), False),
    "a spec that is a list": (group(spec=[]), False),
}


@pytest.mark.parametrize(("odd", "readable"), ODD.values(), ids=ODD)
async def test_an_odd_object_does_not_hide_the_others(
    client: aio.Client, server: ScriptedServer, odd: Json, readable: bool
) -> None:
    odd["metadata"] = odd["metadata"] | {"name": "odd", "uid": "odd"}
    await server.answer(listing(odd, group("b")), listing(odd, group("b")))
    names = ["odd", "b"] if readable else ["b"]

    assert [each.metadata.name async for each in client.list(PodGroup, "team")] == names
    assert [name for _, name, _ in await told(client, len(names))] == names


@pytest.mark.parametrize("depth", [40, 500, 3000])
async def test_an_object_of_any_depth_does_not_hide_the_others(
    client: aio.Client, server: ScriptedServer, depth: int
) -> None:
    deep = '{"a":[' * depth + '"]}\\"{["' + "]}" * depth
    spec = f'{{"expectedPods":[{{"name":"p","template":{deep}}}]}}'
    page = json.dumps(listing(group("deep", spec="HERE"), group("b")).body)
    await server.answer(Reply(page.replace('"HERE"', spec).encode()))

    found = [each async for each in client.list(PodGroup, "team")]

    assert [each.metadata.name for each in found] == ["deep", "b"]
    assert found[0].spec.expectedPods[0].name == "p"


async def test_a_page_that_is_too_large_is_requested_in_parts(
    client: aio.Client, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("aio", "decoding"):
        monkeypatch.setattr(f"muster_client.{module}.MAX_BYTES", 1000)
    large = group("large", spec={"x": "y" * 600})
    await server.answer(
        listing(large, large), listing(large, more="next"), listing(group("b"), more="")
    )

    assert [it.metadata.name async for it in client.list(PodGroup, "team")] == ["large", "b"]
    assert [seen.query["limit"] for seen in server.seen] == ["256", "128", "128"]


async def test_an_endless_response_ends_the_call(
    client: aio.Client, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("aio", "decoding"):
        monkeypatch.setattr(f"muster_client.{module}.MAX_BYTES", 1000)
    stream = Stream()
    stream.send_bytes(b"x" * 2000)
    await server.answer(Reply(b" " * 2000), listing(), stream)

    with pytest.raises(ResponseTooLargeError):
        await client.get(PodGroup, "a", "team")
    with pytest.raises(ResponseTooLargeError):
        await told(client, 1)


async def test_a_watch_goes_on_where_it_ended(client: aio.Client, server: ScriptedServer) -> None:
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "20"}})
    await server.answer(
        listing(group("a"), version=9),
        ended(event("MODIFIED", group("a", 12)), bookmark),
        ended(event("DELETED", group("a", 22))),
    )

    assert await told(client, 3) == [
        ("ADDED", "a", "1"),
        ("MODIFIED", "a", "12"),
        ("DELETED", "a", "22"),
    ]
    watched = [seen.query for seen in server.seen if "watch" in seen.query]
    assert [query["resourceVersion"] for query in watched] == ["9", "20"]


EXPIRED = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})


@pytest.mark.parametrize(
    "answer", [ended(EXPIRED), failure(410, "Expired")], ids=["as an event", "as a response"]
)
async def test_an_expired_watch_finds_by_a_list_what_changed(
    client: aio.Client, server: ScriptedServer, answer: Any
) -> None:
    if isinstance(answer, Stream):
        answer = ended(EXPIRED)
    await server.answer(
        listing(group("same"), group("gone"), group("new one", uid="old"), group("changed")),
        answer,
        listing(group("same"), group("new one", 5, uid="new"), group("changed", 6), version=30),
        ended(event("ADDED", group("late", 31))),
    )

    found = await told(client, 9)

    assert [each[:2] for each in found[:4]] == [("ADDED", each[1]) for each in found[:4]]
    assert found[4:8] == [
        ("DELETED", "gone", "1"),
        ("DELETED", "new one", "1"),
        ("ADDED", "new one", "5"),
        ("MODIFIED", "changed", "6"),
    ]
    assert found[8] == ("ADDED", "late", "31")


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(Drop, id="a lost connection"),
        pytest.param(lambda: failure(503, "ServiceUnavailable"), id="an outage"),
        pytest.param(lambda: failure(429, "TooManyRequests"), id="too many requests"),
        pytest.param(lambda: Reply(b"<html>\n"), id="a page of a proxy"),
        pytest.param(lambda: Reply(b'{"type":"MODIFIED"}\n'), id="an event without an object"),
        pytest.param(ended, id="a watch that ends at once"),
    ],
)
async def test_a_watch_survives_an_outage_with_longer_and_longer_pauses(
    client: aio.Client, server: ScriptedServer, pauses: Pauses, trouble: Any
) -> None:
    troubles = [trouble() for _ in range(10)]
    await server.answer(listing(), *troubles, ended(event("ADDED", group())))

    assert await told(client, 1) == [("ADDED", "a", "1")]
    # aiohttp repeats a request once if its connection was lost.
    assert len(pauses.seconds) in {5, 10}
    assert pauses.seconds == [0, 0.25, 0.5, 1, 2, 4, 8, 16, 30, 30][: len(pauses.seconds)]


async def test_a_watch_without_rights_ends(client: aio.Client, server: ScriptedServer) -> None:
    await server.answer(listing(), failure(403, "Forbidden"))

    with pytest.raises(ApiException):
        await told(client, 1)


WAITING = decided("False", REASON_INCOMPLETE)
REFUSED = decided("False", REASON_UNSCHEDULABLE, version=3)
PLACED = decided("True", "Scheduled", version=4)
OUTDATED = decided("False", "Invalid", version=3, seen=1, generation=2)


@pytest.mark.parametrize(
    ("course", "pending", "want"),
    [
        pytest.param([PLACED], (REASON_INCOMPLETE,), (True, "Scheduled"), id="placed before"),
        pytest.param(
            [group(), WAITING, PLACED], (REASON_INCOMPLETE,), (True, "Scheduled"), id="placed"
        ),
        pytest.param(
            [WAITING, REFUSED, PLACED],
            (REASON_INCOMPLETE,),
            (False, "Unschedulable"),
            id="refused",
        ),
        pytest.param(
            [WAITING, REFUSED, PLACED],
            (REASON_INCOMPLETE, REASON_UNSCHEDULABLE),
            (True, "Scheduled"),
            id="placed after a refusal",
        ),
        pytest.param(
            [OUTDATED, PLACED],
            (REASON_INCOMPLETE,),
            (True, "Scheduled"),
            id="a refusal of an older spec",
        ),
    ],
)
async def test_the_wait_ends_with_the_decision(
    client: aio.Client,
    server: ScriptedServer,
    course: list[Json],
    pending: tuple[str, ...],
    want: tuple[bool, str],
) -> None:
    first, *later = course
    await server.answer(Reply(first), *(ended(event("MODIFIED", each)) for each in later))

    found = await client.wait_until_placed(PodGroup, "a", "team", timeout=60, pending=pending)

    assert (found.placed, found.reason) == want
    assert found.message == f"{want[1]} it is"
    watched = [seen.query for seen in server.seen if "watch" in seen.query]
    assert {query["fieldSelector"] for query in watched} <= {"metadata.name=a"}


async def test_a_composite_has_a_condition_of_its_own(
    client: aio.Client, server: ScriptedServer
) -> None:
    made = decided("True", "Scheduled")
    made["status"]["conditions"][0]["type"] = "CompositePodGroupInitiallyScheduled"
    await server.answer(Reply(made))

    found = await client.wait_until_placed(CompositePodGroup, "a", "team", timeout=60)

    assert found.placed


RECREATED = decided("True", "Scheduled", uid="another")


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(lambda: [ended(event("DELETED", group()))], id="by the watch"),
        pytest.param(lambda: [ended(EXPIRED), listing()], id="by a list"),
        pytest.param(lambda: [ended(EXPIRED), listing(RECREATED)], id="beside another group"),
    ],
)
async def test_a_deletion_ends_the_wait(
    client: aio.Client, server: ScriptedServer, seen: Any
) -> None:
    await server.answer(Reply(group()), *seen())

    with pytest.raises(GroupDeletedError, match="PodGroup team/a"):
        await client.wait_until_placed(PodGroup, "a", "team", timeout=60)


async def test_a_wait_ends_in_time(client: aio.Client, server: ScriptedServer) -> None:
    await server.answer(Reply(WAITING), Stream())

    with pytest.raises(TimeoutError):
        await client.wait_until_placed(PodGroup, "a", "team", timeout=0.2)


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_in_a_pod_the_service_account_is_used(
    kind: str, server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("of-the-pod")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", server_certificate())
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    await server.answer(Reply(group()))

    async with connected(kind, None) as client:
        await client.get(PodGroup, "a", "team")

    assert server.seen[0].headers["Authorization"].lower() == "bearer of-the-pod"


@pytest.mark.parametrize("given", ["argument", "environment", "home"])
async def test_a_missing_kubeconfig_is_named(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", "/none:/nowhere" if given == "environment" else "")
    file = {"argument": "/none", "environment": "/none:/nowhere", "home": "~/.kube/config"}[given]

    with pytest.raises(ConfigException, match=f"there is no kubeconfig {file}"):
        await aio.Client.connect("/none" if given == "argument" else None)


async def test_closing_the_client_ends_the_watch_of_another_thread(
    server: ScriptedServer, tmp_path: Path
) -> None:
    await server.answer(listing(), Stream())
    client = await asyncio.to_thread(Client, str(server.kubeconfig(tmp_path)))
    errors: list[BaseException] = []

    def watch() -> None:
        try:
            next(client.watch(PodGroup))
        except concurrent.futures.CancelledError as error:
            errors.append(error)

    watching = threading.Thread(target=watch)
    watching.start()
    await server.received(2)

    await asyncio.to_thread(client.close)

    await asyncio.to_thread(watching.join)
    assert len(errors) == 1


async def test_closing_the_client_closes_its_sockets_while_the_server_does_not_respond(
    server: ScriptedServer, tmp_path: Path
) -> None:
    client = await asyncio.to_thread(Client, str(server.kubeconfig(tmp_path)))
    call = asyncio.ensure_future(asyncio.to_thread(client.get, PodGroup, "a", "team"))
    await server.received(1)
    sockets = list(client._client._api.rest_client._sockets)

    client.close()  # in the thread of the server, which cannot respond meanwhile

    assert [each.fileno() for each in sockets] == [-1]
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_an_iterator_that_ends_while_the_client_closes_is_closed_too(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await server.answer(listing(group(), version=9), Stream())
    client = await asyncio.to_thread(Client, str(server.kubeconfig(tmp_path)))
    ended: list[asyncio.Task[Any]] = []
    items, end, loop = client.watch(PodGroup), client._end, client._loop
    await asyncio.to_thread(next, items)

    def late() -> None:
        items.close()
        loop.call_soon_threadsafe(lambda: ended.extend(asyncio.all_tasks(loop)))
        end()

    monkeypatch.setattr(client, "_end", late)
    await asyncio.to_thread(client.close)

    # Its task may have ended before the client looks.
    assert all(task.done() for task in ended)


def test_the_lines_of_a_watch_are_bounded() -> None:
    lines = decoding.Lines()

    assert lines.feed(b'{"a":1}\n{"b"') == [b'{"a":1}']
    assert lines.feed(b":2}\n\n \n") == [b'{"b":2}']
    with pytest.raises(ResponseTooLargeError):
        lines.feed(b"x" * (decoding.MAX_BYTES + 1))
