"""KEP-1068's translation examples, and Muster's own modes, as pairs."""

from typing import Any

import jsonpatch
import pytest

from api.constants import FINALIZER_POD_GROUP, GROUP
from api.integration.common.minimum import NO_PODS, CountedPods, GroupPodCounts, Progress
from api.integration.common.owner_kind import Review
from api.integration.jobset.admission import jobset_admission, jobset_groups, jobset_pod_counts
from tests.support.owners import JobSetBuilder, job_template, make_jobset

Json = dict[str, Any]
ASKED = {
    "provisioning_request": "check-capacity",
    "preemption_delay": "5m",
    "min_run_time": "9m",
    "start_timeout": "8m",
    "eviction_cost": "-7",
    "movable": "true",
}


def admitted(jobset: Json) -> Json:
    admission = jobset_admission(jobset, Review("CREATE"))
    assert admission.causes == []
    marked: Json = jsonpatch.apply_patch(jobset, admission.patch)
    return marked


def summary(builder: JobSetBuilder) -> list[tuple[str, str, Any]]:
    """Return (kind, name, minimum) of every object, in order; templates for the Workload."""
    found: list[tuple[str, str, Any]] = []
    for obj in jobset_groups(admitted(builder.build())):
        spec = obj["spec"]
        if obj["kind"] == "Workload":
            found.append(("Workload", obj["metadata"]["name"], templates(spec)))
        else:
            found.append((obj["kind"], obj["metadata"]["name"], minimum(spec["schedulingPolicy"])))
    return found


def minimum(policy: Json) -> Any:
    gang = policy.get("gang")
    return "basic" if gang is None else next(iter(gang.values()))


def templates(spec: Json) -> Any:
    found: Json = {}
    for template in spec.get("compositePodGroupTemplates", []):
        found[template["name"]] = (minimum(template["schedulingPolicy"]), templates(template))
    for template in spec.get("podGroupTemplates", []):
        found[template["name"]] = minimum(template["schedulingPolicy"])
    return found


def two_jobs(mode: str = "", second: tuple[int, int] = (2, 4)) -> JobSetBuilder:
    """Return the JobSet of the KEP's examples: 2 x 4 pods, and `second` replicas x pods."""
    replicas, pods = second
    jobset = make_jobset().replicated_job(
        "replicated-job-1", 2, job_template().pods(4, 4), mode=mode
    )
    return jobset.replicated_job(
        "replicated-job-2", replicas, job_template().pods(pods, pods), mode=mode
    )


