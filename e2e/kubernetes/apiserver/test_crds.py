"""Custom resources: established, pruned, defaulted, validated, scaled, deleted with their CRD."""

import asyncio
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.harness.clusters.protocol import Cluster
from e2e.harness.support import definitions
from e2e.harness.support.rest import APPLY_PATCH, Rest
from e2e.harness.support.waiting import eventually
from e2e.kubernetes.apiserver.crds import SCHEMA, definition, installed, widget
from e2e.kubernetes.apiserver.objects import Namespace, causes

Object = dict[str, Any]


@pytest.fixture(scope="module")
def group(cluster: Cluster) -> Iterator[str]:
    """The group of a CRD `widgets`, shared by all tests that do not change it.

    kube-apiserver delays the first writes to a new kind by two seconds.
    """
    name = f"shared-{secrets.token_hex(3)}.example.com"
    with asyncio.Runner() as runner:
        runner.run(_create(cluster, name))
        yield name
        runner.run(_delete(cluster, name))


async def _create(cluster: Cluster, group: str) -> None:
    async with Rest.open(cluster.kubeconfig) as rest:
        (await rest.post(definitions.PATH, definition(group))).expect(201)
        await definitions.served(rest, definition(group)["metadata"]["name"])


async def _delete(cluster: Cluster, group: str) -> None:
    async with Rest.open(cluster.kubeconfig) as rest:
        await rest.delete(f"{definitions.PATH}/widgets.{group}")


def _path(ns: Namespace, group: str, name: str = "") -> str:
    return ns.path(f"{group}/v1", "widgets", name)


async def test_a_definition_is_established(rest: Rest, group: str) -> None:
    crd = (await rest.get(f"{definitions.PATH}/widgets.{group}")).expect(200)

    conditions = {c["type"]: c["status"] for c in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert crd["status"]["acceptedNames"]["kind"] == "Widget"
    assert crd["status"]["acceptedNames"]["listKind"] == "WidgetList"
    assert crd["status"]["storedVersions"] == ["v1"]


async def test_objects_of_the_new_kind_live_as_any_other(
    rest: Rest, ns: Namespace, group: str
) -> None:
    created = (await rest.post(_path(ns, group), widget(group, "a"))).expect(201)
    assert created["metadata"]["generation"] == 1
    listed = (await rest.get(_path(ns, group))).expect(200)
    assert listed["kind"] == "WidgetList"
    assert listed["items"][0]["kind"] == "Widget"

    changed = (await rest.patch(_path(ns, group, "a"), {"spec": {"size": 4}})).expect(200)
    labelled = (
        await rest.patch(_path(ns, group, "a"), {"metadata": {"labels": {"x": "y"}}})
    ).expect(200)

    assert [changed["metadata"]["generation"], labelled["metadata"]["generation"]] == [2, 2]
    (await rest.delete(_path(ns, group, "a"))).expect(200)


async def test_a_missing_custom_object_is_not_found(rest: Rest, ns: Namespace, group: str) -> None:
    status = (await rest.get(_path(ns, group, "absent"))).expect(404)

    assert status["message"] == f'widgets.{group} "absent" not found'
    assert status["details"] == {"name": "absent", "group": group, "kind": "widgets"}


async def test_unknown_fields_are_pruned(rest: Rest, ns: Namespace, group: str) -> None:
    spec = {
        "size": 3,
        "surprise": 1,
        "nested": {"surprise": 1, "on": False},
        "anything": {"kept": {"deep": [1]}},
    }

    body = {**widget(group, "a", spec), "extra": 1}
    answer = await rest.post(_path(ns, group), body, params={"fieldValidation": "Warn"})

    created = answer.expect(201)
    assert created["spec"]["nested"] == {"on": False}
    assert created["spec"]["anything"] == {"kept": {"deep": [1]}}
    assert "surprise" not in created["spec"]
    assert "extra" not in created
    assert any('unknown field \\"spec.surprise\\"' in warning for warning in answer.warnings)


async def test_a_strict_client_is_refused_unknown_fields(
    rest: Rest, ns: Namespace, group: str
) -> None:
    body = widget(group, "a", {"size": 3, "surprise": 1})

    status = (await rest.post(_path(ns, group), body, params={"fieldValidation": "Strict"})).expect(
        400
    )

    assert 'unknown field "spec.surprise"' in status["message"]


async def test_defaults_are_filled_in_where_their_parent_is(
    rest: Rest, ns: Namespace, group: str
) -> None:
    spec = {"size": 3, "nested": {}, "parts": [{"name": "p"}]}

    created = (await rest.post(_path(ns, group), widget(group, "a", spec))).expect(201)

    assert created["spec"] == {
        "size": 3,
        "colour": "grey",
        "nested": {"on": True},
        "parts": [{"name": "p", "count": 1}],
    }
    bare = (await rest.post(_path(ns, group), widget(group, "b"))).expect(201)
    assert bare["spec"] == {"size": 3, "colour": "grey"}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, ("FieldValueRequired", "spec.size"), id="a required field"),
        pytest.param({"size": 0}, ("FieldValueInvalid", "spec.size"), id="below the minimum"),
        pytest.param({"size": 11}, ("FieldValueInvalid", "spec.size"), id="above the maximum"),
        pytest.param({"size": "3"}, ("FieldValueTypeInvalid", "spec.size"), id="another type"),
        pytest.param(
            {"size": 3, "colour": "blue"},
            ("FieldValueNotSupported", "spec.colour"),
            id="not of the enumeration",
        ),
        pytest.param(
            {"size": 3, "code": "ABC"}, ("FieldValueInvalid", "spec.code"), id="a pattern"
        ),
        pytest.param(
            {"size": 3, "code": "abcdef"}, ("FieldValueTooLong", "spec.code"), id="too long"
        ),
        pytest.param(
            {"size": 3, "parts": [{"name": "p"}, {"name": "p"}]},
            ("FieldValueDuplicate", "spec.parts[1]"),
            id="a key twice in a list-map",
        ),
        pytest.param(
            {"size": 3, "tags": ["t", "t"]},
            ("FieldValueDuplicate", "spec.tags[1]"),
            id="a value twice in a set",
        ),
        pytest.param(
            {"size": 3, "parts": [{}]},
            ("FieldValueRequired", "spec.parts[0].name"),
            id="a list item's key",
        ),
    ],
)
async def test_values_against_the_schema_are_invalid(
    rest: Rest, ns: Namespace, group: str, spec: Object, want: tuple[str, str]
) -> None:
    status = (await rest.post(_path(ns, group), widget(group, "a", spec))).expect(422)

    assert status["reason"] == "Invalid"
    assert status["details"]["kind"] == "Widget"
    assert status["details"]["group"] == group
    assert want in causes(status)


