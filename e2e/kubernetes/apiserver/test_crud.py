"""Creation, reads and replacement of single objects, and the fields that the server adds."""

import re

import pytest

from e2e.harness.support.rest import Rest
from e2e.kubernetes.apiserver.objects import Namespace, config_map, job


async def test_a_created_object_is_answered_with_the_servers_metadata(
    rest: Rest, ns: Namespace
) -> None:
    created = (await rest.post(ns.config_maps(), config_map("a"))).expect(201)

    meta = created["metadata"]
    assert (created["kind"], created["apiVersion"]) == ("ConfigMap", "v1")
    assert (meta["name"], meta["namespace"]) == ("a", ns.name)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", meta["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", meta["creationTimestamp"])
    assert int(meta["resourceVersion"]) > 0
    assert (await rest.get(ns.config_maps("a"))).expect(200) == created


async def test_resource_versions_grow_with_every_write(rest: Rest, ns: Namespace) -> None:
    first = (await rest.post(ns.config_maps(), config_map("a"))).ok()
    second = (await rest.post(ns.config_maps(), config_map("b"))).ok()
    first["data"] = {"k": "other"}
    third = (await rest.put(ns.config_maps("a"), first)).ok()

    versions = [int(obj["metadata"]["resourceVersion"]) for obj in (first, second, third)]
    assert versions == sorted(set(versions))


async def test_a_name_taken_is_refused_with_already_exists(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.config_maps(), config_map("a"))

    status = (await rest.post(ns.config_maps(), config_map("a"))).expect(409)

    assert status["kind"] == "Status"
    assert status["status"] == "Failure"
    assert status["reason"] == "AlreadyExists"
    assert status["message"] == 'configmaps "a" already exists'
    assert status["details"] == {"name": "a", "kind": "configmaps"}


async def test_a_missing_object_is_not_found(rest: Rest, ns: Namespace) -> None:
    status = (await rest.get(ns.jobs("absent"))).expect(404)

    assert status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'jobs.batch "absent" not found',
        "reason": "NotFound",
        "details": {"name": "absent", "group": "batch", "kind": "jobs"},
        "code": 404,
    }


async def test_an_object_in_a_missing_namespace_is_not_found(rest: Rest) -> None:
    status = (await rest.post(Namespace("no-such").config_maps(), config_map("a"))).expect(404)

    assert status["details"] == {"name": "no-such", "kind": "namespaces"}


async def test_generated_names_get_five_random_characters(rest: Rest, ns: Namespace) -> None:
    bodies = [config_map(generateName="made-") for _ in range(5)]

    names = [(await rest.post(ns.config_maps(), b)).expect(201)["metadata"]["name"] for b in bodies]

    assert len(set(names)) == 5
    assert all(re.fullmatch(r"made-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


async def test_neither_name_nor_generate_name_is_refused(rest: Rest, ns: Namespace) -> None:
    status = (await rest.post(ns.config_maps(), config_map())).expect(422)

    assert status["reason"] == "Invalid"
    cause = status["details"]["causes"][0]
    assert (cause["reason"], cause["field"]) == ("FieldValueRequired", "metadata.name")


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        pytest.param({"name": "Upper"}, "metadata.name", id="a name that is no DNS subdomain"),
        pytest.param(
            {"name": "a", "labels": {"app": "no spaces"}}, "metadata.labels", id="a label's value"
        ),
        pytest.param({"name": "a", "labels": {"-": "x"}}, "metadata.labels", id="a label's key"),
        pytest.param(
            {"name": "a", "annotations": {"bad key": "x"}},
            "metadata.annotations",
            id="an annotation's key",
        ),
        pytest.param(
            {"name": "a", "finalizers": ["nodomain"]},
            "metadata.finalizers[0]",
            id="a finalizer without a domain",
        ),
    ],
)
async def test_bad_metadata_is_invalid(
    rest: Rest, ns: Namespace, metadata: dict[str, object], field: str
) -> None:
    body = {**config_map("a"), "metadata": metadata}

    status = (await rest.post(ns.config_maps(), body)).expect(422)

    assert status["reason"] == "Invalid"
    fields = [cause["field"] for cause in status["details"]["causes"]]
    if field == "metadata.finalizers[0]":
        assert set(fields) <= {"metadata.finalizers", "metadata.finalizers[0]"}
    else:
        assert field in fields


async def test_creation_with_a_resource_version_is_refused(rest: Rest, ns: Namespace) -> None:
    answer = await rest.post(ns.config_maps(), config_map("a", resourceVersion="1"))

    assert answer.status in (400, 500)  # kube-apiserver responds with 500
    assert "resourceVersion should not be set" in answer.body["message"]


async def test_a_body_for_another_namespace_is_refused(rest: Rest, ns: Namespace) -> None:
    status = (await rest.post(ns.config_maps(), config_map("a", namespace="other"))).expect(400)

    assert status["reason"] == "BadRequest"
    assert "does not match" in status["message"]


async def test_a_body_of_another_kind_is_refused(rest: Rest, ns: Namespace) -> None:
    (await rest.post(ns.config_maps(), job("a"))).expect(400)


async def test_a_body_that_is_no_json_is_refused(rest: Rest, ns: Namespace) -> None:
    status = (await rest.post(ns.config_maps(), b"{nonsense")).expect(400)

    assert status["reason"] == "BadRequest"


