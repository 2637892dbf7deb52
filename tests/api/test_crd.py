"""The generated CRDs: reproducible, committed, and deep enough for the deepest tree."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from api import crd
from api.constants import (
    COMPOSITE_POD_GROUP,
    COSCHEDULING,
    POD_GROUP,
    RESERVATION,
    WORKLOAD,
    KindName,
)
from api.crd import DEFINED

COMMITTED = Path(__file__).parents[2] / "manifests" / "crd"

# The schema of every served version, by plural.group/version.
VERSIONS = {
    f"{kind.plural}.{kind.group}/{version['name']}": version["schema"]["openAPIV3Schema"]
    for kind in DEFINED
    for version in crd.crd(kind)["spec"]["versions"]
}


def spec_schema(kind: KindName) -> Any:
    version = crd.crd(kind)["spec"]["versions"][0]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


def test_the_committed_files_are_as_the_models_say(tmp_path: Path) -> None:
    for path in crd.write(tmp_path / "crd"):
        assert (COMMITTED / path.name).read_text() == path.read_text()


@pytest.mark.parametrize("kind", DEFINED, ids=lambda kind: f"{kind.plural}.{kind.group}")
def test_a_file_says_what_the_generator_says(kind: KindName) -> None:
    path = COMMITTED / f"{kind.group}_{kind.plural}.yaml"

    assert yaml.safe_load(path.read_text()) == crd.crd(kind)


@pytest.mark.parametrize(("name", "schema"), VERSIONS.items(), ids=VERSIONS.keys())
def test_every_field_is_described(name: str, schema: Any) -> None:
    def undescribed(schema: Any, path: str) -> list[str]:
        found = []
        for name, field in schema.get("properties", {}).items():
            here = f"{path}.{name}"
            if not field.get("description") and here != ".metadata":
                found.append(here)
            found += undescribed(field, here) + undescribed(field.get("items", {}), f"{here}[]")
        return found

    assert undescribed(schema, "") == []


@pytest.mark.parametrize("word", ["required", "enum", "minimum", "maximum", "maxItems", "oneOf"])
@pytest.mark.parametrize(("name", "schema"), VERSIONS.items(), ids=VERSIONS.keys())
def test_rules_have_no_second_home_in_the_schema(name: str, schema: Any, word: str) -> None:
    def words(schema: Any) -> set[str]:
        if not isinstance(schema, dict):
            return set()
        inner = [*schema.get("properties", {}).values(), schema.get("items")]
        return set(schema).union(*(words(item) for item in inner))

    assert word not in words(schema)


def test_below_the_last_level_nothing_is_pruned() -> None:
    level = spec_schema(WORKLOAD)["compositePodGroupTemplates"]["items"]["properties"]
    for _ in range(3):
        assert level["podGroupTemplates"]["items"]["properties"]["name"]["default"] == ""
        level = level["compositePodGroupTemplates"]["items"]["properties"]

    kept = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert level["podGroupTemplates"]["items"] == kept
    assert level["compositePodGroupTemplates"]["items"] == kept
    assert level["schedulingConstraints"]["properties"]["topology"]["items"]["properties"]["key"]


def test_groups_have_a_status_of_their_own_in_every_version() -> None:
    served = {
        kind: [version.get("subresources") for version in crd.crd(kind)["spec"]["versions"]]
        for kind in DEFINED
    }

    own: dict[str, Any] = {"status": {}}
    assert served == {
        WORKLOAD: [None, None, None],
        POD_GROUP: [own, own],
        COMPOSITE_POD_GROUP: [own],
        COSCHEDULING: [own],
        RESERVATION: [None],
    }


def test_v1alpha3_is_stored_and_all_versions_are_served() -> None:
    versions = {
        kind: [
            (version["name"], version["served"], version["storage"])
            for version in crd.crd(kind)["spec"]["versions"]
        ]
        for kind in (WORKLOAD, POD_GROUP, COMPOSITE_POD_GROUP)
    }

    stored = ("v1alpha3", True, True)
    assert versions == {
        WORKLOAD: [stored, ("v1alpha2", True, False), ("v1alpha1", True, False)],
        POD_GROUP: [stored, ("v1alpha2", True, False)],
        COMPOSITE_POD_GROUP: [stored],
    }


def test_only_reservations_belong_to_the_whole_cluster() -> None:
    scopes = {kind: crd.crd(kind)["spec"]["scope"] for kind in DEFINED}

    assert {kind for kind, scope in scopes.items() if scope == "Cluster"} == {RESERVATION}


def test_no_two_kinds_share_a_short_name() -> None:
    short = [name for kind in DEFINED for name in crd.crd(kind)["spec"]["names"]["shortNames"]]

    assert len(short) == len(set(short)) == len(DEFINED)


def test_kinds_of_several_versions_are_converted_by_the_webhook_and_others_are_not() -> None:
    conversions = {kind: crd.crd(kind)["spec"].get("conversion") for kind in DEFINED}

    service = {"name": "muster-webhook", "namespace": "muster-system", "path": "/convert"}
    webhook = {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": service | {"port": 443}},
        },
    }
    assert conversions == dict.fromkeys(DEFINED) | {WORKLOAD: webhook, POD_GROUP: webhook}
