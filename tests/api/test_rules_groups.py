"""The rules of PodGroup and CompositePodGroup on creation, and what an update may change."""

from typing import Any

import pytest

from api.rules import validate

Json = dict[str, Any]
REQUIRED, INVALID = "FieldValueRequired", "FieldValueInvalid"
REF: Json = {"workloadName": "w", "templateName": "t"}
GANG: Json = {"gang": {"minCount": 2}}
GROUP_GANG: Json = {"gang": {"minGroupCount": 2}}


def group(name: str = "g", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": spec}


def faults(verdict: Any) -> list[tuple[str, str]]:
    return [(cause.field, cause.reason) for cause in verdict.causes]


@pytest.mark.parametrize(
    ("kind", "obj", "want"),
    [
        pytest.param("PodGroup", group(schedulingPolicy=GANG), [], id="a gang on its own"),
        pytest.param(
            "PodGroup", group(workloadRef=REF), [], id="a group that waits for its template"
        ),
        pytest.param(
            "PodGroup",
            group(),
            [("spec.schedulingPolicy", REQUIRED)],
            id="neither a policy nor a template",
        ),
        pytest.param(
            "PodGroup",
            group(workloadRef=REF, schedulingPolicy={}),
            [("spec.schedulingPolicy", INVALID)],
            id="a policy that is there but empty",
        ),
        pytest.param(
            "PodGroup",
            group(schedulingPolicy=GANG, parentCompositePodGroupName="p"),
            [("spec.workloadRef", REQUIRED)],
            id="a parent without a workloadRef",
        ),
        pytest.param(
            "PodGroup",
            group(schedulingPolicy=GANG, workloadRef=REF, parentCompositePodGroupName="g"),
            [("spec.parentCompositePodGroupName", INVALID)],
            id="a group that is its own parent",
        ),
        pytest.param(
            "PodGroup",
            group(schedulingPolicy=GANG, workloadRef=REF, parentCompositePodGroupName=""),
            [("spec.parentCompositePodGroupName", INVALID)],
            id="a parent that is there but empty",
        ),
        pytest.param(
            "PodGroup",
            group(schedulingPolicy=GANG, workloadRef={}),
            [
                ("spec.workloadRef.workloadName", REQUIRED),
                ("spec.workloadRef.templateName", REQUIRED),
            ],
            id="an empty workloadRef",
        ),
        pytest.param(
            "PodGroup",
            group(schedulingPolicy=GANG, workloadRef={"workloadName": "W", "templateName": "a.b"}),
            [
                ("spec.workloadRef.workloadName", INVALID),
                ("spec.workloadRef.templateName", INVALID),
            ],
            id="a workloadRef of no valid names",
        ),
        pytest.param(
            "CompositePodGroup",
            group(schedulingPolicy=GROUP_GANG, workloadRef=REF),
            [],
            id="a composite",
        ),
        pytest.param(
            "CompositePodGroup",
            group(),
            [("spec.workloadRef", REQUIRED), ("spec.schedulingPolicy", REQUIRED)],
            id="an empty composite",
        ),
        pytest.param(
            "CompositePodGroup",
            group(schedulingPolicy=GANG, workloadRef=REF),
            [("spec.schedulingPolicy.gang.minGroupCount", REQUIRED)],
            id="a composite with the floor of a PodGroup",
        ),
    ],
)
def test_creation(kind: str, obj: Json, want: list[tuple[str, str]]) -> None:
    assert faults(validate(kind, obj, None, "CREATE")) == want


def test_a_name_that_no_label_can_hold_is_worth_a_warning() -> None:
    verdict = validate("PodGroup", group("x" * 64, schedulingPolicy=GANG), None, "CREATE")

    assert verdict.allowed
    assert [warning.split(":")[0] for warning in verdict.warnings] == ["metadata.name"]


OLD = group(schedulingPolicy=GANG, workloadRef=REF, disruptionMode={"single": {}})


def changed(**spec: Any) -> Json:
    return {"metadata": OLD["metadata"], "spec": OLD["spec"] | spec}


def without(key: str) -> Json:
    kept = {name: value for name, value in OLD["spec"].items() if name != key}
    return {"metadata": OLD["metadata"], "spec": kept}


@pytest.mark.parametrize(
    ("new", "want"),
    [
        pytest.param(changed(schedulingPolicy={"gang": {"minCount": 1}}), [], id="a lower floor"),
        pytest.param(changed(schedulingPolicy={"gang": {"minCount": 9}}), [], id="a higher floor"),
        pytest.param(
            changed(schedulingPolicy={"gang": {"minCount": 0}}),
            [("spec.schedulingPolicy.gang.minCount", INVALID)],
            id="a floor of 0",
        ),
        pytest.param(
            changed(schedulingPolicy={"gang": {}}),
            [("spec.schedulingPolicy.gang.minCount", REQUIRED)],
            id="the floor unset",
        ),
        pytest.param(
            changed(schedulingPolicy={"basic": {}}),
            [("spec.schedulingPolicy", INVALID)],
            id="another policy",
        ),
        pytest.param(
            changed(priorityClassName="high"),
            [("spec.priorityClassName", INVALID)],
            id="a class set later",
        ),
        pytest.param(
            without("disruptionMode"), [("spec.disruptionMode", INVALID)], id="a mode unset"
        ),
        pytest.param(
            changed(workloadRef=REF | {"templateName": "u"}),
            [("spec.workloadRef", INVALID)],
            id="another template",
        ),
        pytest.param(changed(priorityClassName=None), [], id="null is not a value"),
        pytest.param(
            changed(schedulingPolicy={"gang": 3}),
            [
                ("spec.schedulingPolicy", INVALID),
                ("spec.schedulingPolicy.gang", "FieldValueTypeInvalid"),
                ("spec.schedulingPolicy.gang.minCount", REQUIRED),
            ],
            id="a gang that is a number",
        ),
    ],
)
def test_update(new: Json, want: list[tuple[str, str]]) -> None:
    assert faults(validate("PodGroup", new, OLD, "UPDATE")) == want


def test_an_update_that_leaves_a_faulty_spec_alone_is_allowed() -> None:
    old = group("x" * 64, schedulingPolicy={})
    new = old | {"metadata": old["metadata"] | {"finalizers": []}}

    assert validate("PodGroup", new, old, "UPDATE").allowed


def test_old_faults_are_not_held_against_a_new_floor() -> None:
    old = group(schedulingPolicy=GANG, priorityClassName="Not Valid")
    new = group(schedulingPolicy={"gang": {"minCount": 3}}, priorityClassName="Not Valid")

    assert validate("PodGroup", new, old, "UPDATE").allowed


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param("podGroupTemplates", [], id="the floor of a template may change"),
        pytest.param(
            "compositePodGroupTemplates",
            [("spec.compositePodGroupTemplates", INVALID)],
            id="a template may not be added",
        ),
    ],
)
def test_update_of_a_workload(path: str, want: list[tuple[str, str]]) -> None:
    leaf: Json = {"name": "pg", "schedulingPolicy": {"gang": {"minCount": 2}}}
    inner: Json = {"name": "c", "schedulingPolicy": GROUP_GANG, "podGroupTemplates": [leaf]}
    raised = leaf | {"schedulingPolicy": {"gang": {"minCount": 3}}}
    spec: tuple[Json, Json] = {"podGroupTemplates": [leaf]}, {"podGroupTemplates": [raised]}
    if path == "compositePodGroupTemplates":
        second = inner | {"name": "d", "podGroupTemplates": [leaf | {"name": "other"}]}
        spec = {path: [inner]}, {path: [inner, second]}

    verdict = validate("Workload", {"spec": spec[1]}, {"spec": spec[0]}, "UPDATE")

    assert faults(verdict) == want


