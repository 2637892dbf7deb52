"""Simulated nodes on a running API server: pods start, terminate, stop, and are rejected."""

from typing import Any

import pytest

from localcluster.base.errors import StatusError
from localcluster.base.hooks import AdmissionRequest, DeleteOptions
from localcluster.controllers import kubelet
from localcluster.tests.controllers.cluster import SimulatedCluster, simulated_cluster

Obj = dict[str, Any]

CPU = "1"


def pod(name: str, node: str = "n", *, cpu: str = CPU, **meta: Any) -> Obj:
    spec: Obj = {
        "terminationGracePeriodSeconds": 30,
        "containers": [
            {"name": "main", "image": "example/work:1", "resources": {"requests": {"cpu": cpu}}}
        ],
    }
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": spec}


def phase(cluster: SimulatedCluster, name: str) -> str:
    found: str = cluster.get("Pod", name)["status"]["phase"]
    return found


def names(cluster: SimulatedCluster, kind: str = "Pod") -> list[str]:
    return [one["metadata"]["name"] for one in cluster.list(kind)]


async def test_a_node_made_by_a_client_becomes_ready() -> None:
    async with simulated_cluster() as cluster:
        await cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}, "")
        await cluster.settle()

        node = cluster.get("Node", "n", "")
        assert node["status"]["allocatable"] == {"cpu": "8", "memory": "32Gi", "pods": "110"}
        conditions = {one["type"]: one["status"] for one in node["status"]["conditions"]}
        assert conditions["Ready"] == "True"
        assert "taints" not in node["spec"]


async def test_a_node_has_the_capacity_labels_and_taints_it_was_given() -> None:
    async with simulated_cluster() as cluster:
        taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
        await cluster.manager.nodes.add(
            "n",
            labels={"rack": "r1"},
            capacity={"cpu": "2", "example.com/gpu": "8"},
            taints=[taint],
        )
        await cluster.settle()

        node = cluster.get("Node", "n", "")
        assert node["metadata"]["labels"]["rack"] == "r1"
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n"
        assert node["status"]["allocatable"]["example.com/gpu"] == "8"
        assert node["status"]["allocatable"]["pods"] == "110"
        assert node["spec"]["taints"] == [taint]


async def test_bound_pods_run_each_at_an_address_of_its_own() -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(pod("a"))
        await cluster.create(pod("b", node=""))
        await cluster.settle()
        assert (phase(cluster, "a"), phase(cluster, "b")) == ("Running", "Pending")

        await cluster.bind("default", "b", "n")
        await cluster.settle()

        assert phase(cluster, "b") == "Running"
        addresses = {one["status"]["podIP"] for one in cluster.list("Pod")}
        assert len(addresses) == 2


async def test_a_pod_that_overfills_its_node_is_refused_until_there_is_room() -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n", capacity={"cpu": "2"})
        for name in ("a", "b", "c"):
            await cluster.create(pod(name))
        await cluster.settle()

        refused = cluster.get("Pod", "c")["status"]
        assert (refused["phase"], refused["reason"]) == ("Failed", "OutOfcpu")
        assert "cpu, requested: 1000, used: 2000, capacity: 2000" in refused["message"]

        await cluster.manager.nodes.finish("default", phase="Succeeded")
        await cluster.create(pod("d", cpu="2"))
        await cluster.settle()
        assert phase(cluster, "d") == "Running"


async def test_a_pod_bound_before_its_node_came_runs_when_it_does() -> None:
    async with simulated_cluster() as cluster:
        await cluster.create(pod("a", node=""))
        await cluster.manager.nodes.add("n")
        await cluster.manager.nodes.set_ready("n", "False")
        await cluster.bind("default", "a", "n")
        await cluster.settle()
        assert phase(cluster, "a") == "Pending"

        await cluster.manager.nodes.set_ready("n", "True")
        await cluster.settle()
        assert phase(cluster, "a") == "Running"


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param("Succeeded", id="with success"),
        pytest.param("Failed", id="with failure"),
    ],
)
async def test_an_annotation_ends_a_pod(wanted: str) -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(pod("early", annotations={"muster.dev/finish": wanted}))
        await cluster.create(pod("late"))
        await cluster.settle()
        assert phase(cluster, "early") == wanted

        note = {"metadata": {"annotations": {"muster.dev/finish": wanted}}}
        await cluster.patch("Pod", "late", note)
        await cluster.settle()
        assert phase(cluster, "late") == wanted


async def test_only_the_selected_pods_are_finished() -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(pod("a", labels={"role": "x"}))
        await cluster.create(pod("b", labels={"role": "y"}))
        await cluster.settle()

        assert await cluster.manager.nodes.finish("default", "role=x", "Failed") == 1
        assert (phase(cluster, "a"), phase(cluster, "b")) == ("Failed", "Running")


async def test_a_deleted_pod_stops_after_its_grace_and_no_later_than_the_cap() -> None:
    async with simulated_cluster() as cluster:
        cluster.manager.nodes.grace_cap = 2.0
        await cluster.manager.nodes.add("n")
        await cluster.create(pod("a"))
        await cluster.settle()

        await cluster.api.delete(cluster.info("Pod"), "a", "default")
        await cluster.clock.advance(1)
        assert names(cluster) == ["a"]
        await cluster.clock.advance(2)
        assert names(cluster) == []


