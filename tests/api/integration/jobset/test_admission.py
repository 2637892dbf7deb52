"""A JobSet's admission: its annotations, invalid options, and immutable fields."""

from typing import Any

import jsonpatch
import pytest

from api.constants import (
    ANNOTATION_GROUP_SCOPE,
    GROUP,
    LABEL_POD_GROUP,
    MAX_JOBS,
    MAX_REPLICATED_JOBS,
)
from api.integration.common.minimum import NO_PODS
from api.integration.common.owner_kind import Review
from api.integration.jobset.admission import jobset_admission, jobset_groups, jobset_pod_counts
from tests.support.owners import JobBuilder, JobSetBuilder, job_template, make_jobset

Json = dict[str, Any]
FORBIDDEN, INVALID = "FieldValueForbidden", "FieldValueInvalid"
NOT_SUPPORTED, TOO_MANY = "FieldValueNotSupported", "FieldValueTooMany"


def note(word: str, holder: str = "") -> str:
    return f"{holder}metadata.annotations[{GROUP}/{word}]"


def job_note(word: str, at: int = 0) -> str:
    return note(word, f"spec.replicatedJobs[{at}].template.")


def asking(**words: str) -> JobSetBuilder:
    return make_jobset().asks(**words)


def pods(count: int) -> JobBuilder:
    return job_template().pods(count)


def faults(jobset: Json, old: Json | None = None) -> list[tuple[str, str]]:
    operation = "CREATE" if old is None else "UPDATE"
    return [(it.field, it.reason) for it in jobset_admission(jobset, Review(operation, old)).causes]


