"""Pods through the complete review: their scheduler, and the one group they name."""

from typing import Any

import pytest

from api.names import implicit_pod_group
from tests.webhooks.review_requests import POD, FakeLister, Read, encoded, pod, read, review_of
from webhooks.routing.reviewer import Reviewer

OURS = "muster-scheduler"
LABEL = "scheduling.muster.dev/pod-group"
WORKLOAD = "scheduling.muster.dev/workload"
TEMPLATE = "scheduling.muster.dev/template"
REPLICA = "scheduling.muster.dev/replica-key"
KEYED = implicit_pod_group("w", "t", "k")
PLUGINS = "scheduling.x-k8s.io/pod-group"
API = "scheduling.muster.dev/groups-api"
SUBSET = "scheduling.muster.dev/subset"


def ask(
    phase: str,
    new: dict[str, Any] | None,
    old: dict[str, Any] | None = None,
    lister: FakeLister | None = None,
    route: str = "pods",
) -> Read:
    review = review_of(POD, new, old)
    answer = Reviewer(lister or FakeLister()).review(f"{phase}/{route}", encoded(review))
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
            pod(labels={WORKLOAD: "w", TEMPLATE: "t"}), OURS, id="by workload and template"
        ),
        pytest.param(
            pod(labels={LABEL: "g"}, scheduler="volcano"), "volcano", id="another scheduler stays"
        ),
        pytest.param(
            pod(labels={WORKLOAD: "w"}, scheduler="default-scheduler"),
            OURS,
            id="a workload without a template is Muster's to reject",
        ),
    ],
)
def test_who_schedules_a_new_pod(made: dict[str, Any], want: str) -> None:
    answer = ask("mutate", made)

    assert answer.allowed
    assert answer.result is not None
    assert answer.result["spec"]["schedulerName"] == want


@pytest.mark.parametrize(
    ("labels", "notes", "spec", "want"),
    [
        pytest.param({LABEL: "g"}, {API: "native"}, {}, "g", id="as admission said"),
        pytest.param({LABEL: "g"}, {}, {}, None, id="a group of Muster"),
        pytest.param({}, {API: "native"}, {}, None, id="no group"),
        pytest.param({WORKLOAD: "w", TEMPLATE: "t"}, {API: "native"}, {}, None, id="a template"),
        pytest.param(
            {LABEL: "g"}, {API: "native"}, {"schedulingGroup": {"podGroupName": "mine"}}, "mine",
            id="its user named one",
        ),
        pytest.param({LABEL: "g"}, {API: "native"}, {"schedulerName": "other"}, None, id="other"),
    ],
)  # fmt: skip
def test_a_pod_of_a_native_group_names_it(
    labels: dict[str, str], notes: dict[str, str], spec: dict[str, Any], want: str | None
) -> None:
    made = pod(labels=labels, scheduler=OURS)
    made["metadata"]["annotations"] = notes
    made["spec"] |= spec

    answer = ask("mutate", made)

    assert answer.allowed
    assert ((answer.result or made)["spec"].get("schedulingGroup") or {}).get(
        "podGroupName"
    ) == want


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"schedulingGroup": {"podGroupName": "g"}}, id="the field of 1.36"),
        pytest.param({"workloadRef": {"name": "w", "podGroup": "t"}}, id="the field of 1.35"),
        pytest.param({"labels": {PLUGINS: "g"}}, id="the label of scheduler-plugins"),
    ],
)
def test_the_words_of_other_schedulers_count_only_where_the_namespace_opts_in(
    said: dict[str, Any],
) -> None:
    made = pod(scheduler="default-scheduler", **said)
    elsewhere = pod(scheduler="volcano", **said)

    assert ask("mutate", made).result == made
    opted_in = ask("mutate", made, route="foreign-pods").result
    assert opted_in is not None
    assert opted_in["spec"]["schedulerName"] == OURS
    assert ask("mutate", elsewhere, route="foreign-pods").result == elsewhere


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
            pod(labels={LABEL: KEYED, WORKLOAD: "w", TEMPLATE: "t", REPLICA: "k"}),
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


