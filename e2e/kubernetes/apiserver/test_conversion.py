"""Kinds with several versions and a conversion webhook: every verb, in any version."""

import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.support import definitions
from e2e.harness.support.rest import APPLY_PATCH, JSON_PATCH, Rest
from e2e.harness.support.waiting import eventually
from e2e.kubernetes.apiserver import crds
from e2e.kubernetes.apiserver.objects import Namespace, causes
from e2e.kubernetes.apiserver.webhooks import Server, registered, serving

Object = dict[str, Any]


def _schema(**fields: Object) -> Object:
    status = {"type": "object", "properties": {"ready": {"type": "boolean"}}}
    spec = {"type": "object", "properties": fields}
    return {"type": "object", "properties": {"spec": spec, "status": status}}


TEXT: Object = {"type": "string"}
V1 = _schema(address={"type": "string", "pattern": "^[a-z]+:[0-9]+$"})
V2 = _schema(host=TEXT, port={"type": "integer", "maximum": 9000}, scheme={**TEXT, "default": "x"})


def convert(obj: Object, version: str) -> Object:
    """Convert between v1 (`address: host:port`) and v2 (`host`, `port` and `scheme`).

    v1 keeps the scheme in an annotation.
    """
    spec, metadata = dict(obj.get("spec") or {}), dict(obj["metadata"])
    notes = dict(metadata.get("annotations") or {})
    if spec.get("host") == "broken":
        raise ValueError("this one cannot be converted")
    if version.endswith("/v1"):
        address = f"{spec.get('host')}:{spec.get('port')}"
        notes["scheme"] = spec.get("scheme", "")
        spec = {"address": address, "unknown": "pruned"}
    else:
        host, _, port = spec["address"].partition(":")
        spec = {"host": host, "port": int(port)}
        if scheme := notes.pop("scheme", ""):
            spec["scheme"] = scheme
    # The webhook may change labels and annotations, but no other metadata.
    metadata = {**metadata, "annotations": notes, "generation": 77, "finalizers": ["x.io/never"]}
    return {**obj, "apiVersion": version, "metadata": metadata, "spec": spec}


def definition(group: str, conversion: Object) -> Object:
    crd = crds.definition(group)
    crd["spec"]["conversion"] = conversion
    crd["spec"]["versions"] = [
        {
            "name": name,
            "served": True,
            "storage": name == "v2",
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        }
        for name, schema in (("v1", V1), ("v2", V2))
    ]
    return crd


def by_webhook(server: Server, **fields: Any) -> Object:
    webhook = {"clientConfig": server.client_config("/convert"), "conversionReviewVersions": ["v1"]}
    return {"strategy": "Webhook", "webhook": {**webhook, **fields}}


@dataclass(frozen=True, slots=True)
class Kind:
    """One installed kind with the versions v1 and v2, and the webhook between them."""

    group: str
    ns: Namespace
    server: Server

    def path(self, version: str, name: str = "") -> str:
        return self.ns.path(f"{self.group}/{version}", "widgets", name)

    def v1(self, name: str, address: str, **metadata: Any) -> Object:
        return self._object("v1", name, metadata, address=address)

    def v2(self, name: str, host: str, port: int, **spec: Any) -> Object:
        return self._object("v2", name, {}, host=host, port=port, **spec)

    def _object(self, version: str, name: str, metadata: Object, **spec: Any) -> Object:
        kind = {"apiVersion": f"{self.group}/{version}", "kind": "Widget"}
        return {**kind, "metadata": {"name": name, **metadata}, "spec": spec}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as running:
        running.convert = convert
        yield running


@pytest.fixture
async def kind(rest: Rest, ns: Namespace, server: Server) -> AsyncIterator[Kind]:
    group = f"conversion-{secrets.token_hex(4)}.example.com"
    async with crds.installed(rest, definition(group, by_webhook(server))):
        made = Kind(group, ns, server)

        async def both() -> bool:
            return (await rest.get(made.path("v2"))).status == 200

        await eventually(both, "both versions to be served")
        yield made


