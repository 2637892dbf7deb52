"""Admission webhooks: their calls, requests, and the effects of their responses."""

import itertools
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.support import ports
from e2e.harness.support.rest import MERGE_PATCH, Rest
from e2e.kubernetes.apiserver.objects import Namespace, config_map, job
from e2e.kubernetes.apiserver.webhooks import (
    ADMISSION,
    Server,
    patch_answer,
    registered,
    serving,
    webhook,
)

Object = dict[str, Any]


def ours(name: str, **metadata: Any) -> Object:
    labels = {"suite": "admission", **metadata.pop("labels", {})}
    return config_map(name, labels=labels, **metadata)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as running:
        yield running


def operations(server: Server) -> list[tuple[str, str]]:
    """Return the name and the operation of each request, once.

    An API server patches its cached object. If that is outdated, it patches the stored object
    again, and calls the webhook again.
    """
    return list(dict.fromkeys((seen["name"], seen["operation"]) for seen in server.requests))


def _registered(
    rest: Rest, ns: Namespace, kind: str, *webhooks: Object
) -> AbstractAsyncContextManager[None]:
    """Register webhooks together with a probe that shows when they are in force.

    The probe rejects ConfigMaps labelled `probe`, and is in the same configuration.
    """
    counter = itertools.count()
    canary = webhook(
        "canary",
        {"url": "https://127.0.0.1:1/", "caBundle": webhooks[0]["clientConfig"]["caBundle"]},
        ns.name,
        objectSelector={"matchLabels": {"suite": "canary"}},
        failurePolicy="Fail",
    )

    async def in_force() -> bool:
        body = config_map(f"canary-{next(counter)}", labels={"suite": "canary"})
        return (await rest.post(ns.config_maps(), body)).status == 500

    name = f"{kind}-{ns.name}"
    return registered(rest, kind, name, *webhooks, canary, probe=in_force)


async def test_a_mutating_webhook_changes_the_object(
    rest: Rest, ns: Namespace, server: Server
) -> None:
    server.answer = lambda _: patch_answer({"op": "add", "path": "/data/added", "value": "1"})
    hook = webhook("m", server.client_config(), ns.name)
    async with _registered(rest, ns, "mutating", hook):
        created = (await rest.post(ns.config_maps(), ours("a"))).expect(201)

    assert created["data"] == {"k": "v", "added": "1"}
    assert (await rest.get(ns.config_maps("a"))).ok()["data"] == created["data"]


