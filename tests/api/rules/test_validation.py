"""Validation beyond the table of admission cases: late fills, odd structures, fetched objects."""

from typing import Any

import pytest

from api.causes import Cause, ValidationResult
from api.constants import GROUP
from api.rules import table
from api.rules.validation import validate
from tests.support.admission.objects import (
    ALL_MODE,
    REF,
    SINGLE,
    chain,
    flat,
    gang,
    group_gang,
    leaf,
    pod_group,
    subsets,
    waiting_group,
    with_status,
)

Json = dict[str, Any]
REQUIRED, INVALID, TYPE = "FieldValueRequired", "FieldValueInvalid", "FieldValueTypeInvalid"
COSCHEDULING = "coscheduling.muster.dev"


def faults(result: ValidationResult) -> list[tuple[str, str]]:
    return [(cause.field, cause.reason) for cause in result.causes]


TEMPLATE: Json = {"name": "t", "schedulingPolicy": gang(), "priorityClassName": "high"}
PLAIN: Json = {"name": "t", "schedulingPolicy": gang()}


@pytest.mark.parametrize(
    ("template", "fields", "want"),
    [
        pytest.param(
            TEMPLATE,
            {"schedulingPolicy": gang(), "priorityClassName": "high"},
            [],
            id="the template's values",
        ),
        pytest.param(
            TEMPLATE,
            {
                "schedulingPolicy": gang(),
                "priorityClassName": "high",
                "priority": 5,
                "disruptionMode": SINGLE,
            },
            [],
            id="with the defaults that go with them",
        ),
        pytest.param(
            TEMPLATE,
            {"schedulingPolicy": gang(1), "priorityClassName": "high"},
            [("spec.priorityClassName", INVALID), ("spec.schedulingPolicy", INVALID)],
            id="another minimum than the template's",
        ),
        pytest.param(
            TEMPLATE,
            {"schedulingPolicy": gang(), "priorityClassName": "low"},
            [("spec.priorityClassName", INVALID)],
            id="another class than the template's",
        ),
        pytest.param(
            TEMPLATE,
            {"schedulingPolicy": gang(), "disruptionMode": ALL_MODE},
            [("spec.disruptionMode", INVALID)],
            id="a mode the template does not say",
        ),
        pytest.param(
            PLAIN,
            {"schedulingPolicy": gang(), "schedulingConstraints": {"topology": [{"key": "rack"}]}},
            [("spec.schedulingConstraints", INVALID)],
            id="a topology the template does not say",
        ),
        pytest.param(
            PLAIN,
            {"schedulingPolicy": gang(), "parentCompositePodGroupName": "p"},
            [("spec.parentCompositePodGroupName", INVALID)],
            id="a parent with the fill",
        ),
        pytest.param(
            PLAIN,
            {"priorityClassName": "high"},
            [("spec.priorityClassName", INVALID)],
            id="anything but a policy",
        ),
        pytest.param(
            None,
            {"schedulingPolicy": gang()},
            [("spec.schedulingPolicy", INVALID)],
            id="without a template",
        ),
    ],
)
def test_the_late_fill_is_the_template_s(
    template: Json | None, fields: Json, want: list[tuple[str, str]]
) -> None:
    new = waiting_group(**fields)

    result = validate("PodGroup", new, waiting_group(), "UPDATE", template=template)

    assert faults(result) == want


def test_null_is_not_a_value() -> None:
    new = pod_group()
    new["spec"]["priorityClassName"] = None

    assert validate("PodGroup", new, pod_group(), "UPDATE").allowed


def test_an_update_that_leaves_a_faulty_spec_alone_is_allowed() -> None:
    old = pod_group("x" * 64, schedulingPolicy={})
    new = old | {"metadata": old["metadata"] | {"finalizers": []}}

    assert validate("PodGroup", new, old, "UPDATE") == ValidationResult()


def test_old_faults_are_not_reported_for_a_new_minimum() -> None:
    old = pod_group(priorityClassName="Not Valid")
    new = pod_group(priorityClassName="Not Valid", schedulingPolicy=gang(3))

    assert validate("PodGroup", new, old, "UPDATE").allowed


def test_an_update_without_an_old_object_is_judged_as_a_new_one() -> None:
    assert faults(validate("PodGroup", pod_group(workloadRef={}), None, "UPDATE")) == [
        ("spec.workloadRef.workloadName", REQUIRED),
        ("spec.workloadRef.templateName", REQUIRED),
    ]


