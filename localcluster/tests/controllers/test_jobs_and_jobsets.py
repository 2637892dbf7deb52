"""Jobs and JobSets on a running API server, in cases that the recorded flows do not cover."""

from typing import Any

import pytest

from localcluster.base.errors import StatusError
from localcluster.base.hooks import AdmissionRequest, DeleteOptions
from localcluster.testing.clock import settle
from localcluster.tests.controllers.builders import make_role
from localcluster.tests.controllers.cluster import SimulatedCluster, simulated_cluster

Obj = dict[str, Any]


def job(name: str = "work", **spec: Any) -> Obj:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example/a:1"}],
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def jobset(name: str, *roles: Obj, **spec: Any) -> Obj:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": list(roles), **spec},
    }


async def bind_all(cluster: SimulatedCluster) -> None:
    for pod in cluster.list("Pod"):
        await cluster.bind("default", pod["metadata"]["name"], "n")
    await cluster.settle()


def count(cluster: SimulatedCluster) -> dict[str, int]:
    """Return the number of objects by kind, without the Service that every cluster has."""
    kinds = ("JobSet", "Job", "Pod", "Service")
    every = {kind: cluster.list(kind) for kind in kinds}
    every["Service"] = [one for one in every["Service"] if one["metadata"]["name"] != "kubernetes"]
    return {kind: len(objects) for kind, objects in every.items()}


def reasons(cluster: SimulatedCluster) -> list[str]:
    return [event["reason"] for event in cluster.list("Event")]


class RefusePods:
    """Admission step that admits only that many pods."""

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self.asked = 0

    async def mutate(self, request: AdmissionRequest) -> None:
        return None

    async def validate(self, request: AdmissionRequest) -> None:
        if request.info.kind == "Pod" and request.operation == "CREATE":
            self.asked += 1
            if self.asked > self.allowed:
                raise StatusError(403, "Forbidden", "quota exceeded")


@pytest.mark.parametrize(
    "propagation",
    [
        pytest.param("Background", id="in the background"),
        pytest.param("Foreground", id="in the foreground"),
    ],
)
async def test_deleting_a_jobset_leaves_nothing_behind(propagation: Any) -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        roles = (make_role("a", replicas=2, pods=2), make_role("b"))
        await cluster.create(jobset("train", *roles))
        await cluster.settle()
        await bind_all(cluster)
        assert count(cluster) == {"JobSet": 1, "Job": 3, "Pod": 5, "Service": 1}

        options = DeleteOptions(propagation_policy=propagation)
        await cluster.api.delete(cluster.info("JobSet"), "train", "default", options=options)
        await cluster.settle()

        assert count(cluster) == {"JobSet": 0, "Job": 0, "Pod": 0, "Service": 0}


async def test_a_jobset_out_of_time_goes_with_all_that_is_its() -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(jobset("train", make_role("a"), ttlSecondsAfterFinished=60))
        await cluster.settle()
        await bind_all(cluster)
        await cluster.manager.nodes.finish("default")
        await cluster.pass_time(50)
        assert count(cluster)["JobSet"] == 1

        await cluster.pass_time(20)

        assert count(cluster) == {"JobSet": 0, "Job": 0, "Pod": 0, "Service": 0}


async def test_a_job_out_of_time_goes() -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(job(ttlSecondsAfterFinished=60))
        await cluster.settle()
        await bind_all(cluster)
        await cluster.manager.nodes.finish("default")
        await cluster.settle()
        assert count(cluster)["Job"] == 1

        await cluster.pass_time(61)

        assert (count(cluster)["Job"], count(cluster)["Pod"]) == (0, 0)


async def test_pods_that_are_refused_are_tried_again() -> None:
    async with simulated_cluster() as cluster:
        quota = RefusePods(allowed=1)
        cluster.api.admission.append(quota)
        await cluster.create(job(parallelism=3, completions=3))
        await cluster.clock.advance(0.01)
        assert cluster.get("Job", "work")["status"]["active"] == 1
        assert "FailedCreate" in reasons(cluster)

        quota.allowed = 100
        await cluster.pass_time(11)

        assert count(cluster)["Pod"] == 3
        assert cluster.get("Job", "work")["status"]["active"] == 3