async def test_a_review_tells_who_does_what_to_which_object(
    rest: Rest, ns: Namespace, server: Server
) -> None:
    hook = webhook("v", server.client_config("/some/path"), ns.name)
    async with _registered(rest, ns, "validating", hook):
        created = (await rest.post(ns.config_maps(), ours("a"))).expect(201)
        await rest.patch(ns.config_maps("a"), {"data": {"k": "2"}})

    assert server.reviews[0]["kind"] == "AdmissionReview"
    assert server.reviews[0]["apiVersion"] == "admission.k8s.io/v1"
    assert operations(server) == [("a", "CREATE"), ("a", "UPDATE")]
    create, *_, update = server.requests
    assert create["operation"] == "CREATE"
    assert create["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert create["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (create["name"], create["namespace"]) == ("a", ns.name)
    assert create["dryRun"] is False
    assert create["oldObject"] is None
    assert create["object"]["metadata"]["uid"] == created["metadata"]["uid"]
    assert create["object"]["kind"] == "ConfigMap"
    assert create["userInfo"]["username"]
    assert "system:authenticated" in create["userInfo"]["groups"]
    assert update["operation"] == "UPDATE"
    assert update["object"]["data"] == {"k": "2"}
    assert update["oldObject"]["data"] == {"k": "v"}
    assert update["uid"] != create["uid"]


async def test_a_denial_without_a_code_is_a_bad_request(
    rest: Rest, ns: Namespace, server: Server
) -> None:
    server.answer = lambda _: {"allowed": False, "status": {"message": "not today"}}
    hook = webhook("v", server.client_config(), ns.name)
    async with _registered(rest, ns, "validating", hook):
        status = (await rest.post(ns.config_maps(), ours("a"))).expect(400)

    want = 'admission webhook "v.example.com" denied the request: not today'
    assert (status["status"], status["message"]) == ("Failure", want)
    (await rest.get(ns.config_maps("a"))).expect(404)


async def test_a_denial_keeps_its_code_reason_and_causes(
    rest: Rest, ns: Namespace, server: Server
) -> None:
    causes = [
        {"reason": "FieldValueInvalid", "message": "must be even", "field": "data.a"},
        {"reason": "FieldValueRequired", "message": "must be set", "field": "data.b"},
    ]
    details = {"name": "a", "kind": "configmaps", "causes": causes}
    denial = {"code": 422, "reason": "Invalid", "message": "two errors", "details": details}
    server.answer = lambda _: {"allowed": False, "status": denial}
    hook = webhook("v", server.client_config(), ns.name)
    async with _registered(rest, ns, "validating", hook):
        status = (await rest.post(ns.config_maps(), ours("a"))).expect(422)

    assert status["reason"] == "Invalid"
    assert status["details"]["causes"] == causes


async def test_warnings_reach_the_client(rest: Rest, ns: Namespace, server: Server) -> None:
    server.answer = lambda _: {"allowed": True, "warnings": ["careful", 'a "quoted" one']}
    hook = webhook("v", server.client_config(), ns.name)
    async with _registered(rest, ns, "validating", hook):
        answer = await rest.post(ns.config_maps(), ours("a"))

    assert answer.warnings == ('299 - "careful"', '299 - "a \\"quoted\\" one"')


@pytest.mark.parametrize("kind", ["mutating", "validating"])
async def test_an_object_that_is_not_selected_is_not_sent(
    rest: Rest, ns: Namespace, server: Server, kind: str
) -> None:
    hook = webhook("x", server.client_config(), ns.name)
    async with _registered(rest, ns, kind, hook):
        (await rest.post(ns.config_maps(), config_map("unlabelled"))).expect(201)
        (await rest.delete(ns.config_maps("unlabelled"))).expect(200)

    assert server.requests == []


async def test_other_namespaces_are_not_sent(rest: Rest, ns: Namespace, server: Server) -> None:
    hook = webhook("x", server.client_config(), ns.name)
    hook["namespaceSelector"] = {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [ns.name]},
            {"key": "no-such-label", "operator": "Exists"},
        ]
    }
    async with _registered(rest, ns, "validating", hook):
        (await rest.post(ns.config_maps(), ours("a"))).expect(201)

    assert server.requests == []


async def test_an_update_that_only_loses_the_label_is_still_sent(
    rest: Rest, ns: Namespace, server: Server
) -> None:
    """The selector matches the old object or the new one."""
    hook = webhook("v", server.client_config(), ns.name)
    async with _registered(rest, ns, "validating", hook):
        await rest.post(ns.config_maps(), ours("a"))
        await rest.patch(ns.config_maps("a"), {"metadata": {"labels": {"suite": None}}})

    assert operations(server) == [("a", "CREATE"), ("a", "UPDATE")]


async def test_match_conditions_decide(rest: Rest, ns: Namespace, server: Server) -> None:
    conditions = [
        {
            "name": "asks-for-it",
            "expression": "has(object.metadata.annotations)"
            " && 'x/mode' in object.metadata.annotations",
        },
        {
            "name": "changed",
            "expression": "oldObject == null || object.data != oldObject.data",
        },
        {"name": "not-a-node", "expression": "!('system:nodes' in request.userInfo.groups)"},
        {"name": "on-create", "expression": "request.operation in ['CREATE', 'UPDATE']"},
    ]
    hook = webhook("v", server.client_config(), ns.name, matchConditions=conditions)
    async with _registered(rest, ns, "validating", hook):
        await rest.post(ns.config_maps(), ours("plain"))
        await rest.post(ns.config_maps(), ours("asked", annotations={"x/mode": "Gang"}))
        await rest.patch(ns.config_maps("asked"), {"metadata": {"labels": {"y": "z"}}})
        await rest.patch(ns.config_maps("asked"), {"data": {"k": "2"}})

    assert operations(server) == [("asked", "CREATE"), ("asked", "UPDATE")]


