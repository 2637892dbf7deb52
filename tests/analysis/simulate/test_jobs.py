"""Jobs and JobSets in a simulation: the fields that their controllers add to pods."""

from typing import Any

import pytest

from analysis.simulate.exclusive_placement import keep_apart
from analysis.simulate.jobs import job_of_jobset, place, pod_of_job
from analysis.simulate.simulate import simulate
from scheduler.core.search.place import SearchBudget
from tests.scheduler.state_builder import StateBuilder

Json = dict[str, Any]

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
NAMESPACED = "alpha.jobset.sigs.k8s.io/namespaced-job"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def jobset(replicas: int = 2, pods: int = 2, notes: Json | None = None, **spec: Any) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER], **spec}}
    job = {"spec": {"parallelism": pods, "completions": pods, "template": template}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js", "namespace": "ns", "uid": "u", "annotations": notes or {}},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": replicas, "template": job}]},
    }


CONTAINER = {"name": "c", "resources": {"requests": {"cpu": "1"}}}


def pod(made: Json, job: int = 0, index: int = 0) -> Json:
    return pod_of_job(job_of_jobset(made, made["spec"]["replicatedJobs"][0], job), index)


def simulated(made: Json, racks: int = 2) -> list[str]:
    builder = StateBuilder()
    builder.nodes(2 * racks, cpu=8, rack_of=2)
    return simulate(builder.state, [made], "ns", SearchBudget()).lines


def test_pods_have_the_labels_of_both_controllers() -> None:
    labels = pod(jobset(), job=1, index=1)["metadata"]["labels"]

    assert labels["jobset.sigs.k8s.io/jobset-name"] == "js"
    assert labels["jobset.sigs.k8s.io/jobset-uid"] == "u"
    assert labels["jobset.sigs.k8s.io/job-index"] == "1"
    # The output of sha1sum for `ns/js-w-1`.
    assert labels["jobset.sigs.k8s.io/job-key"] == "05b7e2c46893c9e9b1e4dccc98fa0a862b1f8959"
    assert labels["batch.kubernetes.io/job-name"] == "js-w-1"
    assert labels["batch.kubernetes.io/job-completion-index"] == "1"


def test_spreading_by_the_name_of_a_job_counts_its_pods() -> None:
    spread = {
        "topologyKey": "rack",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"batch.kubernetes.io/job-name": "a"}},
    }
    template = {"spec": {"containers": [CONTAINER], "topologySpreadConstraints": [spread]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}
    builder = StateBuilder()
    builder.nodes(2, cpu=8, rack_of=1)

    spec = {"parallelism": 4, "template": template}
    lines = simulate(builder.state, [job | {"spec": spec}], "ns", SearchBudget()).lines

    assert (
        sorted(line for line in lines if "fits" in line)
        == ["  fits: n0 x1"] * 2 + ["  fits: n1 x1"] * 2
    )


@pytest.mark.parametrize("level", ["JobSet", "template"])
def test_a_job_with_exclusive_placement_has_its_domain_alone(level: str) -> None:
    made = jobset(replicas=3)
    holder = made if level == "JobSet" else made["spec"]["replicatedJobs"][0]["template"]
    holder.setdefault("metadata", {})["annotations"] = {EXCLUSIVE: "rack"}

    lines = simulated(made)

    fits = [lines[at + 1] for at, line in enumerate(lines) if line.startswith("Pod js-w-")]
    assert [line.startswith("  fits: ") for line in fits] == [True] * 4 + [False] * 2


def test_the_first_pod_keeps_jobs_of_its_priority_away() -> None:
    first, second = (pod(jobset(notes={EXCLUSIVE: "rack"}), index=index) for index in (0, 1))
    first["spec"]["priority"] = second["spec"]["priority"] = 7
    place(first)
    place(second)

    (term,) = first["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
    assert term["labelSelector"]["matchExpressions"][-1]["values"] == ["7"]
    assert term["namespaceSelector"] == {}
    assert second["spec"]["affinity"].keys() == {"podAffinity"}


def test_node_selectors_name_the_job_and_need_labelled_nodes() -> None:
    notes = {EXCLUSIVE: "rack", SELECTOR: "true", "scheduling.muster.dev/gang-mode": "Gang"}
    made = jobset(notes=notes, nodeSelector={"a": "b"}, tolerations=[{"key": "k"}])

    spec = pod(made, job=1)["spec"]
    place(pod(made))

    assert spec["nodeSelector"] == {"a": "b", NAMESPACED: "ns_js-w-1"}
    assert [it["key"] for it in spec["tolerations"]] == [
        "k",
        "alpha.jobset.sigs.k8s.io/no-schedule",
    ]
    assert simulated(jobset(notes=notes))[1].startswith("  Unschedulable")


@pytest.mark.parametrize("notes", [{SELECTOR: "true"}, {}])
def test_without_the_topology_pods_go_anywhere(notes: Json) -> None:
    made = pod(jobset(notes=notes))
    place(made)

    assert made["spec"].keys() == {"restartPolicy", "containers"}


def test_terms_are_added_to_those_that_are_there() -> None:
    made: Json = {
        "metadata": {"labels": {"l": "v"}},
        "spec": {"affinity": {"podAffinity": {REQUIRED: [1]}}},
    }

    keep_apart(made, "rack", "l")

    assert len(made["spec"]["affinity"]["podAffinity"][REQUIRED]) == 2


def test_a_name_that_the_api_server_generates() -> None:
    named = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "a-"}}
    spec = {"template": {"spec": {"containers": [CONTAINER]}}}
    builder = StateBuilder()
    builder.nodes(1, cpu=8)

    lines = simulate(builder.state, [named | {"spec": spec}], "ns", SearchBudget()).lines

    assert lines[0] == "Pod a-new-0"


def test_the_jobs_of_all_replicated_jobs_are_counted_together() -> None:
    made = jobset(replicas=3)
    second = made["spec"]["replicatedJobs"][0] | {"name": "x"}
    made["spec"]["replicatedJobs"].append(second)

    labels = pod_of_job(job_of_jobset(made, second, 1), 0)["metadata"]["labels"]

    assert labels["jobset.sigs.k8s.io/job-global-index"] == "4"


@pytest.mark.parametrize(("size", "fits"), [(8, True), (16, True), (32, False)])
def test_slices_of_a_jobset_are_simulated(size: int, fits: bool) -> None:
    """Two racks with 16 cores each, for 32 pods: a slice of 32 has no rack."""
    notes = {
        "scheduling.muster.dev/gang-mode": "Gang",
        "scheduling.muster.dev/slice-size": str(size),
        "scheduling.muster.dev/slice-topology": "rack",
    }

    lines = simulated(jobset(replicas=8, pods=4, notes=notes))

    assert ("Slice 1 of 1 (indexes 0-31)" in "\n".join(lines)) is not fits
