"""The fields of groups from other objects, and the warnings about them."""

from typing import Any

import pytest

from api.constants import COMPOSITE_POD_GROUP, POD_GROUP, KindName
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

HIGH = PriorityClass("high", 1000)
DEFAULT_LIFETIMES = PriorityClass("usual", 500, global_default=True)
REFERENCE = {"workloadName": "w", "templateName": "t"}
GANG = {"gang": {"minCount": 3}}


def workload(*, composites: Any = (), **template: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """Return Workload w with the leaf template t, or with these composite templates."""
    spec: dict[str, Any] = {"podGroupTemplates": [{"name": "t"} | template]}
    if composites:
        spec = {"compositePodGroupTemplates": composites}
    return {("team", "w"): {"spec": spec}}


def ask(
    phase: str,
    kind: KindName,
    new: dict[str, Any],
    lister: FakeLister,
    old: dict[str, Any] | None = None,
) -> Read:
    review = review_of(kind, new, old)
    return read(Reviewer(lister).review(f"{phase}/{kind.plural}", encoded(review)), review)


def waiting(**spec: Any) -> dict[str, Any]:
    """Return a PodGroup that gets its policy from its template."""
    return pod_group(schedulingPolicy=None, workloadRef=REFERENCE, **spec)


@pytest.mark.parametrize(
    ("template", "spec", "want"),
    [
        pytest.param(
            {"schedulingPolicy": GANG},
            {},
            {
                "schedulingPolicy": GANG,
                "disruptionMode": {"single": {}},
                "priorityClassName": "usual",
                "priority": 500,
                "preemptionPolicy": "PreemptLowerPriority",
            },
            id="policy from the template, the rest by default",
        ),
        pytest.param(
            {
                "schedulingPolicy": GANG,
                "schedulingConstraints": {"topology": [{"key": "rack"}]},
                "disruptionMode": {"all": {}},
                "priorityClassName": "high",
                "preemptionPolicy": "Never",
            },
            {},
            {
                "schedulingPolicy": GANG,
                "schedulingConstraints": {"topology": [{"key": "rack"}]},
                "disruptionMode": {"all": {}},
                "priorityClassName": "high",
                "priority": 1000,
                "preemptionPolicy": "Never",
            },
            id="all of it from the template",
        ),
        pytest.param(
            {"schedulingPolicy": GANG, "priorityClassName": "high", "disruptionMode": {"all": {}}},
            {"priorityClassName": "usual", "disruptionMode": {"single": {}}},
            {
                "schedulingPolicy": GANG,
                "disruptionMode": {"single": {}},
                "priorityClassName": "usual",
                "priority": 500,
                "preemptionPolicy": "PreemptLowerPriority",
            },
            id="what the user set stays",
        ),
    ],
)
def test_a_group_without_a_policy_is_completed_from_its_template(
    template: dict[str, Any], spec: dict[str, Any], want: dict[str, Any]
) -> None:
    lister = FakeLister([HIGH, DEFAULT_LIFETIMES], workloads=workload(**template))

    answer = ask("mutate", POD_GROUP, waiting(**spec), lister)

    assert answer.result is not None
    assert answer.result["spec"] == want | {"workloadRef": REFERENCE}
    assert answer.result["metadata"]["finalizers"]
    assert ask("validate", POD_GROUP, answer.result, lister).allowed


@pytest.mark.parametrize(
    "workloads",
    [
        pytest.param({}, id="no Workload yet"),
        pytest.param(workload(name="other", schedulingPolicy=GANG), id="no such template yet"),
        pytest.param(workload(), id="a template without a policy"),
    ],
)
def test_a_group_without_a_policy_waits_when_there_is_none_to_take(workloads: Any) -> None:
    answer = ask(
        "mutate", POD_GROUP, waiting(), FakeLister([DEFAULT_LIFETIMES], workloads=workloads)
    )

    assert answer.result is not None
    assert answer.result["spec"] == {"workloadRef": REFERENCE}


def test_a_template_whose_priority_is_wrong_is_said_alone() -> None:
    lister = FakeLister([HIGH], workloads=workload(schedulingPolicy=GANG, priorityClassName="gone"))

    answer = ask("mutate", POD_GROUP, waiting(), lister)

    assert answer.code == 403
    assert answer.faults == [("spec.priorityClassName", "FieldValueForbidden")]


def test_the_late_fill_is_completed_and_validated_by_the_live_template() -> None:
    lister = FakeLister([DEFAULT_LIFETIMES], workloads=workload(schedulingPolicy=GANG))
    filled = waiting()
    filled["spec"]["schedulingPolicy"] = GANG

    answer = ask("mutate", POD_GROUP, filled, lister, waiting())

    assert answer.result is not None
    assert answer.result["spec"]["priority"] == 500
    assert answer.result["spec"]["disruptionMode"] == {"single": {}}
    assert ask("validate", POD_GROUP, answer.result, lister, waiting()).allowed


def test_another_policy_than_the_template_s_is_refused_as_it_was_sent() -> None:
    lister = FakeLister([DEFAULT_LIFETIMES], workloads=workload(schedulingPolicy=GANG))
    sent = waiting()
    sent["spec"]["schedulingPolicy"] = {"basic": {}}

    answer = ask("mutate", POD_GROUP, sent, lister, waiting())

    assert answer.result == sent
    answer = ask("validate", POD_GROUP, sent, lister, waiting())
    assert answer.faults == [("spec.schedulingPolicy", "FieldValueInvalid")]


def test_a_late_fill_with_another_number_than_the_class_has_is_forbidden() -> None:
    lister = FakeLister([DEFAULT_LIFETIMES], workloads=workload(schedulingPolicy=GANG))
    filled = waiting(priority=7)
    filled["spec"]["schedulingPolicy"] = GANG

    answer = ask("mutate", POD_GROUP, filled, lister, waiting())

    assert answer.faults == [("spec.priority", "FieldValueForbidden")]


def test_any_other_update_is_left_alone() -> None:
    lister = FakeLister([DEFAULT_LIFETIMES], workloads=workload(schedulingPolicy=GANG))

    still_waiting = ask("mutate", POD_GROUP, waiting(), lister, waiting())
    had_a_policy = ask("mutate", POD_GROUP, pod_group(), lister, pod_group())

    assert still_waiting.result == waiting()
    assert had_a_policy.result == pod_group()


LEAF = {"name": "t", "schedulingPolicy": GANG, "priorityClassName": "high"}
TREE = [
    {"name": "root", "compositePodGroupTemplates": [{"name": "mid", "podGroupTemplates": [LEAF]}]}
]


@pytest.mark.parametrize(
    ("kind", "group", "workloads", "want"),
    [
        pytest.param(POD_GROUP, pod_group(), {}, [], id="no reference, no warning"),
        pytest.param(
            POD_GROUP,
            pod_group(workloadRef=REFERENCE),
            {},
            ["spec.workloadRef.workloadName: Workload 'w' not found"],
            id="no Workload yet",
        ),
        pytest.param(
            POD_GROUP,
            pod_group(workloadRef=REFERENCE | {"templateName": "mid"}),
            workload(composites=TREE),
            ["spec.workloadRef.templateName: Workload 'w' has no template 'mid' for a PodGroup"],
            id="a composite's template is none for a PodGroup",
        ),
        pytest.param(
            COMPOSITE_POD_GROUP,
            composite(workloadRef=REFERENCE | {"templateName": "mid"}),
            workload(composites=TREE),
            [],
            id="a composite's template deep in the tree",
        ),
        pytest.param(
            POD_GROUP,
            pod_group(workloadRef=REFERENCE, priorityClassName="high"),
            workload(composites=TREE),
            [],
            id="as the template says, with another minimum",
        ),
        pytest.param(
            POD_GROUP,
            pod_group(
                workloadRef=REFERENCE, schedulingPolicy={"basic": {}}, priorityClassName="low"
            ),
            workload(composites=TREE),
            [
                "spec.schedulingPolicy: differs from template 't' of Workload 'w'",
                "spec.priorityClassName: differs from template 't' of Workload 'w'",
            ],
            id="unlike the template",
        ),
    ],
)
def test_references_that_lead_nowhere_are_warnings(
    kind: KindName, group: dict[str, Any], workloads: Any, want: list[str]
) -> None:
    answer = ask("validate", kind, group, FakeLister(workloads=workloads))

    assert answer.allowed
    assert [warning.partition(". ")[0] for warning in answer.warnings] == want


def chain(*names: str) -> dict[tuple[str, str], str]:
    """Return composites, each the parent of the previous one."""
    parents = [*names[1:], ""]
    return {("team", name): parent for name, parent in zip(names, parents, strict=True)}


@pytest.mark.parametrize(
    ("kind", "make", "composites", "want"),
    [
        pytest.param(POD_GROUP, pod_group, chain("a", "b", "c"), "", id="four levels"),
        pytest.param(
            POD_GROUP,
            pod_group,
            chain("a", "b", "c", "d"),
            "has more than 4 levels",
            id="five levels",
        ),
        pytest.param(COMPOSITE_POD_GROUP, composite, chain("a", "b"), "", id="room for children"),
        pytest.param(
            COMPOSITE_POD_GROUP,
            composite,
            chain("a", "b", "c"),
            "has more than 4 levels",
            id="no room for children",
        ),
        pytest.param(
            COMPOSITE_POD_GROUP,
            composite,
            chain("a", "trainers"),
            "form a cycle through 'trainers'",
            id="a cycle",
        ),
        pytest.param(
            POD_GROUP, pod_group, {("team", "a"): "a"}, "has more than 4 levels", id="a cycle above"
        ),
        pytest.param(POD_GROUP, pod_group, {}, "", id="a parent that is not there yet"),
    ],
)
def test_parents_that_cannot_be_right_are_warnings(
    kind: KindName, make: Any, composites: Any, want: str
) -> None:
    group = make(workloadRef=REFERENCE, parentCompositePodGroupName="a")
    lister = FakeLister(composites=composites, workloads=workload(schedulingPolicy=GANG))
    if kind is COMPOSITE_POD_GROUP:
        lister.workloads = workload(composites=[{"name": "t"}])

    answer = ask("validate", kind, group, lister)

    assert answer.allowed
    assert [want in warning for warning in answer.warnings] == ([True] if want else [])


def test_a_refused_group_is_not_warned_as_well() -> None:
    wrong = pod_group(workloadRef=REFERENCE, schedulingPolicy={"gang": {"minCount": 0}})

    answer = ask("validate", POD_GROUP, wrong, FakeLister())

    assert answer.faults
    assert answer.warnings == []
