"""A Job's admission and objects: annotations, generateName, JobSets' Jobs, elastic minimums."""

import copy
from typing import Any

import jsonpatch
import pytest

from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_MANAGED_GROUP,
    GROUP,
    LABEL_POD_GROUP,
    SCHEDULER_NAME,
)
from api.integration.common.minimum import NO_PODS, CountedPods, GroupPodCounts, Progress
from api.integration.common.owner_kind import Review
from api.integration.common.result import Admission
from api.integration.job.admission import job_admission, job_groups, job_pod_counts
from api.provisioning import consumed
from tests.support.owners import JobBuilder, make_job

Json = dict[str, Any]
FORBIDDEN, INVALID = "FieldValueForbidden", "FieldValueInvalid"


def note(word: str) -> str:
    return f"metadata.annotations[{GROUP}/{word}]"


def admitted(job: Json, old: Json | None = None) -> Json:
    operation = "CREATE" if old is None else "UPDATE"
    admission = job_admission(job, Review(operation, old, uid="r", namespace="default"))
    patched: Json = jsonpatch.apply_patch(job, admission.patch)
    return patched


def marks(job: Json) -> tuple[Any, Any, Any]:
    """Return (annotation, label, scheduler)."""
    template = job["spec"]["template"]
    return (
        job["metadata"].get("annotations", {}).get(ANNOTATION_MANAGED_GROUP),
        template.get("metadata", {}).get("labels", {}).get(LABEL_POD_GROUP),
        template["spec"].get("schedulerName"),
    )


def marked(name: str) -> tuple[str, str, str]:
    return name, name, SCHEDULER_NAME


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(make_job("a").asks(gang_mode="Gang"), marked("pg-job-a"), id="a gang"),
        pytest.param(
            make_job("a").asks(gang_mode="Gang").scheduler("default-scheduler"),
            marked("pg-job-a"),
            id="a gang with the scheduler that the API server fills in",
        ),
        pytest.param(make_job("a"), (None, None, None), id="a Job that asks for nothing"),
        pytest.param(make_job("a").asks(gang_mode="Off"), (None, None, None), id="Off"),
        pytest.param(
            make_job("a").asks(gang_mode="Gang").in_group("mine"),
            (None, "mine", None),
            id="a Job whose pods name a group already",
        ),
        pytest.param(
            make_job("b").asks(gang_mode="Gang").managed("pg-job-a"),
            marked("pg-job-b"),
            id="a copy of another Job gets a group of its own",
        ),
        pytest.param(
            make_job("a").of_jobset("s", "r", 1, "JobSet"), marked("pg-s"), id="of a JobSet's gang"
        ),
        pytest.param(
            make_job("a").of_jobset("s", "r", 1, "ReplicatedJob").asks(gang_mode="Gang"),
            marked("pg-s-r"),
            id="of a replicatedJob's gang",
        ),
        pytest.param(
            make_job("a").of_jobset("s", "r", 1, "Job").asks(gang_mode="ReplicatedGang"),
            marked("pg-s-r-1"),
            id="of a gang for each Job",
        ),
        pytest.param(
            make_job("a").of_jobset("s", "", 1, "ReplicatedJob"),
            (None, None, None),
            id="of a JobSet, with labels that name no group",
        ),
        pytest.param(
            make_job("a").of_jobset("s", "r", 1).asks(gang_mode="Gang"),
            (None, None, None),
            id="of a JobSet that was never marked",
        ),
    ],
)
def test_marks(job: JobBuilder, want: tuple[Any, Any, Any]) -> None:
    assert marks(admitted(job.build())) == want
    assert job_admission(job.build(), Review("CREATE", namespace="default")).causes == []