@pytest.mark.parametrize(
    ("jobset", "want"),
    [
        pytest.param(
            asking(gang_mode="Gang").replicated_job("a", 1, pods(1), mode="Gang"),
            [("spec.replicatedJobs[0].gangConfig.gangMode", FORBIDDEN)],
            id="both levels, by field",
        ),
        pytest.param(
            asking(gang_mode="Gang").replicated_job("a", 1, pods(1).asks(gang_mode="Gang")),
            [(job_note("gang-mode"), FORBIDDEN)],
            id="both levels, by annotation",
        ),
        pytest.param(
            asking(gang_mode="Everything").replicated_job("a"),
            [(note("gang-mode"), NOT_SUPPORTED)],
            id="an unknown mode",
        ),
        pytest.param(
            asking(gang_mode="ReplicatedGang").replicated_job("a"),
            [(note("gang-mode"), NOT_SUPPORTED)],
            id="a replicatedJob's mode on the JobSet",
        ),
        pytest.param(
            make_jobset().replicated_job("a", mode="Composite"),
            [("spec.replicatedJobs[0].gangConfig.gangMode", NOT_SUPPORTED)],
            id="the JobSet's mode on a replicatedJob",
        ),
        pytest.param(
            asking(gang_mode="Gang").field_mode("Off").replicated_job("a"),
            [("spec.gangConfig.gangMode", INVALID)],
            id="annotation and field disagree",
        ),
        pytest.param(
            asking(gang_mode="Gang").in_order().replicated_job("a").replicated_job("b"),
            [("spec.startupPolicy.startupPolicyOrder", INVALID)],
            id="a JobSet-wide gang that starts in order",
        ),
        pytest.param(
            asking(gang_mode="Composite").replicated_job("a").replicated_job("b", depends_on="a"),
            [("spec.replicatedJobs[1].dependsOn", INVALID)],
            id="a tree of which one part waits for another",
        ),
        pytest.param(
            make_jobset()
            .in_order()
            .replicated_job("a", mode="Gang")
            .replicated_job("b", mode="Gang", depends_on="a"),
            [],
            id="replicatedJob gangs work with order",
        ),
        pytest.param(
            asking(gang_mode="Gang")
            .replicated_job("a", mode="Off")
            .replicated_job("b", depends_on="a"),
            [],
            id="waiting for what is not in the gang",
        ),
        pytest.param(
            asking(gang_mode="Gang", min_count="0").replicated_job("a"),
            [(note("min-count"), INVALID)],
            id="min-count 0",
        ),
        pytest.param(
            asking(gang_mode="Gang", min_count="many").replicated_job("a"),
            [(note("min-count"), INVALID)],
            id="min-count that is no number",
        ),
        pytest.param(
            asking(gang_mode="Gang", min_count="9").replicated_job("a", 2, pods(4)),
            [(note("min-count"), INVALID)],
            id="min-count above the number of pods",
        ),
        pytest.param(
            asking(gang_mode="Composite", min_count="2").replicated_job(
                "a", 2, pods(4).asks(min_count="5", replicated_job_min_count="3")
            ),
            [
                (note("min-count"), INVALID),
                (job_note("min-count"), INVALID),
                (job_note("replicated-job-min-count"), INVALID),
            ],
            id="min-count above the members, at each level of a tree",
        ),
        pytest.param(
            make_jobset().replicated_job(
                "a", 2, pods(4).asks(gang_mode="ReplicatedGang", min_count="5")
            ),
            [(job_note("min-count"), INVALID)],
            id="min-count above the pods of a Job",
        ),
        pytest.param(
            asking(gang_mode="Basic", min_count="1").replicated_job("a"),
            [(note("min-count"), FORBIDDEN)],
            id="min-count of a Basic group",
        ),
        pytest.param(
            asking(gang_mode="Composite").replicated_job("a", mode="Basic").replicated_job("b"),
            [],
            id="a basic stage of a tree",
        ),
        pytest.param(
            asking(gang_mode="Composite").replicated_job("a", mode="Gang"),
            [("spec.replicatedJobs[0].gangConfig.gangMode", FORBIDDEN)],
            id="a gang below a tree's own",
        ),
        pytest.param(
            asking(gang_mode="Gang").replicated_job("a", mode="Basic"),
            [("spec.replicatedJobs[0].gangConfig.gangMode", FORBIDDEN)],
            id="a basic part of one group",
        ),
        pytest.param(
            asking(gang_mode="Composite").replicated_job(
                "a", 2, pods(4).asks(gang_mode="Basic", min_count="1", replicated_job_min_count="1")
            ),
            [
                (job_note("min-count"), FORBIDDEN),
                (job_note("replicated-job-min-count"), FORBIDDEN),
            ],
            id="min-count of a basic stage",
        ),
        pytest.param(
            asking(gang_mode="Gang", topology="not a label").replicated_job("a"),
            [(note("topology"), INVALID)],
            id="a topology that is no label key",
        ),
        pytest.param(
            asking(gang_mode="Gang", topology="a", preferred_topology="b").replicated_job("a"),
            [(note("preferred-topology"), INVALID)],
            id="two topologies",
        ),
        pytest.param(
            asking(gang_mode="Gang", disruption_mode="all").replicated_job("a"),
            [(note("disruption-mode"), NOT_SUPPORTED)],
            id="an unknown disruption mode",
        ),
        pytest.param(
            asking(gang_mode="Composite", disruption_mode="All").replicated_job(
                "a", 1, pods(1).asks(disruption_mode="Single")
            ),
            [(job_note("disruption-mode"), INVALID)],
            id="Single below All",
        ),
        pytest.param(
            asking(gang_mode="Gang")
            .replicated_job("a", 1, pods(1).priority_class("high"))
            .replicated_job("b", 1, pods(1)),
            [("spec.replicatedJobs[1].template.spec.template.spec.priorityClassName", INVALID)],
            id="two priorities in one gang",
        ),
        pytest.param(
            asking(gang_mode="Gang").replicated_job("a", 1, pods(1).scheduler("other")),
            [("spec.replicatedJobs[0].template.spec.template.spec.schedulerName", INVALID)],
            id="a third scheduler",
        ),
        pytest.param(
            make_jobset()
            .replicated_job("a", 2, mode="ReplicatedGang")
            .replicated_job("a-1", mode="Gang"),
            [],
            id="two groups that had one name before 0.3",
        ),
    ],
)
def test_creation(jobset: JobSetBuilder, want: list[tuple[str, str]]) -> None:
    assert faults(jobset.build()) == want


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        pytest.param("Composite", [("spec.replicatedJobs", TOO_MANY)], id="a template for each"),
        pytest.param("Gang", [], id="one template for all"),
    ],
)
def test_nine_replicated_jobs(mode: str, want: list[tuple[str, str]]) -> None:
    jobset = asking(gang_mode=mode)
    for at in range(9):
        jobset.replicated_job(f"job-{at}")

    assert faults(jobset.build()) == want


