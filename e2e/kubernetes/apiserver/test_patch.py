"""JSON, merge and strategic merge patches. Server-side apply has its own file."""

from typing import Any

import pytest

from e2e.harness.support import definitions
from e2e.harness.support.rest import JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Rest
from e2e.kubernetes.apiserver.objects import Namespace, config_map, job, owner, pod, pod_spec


@pytest.mark.parametrize(
    ("ops", "want"),
    [
        pytest.param(
            [{"op": "add", "path": "/data/new", "value": "1"}], {"k": "v", "new": "1"}, id="add"
        ),
        pytest.param(
            [{"op": "replace", "path": "/data/k", "value": "2"}], {"k": "2"}, id="replace"
        ),
        pytest.param([{"op": "add", "path": "/data/k", "value": "2"}], {"k": "2"}, id="add over"),
        pytest.param(
            [
                {"op": "test", "path": "/data/k", "value": "v"},
                {"op": "move", "from": "/data/k", "path": "/data/moved"},
            ],
            {"moved": "v"},
            id="test and move",
        ),
        pytest.param(
            [{"op": "copy", "from": "/data/k", "path": "/data/copy"}],
            {"k": "v", "copy": "v"},
            id="copy",
        ),
        pytest.param(
            [
                {"op": "add", "path": "/data/a~1b", "value": "1"},
                {"op": "remove", "path": "/data/k"},
            ],
            None,
            id="an escaped slash, which no data key may hold",
        ),
    ],
)
async def test_json_patches(
    rest: Rest, ns: Namespace, ops: list[dict[str, Any]], want: dict[str, str] | None
) -> None:
    await rest.post(ns.config_maps(), config_map("a"))

    answer = await rest.patch(ns.config_maps("a"), ops, JSON_PATCH)

    if want is None:
        assert answer.expect(422)["reason"] == "Invalid"
    else:
        assert answer.expect(200)["data"] == want


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param([{"op": "test", "path": "/data/k", "value": "other"}], id="a test that fails"),
        pytest.param([{"op": "remove", "path": "/data/absent"}], id="removing what is not there"),
        pytest.param([{"op": "replace", "path": "/no/where", "value": 1}], id="a missing parent"),
    ],
)
async def test_a_json_patch_that_cannot_be_applied_changes_nothing(
    rest: Rest, ns: Namespace, ops: list[dict[str, Any]]
) -> None:
    created = (await rest.post(ns.config_maps(), config_map("a"))).ok()
    first = {"op": "add", "path": "/data/first", "value": "1"}

    status = (await rest.patch(ns.config_maps("a"), [first, *ops], JSON_PATCH)).expect(422)

    assert status["reason"] == "Invalid"
    assert (await rest.get(ns.config_maps("a"))).ok() == created


async def test_a_json_patch_that_is_none_is_refused(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.config_maps(), config_map("a"))

    (await rest.patch(ns.config_maps("a"), {"not": "a list"}, JSON_PATCH)).expect(400)


async def test_a_json_patch_with_a_test_on_the_version_guards_the_write(
    rest: Rest, ns: Namespace
) -> None:
    created = (await rest.post(ns.config_maps(), config_map("a"))).ok()
    guard = {
        "op": "test",
        "path": "/metadata/resourceVersion",
        "value": created["metadata"]["resourceVersion"],
    }
    change = {"op": "add", "path": "/data/k", "value": "2"}

    (await rest.patch(ns.config_maps("a"), [guard, change], JSON_PATCH)).expect(200)
    (await rest.patch(ns.config_maps("a"), [guard, change], JSON_PATCH)).expect(422)


async def test_a_merge_patch_merges_and_null_removes(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.config_maps(), config_map("a", {"stays": "1", "goes": "1"}))

    patch = {"data": {"goes": None, "comes": "1"}}
    patched = (await rest.patch(ns.config_maps("a"), patch, MERGE_PATCH)).expect(200)

    assert patched["data"] == {"stays": "1", "comes": "1"}


async def test_a_merge_patch_replaces_lists(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.config_maps(), config_map("a", finalizers=["example.com/a"]))

    patch = {"metadata": {"finalizers": ["example.com/b"]}}
    patched = (await rest.patch(ns.config_maps("a"), patch, MERGE_PATCH)).expect(200)

    assert patched["metadata"]["finalizers"] == ["example.com/b"]
    await rest.patch(ns.config_maps("a"), {"metadata": {"finalizers": None}})


async def test_a_patch_that_names_an_old_version_is_a_conflict(rest: Rest, ns: Namespace) -> None:
    created = (await rest.post(ns.config_maps(), config_map("a"))).ok()
    await rest.patch(ns.config_maps("a"), {"data": {"k": "2"}})
    patch = {
        "metadata": {"resourceVersion": created["metadata"]["resourceVersion"]},
        "data": {"k": "3"},
    }

    status = (await rest.patch(ns.config_maps("a"), patch, MERGE_PATCH)).expect(409)

    assert status["reason"] == "Conflict"