def test_a_job_without_a_name_is_named_by_its_request() -> None:
    job = make_job(generate_name="train-").asks(gang_mode="Gang").build()

    created = admitted(job)
    created["metadata"]["name"] = "train-x7k2p"

    assert marks(created) == marked("pg-job-train-454349e422")
    assert job_admission(created, Review("CREATE", uid="another")).patch == []
    assert [obj["metadata"]["name"] for obj in job_groups(created)] == [
        "w-job-train-x7k2p",
        "pg-job-train-454349e422",
    ]


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(
            make_job().asks(gang_mode="ReplicatedGang"),
            [(note("gang-mode"), "FieldValueNotSupported")],
            id="a replicatedJob's mode",
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang", min_count="0"),
            [(note("min-count"), INVALID)],
            id="zero",
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang", min_count="5").pods(4),
            [(note("min-count"), INVALID)],
            id="a minimum above the pods",
        ),
        pytest.param(
            make_job().asks(gang_mode="Basic", min_count="1").pods(4),
            [(note("min-count"), FORBIDDEN)],
            id="a minimum of a Basic group",
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang").scheduler("other"),
            [("spec.template.spec.schedulerName", INVALID)],
            id="a third scheduler",
        ),
    ],
)
def test_creation_refused(job: JobBuilder, want: list[tuple[str, str]]) -> None:
    causes = job_admission(job.build(), Review("CREATE")).causes

    assert [(cause.field, cause.reason) for cause in causes] == want


@pytest.mark.parametrize(
    ("new", "want"),
    [
        pytest.param(make_job().asks(gang_mode="Gang").pods(4), [], id="nothing"),
        pytest.param(make_job().asks(gang_mode="Gang").pods(8), [], id="parallelism"),
        pytest.param(
            make_job().asks(gang_mode="Gang", min_count="2").pods(4), [], id="the minimum"
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang", min_count="5").pods(4),
            [(note("min-count"), INVALID)],
            id="a minimum above the pods",
        ),
        pytest.param(
            make_job().asks(gang_mode="Basic").pods(4),
            [(note("gang-mode"), INVALID)],
            id="the mode",
        ),
        pytest.param(make_job().pods(4), [(note("gang-mode"), INVALID)], id="the mode unset"),
        pytest.param(
            make_job().asks(gang_mode="Gang", topology="a").pods(4),
            [(note("topology"), INVALID)],
            id="a topology set later",
        ),
    ],
)
def test_update(new: JobBuilder, want: list[tuple[str, str]]) -> None:
    stored = admitted(make_job().asks(gang_mode="Gang").pods(4).build())

    admission = job_admission(new.build(), Review("UPDATE", stored))

    assert [(cause.field, cause.reason) for cause in admission.causes] == want


def test_a_deletion_is_not_changed() -> None:
    stored = admitted(make_job().asks(gang_mode="Gang").build())

    assert job_admission(stored, Review("DELETE", stored)) == Admission()


def test_a_gang_mode_beside_a_group_of_the_user_s_is_worth_a_warning() -> None:
    job = make_job().asks(gang_mode="Gang").in_group("mine").build()

    (warning,) = job_admission(job, Review("CREATE")).warnings

    assert "already names a group" in warning


NATIVE: Json = {"schedulingPolicy": {"gang": {}}}


@pytest.mark.parametrize(
    ("job", "native", "why"),
    [
        pytest.param(
            make_job().asks(gang_mode="Gang"),
            NATIVE,
            f"annotation {ANNOTATION_GANG_MODE}",
            id="mode",
        ),
        pytest.param(
            make_job().in_group("mine").scheduler(SCHEDULER_NAME),
            NATIVE,
            f"label {LABEL_POD_GROUP} of the pod template",
            id="a group by its label",
        ),
        pytest.param(make_job().in_group("mine"), NATIVE, "", id="pods of another scheduler"),
        pytest.param(make_job(), NATIVE, "", id="no group of Muster"),
        pytest.param(make_job().asks(gang_mode="Gang"), {}, "", id="an empty field"),
        pytest.param(make_job().asks(gang_mode="Gang"), "x", "", id="a field of another type"),
    ],
)
def test_the_native_group_of_a_job_beside_one_of_muster_s_is_worth_a_warning(
    job: JobBuilder, native: Any, why: str
) -> None:
    new = job.build()
    new["spec"]["scheduling"] = native

    said = job_admission(new, Review("CREATE"))
    validated = job_admission(jsonpatch.apply_patch(new, said.patch), Review("CREATE"))

    text = f"spec.scheduling: has no effect, because {why} puts the pods into a group of Muster"
    for admission in (said, validated):
        found = [it for it in admission.warnings if it.startswith("spec.scheduling")]
        assert [it.partition(": remove")[0] for it in found] == ([text] if why else [])


