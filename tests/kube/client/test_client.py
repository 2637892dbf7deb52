"""The client's requests, and its handling of responses."""

import asyncio
import socket
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from kube.base.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    LeaseLost,
    NotFound,
    ProtocolError,
    ServerError,
    Silent,
    StatusCause,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from kube.client.client import Client
from kube.client.fencing import fenced
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBS, NODES, PODS
from tests.support.api_server import Drop, Reply, ScriptedServer, Stream, failure
from tests.support.builders import make_pod


async def test_get_reads_one_object_with_the_token(server: ScriptedServer, client: Client) -> None:
    await server.answer(Reply({"kind": "Pod"}))

    assert await client.get(PODS, "p", "ns") == {"kind": "Pod"}

    [seen] = server.seen
    assert (seen.method, seen.path) == ("GET", "/api/v1/namespaces/ns/pods/p")
    assert seen.headers["Authorization"] == "Bearer letmein"
    assert seen.headers["User-Agent"] == "muster"


async def test_a_request_may_ask_for_another_form_of_the_answer(
    server: ScriptedServer, client: Client
) -> None:
    await server.answer(Reply(b"plain"), Reply({}))

    assert await client.request("GET", "/metrics", accept="text/plain") == b"plain"
    await client.request("GET", "/version")

    assert [seen.headers["Accept"] for seen in server.seen] == ["text/plain", "application/json"]


async def test_get_reads_an_object_of_thousands_of_levels(
    server: ScriptedServer, client: Client
) -> None:
    levels = 9_000
    await server.answer(Reply(b'{"deep":' * levels + b"{}" + b"}" * levels))

    obj = await client.get(PODS, "p", "ns")

    for _ in range(levels):
        obj = obj["deep"]
    assert obj == {}


async def test_list_joins_all_pages(server: ScriptedServer, client: Client) -> None:
    await server.answer(
        Reply({"metadata": {"continue": "more"}, "items": [{"n": 1}]}),
        Reply({"metadata": {"resourceVersion": "7"}, "items": [{"n": 2}]}),
    )

    whole = await client.list(JOBS, "ns", label_selector="a=b", field_selector="c=d")

    assert whole == {"metadata": {"resourceVersion": "7"}, "items": [{"n": 1}, {"n": 2}]}
    first, second = server.seen
    assert first.query == {"limit": "500", "labelSelector": "a=b", "fieldSelector": "c=d"}
    assert second.query == first.query | {"continue": "more"}


async def test_list_that_expires_between_pages_is_read_again_in_one_piece(
    server: ScriptedServer, client: Client
) -> None:
    await server.answer(
        Reply({"metadata": {"continue": "old"}, "items": [{"n": 1}]}),
        failure(410, "Expired"),
        Reply({"metadata": {}, "items": [{"n": 1}, {"n": 2}]}),
    )

    whole = await client.list(NODES)

    assert whole["items"] == [{"n": 1}, {"n": 2}]
    assert server.seen[2].query == {}


async def test_create_takes_the_namespace_of_the_object(
    server: ScriptedServer, client: Client
) -> None:
    await server.answer(Reply({}, 201))
    pod = make_pod("p", "ns").build()

    await client.create(PODS, pod, dry_run=True)

    [seen] = server.seen
    assert (seen.method, seen.path) == ("POST", "/api/v1/namespaces/ns/pods")
    assert (seen.query, seen.body) == ({"dryRun": "All"}, pod)


async def test_create_without_any_namespace_is_our_own_mistake(client: Client) -> None:
    with pytest.raises(ValueError, match="namespace"):
        await client.create(PODS, {"metadata": {"name": "p"}})


async def test_patch_sends_a_json_patch(server: ScriptedServer, client: Client) -> None:
    await server.answer(Reply({}))
    ops = PatchBuilder().at_version("3").add("/metadata/labels/a", "b")

    await client.patch(PODS, "p", ops, "ns", subresource="status")

    [seen] = server.seen
    assert (seen.method, seen.path) == ("PATCH", "/api/v1/namespaces/ns/pods/p/status")
    assert seen.headers["Content-Type"] == "application/json-patch+json"
    assert seen.body == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "3"},
        {"op": "add", "path": "/metadata/labels/a", "value": "b"},
    ]


async def test_replace_puts_back_the_whole_object(server: ScriptedServer, client: Client) -> None:
    await server.answer(Reply({}))
    pod = make_pod("p", "ns").stored("u", "1").build()

    await client.replace(PODS, pod)

    [seen] = server.seen
    assert (seen.method, seen.path) == ("PUT", "/api/v1/namespaces/ns/pods/p")
    assert seen.body == pod


