"""Groups through the complete review, without a transport."""

from typing import Any

import pytest

from api.constants import COMPOSITE_POD_GROUP, POD_GROUP, WORKLOAD, KindName
from api.priority import PriorityClass
from tests.webhooks.review_requests import (
    FakeLister,
    Read,
    composite,
    encoded,
    pod_group,
    read,
    review_of,
)
from webhooks.routing.reviewer import Reviewer

HIGH = PriorityClass("high", 1000, preemption_policy="Never")
LOW = PriorityClass("low", 10)
DEFAULT = PriorityClass("usual", 500, global_default=True)
LOWER_DEFAULT = PriorityClass("modest", 50, global_default=True)
SYSTEM = PriorityClass("system-node-critical", 2_000_001_000)


def ask(
    phase: str,
    kind: KindName,
    new: dict[str, Any] | None,
    old: dict[str, Any] | None = None,
    lister: FakeLister | None = None,
    **request: str,
) -> Read:
    review = review_of(kind, new, old, **request)
    answer = Reviewer(lister or FakeLister()).review(f"{phase}/{kind.plural}", encoded(review))
    return read(answer, review)


@pytest.mark.parametrize(
    ("spec", "classes", "want"),
    [
        pytest.param(
            {"priorityClassName": "high"},
            [LOW, HIGH],
            {"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"},
            id="a class gives its number and its preemption policy",
        ),
        pytest.param(
            {"priorityClassName": "low", "preemptionPolicy": "Never"},
            [LOW],
            {"priorityClassName": "low", "priority": LOW.value, "preemptionPolicy": "Never"},
            id="a group may be more modest than its class",
        ),
        pytest.param(
            {},
            [LOW, DEFAULT, LOWER_DEFAULT],
            {
                "priorityClassName": "modest",
                "priority": 50,
                "preemptionPolicy": "PreemptLowerPriority",
            },
            id="no class takes the lowest of the global defaults",
        ),
        pytest.param(
            {},
            [LOW, HIGH],
            {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"},
            id="no class and no global default is zero",
        ),
        pytest.param(
            {"priorityClassName": "high", "priority": 1000},
            [HIGH],
            {"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"},
            id="the right number may be given",
        ),
        pytest.param(
            {"priorityClassName": "system-node-critical"},
            [SYSTEM],
            {
                "priorityClassName": "system-node-critical",
                "priority": 2_000_001_000,
                "preemptionPolicy": "PreemptLowerPriority",
            },
            id="a system class works as for pods",
        ),
    ],
)
@pytest.mark.parametrize("make", [pod_group, composite])
def test_priority_is_resolved_on_creation(
    make: Any, spec: dict[str, Any], classes: list[PriorityClass], want: dict[str, Any]
) -> None:
    group = make(**spec)
    kind = POD_GROUP if make is pod_group else COMPOSITE_POD_GROUP

    answer = ask("mutate", kind, group, lister=FakeLister(classes))

    assert answer.allowed
    assert answer.result is not None
    fields = ("priorityClassName", "priority", "preemptionPolicy")
    assert {key: answer.result["spec"][key] for key in fields if key in answer.result["spec"]} == (
        want
    )


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        pytest.param(
            {"priorityClassName": "nope"},
            "spec.priorityClassName",
            "no PriorityClass with name nope was found",
            id="an unknown class",
        ),
        pytest.param(
            {"priorityClassName": "high", "priority": 7},
            "spec.priority",
            "computed 1000 from PriorityClass high",
            id="a number that is not the class's",
        ),
        pytest.param(
            {"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"},
            "spec.preemptionPolicy",
            "computed Never from PriorityClass high",
            id="a group that preempts under a class that never does",
        ),
        pytest.param(
            {"priority": 7},
            "spec.priority",
            "because no PriorityClass applies",
            id="a number without a class",
        ),
    ],
)
def test_a_priority_error_is_forbidden_and_comes_alone(
    spec: dict[str, Any], field: str, text: str
) -> None:
    group = pod_group(schedulingPolicy={"gang": {"minCount": 0}}, **spec)

    answer = ask("mutate", POD_GROUP, group, lister=FakeLister([HIGH]))

    assert (answer.code, answer.reason) == (403, "Forbidden")
    assert answer.faults == [(field, "FieldValueForbidden")]
    assert text in answer.message
    assert answer.message.startswith(
        'podgroups.scheduling.muster.dev "trainer" is forbidden: spec.'
    )