async def test_a_patch_that_changes_nothing_writes_nothing(rest: Rest, ns: Namespace) -> None:
    created = (await rest.post(ns.config_maps(), config_map("a"))).ok()

    patched = (await rest.patch(ns.config_maps("a"), {"data": {"k": "v"}})).expect(200)

    assert patched["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_patching_a_missing_object_is_not_found(rest: Rest, ns: Namespace) -> None:
    (await rest.patch(ns.config_maps("absent"), {"data": {}})).expect(404)


async def test_a_strategic_patch_merges_containers_by_name(rest: Rest, ns: Namespace) -> None:
    two = pod_spec()
    two["containers"] = [{"name": "one", "image": "a:1"}, {"name": "two", "image": "b:1"}]
    await rest.post(ns.pods(), pod("a", spec=two))

    patch = {"spec": {"containers": [{"name": "two", "image": "b:2"}]}}
    patched = (await rest.patch(ns.pods("a"), patch, STRATEGIC_PATCH)).expect(200)

    images = {c["name"]: c["image"] for c in patched["spec"]["containers"]}
    assert images == {"one": "a:1", "two": "b:2"}


async def test_a_strategic_patch_deletes_list_items_and_replaces_maps(
    rest: Rest, ns: Namespace
) -> None:
    owners = [
        owner((await rest.post(ns.config_maps(), config_map(name))).expect(201))
        for name in ("first", "second")
    ]
    await rest.post(ns.config_maps(), config_map("a", {"k": "v"}, ownerReferences=owners))

    patch = {
        "metadata": {"ownerReferences": [{"uid": owners[0]["uid"], "$patch": "delete"}]},
        "data": {"$patch": "replace", "only": "this"},
    }
    patched = (await rest.patch(ns.config_maps("a"), patch, STRATEGIC_PATCH)).expect(200)

    assert [o["name"] for o in patched["metadata"]["ownerReferences"]] == ["second"]
    assert patched["data"] == {"only": "this"}


async def test_a_strategic_patch_deletes_from_a_list_of_plain_values(
    rest: Rest, ns: Namespace
) -> None:
    await rest.post(ns.config_maps(), config_map("a", finalizers=["x.io/a", "x.io/b"]))

    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/a"]}}
    patched = (await rest.patch(ns.config_maps("a"), patch, STRATEGIC_PATCH)).expect(200)
    assert patched["metadata"]["finalizers"] == ["x.io/b"]

    patch_more = {"metadata": {"finalizers": ["x.io/c"]}}
    merged = (await rest.patch(ns.config_maps("a"), patch_more, STRATEGIC_PATCH)).expect(200)
    assert sorted(merged["metadata"]["finalizers"]) == ["x.io/b", "x.io/c"]
    await rest.patch(ns.config_maps("a"), {"metadata": {"finalizers": None}})


async def test_custom_kinds_have_no_strategic_patches(rest: Rest, ns: Namespace) -> None:
    path = f"{definitions.PATH}/jobsets.jobset.x-k8s.io"
    if (await rest.get(path)).status == 404:
        pytest.skip("no JobSet CRD here")
    jobsets = ns.path("jobset.x-k8s.io/v1alpha2", "jobsets", "absent")

    status = (await rest.patch(jobsets, {"metadata": {}}, STRATEGIC_PATCH)).expect(415)

    assert status["reason"] == "UnsupportedMediaType"


async def test_an_unknown_patch_type_is_refused(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.config_maps(), config_map("a"))

    status = (await rest.patch(ns.config_maps("a"), {"data": {}}, JSON)).expect(415)

    assert status["reason"] == "UnsupportedMediaType"


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        pytest.param(
            {"spec": {"completions": 5}}, "spec.completions", id="completions of a plain Job"
        ),
        pytest.param(
            {"spec": {"selector": {"matchLabels": {"a": "b"}}}}, "spec.selector", id="selector"
        ),
        pytest.param({"spec": {"parallelism": -1}}, "spec.parallelism", id="negative parallelism"),
    ],
)
async def test_changes_the_kind_does_not_allow_are_invalid(
    rest: Rest, ns: Namespace, patch: dict[str, Any], field: str
) -> None:
    (await rest.post(ns.jobs(), job("a", spec={"completions": 2}))).expect(201)

    status = (await rest.patch(ns.jobs("a"), patch, MERGE_PATCH)).expect(422)

    assert status["reason"] == "Invalid"
    assert status["details"]["kind"] == "Job"
    assert field in {cause["field"] for cause in status["details"]["causes"]}


async def test_a_suspended_jobs_scheduling_may_change_until_it_starts(
    rest: Rest, ns: Namespace
) -> None:
    (await rest.post(ns.jobs(), job("a"))).expect(201)
    patch = {
        "spec": {
            "template": {
                "metadata": {"labels": {"new": "yes"}},
                "spec": {"nodeSelector": {"zone": "a"}},
            }
        }
    }

    patched = (await rest.patch(ns.jobs("a"), patch)).expect(200)

    assert patched["spec"]["template"]["spec"]["nodeSelector"] == {"zone": "a"}


async def test_a_pods_spec_is_fixed_but_for_a_few_fields(rest: Rest, ns: Namespace) -> None:
    (await rest.post(ns.pods(), pod("a"))).expect(201)

    status = (await rest.patch(ns.pods("a"), {"spec": {"hostname": "other"}})).expect(422)
    assert status["details"]["causes"][0]["field"] == "spec"
    assert status["details"]["causes"][0]["reason"] == "FieldValueForbidden"

    toleration = {"key": "x", "operator": "Exists", "effect": "NoSchedule"}
    patch = {"spec": {"tolerations": [toleration]}}
    patched = (await rest.patch(ns.pods("a"), patch, STRATEGIC_PATCH)).expect(200)
    assert toleration in patched["spec"]["tolerations"]
