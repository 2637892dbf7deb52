"""`spec.expectedPods`: validation and mutability."""

from typing import Any

import pytest

from api import conversion
from api.constants import (
    GROUP,
    MAX_EXPECTED_KINDS,
    MAX_EXPECTED_PODS,
    MAX_EXPECTED_TEMPLATE,
    V1ALPHA2,
    VERSION,
)
from api.rules.validation import validate
from tests.support.admission.objects import gang, pod_group

Json = dict[str, Any]
PATH = "spec.expectedPods"
HOLD_FROM = f"{GROUP}/hold-from"
TEMPLATE: Json = {"spec": {"containers": [{"name": "main"}]}}


def kind(name: str = "worker", count: Any = 8, **more: Any) -> Json:
    return {"name": name, "count": count, "template": TEMPLATE} | more


def group(*kinds: Any) -> Json:
    return pod_group(schedulingPolicy=gang(9), expectedPods=list(kinds))


def nested(depth: int) -> Json:
    found: Json = {}
    for _ in range(depth):
        found = {"a": found}
    return {"spec": {"containers": [{"name": "main"}], "nested": found}}


@pytest.mark.parametrize(
    ("kinds", "want"),
    [
        pytest.param([kind()], [], id="a kind"),
        pytest.param([kind(count=0)], [], id="scaled to none"),
        pytest.param([{"name": "w", "template": TEMPLATE}], [], id="no count is none"),
        pytest.param([kind(f"k{at}") for at in range(MAX_EXPECTED_KINDS)], [], id="most kinds"),
        pytest.param(
            [kind(f"k{at}") for at in range(MAX_EXPECTED_KINDS + 1)],
            [(PATH, "TooMany")],
            id="too many kinds",
        ),
        pytest.param([kind("")], [(f"{PATH}[0].name", "Required")], id="no name"),
        pytest.param([kind("a.b")], [(f"{PATH}[0].name", "Invalid")], id="a name with a dot"),
        pytest.param([kind(), kind()], [(f"{PATH}[1].name", "Duplicate")], id="one name twice"),
        pytest.param([kind(count=-1)], [(f"{PATH}[0].count", "Invalid")], id="fewer than none"),
        pytest.param([kind(count=MAX_EXPECTED_PODS)], [], id="most pods"),
        pytest.param(
            [kind(count=MAX_EXPECTED_PODS + 1)],
            [(f"{PATH}[0].count", "Invalid")],
            id="too many pods",
        ),
        pytest.param([kind(count="8")], [(f"{PATH}[0].count", "TypeInvalid")], id="a text"),
        pytest.param(
            [kind(template={})],
            [(f"{PATH}[0].template.spec.containers", "Required")],
            id="a template that says nothing",
        ),
        pytest.param(
            [kind(template={"metadata": [], "spec": {"containers": [{}]}})],
            [(f"{PATH}[0].template.metadata", "TypeInvalid")],
            id="metadata that are a list",
        ),
        pytest.param(
            [kind(template=TEMPLATE | {"x": "y" * MAX_EXPECTED_TEMPLATE})],
            [(f"{PATH}[0].template", "Invalid")],
            id="a template that is too large",
        ),
        pytest.param(
            [kind(template=nested(100_000))],
            [(f"{PATH}[0].template", "Invalid")],
            id="a template that is nested too deep",
        ),
        pytest.param([kind(stage=0), kind("b", stage=8)], [], id="first and last stage"),
        pytest.param([kind(stage=-1)], [(f"{PATH}[0].stage", "Invalid")], id="before the first"),
        pytest.param([kind(stage=9)], [(f"{PATH}[0].stage", "Invalid")], id="after the last"),
        pytest.param([kind(stage=1 << 99)], [(f"{PATH}[0].stage", "TypeInvalid")], id="huge"),
        pytest.param([kind(stage=True)], [(f"{PATH}[0].stage", "TypeInvalid")], id="a boolean"),
        pytest.param(["worker"], [(f"{PATH}[0]", "TypeInvalid")], id="no object"),
    ],
)
def test_what_is_admitted(kinds: list[Any], want: list[tuple[str, str]]) -> None:
    result = validate("PodGroup", group(*kinds), None, "CREATE")

    found = [(it.field, it.reason.removeprefix("FieldValue")) for it in result.causes]
    assert found[: len(want)] == want
    assert bool(found) == bool(want)


@pytest.mark.parametrize(
    ("kind_name", "note", "parent", "want"),
    [
        ("PodGroup", "Creation", None, ""),
        ("PodGroup", "FirstPod", "root", ""),
        ("PodGroup", "creation", None, "FieldValueNotSupported"),
        ("PodGroup", 1, None, "FieldValueNotSupported"),
        ("PodGroup", "Creation", "root", "FieldValueInvalid"),
        ("CompositePodGroup", "Creation", None, "FieldValueInvalid"),
    ],
)
def test_where_places_may_be_held_from_the_creation(
    kind_name: str, note: Any, parent: str | None, want: str
) -> None:
    made = group(kind()) | {"kind": kind_name}
    made["metadata"]["annotations"] = {HOLD_FROM: note}
    if parent is not None:
        made["spec"]["parentCompositePodGroupName"] = parent

    found = validate(kind_name, made, None, "CREATE").causes

    path = f"metadata.annotations[{HOLD_FROM}]"
    assert [it.reason for it in found if it.field == path] == ([want] if want else [])


def test_it_may_change_as_its_owner_is_scaled_and_nothing_else_may() -> None:
    old, new = group(kind()), group(kind(count=4), kind("evaluator", 1))
    assert not validate("PodGroup", new, old, "UPDATE").causes

    new["spec"]["parentCompositePodGroupName"] = "other"
    fields = {it.field for it in validate("PodGroup", new, old, "UPDATE").causes}
    assert "spec.parentCompositePodGroupName" in fields
    assert PATH not in fields


def test_a_change_has_to_be_right_too() -> None:
    result = validate("PodGroup", group(kind(count=-1)), group(kind()), "UPDATE")

    assert [it.field for it in result.causes] == [f"{PATH}[0].count"]


def test_older_versions_carry_it_along() -> None:
    stored = group(kind(), kind("prepare", 1, stage=1))
    old = conversion.convert(stored, f"{GROUP}/{V1ALPHA2}")

    assert "expectedPods" not in old["spec"]
    assert conversion.convert(old, f"{GROUP}/{VERSION}") == stored