@pytest.mark.parametrize(
    ("jobset", "want"),
    [
        pytest.param(
            two_jobs().field_mode("Gang"),
            [
                ("Workload", "w-sample-jobset", {"pg-sample-jobset": 16}),
                ("PodGroup", "pg-sample-jobset", 16),
            ],
            id="KEP-1068: JobSet level gang",
        ),
        pytest.param(
            two_jobs("Gang", second=(1, 3)),
            [
                (
                    "Workload",
                    "w-sample-jobset",
                    {"pg-replicated-job-1": 8, "pg-replicated-job-2": 3},
                ),
                ("PodGroup", "pg-sample-jobset-replicated-job-1-a54cba18a0", 8),
                ("PodGroup", "pg-sample-jobset-replicated-job-2-506928b1d0", 3),
            ],
            id="KEP-1068: replicatedJob level gang",
        ),
        pytest.param(
            two_jobs("ReplicatedGang", second=(3, 3)),
            [
                (
                    "Workload",
                    "w-sample-jobset",
                    {"pg-replicated-job-1": 4, "pg-replicated-job-2": 3},
                ),
                ("PodGroup", "pg-sample-jobset-replicated-job-1-0-87ffa1be2b", 4),
                ("PodGroup", "pg-sample-jobset-replicated-job-1-1-3771e47aee", 4),
                ("PodGroup", "pg-sample-jobset-replicated-job-2-0-3aca357ae2", 3),
                ("PodGroup", "pg-sample-jobset-replicated-job-2-1-62d7612eda", 3),
                ("PodGroup", "pg-sample-jobset-replicated-job-2-2-c3e303e311", 3),
            ],
            id="KEP-1068: replica level gang",
        ),
        pytest.param(
            two_jobs().asks(gang_mode="Gang"),
            [
                ("Workload", "w-sample-jobset", {"pg-sample-jobset": 16}),
                ("PodGroup", "pg-sample-jobset", 16),
            ],
            id="the annotation says the same as the field",
        ),
        pytest.param(two_jobs(), [], id="nothing said, nothing made"),
        pytest.param(two_jobs("Off").asks(gang_mode="Off"), [], id="Off makes nothing"),
        pytest.param(
            two_jobs().asks(gang_mode="Basic"),
            [
                ("Workload", "w-sample-jobset", {"pg-sample-jobset": "basic"}),
                ("PodGroup", "pg-sample-jobset", "basic"),
            ],
            id="Basic is one group without a minimum",
        ),
        pytest.param(
            two_jobs("Gang").asks(gang_mode="Off"),
            [
                (
                    "Workload",
                    "w-sample-jobset",
                    {"pg-replicated-job-1": 8, "pg-replicated-job-2": 8},
                ),
                ("PodGroup", "pg-sample-jobset-replicated-job-1-a54cba18a0", 8),
                ("PodGroup", "pg-sample-jobset-replicated-job-2-506928b1d0", 8),
            ],
            id="a JobSet that says Off leaves the choice to its replicatedJobs",
        ),
        pytest.param(
            make_jobset()
            .asks(gang_mode="Gang")
            .replicated_job("driver", mode="Off")
            .replicated_job("workers", 2, job_template().pods(4)),
            [
                ("Workload", "w-sample-jobset", {"pg-sample-jobset": 8}),
                ("PodGroup", "pg-sample-jobset", 8),
            ],
            id="a replicatedJob that says Off stays out of the JobSet's gang",
        ),
        pytest.param(
            two_jobs(second=(3, 3)).asks(gang_mode="Composite"),
            [
                (
                    "Workload",
                    "w-sample-jobset",
                    {
                        "cpg-sample-jobset": (
                            2,
                            {
                                "cpg-replicated-job-1": (2, {"pg-replicated-job-1": 4}),
                                "cpg-replicated-job-2": (3, {"pg-replicated-job-2": 3}),
                            },
                        )
                    },
                ),
                ("CompositePodGroup", "cpg-sample-jobset", 2),
                ("CompositePodGroup", "cpg-sample-jobset-replicated-job-1-1f2b01e57e", 2),
                ("CompositePodGroup", "cpg-sample-jobset-replicated-job-2-22390d9c0b", 3),
                ("PodGroup", "pg-sample-jobset-replicated-job-1-0-87ffa1be2b", 4),
                ("PodGroup", "pg-sample-jobset-replicated-job-1-1-3771e47aee", 4),
                ("PodGroup", "pg-sample-jobset-replicated-job-2-0-3aca357ae2", 3),
                ("PodGroup", "pg-sample-jobset-replicated-job-2-1-62d7612eda", 3),
                ("PodGroup", "pg-sample-jobset-replicated-job-2-2-c3e303e311", 3),
            ],
            id="Composite is a tree of JobSet, replicatedJobs and Jobs",
        ),
        pytest.param(
            make_jobset().asks(gang_mode="Gang").replicated_job("a", 2, job_template().pods(4, 3)),
            [
                ("Workload", "w-sample-jobset", {"pg-sample-jobset": 6}),
                ("PodGroup", "pg-sample-jobset", 6),
            ],
            id="fewer completions than parallelism count",
        ),
        pytest.param(
            make_jobset().asks(gang_mode="Gang", min_count="3").replicated_job("a", 4),
            [
                ("Workload", "w-sample-jobset", {"pg-sample-jobset": 3}),
                ("PodGroup", "pg-sample-jobset", 3),
            ],
            id="an explicit minimum, and parallelism 1 when unset",
        ),
        pytest.param(
            make_jobset("a")
            .asks(gang_mode="Composite")
            .replicated_job("b", 2, job_template().pods(4))
            .replicated_job("none", 0, job_template().pods(4))
            .replicated_job("still", 1, job_template().pods(0)),
            [
                ("Workload", "w-a", {"cpg-a": (1, {"cpg-b": (2, {"pg-b": 4})})}),
                ("CompositePodGroup", "cpg-a", 1),
                ("CompositePodGroup", "cpg-a-b-d38fb85d90", 2),
                ("PodGroup", "pg-a-b-0", 4),
                ("PodGroup", "pg-a-b-1", 4),
            ],
            id="nobody waits for replicatedJobs without pods",
        ),
        pytest.param(
            make_jobset("same").asks(gang_mode="Composite").replicated_job("same"),
            [
                (
                    "Workload",
                    "w-same",
                    {"cpg-same-45d637294a": (1, {"cpg-same": (1, {"pg-same": 1})})},
                ),
                ("CompositePodGroup", "cpg-same", 1),
                ("CompositePodGroup", "cpg-same-same-f60bf1a54e", 1),
                ("PodGroup", "pg-same-same-0", 1),
            ],
            id="template names stay unique where a replicatedJob is called as its JobSet",
        ),
    ],
)
def test_objects(jobset: JobSetBuilder, want: list[tuple[str, str, Any]]) -> None:
    assert summary(jobset) == want