async def test_a_match_condition_that_cannot_be_read_is_refused(
    rest: Rest, ns: Namespace, server: Server
) -> None:
    conditions = [{"name": "broken", "expression": "object.metadata."}]
    hook = webhook("v", server.client_config(), ns.name, matchConditions=conditions)
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": f"broken-{ns.name}"},
        "webhooks": [hook],
    }

    status = (await rest.post(f"{ADMISSION}/validatingwebhookconfigurations", body)).expect(422)

    field = status["details"]["causes"][0]["field"]
    assert field == "webhooks[0].matchConditions[0].expression"


async def test_a_match_condition_that_fails_counts_as_the_failure_policy_says(
    rest: Rest, ns: Namespace, server: Server
) -> None:
    conditions = [{"name": "missing", "expression": "object.metadata.annotations['x'] == 'y'"}]
    closed = webhook("closed", server.client_config(), ns.name, matchConditions=conditions)
    async with _registered(rest, ns, "validating", closed):
        assert (await rest.post(ns.config_maps(), ours("a"))).status in (403, 500)

    opened = {**closed, "failurePolicy": "Ignore"}
    async with _registered(rest, ns, "validating", opened):
        (await rest.post(ns.config_maps(), ours("b"))).expect(201)

    assert server.requests == []


@pytest.mark.parametrize(
    ("policy", "want"), [("Fail", 500), ("Ignore", 201)], ids=["fails", "is ignored"]
)
async def test_a_webhook_that_cannot_be_reached(
    rest: Rest, ns: Namespace, server: Server, policy: str, want: int
) -> None:
    (port,) = ports.free(1)
    nowhere = {**server.client_config(), "url": f"https://127.0.0.1:{port}/"}
    hook = webhook("gone", nowhere, ns.name, failurePolicy=policy)
    async with _registered(rest, ns, "validating", hook):
        answer = await rest.post(ns.config_maps(), ours("a"))

    body = answer.expect(want)
    if want == 500:
        assert body["reason"] == "InternalError"
        assert 'failed calling webhook "gone.example.com"' in body["message"]


async def test_a_certificate_of_another_authority_is_not_trusted(
    rest: Rest, ns: Namespace, server: Server, tmp_path: Path
) -> None:
    async with serving(tmp_path / "other") as stranger:
        config = {**server.client_config(), "caBundle": stranger.client_config()["caBundle"]}
        hook = webhook("v", config, ns.name)
        async with _registered(rest, ns, "validating", hook):
            status = (await rest.post(ns.config_maps(), ours("a"))).expect(500)

    assert "x509" in status["message"] or "certificate" in status["message"]
    assert server.requests == []


async def test_a_dry_run_is_told_to_webhooks_without_side_effects(
    rest: Rest, ns: Namespace, server: Server
) -> None:
    hook = webhook("v", server.client_config(), ns.name)
    async with _registered(rest, ns, "validating", hook):
        (await rest.post(ns.config_maps(), ours("a"), params={"dryRun": "All"})).expect(201)

    assert server.requests[0]["dryRun"] is True
    (await rest.get(ns.config_maps("a"))).expect(404)


async def test_side_effects_must_be_left_out_on_a_dry_run(
    rest: Rest, ns: Namespace, server: Server
) -> None:
    hook = webhook("v", server.client_config(), ns.name, sideEffects="NoneOnDryRun")
    async with _registered(rest, ns, "validating", hook):
        (await rest.post(ns.config_maps(), ours("a"), params={"dryRun": "All"})).expect(201)
    assert server.requests[0]["dryRun"] is True

    for bad in ("Some", "Unknown"):
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": f"bad-{ns.name}"},
            "webhooks": [{**hook, "sideEffects": bad}],
        }
        (await rest.post(f"{ADMISSION}/validatingwebhookconfigurations", body)).expect(422)


