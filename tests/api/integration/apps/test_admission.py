"""StatefulSets and Deployments: their options, generated annotations and labels, and minCount."""

import copy
from typing import Any

import pytest

from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_MANAGED_GROUP,
    LABEL_POD_GROUP,
    LWS_LABEL_NAME,
)
from api.integration.common.owner_kind import Review
from api.integration.kinds import SINGLE_GROUP_KINDS
from api.integration.single_group.kind import Rollout, minimum, single_group
from tests.support.apps import admitted, deployment, kind_of, stateful_set

Json = dict[str, Any]
MODE = f"metadata.annotations[{ANNOTATION_GANG_MODE}]"
NOTES = "metadata.annotations[scheduling.muster.dev/{}]"


def faults(new: Json, old: Json | None = None) -> list[tuple[str, str]]:
    """Return field and message of all causes, after mutation."""
    made = admitted(new, old)
    operation = "CREATE" if old is None else "UPDATE"
    found = kind_of(made).admit(made, Review(operation, old, uid="other"))
    return [(cause.field, cause.message) for cause in found.causes]


def mark(obj: Json) -> str:
    """Return the group that object and template agree on."""
    return kind_of(obj).read(obj).managed


def template(obj: Json) -> Json:
    found: Json = obj["spec"]["template"]
    return found


def given(obj: Json, **fields: Any) -> Json:
    """Return the object with other fields of the pods' spec."""
    made = copy.deepcopy(obj)
    template(made)["spec"] |= fields
    return made


def noted(obj: Json, **notes: str | None) -> Json:
    """Return the object with other annotations of ours, without those that are None."""
    made = copy.deepcopy(obj)
    said = made["metadata"].setdefault("annotations", {})
    for key, value in notes.items():
        name = f"scheduling.muster.dev/{key.replace('_', '-')}"
        said[name] = value
        if value is None:
            del said[name]
    return made


@pytest.mark.parametrize("make", [stateful_set, deployment])
def test_the_pods_are_marked_with_group_and_scheduler(make: Any) -> None:
    obj = admitted(make(gang_mode="Gang"))

    group = mark(obj)
    assert group.startswith(f"pg-{obj['kind'].lower()}-{obj['metadata']['name']}-")
    assert template(obj)["metadata"]["annotations"] == {ANNOTATION_MANAGED_GROUP: group}
    assert template(obj)["spec"]["schedulerName"] == "muster-scheduler"
    assert faults(make(gang_mode="Gang")) == []


def test_one_that_asks_for_nothing_is_not_changed() -> None:
    for obj in (deployment(), deployment(gang_mode="Off"), stateful_set(min_count="3")):
        assert admitted(obj) == obj
        assert kind_of(obj).pod_specs(obj) == []


def test_a_label_of_the_users_own_stays() -> None:
    """Its pods request a group themselves, and the annotation has no effect."""
    old = admitted(deployment(gang_mode="Gang"))
    obj = deployment(min_count="2")
    template(obj)["metadata"]["labels"][LABEL_POD_GROUP] = "mine"

    assert admitted(obj) == obj
    assert template(admitted(obj, old)) == template(obj)


def test_no_two_objects_have_one_group() -> None:
    one = admitted(deployment(gang_mode="Gang"), request_uid="1")
    again = admitted(deployment(gang_mode="Gang"), request_uid="2")
    copied = copy.deepcopy(one) | {"metadata": one["metadata"] | {"name": "copy"}}

    assert len({mark(one), mark(again), mark(admitted(copied, request_uid="3"))}) == 3
    assert faults(copied) == []


def test_names_are_label_values_however_long_the_object_s_is() -> None:
    for length in (1, 40, 53, 63, 253):
        obj = admitted(deployment("a" * length, gang_mode="Gang"))
        assert len(mark(obj)) <= 63
    generated = deployment(gang_mode="Gang")
    generated["metadata"] = generated["metadata"] | {"generateName": "web-"}
    del generated["metadata"]["name"]
    assert mark(admitted(generated)).startswith("pg-deployment-web-")