@pytest.mark.parametrize("kind", ["Job", "ReplicaSet"])
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_the_field_that_the_job_controller_adds_is_no_second_group(
    kind: str, operation: str
) -> None:
    """With the gate WorkloadWithJob, the Job controller sets it on the pods of any Job."""
    field = {"podGroupName": "job-abc"}
    made = pod(labels={LABEL: "mine"}, scheduler="muster-scheduler", schedulingGroup=field)
    owner = {"apiVersion": "batch/v1", "kind": kind, "name": "j", "uid": "u", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    old = made if operation == "UPDATE" else None

    assert ask("validate", made, old=old).allowed is (kind == "Job" or operation == "UPDATE")


@pytest.mark.parametrize(
    ("labels", "path"),
    [
        pytest.param({LABEL: "Bad_Group"}, LABEL, id="by the label"),
        pytest.param({PLUGINS: "a..b"}, PLUGINS, id="by the label of scheduler-plugins"),
    ],
)
def test_a_name_that_no_group_can_have_is_refused(labels: dict[str, str], path: str) -> None:
    answer = ask("validate", pod(labels=labels, scheduler=OURS))

    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.faults == [(f"metadata.labels[{path}]", "FieldValueInvalid")]
    assert "no PodGroup can have this name" in answer.message


FIELD = "spec.workloadRef"


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(
            pod(labels={WORKLOAD: "w", TEMPLATE: "T"}),
            [f"metadata.labels[{TEMPLATE}]"],
            id="a template",
        ),
        pytest.param(
            pod(labels={WORKLOAD: "w", TEMPLATE: "a.b"}),
            [f"metadata.labels[{TEMPLATE}]"],
            id="a template of two parts, which no Workload can have",
        ),
        pytest.param(
            pod(labels={WORKLOAD: "W", TEMPLATE: "t", REPLICA: "a_b"}),
            [f"metadata.labels[{WORKLOAD}]", f"metadata.labels[{REPLICA}]"],
            id="a Workload and a key",
        ),
        pytest.param(
            pod(workloadRef={"name": "w", "podGroup": "a.b", "podGroupReplicaKey": "K"}),
            [f"{FIELD}.podGroup", f"{FIELD}.podGroupReplicaKey"],
            id="by the field of 1.35",
        ),
        pytest.param(
            pod(labels={WORKLOAD: "w.x", TEMPLATE: "t", REPLICA: "0"}), [], id="what is right"
        ),
        pytest.param(
            pod(labels={LABEL: "a", WORKLOAD: "a", TEMPLATE: "B"}),
            [f"metadata.labels[{WORKLOAD}]"],
            id="beside another group: it is one too many, whatever it is called",
        ),
        pytest.param(
            pod(workloadRef={"name": "w" * 200, "podGroup": "t" * 60}),
            [],
            id="long names: that of the group is shortened",
        ),
    ],
)
def test_the_parts_of_a_reference_are_names_as_kep_4671_wants_them(
    made: dict[str, Any], want: list[str]
) -> None:
    made["spec"]["schedulerName"] = OURS

    assert ask("validate", made).faults == [(path, "FieldValueInvalid") for path in want]


def claiming(labels: dict[str, str], *entries: Any, scheduler: str = OURS) -> dict[str, Any]:
    made = pod(labels=labels, scheduler=scheduler)
    made["spec"]["resourceClaims"] = list(entries)
    return made


IMEX = {"name": "imex", "resourceClaimTemplateName": "channel"}
IMEX_OF_WORKLOAD = {
    "spec": {"podGroupTemplates": [{"name": "t", "resourceClaims": [IMEX]}, {"name": "u"}]}
}


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(claiming({LABEL: "g"}, IMEX), "g.imex", id="the group's template"),
        pytest.param(
            claiming({LABEL: "g"}, {"name": "imex", "resourceClaimName": "g.imex"}),
            None,
            id="the group's claim",
        ),
        pytest.param(
            claiming({LABEL: "g"}, IMEX | {"name": "own"}),
            None,
            id="a claim of its own from that template, under another name",
        ),
        pytest.param(
            claiming({LABEL: "g"}, IMEX | {"resourceClaimTemplateName": "other"}),
            None,
            id="another template",
        ),
        pytest.param(claiming({LABEL: "later"}, IMEX), None, id="a group that is not there yet"),
        pytest.param(claiming({}, IMEX), None, id="no group"),
        pytest.param(
            claiming({LABEL: "g"}, IMEX, scheduler="volcano"), None, id="another scheduler's pod"
        ),
        pytest.param(
            claiming({WORKLOAD: "w", TEMPLATE: "t", REPLICA: "k"}, IMEX),
            f"{KEYED}.imex",
            id="a group that its first pod lets be made, by a replica key",
        ),
        pytest.param(
            claiming({WORKLOAD: "w", TEMPLATE: "u"}, IMEX), None, id="a template without claims"
        ),
        pytest.param(claiming({WORKLOAD: "v", TEMPLATE: "t"}, IMEX), None, id="no Workload yet"),
        pytest.param(
            claiming({LABEL: "g"}, 3, None, {"name": []}, {"resourceClaimTemplateName": {}}),
            None,
            id="other types",
        ),
    ],
)
def test_a_pod_that_names_its_groups_template_is_told_the_claims_name(
    made: dict[str, Any], want: str | None
) -> None:
    lister = FakeLister(claims={("team", "g"): {"imex": "channel"}})
    lister.workloads["team", "w"] = IMEX_OF_WORKLOAD

    answer = ask("validate", made, lister=lister)

    if want is None:
        assert not [it for it in answer.causes if "resourceClaims" in it["field"]]
        return
    (cause,) = answer.causes
    assert cause["field"] == "spec.resourceClaims[0].resourceClaimTemplateName"
    assert f"use resourceClaimName {want} instead." in cause["message"]
    assert cause["message"].endswith("scheduling.muster.dev/shared-claims: imex, admission sets it")


