"""The API server in memory has kube-apiserver's rules, like the embedded cluster."""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from kube.base.errors import ApiError, Forbidden, Gone, Unreachable
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.patch import PatchBuilder
from kube.client.resources import CONFIG_MAPS, CRDS, NODES, PODS, Resource
from localcluster.cluster import LocalCluster
from tests.support.clock import FakeClock, settle
from tests.support.memory_api import FOREVER, MemoryApi

THINGS = Resource("example.dev", "v1", "things", "Thing")
_NUMBERS = itertools.count()

Row = Callable[["Server"], Awaitable[object]]
ROWS: dict[str, tuple[Row, object]] = {}


def row(expected: object) -> Callable[[Row], Row]:
    """Return a decorator for a row of the table: its steps, and the result on both servers."""

    def add(steps: Row) -> Row:
        ROWS[steps.__name__] = (steps, expected)
        return steps

    return add


class Server:
    """A server, by its client; every row has its own objects, of the name `name`."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.name = f"row-{next(_NUMBERS)}"

    async def thing(self, **metadata: Any) -> Json:
        spec = {"a": 1, "list": ["x"]}
        obj = {"apiVersion": "example.dev/v1", "kind": "Thing", "spec": spec}
        meta = {"name": self.name, "namespace": "default", **metadata}
        return await self.client.create(THINGS, obj | {"metadata": meta, "status": {"odd": 1}})

    async def pod(self, **metadata: Any) -> Json:
        spec = {"containers": [{"name": "c", "image": "none"}]}
        obj = {"apiVersion": "v1", "kind": "Pod", "spec": spec, "status": {"phase": "Failed"}}
        meta = {"name": self.name, "namespace": "default", **metadata}
        return await self.client.create(PODS, obj | {"metadata": meta})

    async def now(self, resource: Resource = THINGS) -> Json:
        return await self.client.get(resource, self.name, "default")

    async def patch(
        self, ops: PatchBuilder, resource: Resource = THINGS, subresource: str | None = None
    ) -> Json:
        return await self.client.patch(resource, self.name, ops, "default", subresource=subresource)

    async def merge(self, patch: Json, resource: Resource = THINGS, sub: str | None = None) -> Json:
        path = resource.path("default", self.name, sub)
        answer = await self.client.request(
            "PATCH",
            path,
            body=msgspec.json.encode(patch),
            content_type="application/merge-patch+json",
        )
        changed: Json = msgspec.json.decode(answer)
        return changed

    async def delete(self, resource: Resource = THINGS, **options: Any) -> str:
        return await said(self.client.delete(resource, self.name, "default", **options))

    async def bind(self, uid: str, node: str = "n1") -> str:
        return await said(self.client.bind("default", self.name, uid, node))


async def said(request: Awaitable[object]) -> str:
    """Return the reason of the error; `done` without one."""
    try:
        await request
    except ApiError as error:
        return f"{error.status} {error.reason}"
    return "done"


def version(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])


def patch() -> PatchBuilder:
    return PatchBuilder()


@row("409 AlreadyExists")
async def a_name_is_taken(server: Server) -> object:
    await server.thing()
    return await said(server.thing())


@row("404 NotFound")
async def an_object_is_not_there(server: Server) -> object:
    return await said(server.now())


@row(["404 NotFound"] * 3)
async def nothing_is_there_to_be_changed(server: Server) -> object:
    changed = patch().add("/spec/a", 2)
    binding = await server.bind("uid")
    return [await said(server.patch(changed)), await server.delete(), binding]


@row((True, True, 1, None))
async def the_server_stamps_what_is_created(server: Server) -> object:
    made = await server.thing(uid="mine", creationTimestamp="2000-01-01T00:00:00Z")
    meta = made["metadata"]
    other = meta["creationTimestamp"] > "2001"
    return meta["uid"] != "mine", other, meta["generation"], made.get("status")


@row("Pending")
async def a_pod_is_created_without_its_status(server: Server) -> object:
    return (await server.pod())["status"]["phase"]


@row(True)
async def a_name_is_generated(server: Server) -> object:
    meta = {"generateName": f"{server.name}-", "namespace": "default"}
    made = await server.client.create(CONFIG_MAPS, {"metadata": meta})
    return len(made["metadata"]["name"]) > len(server.name) + 1


@row([2, "409 Conflict", "409 Conflict"])
async def a_patch_for_another_version_is_a_conflict(server: Server) -> object:
    old = (await server.thing())["metadata"]["resourceVersion"]
    changed = await server.patch(patch().at_version(old).add("/spec/a", 2))
    stale = patch().at_version(old).add("/spec/a", 3)
    merge = {"metadata": {"resourceVersion": old}, "spec": {"a": 3}}
    return [changed["spec"]["a"], await said(server.patch(stale)), await said(server.merge(merge))]


@row(["422 Invalid"] * 3 + [1])
async def a_patch_that_does_not_apply_is_invalid(server: Server) -> object:
    await server.thing()
    test, replace = patch().test("/spec/a", 2), patch().replace("/spec/none", 1)
    bad = (test.add("/spec/a", 3), replace, patch().of_uid("another"))
    answers = [await said(server.patch(ops)) for ops in bad]
    return [*answers, (await server.now())["spec"]["a"]]


@row("422 Invalid")
async def a_uid_cannot_be_changed(server: Server) -> object:
    await server.thing()
    return await said(server.patch(patch().replace("/metadata/uid", "another")))


@row({"b": {"c": 1}})
async def a_merge_patch_removes_what_is_null(server: Server) -> object:
    await server.thing()
    return (await server.merge({"spec": {"a": None, "list": None, "b": {"c": 1}}}))["spec"]


@row([5, "409 Conflict", "409 Conflict"])
async def a_replacement_is_of_the_version_that_was_read(server: Server) -> object:
    made = await server.thing()
    new = await server.client.replace(THINGS, made | {"spec": {"a": 5}})
    another = new | {"metadata": new["metadata"] | {"uid": "another"}}
    answers = [await said(server.client.replace(THINGS, it)) for it in (made, another)]
    return [new["spec"]["a"], *answers]


@row((True, True, False))
async def a_write_that_changes_nothing_makes_no_version(server: Server) -> object:
    made = await server.thing()
    same = await server.patch(patch().add("/spec/a", 1))
    merged = await server.merge({"spec": {"a": 1}})
    changed = await server.merge({"spec": {"a": 2}})
    return tuple(version(it) == version(made) for it in (same, merged, changed))


@row([1, 1, 2])
async def a_generation_is_that_of_the_spec(server: Server) -> object:
    await server.thing()
    changes = (
        server.merge({"metadata": {"labels": {"a": "b"}}}),
        server.merge({"status": {"a": 1}}, sub="status"),
        server.merge({"spec": {"a": 2}}),
    )
    return [(await change)["metadata"]["generation"] for change in changes]


@row([None, {"x": 1}, 1, {"x": 1}])
async def a_status_is_changed_by_its_subresource_which_changes_nothing_else(
    server: Server,
) -> object:
    await server.thing()
    first = await server.merge({"status": {"x": 0}})
    patch = {"metadata": {"finalizers": ["a.dev/b"]}, "spec": {"a": 2}, "status": {"x": 1}}
    second = await server.merge(patch, sub="status")
    assert "finalizers" not in second["metadata"]
    third = await server.client.replace(THINGS, second | {"status": {"x": 2}})
    return [first.get("status"), second["status"], second["spec"]["a"], third["status"]]


@row(["422 Invalid", "done"])
async def only_a_kind_of_a_crd_needs_a_version_to_be_replaced(server: Server) -> object:
    answers = []
    await server.thing()
    meta = {"name": server.name, "namespace": "default"}
    await server.client.create(CONFIG_MAPS, {"metadata": meta})
    for resource in (THINGS, CONFIG_MAPS):
        made = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
        answers.append(await said(server.client.replace(resource, made)))
    return answers


@row([{"a": "b"}, None, "Succeeded"])
async def the_status_of_a_built_in_kind_takes_its_annotations_along(server: Server) -> object:
    await server.pod()
    patch = {"metadata": {"annotations": {"a": "b"}}, "status": {"phase": "Succeeded"}}
    pod = await server.merge(patch, PODS, "status")
    await server.thing()
    thing = await server.merge(patch, sub="status")
    found = [it["metadata"].get("annotations") for it in (pod, thing)]
    return [*found, pod["status"]["phase"]]


@row(["409 Conflict", "409 Conflict", "done", "404 NotFound"])
async def a_deletion_is_of_the_uid_and_version_that_are_meant(server: Server) -> object:
    made = await server.thing()
    body = msgspec.json.encode({"preconditions": {"resourceVersion": "1"}})
    path = THINGS.path("default", server.name)
    stale = await said(server.client.request("DELETE", path, body=body))
    uid = made["metadata"]["uid"]
    answers = [await server.delete(uid="another"), stale, await server.delete(uid=uid)]
    return [*answers, await said(server.now())]


@row(["done", 2, 0, "done", True, "422 Invalid", "done", "404 NotFound"])
async def finalizers_hold_an_object_that_is_being_deleted(server: Server) -> object:
    await server.thing(finalizers=["a.dev/b"])
    first, held = await server.delete(), (await server.now())["metadata"]
    again, same = await server.delete(), (await server.now())["metadata"] == held
    added = await said(server.merge({"metadata": {"finalizers": ["a.dev/b", "a.dev/c"]}}))
    gone = await said(server.merge({"metadata": {"finalizers": None}}))
    seconds = held["deletionGracePeriodSeconds"]
    answers = [added, gone, await said(server.now())]
    return [first, held["generation"], seconds, again, same, *answers]


@row([["foregroundDeletion"], "done", "404 NotFound"])
async def a_deletion_in_the_foreground_waits_for_the_garbage_collector(server: Server) -> object:
    made = await server.thing()
    owner: Json = {"apiVersion": "example.dev/v1", "kind": "Thing", "name": server.name}
    owner |= {"uid": made["metadata"]["uid"], "blockOwnerDeletion": True}
    hold = {"finalizers": ["a.dev/b"], "ownerReferences": [owner], "namespace": "default"}
    name = f"{server.name}-dependent"
    await server.client.create(CONFIG_MAPS, {"metadata": hold | {"name": name}})
    await server.delete(propagation="Foreground")
    held = (await server.now())["metadata"]["finalizers"]
    gone = await said(server.merge({"metadata": {"finalizers": None}}))
    return [held, gone, await said(server.now())]


@row(["done", "404 NotFound"])
async def a_pod_that_is_not_bound_goes_at_once(server: Server) -> object:
    await server.pod()
    return [await server.delete(PODS), await said(server.now(PODS))]


@row(["done", 30, "done", 30, "done", 7, "done", "404 NotFound"])
async def a_bound_pod_has_a_grace_period_that_is_only_shortened(server: Server) -> object:
    await server.bind((await server.pod(finalizers=["a.dev/b"]))["metadata"]["uid"])
    found: list[object] = []
    for grace in (None, 60, 7):
        found.append(await server.delete(PODS, grace_seconds=grace))
        found.append((await server.now(PODS))["metadata"]["deletionGracePeriodSeconds"])
    await server.merge({"metadata": {"finalizers": None}}, PODS)
    return [*found, await server.delete(PODS, grace_seconds=0), await said(server.now(PODS))]


@row(["done", "404 NotFound"])
async def a_pod_that_has_ended_has_no_grace_period(server: Server) -> object:
    await server.bind((await server.pod())["metadata"]["uid"])
    await server.merge({"status": {"phase": "Succeeded"}}, PODS, "status")
    return [await server.delete(PODS), await said(server.now(PODS))]


@row(["409 Conflict", "done", "409 Conflict", "n1", "True"])
async def a_pod_is_bound_once_and_by_its_uid(server: Server) -> object:
    uid = (await server.pod())["metadata"]["uid"]
    answers = [await server.bind("another"), await server.bind(uid), await server.bind(uid, "n2")]
    pod = await server.now(PODS)
    conditions = {it["type"]: it["status"] for it in pod["status"]["conditions"]}
    return [*answers, pod["spec"]["nodeName"], conditions["PodScheduled"]]


@row("409 Conflict")
async def a_pod_that_is_being_deleted_is_not_bound(server: Server) -> object:
    made = await server.pod(finalizers=["a.dev/b"])
    await server.delete(PODS)
    return await server.bind(made["metadata"]["uid"])


@row(([["a"], []], True))
async def a_list_is_of_what_its_selector_matches(server: Server) -> object:
    key = f"example.dev/{server.name}"
    made = await server.thing(labels={key: "a"})
    lists = [
        await server.client.list(THINGS, "default", label_selector=f"{key}={value}")
        for value in ("a", "b")
    ]
    values = [[it["metadata"]["labels"][key] for it in each["items"]] for each in lists]
    return values, version(lists[0]) >= version(made)


@row(["ADDED 1", "MODIFIED 2", "DELETED"])
async def a_watch_tells_each_change_of_what_its_selector_matches(server: Server) -> object:
    since = str(version(await server.client.list(THINGS)))
    key = f"example.dev/{server.name}"
    await server.thing()
    await server.merge({"metadata": {"labels": {key: "in"}}})
    await server.merge({"spec": {"a": 2}})
    await server.merge({"metadata": {"labels": {key: "out"}}})
    await server.merge({"spec": {"a": 3}})
    params = {"watch": "true", "resourceVersion": since, "labelSelector": f"{key}=in"}
    told: list[str] = []
    stream = server.client.watch_lines(THINGS.path("default"), params)
    async with contextlib.aclosing(stream) as lines:
        async for line in lines:
            event = msgspec.json.decode(line)
            gone = event["type"] == "DELETED"
            told.append(event["type"] + ("" if gone else f" {event['object']['spec']['a']}"))
            if gone:
                return told
    return told


@pytest.mark.parametrize("name", ROWS)
async def test_the_rules_are_those_of_kube_apiserver(name: str) -> None:
    steps, expected = ROWS[name]

    assert await steps(Server(MemoryApi())) == expected


async def test_the_embedded_cluster_has_the_same_rules() -> None:
    async with (
        LocalCluster(jobset=False, grace_cap=1000) as cluster,
        await Client.connect(cluster.kubeconfig) as client,
    ):
        await client.create(CRDS, _definition())
        for name in ("n1", "n2"):
            await client.create(NODES, {"metadata": {"name": name}})
        found = {name: await steps(Server(client)) for name, (steps, _) in ROWS.items()}

    assert found == {name: expected for name, (_, expected) in ROWS.items()}


def _definition() -> Json:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": "example.dev", "scope": "Namespaced", "names": names, "versions": [version]}
    meta = {"name": "things.example.dev"}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return kind | {"metadata": meta, "spec": spec}


MAP: Json = {"metadata": {"name": "m", "namespace": "ns"}, "data": {"a": "b"}}
REFUSED = Forbidden(403, "Forbidden", "no")


async def test_the_nth_of_some_requests_fails_before_or_after_it_is_carried_out() -> None:
    api = MemoryApi()
    api.fail(REFUSED, of=CONFIG_MAPS, name="m", nth=2)
    api.fail(Unreachable("POST", "/", "reset"), verbs=("create",), answered=True)

    with pytest.raises(Unreachable):
        await api.create(CONFIG_MAPS, MAP)
    with pytest.raises(Forbidden):
        await api.delete(CONFIG_MAPS, "m", "ns")
    await api.delete(CONFIG_MAPS, "m", "ns")

    assert [(it.verb, it.name) for it in api.sent] == [("create", "m"), *[("delete", "m")] * 2]


async def test_a_request_waits_for_what_its_rule_waits_for() -> None:
    api, gate = MemoryApi(), asyncio.Event()
    rule = api.on(lambda _: gate.wait(), "create", of=CONFIG_MAPS)

    writing = asyncio.ensure_future(api.create(CONFIG_MAPS, MAP))
    await settle()
    before = api.all(CONFIG_MAPS)
    api.rules.remove(rule)
    gate.set()
    await writing

    assert before == []
    assert len(api.all(CONFIG_MAPS, "ns")) == 1


async def test_rules_and_the_log_are_those_of_one_client_of_a_server() -> None:
    api = MemoryApi()
    other = MemoryApi()
    other.join(api)
    other.fail(REFUSED, times=FOREVER)

    await api.create(CONFIG_MAPS, MAP)
    with pytest.raises(Forbidden):
        await other.delete(CONFIG_MAPS, "m", "ns")

    assert (len(api.sent), len(other.sent)) == (1, 1)
    assert other.stored(CONFIG_MAPS, "m", "ns") == api.stored(CONFIG_MAPS, "m", "ns")


async def test_events_are_held_back_and_told_in_order() -> None:
    api = MemoryApi()
    told: list[tuple[str, str]] = []
    api.follow(CONFIG_MAPS, lambda event, kind: told.append((kind, event.obj["data"]["a"])))
    stored = api.put(CONFIG_MAPS, MAP)

    api.hold_events(CONFIG_MAPS)
    api.change(CONFIG_MAPS, "m", {"data": {"a": "c"}}, "ns")
    with api.edit(CONFIG_MAPS, "m", "ns") as obj:
        obj["data"]["a"] = "d"
    api.remove(CONFIG_MAPS, "m", "ns")
    held = list(told)
    api.release_events()

    assert held == [("ADDED", "b")]
    assert told[1:] == [("MODIFIED", "c"), ("MODIFIED", "d"), ("DELETED", "d")]
    assert stored["data"] == MAP["data"]


async def test_a_watch_cannot_begin_before_the_history() -> None:
    api = MemoryApi()
    for number in range(1100):
        api.put(CONFIG_MAPS, MAP | {"data": {"a": str(number)}})
    stream = api.watch_lines("/api/v1/configmaps", {"watch": "true", "resourceVersion": "5"})

    with pytest.raises(Gone):
        await anext(stream)


async def test_pods_run_when_they_are_bound_and_end_soon_after_their_deletion() -> None:
    clock = FakeClock()
    api = MemoryApi(clock)
    meta = api.add(PODS, {"metadata": {"name": "p"}, "spec": {}}, "ns")["metadata"]
    await api.bind("ns", "p", meta["uid"], "n1")
    phase = (api.stored(PODS, "p", "ns") or {})["status"]["phase"]
    api.remove(PODS, "p", "ns")
    api.end_pods()
    left = len(api.all(PODS))
    clock.jump(1)
    api.end_pods()

    assert (phase, left, api.all(PODS)) == ("Running", 1, [])