@pytest.mark.parametrize("stored", [True, False])
def test_an_update_keeps_the_group_and_puts_its_marks_back(stored: bool) -> None:
    old = admitted(deployment(gang_mode="Gang"), request_uid="1")
    plain = copy.deepcopy(old) if stored else deployment(gang_mode="Gang")
    plain["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP] = "somebody-s"

    new = admitted(plain, old, request_uid="2")

    assert new == old
    assert admitted(new, old, request_uid="3") == old


@pytest.mark.parametrize(
    ("note", "label", "want"), [("g", "g", "g"), ("g", "h", ""), ("g", "", ""), ("", "g", "")]
)
def test_a_group_is_managed_where_object_and_template_agree(
    note: str, label: str, want: str
) -> None:
    obj = deployment()
    obj["metadata"]["annotations"] = {ANNOTATION_MANAGED_GROUP: note}
    template(obj)["metadata"]["labels"][LABEL_POD_GROUP] = label

    assert mark(obj) == want


@pytest.mark.parametrize(("said", "want"), [(None, 1), (0, 0), (3, 3), (-1, 0), ("3", 1)])
def test_the_replicas_are_those_that_kubernetes_makes(said: Any, want: int) -> None:
    obj = deployment()
    obj["spec"]["replicas"] = said

    assert kind_of(obj).read(obj).pods == want


def test_asking_later_marks_the_pods_and_asking_no_more_takes_the_marks_off() -> None:
    old = deployment()
    asks = admitted(noted(old, gang_mode="Gang"), old)
    off = admitted(noted(asks, gang_mode=None), asks)
    again = admitted(noted(off, gang_mode="Gang"), off, request_uid="later")

    assert mark(asks)
    assert LABEL_POD_GROUP not in template(off)["metadata"]["labels"]
    assert ANNOTATION_MANAGED_GROUP not in template(off)["metadata"]["annotations"]
    assert kind_of(off).read(off).noted == mark(asks), "by it the controller deletes the group"
    assert mark(off) == ""
    assert mark(again) not in ("", mark(asks))


@pytest.mark.parametrize(
    ("obj", "field", "words"),
    [
        (stateful_set(parallel=False, gang_mode="Gang"), MODE, "podManagementPolicy Parallel"),
        (stateful_set(parallel=False, gang_mode="Gang", min_count="2"), MODE, "Policy Parallel"),
        (stateful_set(gang_mode="Composite"), MODE, '"Off", "Basic", "Gang"'),
        (
            deployment(gang_mode="Gang", min_count="0"),
            NOTES.format("min-count"),
            "between 1 and 999999999",
        ),
        (
            deployment(gang_mode="Basic", min_count="2"),
            NOTES.format("min-count"),
            "a group with gang-mode Basic has no minCount",
        ),
        (deployment(gang_mode="Gang", topology="a b"), NOTES.format("topology"), "a b"),
        (
            deployment(gang_mode="Gang", shared_claims="gpu"),
            NOTES.format("shared-claims"),
            "only Jobs and JobSets support this annotation",
        ),
        (
            deployment(gang_mode="Gang", provisioning_request="check-capacity"),
            NOTES.format("provisioning-request"),
            "only Jobs and JobSets support this annotation",
        ),
        (
            given(deployment(gang_mode="Gang"), schedulerName="theirs"),
            "spec.template.spec.schedulerName",
            "remove schedulerName",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(obj: Json, field: str, words: str) -> None:
    ((where, why),) = faults(obj)

    assert where == field
    assert words in why


def test_a_template_that_names_a_group_is_not_given_another() -> None:
    obj = deployment(gang_mode="Gang")
    template(obj)["metadata"]["labels"][LABEL_POD_GROUP] = "mine"
    found = kind_of(obj).admit(obj, Review("CREATE", uid="r")).causes

    assert [cause.field for cause in found] == [MODE]
    assert "names group mine:" in found[0].message


@pytest.mark.parametrize(
    "asks",
    [
        {"parallel": False, "gang_mode": "Gang", "min_count": "1"},
        {"parallel": False, "gang_mode": "Basic", "topology": "rack"},
        {"gang_mode": "Gang", "min_count": "2", "preferred_topology": "rack"},
    ],
)
def test_what_starts_in_any_order_is_served(asks: Json) -> None:
    assert faults(stateful_set(**asks)) == []


def test_a_min_count_beyond_the_replicas_is_worth_a_warning() -> None:
    def warnings(replicas: int) -> list[str]:
        obj = deployment(replicas=replicas, gang_mode="Gang", min_count="3")
        return kind_of(obj).admit(obj, Review("CREATE")).warnings

    assert [warnings(count) for count in (0, 3, 4)] == [[], [], []]
    (said,) = warnings(2)
    assert said.startswith(NOTES.format("min-count"))


@pytest.mark.parametrize(
    ("new", "field"),
    [
        (deployment(gang_mode="Basic"), MODE),
        (deployment(gang_mode="Gang", topology="rack"), NOTES.format("topology")),
        (deployment(gang_mode="Gang", disruption_mode="All"), NOTES.format("disruption-mode")),
        (
            given(deployment(gang_mode="Gang"), priorityClassName="high"),
            "spec.template.spec.priorityClassName",
        ),
        (
            given(deployment(gang_mode="Gang"), preemptionPolicy="Never"),
            "spec.template.spec.preemptionPolicy",
        ),
    ],
)
def test_what_a_group_cannot_change_is_refused_while_it_is_asked_for(new: Json, field: str) -> None:
    old = admitted(deployment(gang_mode="Gang"))
    before = deployment()

    assert [where for where, _ in faults(new, old)] == [field]
    assert faults(new, before) == [], "it had no group"
    assert faults(noted(new, gang_mode="Off"), old) == []


def test_what_may_change_may() -> None:
    old = admitted(deployment(gang_mode="Gang"))

    assert faults(deployment(gang_mode="Gang", min_count="2"), old) == []
    assert faults(deployment(replicas=9, gang_mode="Gang"), old) == []
    assert faults(given(deployment(gang_mode="Gang"), containers=[{"name": "b"}]), old) == []


def test_what_was_stored_wrong_is_not_refused_again() -> None:
    old = stateful_set(parallel=False, gang_mode="Gang")
    new = given(old, containers=[{"name": "b"}])

    assert faults(new, old) == []
    assert [where for where, _ in faults(noted(new, min_count="x"), old)] == [
        NOTES.format("min-count")
    ]


@pytest.mark.parametrize(
    ("asked", "replicas", "rollout", "members", "want"),
    [
        pytest.param(None, 4, Rollout(), 0, 4, id="all of them at the first start"),
        pytest.param(2, 4, Rollout(), 0, 2, id="fewer are enough"),
        pytest.param(6, 4, Rollout(), 0, 4, id="never more than there are to be"),
        pytest.param(None, 4, Rollout(4, 4), 0, 4, id="a status that is ahead of the pods"),
        pytest.param(None, 4, Rollout(5, 1), 1, 1, id="an update takes the first pod into it"),
        pytest.param(None, 4, Rollout(5, 2), 2, 1, id="and the second"),
        pytest.param(None, 4, Rollout(4, 3), 3, 3, id="three of four are in it"),
        pytest.param(None, 4, Rollout(5, 1), 5, 4, id="pods of both templates are in it"),
        pytest.param(None, 4, Rollout(5, 1), 0, 1, id="its pods are not seen yet"),
        pytest.param(2, 4, Rollout(4, 3), 3, 1, id="fewer, in an update"),
        pytest.param(None, 4, Rollout(3, 3), 4, 4, id="a pod that is not counted yet"),
        pytest.param(None, 1_000_000_000, Rollout(), 0, 1_000_000_000, id="any number"),
        pytest.param(None, 2, Rollout(9, 0), 0, 1, id="never less than one"),
    ],
)
def test_the_minimum_never_blocks_an_update(
    asked: int | None, replicas: int, rollout: Rollout, members: int, want: int
) -> None:
    assert minimum(asked, replicas, rollout, members) == want


@pytest.mark.parametrize(
    ("asked", "replicas", "rollout", "members", "want"),
    [
        pytest.param(None, 2, Rollout(), 2, 2, id="no update"),
        pytest.param(None, 4, Rollout(4, 0), 4, 4, id="no new pod yet"),
        pytest.param(None, 4, Rollout(5, 1), 5, 1, id="the first new pod"),
        pytest.param(None, 4, Rollout(5, 2), 5, 2, id="two of them"),
        pytest.param(1, 4, Rollout(5, 2), 5, 1, id="fewer are asked for"),
        pytest.param(None, 4, Rollout(5, 2), 2, 1, id="the old ones are not in the group"),
        pytest.param(None, 2, Rollout(5, 4), 5, 2, id="scaled down meanwhile"),
    ],
)
def test_before_the_first_start_only_pods_of_the_template_of_now_count(
    asked: int | None, replicas: int, rollout: Rollout, members: int, want: int
) -> None:
    assert minimum(asked, replicas, rollout, members, started=False) == want


def test_the_group_says_what_is_asked_and_is_owned() -> None:
    obj = admitted(
        stateful_set(gang_mode="Gang", min_count="3", topology="rack", preemption_delay="5m")
    )
    obj["metadata"]["uid"] = "u"
    view = kind_of(obj).read(given(obj, priorityClassName="high"))

    group = single_group(view, Rollout(), 0)

    assert group["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "disruptionMode": {"single": {}},
        "priorityClassName": "high",
    }
    assert group["metadata"]["name"] == mark(obj)
    assert group["metadata"]["annotations"]["scheduling.muster.dev/preemption-delay"] == "5m"
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["uid"]) == ("apps/v1", "StatefulSet", "u")
    basic = kind_of(obj).read(admitted(stateful_set(gang_mode="Basic")))
    assert single_group(basic, Rollout(), 0)["spec"]["schedulingPolicy"] == {"basic": {}}


@pytest.mark.parametrize(
    "spec",
    [
        None,
        [],
        "x",
        {},
        {"template": None},
        {"template": []},
        {"template": {"metadata": []}},
        {"template": {"metadata": {"labels": 1, "annotations": "x"}, "spec": 3}},
        {"template": {"spec": {"schedulerName": 3}}, "replicas": "many"},
        {"template": {"metadata": {"labels": {LABEL_POD_GROUP: 7}}}, "replicas": True},
        {"replicas": -(10**30), "podManagementPolicy": {}},
    ],
)
@pytest.mark.parametrize("kind", SINGLE_GROUP_KINDS.values())
def test_odd_structures_are_read(spec: Any, kind: Any) -> None:
    """The API server calls admission before it has validated most of the object."""
    notes = {ANNOTATION_GANG_MODE: "Gang", ANNOTATION_MANAGED_GROUP: "g"}
    odd = {"metadata": {"name": "x", "annotations": notes}, "spec": spec}
    for new, old in ((odd, None), (odd, odd), (odd, {}), ({}, odd)):
        for operation in ("CREATE", "UPDATE", "DELETE"):
            kind.admit(new, Review(operation, old, uid="r"))
    assert 0 <= kind.read(odd).pods < 10**12


def of_lws(obj: Json) -> Json:
    """Return the object with the labels of a LeaderWorkerSet's controller."""
    obj["metadata"]["labels"] = {LWS_LABEL_NAME: "serve"}
    return obj


@pytest.mark.parametrize("mode", ["Gang", "Basic", "None of these"])
def test_what_a_leader_worker_set_makes_asks_for_nothing(mode: str) -> None:
    """An annotation would recreate the set's pods, and a rejection would stop the set."""
    asks = of_lws(stateful_set(gang_mode=mode, parallel=False))
    asks["spec"]["template"]["metadata"]["labels"][LABEL_POD_GROUP] = "serve"

    new = kind_of(asks).admit(asks, Review("CREATE", uid="r"))
    later = kind_of(asks).admit(asks, Review("UPDATE", of_lws(stateful_set()), uid="r"))

    assert (new.patch, new.causes, later.patch, later.causes) == ([], [], [], [])
    (told,) = later.warnings
    assert told == (
        f"{MODE}: has no effect: LeaderWorkerSet serve owns these pods. Set the annotation there"
    )
    assert kind_of(asks).pod_specs(asks) == []
    asks["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP] = "serve"
    asks["spec"]["template"]["metadata"]["annotations"] = {ANNOTATION_MANAGED_GROUP: "serve"}
    view = kind_of(asks).read(asks)
    assert not view.options.asks


def test_an_update_of_something_else_of_such_a_set_is_not_told() -> None:
    plain = of_lws(stateful_set())

    assert kind_of(plain).admit(plain, Review("UPDATE", plain)).warnings == []


def test_a_deployment_with_the_label_of_such_a_set_is_a_users() -> None:
    assert mark(admitted(of_lws(deployment(gang_mode="Gang"))))