async def test_a_pod_that_has_ended_needs_no_grace() -> None:
    async with simulated_cluster() as cluster:
        cluster.manager.nodes.grace_cap = 30.0
        await cluster.manager.nodes.add("n")
        await cluster.create(pod("a", annotations={"muster.dev/finish": "Succeeded"}))
        await cluster.settle()

        await cluster.api.delete(cluster.info("Pod"), "a", "default")
        await cluster.clock.advance(0.1)
        assert names(cluster) == []


async def test_a_pod_whose_start_could_not_be_written_takes_no_place() -> None:
    class Busy:
        """Admission step that rejects the first status."""

        refusals = 1

        async def mutate(self, request: AdmissionRequest) -> None:
            return None

        async def validate(self, request: AdmissionRequest) -> None:
            if request.subresource == "status" and request.info.kind == "Pod" and self.refusals:
                self.refusals -= 1
                raise StatusError(500, "InternalError", "try again")

    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n", capacity={"cpu": "1"})
        cluster.api.admission.append(Busy())
        await cluster.create(pod("a"))
        await cluster.settle()

        assert phase(cluster, "a") == "Running"


async def test_a_node_that_is_back_at_once_keeps_its_pods() -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(pod("a"))
        await cluster.settle()

        await cluster.api.delete(cluster.info("Node"), "n")
        await cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}, "")
        await cluster.settle()

        assert (names(cluster), phase(cluster, "a")) == (["a"], "Running")


async def test_a_finalizer_holds_a_pod_that_has_stopped() -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(pod("a", finalizers=["example.com/hold"]))
        await cluster.settle()

        await cluster.api.delete(cluster.info("Pod"), "a", "default")
        await cluster.settle()
        held = cluster.get("Pod", "a")
        assert held["metadata"]["deletionGracePeriodSeconds"] == 0

        await cluster.patch("Pod", "a", {"metadata": {"finalizers": None}})
        await cluster.settle()
        assert names(cluster) == []


@pytest.mark.parametrize(
    ("readiness", "taint"),
    [
        pytest.param("False", "node.kubernetes.io/not-ready", id="not ready"),
        pytest.param("Unknown", "node.kubernetes.io/unreachable", id="lost"),
    ],
)
async def test_a_node_that_fails_is_tainted_and_its_pods_are_not_ready(
    readiness: Any, taint: str
) -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(pod("a"))
        await cluster.settle()

        await cluster.manager.nodes.set_ready("n", readiness)
        await cluster.settle()
        node = cluster.get("Node", "n", "")
        assert {(one["key"], one["effect"]) for one in node["spec"]["taints"]} == {
            (taint, "NoSchedule"),
            (taint, "NoExecute"),
        }
        assert ready(cluster, "a") == "False"

        await cluster.manager.nodes.set_ready("n", "True")
        await cluster.settle()
        assert "taints" not in cluster.get("Node", "n", "")["spec"]
        assert ready(cluster, "a") == "True"


def ready(cluster: SimulatedCluster, name: str) -> str:
    conditions = cluster.get("Pod", name)["status"]["conditions"]
    found: str = next(one["status"] for one in conditions if one["type"] == "Ready")
    return found


async def test_a_lost_node_keeps_its_deleted_pods() -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(pod("a"))
        await cluster.settle()
        await cluster.manager.nodes.set_ready("n", "Unknown")

        await cluster.api.delete(cluster.info("Pod"), "a", "default")
        await cluster.settle()
        assert names(cluster) == ["a"]

        await cluster.manager.nodes.set_ready("n", "True")
        await cluster.settle()
        assert names(cluster) == []


async def test_the_pods_of_a_removed_node_are_cleared_away() -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(pod("a"))
        await cluster.create(pod("held", finalizers=["example.com/hold"]))
        await cluster.settle()

        await cluster.manager.nodes.remove("n")
        await cluster.settle()

        assert names(cluster) == ["held"]
        held = cluster.get("Pod", "held")
        assert held["status"]["phase"] == "Failed"
        target = next(c for c in held["status"]["conditions"] if c["type"] == "DisruptionTarget")
        assert target["reason"] == "DeletionByPodGC"


async def test_no_kubelet_starts_an_unbound_pod() -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(pod("a", node=""))
        await cluster.settle()

        assert phase(cluster, "a") == "Pending"


async def test_a_budget_follows_its_pods() -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
        meta = {"name": "guard"}
        await cluster.create(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": meta,
                "spec": budget,
            }
        )
        for name in ("a", "b"):
            await cluster.create(pod(name, labels={"app": "x"}))
        await cluster.settle()
        assert cluster.get("PodDisruptionBudget", "guard")["status"]["disruptionsAllowed"] == 1

        now = DeleteOptions(grace_period_seconds=0)
        await cluster.api.delete(cluster.info("Pod"), "a", "default", options=now)
        await cluster.settle()
        assert cluster.get("PodDisruptionBudget", "guard")["status"]["disruptionsAllowed"] == 0


def test_a_resource_that_devices_stand_for_is_not_taken_of_the_node() -> None:
    made = pod("a")
    uses = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "r"}
    claim = {"resourceClaimName": "a-x", "requestMappings": [uses]}
    made["status"] = {"extendedResourceClaimStatus": claim}
    requested = {"cpu": 1000, "example.com/gpu": 1, "example.com/nic": 1}

    assert kubelet.of_node(made, requested) == {"cpu": 1000, "example.com/nic": 1}
    assert kubelet.of_node(pod("b"), requested) == requested