async def test_mutating_webhooks_run_before_validating_ones(
    rest: Rest, ns: Namespace, server: Server, tmp_path: Path
) -> None:
    server.answer = lambda _: patch_answer({"op": "add", "path": "/data/added", "value": "1"})
    mutate = webhook("m", server.client_config(), ns.name)
    async with serving(tmp_path / "validating") as validating:
        check = webhook("v", validating.client_config(), ns.name)
        async with (
            _registered(rest, ns, "mutating", mutate),
            _registered(rest, ns, "validating", check),
        ):
            (await rest.post(ns.config_maps(), ours("a"))).expect(201)
        seen = validating.requests[0]["object"]

    assert seen["data"] == {"k": "v", "added": "1"}


async def test_a_patch_that_breaks_the_object_is_refused(
    rest: Rest, ns: Namespace, server: Server
) -> None:
    server.answer = lambda _: patch_answer({"op": "remove", "path": "/data/absent"})
    hook = webhook("m", server.client_config(), ns.name)
    async with _registered(rest, ns, "mutating", hook):
        (await rest.post(ns.config_maps(), ours("a"))).expect(500)


async def test_the_status_sub_resource_is_a_resource_of_its_own(
    rest: Rest, ns: Namespace, server: Server
) -> None:
    hook = webhook("v", server.client_config(), ns.name)
    hook["rules"] = [
        {
            "apiGroups": ["batch"],
            "apiVersions": ["v1"],
            "operations": ["UPDATE"],
            "resources": ["jobs"],
        }
    ]
    canary_rules = webhook("c", server.client_config(), ns.name)
    async with _registered(rest, ns, "validating", hook, canary_rules):
        body = job("a", labels={"suite": "admission"})
        (await rest.post(ns.jobs(), body)).expect(201)
        condition = {"type": "X", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"status": {"conditions": [condition]}}
        (await rest.patch(f"{ns.jobs('a')}/status", status, MERGE_PATCH)).expect(200)
        assert [r for r in server.requests if r["kind"]["kind"] == "Job"] == []
        (await rest.patch(ns.jobs("a"), {"metadata": {"labels": {"x": "y"}}})).expect(200)

    updates = [r for r in server.requests if r["kind"]["kind"] == "Job"]
    # If the Job controller writes its status at the same time, the patch is retried.
    assert {r["operation"] for r in updates} == {"UPDATE"}


async def test_deletions_are_sent_with_the_old_object(
    rest: Rest, ns: Namespace, server: Server
) -> None:
    hook = webhook("v", server.client_config(), ns.name)
    hook["rules"][0]["operations"] = ["DELETE"]
    async with _registered(
        rest, ns, "validating", hook, webhook("c", server.client_config(), ns.name)
    ):
        await rest.post(ns.config_maps(), ours("a"))
        (await rest.delete(ns.config_maps("a"))).expect(200)

    request = server.requests[-1]
    assert request["operation"] == "DELETE"
    assert request["object"] is None
    assert request["oldObject"]["metadata"]["name"] == "a"


async def test_a_webhook_is_called_again_when_a_later_one_changed_the_object(
    rest: Rest, ns: Namespace, server: Server, tmp_path: Path
) -> None:
    """The API server does so only for reinvocationPolicy IfNeeded."""
    async with serving(tmp_path / "later") as later:
        later.answer = lambda _: patch_answer({"op": "add", "path": "/data/later", "value": "1"})
        first = webhook("first", server.client_config(), ns.name, reinvocationPolicy="IfNeeded")
        second = webhook("second", later.client_config(), ns.name)
        async with _registered(rest, ns, "mutating", first, second):
            (await rest.post(ns.config_maps(), ours("a"))).expect(201)

    assert [request["object"]["data"] for request in server.requests] == [
        {"k": "v"},
        {"k": "v", "later": "1"},
    ]


async def test_webhooks_see_generated_names(rest: Rest, ns: Namespace, server: Server) -> None:
    hook = webhook("v", server.client_config(), ns.name)
    async with _registered(rest, ns, "validating", hook):
        body = config_map(generateName="made-", labels={"suite": "admission"})
        created = (await rest.post(ns.config_maps(), body)).expect(201)

    seen = server.requests[0]["object"]["metadata"]
    assert seen["generateName"] == "made-"
    assert seen["name"] == created["metadata"]["name"]
