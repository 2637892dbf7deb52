"""TrainJobs of Kubeflow Trainer in a simulation: the JobSets that it generates (v2.0.0)."""

from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.simulate.documents import documents_in
from analysis.simulate.simulate import simulate
from analysis.simulate.trainer import CLUSTER_RUNTIME, jobset_of
from api import features
from api.constants import ANNOTATION_GANG_MODE, TRAIN_JOB
from api.features import Feature, FeatureGates
from kube.base.errors import ConfigError
from scheduler.core.search.place import SearchBudget
from tests.scheduler.state_builder import StateBuilder

Json = dict[str, Any]

EXAMPLES = Path(__file__).parents[3] / "examples"
LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"

MPI: Json = yaml.safe_load("""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: mpi}
spec:
  mlPolicy: {numNodes: 1, mpi: {numProcPerNode: 1, runLauncherAsNode: true}}
  template:
    spec:
      replicatedJobs:
      - name: launcher
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: i}]}}}
      - name: node
        template:
          spec: {template: {spec: {containers: [{name: node, image: i}]}}}
""")


def torch(**policy: Any) -> Json:
    """Return Trainer's own runtime `torch-distributed`, with a null as kubectl may print it."""
    made = deepcopy(MPI)
    made["metadata"]["name"] = "torch"
    made["spec"]["mlPolicy"] = {"numNodes": 1, "torch": {"numProcPerNode": "auto"}} | policy
    (node, _) = made["spec"]["template"]["spec"]["replicatedJobs"]
    made["spec"]["template"]["spec"] = {
        "replicatedJobs": [node | {"name": "node"}],
        "network": None,
    }
    return made


def train_job(runtime: str = "torch", **spec: Any) -> Json:
    return {
        "apiVersion": TRAIN_JOB.api_version,
        "kind": TRAIN_JOB.kind,
        "metadata": {"name": "tune", "namespace": "ns"},
        "spec": {"runtimeRef": {"name": runtime}} | spec,
    }


def simulated(*documents: Json, cpu: int = 8) -> list[str]:
    builder = StateBuilder()
    builder.nodes(1, cpu=cpu)
    gates = FeatureGates(features.USUAL.on | {Feature.EXPECTED_PODS})
    return simulate(builder.state, documents, "ns", SearchBudget(), gates=gates).lines


def jobs(runtime: Json, **spec: Any) -> dict[str, Json]:
    """Return the Jobs of the JobSet, by their names."""
    made = jobset_of(train_job(runtime["metadata"]["name"], **spec), runtime)
    return {it["name"]: it["template"]["spec"] for it in made["spec"]["replicatedJobs"]}


@pytest.mark.parametrize(("cpu", "fits"), [(4, True), (3, False)])
def test_the_example_is_a_gang_of_all_its_nodes(cpu: int, fits: bool) -> None:
    lines = simulated(*documents_in([EXAMPLES / "trainer-runtime.yaml"]), cpu=cpu)

    assert lines[0].startswith("PodGroup ns/pg-tune")
    assert ("fits: n0 x4" in lines[1]) is fits


@pytest.mark.parametrize(("cpu", "fits"), [(16, True), (15, False)])
def test_initializers_need_no_room_beside_the_nodes(cpu: int, fits: bool) -> None:
    lines = simulated(*documents_in([EXAMPLES / "trainer-initializers.yaml"]), cpu=cpu)

    assert lines[1].startswith("  fits: n0 x1" if fits else "  Unschedulable (capacity)")


def test_a_train_job_wins_over_its_runtime() -> None:
    runtime = torch(numNodes=2)
    runtime["spec"]["template"]["metadata"] = {"annotations": {ANNOTATION_GANG_MODE: "Off"}}
    resources = {"requests": {"cpu": "3"}}
    override = {
        "targetJobs": [{"name": "node"}],
        "nodeSelector": {"pool": "a"},
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "node", "env": []}],
    }
    spec: Json = {
        "annotations": {ANNOTATION_GANG_MODE: "Gang"},
        "trainer": {"numNodes": 3, "resourcesPerNode": resources},
        "podSpecOverrides": [override, override | {"targetJobs": [{"name": "other"}]}],
    }
    made = jobset_of(train_job(**spec), runtime)

    assert made["metadata"]["annotations"] == {ANNOTATION_GANG_MODE: "Gang"}
    (node,) = made["spec"]["replicatedJobs"]
    assert (node["replicas"], node["template"]["spec"]["parallelism"]) == (1, 3)
    pod_spec = node["template"]["spec"]["template"]["spec"]
    assert pod_spec["nodeSelector"] == {"pool": "a"}
    assert pod_spec["tolerations"] == [{"operator": "Exists"}]
    (container,) = pod_spec["containers"]
    assert (container["image"], container["resources"]) == ("i", resources)
    assert container["ports"] == [{"containerPort": 29500}]


@pytest.mark.parametrize(
    ("trainer", "want"),
    [
        ({}, {"launcher": 1, "node": 1}),
        ({"numNodes": 4}, {"launcher": 1, "node": 3}),
        ({"numNodes": 1}, {"launcher": 1, "node": 1}),
    ],
)
def test_a_launcher_is_one_of_the_nodes(trainer: Json, want: dict[str, int]) -> None:
    found = jobs(MPI, trainer=trainer)

    assert {name: job["completions"] for name, job in found.items()} == want


def test_a_runtime_counts_without_the_train_job() -> None:
    assert jobs(torch(numNodes=5))["node"]["parallelism"] == 5


@pytest.mark.parametrize("listed", [False, True])
def test_where_the_runtime_is_makes_no_difference(listed: bool) -> None:
    documents = [train_job(trainer={"numNodes": 2}), torch()]
    if listed:
        documents = [{"apiVersion": "v1", "kind": "List", "items": documents}]

    assert sum("fits" in line for line in simulated(*documents)) == 2


def test_a_runtime_that_is_not_there_is_asked_for() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    want = (
        f"TrainJob tune: its {CLUSTER_RUNTIME} torch is not in the files: add the output of"
        " kubectl get clustertrainingruntime torch -o yaml"
    )

    assert simulated(pod, train_job())[-1] == f"left out: {want}"
    with pytest.raises(ConfigError, match=want):
        simulated(train_job())
    of_others = train_job() | {"apiVersion": "example.com/v1"}
    assert "not simulated" in simulated(pod, of_others)[-1]


def test_what_makes_no_pods_alone_is_said() -> None:
    with pytest.raises(ConfigError, match="ClusterTrainingRuntime torch: no TrainJob"):
        simulated(torch())
    theirs = torch()
    theirs["spec"]["podGroupPolicy"] = {"coscheduling": {}}
    with pytest.raises(ConfigError, match="another scheduler: remove the field"):
        simulated(theirs, train_job())


@pytest.mark.parametrize("path", ["template", "mlPolicy"])
@pytest.mark.parametrize("value", [None, 7, [], [None], "x", {"spec": {"replicatedJobs": [None]}}])
def test_what_no_api_server_would_take_is_a_refusal_at_most(path: str, value: Any) -> None:
    runtime = torch()
    runtime["spec"][path] = value
    with suppress(ConfigError):
        simulated(runtime, train_job())