def test_applying_the_unchanged_manifest_changes_nothing() -> None:
    manifest = make_job().asks(gang_mode="Gang").build()
    stored = admitted(manifest)

    assert admitted(manifest, stored) == stored


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(make_job().pods(4), 4, id="parallelism"),
        pytest.param(make_job(), 1, id="parallelism unset"),
        pytest.param(make_job().pods(4, 3), 3, id="fewer completions"),
        pytest.param(make_job().pods(4).asks(min_count="2"), 2, id="an explicit minimum"),
        pytest.param(make_job().pods(4, 4).asks(min_count="5"), 4, id="more than can come"),
    ],
)
def test_the_minimum_at_the_start(job: JobBuilder, want: int) -> None:
    workload, group = job_groups(job.asks(gang_mode="Gang").managed("pg-job-train").build())

    (template,) = workload["spec"]["podGroupTemplates"]
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": want}}
    assert template["schedulingPolicy"] == group["spec"]["schedulingPolicy"]


@pytest.mark.parametrize(
    ("job", "progress", "pods", "want"),
    [
        (make_job(), Progress(), NO_PODS, GroupPodCounts(1, 1, 1)),
        (make_job().pods(0), Progress(), NO_PODS, GroupPodCounts(0, 0, 0)),
        (make_job().pods(4, 8), Progress(6), CountedPods(1, 1), GroupPodCounts(4, 3, 2)),
        (make_job().pods(4), Progress(1), CountedPods(2), GroupPodCounts(4, 2, 2)),
    ],
)
def test_the_standing_of_its_group(
    job: JobBuilder, progress: Progress, pods: CountedPods, want: GroupPodCounts
) -> None:
    assert job_pod_counts(job.build(), progress, pods) == want


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(make_job().asks(gang_mode="Gang"), id="not marked"),
        pytest.param(
            make_job().asks(gang_mode="Gang").in_group("g"), id="label without annotation"
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang", managed_group="g"), id="annotation without label"
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang", managed_group="g").in_group("h"), id="they disagree"
        ),
        pytest.param(
            make_job().of_jobset("s", "r", 0, "Job").asks(gang_mode="Gang").managed("pg-s-r-0"),
            id="its JobSet makes the groups",
        ),
        pytest.param(make_job().managed("g"), id="marks without a mode"),
        pytest.param(make_job().asks(gang_mode="Gang").managed("g").pods(0), id="no parallelism"),
        pytest.param(make_job().asks(gang_mode="Gang").managed("g").pods(2, 0), id="nothing to do"),
    ],
)
def test_no_objects(job: JobBuilder) -> None:
    assert job_groups(job.build()) == []


def test_a_basic_job_has_a_group_without_a_minimum() -> None:
    workload, group = job_groups(make_job("a").asks(gang_mode="Basic").managed("pg-job-a").build())

    assert workload["spec"]["podGroupTemplates"][0]["schedulingPolicy"] == {"basic": {}}
    assert group["spec"]["schedulingPolicy"] == {"basic": {}}


@pytest.mark.parametrize(
    "job",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": {"annotations": 3, "labels": []}, "spec": []}, id="wrong types"),
        pytest.param({"spec": {"template": {"metadata": 3, "spec": 4}}}, id="a broken template"),
    ],
)
def test_any_structure_is_accepted(job: Json) -> None:
    assert job_admission(job, Review("UPDATE", job)).patch == []
    assert job_admission(job, Review("CREATE")).patch == []
    assert job_groups(job) == []


def test_the_pods_know_that_muster_named_their_group() -> None:
    made = admitted(make_job("a").asks(gang_mode="Gang").build())
    mine = admitted(make_job("a").asks(gang_mode="Gang").in_group("mine").build())

    noted = made["spec"]["template"]["metadata"]
    assert noted["annotations"] == {ANNOTATION_MANAGED_GROUP: "pg-job-a"}
    assert noted["labels"] == {LABEL_POD_GROUP: "pg-job-a"}
    assert "annotations" not in mine["spec"]["template"]["metadata"]


def test_a_job_without_that_note_on_its_pods_stays_as_it_is() -> None:
    """An earlier version of Muster created it, and pod templates are immutable."""
    old = admitted(make_job("a").asks(gang_mode="Gang").build())
    del old["spec"]["template"]["metadata"]["annotations"]

    assert job_admission(old, Review("UPDATE", old)).patch == []