@pytest.mark.parametrize(
    ("kind", "group", "spec", "want"),
    [
        pytest.param("Workload", GROUP, "text", ("spec", TYPE), id="a Workload's spec"),
        pytest.param("PodGroup", GROUP, 7, ("spec", TYPE), id="a PodGroup's spec"),
        pytest.param("CompositePodGroup", GROUP, [], ("spec", TYPE), id="a composite's spec"),
        pytest.param("PodGroup", COSCHEDULING, True, ("spec", TYPE), id="a KEP-3370 spec"),
        pytest.param(
            "CompositePodGroup",
            GROUP,
            {"workloadRef": REF, "schedulingPolicy": group_gang(1.5)},
            ("spec.schedulingPolicy.gang.minGroupCount", TYPE),
            id="a minimum that is no whole number",
        ),
        pytest.param(
            "PodGroup",
            COSCHEDULING,
            {"subsets": [7]},
            ("spec.subsets[0]", TYPE),
            id="a subset that is a number",
        ),
    ],
)
def test_wrong_types_are_reported_where_they_are(
    kind: str, group: str, spec: Any, want: tuple[str, str]
) -> None:
    assert want in faults(validate(kind, {"spec": spec}, None, "CREATE", group=group))


@pytest.mark.parametrize(
    "status",
    [
        pytest.param("text", id="a status that is a text"),
        pytest.param({"resourceClaimStatuses": "x"}, id="claims that are a text"),
        pytest.param({"resourceClaimStatuses": [1]}, id="a claim that is a number"),
    ],
)
def test_wrong_types_in_a_status_are_reported(status: Any) -> None:
    new = pod_group() | {"status": status}

    result = validate("PodGroup", new, pod_group(), "UPDATE", subresource="status")

    assert result.causes[0].reason == TYPE


def test_an_old_status_fault_is_not_reported_again() -> None:
    claims = [{"name": "gone"}]
    old = with_status(pod_group(), resourceClaimStatuses=claims)
    new = with_status(pod_group(), resourceClaimStatuses=claims, members=3)

    assert validate("PodGroup", new, old, "UPDATE", subresource="status").allowed


def test_a_coscheduling_group_s_status_is_its_controller_s_business() -> None:
    old = subsets(("a", 1))
    new = with_status(old, subsets=[{"name": "unheard-of"}])

    assert validate(
        "PodGroup", new, old, "UPDATE", group=COSCHEDULING, subresource="status"
    ).allowed


def test_the_text_says_what_to_do() -> None:
    deep = validate("Workload", chain(4), None, "CREATE")
    named = validate("Workload", flat(leaf("A")), None, "CREATE")

    [depth] = deep.causes
    assert depth.message.startswith('Invalid value: {"name":')
    assert depth.message.endswith(": maximum template hierarchy depth is 4")
    [name] = named.causes
    assert name.message == (
        'Invalid value: "A": must be a lowercase RFC 1123 label: at most 63 lower case '
        "alphanumeric characters or '-', and must start and end with an alphanumeric character"
    )


def test_a_parent_that_is_being_deleted_is_forbidden() -> None:
    assert table.PARENT_DELETING.at("spec.parent") == Cause(
        "spec.parent",
        "FieldValueForbidden",
        "Forbidden: the parent CompositePodGroup is being deleted",
    )


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
def test_deletion_is_never_refused_by_the_rules(operation: str) -> None:
    assert validate("PodGroup", {}, pod_group(), operation).allowed


@pytest.mark.parametrize(("kind", "group"), [("Pod", "scheduling.muster.dev"), ("PodGroup", "x.y")])
def test_an_unknown_kind_is_our_own_fault(kind: str, group: str) -> None:
    with pytest.raises(ValueError, match=f"{kind}.*{group}"):
        validate(kind, {}, None, "CREATE", group=group)


@pytest.mark.parametrize(
    ("count", "claims", "told"),
    [
        pytest.param(256, 1, False, id="256 pods"),
        pytest.param(257, 1, True, id="257 pods"),
        pytest.param(257, 0, False, id="257 pods without claims"),
        pytest.param("x", 1, False, id="no number"),
    ],
)
def test_a_gang_that_is_too_large_for_a_claim_is_told(count: Any, claims: int, told: bool) -> None:
    entries = [{"name": "imex", "resourceClaimTemplateName": "channel"}] * claims
    spec = {"schedulingPolicy": {"gang": {"minCount": count}}, "resourceClaims": entries}

    said = validate("PodGroup", {"metadata": {"name": "g"}, "spec": spec}, None, "CREATE").warnings

    text = (
        "spec.schedulingPolicy.gang.minCount: 257 pods run at the same time, and at most 256 "
        "pods can use a ResourceClaim of spec.resourceClaims"
    )
    assert said == ([text] if told else [])