async def test_an_object_of_one_version_is_read_in_both(rest: Rest, kind: Kind) -> None:
    created = (await rest.post(kind.path("v1"), kind.v1("a", "here:80"))).expect(201)
    assert created["apiVersion"] == f"{kind.group}/v1"
    assert created["spec"] == {"address": "here:80"}

    old = (await rest.get(kind.path("v1", "a"))).ok()
    new = (await rest.get(kind.path("v2", "a"))).ok()

    assert old["spec"] == {"address": "here:80"}
    assert (new["spec"]["host"], new["spec"]["port"]) == ("here", 80)
    assert new["apiVersion"] == f"{kind.group}/v2"
    for field in ("uid", "resourceVersion", "creationTimestamp", "name"):
        assert old["metadata"][field] == new["metadata"][field]


@pytest.mark.long
async def test_a_webhook_changes_no_metadata_but_labels_and_annotations(
    rest: Rest, kind: Kind
) -> None:
    await rest.post(kind.path("v2"), kind.v2("a", "here", 80, scheme="https"))

    old = (await rest.get(kind.path("v1", "a"))).ok()

    assert old["metadata"]["annotations"] == {"scheme": "https"}
    assert old["metadata"]["generation"] == 1
    assert "finalizers" not in old["metadata"]


@pytest.mark.long
async def test_the_result_is_pruned_by_the_schema_of_its_version(rest: Rest, kind: Kind) -> None:
    await rest.post(kind.path("v2"), kind.v2("a", "here", 80))

    assert (await rest.get(kind.path("v1", "a"))).ok()["spec"] == {"address": "here:80"}


@pytest.mark.long
async def test_a_review_names_version_and_objects(rest: Rest, kind: Kind) -> None:
    await rest.post(kind.path("v2"), kind.v2("a", "here", 80))
    await rest.get(kind.path("v1", "a"))

    asked = next(
        request
        for request in kind.server.conversions
        if request["desiredAPIVersion"] == f"{kind.group}/v1" and request["objects"]
    )

    assert asked["uid"]
    assert asked["objects"][0]["kind"] == "Widget"
    assert asked["objects"][0]["apiVersion"] == f"{kind.group}/v2"
    assert asked["objects"][0]["spec"]["host"] == "here"


@pytest.mark.long
async def test_each_version_is_judged_by_its_own_schema(rest: Rest, kind: Kind) -> None:
    bad_old = (await rest.post(kind.path("v1"), kind.v1("a", "no port"))).expect(422)
    bad_new = (await rest.post(kind.path("v2"), kind.v2("a", "here", 9999))).expect(422)
    # The rules of the request's version count, not those of the stored one.
    (await rest.post(kind.path("v1"), kind.v1("a", "here:9999"))).expect(201)

    assert causes(bad_old) == {("FieldValueInvalid", "spec.address")}
    assert causes(bad_new) == {("FieldValueInvalid", "spec.port")}


@pytest.mark.long
async def test_lists_speak_the_version_asked_for(rest: Rest, kind: Kind) -> None:
    await rest.post(kind.path("v1"), kind.v1("a", "here:80"))
    await rest.post(kind.path("v2"), kind.v2("b", "there", 90))

    old = (await rest.get(kind.path("v1"))).ok()
    new = (await rest.get(kind.path("v2"))).ok()

    assert [item["spec"]["address"] for item in old["items"]] == ["here:80", "there:90"]
    assert [item["spec"]["host"] for item in new["items"]] == ["here", "there"]
    assert {item["apiVersion"] for item in old["items"]} == {f"{kind.group}/v1"}
    assert (old["apiVersion"], old["kind"]) == (f"{kind.group}/v1", "WidgetList")


