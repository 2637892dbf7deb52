"""The complete server over real TLS."""

import asyncio
import base64
import io
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import yaml

from localcluster.base.faults import RequestFault, WatchFault
from localcluster.cluster import LocalCluster

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster() as running:
        yield running


@pytest.fixture
async def http(cluster: LocalCluster) -> AsyncIterator[aiohttp.ClientSession]:
    async with session(cluster) as client:
        yield client


def session(cluster: LocalCluster) -> aiohttp.ClientSession:
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    there = config["clusters"][0]["cluster"]
    authority = base64.b64decode(there["certificate-authority-data"]).decode()
    return aiohttp.ClientSession(
        there["server"],
        headers={"Authorization": f"Bearer {config['users'][0]['user']['token']}"},
        connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=authority)),
        timeout=aiohttp.ClientTimeout(total=15),
    )


async def call(
    http: aiohttp.ClientSession, method: str, path: str, body: Any = None, **options: Any
) -> tuple[int, Any]:
    async with http.request(method, path, json=body, **options) as answer:
        return answer.status, await answer.json()


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **more}


async def test_the_kubeconfig_is_for_its_owner_only(cluster: LocalCluster) -> None:
    assert cluster.kubeconfig.stat().st_mode & 0o777 == 0o600


async def test_nobody_is_let_in_without_a_token(cluster: LocalCluster) -> None:
    async with session(cluster) as http:
        bad = {"Authorization": "Bearer wrong"}
        for path in (MAPS, "/api", "/openapi/v3"):
            status, body = await call(http, "GET", path, headers=bad)
            assert (status, body["reason"]) == (401, "Unauthorized")
        for path in ("/healthz", "/readyz", "/livez", "/version"):
            async with http.get(path, headers=bad) as answer:
                assert answer.status == 200


async def test_users_of_a_token_file_are_known(cluster: LocalCluster, tmp_path: Any) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text('secret,jane,42,"team-a,team-b"\n')
    cluster.tokens.load(file)
    async with session(cluster) as http:
        review = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        headers = {"Authorization": "Bearer secret"}
        status, body = await call(http, "POST", path, review, headers=headers)

    assert status == 201
    assert body["status"]["userInfo"] == {
        "username": "jane",
        "uid": "42",
        "groups": ["team-a", "team-b", "system:authenticated"],
    }


async def test_objects_live_and_die_over_http(http: aiohttp.ClientSession) -> None:
    assert (await call(http, "POST", MAPS, named("a", data={"k": "v"})))[0] == 201
    status, found = await call(http, "GET", f"{MAPS}/a")
    assert (status, found["data"]) == (200, {"k": "v"})
    found["data"] = {"k": "w"}
    assert (await call(http, "PUT", f"{MAPS}/a", found))[0] == 200
    status, gone = await call(http, "DELETE", f"{MAPS}/a")
    assert (status, gone["status"], gone["details"]["kind"]) == (200, "Success", "configmaps")
    assert (await call(http, "GET", f"{MAPS}/a"))[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "options", "want"),
    [
        pytest.param("GET", "/api/v1/nothing", {}, 404, id="no such kind"),
        pytest.param("PATCH", MAPS, {}, 405, id="a patch of a collection"),
        pytest.param("POST", f"{MAPS}/a", {}, 405, id="a post to an object"),
        pytest.param(
            "GET", MAPS, {"headers": {"Accept": "application/x"}}, 406, id="no format we write"
        ),
        pytest.param(
            "PATCH",
            f"{MAPS}/a",
            {"data": b"{}", "headers": {"Content-Type": "application/json"}},
            415,
            id="a patch of no kind",
        ),
        pytest.param("POST", MAPS, {"data": b"{"}, 400, id="broken JSON"),
        pytest.param(
            "POST", MAPS, {"data": io.BytesIO(b"x" * (3 << 20 | 1))}, 413, id="a huge body"
        ),
        pytest.param("POST", f"{MAPS}?dryRun=Some", {"data": b"{}"}, 400, id="half a dry run"),
    ],
)
async def test_bad_requests_get_a_status(
    http: aiohttp.ClientSession, method: str, path: str, options: dict[str, Any], want: int
) -> None:
    options = {"headers": {"Content-Type": "application/json"}, **options}
    async with http.request(method, path, **options) as answer:
        body = await answer.json()

    assert (answer.status, body["kind"], body["code"]) == (want, "Status", want)


async def test_yaml_goes_in_and_out(http: aiohttp.ClientSession) -> None:
    headers = {"Content-Type": "application/yaml", "Accept": "application/yaml"}
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n"

    async with http.post(MAPS, data=text, headers=headers) as answer:
        assert answer.status == 201
        assert yaml.safe_load(await answer.text())["data"] == {"k": "v"}