def test_a_group_is_complete_but_for_the_workload_s_owner_reference() -> None:
    template = job_template().pods(2).priority_class("high")
    jobset = make_jobset("a").asks(
        gang_mode="Gang", preferred_topology="example.com/rack", disruption_mode="All"
    )

    workload, group = jobset_groups(admitted(jobset.replicated_job("b", 1, template).build()))

    shared = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": "example.com/rack", "preferred": True}]},
        "disruptionMode": {"all": {}},
        "priorityClassName": "high",
    }
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": "a",
        "uid": "uid-of-a",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "namespace": "default",
        "labels": {"app.kubernetes.io/managed-by": "muster"},
        "annotations": {"scheduling.muster.dev/made-for": "jobset.x-k8s.io/JobSet/a/uid-of-a"},
        "ownerReferences": [owner],
    }
    assert workload == {
        "apiVersion": "scheduling.muster.dev/v1alpha3",
        "kind": "Workload",
        "metadata": metadata | {"name": "w-a"},
        "spec": {
            "controllerRef": {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "a"},
            "podGroupTemplates": [{"name": "pg-a"} | shared],
        },
    }
    assert group == {
        "apiVersion": "scheduling.muster.dev/v1alpha3",
        "kind": "PodGroup",
        "metadata": metadata | {"name": "pg-a", "finalizers": [FINALIZER_POD_GROUP]},
        "spec": {"workloadRef": {"workloadName": "w-a", "templateName": "pg-a"}} | shared,
    }


def test_in_a_tree_each_level_speaks_for_itself_and_all_reaches_down() -> None:
    inner = (
        job_template()
        .pods(4)
        .asks(
            topology="example.com/rack",
            min_count="3",
            replicated_job_topology="example.com/block",
            replicated_job_min_count="1",
            replicated_job_disruption_mode="All",
        )
    )
    jobset = make_jobset("a").asks(gang_mode="Composite", topology="example.com/zone")

    made = {
        obj["metadata"]["name"]: obj["spec"]
        for obj in jobset_groups(admitted(jobset.replicated_job("b", 2, inner).build()))
    }

    def said(name: str) -> Any:
        spec = made[name]
        key = spec["schedulingConstraints"]["topology"][0]["key"]
        return minimum(spec["schedulingPolicy"]), key, spec["disruptionMode"]

    assert said("cpg-a") == (1, "example.com/zone", {"single": {}})
    assert said("cpg-a-b-d38fb85d90") == (1, "example.com/block", {"all": {}})
    assert said("pg-a-b-1") == (3, "example.com/rack", {"all": {}})
    assert made["pg-a-b-1"]["parentCompositePodGroupName"] == "cpg-a-b-d38fb85d90"
    assert made["cpg-a-b-d38fb85d90"]["parentCompositePodGroupName"] == "cpg-a"


