"""The resource claim controller and the kubelets on a running API server.

e2e/kubernetes/apiserver covers the steps of the controller, and runs against real controllers too.
"""

from typing import Any

from localcluster.base import resources
from localcluster.controllers.resource_claims.claims import FINALIZER, from_template
from localcluster.tests.controllers.cluster import SimulatedCluster, simulated_cluster

Obj = dict[str, Any]

GROUP = "resource.k8s.io/v1"
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
ALLOCATION = {"devices": {"results": [RESULT]}}


def template(name: str = "gpu", **exactly: Any) -> Obj:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", **exactly}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    return _object("ResourceClaimTemplate", name, spec)


def claim(name: str) -> Obj:
    return _object("ResourceClaim", name, SPEC)


def _object(kind: str, name: str, spec: Obj) -> Obj:
    return {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec}


def pod(name: str, **entry: str) -> Obj:
    spec: Obj = {
        "containers": [{"name": "main", "image": "example/work:1"}],
        "resourceClaims": [{"name": "gpu", **entry}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def own(name: str) -> Obj:
    return pod(name, resourceClaimTemplateName="gpu")


def consumer(one: Obj) -> Obj:
    meta = one["metadata"]
    return {"resource": "pods", "name": meta["name"], "uid": meta["uid"]}


async def allocate(cluster: SimulatedCluster, name: str, *pods: Obj) -> None:
    await cluster.patch("ResourceClaim", name, {"metadata": {"finalizers": [FINALIZER]}})
    status = {"allocation": ALLOCATION, "reservedFor": [consumer(one) for one in pods]}
    await write_status(cluster, "ResourceClaim", name, status)


async def write_status(cluster: SimulatedCluster, kind: str, name: str, status: Obj) -> None:
    patch = {"status": status}
    await cluster.api.patch(cluster.info(kind), name, patch, "default", subresource="status")


def phase(cluster: SimulatedCluster, name: str) -> str:
    return str(cluster.get("Pod", name)["status"]["phase"])


def made_for(cluster: SimulatedCluster, name: str) -> str:
    (status,) = cluster.get("Pod", name)["status"]["resourceClaimStatuses"]
    return str(status["resourceClaimName"])


async def test_a_bound_pod_starts_when_its_claim_is_reserved_for_it() -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(template())
        await cluster.create(own("p"))
        await cluster.settle()
        await cluster.bind("default", "p", "n")
        await cluster.settle()
        assert phase(cluster, "p") == "Pending"

        await allocate(cluster, made_for(cluster, "p"))
        await cluster.settle()

        assert phase(cluster, "p") == "Running"


async def test_a_pod_does_not_start_with_the_claim_of_another() -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(template())
        first, second = [await cluster.create(own(name)) for name in ("a", "b")]
        await cluster.settle()
        theirs = made_for(cluster, "a")
        await allocate(cluster, theirs, first, second)
        statuses = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": theirs}]}
        await write_status(cluster, "Pod", "b", statuses)

        for name in ("a", "b"):
            await cluster.bind("default", name, "n")
        await cluster.settle()

        assert (phase(cluster, "a"), phase(cluster, "b")) == ("Running", "Pending")


async def test_an_entry_that_needs_no_claim_holds_nothing_up() -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(own("p"))
        await write_status(cluster, "Pod", "p", {"resourceClaimStatuses": [{"name": "gpu"}]})
        await cluster.create(template())

        await cluster.bind("default", "p", "n")
        await cluster.settle()

        assert phase(cluster, "p") == "Running"
        assert cluster.list("ResourceClaim") == []


async def test_a_pod_that_has_ended_gets_no_claim_again() -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(template())
        one = await cluster.create(own("p"))
        await cluster.settle()
        await allocate(cluster, made_for(cluster, "p"), one)
        await cluster.bind("default", "p", "n")
        await cluster.settle()

        await cluster.manager.nodes.finish("default")
        await cluster.settle()

        assert phase(cluster, "p") == "Succeeded"
        assert cluster.list("ResourceClaim") == []


async def test_new_controllers_find_the_claims_of_the_old_ones() -> None:
    async with simulated_cluster() as cluster:
        await cluster.create(template())
        await cluster.create(own("p"))
        await cluster.settle()
        first = made_for(cluster, "p")
        await write_status(cluster, "Pod", "p", {"resourceClaimStatuses": None})
        await cluster.restart_controllers()
        await cluster.settle()

        assert made_for(cluster, "p") == first
        assert len(cluster.list("ResourceClaim")) == 1


async def test_a_template_that_may_not_be_used_is_told_and_tried_again() -> None:
    async with simulated_cluster() as cluster:
        label = {"resource.kubernetes.io/admin-access": "true"}
        namespace = cluster.info("Namespace")
        await cluster.api.patch(namespace, "default", {"metadata": {"labels": label}})
        await cluster.create(template(adminAccess=True))
        unlabelled = {"metadata": {"labels": dict.fromkeys(label)}}
        await cluster.api.patch(namespace, "default", unlabelled)

        await cluster.create(own("p"))
        await cluster.clock.advance(1)

        told = {
            e["message"]
            for e in cluster.list("Event")
            if e["reason"] == "FailedResourceClaimCreation"
        }
        assert told
        assert all("admin access to devices requires the" in text for text in told)
        await cluster.api.patch(namespace, "default", {"metadata": {"labels": label}})
        await cluster.pass_time(30)
        assert made_for(cluster, "p").startswith("p-gpu-")


async def test_a_full_claim_takes_no_more_pods_until_one_leaves() -> None:
    async with simulated_cluster() as cluster:
        await cluster.manager.nodes.add("n")
        await cluster.create(claim("shared"))
        others = [
            {"apiGroup": "example.com", "resource": "things", "name": "t", "uid": f"u{number}"}
            for number in range(256)
        ]
        await allocate(cluster, "shared")
        status = {"allocation": ALLOCATION, "reservedFor": others}
        await write_status(cluster, "ResourceClaim", "shared", status)
        await cluster.create(pod("p", resourceClaimName="shared"))
        await cluster.bind("default", "p", "n")
        await cluster.clock.advance(1)
        assert phase(cluster, "p") == "Pending"

        await write_status(
            cluster, "ResourceClaim", "shared", {**status, "reservedFor": others[1:]}
        )
        await cluster.pass_time(30)

        assert phase(cluster, "p") == "Running"


async def test_the_claims_of_one_pod_are_not_those_of_another_namespace() -> None:
    async with simulated_cluster() as cluster:
        await cluster.api.create(resources.NAMESPACES, {"metadata": {"name": "other"}})
        await cluster.create(template(), "other")
        await cluster.create(own("p"))
        await cluster.settle()

        assert cluster.list("ResourceClaim") == []


def test_what_a_template_says_is_kept_but_the_entry_is_the_controllers() -> None:
    given = template()
    entry = "resource.kubernetes.io/pod-claim-name"
    given["spec"]["metadata"] = {"annotations": {entry: "forged", "a": "b"}, "labels": {"c": "d"}}

    made = from_template(given, {"metadata": {"name": "p", "uid": "1"}, "spec": {}}, "gpu")

    assert made["metadata"]["annotations"] == {entry: "gpu", "a": "b"}
    assert made["metadata"]["labels"] == {"c": "d"}