async def test_all_errors_are_reported_together(rest: Rest, ns: Namespace, group: str) -> None:
    spec = {"size": 0, "colour": "blue", "code": "ABC"}

    status = (await rest.post(_path(ns, group), widget(group, "a", spec))).expect(422)

    assert {"spec.size", "spec.colour", "spec.code"} <= {field for _, field in causes(status)}


@pytest.mark.parametrize("port", [80, "http"])
async def test_a_number_or_a_word(rest: Rest, ns: Namespace, group: str, port: int | str) -> None:
    body = widget(group, "a", {"size": 3, "port": port})

    assert (await rest.post(_path(ns, group), body)).expect(201)["spec"]["port"] == port


async def test_the_status_is_apart(rest: Rest, ns: Namespace, group: str) -> None:
    body = {**widget(group, "a"), "status": {"ready": True}}
    created = (await rest.post(_path(ns, group), body)).expect(201)
    assert "status" not in created

    path = f"{_path(ns, group, 'a')}/status"
    patch = {"spec": {"size": 9}, "status": {"ready": True, "surprise": 1}}
    patched = (await rest.patch(path, patch)).expect(200)

    assert patched["status"] == {"ready": True}
    assert patched["spec"]["size"] == 3
    assert patched["metadata"]["generation"] == 1
    again = (await rest.patch(_path(ns, group, "a"), {"status": {"ready": False}})).expect(200)
    assert again["status"] == {"ready": True}


async def test_a_custom_kind_is_scaled(rest: Rest, ns: Namespace, group: str) -> None:
    await rest.post(_path(ns, group), widget(group, "a", {"size": 3, "replicas": 2}))
    path = f"{_path(ns, group, 'a')}/scale"
    assert (await rest.get(path)).expect(200)["spec"] == {"replicas": 2}

    await rest.patch(path, {"spec": {"replicas": 7}})

    assert (await rest.get(_path(ns, group, "a"))).ok()["spec"]["replicas"] == 7