async def test_values_the_server_sets_are_not_taken_from_the_body(
    rest: Rest, ns: Namespace
) -> None:
    body = config_map(
        "a", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", generation=7, selfLink="/x"
    )

    meta = (await rest.post(ns.config_maps(), body)).expect(201)["metadata"]

    assert meta["uid"] != "mine"
    assert meta["creationTimestamp"] > "2020"
    assert "selfLink" not in meta


async def test_an_object_may_be_replaced_at_its_current_version(rest: Rest, ns: Namespace) -> None:
    created = (await rest.post(ns.config_maps(), config_map("a"))).ok()
    created["data"] = {"other": "value"}

    replaced = (await rest.put(ns.config_maps("a"), created)).expect(200)

    assert replaced["data"] == {"other": "value"}
    assert replaced["metadata"]["uid"] == created["metadata"]["uid"]
    assert replaced["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]


async def test_replacing_an_old_version_is_a_conflict(rest: Rest, ns: Namespace) -> None:
    created = (await rest.post(ns.jobs(), job("a"))).ok()
    newer = {**created, "metadata": {**created["metadata"], "labels": {"new": "yes"}}}
    await rest.put(ns.jobs("a"), newer)

    status = (await rest.put(ns.jobs("a"), created)).expect(409)

    assert status["reason"] == "Conflict"
    assert status["details"] == {"name": "a", "group": "batch", "kind": "jobs"}
    assert "the object has been modified" in status["message"]


async def test_replacing_without_a_version_overwrites(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.config_maps(), config_map("a", {"old": "1"}))

    replaced = (await rest.put(ns.config_maps("a"), config_map("a", {"new": "1"}))).expect(200)

    assert replaced["data"] == {"new": "1"}


async def test_replacing_with_what_is_there_writes_nothing(rest: Rest, ns: Namespace) -> None:
    created = (await rest.post(ns.config_maps(), config_map("a"))).ok()

    replaced = (await rest.put(ns.config_maps("a"), created)).expect(200)

    assert replaced["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_replacing_a_missing_object_is_not_found(rest: Rest, ns: Namespace) -> None:
    (await rest.put(ns.jobs("absent"), job("absent", resourceVersion="1"))).expect(404)


async def test_the_name_in_the_body_is_the_name_in_the_path(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.config_maps(), config_map("a"))

    status = (await rest.put(ns.config_maps("a"), config_map("b"))).expect(400)

    assert "does not match" in status["message"]


async def test_another_uid_is_a_conflict(rest: Rest, ns: Namespace) -> None:
    created = (await rest.post(ns.config_maps(), config_map("a"))).ok()
    created["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"

    status = (await rest.put(ns.config_maps("a"), created)).expect(409)

    assert status["reason"] == "Conflict"
    assert "Precondition failed: UID" in status["message"]


async def test_the_generation_counts_changes_of_the_spec_only(rest: Rest, ns: Namespace) -> None:
    created = (await rest.post(ns.jobs(), job("a"))).ok()
    labelled = (await rest.patch(ns.jobs("a"), {"metadata": {"labels": {"x": "y"}}})).ok()
    changed = (await rest.patch(ns.jobs("a"), {"spec": {"parallelism": 3}})).ok()

    generations = [obj["metadata"]["generation"] for obj in (created, labelled, changed)]
    assert generations == [1, 1, 2]


async def test_the_generation_cannot_be_written(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.jobs(), job("a", generation=9))

    patched = (await rest.patch(ns.jobs("a"), {"metadata": {"generation": 40}})).ok()

    assert patched["metadata"]["generation"] == 1


async def test_unknown_fields_are_dropped_and_warned_about(rest: Rest, ns: Namespace) -> None:
    body = {**config_map("a"), "surprise": 1}

    answer = await rest.post(ns.config_maps(), body, params={"fieldValidation": "Warn"})

    assert "surprise" not in answer.expect(201)
    assert any('unknown field \\"surprise\\"' in warning for warning in answer.warnings)


async def test_unknown_fields_are_refused_when_the_client_is_strict(
    rest: Rest, ns: Namespace
) -> None:
    body = {**config_map("a"), "surprise": 1}

    answer = await rest.post(ns.config_maps(), body, params={"fieldValidation": "Strict"})

    assert 'unknown field "surprise"' in answer.expect(400)["message"]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_methods_a_collection_does_not_know_are_refused(
    rest: Rest, ns: Namespace, method: str
) -> None:
    status = (await rest.call(method, ns.config_maps(), config_map("a"))).expect(405)

    assert status["reason"] == "MethodNotAllowed"


async def test_an_unknown_path_is_not_found(rest: Rest) -> None:
    assert (await rest.get("/apis/no.such.group/v1/things")).status == 404


async def test_an_unknown_token_is_unauthorized(rest: Rest) -> None:
    answer = await rest.get("/api/v1/nodes", headers={"Authorization": "Bearer nonsense"})

    status = answer.expect(401)
    assert (status["kind"], status["reason"]) == ("Status", "Unauthorized")


async def test_health_is_told_to_anybody_with_a_token(rest: Rest) -> None:
    for path in ("/healthz", "/readyz", "/livez"):
        answer = await rest.get(path)
        assert (answer.status, answer.text) == (200, "ok")