async def test_after_a_refusal_no_more_pods_are_asked_for_at_once() -> None:
    async with simulated_cluster() as cluster:
        quota = RefusePods(allowed=1)
        cluster.api.admission.append(quota)
        await cluster.create(job(parallelism=64, completions=64))
        await settle()

        # One pod, then a batch of two that are both rejected; the other 61 have to wait.
        assert quota.asked == 3


async def test_a_resumed_job_takes_the_new_template_though_it_had_started() -> None:
    """A Job's template may change only while it has no start time."""
    async with simulated_cluster() as cluster:
        role = make_role("a")
        role["template"]["spec"]["managedBy"] = "example.com/other"
        await cluster.create(jobset("train", role, suspend=True))
        await cluster.settle()
        child = cluster.get("Job", "train-a-0")
        started = {**child, "status": {"startTime": "2026-01-01T00:00:00Z"}}
        await cluster.api.update(cluster.info("Job"), started, "default", subresource="status")

        roles = cluster.get("JobSet", "train")["spec"]["replicatedJobs"]
        template = roles[0]["template"]["spec"]["template"]
        spec = {**template["spec"], "nodeSelector": {"pool": "fast"}}
        job_spec = {**roles[0]["template"]["spec"], "template": {**template, "spec": spec}}
        roles = [{**roles[0], "template": {**roles[0]["template"], "spec": job_spec}}]
        await cluster.patch("JobSet", "train", {"spec": {"replicatedJobs": roles}})
        await cluster.patch("JobSet", "train", {"spec": {"suspend": False}})
        await cluster.settle()

        child = cluster.get("Job", "train-a-0")
        assert child["spec"]["suspend"] is False
        assert child["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "fast"}
        assert "startTime" not in child["status"]


async def test_repeated_events_are_counted() -> None:
    async with simulated_cluster() as cluster:
        cluster.api.admission.append(RefusePods(allowed=0))
        await cluster.create(job())
        await cluster.pass_time(1)

        (event,) = [one for one in cluster.list("Event") if one["reason"] == "FailedCreate"]
        assert event["count"] > 1
        assert event["source"] == {"component": "job-controller"}
        assert event["message"] == "Error creating: quota exceeded"


async def test_jobs_of_another_manager_are_left_alone() -> None:
    async with simulated_cluster() as cluster:
        await cluster.create(job(managedBy="example.com/other"))
        await cluster.create(jobset("x", make_role("a"), managedBy="example.com/other"))
        await cluster.settle()

        assert count(cluster) == {"JobSet": 1, "Job": 1, "Pod": 0, "Service": 0}


async def test_a_jobset_without_host_names_has_no_service() -> None:
    async with simulated_cluster() as cluster:
        network = {"enableDNSHostnames": False}
        await cluster.create(jobset("x", make_role("a"), network=network))
        await cluster.settle()

        assert (count(cluster)["Job"], count(cluster)["Service"]) == (1, 0)
        (pod,) = cluster.list("Pod")
        assert "subdomain" not in pod["spec"]


async def test_controllers_start_on_a_cluster_that_has_work_already() -> None:
    """A restarted controller finds a Job with a terminated pod that is not counted yet."""
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(job(parallelism=2, completions=2))
        await cluster.settle()
        await bind_all(cluster)
        await cluster.manager.stop()
        for pod in cluster.list("Pod"):
            status = {**pod["status"], "phase": "Succeeded"}
            ended = {**pod, "status": status}
            await cluster.api.update(cluster.info("Pod"), ended, "default", subresource="status")

        await cluster.restart_controllers()
        await cluster.settle()

        status = cluster.get("Job", "work")["status"]
        assert status["succeeded"] == 2
        assert [one["type"] for one in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
