"""Pods through the whole review: who schedules them, and which one group they name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.webhooks.reviews import POD, FakeLister, Read, encoded, pod, read, review_of
from webhooks.reviewer import Reviewer

OURS = "muster-scheduler"
LABEL = "scheduling.muster.dev/pod-group"
WORKLOAD = "scheduling.muster.dev/workload"
TEMPLATE = "scheduling.muster.dev/template"
REPLICA = "scheduling.muster.dev/replica-key"
PLUGINS = "scheduling.x-k8s.io/pod-group"
SUBSET = "scheduling.muster.dev/subset"


def ask(
    phase: str,
    new: dict[str, Any] | None,
    old: dict[str, Any] | None = None,
    lister: FakeLister | None = None,
) -> Read:
    review = review_of(POD, new, old)
    answer = Reviewer(lister or FakeLister()).review(f"{phase}/pods", encoded(review))
    return read(answer, review)


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(
            pod(labels={LABEL: "g"}, scheduler="default-scheduler"), OURS, id="by the label"
        ),
        pytest.param(pod(labels={LABEL: "g"}), OURS, id="no scheduler named"),
        pytest.param(pod(labels={LABEL: "g"}, scheduler=""), OURS, id="an empty scheduler name"),
        pytest.param(
            pod(schedulingGroup={"podGroupName": "g"}, scheduler="default-scheduler"),
            OURS,
            id="by the field of Kubernetes 1.36",
        ),
        pytest.param(
            pod(labels={WORKLOAD: "w", TEMPLATE: "t"}), OURS, id="by workload and template"
        ),
        pytest.param(
            pod(workloadRef={"name": "w", "podGroup": "t"}), OURS, id="by the field of 1.35"
        ),
        pytest.param(pod(labels={PLUGINS: "g"}), OURS, id="by the label of scheduler-plugins"),
        pytest.param(
            pod(labels={LABEL: "g"}, scheduler="volcano"), "volcano", id="another scheduler stays"
        ),
        pytest.param(
            pod(labels={WORKLOAD: "w"}, scheduler="default-scheduler"),
            "default-scheduler",
            id="a workload without a template names no group",
        ),
    ],
)
def test_who_schedules_a_new_pod(made: dict[str, Any], want: str) -> None:
    answer = ask("mutate", made)

    assert answer.allowed
    assert answer.result is not None
    assert answer.result["spec"]["schedulerName"] == want


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(pod() | {"spec": None}, id="a null spec"),
        pytest.param(pod() | {"spec": []}, id="a list for a spec"),
        pytest.param(pod(labels=[LABEL]), id="a list for labels"),
        pytest.param(pod(labels={LABEL: 7}), id="a number for a label"),
        pytest.param(pod(schedulingGroup="g", workloadRef=["w"]), id="odd references"),
        pytest.param(pod() | {"metadata": None}, id="null metadata"),
    ],
)
@pytest.mark.parametrize("phase", ["mutate", "validate"])
def test_any_structure_of_a_pod_is_answered(phase: str, made: dict[str, Any]) -> None:
    answer = ask(phase, made)

    assert answer.allowed
    assert answer.result == made


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(pod(labels={LABEL: "a"}), [], id="one group"),
        pytest.param(pod(labels={LABEL: "a", PLUGINS: "a"}), [], id="one group, said in two ways"),
        pytest.param(
            pod(labels={LABEL: "a", PLUGINS: "b"}),
            [(f"metadata.labels[{PLUGINS}]", "FieldValueInvalid")],
            id="two groups by two labels",
        ),
        pytest.param(
            pod(labels={LABEL: "b", PLUGINS: "c"}, schedulingGroup={"podGroupName": "a"}),
            [
                (f"metadata.labels[{LABEL}]", "FieldValueInvalid"),
                (f"metadata.labels[{PLUGINS}]", "FieldValueInvalid"),
            ],
            id="three groups, the field counts",
        ),
        pytest.param(
            pod(labels={LABEL: "a", WORKLOAD: "w", TEMPLATE: "t"}),
            [(f"metadata.labels[{WORKLOAD}]", "FieldValueInvalid")],
            id="a group and a workload's template",
        ),
        pytest.param(
            pod(labels={LABEL: "a"}, workloadRef={"name": "w", "podGroup": "t"}),
            [("spec.workloadRef", "FieldValueInvalid")],
            id="a group and the field of 1.35",
        ),
        pytest.param(
            pod(labels={LABEL: "w-t-0", WORKLOAD: "w", TEMPLATE: "t", REPLICA: "0"}),
            [],
            id="the group that the workload's labels mean",
        ),
    ],
)
def test_a_pod_names_one_group(made: dict[str, Any], want: list[tuple[str, str]]) -> None:
    made["spec"]["schedulerName"] = OURS

    answer = ask("validate", made)

    assert answer.faults == want
    assert answer.allowed is (not want)


def test_pods_of_other_schedulers_are_not_validated() -> None:
    going = FakeLister(deleting_groups={("team", "a")})

    answer = ask("validate", pod(labels={LABEL: "a", PLUGINS: "b"}, scheduler="x"), lister=going)

    assert answer.allowed


def test_no_pod_comes_into_a_group_that_is_being_deleted() -> None:
    going = FakeLister(deleting_groups={("team", "a")})
    member = pod(labels={LABEL: "a"}, scheduler=OURS)

    refused = ask("validate", member, lister=going)

    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.faults == [(f"metadata.labels[{LABEL}]", "FieldValueForbidden")]
    assert "is being deleted" in refused.message
    assert ask("validate", pod(labels={LABEL: "b"}, scheduler=OURS), lister=going).allowed
    assert ask("validate", member, member, lister=going).allowed


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param({LABEL: "a"}, {LABEL: "a", "more": "x"}, [], id="other labels may change"),
        pytest.param(
            {LABEL: "a"},
            {LABEL: "b"},
            [(f"metadata.labels[{LABEL}]", "FieldValueInvalid")],
            id="to another group",
        ),
        pytest.param(
            {LABEL: "a"}, {}, [(f"metadata.labels[{LABEL}]", "FieldValueInvalid")], id="to none"
        ),
        pytest.param(
            {},
            {PLUGINS: "a"},
            [(f"metadata.labels[{PLUGINS}]", "FieldValueInvalid")],
            id="to one from none",
        ),
        pytest.param(
            {PLUGINS: "a"},
            {PLUGINS: "a", SUBSET: "s"},
            [(f"metadata.labels[{PLUGINS}]", "FieldValueInvalid")],
            id="to another subset",
        ),
        pytest.param({LABEL: "a"}, {LABEL: "a", PLUGINS: "a"}, [], id="the same said once more"),
        pytest.param(
            {LABEL: "a"},
            {LABEL: "a", PLUGINS: "b"},
            [(f"metadata.labels[{PLUGINS}]", "FieldValueInvalid")],
            id="to a second group",
        ),
        pytest.param(
            {LABEL: "a", PLUGINS: "b"},
            {LABEL: "a", PLUGINS: "b", TEMPLATE: "t"},
            [],
            id="a fault from before is not held against it",
        ),
    ],
)
def test_the_group_of_a_pod_is_fixed(
    old: dict[str, str], new: dict[str, str], want: list[tuple[str, str]]
) -> None:
    answer = ask("validate", pod(labels=new, scheduler=OURS), pod(labels=old, scheduler=OURS))

    assert answer.faults == want


def test_half_a_reference_is_a_warning() -> None:
    half = ask("validate", pod(labels={WORKLOAD: "w"}, scheduler=OURS))
    whole = ask("validate", pod(labels={WORKLOAD: "w", TEMPLATE: "t"}, scheduler=OURS))

    assert half.allowed
    assert half.warnings == [
        f"metadata.labels[{WORKLOAD}]: it names a group only together with {TEMPLATE}"
    ]
    assert whole.warnings == []
