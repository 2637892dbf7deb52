"""The pods' annotations about the group that they name, and the resulting group."""

from typing import Any

import pytest

from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_GROUP_BY,
    ANNOTATION_MADE_FOR,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_PREFERRED_TOPOLOGY,
    ANNOTATION_TOPOLOGY,
    LABEL_MANAGED_BY,
    LABEL_POD_GROUP,
)
from api.groups import Form, GroupBy, GroupReference, groups_of_object
from api.integration.pods.groups_from_pods import (
    GroupDescription,
    ask_in,
    ask_of,
    check_pod,
    chosen,
    differences,
    group_object,
    is_from_pods,
    warnings_of,
)
from api.integration.pods.references import check_pod_template
from api.names import is_dns_subdomain, pod_group_of_value
from api.rules.validation import validate
from kube.client.meta import ObjectMeta

BY_LABEL = GroupReference("g", Form.LABEL)
FOUR = {ANNOTATION_MIN_COUNT: "4"}


def pod(annotations: dict[str, Any], labels: dict[str, str] | None = None) -> dict[str, Any]:
    named = {LABEL_POD_GROUP: "g"} if labels is None else labels
    return {
        "metadata": {"labels": named, "annotations": annotations},
        "spec": {"schedulerName": "muster-scheduler"},
    }


def faults(made: dict[str, Any]) -> list[str]:
    return [cause.field for cause in check_pod(groups_of_object(made, ours=True), made)]


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param(FOUR, GroupDescription(4, disruption="Single"), id="a gang"),
        pytest.param(
            FOUR | {ANNOTATION_TOPOLOGY: "rack", ANNOTATION_DISRUPTION_MODE: "All"},
            GroupDescription(4, topology="rack", disruption="All"),
            id="in one rack, all or none",
        ),
        pytest.param(
            FOUR | {ANNOTATION_PREFERRED_TOPOLOGY: "rack"},
            GroupDescription(4, topology="rack", preferred=True, disruption="Single"),
            id="in one rack if possible",
        ),
        pytest.param({ANNOTATION_TOPOLOGY: "rack"}, None, id="no min-count"),
        pytest.param({ANNOTATION_MIN_COUNT: "0"}, None, id="a wrong min-count"),
        pytest.param(FOUR | {ANNOTATION_TOPOLOGY: "/"}, None, id="a wrong topology"),
        pytest.param(
            FOUR | {ANNOTATION_MANAGED_GROUP: "g"}, None, id="a group that admission named"
        ),
    ],
)
def test_what_a_pod_says(annotations: dict[str, str], want: GroupDescription | None) -> None:
    assert ask_of(BY_LABEL, annotations) == want


@pytest.mark.parametrize("form", [Form.FIELD, Form.WORKLOAD, Form.COSCHEDULING])
def test_pods_that_name_their_group_in_other_ways_say_nothing(form: Form) -> None:
    assert ask_of(GroupReference("g", form), FOUR) is None


def test_the_priority_is_that_of_the_pods() -> None:
    ask = ask_of(BY_LABEL, FOUR, "high", "Never")

    assert ask == GroupDescription(
        4, disruption="Single", priority_class="high", preemption_policy="Never"
    )
    assert ask_of(BY_LABEL, FOUR, "", "PreemptLowerPriority") == GroupDescription(
        4, disruption="Single"
    )


@pytest.mark.parametrize(
    "ask",
    [
        GroupDescription(4, disruption="Single"),
        GroupDescription(1, topology="rack", disruption="All"),
        GroupDescription(9, "rack", True, "Single", "high", "Never"),
    ],
)
def test_the_group_is_valid_and_says_what_the_pods_do(ask: GroupDescription) -> None:
    made = group_object("default", "g", ask, None)

    assert validate("PodGroup", made, None, "CREATE").causes == []
    assert ask_in(made["spec"]) == ask
    meta = ObjectMeta(
        labels=made["metadata"]["labels"], annotations=made["metadata"]["annotations"]
    )
    assert is_from_pods(meta, "g")
    assert not is_from_pods(meta, "another")


def test_a_group_that_a_user_made_is_not_from_pods() -> None:
    assert not is_from_pods(ObjectMeta(annotations={ANNOTATION_MADE_FOR: "/Pod/g/"}), "g")
    assert not is_from_pods(ObjectMeta(labels={LABEL_MANAGED_BY: "muster"}), "g")