def test_a_stage_of_a_tree_may_be_basic() -> None:
    jobset = (
        make_jobset("a")
        .asks(gang_mode="Composite", disruption_mode="All")
        .replicated_job("init", 2, job_template().pods(3), mode="Basic")
        .replicated_job("train", 1, job_template().pods(4))
    )

    made = {
        obj["metadata"]["name"]: obj["spec"]
        for obj in jobset_groups(admitted(jobset.build()))
        if obj["kind"] != "Workload"
    }

    said = {name: minimum(spec["schedulingPolicy"]) for name, spec in made.items()}
    assert [said[name] for name in sorted(said)] == [2, "basic", 1, "basic", "basic", 4]
    assert all(spec["disruptionMode"] == {"all": {}} for spec in made.values())


def test_trees_of_one_jobset_may_differ_in_priority() -> None:
    jobset = (
        make_jobset("a")
        .replicated_job("b", 1, job_template().priority_class("low"), mode="Gang")
        .replicated_job("c", 1, job_template().priority_class("high"), mode="Gang")
    )

    workload, *groups = jobset_groups(admitted(jobset.build()))

    classes = [group["spec"]["priorityClassName"] for group in groups]
    assert classes == ["low", "high"]
    assert not any("priorityClassName" in it for it in workload["spec"]["podGroupTemplates"])


def test_each_group_has_the_standing_of_its_jobs() -> None:
    """Job 1 of `w` is complete, and one of its two pods still exists."""
    jobset = make_jobset("a")
    jobset.replicated_job("v", 2, job_template().pods(4, 3), mode="Gang")
    jobset.replicated_job("w", 2, job_template().pods(2, 2), mode="ReplicatedGang")
    jobset.replicated_job("none", 0, job_template().pods(2, 2), mode="Gang")
    asked = []

    def life(job: str, group: str) -> tuple[Progress | None, CountedPods]:
        asked.append((job, group))
        if job == "a-w-1":
            return Progress(succeeded=2, complete=True), CountedPods(succeeded=1)
        return None, NO_PODS

    assert jobset_pod_counts(admitted(jobset.build()), life) == {
        "pg-a-v-b5777df9da": GroupPodCounts(6, 6, 6),
        "pg-a-w-0": GroupPodCounts(2, 2, 2),
        "pg-a-w-1": GroupPodCounts(2, 1, 0),
    }
    assert asked == [
        ("a-v-0", "pg-a-v-b5777df9da"),
        ("a-v-1", "pg-a-v-b5777df9da"),
        ("a-w-0", "pg-a-w-0"),
        ("a-w-1", "pg-a-w-1"),
    ]


@pytest.mark.parametrize(
    ("jobset", "roots"),
    [
        pytest.param(
            make_jobset("s").asks(gang_mode="Gang", **ASKED).replicated_job("a", 2),
            ["pg-s"],
            id="a gang",
        ),
        pytest.param(
            make_jobset("s").asks(gang_mode="Composite", **ASKED).replicated_job("a", 2),
            ["cpg-s"],
            id="a tree",
        ),
        pytest.param(
            make_jobset("s").replicated_job(
                "a", 2, job_template().asks(gang_mode="ReplicatedGang", **ASKED)
            ),
            ["pg-s-a-0", "pg-s-a-1"],
            id="a gang for each Job",
        ),
    ],
)
def test_a_root_says_what_its_owner_asks_for_it(jobset: JobSetBuilder, roots: list[str]) -> None:
    found = {
        each["metadata"]["name"]: each["metadata"]["annotations"]
        for each in jobset_groups(admitted(jobset.build()))
        if each["metadata"]["annotations"].get(f"{GROUP}/provisioning-request")
    }

    assert list(found) == roots
    assert all(it[f"{GROUP}/preemption-delay"] == "5m" for it in found.values())
    assert all(it[f"{GROUP}/min-run-time"] == "9m" for it in found.values())
    assert all(it[f"{GROUP}/start-timeout"] == "8m" for it in found.values())
    assert all(it[f"{GROUP}/eviction-cost"] == "-7" for it in found.values())
    assert all(it[f"{GROUP}/movable"] == "true" for it in found.values())