@pytest.mark.parametrize(
    ("annotation", "label", "want"),
    [
        pytest.param("pg-job-a", "pg-job-a", [], id="both as they were"),
        pytest.param(None, None, [], id="the manifest from before admission"),
        pytest.param(None, "pg-job-a", [note("managed-group")], id="the annotation taken off"),
        pytest.param("b", "pg-job-a", [note("managed-group")], id="another annotation"),
        pytest.param(
            "pg-job-a",
            None,
            [f"spec.template.metadata.labels[{LABEL_POD_GROUP}]"],
            id="the label taken off",
        ),
        pytest.param(
            "b",
            "b",
            [note("managed-group"), f"spec.template.metadata.labels[{LABEL_POD_GROUP}]"],
            id="another group",
        ),
    ],
)
def test_a_change_of_the_group_is_undone_and_said(
    annotation: str | None, label: str | None, want: list[str]
) -> None:
    stored = admitted(make_job("a").asks(gang_mode="Gang").build())
    new = copy.deepcopy(stored)
    for holder, key, value in (
        (new["metadata"]["annotations"], ANNOTATION_MANAGED_GROUP, annotation),
        (new["spec"]["template"]["metadata"]["labels"], LABEL_POD_GROUP, label),
    ):
        del holder[key]
        holder.update({key: value} if value else {})

    admission = job_admission(new, Review("UPDATE", stored))

    assert jsonpatch.apply_patch(new, admission.patch) == stored
    assert admission.causes == []
    assert [warning.partition(": ")[0] for warning in admission.warnings] == want


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(
            make_job().asks(gang_mode="Gang").in_group("Bad_Group"),
            [f"spec.template.metadata.labels[{LABEL_POD_GROUP}]"],
            id="by our label",
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang").in_group("Bad_Group").scheduler("other"),
            [],
            id="by our label for another scheduler",
        ),
        pytest.param(
            make_job().asks(gang_mode="Off").labelled({"scheduling.x-k8s.io/pod-group": "B_d"}),
            [],
            id="by another's label, which is another scheduler's word",
        ),
        pytest.param(
            make_job()
            .asks(gang_mode="Off")
            .labelled({"scheduling.x-k8s.io/pod-group": "B_d"})
            .scheduler(SCHEDULER_NAME),
            ["spec.template.metadata.labels[scheduling.x-k8s.io/pod-group]"],
            id="by another's label for our scheduler",
        ),
        pytest.param(
            make_job().labelled({LABEL_POD_GROUP: "a", f"{GROUP}/workload": "w"}),
            [],
            id="half a reference beside a whole one",
        ),
        pytest.param(
            make_job().labelled(
                {LABEL_POD_GROUP: "a", f"{GROUP}/workload": "w", f"{GROUP}/template": "t"}
            ),
            [f"spec.template.metadata.labels[{GROUP}/workload]"],
            id="two groups",
        ),
    ],
)
def test_a_template_whose_pods_would_all_be_refused(job: JobBuilder, want: list[str]) -> None:
    causes = job_admission(job.build(), Review("CREATE")).causes

    assert [(cause.field, cause.reason) for cause in causes] == [(path, INVALID) for path in want]


def test_a_job_that_has_such_a_template_already_can_be_changed() -> None:
    job = make_job().asks(gang_mode="Gang").in_group("Bad_Group").build()

    assert job_admission(job, Review("UPDATE", job)).causes == []


@pytest.mark.parametrize("count", ["1000000000", "0", "-1", "1.5", "many", ""])
def test_a_minimum_that_is_none_is_told_what_there_may_be(count: str) -> None:
    job = make_job().asks(gang_mode="Gang", min_count=count).build()

    [fault] = job_admission(job, Review("CREATE")).causes

    assert fault.message.endswith(": must be an integer between 1 and 999999999, inclusive")


ATOMIC = "best-effort-atomic-scale-up"
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"