@pytest.mark.parametrize(
    ("kind", "make", "finalizer"),
    [
        pytest.param(POD_GROUP, pod_group, "podgroup-protection", id="PodGroup"),
        pytest.param(
            COMPOSITE_POD_GROUP, composite, "compositepodgroup-protection", id="CompositePodGroup"
        ),
    ],
)
def test_a_new_group_gets_its_finalizer_and_mode(kind: KindName, make: Any, finalizer: str) -> None:
    answer = ask("mutate", kind, make())

    assert answer.result is not None
    assert answer.result["metadata"]["finalizers"] == [f"scheduling.muster.dev/{finalizer}"]
    assert answer.result["spec"]["disruptionMode"] == {"single": {}}


def test_what_is_there_already_is_kept() -> None:
    group = pod_group(disruptionMode={"all": {}})
    group["metadata"]["finalizers"] = ["example.dev/mine"]

    first = ask("mutate", POD_GROUP, group)
    again = ask("mutate", POD_GROUP, first.result)

    assert first.result is not None
    assert first.result["metadata"]["finalizers"] == [
        "example.dev/mine",
        "scheduling.muster.dev/podgroup-protection",
    ]
    assert first.result["spec"]["disruptionMode"] == {"all": {}}
    assert again.result == first.result


def test_a_group_that_waits_for_its_template_gets_a_finalizer_only() -> None:
    reference = {"workloadName": "w", "templateName": "t"}
    group = pod_group(schedulingPolicy=None, workloadRef=reference)

    answer = ask("mutate", POD_GROUP, group, lister=FakeLister([DEFAULT]))

    assert answer.result is not None
    assert answer.result["spec"] == {"workloadRef": reference}
    assert answer.result["metadata"]["finalizers"]


def test_an_update_is_left_alone() -> None:
    old = pod_group(priorityClassName="gone", priority=5)

    answer = ask("mutate", POD_GROUP, pod_group(priorityClassName="gone", priority=5), old)

    assert answer.allowed
    assert answer.result == pod_group(priorityClassName="gone", priority=5)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param({"spec": None}, id="spec is null"),
        pytest.param({"spec": []}, id="spec is a list"),
        pytest.param({"spec": {"schedulingPolicy": 5, "priority": "x"}}, id="types are wrong"),
        pytest.param({"metadata": None}, id="metadata is null"),
        pytest.param({"metadata": {"finalizers": "x"}}, id="finalizers is a string"),
        pytest.param({}, id="nothing is wrong"),
    ],
)
@pytest.mark.parametrize("phase", ["mutate", "validate"])
def test_any_structure_is_answered(phase: str, damage: dict[str, Any]) -> None:
    group = pod_group() | damage

    answer = ask(phase, POD_GROUP, group)

    assert answer.allowed or answer.faults


def test_all_faults_come_in_one_answer() -> None:
    group = pod_group(
        schedulingPolicy={"gang": {"minCount": 0}},
        schedulingConstraints={"topology": [{"key": "a b"}, {"key": "rack"}]},
        parentCompositePodGroupName="Bad_Name",
    )

    answer = ask("validate", POD_GROUP, group)

    assert (answer.code, answer.reason) == (422, "Invalid")
    assert {field for field, _ in answer.faults} == {
        "spec.schedulingPolicy.gang.minCount",
        "spec.schedulingConstraints.topology",
        "spec.schedulingConstraints.topology[0].key",
        "spec.parentCompositePodGroupName",
        "spec.workloadRef",
    }
    assert answer.message.startswith('PodGroup.scheduling.muster.dev "trainer" is invalid: [spec.')


def test_one_fault_is_not_written_as_a_list() -> None:
    answer = ask("validate", POD_GROUP, pod_group(schedulingPolicy={"gang": {"minCount": 0}}))

    assert answer.message == (
        'PodGroup.scheduling.muster.dev "trainer" is invalid: '
        "spec.schedulingPolicy.gang.minCount: Invalid value: 0: "
        "must be greater than or equal to 1"
    )


def test_a_changed_spec_is_refused_and_an_unchanged_one_is_not() -> None:
    old = pod_group(priority=0)
    stripped = pod_group(priority=0)
    old["metadata"]["finalizers"] = ["scheduling.muster.dev/podgroup-protection"]

    changed = ask("validate", POD_GROUP, pod_group(priority=9), old)
    same = ask("validate", POD_GROUP, stripped, old)

    assert changed.faults == [("spec.priority", "FieldValueInvalid")]
    assert same.allowed


def test_a_long_name_is_a_warning() -> None:
    answer = ask("validate", POD_GROUP, pod_group("g" * 64))

    assert answer.allowed
    assert [warning[:13] for warning in answer.warnings] == ["metadata.name"]