def test_the_priority_fault_names_both_paths() -> None:
    jobset = asking(gang_mode="Gang").replicated_job("a", 1, pods(1).priority_class("high"))

    (cause,) = jobset_admission(jobset.replicated_job("b").build(), Review("CREATE")).causes

    assert "spec.replicatedJobs[0].template.spec.template.spec.priorityClassName" in cause.message
    assert "spec.replicatedJobs[1].template.spec.template.spec.priorityClassName" in cause.field


def marks(jobset: Json) -> list[str | None]:
    return [
        job["template"].get("metadata", {}).get("annotations", {}).get(ANNOTATION_GROUP_SCOPE)
        for job in jobset["spec"]["replicatedJobs"]
    ]


def admitted(new: Json, old: Json | None = None) -> Json:
    patch = jobset_admission(new, Review("CREATE" if old is None else "UPDATE", old)).patch
    patched: Json = jsonpatch.apply_patch(new, patch)
    return patched


@pytest.mark.parametrize(
    ("jobset", "want"),
    [
        pytest.param(
            asking(gang_mode="Gang").replicated_job("a").replicated_job("b", mode="Off"),
            ["JobSet", None],
            id="a gang of the JobSet",
        ),
        pytest.param(
            make_jobset()
            .replicated_job("a", mode="Gang")
            .replicated_job("b", mode="ReplicatedGang")
            .replicated_job("c"),
            ["ReplicatedJob/Joined", "Job/Joined", None],
            id="gangs of replicatedJobs",
        ),
        pytest.param(
            asking(gang_mode="Composite").replicated_job("a"), ["Job/Joined"], id="a tree"
        ),
        pytest.param(
            make_jobset("a").replicated_job("b", mode="ReplicatedGang"),
            ["Job"],
            id="names without a dash have one meaning",
        ),
        pytest.param(
            asking(gang_mode="Gang").replicated_job("a", 1, pods(1).in_group("theirs")),
            [None],
            id="pods that name a group already",
        ),
        pytest.param(
            make_jobset().replicated_job("a", 1, pods(1).asks(group_scope="JobSet")),
            [None],
            id="a mark copied from another JobSet",
        ),
    ],
)
def test_marks(jobset: JobSetBuilder, want: list[str | None]) -> None:
    marked = admitted(jobset.build())

    assert marks(marked) == want
    assert jobset_admission(marked, Review("CREATE")).patch == []


def test_applying_the_unchanged_manifest_changes_nothing() -> None:
    manifest = asking(gang_mode="Gang").replicated_job("a").replicated_job("b").build()
    stored = admitted(manifest)

    assert admitted(manifest, stored) == stored
    assert faults(manifest, stored) == []


def test_a_jobset_older_than_muster_gets_no_marks_later() -> None:
    stored = asking(gang_mode="Gang").replicated_job("a").build()

    assert marks(admitted(stored, stored)) == [None]


LARGEST = 2**31 - 1


def many(builder: JobSetBuilder, count: int) -> JobSetBuilder:
    for at in range(count):
        builder.replicated_job(f"r{at}")
    return builder


