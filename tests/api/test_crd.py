"""The generated CRDs: reproducible, committed, and deep enough for the deepest tree."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from api import crd
from api.constants import COMPOSITE_POD_GROUP, POD_GROUP, RESERVATION, WORKLOAD, KindName
from api.crd import DEFINED

COMMITTED = Path(__file__).parents[2] / "manifests" / "crd"


def spec_schema(kind: KindName) -> Any:
    version = crd.crd(kind)["spec"]["versions"][0]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


def test_the_committed_files_are_as_the_models_say(tmp_path: Path) -> None:
    for path in crd.write(tmp_path / "crd"):
        assert (COMMITTED / path.name).read_text() == path.read_text()


@pytest.mark.parametrize("kind", DEFINED, ids=lambda kind: kind.kind)
def test_a_file_says_what_the_generator_says(kind: KindName) -> None:
    path = COMMITTED / f"{kind.group}_{kind.plural}.yaml"

    assert yaml.safe_load(path.read_text()) == crd.crd(kind)


@pytest.mark.parametrize("kind", DEFINED, ids=lambda kind: kind.kind)
def test_every_field_is_described(kind: KindName) -> None:
    def undescribed(schema: Any, path: str) -> list[str]:
        found = []
        for name, field in schema.get("properties", {}).items():
            here = f"{path}.{name}"
            if not field.get("description") and here != ".metadata":
                found.append(here)
            found += undescribed(field, here) + undescribed(field.get("items", {}), f"{here}[]")
        return found

    version = crd.crd(kind)["spec"]["versions"][0]
    assert undescribed(version["schema"]["openAPIV3Schema"], "") == []


@pytest.mark.parametrize("word", ["required", "enum", "minimum", "maximum", "maxItems", "oneOf"])
@pytest.mark.parametrize("kind", DEFINED, ids=lambda kind: kind.kind)
def test_rules_have_no_second_home_in_the_schema(kind: KindName, word: str) -> None:
    def words(schema: Any) -> set[str]:
        if not isinstance(schema, dict):
            return set()
        inner = [*schema.get("properties", {}).values(), schema.get("items")]
        return set(schema).union(*(words(item) for item in inner))

    version = crd.crd(kind)["spec"]["versions"][0]
    assert word not in words(version["schema"]["openAPIV3Schema"])


def test_below_the_last_level_nothing_is_pruned() -> None:
    level = spec_schema(WORKLOAD)["compositePodGroupTemplates"]["items"]["properties"]
    for _ in range(3):
        assert level["podGroupTemplates"]["items"]["properties"]["name"]["default"] == ""
        level = level["compositePodGroupTemplates"]["items"]["properties"]

    kept = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert level["podGroupTemplates"]["items"] == kept
    assert level["compositePodGroupTemplates"]["items"] == kept
    assert level["schedulingConstraints"]["properties"]["topology"]["items"]["properties"]["key"]


def test_groups_have_a_status_of_their_own() -> None:
    served = {
        kind.kind: crd.crd(kind)["spec"]["versions"][0].get("subresources") for kind in DEFINED
    }

    assert served == {
        WORKLOAD.kind: None,
        POD_GROUP.kind: {"status": {}},
        COMPOSITE_POD_GROUP.kind: {"status": {}},
        RESERVATION.kind: None,
    }


def test_only_reservations_belong_to_the_whole_cluster() -> None:
    scopes = {kind.kind: crd.crd(kind)["spec"]["scope"] for kind in DEFINED}

    assert {kind for kind, scope in scopes.items() if scope == "Cluster"} == {RESERVATION.kind}