async def test_delete_sends_its_preconditions_and_propagation(
    server: ScriptedServer, client: Client
) -> None:
    await server.answer(Reply({}))

    await client.delete(PODS, "p", "ns", uid="u-1", propagation="Background", grace_seconds=0)

    [seen] = server.seen
    assert seen.method == "DELETE"
    assert seen.body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u-1"},
        "propagationPolicy": "Background",
        "gracePeriodSeconds": 0,
    }


async def test_bind_names_the_pod_by_uid(server: ScriptedServer, client: Client) -> None:
    await server.answer(Reply({"kind": "Status", "status": "Success"}, 201))

    await client.bind("ns", "p", "u-1", "n-1")

    [seen] = server.seen
    assert (seen.method, seen.path) == ("POST", "/api/v1/namespaces/ns/pods/p/binding")
    assert seen.body["metadata"] == {"name": "p", "namespace": "ns", "uid": "u-1"}
    assert seen.body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n-1"}


@pytest.mark.parametrize(
    ("code", "reason", "want"),
    [
        pytest.param(400, "BadRequest", ApiError, id="a bad request has no type of its own"),
        pytest.param(401, "Unauthorized", Unauthorized, id="unknown credentials"),
        pytest.param(403, "Forbidden", Forbidden, id="not allowed"),
        pytest.param(404, "NotFound", NotFound, id="no such object"),
        pytest.param(409, "Conflict", Conflict, id="changed in between"),
        pytest.param(409, "AlreadyExists", AlreadyExists, id="the name is taken"),
        pytest.param(410, "Expired", Gone, id="history is gone"),
        pytest.param(422, "Invalid", Invalid, id="breaks a rule"),
        pytest.param(429, "TooManyRequests", TooManyRequests, id="overloaded"),
        pytest.param(503, "ServiceUnavailable", ServerError, id="server in trouble"),
    ],
)
async def test_a_refusal_becomes_the_error_of_its_meaning(
    server: ScriptedServer, client: Client, code: int, reason: str, want: type[ApiError]
) -> None:
    await server.answer(failure(code, reason, "because"))

    with pytest.raises(ApiError) as caught:
        await client.get(PODS, "p", "ns")

    assert type(caught.value) is want
    assert (caught.value.status, caught.value.reason) == (code, reason)
    assert (caught.value.message, caught.value.method) == ("because", "GET")


async def test_a_refusal_carries_its_causes(server: ScriptedServer, client: Client) -> None:
    cause = {"field": "spec.x", "reason": "FieldValueRequired", "message": "must be set"}
    await server.answer(failure(422, "Invalid", causes=[cause]))

    with pytest.raises(Invalid) as caught:
        await client.get(PODS, "p", "ns")

    assert caught.value.causes == (StatusCause("spec.x", "FieldValueRequired", "must be set"),)
    assert not caught.value.patch_failed


async def test_a_patch_that_does_not_apply_is_told_from_a_broken_rule(
    server: ScriptedServer, client: Client
) -> None:
    message = "the server rejected our request due to an error in our request"
    await server.answer(failure(422, "Invalid", message))

    with pytest.raises(Invalid) as caught:
        await client.patch(PODS, "p", PatchBuilder().of_uid("u"), "ns")

    assert caught.value.patch_failed


async def test_a_refusal_that_is_no_status_keeps_its_text(
    server: ScriptedServer, client: Client
) -> None:
    await server.answer(Reply("upstream went away", 502))

    with pytest.raises(ServerError) as caught:
        await client.get(PODS, "p", "ns")

    assert "upstream went away" in caught.value.message


async def test_no_answer_is_unreachable(server: ScriptedServer, client: Client) -> None:
    await server.answer(Drop())

    with pytest.raises(Unreachable) as caught:
        await client.create(PODS, make_pod().build())

    assert (caught.value.method, caught.value.path) == ("POST", "/api/v1/namespaces/default/pods")


async def test_an_answer_that_does_not_come_in_time_is_unreachable(client: Client) -> None:
    with pytest.raises(Unreachable):
        await client.request("GET", "/slow", timeout=0.05)


async def test_a_server_that_is_down_is_unreachable(server: ScriptedServer, client: Client) -> None:
    await server.stop()

    with pytest.raises(Unreachable):
        await client.get(NODES, "n")


async def test_a_certificate_of_another_authority_is_not_trusted(
    server: ScriptedServer, tmp_path: Path
) -> None:
    path = server.kubeconfig(tmp_path)
    text = "\n".join(
        line for line in path.read_text().splitlines() if "certificate-authority" not in line
    )
    path.write_text(text)

    async with await Client.connect(path) as stranger:
        with pytest.raises(Unreachable, match=r"(?i)certificate"):
            await stranger.get(NODES, "n")


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_what_the_server_asks_for_goes_to_the_caller_and_nothing_is_repeated(
    server: ScriptedServer, client: Client, code: int
) -> None:
    await server.answer(failure(code, "Reason", headers={"Retry-After": "3"}))

    with pytest.raises(ApiError) as caught:
        await client.request("POST", "/x", body=b"{}")

    assert caught.value.retry_after == 3
    assert len(server.seen) == 1


