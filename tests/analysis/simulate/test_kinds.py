"""Real-world files in a simulation: mixed, of other projects, of kinds with the same name."""

from typing import Any

import pytest
import yaml

from analysis.simulate.kinds import without_nulls
from analysis.simulate.simulate import simulate
from kube.base.errors import ConfigError
from scheduler.core.search.place import SearchBudget
from tests.scheduler.state_builder import StateBuilder

Json = dict[str, Any]

ONE_CPU = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
TEMPLATE = {"spec": ONE_CPU}

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
END = "not simulated. If one of them creates pods, add these to the files."


def job(name: str = "a", **meta: Any) -> Json:
    spec = {"template": {"spec": {"restartPolicy": "Never", **ONE_CPU}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **meta},
        "spec": spec,
    }


def simulated(*documents: Json, nodes: int = 1, cpu: int = 8) -> list[str]:
    builder = StateBuilder()
    builder.nodes(nodes, cpu=cpu)
    return simulate(builder.state, documents, "ns", SearchBudget()).lines


def pods(lines: list[str]) -> list[str]:
    return [line.removeprefix("Pod ") for line in lines if line.startswith("Pod ")]


def test_other_kinds_are_named_and_left_out() -> None:
    lines = simulated(SERVICE, job(), CONFIG)

    assert lines == ["Pod a-0", "  fits: n0 x1", f"left out: Service s, ConfigMap m: {END}"]


def test_only_the_first_of_many_are_named() -> None:
    many = [SERVICE | {"metadata": {"name": f"s{at}"}} for at in range(12)]

    (*_, line) = simulated(job(), *many)

    assert line.startswith("left out: Service s0, ")
    assert line.endswith(f"Service s9 and 2 more: {END}")


@pytest.mark.parametrize("named", [{"metadata": {"generateName": "w-"}}, {}])
def test_an_object_without_a_name_is_left_out(named: Json) -> None:
    workflow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", **named}

    assert simulated(job(), workflow)[-1].startswith("left out: Workflow ")


def test_a_list_may_have_other_kinds() -> None:
    lines = simulated({"apiVersion": "v1", "kind": "List", "items": [SERVICE, job()]})

    assert pods(lines) == ["a-0"]
    assert lines[-1] == f"left out: Service s: {END}"


def test_nothing_that_can_be_simulated_is_an_error() -> None:
    with pytest.raises(
        ConfigError, match=r"Service s, ConfigMap m: unsupported kind: use one of .*JobSet"
    ):
        simulated(SERVICE, CONFIG)


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("scheduling.volcano.sh/v1beta1", "PodGroup"),
        ("scheduling.k8s.io/v1alpha2", "PodGroup"),
        ("scheduling.k8s.io/v1alpha2", "Workload"),
        ("kueue.x-k8s.io/v1beta1", "Workload"),
        ("serving.knative.dev/v1", "Pod"),
    ],
)
def test_a_kind_of_another_group_with_the_same_name_is_left_out(version: str, kind: str) -> None:
    foreign = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": {"a": 1}}

    lines = simulated(job(), foreign)

    assert lines[-1] == f"left out: {kind}.{version.partition('/')[0]} x: {END}"


def test_a_cron_job_is_simulated_as_one_of_its_jobs() -> None:
    annotations = {"scheduling.muster.dev/gang-mode": "Gang"}
    template = {
        "metadata": {"annotations": annotations},
        "spec": job()["spec"] | {"parallelism": 2},
    }
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}}

    lines = simulated(cron | {"spec": {"schedule": "@daily", "jobTemplate": template}})

    assert lines[0].startswith("PodGroup ns/pg-job-nightly: 0 of 2 pods scheduled")
    assert lines[1] == "  fits: n0 x2"


def group(name: str, **fields: Any) -> Json:
    return {"groupName": name, "template": TEMPLATE, **fields}


