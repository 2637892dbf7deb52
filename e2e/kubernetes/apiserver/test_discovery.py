"""Discovery of the served kinds."""

from typing import Any

from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from e2e.kubernetes.apiserver.crds import definition, installed
from e2e.kubernetes.apiserver.objects import Namespace

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


def _resource(listed: dict[str, Any], name: str) -> dict[str, Any]:
    return next(entry for entry in listed["resources"] if entry["name"] == name)


async def test_the_version_is_told(rest: Rest) -> None:
    version = (await rest.get("/version")).expect(200)

    assert version["major"] == "1"
    assert int(version["minor"].rstrip("+")) >= 30
    assert version["gitVersion"].startswith("v1.")


async def test_groups_are_listed(rest: Rest) -> None:
    core = (await rest.get("/api")).expect(200)
    groups = (await rest.get("/apis")).expect(200)

    assert (core["kind"], core["versions"]) == ("APIVersions", ["v1"])
    assert groups["kind"] == "APIGroupList"
    batch = next(group for group in groups["groups"] if group["name"] == "batch")
    assert batch["preferredVersion"] == {"groupVersion": "batch/v1", "version": "v1"}


async def test_the_kinds_of_a_version_are_listed(rest: Rest) -> None:
    listed = (await rest.get("/apis/batch/v1")).expect(200)

    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", "batch/v1")
    jobs = _resource(listed, "jobs")
    assert (jobs["kind"], jobs["singularName"], jobs["namespaced"]) == ("Job", "job", True)
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(jobs["verbs"])
    assert _resource(listed, "jobs/status")["kind"] == "Job"


async def test_the_core_kinds_are_listed(rest: Rest) -> None:
    listed = (await rest.get("/api/v1")).expect(200)

    pods = _resource(listed, "pods")
    assert pods["shortNames"] == ["po"]
    assert pods["categories"] == ["all"]
    binding = _resource(listed, "pods/binding")
    assert (binding["kind"], binding["verbs"]) == ("Binding", ["create"])
    eviction = _resource(listed, "pods/eviction")
    assert (eviction["kind"], eviction["group"], eviction["version"]) == (
        "Eviction",
        "policy",
        "v1",
    )
    assert _resource(listed, "nodes")["namespaced"] is False


async def test_everything_is_told_in_one_answer(rest: Rest) -> None:
    answer = await rest.get("/apis", accept=AGGREGATED)

    listed = answer.expect(200)
    assert (listed["kind"], listed["apiVersion"]) == (
        "APIGroupDiscoveryList",
        "apidiscovery.k8s.io/v2",
    )
    assert "as=APIGroupDiscoveryList" in answer.headers["Content-Type"]
    batch = next(item for item in listed["items"] if item["metadata"]["name"] == "batch")
    jobs = next(entry for entry in batch["versions"][0]["resources"] if entry["resource"] == "jobs")
    assert jobs["responseKind"]["kind"] == "Job"
    assert jobs["scope"] == "Namespaced"
    assert "status" in {sub["subresource"] for sub in jobs["subresources"]}


async def test_a_custom_kind_is_discovered(rest: Rest, ns: Namespace) -> None:
    group = f"{ns.name}.example.com"
    async with installed(rest, definition(group)):

        async def discovered() -> bool:
            answer = await rest.get(f"/apis/{group}/v1")
            names = [r["name"] for r in answer.body.get("resources", [])]
            return {"widgets", "widgets/status", "widgets/scale"} <= set(names)

        await eventually(discovered, "the group to be discovered")
        listed = (await rest.get(f"/apis/{group}/v1")).ok()
        widgets = _resource(listed, "widgets")
        assert widgets["shortNames"] == ["wd"]
        assert widgets["categories"] == ["everything"]

        async def aggregated() -> bool:
            items = (await rest.get("/apis", accept=AGGREGATED)).ok()["items"]
            return group in {item["metadata"]["name"] for item in items}

        await eventually(aggregated, "the group to be in the aggregated answer")


async def test_schemas_are_published_by_group(rest: Rest) -> None:
    index = (await rest.get("/openapi/v3")).expect(200)
    path = index["paths"]["apis/batch/v1"]["serverRelativeURL"]

    schemas = (await rest.get(path)).expect(200)["components"]["schemas"]

    job = schemas["io.k8s.api.batch.v1.Job"]
    assert {"group": "batch", "version": "v1", "kind": "Job"} in job[
        "x-kubernetes-group-version-kind"
    ]
    assert "spec" in job["properties"]