@pytest.mark.parametrize(
    ("jobset", "want"),
    [
        pytest.param(
            asking(gang_mode="Composite").replicated_job("a", MAX_JOBS - 1).replicated_job("b", 1),
            [],
            id="as many Jobs as there may be",
        ),
        pytest.param(
            asking(gang_mode="Gang").replicated_job("a", 2).replicated_job("b", MAX_JOBS),
            [("spec.replicatedJobs[1].replicas", INVALID)],
            id="more Jobs, in all of them together",
        ),
        pytest.param(
            make_jobset().replicated_job("a", LARGEST, mode="ReplicatedGang"),
            [("spec.replicatedJobs[0].replicas", INVALID)],
            id="the largest number",
        ),
        pytest.param(
            asking(gang_mode="Gang")
            .replicated_job("a", 2)
            .replicated_job("b", LARGEST, mode="Off"),
            [],
            id="many Jobs that get no group",
        ),
        pytest.param(
            make_jobset().replicated_job("a", LARGEST),
            [],
            id="many Jobs of a JobSet without groups",
        ),
        pytest.param(
            many(asking(gang_mode="Gang"), MAX_REPLICATED_JOBS), [], id="the most of them"
        ),
        pytest.param(
            many(asking(gang_mode="Gang"), MAX_REPLICATED_JOBS + 1),
            [("spec.replicatedJobs", TOO_MANY)],
            id="too many replicatedJobs",
        ),
        pytest.param(
            many(make_jobset().replicated_job("a", mode="Gang"), MAX_REPLICATED_JOBS),
            [("spec.replicatedJobs", TOO_MANY)],
            id="too many replicatedJobs, one of which has a group",
        ),
        pytest.param(
            many(make_jobset(), MAX_REPLICATED_JOBS + 1), [], id="too many, and without groups"
        ),
    ],
)
def test_size(jobset: JobSetBuilder, want: list[tuple[str, str]]) -> None:
    assert faults(jobset.build()) == want


def test_jobs_without_a_group_do_not_count_against_those_with_one() -> None:
    jobset = make_jobset().replicated_job("a", LARGEST).replicated_job("b", 3, mode="Gang").build()

    assert len(jobset_groups(admitted(jobset))) == 2
    assert len(jobset_pod_counts(admitted(jobset), lambda _job, _group: (None, NO_PODS))) == 1


def test_what_another_controller_runs_is_warned_about_whatever_its_size() -> None:
    jobset = many(asking(gang_mode="Gang"), MAX_REPLICATED_JOBS + 1).build()
    jobset["spec"]["managedBy"] = "example.com/other"

    admission = jobset_admission(jobset, Review("CREATE"))

    assert admission.causes == []
    assert any("Too many" in warning for warning in admission.warnings)


@pytest.mark.parametrize("count", [MAX_REPLICATED_JOBS + 1, 2])
def test_a_stored_jobset_of_any_size_keeps_its_marks(count: int) -> None:
    old = many(asking(gang_mode="Gang"), count).build()
    new = many(asking(gang_mode="Gang"), count).build()
    for job in old["spec"]["replicatedJobs"]:
        job["template"]["metadata"] = {"annotations": {ANNOTATION_GROUP_SCOPE: "JobSet"}}

    assert admitted(new, old) == old
    assert faults(new, old) == []


@pytest.mark.parametrize(
    ("new", "path"),
    [
        (many(asking(gang_mode="Gang"), MAX_REPLICATED_JOBS + 1), "spec.replicatedJobs"),
        (
            asking(gang_mode="Gang").replicated_job("r0", MAX_JOBS + 1),
            "spec.replicatedJobs[0].replicas",
        ),
    ],
)
def test_a_jobset_may_not_grow_too_large(new: JobSetBuilder, path: str) -> None:
    small = asking(gang_mode="Gang").replicated_job("r0", 1)

    assert [field for field, _ in faults(new.build(), small.build())] == [path]
    assert faults(new.build(), new.build()) == []