async def test_a_table_has_the_columns_of_its_kind(http: aiohttp.ClientSession) -> None:
    spec = {"containers": [{"name": "c", "image": "x"}]}
    await call(http, "POST", PODS, named("p", spec=spec))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

    _, table = await call(http, "GET", PODS, headers={"Accept": accept})

    names = [column["name"] for column in table["columnDefinitions"]]
    assert names[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert table["rows"][0]["cells"][:4] == ["p", "0/1", "Pending", "0"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_events_are_one_collection_in_two_shapes(http: aiohttp.ClientSession) -> None:
    new = "/apis/events.k8s.io/v1/namespaces/default/events"
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    body = named("e", regarding=about, note="text", reportingController="x.io/c", reason="R")
    assert (await call(http, "POST", new, body))[0] == 201

    _, core = await call(http, "GET", "/api/v1/namespaces/default/events/e")
    headers = {"Content-Type": "application/merge-patch+json"}
    _, patched = await call(http, "PATCH", f"{new}/e", {"note": "more"}, headers=headers)
    _, listed = await call(http, "GET", new)

    assert (core["involvedObject"], core["message"]) == (about, "text")
    assert (core["apiVersion"], core["reportingComponent"]) == ("v1", "x.io/c")
    assert (patched["note"], patched["apiVersion"]) == ("more", "events.k8s.io/v1")
    assert listed["items"][0]["regarding"] == about


async def lines(answer: aiohttp.ClientResponse, count: int) -> list[Any]:
    return [json.loads(await answer.content.readline()) for _ in range(count)]


async def test_a_watch_is_a_stream_of_lines(http: aiohttp.ClientSession) -> None:
    async with http.get(MAPS, params={"watch": "true"}) as answer:
        await call(http, "POST", MAPS, named("a"))
        await call(http, "DELETE", f"{MAPS}/a")
        events = await lines(answer, 2)

    assert [event["type"] for event in events] == ["ADDED", "DELETED"]
    assert events[0]["object"]["kind"] == "ConfigMap"


async def test_a_client_that_leaves_ends_its_watch(
    cluster: LocalCluster, http: aiohttp.ClientSession
) -> None:
    before = set(cluster.api.watches)
    async with http.get(MAPS, params={"watch": "true"}):
        (stream,) = cluster.api.watches - before
    await stream.batch()

    assert stream.closed


async def test_a_protobuf_client_can_create_small_objects(http: aiohttp.ClientSession) -> None:
    meta = b"\x0a\x01a"
    data = b"\x12\x06\x0a\x01k\x12\x01v"
    raw = b"\x0a" + bytes([len(meta)]) + meta + data
    types = b"\x0a\x02v1\x12\x09ConfigMap"
    body = b"k8s\x00\x0a" + bytes([len(types)]) + types + b"\x12" + bytes([len(raw)]) + raw
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}

    async with http.post(MAPS, data=body, headers=headers) as answer:
        assert (answer.status, (await answer.json())["data"]) == (201, {"k": "v"})
    async with http.post(MAPS, data=body[:-2] + b"\x3a\x00", headers=headers) as answer:
        assert answer.status == 415


async def test_metadata_alone_can_be_asked_for(http: aiohttp.ClientSession) -> None:
    await call(http, "POST", MAPS, named("a", data={"k": "v"}))
    accept = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"

    one = await call(http, "GET", f"{MAPS}/a", headers={"Accept": accept.format("")})
    many = await call(http, "GET", MAPS, headers={"Accept": accept.format("List")})

    assert one[1].keys() == {"kind", "apiVersion", "metadata"}
    assert (many[1]["kind"], many[1]["items"][0]["metadata"]["name"]) == (
        "PartialObjectMetadataList",
        "a",
    )


async def test_a_watched_table_says_its_columns_once(http: aiohttp.ClientSession) -> None:
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with http.get(MAPS, params={"watch": "true"}, headers=accept) as answer:
        await call(http, "POST", MAPS, named("a"))
        await call(http, "POST", MAPS, named("b"))
        events = await lines(answer, 2)

    tables = [event["object"] for event in events]
    assert [table["kind"] for table in tables] == ["Table", "Table"]
    assert [bool(table["columnDefinitions"]) for table in tables] == [True, False]
    assert [table["rows"][0]["cells"][0] for table in tables] == ["a", "b"]


async def test_a_collection_goes_at_once(http: aiohttp.ClientSession) -> None:
    for name in "ab":
        await call(http, "POST", MAPS, named(name))

    status, gone = await call(http, "DELETE", MAPS)

    assert (status, gone["kind"], len(gone["items"])) == (200, "ConfigMapList", 2)
    assert (await call(http, "GET", MAPS))[1]["items"] == []


async def test_items_of_a_built_in_list_do_not_repeat_their_kind(
    http: aiohttp.ClientSession,
) -> None:
    await call(http, "POST", MAPS, named("a"))

    _, listed = await call(http, "GET", MAPS)

    assert listed["kind"] == "ConfigMapList"
    assert listed["items"][0].keys() == {"metadata"}


async def test_tokens_and_access_can_be_reviewed(
    cluster: LocalCluster, http: aiohttp.ClientSession
) -> None:
    token = cluster.tokens.add("robot", ["machines"])
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    _, known = await call(http, "POST", path, {"spec": {"token": token}})
    _, unknown = await call(http, "POST", path, {"spec": {"token": "x"}})
    access = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    _, allowed = await call(http, "POST", access, {"spec": {}})

    assert known["status"]["authenticated"]
    assert known["status"]["user"]["username"] == "robot"
    assert "error" in unknown["status"]
    assert allowed["status"] == {"allowed": True}


async def test_requests_fail_as_planned(cluster: LocalCluster, http: aiohttp.ClientSession) -> None:
    fault = RequestFault(
        path="configmaps", methods=frozenset({"POST"}), status=429, skip=1, count=1
    )
    cluster.faults.requests.append(fault)

    first, _ = await call(http, "POST", MAPS, named("a"))
    async with http.post(MAPS, json=named("b")) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
    third, _ = await call(http, "POST", MAPS, named("b"))

    assert (first, third, fault.hits) == (201, 201, 1)


async def test_an_answer_can_be_lost_after_the_write(
    cluster: LocalCluster, http: aiohttp.ClientSession
) -> None:
    cluster.faults.requests.append(
        RequestFault(methods=frozenset({"POST"}), status=500, after=True)
    )

    assert (await call(http, "POST", MAPS, named("a")))[0] == 500
    cluster.faults.clear()
    assert (await call(http, "GET", f"{MAPS}/a"))[0] == 200


async def test_watch_events_are_lost_and_repeated_as_planned(
    cluster: LocalCluster, http: aiohttp.ClientSession
) -> None:
    cluster.faults.watches.append(WatchFault(path="configmaps", drop_every=2, duplicate_every=3))
    async with http.get(MAPS, params={"watch": "true"}) as answer:
        for name in "abc":
            await call(http, "POST", MAPS, named(name))
        events = await lines(answer, 3)

    assert [event["object"]["metadata"]["name"] for event in events] == ["a", "c", "c"]


async def test_history_can_be_forgotten(cluster: LocalCluster, http: aiohttp.ClientSession) -> None:
    async with http.get(MAPS, params={"watch": "true"}) as answer:
        cluster.expire_history()
        (event,) = await lines(answer, 1)
        rest = await answer.content.read()

    assert (event["type"], event["object"]["code"], rest) == ("ERROR", 410, b"")


async def test_a_job_runs_to_its_end(cluster: LocalCluster, http: aiohttp.ClientSession) -> None:
    """The Job controller, binding, kubelet and garbage collector work together."""
    await cluster.nodes.add("n1")
    container = {"name": "c", "image": "x"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    async with http.get(PODS, params={"watch": "true"}) as answer:
        await call(http, "POST", jobs, named("j", spec={"template": template}))
        (pod,) = (event["object"] for event in await lines(answer, 1))
        name = pod["metadata"]["name"]
        body = {**named(name), "target": {"kind": "Node", "name": "n1"}}
        assert (await call(http, "POST", f"{PODS}/{name}/binding", body))[0] == 201
        while pod["status"]["phase"] != "Running":
            (pod,) = (event["object"] for event in await lines(answer, 1))
        await cluster.nodes.finish("default")
        async with http.get(jobs, params={"watch": "true"}) as job_answer:
            job: dict[str, Any] = {"status": {}}
            while not job["status"].get("completionTime"):
                (job,) = (event["object"] for event in await lines(job_answer, 1))
        await call(http, "DELETE", f"{jobs}/j", {"propagationPolicy": "Background"})
        while True:
            (event,) = await lines(answer, 1)
            if event["type"] == "DELETED":
                break

    assert event["object"]["metadata"]["name"] == name


async def test_a_taken_port_is_an_error(cluster: LocalCluster) -> None:
    port = int(cluster.url.rpartition(":")[2])
    other = LocalCluster(jobset=False)

    with pytest.raises(OSError, match="in use"):
        await other.start(port=port)


async def test_a_stopped_cluster_leaves_no_task(tmp_path: Any) -> None:
    before = asyncio.all_tasks()
    running = LocalCluster()
    await running.start(kubeconfig=tmp_path / "kubeconfig")

    await running.stop()

    assert asyncio.all_tasks() == before


async def test_the_collector_may_orphan_what_an_owner_leaves(http: aiohttp.ClientSession) -> None:
    """It sets owner references, which requires a permission here as on a hardened server."""
    _, owner = await call(http, "POST", MAPS, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    reference["uid"] = owner["metadata"]["uid"]
    left = {"metadata": {"name": "left", "ownerReferences": [reference]}}
    await call(http, "POST", MAPS, left)

    async with http.get(MAPS, params={"watch": "true"}) as stream:
        await call(http, "DELETE", f"{MAPS}/owner", {"propagationPolicy": "Orphan"})
        async for line in stream.content:
            event = json.loads(line)
            if (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "owner"):
                break

    _, found = await call(http, "GET", f"{MAPS}/left")
    assert "ownerReferences" not in found["metadata"]