@pytest.mark.parametrize(
    ("counts", "current", "want"),
    [
        pytest.param({4: 1}, 0, 4, id="what they all say"),
        pytest.param({4: 1, 6: 9}, 4, 4, id="what the group has, as long as one says it"),
        pytest.param({4: 1, 6: 9}, 5, 6, id="else what most say"),
        pytest.param({4: 2, 6: 2}, 5, 4, id="and of what as many say the least"),
    ],
)
def test_which_min_count_is_chosen(counts: dict[int, int], current: int, want: int) -> None:
    asks = {GroupDescription(count): pods for count, pods in counts.items()}

    assert chosen(asks, current).min_count == want


@pytest.mark.parametrize(
    ("ask", "want"),
    [
        pytest.param(GroupDescription(4), "", id="the same"),
        pytest.param(
            GroupDescription(5),
            "the pods have min-count 5, and the group keeps minCount 4",
            id="min-count",
        ),
        pytest.param(
            GroupDescription(4, topology="rack"),
            "the pods have topology rack, and the group has none",
            id="topology",
        ),
        pytest.param(
            GroupDescription(4, disruption="All"),
            "the pods have disruption-mode All",
            id="disruption",
        ),
        pytest.param(
            GroupDescription(4, priority_class="x"), "the pods have priorityClassName x", id="class"
        ),
    ],
)
def test_what_differs_is_told(ask: GroupDescription, want: str) -> None:
    said = differences({ask: 1, GroupDescription(4): 1}, GroupDescription(4))

    assert said.startswith(want)
    assert bool(said) == bool(want)


def test_what_admission_filled_in_is_no_difference() -> None:
    filled = GroupDescription(4, priority_class="default", preemption_policy="Never")

    assert differences({GroupDescription(4): 1}, filled) == ""


def test_a_message_names_few_of_many_values() -> None:
    said = differences(
        {GroupDescription(count): 1 for count in range(5, 1000)}, GroupDescription(4)
    )

    assert "5 and 6 and 7 and 8 and 991 more" in said
    assert len(said) < 200


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(pod(FOUR), [], id="right"),
        pytest.param(
            pod({ANNOTATION_MIN_COUNT: "x", ANNOTATION_DISRUPTION_MODE: "Both"}),
            [
                f"metadata.annotations[{ANNOTATION_DISRUPTION_MODE}]",
                f"metadata.annotations[{ANNOTATION_MIN_COUNT}]",
            ],
            id="all faults at once",
        ),
        pytest.param(
            pod(FOUR | {ANNOTATION_TOPOLOGY: "a", ANNOTATION_PREFERRED_TOPOLOGY: "b"}),
            [f"metadata.annotations[{ANNOTATION_PREFERRED_TOPOLOGY}]"],
            id="two topologies",
        ),
        pytest.param(
            pod({ANNOTATION_GROUP_BY: "index"}),
            ["metadata.labels[index]"],
            id="grouped by a label that it does not have",
        ),
        pytest.param(
            pod({ANNOTATION_GROUP_BY: "not a key"}),
            [f"metadata.annotations[{ANNOTATION_GROUP_BY}]"],
            id="grouped by no label",
        ),
        pytest.param(
            pod({ANNOTATION_GROUP_BY: LABEL_POD_GROUP}),
            [f"metadata.annotations[{ANNOTATION_GROUP_BY}]"],
            id="grouped by the name of the group",
        ),
        *(
            pytest.param(
                pod({ANNOTATION_GROUP_BY: said}, {LABEL_POD_GROUP: "g", "index": "0"}),
                [f"metadata.annotations[{ANNOTATION_GROUP_BY}]"],
                id=f"grouped by {said}",
            )
            for said in (
                "",
                "index,",
                "index,role",
                "index,=x",
                ",role=x",
                "index,not a key=x",
                "index,role=not a value",
                "index,role=-x",
                f"index,role={'x' * 64}",
                f"index,{LABEL_POD_GROUP}=x",
            )
        ),
        pytest.param(
            pod({ANNOTATION_GROUP_BY: "index,role=x"}, {LABEL_POD_GROUP: "g", "index": "0"}),
            [],
            id="grouped by two labels",
        ),
        pytest.param(
            pod({ANNOTATION_GROUP_BY: "index,role="}, {LABEL_POD_GROUP: "g", "role": "x"}),
            ["metadata.labels[index]"],
            id="grouped by two labels, without the first",
        ),
        pytest.param(pod({ANNOTATION_MIN_COUNT: "x"}, {}), [], id="a pod that names no group"),
        pytest.param(
            pod({ANNOTATION_MIN_COUNT: "x", ANNOTATION_MANAGED_GROUP: "g"}),
            [],
            id="a group that admission named",
        ),
    ],
)
def test_what_is_wrong_with_a_pod(made: dict[str, Any], want: list[str]) -> None:
    assert sorted(faults(made)) == want