async def test_applied_list_maps_are_merged_by_their_keys(
    rest: Rest, ns: Namespace, group: str
) -> None:
    path = _path(ns, group, "a")

    async def apply(manager: str, spec: Object) -> Object:
        params = {"fieldManager": manager}
        return (await rest.patch(path, widget(group, "a", spec), APPLY_PATCH, params=params)).ok()

    await apply("one", {"size": 3, "parts": [{"name": "a", "count": 5}]})
    both = await apply("two", {"size": 3, "parts": [{"name": "b", "count": 6}]})
    assert [part["name"] for part in both["spec"]["parts"]] == ["a", "b"]

    rest_of_it = await apply("two", {"size": 3})
    assert [part["name"] for part in rest_of_it["spec"]["parts"]] == ["a"]


async def test_rules_of_the_schema_are_enforced(rest: Rest, ns: Namespace) -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"low": {"type": "integer"}, "high": {"type": "integer"}},
                "x-kubernetes-validations": [
                    {"rule": "self.low <= self.high", "message": "low is above high"}
                ],
            }
        },
    }
    name = f"rules-{ns.name}.example.com"
    async with installed(rest, definition(name, schema=schema)):
        good = widget(name, "good", {"low": 1, "high": 2})
        (await rest.post(_path(ns, name), good)).expect(201)
        bad = widget(name, "bad", {"low": 3, "high": 2})
        status = (await rest.post(_path(ns, name), bad)).expect(422)

    assert ("FieldValueInvalid", "spec") in causes(status)
    assert "low is above high" in status["message"]


async def test_a_definition_that_is_no_structural_schema_is_refused(
    rest: Rest, ns: Namespace
) -> None:
    name = f"bad-{ns.name}.example.com"
    crd = definition(name, schema={"properties": {"spec": {"type": "object"}}})

    status = (await rest.post(definitions.PATH, crd)).expect(422)

    field = "spec.validation.openAPIV3Schema.type"
    assert ("FieldValueRequired", field) in causes(status)


async def test_a_definitions_name_is_made_of_plural_and_group(rest: Rest, ns: Namespace) -> None:
    crd = definition(f"{ns.name}.example.com")
    crd["metadata"]["name"] = "other.example.com"

    status = (await rest.post(definitions.PATH, crd)).expect(422)

    assert ("FieldValueInvalid", "metadata.name") in causes(status)


async def test_a_changed_schema_takes_effect(rest: Rest, ns: Namespace) -> None:
    group = f"changed-{ns.name}.example.com"
    async with installed(rest, definition(group)):
        await _change_schema(rest, ns, group)


async def _change_schema(rest: Rest, ns: Namespace, group: str) -> None:
    schema: Object = {
        **SCHEMA,
        "properties": {
            **SCHEMA["properties"],
            "note": {"type": "string"},
        },
    }
    patch = [{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema}]
    (
        await rest.patch(
            f"{definitions.PATH}/widgets.{group}", patch, "application/json-patch+json"
        )
    ).expect(200)

    async def keeps_note() -> bool:
        body = {**widget(group, "probe"), "note": "kept"}
        answer = await rest.post(_path(ns, group), body, params={"dryRun": "All"})
        # kube-apiserver responds with 503 at the moment of the change.
        return answer.status == 201 and answer.body.get("note") == "kept"

    await eventually(keeps_note, "the new schema to be used")


async def test_a_definition_takes_its_objects_along(rest: Rest, ns: Namespace) -> None:
    name = f"gone-{ns.name}.example.com"
    async with installed(rest, definition(name)):
        await rest.post(_path(ns, name), widget(name, "a"))

    async def gone() -> bool:
        crd = await rest.get(f"{definitions.PATH}/widgets.{name}")
        return crd.status == 404 and (await rest.get(_path(ns, name))).status == 404

    await eventually(gone, "the definition to go")


async def test_a_kind_without_namespaces(rest: Rest, ns: Namespace) -> None:
    name = f"wide-{ns.name}.example.com"
    async with installed(rest, definition(name, scope="Cluster")):
        path = f"/apis/{name}/v1/widgets"
        created = (await rest.post(path, widget(name, "a"))).expect(201)
        assert "namespace" not in created["metadata"]
        assert (await rest.get(_path(ns, name))).status == 404
