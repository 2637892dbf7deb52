"""The discovery documents in the formats that clients request."""

import json
from typing import Any

import pytest

from localcluster.base.resources import BUILT_IN, Registry
from localcluster.http.discovery import Discovery, version_rank
from localcluster.http.openapi import AllDocuments, OpenApi
from localcluster.tests.api_server import ApiServer, make_crd

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


def read(documents: Any, path: str, accept: str = "application/json") -> Any:
    found = documents.find(path, {}, accept)
    return None if found is None else json.loads(found.body)


def resource(resources: list[dict[str, Any]], name: str, key: str = "name") -> dict[str, Any]:
    (found,) = (one for one in resources if one[key] == name)
    return found


def test_the_lists_of_a_group_name_its_resources_and_their_parts() -> None:
    documents = Discovery(Registry(BUILT_IN))

    listed = read(documents, "/api/v1")["resources"]

    assert resource(listed, "pods")["shortNames"] == ["po"]
    assert resource(listed, "pods/binding") == {
        "name": "pods/binding",
        "singularName": "",
        "namespaced": True,
        "kind": "Binding",
        "verbs": ["create"],
    }
    eviction = resource(listed, "pods/eviction")
    assert (eviction["group"], eviction["version"], eviction["kind"]) == (
        "policy",
        "v1",
        "Eviction",
    )


def test_groups_are_listed_with_their_preferred_version() -> None:
    documents = Discovery(Registry(BUILT_IN))

    groups = read(documents, "/apis")["groups"]

    batch = resource(groups, "batch")
    assert batch["preferredVersion"] == {"groupVersion": "batch/v1", "version": "v1"}
    assert read(documents, "/apis/batch")["kind"] == "APIGroup"
    assert read(documents, "/apis/nope") is None
    assert read(documents, "/apis/batch/v9") is None


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_the_aggregated_form_is_given_to_who_asks_for_it(path: str) -> None:
    found = Discovery(Registry(BUILT_IN)).find(path, {}, AGGREGATED)

    assert found is not None
    assert found.content_type == (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    )
    body = json.loads(found.body)
    assert body["kind"] == "APIGroupDiscoveryList"
    assert all(one["freshness"] == "Current" for item in body["items"] for one in item["versions"])


def test_an_older_client_gets_the_older_aggregated_form() -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"

    body = read(Discovery(Registry(BUILT_IN)), "/apis", accept)

    assert body["apiVersion"] == "apidiscovery.k8s.io/v2beta1"


async def test_a_custom_kind_is_found_while_it_is_served(apiserver: ApiServer) -> None:
    documents = Discovery(apiserver.registry)
    assert read(documents, "/apis/t.muster.dev/v1") is None

    await apiserver.define(make_crd())
    listed = read(documents, "/apis/t.muster.dev/v1")["resources"]

    assert [one["name"] for one in listed] == ["widgets", "widgets/status"]


def test_versions_are_ranked_as_kubernetes_ranks_them() -> None:
    versions = ["v1alpha1", "odd", "v2", "v1beta2", "v11", "v1beta10", "v1"]

    ranked = sorted(versions, key=version_rank, reverse=True)

    assert ranked == ["v11", "v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "odd"]


async def test_the_index_points_at_documents_by_their_content(apiserver: ApiServer) -> None:
    documents = OpenApi(apiserver.registry, apiserver.custom)
    before = read(documents, "/openapi/v3")["paths"]

    await apiserver.define(make_crd())
    after = read(documents, "/openapi/v3")["paths"]

    assert set(after) - set(before) == {"apis/t.muster.dev/v1"}
    assert after["apis/batch/v1"] == before["apis/batch/v1"]
    assert after["apis/batch/v1"]["serverRelativeURL"].startswith("/openapi/v3/apis/batch/v1?hash=")


async def test_a_custom_kind_is_described_by_its_schema(apiserver: ApiServer) -> None:
    await apiserver.define(make_crd())

    document = read(
        OpenApi(apiserver.registry, apiserver.custom), "/openapi/v3/apis/t.muster.dev/v1"
    )

    widget = document["components"]["schemas"]["dev.muster.t.v1.Widget"]
    assert widget["description"] == "A widget."
    assert widget["properties"]["spec"]["properties"]["a"]["description"] == "The letter."
    assert widget["x-kubernetes-group-version-kind"] == [
        {"group": "t.muster.dev", "version": "v1", "kind": "Widget"}
    ]


@pytest.mark.parametrize("path", ["/openapi/v3/api/v1", "/openapi/v3/apis/batch/v1"])
async def test_every_patch_knows_field_validation_and_no_reference_is_loose(
    apiserver: ApiServer, path: str
) -> None:
    document = read(OpenApi(apiserver.registry, apiserver.custom), path)

    patches = [one["patch"] for one in document["paths"].values() if "patch" in one]
    assert patches
    for patch in patches:
        assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
        assert set(patch["x-kubernetes-group-version-kind"]) == {"group", "version", "kind"}
    text = json.dumps(document)
    targets = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert targets <= set(document["components"]["schemas"])


async def test_protobuf_is_not_written(apiserver: ApiServer) -> None:
    documents = AllDocuments(
        Discovery(apiserver.registry), OpenApi(apiserver.registry, apiserver.custom)
    )

    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    assert documents.find("/openapi/v2", {}, accept) is None
    assert documents.find("/openapi/v2", {}, "*/*") is not None
    assert documents.find("/nope", {}, "*/*") is None
