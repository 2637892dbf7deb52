"""The defaults that admission sets in a new group, and the priority it computes."""

from typing import Any

import jsonpatch
import pytest

from api.causes import Cause
from api.constants import FINALIZER_COMPOSITE, FINALIZER_POD_GROUP
from api.defaults import defaults
from api.inherit import inherited_values
from api.integration.common.templates import find_template
from api.priority import PriorityClass, Resolved, resolve

Json = dict[str, Any]
REF: Json = {"workloadName": "w", "templateName": "t"}
SINGLE: Json = {"single": {}}


def applied(kind: str, obj: Json) -> Json:
    patched: Json = jsonpatch.apply_patch(obj, defaults(kind, obj))
    return patched


@pytest.mark.parametrize(
    ("kind", "obj", "want"),
    [
        pytest.param(
            "PodGroup",
            {"metadata": {}, "spec": {"schedulingPolicy": {"basic": {}}}},
            {
                "metadata": {"finalizers": [FINALIZER_POD_GROUP]},
                "spec": {"schedulingPolicy": {"basic": {}}, "disruptionMode": SINGLE},
            },
            id="a PodGroup gets its finalizer and mode single",
        ),
        pytest.param(
            "PodGroup",
            {"metadata": {}, "spec": {"workloadRef": REF}},
            {"metadata": {"finalizers": [FINALIZER_POD_GROUP]}, "spec": {"workloadRef": REF}},
            id="an incomplete PodGroup gets no mode yet",
        ),
        pytest.param(
            "CompositePodGroup",
            {"metadata": {"finalizers": ["x"]}, "spec": {"disruptionMode": {"all": {}}}},
            {
                "metadata": {"finalizers": ["x", FINALIZER_COMPOSITE]},
                "spec": {"disruptionMode": {"all": {}}},
            },
            id="what is there is kept",
        ),
        pytest.param(
            "CompositePodGroup",
            {"metadata": {"finalizers": [FINALIZER_COMPOSITE]}, "spec": {"disruptionMode": SINGLE}},
            {"metadata": {"finalizers": [FINALIZER_COMPOSITE]}, "spec": {"disruptionMode": SINGLE}},
            id="a finished object is left alone",
        ),
        pytest.param("Workload", {"metadata": {}}, {"metadata": {}}, id="a Workload gets nothing"),
        pytest.param("PodGroup", {"spec": 3}, {"spec": 3}, id="a strange structure is left alone"),
    ],
)
def test_defaults(kind: str, obj: Json, want: Json) -> None:
    assert applied(kind, obj) == want
    assert applied(kind, want) == want


def test_defaults_of_a_foreign_kind_are_our_own_fault() -> None:
    with pytest.raises(ValueError, match="Pod"):
        defaults("Pod", {})


LOW = PriorityClass("low", -5)
HIGH = PriorityClass("high", 100, preemption_policy="Never")
COMMON = PriorityClass("common", 7, global_default=True)
RARE = PriorityClass("rare", 9, global_default=True)


@pytest.mark.parametrize(
    ("spec", "classes", "want"),
    [
        pytest.param({}, [], Resolved("", 0, "PreemptLowerPriority"), id="no class at all is 0"),
        pytest.param(
            {}, [COMMON], Resolved("common", 7, "PreemptLowerPriority"), id="the global default"
        ),
        pytest.param(
            {},
            [RARE, COMMON],
            Resolved("common", 7, "PreemptLowerPriority"),
            id="the lowest of several defaults",
        ),
        pytest.param(
            {"priorityClassName": "high"},
            [HIGH, COMMON],
            Resolved("high", 100, "Never"),
            id="by name",
        ),
        pytest.param(
            {"priorityClassName": "low", "preemptionPolicy": "Never"},
            [LOW],
            Resolved("low", -5, "Never"),
            id="more modest than the class",
        ),
        pytest.param(
            {"priorityClassName": "low", "priority": -5},
            [LOW],
            Resolved("low", -5, "PreemptLowerPriority"),
            id="a number that agrees",
        ),
    ],
)
def test_priority(spec: Json, classes: list[PriorityClass], want: Resolved) -> None:
    assert resolve(spec, classes) == want


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param(
            {"priorityClassName": "none"}, "spec.priorityClassName", id="an unknown class"
        ),
        pytest.param(
            {"priorityClassName": "low", "priority": 1}, "spec.priority", id="another number"
        ),
        pytest.param({"priority": 1}, "spec.priority", id="a number without a class"),
    ],
)
def test_priority_refused(spec: Json, field: str) -> None:
    refused = resolve(spec, [LOW])

    assert isinstance(refused, Cause)
    assert (refused.field, refused.reason) == (field, "FieldValueForbidden")


@pytest.mark.parametrize("named", [True, False], ids=["named", "the global default"])
def test_a_class_that_never_preempts_decides(named: bool) -> None:
    never = PriorityClass("calm", 100, global_default=not named, preemption_policy="Never")
    spec = {"preemptionPolicy": "PreemptLowerPriority"}
    refused = resolve(spec | ({"priorityClassName": "calm"} if named else {}), [never])

    assert isinstance(refused, Cause)
    assert (refused.field, refused.reason) == ("spec.preemptionPolicy", "FieldValueForbidden")
    assert "computed Never from PriorityClass calm" in refused.message


def test_only_what_differs_is_patched() -> None:
    resolved = Resolved("high", 100, "Never")

    ops = resolved.operations({"priorityClassName": "high", "preemptionPolicy": "Never"})

    assert ops == [{"op": "add", "path": "/spec/priority", "value": 100}]


def test_a_template_fills_what_the_user_left_out() -> None:
    leaf = {"name": "t", "schedulingPolicy": {"basic": {}}, "priorityClassName": "high"}
    tree = {"spec": {"compositePodGroupTemplates": [{"name": "c", "podGroupTemplates": [leaf]}]}}

    template = find_template(tree, "t")

    assert template is not None
    assert template.fields == leaf
    assert inherited_values({"priorityClassName": "low"}, leaf) == {
        "schedulingPolicy": {"basic": {}}
    }
    assert find_template(tree, "c") is None
    assert find_template({}, "t") is None