@pytest.mark.parametrize("kind", [POD_GROUP, COMPOSITE_POD_GROUP], ids=lambda kind: str(kind.kind))
def test_creation_into_a_deleting_parent_is_forbidden(kind: KindName) -> None:
    reference = {"workloadName": "w", "templateName": "t"}
    make = pod_group if kind is POD_GROUP else composite
    child = make(parentCompositePodGroupName="root", workloadRef=reference)
    going = FakeLister(deleting={("team", "root")})
    elsewhere = FakeLister(deleting={("other", "root")})

    refused = ask("validate", kind, child, lister=going)

    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.faults == [("spec.parentCompositePodGroupName", "FieldValueForbidden")]
    assert ask("validate", kind, child, lister=elsewhere).allowed
    assert ask("validate", kind, child, child, lister=going).allowed


def test_claim_statuses_are_validated_on_the_status_subresource() -> None:
    old = pod_group()
    new = pod_group() | {"status": {"resourceClaimStatuses": [{"name": "no-such-claim"}]}}

    answer = ask("validate", POD_GROUP, new, old, subresource="status")

    assert answer.faults == [("status.resourceClaimStatuses[0].name", "FieldValueInvalid")]


def test_a_workload_is_validated() -> None:
    workload = {
        "apiVersion": "scheduling.muster.dev/v1alpha3",
        "kind": "Workload",
        "metadata": {"generateName": "w-", "namespace": "team"},
        "spec": {
            "podGroupTemplates": [
                {"name": "a", "schedulingPolicy": {"gang": {"minCount": 0}}},
                {"name": "a", "schedulingPolicy": {"basic": {}}},
            ]
        },
    }

    answer = ask("validate", WORKLOAD, workload)

    assert answer.faults == [
        ("spec.podGroupTemplates[0].schedulingPolicy.gang.minCount", "FieldValueInvalid"),
        ("spec.podGroupTemplates[1].name", "FieldValueDuplicate"),
    ]
    assert 'Workload.scheduling.muster.dev "w-" is invalid' in answer.message


def test_deletion_is_never_refused() -> None:
    answer = ask("validate", POD_GROUP, None, pod_group(), operation="DELETE")

    assert answer.allowed


TEMPLATES = {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}}]}
RACK = {"topology": [{"key": "rack"}]}


def stored_workload(**template: Any) -> dict[str, Any]:
    leaf = TEMPLATES["podGroupTemplates"][0] | template
    return {
        "apiVersion": WORKLOAD.api_version,
        "kind": WORKLOAD.kind,
        "metadata": {"name": "w", "namespace": "team"},
        "spec": {"podGroupTemplates": [leaf]},
    }


def test_a_replace_in_an_older_version_keeps_what_that_cannot_say() -> None:
    old = stored_workload(schedulingConstraints=RACK)
    sent = stored_workload(schedulingPolicy={"gang": {"minCount": 5}})

    kept = ask("mutate", WORKLOAD, sent, old, version="v1alpha1")
    newest = ask("mutate", WORKLOAD, sent, old)

    assert kept.result == stored_workload(
        schedulingPolicy={"gang": {"minCount": 5}}, schedulingConstraints=RACK
    )
    assert newest.result == sent
    assert ask("validate", WORKLOAD, kept.result, old).allowed
    assert not ask("validate", WORKLOAD, sent, old).allowed


def test_a_replace_in_an_older_version_keeps_a_groups_policy_and_its_status() -> None:
    reference = {"workloadName": "w", "templateName": "t"}
    old = pod_group(workloadRef=reference) | {"status": {"members": 3, "scheduledPods": 1}}
    sent = pod_group(workloadRef=reference, schedulingPolicy=None)
    other = pod_group(workloadRef=reference | {"templateName": "u"}, schedulingPolicy=None)

    assert ask("mutate", POD_GROUP, sent, old, version="v1alpha2").result == old
    moved = ask("mutate", POD_GROUP, other, old, version="v1alpha2").result
    assert moved is not None
    assert moved["spec"]["schedulingPolicy"] == old["spec"]["schedulingPolicy"]
    assert ask("validate", POD_GROUP, moved, old).faults == [
        ("spec.workloadRef", "FieldValueInvalid")
    ]


def test_a_replace_in_an_older_version_completes_a_group_that_waited_for_its_template() -> None:
    reference = {"workloadName": "w", "templateName": "t"}
    old = pod_group(workloadRef=reference, schedulingPolicy=None)
    old["status"] = {"members": 3}
    sent = pod_group(workloadRef=reference, schedulingPolicy={"gang": {"minCount": 2}})
    lister = FakeLister([DEFAULT], workloads={("team", "w"): stored_workload()})

    answer = ask("mutate", POD_GROUP, sent, old, version="v1alpha2", lister=lister)

    assert answer.result is not None
    assert answer.result["status"] == {"members": 3}
    assert "disruptionMode" in answer.result["spec"]
    assert "priority" in answer.result["spec"]


def test_a_new_workload_is_as_it_was_sent() -> None:
    sent = stored_workload()

    assert ask("mutate", WORKLOAD, sent, version="v1alpha1").result == sent