@pytest.mark.long
async def test_a_watch_speaks_the_version_asked_for(rest: Rest, kind: Kind) -> None:
    since = (await rest.get(kind.path("v1"))).ok()["metadata"]["resourceVersion"]
    async with rest.watch(kind.path("v1"), {"resourceVersion": since}) as watch:
        await rest.post(kind.path("v2"), kind.v2("a", "here", 80))
        added = await watch.next()
        await rest.patch(kind.path("v2", "a"), {"spec": {"port": 81}})
        modified = await watch.next()
        await rest.delete(kind.path("v2", "a"))
        deleted = await watch.next()

    seen = [(event["type"], event["object"]["spec"]["address"]) for event in (added, modified)]
    assert seen == [("ADDED", "here:80"), ("MODIFIED", "here:81")]
    assert deleted["type"] == "DELETED"
    assert {e["object"]["apiVersion"] for e in (added, modified, deleted)} == {f"{kind.group}/v1"}


@pytest.mark.long
async def test_a_patch_is_made_of_the_version_asked_for(rest: Rest, kind: Kind) -> None:
    await rest.post(kind.path("v2"), kind.v2("a", "here", 80, scheme="https"))

    merged = (await rest.patch(kind.path("v1", "a"), {"spec": {"address": "there:81"}})).ok()
    tested = [
        {"op": "test", "path": "/spec/address", "value": "there:81"},
        {"op": "replace", "path": "/spec/address", "value": "there:82"},
    ]
    patched = (await rest.patch(kind.path("v1", "a"), tested, JSON_PATCH)).ok()
    stored = (await rest.get(kind.path("v2", "a"))).ok()

    assert merged["spec"] == {"address": "there:81"}
    assert patched["spec"] == {"address": "there:82"}
    assert stored["spec"] == {"host": "there", "port": 82, "scheme": "https"}
    assert patched["metadata"]["generation"] == 3


@pytest.mark.long
async def test_a_patch_that_changes_nothing_writes_nothing(rest: Rest, kind: Kind) -> None:
    await rest.post(kind.path("v2"), kind.v2("a", "here", 80, scheme="https"))
    before = (await rest.get(kind.path("v1", "a"))).ok()

    after = (await rest.patch(kind.path("v1", "a"), {"spec": {"address": "here:80"}})).ok()

    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


@pytest.mark.long
async def test_a_replacement_in_another_version_is_kept(rest: Rest, kind: Kind) -> None:
    await rest.post(kind.path("v2"), kind.v2("a", "here", 80))
    obj = (await rest.get(kind.path("v1", "a"))).ok()

    obj["spec"]["address"] = "there:81"
    (await rest.put(kind.path("v1", "a"), obj)).expect(200)
    stale = (await rest.put(kind.path("v1", "a"), obj)).expect(409)

    assert stale["reason"] == "Conflict"
    assert (await rest.get(kind.path("v2", "a"))).ok()["spec"]["port"] == 81


@pytest.mark.long
async def test_the_status_is_written_in_any_version(rest: Rest, kind: Kind) -> None:
    await rest.post(kind.path("v2"), kind.v2("a", "here", 80))
    body = {"status": {"ready": True}, "spec": {"address": "ignored:1"}}

    written = (await rest.patch(f"{kind.path('v1', 'a')}/status", body)).ok()
    read = (await rest.get(kind.path("v2", "a"))).ok()

    assert written["status"] == read["status"] == {"ready": True}
    assert read["spec"]["host"] == "here"
    assert read["metadata"]["generation"] == 1


@pytest.mark.long
async def test_managers_of_both_versions_are_kept_apart(rest: Rest, kind: Kind) -> None:
    one, two = {"fieldManager": "one"}, {"fieldManager": "two"}
    await rest.post(kind.path("v2"), kind.v2("a", "here", 80), params=one)
    await rest.patch(kind.path("v1", "a"), {"spec": {"address": "there:81"}}, params=two)

    found = (await rest.get(kind.path("v2", "a"))).ok()["metadata"]["managedFields"]

    versions = {entry["manager"]: entry["apiVersion"] for entry in found}
    assert versions["two"] == f"{kind.group}/v1"