RAY = {
    "headGroupSpec": {"template": TEMPLATE},
    "workerGroupSpecs": [
        group("small", replicas=1, minReplicas=2),
        group("large", replicas=2, numOfHosts=2),
        group("later"),
        group("stopped", replicas=3, suspend=True),
        group("bounded", replicas=3, maxReplicas=0),
    ],
}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("RayCluster", RAY),
        ("RayJob", {"rayClusterSpec": RAY}),
        ("RayService", {"rayClusterConfig": RAY}),
    ],
)
def test_the_pods_of_a_ray_cluster(kind: str, spec: Json) -> None:
    ray = {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": "r"}, "spec": spec}

    assert sorted(pods(simulated(ray))) == [
        "r-head-0",
        *(f"r-large-worker-{at}" for at in range(4)),
        *(f"r-small-worker-{at}" for at in range(2)),
    ]


def test_a_ray_cluster_whose_pods_name_a_group_is_a_gang() -> None:
    meta = {
        "labels": {"scheduling.muster.dev/pod-group": "ray"},
        "annotations": {"scheduling.muster.dev/min-count": "3"},
    }
    template = {"metadata": meta, **TEMPLATE}
    spec = {
        "headGroupSpec": {"template": template},
        "workerGroupSpecs": [{"groupName": "w", "replicas": 2, "template": template}],
    }
    ray = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r"}}

    lines = simulated(ray | {"spec": spec}, cpu=2)

    assert lines[0].startswith("PodGroup ns/ray: 0 of 3 pods scheduled, minCount 3")
    assert lines[1].startswith("  Unschedulable (capacity)")


@pytest.mark.parametrize(
    ("kind", "spec", "want"),
    [
        pytest.param(
            "MPIJob",
            {
                "slotsPerWorker": 1,
                "mpiReplicaSpecs": {
                    "Launcher": {"template": TEMPLATE},
                    "Worker": {"replicas": 2, "template": TEMPLATE},
                },
            },
            ["x-launcher-0", "x-worker-0", "x-worker-1"],
            id="a launcher and workers",
        ),
        pytest.param(
            "MPIJob",
            {"mpiReplicaSpecs": {"Launcher": {"template": TEMPLATE}, "Worker": {}}},
            ["x-launcher-0"],
            id="no workers unless told",
        ),
        pytest.param(
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Master": {"template": TEMPLATE}}},
            ["x-master-0"],
            id="one pod of a role",
        ),
        pytest.param("TFJob", {"tfReplicaSpecs": None}, [], id="none"),
    ],
)
def test_the_pods_of_kubeflows_jobs(kind: str, spec: Json, want: list[str]) -> None:
    made = {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}

    assert pods(simulated(made)) == want


def test_what_is_null_in_a_file_is_absent() -> None:
    text = """
    apiVersion: batch/v1
    kind: Job
    metadata: {name: a, labels: , annotations: }
    spec:
      parallelism:
      completions:
      template:
        metadata:
        spec:
          nodeSelector:
          tolerations:
          affinity:
          volumes: [{name: v, emptyDir: , persistentVolumeClaim: }]
          containers: [{name: c, ports: , resources: {limits: , requests: }}]
    """

    assert simulated(yaml.safe_load(text)) == ["Pod a-0", "  fits: n0 x1"]
    assert without_nulls({"a": [None, {"b": None}]}) == {"a": [None, {}]}


@pytest.mark.parametrize("kind", ["JobSet", "Job", "LeaderWorkerSet", "Deployment", "RayCluster"])
@pytest.mark.parametrize("rest", [{}, {"spec": None}, {"spec": {}}, {"metadata": None}])
def test_an_object_without_a_spec_ends_in_a_reason_at_most(kind: str, rest: Json) -> None:
    assert reason_or_lines({"kind": kind, "metadata": {"name": "x"}, **rest}, kind)


def reason_or_lines(document: Json, kind: str) -> bool:
    """Return True if the error names the kind, or if the Job next to it is decided."""
    try:
        return "Pod a-0" in simulated(document, job())
    except ConfigError as error:
        return kind in str(error)


def test_pods_of_other_schedulers_are_counted_and_left_out() -> None:
    other = {
        "kind": "Pod",
        "metadata": {"name": "o"},
        "spec": {"schedulerName": "volcano"} | ONE_CPU,
    }
    usual = {"kind": "Pod", "metadata": {"name": "u"}}
    usual["spec"] = {"schedulerName": "default-scheduler"} | ONE_CPU

    assert simulated(other, usual) == [
        "Pod u",
        "  fits: n0 x1",
        "left out: 1 pod with schedulerName volcano, which is not Muster's",
    ]