def test_pods_of_other_schedulers_are_not_validated() -> None:
    going = FakeLister(deleting_groups={("team", "a"): ()})

    answer = ask("validate", pod(labels={LABEL: "a", PLUGINS: "b"}, scheduler="x"), lister=going)

    assert answer.allowed


def test_no_pod_comes_into_a_group_that_is_being_deleted() -> None:
    going = FakeLister(deleting_groups={("team", "a"): ()})
    member = pod(labels={LABEL: "a"}, scheduler=OURS)

    refused = ask("validate", member, lister=going)

    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.faults == [(f"metadata.labels[{LABEL}]", "FieldValueForbidden")]
    assert "is being deleted" in refused.message
    assert ask("validate", pod(labels={LABEL: "b"}, scheduler=OURS), lister=going).allowed
    assert ask("validate", member, member, lister=going).allowed


@pytest.mark.parametrize("native", [False, True])
def test_the_field_names_no_group_of_musters_where_kubernetes_serves_groups(native: bool) -> None:
    """A group of Muster's of the same name costs pods of the native group nothing."""
    lister = FakeLister(
        deleting_groups={("team", "a"): ()}, claims={("team", "a"): {"gpu": "t"}}, native=native
    )
    claims = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    field = {"podGroupName": "a"}
    member = pod(scheduler=OURS, schedulingGroup=field, resourceClaims=claims)

    assert ask("validate", member, lister=lister).allowed is native

    both = pod(labels={PLUGINS: "b"}, scheduler=OURS, schedulingGroup=field)
    wrong = ask("validate", both, lister=lister)
    label = (f"metadata.labels[{PLUGINS}]", "FieldValueInvalid")
    assert label in wrong.faults


MANAGED = "scheduling.muster.dev/managed-group"
JOBSET = "jobset.sigs.k8s.io/jobset-name"
JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"


def member_of(job: str, jobset: str = "") -> dict[str, Any]:
    """Return a pod of a Job with this UID; Muster named its group."""
    labels = {LABEL: "g"} | ({JOBSET: "s", JOBSET_UID: jobset} if jobset else {})
    made = pod(labels=labels, scheduler=OURS)
    made["metadata"]["annotations"] = {MANAGED: "g"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "t", "controller": True}
    made["metadata"]["ownerReferences"] = [{"kind": "ConfigMap"}, owner | {"uid": job}]
    return made


@pytest.mark.parametrize(
    ("made", "allowed"),
    [
        pytest.param(member_of("first"), False, id="of the Job it was made for"),
        pytest.param(member_of("second"), True, id="of the next Job of the name"),
        pytest.param(member_of("other", "first"), False, id="of the JobSet it was made for"),
        pytest.param(member_of("other", "second"), True, id="of the next JobSet of the name"),
        pytest.param(pod(labels={LABEL: "g"}, scheduler=OURS), False, id="its user named it"),
        pytest.param(
            pod(labels={WORKLOAD: "first", TEMPLATE: "t"}, scheduler=OURS), True, id="elsewhere"
        ),
        pytest.param(
            pod(labels={PLUGINS: "g"}, scheduler=OURS), False, id="it knows the owner by name only"
        ),
    ],
)
def test_a_group_that_goes_refuses_its_own_members_alone(
    made: dict[str, Any], allowed: bool
) -> None:
    """Those of a later owner wait for the group that it gets: a rejection would only delay them."""
    going = FakeLister(deleting_groups={("team", "g"): ("first", "JobSet/s")})

    assert ask("validate", made, lister=going).allowed is allowed


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