@pytest.mark.long
async def test_a_manager_has_an_entry_for_each_version_it_wrote_in(rest: Rest, kind: Kind) -> None:
    one = {"fieldManager": "one"}
    await rest.post(kind.path("v2"), kind.v2("a", "here", 80), params=one)
    label = {"metadata": {"labels": {"by": "v1"}}}
    await rest.patch(kind.path("v1", "a"), label, params=one)

    found = (await rest.get(kind.path("v2", "a"))).ok()["metadata"]["managedFields"]

    entries = {entry["apiVersion"]: entry["fieldsV1"] for entry in found}
    assert set(entries) == {f"{kind.group}/v1", f"{kind.group}/v2"}
    assert "f:by" in entries[f"{kind.group}/v1"]["f:metadata"]["f:labels"]


@pytest.mark.long
async def test_apply_creates_and_changes_in_any_version(rest: Rest, kind: Kind) -> None:
    params = {"fieldManager": "one"}
    path = kind.path("v1", "a")
    created = await rest.patch(path, kind.v1("a", "here:80"), APPLY_PATCH, params=params)
    changed = await rest.patch(path, kind.v1("a", "there:81"), APPLY_PATCH, params=params)

    assert created.expect(201)["spec"] == {"address": "here:80"}
    assert changed.expect(200)["spec"] == {"address": "there:81"}
    assert (await rest.get(kind.path("v2", "a"))).ok()["spec"]["host"] == "there"


@pytest.mark.long
async def test_a_deletion_answers_in_the_version_asked_for(rest: Rest, kind: Kind) -> None:
    body = kind.v1("a", "here:80", finalizers=["example.com/hold"])
    (await rest.post(kind.path("v1"), body)).expect(201)

    leaving = (await rest.delete(kind.path("v1", "a"))).expect(200)
    await rest.patch(kind.path("v2", "a"), {"metadata": {"finalizers": None}})

    assert leaving["spec"] == {"address": "here:80"}
    assert (await rest.get(kind.path("v1", "a"))).status == 404


async def test_what_the_webhook_refuses_is_said(rest: Rest, kind: Kind) -> None:
    answer = await rest.post(kind.path("v1"), kind.v1("a", "here:80"))
    answer.expect(201)

    def refuse(obj: Object, _version: str) -> Object:
        raise ValueError("nothing is converted today")

    kind.server.convert = refuse
    refused = (await rest.post(kind.path("v1"), kind.v1("b", "here:80"))).expect(500)

    subject = f"conversion webhook for {kind.group}/v1, Kind=Widget failed"
    assert refused["message"] == f"{subject}: nothing is converted today"
    assert "reason" not in refused


@pytest.mark.long
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"apiVersion": "example.com/v9"}, "invalid groupVersion (expected "),
        ({"kind": "Gadget"}, "invalid kind (expected Widget, received Gadget)"),
        ({"metadata": {"name": "other"}}, "must have the same name"),
    ],
    ids=["another version", "another kind", "another name"],
)
async def test_a_wrong_conversion_is_refused(
    rest: Rest, kind: Kind, changed: Object, said: str
) -> None:
    kind.server.convert = lambda obj, version: {**convert(obj, version), **changed}

    refused = (await rest.post(kind.path("v1"), kind.v1("a", "here:80"))).expect(500)

    assert said in refused["message"]