async def test_watch_lines_come_one_by_one_until_the_server_ends(
    server: ScriptedServer, client: Client
) -> None:
    stream = Stream({"n": 1}, {"n": 2})
    stream.end()
    await server.answer(stream)

    lines = [line async for line in client.watch_lines("/api/v1/pods", {"watch": "true"})]

    assert lines == [b'{"n": 1}', b'{"n": 2}']
    assert server.seen[0].query == {"watch": "true"}


async def test_a_watch_line_of_more_than_a_mebibyte_arrives_whole(
    server: ScriptedServer, client: Client
) -> None:
    stream = Stream({"big": "x" * 3_000_000})
    stream.end()
    await server.answer(stream)

    [line] = [line async for line in client.watch_lines("/x", {})]

    assert len(line) > 3_000_000


async def test_a_watch_line_without_end_is_given_up(
    server: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kube.client.client._LONGEST_LINE", 1_000_000)
    stream = Stream({"big": "x" * 3_000_000})
    stream.end()
    await server.answer(stream)

    with pytest.raises(ProtocolError, match="a line of more than 1000000 bytes"):
        async for _ in client.watch_lines("/x", {}):
            pass


async def test_a_silent_watch_is_given_up(server: ScriptedServer, client: Client) -> None:
    await server.answer(Stream())

    with pytest.raises(Silent):
        async for _ in client.watch_lines("/x", {}, inactivity=0.05):
            pass


async def test_a_refused_watch_is_an_error_of_its_meaning(
    server: ScriptedServer, client: Client
) -> None:
    await server.answer(failure(410, "Expired"))

    with pytest.raises(Gone):
        async for _ in client.watch_lines("/x", {}):
            pass


async def test_watches_do_not_use_up_the_connections_of_requests(
    server: ScriptedServer, tmp_path: Path
) -> None:
    stream = Stream({"n": 1})
    async with await Client.connect(server.kubeconfig(tmp_path), connections=1) as client:
        await server.answer(stream)
        lines = client.watch_lines("/x", {})
        assert await anext(lines)
        await server.answer(Reply({"ok": True}))
        assert await client.get(NODES, "n") == {"ok": True}
        stream.end()
        assert [line async for line in lines] == []


async def test_urgent_requests_do_not_wait_for_the_connections_of_others(
    server: ScriptedServer, tmp_path: Path
) -> None:
    stream = Stream({"n": 1})
    async with await Client.connect(server.kubeconfig(tmp_path), connections=1) as client:
        await server.answer(stream)
        slow = asyncio.ensure_future(client.request("GET", "/slow"))
        await server.received(1)
        await server.answer(Reply({"ok": True}))
        assert await client.request("GET", "/lease", urgent=True) == b'{"ok": true}'
        stream.end()
        await slow


async def test_what_waits_for_a_connection_is_not_sent_once_it_is_not_allowed_any_more(
    server: ScriptedServer, tmp_path: Path
) -> None:
    stream, allowed = Stream({"n": 1}), [True]
    async with await Client.connect(server.kubeconfig(tmp_path), connections=1) as client:
        await server.answer(stream)
        slow = asyncio.ensure_future(client.request("GET", "/slow"))
        await server.received(1)
        with fenced(lambda: bool(allowed)):
            waiting = asyncio.ensure_future(client.request("POST", "/late"))
        await asyncio.sleep(0)
        allowed.clear()
        stream.end()
        await slow
        with pytest.raises(LeaseLost):
            await waiting
        await server.answer(Reply({"ok": True}))
        assert await client.request("GET", "/next") == b'{"ok": true}'

    assert [seen.path for seen in server.seen] == ["/slow", "/next"]


async def test_the_other_end_of_a_silent_watch_is_probed(
    server: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[socket.socket] = []

    class Noted(socket.socket):
        def __init__(self, *what: Any, **more: Any) -> None:
            super().__init__(*what, **more)
            made.append(self)

    monkeypatch.setattr("kube.client.open_sockets.socket.socket", Noted)
    await server.answer(Stream({"type": "BOOKMARK"}))
    stream = client.watch_lines("/api/v1/pods", {"watch": "true"})
    async with aclosing(stream) as lines:
        await anext(lines)
        options = [
            made[0].getsockopt(level, option)
            for level, option in (
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
                (socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
            )
        ]

    assert options == [1, 5, 3]