@pytest.mark.parametrize(
    ("labels", "group", "said"),
    [
        pytest.param({PLUGINS: "g"}, "g", "PodGroup 'g'", id="of a KEP-3370 group"),
        pytest.param({WORKLOAD: "w", TEMPLATE: "t"}, "w-t", "Workload 'w'", id="of a template"),
        pytest.param({LABEL: "g"}, "g", None, id="named by its own name"),
    ],
)
def test_a_pod_that_will_be_held_is_told_why(
    labels: dict[str, str], group: str, said: str | None
) -> None:
    lister = FakeLister(foreign_groups={("PodGroup", group)})
    made = pod(labels=labels, scheduler=OURS)

    answer = ask("validate", made, lister=lister)

    assert answer.allowed
    assert ask("validate", made).warnings == []
    if said is None:
        assert answer.warnings == []
    else:
        (warning,) = answer.warnings
        assert f"was not created for {said}, and the pod waits until it is deleted" in warning


@pytest.mark.parametrize(
    ("labels", "missing"),
    [
        ({WORKLOAD: "w"}, TEMPLATE),
        ({TEMPLATE: "t"}, WORKLOAD),
        ({WORKLOAD: "w", TEMPLATE: ""}, TEMPLATE),
        ({"scheduling.muster.dev/replica-key": "1"}, WORKLOAD),
        ({WORKLOAD: "w", TEMPLATE: "t"}, None),
        ({WORKLOAD: "w", LABEL: "g"}, None),
        ({"app": "w"}, None),
    ],
)
def test_a_pod_that_names_a_group_only_in_part_is_rejected(
    labels: dict[str, str], missing: str | None
) -> None:
    """No scheduler would start such a pod with its group (KEP-4671)."""
    chosen = ask("mutate", pod(labels=labels))
    answer = ask("validate", pod(labels=labels, scheduler=OURS))

    assert chosen.result is not None
    assert ("schedulerName" in chosen.result["spec"]) is (labels != {"app": "w"})
    assert [cause["field"] for cause in answer.causes] == (
        [f"metadata.labels[{missing}]"] if missing else []
    )
    assert all("names a group only with label" in cause["message"] for cause in answer.causes)


MIN_COUNT = "scheduling.muster.dev/min-count"
GROUP_BY = "scheduling.muster.dev/group-by"


def noted(annotations: dict[str, str], **labels: str) -> dict[str, Any]:
    made = pod(labels={LABEL: "g"} | labels, scheduler=OURS)
    made["metadata"]["annotations"] = annotations
    return made


def test_what_a_pod_says_of_its_group_is_checked_with_its_names() -> None:
    answer = ask("validate", noted({MIN_COUNT: "few", GROUP_BY: "index"}))

    assert not answer.allowed
    assert [cause["field"] for cause in answer.causes] == [
        f"metadata.annotations[{MIN_COUNT}]",
        "metadata.labels[index]",
    ]


def test_what_has_no_effect_on_a_group_is_told() -> None:
    answer = ask("validate", noted({"scheduling.muster.dev/topology": "rack"}))

    assert answer.allowed
    assert answer.warnings[0].startswith("metadata.annotations[scheduling.muster.dev/topology]: ")


def test_the_label_that_divides_a_group_is_as_fixed_as_its_name() -> None:
    before = noted({GROUP_BY: "index"}, index="0")

    assert ask("validate", noted({GROUP_BY: "index"}, index="0"), before).allowed
    for moved in (noted({GROUP_BY: "index"}, index="1"), noted({}, index="0")):
        answer = ask("validate", moved, before)
        assert not answer.allowed
        assert answer.causes[0]["field"] == f"metadata.labels[{LABEL}]"


@pytest.mark.parametrize("owned", [False, True])
def test_an_unknown_key_of_ours_is_said_of_a_bare_pod(owned: bool) -> None:
    made = pod(labels={LABEL: "g"}, scheduler=OURS)
    made["metadata"]["annotations"] = {"scheduling.muster.dev/min-cuont": "2"}
    if owned:
        made["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "j", "uid": "u"}]

    said = [it for it in ask("validate", made).warnings if ": has no effect: " in it]

    assert len(said) == (not owned)