def pod_notes(job: Json) -> Json:
    notes: Json = job["spec"]["template"].get("metadata", {}).get("annotations", {})
    return {key: value for key, value in notes.items() if key != ANNOTATION_MANAGED_GROUP}


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(make_job("a").asks(gang_mode="Gang"), {}, id="nothing asked"),
        pytest.param(
            make_job("a").asks(gang_mode="Gang", provisioning_request=ATOMIC),
            consumed("pg-job-a", ATOMIC),
            id="a gang that asks",
        ),
        pytest.param(make_job("a").asks(provisioning_request=ATOMIC), {}, id="no gang"),
        pytest.param(
            make_job("a").of_jobset("s", "r", 1, "Job").asks(provisioning_request=ATOMIC),
            consumed("pg-s-r-1", ATOMIC),
            id="a gang for each Job of a replicatedJob",
        ),
        pytest.param(
            make_job("a").of_jobset("s", "r", 1, "ReplicatedJob").asks(provisioning_request=ATOMIC),
            consumed("pg-s-r", ATOMIC),
            id="a gang of a replicatedJob",
        ),
        pytest.param(
            make_job("a")
            .of_jobset("s", "r", 1, "Job")
            .asks(jobset_options=f"provisioning-request={ATOMIC}"),
            consumed("cpg-s", ATOMIC),
            id="a JobSet's tree",
        ),
        pytest.param(
            make_job("a")
            .of_jobset("s", "r", 1, "JobSet")
            .asks(jobset_options=f"provisioning-request={ATOMIC}"),
            consumed("pg-s", ATOMIC),
            id="a JobSet's gang",
        ),
        pytest.param(
            make_job("a")
            .of_jobset("s", "r", 1, "Job")
            .asks(jobset_options="provisioning-request=odd"),
            {},
            id="a mark of nobody",
        ),
    ],
)
def test_pods_say_from_the_start_which_request_stands_for_them(job: JobBuilder, want: Json) -> None:
    created = admitted(job.build())

    assert pod_notes(created) == want
    assert pod_notes(admitted(job.build(), created)) == want
    assert job_admission(created, Review("CREATE", namespace="default")).causes == []


def test_a_job_that_asks_later_is_refused() -> None:
    old = admitted(make_job("a").asks(gang_mode="Gang").build())
    new = copy.deepcopy(old)
    new["metadata"]["annotations"][f"{GROUP}/provisioning-request"] = ATOMIC

    (cause,) = job_admission(new, Review("UPDATE", old)).causes

    assert (cause.field, cause.reason) == (note("provisioning-request"), INVALID)


@pytest.mark.parametrize(
    ("word", "value", "reason"),
    [
        ("provisioning-request", "soon", "FieldValueNotSupported"),
        ("preemption-delay", "soon", INVALID),
        ("min-run-time", "for ever", INVALID),
        ("start-timeout", "soon", INVALID),
        ("start-timeout", "0s", INVALID),
        ("start-timeout", "-5m", INVALID),
        ("start-timeout", "1000000h", INVALID),
        ("eviction-cost", "+1", INVALID),
        ("movable", "yes", INVALID),
    ],
)
def test_what_a_root_cannot_say_is_refused_on_its_job(word: str, value: str, reason: str) -> None:
    job = make_job("a").asks(gang_mode="Gang", **{word.replace("-", "_"): value}).build()

    (cause,) = job_admission(job, Review("CREATE", namespace="default")).causes

    assert (cause.field, cause.reason) == (note(word), reason)


def test_pods_that_another_request_stands_for() -> None:
    job = make_job("a").asks(gang_mode="Gang", provisioning_request=ATOMIC).build()
    job["spec"]["template"]["metadata"] = {"annotations": {CONSUMES: "mine"}}

    admission = job_admission(job, Review("CREATE", namespace="default"))

    (cause,) = admission.causes
    assert (cause.field, cause.reason) == (
        f"spec.template.metadata.annotations[{CONSUMES}]",
        INVALID,
    )
    patched = jsonpatch.apply_patch(job, admission.patch)
    assert pod_notes(patched)[CONSUMES] == "mine"


@pytest.mark.parametrize(
    ("asks", "want"),
    [({"provisioning_request": ATOMIC}, consumed("pg-job-b", ATOMIC)), ({}, {})],
    ids=["asks", "does not ask"],
)
def test_a_copy_of_a_job_has_a_request_of_its_own(asks: Json, want: Json) -> None:
    first = make_job("a").asks(gang_mode="Gang", provisioning_request=ATOMIC).build()
    template = copy.deepcopy(admitted(first)["spec"]["template"])
    second = make_job("b").managed("pg-job-a").asks(gang_mode="Gang", **asks).build()
    second["spec"]["template"] = template

    created = admitted(second)

    assert pod_notes(created) == want
    assert marks(created) == marked("pg-job-b")
    assert job_admission(second, Review("CREATE", namespace="default")).causes == []
    assert job_admission(created, Review("CREATE", namespace="default")).causes == []