STORED = asking(gang_mode="Gang", topology="example.com/rack").replicated_job("a", 1, pods(4))


@pytest.mark.parametrize(
    ("new", "want"),
    [
        pytest.param(
            asking(gang_mode="Composite", topology="example.com/rack").replicated_job(
                "a", 1, pods(4)
            ),
            [(note("gang-mode"), INVALID)],
            id="another mode",
        ),
        pytest.param(
            asking(topology="example.com/rack").replicated_job("a", 1, pods(4)),
            [(note("gang-mode"), INVALID)],
            id="the mode unset",
        ),
        pytest.param(
            asking(gang_mode="Gang").replicated_job("a", 1, pods(4)),
            [(note("topology"), INVALID)],
            id="the topology unset",
        ),
        pytest.param(
            asking(gang_mode="Gang", preferred_topology="example.com/rack").replicated_job(
                "a", 1, pods(4)
            ),
            [(note("preferred-topology"), INVALID)],
            id="the topology only preferred",
        ),
        pytest.param(
            asking(
                gang_mode="Gang", topology="example.com/rack", disruption_mode="All"
            ).replicated_job("a", 1, pods(4)),
            [(note("disruption-mode"), INVALID)],
            id="a disruption mode set later",
        ),
        pytest.param(
            asking(gang_mode="Gang", topology="example.com/rack", min_count="2").replicated_job(
                "a", 1, pods(4)
            ),
            [],
            id="a minimum set later",
        ),
        pytest.param(
            asking(gang_mode="Gang", topology="example.com/rack", min_count="5").replicated_job(
                "a", 1, pods(4)
            ),
            [(note("min-count"), INVALID)],
            id="a minimum above the members",
        ),
        pytest.param(
            asking(gang_mode="Gang", topology="example.com/rack").replicated_job(
                "a", 1, pods(4), mode="Off"
            ),
            [("spec.replicatedJobs[0].gangConfig.gangMode", INVALID)],
            id="a replicatedJob's mode set later",
        ),
    ],
)
def test_update(new: JobSetBuilder, want: list[tuple[str, str]]) -> None:
    assert faults(new.build(), STORED.build()) == want


def test_options_without_effect_are_warned_about() -> None:
    jobset = asking(topology="a").replicated_job(
        "a", 1, pods(1).asks(gang_mode="Gang", replicated_job_min_count="1")
    )

    warnings = jobset_admission(jobset.build(), Review("CREATE")).warnings

    assert [it.split(": has")[0] for it in warnings] == [
        note("topology"),
        job_note("replicated-job-min-count"),
    ]


@pytest.mark.parametrize(
    "jobset",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": None, "spec": []}, id="wrong types on top"),
        pytest.param(
            {"metadata": {"annotations": []}, "spec": {"replicatedJobs": [1, {"template": "x"}]}},
            id="wrong types inside",
        ),
        pytest.param(
            {
                "spec": {
                    "gangConfig": {"gangMode": "Gang"},
                    "replicatedJobs": [{"template": {"metadata": [], "spec": {"template": 1}}}],
                }
            },
            id="a template that cannot be marked",
        ),
    ],
)
def test_any_structure_is_accepted(jobset: Json) -> None:
    admission = jobset_admission(jobset, Review("UPDATE", jobset))

    assert admission.patch == jobset_admission(jobset, Review("CREATE")).patch == []


def test_the_fault_of_an_order_shows_what_stands_there() -> None:
    wanted = asking(gang_mode="Gang").replicated_job("a").replicated_job("b", depends_on="a")

    [fault] = jobset_admission(wanted.build(), Review("CREATE")).causes

    assert fault.message.startswith('Invalid value: ["a"]: the gang of the JobSet')


