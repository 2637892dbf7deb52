"""A pod's reference to its group: four forms, and their precedence."""

from typing import Any

import pytest

from api.constants import (
    ANNOTATION_MANAGED_GROUP,
    LABEL_COSCHEDULING,
    LABEL_POD_GROUP,
    LABEL_REPLICA_KEY,
    LABEL_SUBSET,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
)
from api.groups import Form, GroupReference, groups_of_object, groups_of_pod, incomplete_reference
from api.names import implicit_pod_group, subset_pod_group

WORKLOAD_LABELS = {LABEL_WORKLOAD: "w", LABEL_TEMPLATE: "t"}


def pod(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": labels or {}}, "spec": spec}


def managed(group: str, labels: dict[str, str]) -> dict[str, Any]:
    """Return a pod with Muster's annotation of its group, and the Job controller's field."""
    made = pod(labels, schedulingGroup={"podGroupName": "f"})
    made["metadata"]["annotations"] = {ANNOTATION_MANAGED_GROUP: group}
    return made


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param(pod(), [], id="a pod that names none"),
        pytest.param(pod({LABEL_POD_GROUP: "g"}), [("g", Form.LABEL)], id="by label"),
        pytest.param(
            pod({LABEL_POD_GROUP: "g"}, schedulingGroup={"podGroupName": "f"}),
            [("f", Form.FIELD), ("g", Form.LABEL)],
            id="the field counts before the label",
        ),
        pytest.param(
            managed("g", {LABEL_POD_GROUP: "g"}),
            [("g", Form.LABEL)],
            id="what Muster named counts before the field, which the Job controller writes as well",
        ),
        pytest.param(
            managed("other", {LABEL_POD_GROUP: "g"}),
            [("f", Form.FIELD), ("g", Form.LABEL)],
            id="a note about another group says nothing",
        ),
        pytest.param(pod(WORKLOAD_LABELS), [("w-t", Form.WORKLOAD)], id="by Workload and template"),
        pytest.param(
            pod(WORKLOAD_LABELS | {LABEL_REPLICA_KEY: "1"}),
            [(implicit_pod_group("w", "t", "1"), Form.WORKLOAD)],
            id="by Workload, template and replica key",
        ),
        pytest.param(pod({LABEL_WORKLOAD: "w"}), [], id="a Workload without a template is none"),
        pytest.param(
            pod(workloadRef={"name": "w", "podGroup": "t", "podGroupReplicaKey": "1"}),
            [(implicit_pod_group("w", "t", "1"), Form.WORKLOAD)],
            id="by the field of Kubernetes 1.35",
        ),
        pytest.param(
            pod({LABEL_COSCHEDULING: "g"}), [("g", Form.COSCHEDULING)], id="as scheduler-plugins do"
        ),
        pytest.param(
            pod({LABEL_COSCHEDULING: "g", LABEL_SUBSET: "s"}),
            [(subset_pod_group("g", "s"), Form.COSCHEDULING)],
            id="a subset of a coscheduling group",
        ),
        pytest.param(pod({LABEL_SUBSET: "s"}), [], id="a subset without a group is none"),
        pytest.param({"metadata": None, "spec": 3}, [], id="an object of no sensible structure"),
    ],
)
def test_references(obj: dict[str, Any], want: list[tuple[str, Form]]) -> None:
    assert groups_of_object(obj, ours=True) == [GroupReference(*item) for item in want]


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param(
            pod({LABEL_POD_GROUP: "g"}, schedulingGroup={"podGroupName": "f"}),
            [("g", Form.LABEL)],
            id="the field of 1.36 is not looked at",
        ),
        pytest.param(
            pod(WORKLOAD_LABELS, workloadRef={"name": "x", "podGroup": "y"}),
            [("w-t", Form.WORKLOAD)],
            id="nor the field of 1.35, but the labels are",
        ),
        pytest.param(
            pod({LABEL_COSCHEDULING: "g", LABEL_SUBSET: "s"}), [], id="nor scheduler-plugins' label"
        ),
    ],
)
def test_foreign_forms_do_not_count_for_pods_of_other_schedulers(
    obj: dict[str, Any], want: list[tuple[str, Form]]
) -> None:
    assert groups_of_object(obj, ours=False) == [GroupReference(*item) for item in want]


def test_the_first_reference_is_the_pod_s_group() -> None:
    labels = {LABEL_POD_GROUP: "g", LABEL_COSCHEDULING: "c"}

    assert next(groups_of_pod(labels, ours=True)) == GroupReference("g", Form.LABEL)
    assert list(groups_of_pod({}, ours=True)) == []


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        ({}, None),
        (WORKLOAD_LABELS, None),
        ({LABEL_WORKLOAD: "w"}, (LABEL_WORKLOAD, LABEL_TEMPLATE)),
        ({LABEL_TEMPLATE: "t"}, (LABEL_TEMPLATE, LABEL_WORKLOAD)),
        ({LABEL_WORKLOAD: "w", LABEL_TEMPLATE: ""}, (LABEL_WORKLOAD, LABEL_TEMPLATE)),
        ({LABEL_REPLICA_KEY: "1"}, (LABEL_REPLICA_KEY, LABEL_WORKLOAD)),
        ({LABEL_REPLICA_KEY: "1", LABEL_WORKLOAD: "w"}, (LABEL_WORKLOAD, LABEL_TEMPLATE)),
        ({LABEL_WORKLOAD: "", LABEL_TEMPLATE: ""}, None),
    ],
)
def test_labels_that_name_a_group_only_in_part(
    labels: dict[str, str], want: tuple[str, str] | None
) -> None:
    assert incomplete_reference(labels) == want