def test_a_template_may_get_the_label_later() -> None:
    template = pod({ANNOTATION_GROUP_BY: "index", ANNOTATION_MIN_COUNT: "x"})

    (cause,) = check_pod_template(template, "spec.template")

    assert cause.field == f"spec.template.metadata.annotations[{ANNOTATION_MIN_COUNT}]"


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(pod(FOUR), [], id="read"),
        pytest.param(pod({ANNOTATION_TOPOLOGY: "rack"}), [ANNOTATION_TOPOLOGY], id="no min-count"),
        pytest.param(
            pod({ANNOTATION_GROUP_BY: "app"}, {LABEL_POD_GROUP: "g", "app": "x"}),
            [],
            id="groups by label that others make",
        ),
        pytest.param(
            pod(FOUR, {"scheduling.x-k8s.io/pod-group": "g"}),
            [ANNOTATION_MIN_COUNT],
            id="a group named in another way",
        ),
        pytest.param(pod(FOUR, {}), [], id="no group"),
    ],
)
def test_what_has_no_effect_gets_a_warning(made: dict[str, Any], want: list[str]) -> None:
    found = warnings_of(groups_of_object(made, ours=True), made)

    assert [one.partition(": ")[0] for one in found] == [
        f"metadata.annotations[{key}]" for key in want
    ]


def test_each_value_of_a_label_is_a_group_of_its_own() -> None:
    def named(name: str, key: str, value: str) -> str:
        made = pod({ANNOTATION_GROUP_BY: key}, {LABEL_POD_GROUP: name, key: value})
        (reference,) = groups_of_object(made, ours=True)
        assert reference.form is Form.LABEL
        return reference.name

    found = {
        named("a", "k", "b-c"),
        named("a-b", "k", "c"),
        named("a", "other", "b-c"),
        named("a", "k", "B-c"),
        named("A", "k", "b-c"),
        named("a", "k", "b_c"),
    }
    assert len(found) == 6
    assert named("a", "k", "b-c").startswith("a-b-c-")
    assert named("a", "k", "b-c") == named("a", "k", "b-c")


def test_pods_with_a_value_of_another_label_are_a_group_beside_the_others() -> None:
    def named(group_by: str, **labels: str) -> str:
        made = pod({ANNOTATION_GROUP_BY: group_by}, {LABEL_POD_GROUP: "g"} | labels)
        return groups_of_object(made, ours=True)[0].name

    both = "index,role=leader"
    others = {
        named("index", index="0"),
        named(both, index="0"),
        named(both, index="0", role="worker"),
        named("index", index="0", role="leader"),
    }
    leaders = {named(both, index=str(at), role="leader") for at in range(3)}
    assert others == {pod_group_of_value("g", "index", "0")}
    assert len(leaders | others) == 4
    assert len({named("index,role=", index="0"), *others}) == 2


@pytest.mark.parametrize("text", ["a", "a,b=c", "a,b=", "a,b=c=d"])
def test_what_divides_a_group_is_written_as_it_was_read(text: str) -> None:
    assert GroupBy.read(text).text() == text


@pytest.mark.parametrize("name", ["a", "A_b", "x" * 63, "a..b", "-"])
@pytest.mark.parametrize("value", ["", "0", "V.1", "y" * 63, "ä"])
def test_the_name_is_one_that_a_group_can_have(name: str, value: str) -> None:
    made = pod_group_of_value(name, "k", value)

    assert is_dns_subdomain(made)
    assert len(made) <= 63


def test_the_note_of_admission_counts_before_the_label_that_divides() -> None:
    made = pod({ANNOTATION_GROUP_BY: "app", ANNOTATION_MANAGED_GROUP: "g"})

    assert groups_of_object(made, ours=True) == [BY_LABEL]