TEMPLATE: Json = {"name": "t", "schedulingPolicy": GANG, "priorityClassName": "high"}
INCOMPLETE = group(workloadRef=REF)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param(
            {"schedulingPolicy": GANG, "priorityClassName": "high"}, [], id="the template's values"
        ),
        pytest.param(
            {
                "schedulingPolicy": GANG,
                "priorityClassName": "high",
                "priority": 5,
                "disruptionMode": {"single": {}},
            },
            [],
            id="with the defaults that go with them",
        ),
        pytest.param(
            {"schedulingPolicy": {"gang": {"minCount": 1}}},
            [("spec.schedulingPolicy", INVALID)],
            id="another policy than the template's",
        ),
        pytest.param(
            {"schedulingPolicy": GANG, "priorityClassName": "low"},
            [("spec.priorityClassName", INVALID)],
            id="another class than the template's",
        ),
        pytest.param(
            {"schedulingPolicy": GANG, "disruptionMode": {"all": {}}},
            [("spec.disruptionMode", INVALID)],
            id="a mode the template does not say",
        ),
    ],
)
def test_the_late_fill_is_the_template_s(fields: Json, want: list[tuple[str, str]]) -> None:
    new = group(workloadRef=REF, **fields)

    assert faults(validate("PodGroup", new, INCOMPLETE, "UPDATE", template=TEMPLATE)) == want


def test_status_claims_name_claims_of_the_spec() -> None:
    obj = group(resourceClaims=[{"name": "a", "resourceClaimName": "x"}])
    statuses = [{"name": "a", "resourceClaimName": "X"}, {"name": "b"}]
    obj["status"] = {"resourceClaimStatuses": statuses}

    verdict = validate("PodGroup", obj, group(), "UPDATE", subresource="status")

    assert faults(verdict) == [
        ("status.resourceClaimStatuses[0].resourceClaimName", INVALID),
        ("status.resourceClaimStatuses[1].name", INVALID),
    ]


def test_deletion_is_never_refused_by_the_rules() -> None:
    assert validate("PodGroup", {}, group(), "DELETE").allowed


def test_an_unknown_kind_is_our_own_fault() -> None:
    with pytest.raises(ValueError, match="Pod"):
        validate("Pod", {}, None, "CREATE")