def test_a_template_whose_pods_would_all_be_refused() -> None:
    bad = job_template().in_group("Bad_Group")
    jobset = make_jobset().replicated_job("a", mode="Gang").replicated_job("b", 1, bad)
    path = f"spec.replicatedJobs[1].template.spec.template.metadata.labels[{LABEL_POD_GROUP}]"

    assert faults(jobset.build()) == [(path, INVALID)]
    assert faults(jobset.build(), jobset.build()) == []


def test_a_mode_beside_a_group_of_the_user_s_is_worth_a_warning() -> None:
    jobset = make_jobset().replicated_job("a", 1, job_template().in_group("mine"), mode="Gang")

    [warning] = jobset_admission(jobset.build(), Review("CREATE")).warnings

    assert warning == (
        "spec.replicatedJobs[0].gangConfig.gangMode: has no effect: "
        "the pod template already names a group"
    )


ATOMIC = "best-effort-atomic-scale-up"


@pytest.mark.parametrize(
    ("jobset", "want"),
    [
        pytest.param(asking(gang_mode="Gang", provisioning_request=ATOMIC), ATOMIC, id="a gang"),
        pytest.param(
            asking(gang_mode="Composite", provisioning_request=ATOMIC), ATOMIC, id="a tree"
        ),
        pytest.param(asking(gang_mode="Gang"), None, id="nothing asked"),
        pytest.param(asking(provisioning_request=ATOMIC), None, id="no gang of the JobSet"),
    ],
)
def test_the_job_templates_know_what_the_root_above_them_asks(
    jobset: JobSetBuilder, want: str | None
) -> None:
    made = jobset.replicated_job("a", 1, pods(2)).build()
    stored = jsonpatch.apply_patch(made, jobset_admission(made, Review("CREATE")).patch)

    def mark(found: Json) -> str | None:
        template = found["spec"]["replicatedJobs"][0]["template"]
        said: str | None = (
            (template.get("metadata") or {}).get("annotations", {}).get(f"{GROUP}/jobset-options")
        )
        asked = [
            part for part in (said or "").split(",") if part.startswith("provisioning-request=")
        ]
        return asked[0].partition("=")[2] if asked else None

    assert mark(stored) == want
    again = jsonpatch.apply_patch(made, jobset_admission(made, Review("UPDATE", stored)).patch)
    assert mark(again) == want
    assert faults(stored) == []


def test_what_is_asked_below_the_root_has_no_effect() -> None:
    template = pods(2).asks(provisioning_request=ATOMIC, preemption_delay="5m")
    tree = asking(gang_mode="Composite").replicated_job("a", 1, template).build()

    said = jobset_admission(tree, Review("CREATE")).warnings

    assert [line.partition(": ")[0] for line in said] == [
        job_note("provisioning-request"),
        job_note("preemption-delay"),
    ]


@pytest.mark.parametrize("level", ["JobSet", "replicatedJob"])
def test_pods_that_another_request_stands_for(level: str) -> None:
    template = pods(2)
    wide = asking(gang_mode="Gang", provisioning_request=ATOMIC)
    if level == "replicatedJob":
        wide, template = make_jobset(), template.asks(gang_mode="Gang", provisioning_request=ATOMIC)
    made = wide.replicated_job("a", 1, template).build()
    key = "autoscaling.x-k8s.io/consume-provisioning-request"
    spec = made["spec"]["replicatedJobs"][0]["template"]["spec"]
    spec["template"]["metadata"] = {"annotations": {key: "mine"}}

    assert faults(made) == [
        (f"spec.replicatedJobs[0].template.spec.template.metadata.annotations[{key}]", INVALID)
    ]


def test_a_jobset_that_asks_for_another_class_later() -> None:
    old = asking(gang_mode="Gang", provisioning_request=ATOMIC).replicated_job("a").build()
    new = (
        asking(gang_mode="Gang", provisioning_request="check-capacity").replicated_job("a").build()
    )

    assert faults(new, old) == [(note("provisioning-request"), INVALID)]