@pytest.mark.long
async def test_an_admission_webhook_sees_the_version_it_asks_for(
    rest: Rest, kind: Kind, ns: Namespace
) -> None:
    server = kind.server
    hook = {
        "name": "widgets.example.com",
        "clientConfig": server.client_config("/validate"),
        "rules": [
            {
                "apiGroups": [kind.group],
                "apiVersions": ["v2"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["widgets"],
            }
        ],
        "matchConditions": [{"name": "host", "expression": "object.spec.host != 'skipped'"}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    seen: list[Object] = []

    async def asked() -> bool:
        await rest.post(kind.path("v1"), kind.v1(f"p-{secrets.token_hex(4)}", "here:80"))
        return bool(server.requests)

    async with registered(rest, "validating", f"v-{ns.name}", hook, probe=asked):
        server.requests.clear()
        (await rest.post(kind.path("v1"), kind.v1("a", "here:80"))).expect(201)
        (await rest.patch(kind.path("v1", "a"), {"spec": {"address": "there:81"}})).ok()
        (await rest.post(kind.path("v1"), kind.v1("b", "skipped:1"))).expect(201)
        seen = list(server.requests)

    assert [request["operation"] for request in seen] == ["CREATE", "UPDATE"]
    assert {request["kind"]["version"] for request in seen} == {"v2"}
    assert {request["requestKind"]["version"] for request in seen} == {"v1"}
    assert seen[0]["object"]["spec"]["host"] == "here"
    assert seen[1]["object"]["spec"]["port"] == 81
    assert seen[1]["oldObject"]["spec"]["port"] == 80


@pytest.mark.long
async def test_without_webhook_only_the_name_of_the_version_changes(
    rest: Rest, ns: Namespace
) -> None:
    group = f"conversion-{secrets.token_hex(4)}.example.com"
    crd = definition(group, {"strategy": "None"})
    for version in crd["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": _schema(address=TEXT)}
    async with crds.installed(rest, crd):
        body = {"kind": "Widget", "metadata": {"name": "a"}, "spec": {"address": "x"}}
        path = ns.path(f"{group}/v1", "widgets")
        (await rest.post(path, {"apiVersion": f"{group}/v1", **body})).expect(201)
        read = (await rest.get(ns.path(f"{group}/v2", "widgets", "a"))).ok()

    assert (read["apiVersion"], read["spec"]) == (f"{group}/v2", {"address": "x"})


@pytest.mark.parametrize(
    ("conversion", "found"),
    [
        (
            {"strategy": "Webhook"},
            {
                ("FieldValueRequired", "spec.conversion.webhookClientConfig"),
                ("FieldValueRequired", "spec.conversion.conversionReviewVersions"),
            },
        ),
        (
            {"strategy": "Sometimes"},
            {("FieldValueNotSupported", "spec.conversion.strategy")},
        ),
        (
            {
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": {"url": "http://x.example.com"},
                    "conversionReviewVersions": ["v1"],
                },
            },
            {("FieldValueInvalid", "spec.conversion.webhookClientConfig.url")},
        ),
        (
            {
                "strategy": "Webhook",
                "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v7"]},
            },
            {
                ("FieldValueRequired", "spec.conversion.webhookClientConfig"),
                ("FieldValueInvalid", "spec.conversion.conversionReviewVersions"),
            },
        ),
        (
            {
                "strategy": "None",
                "webhook": {
                    "clientConfig": {"url": "https://x.example.com"},
                    "conversionReviewVersions": ["v1"],
                },
            },
            {
                ("FieldValueForbidden", "spec.conversion.webhookClientConfig"),
                ("FieldValueForbidden", "spec.conversion.conversionReviewVersions"),
            },
        ),
    ],
    ids=["no webhook", "unknown strategy", "plain HTTP", "no address", "webhook without strategy"],
)
async def test_a_wrong_conversion_is_no_definition(
    rest: Rest, conversion: Object, found: set[tuple[str, str]]
) -> None:
    group = f"conversion-{secrets.token_hex(4)}.example.com"

    refused = (await rest.post(definitions.PATH, definition(group, conversion))).expect(422)

    assert causes(refused) == found
