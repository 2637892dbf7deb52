"""StatefulSets and Deployments that request a group: created, scaled, updated, and deleted."""

import copy
from typing import Any

import msgspec
import pytest

from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_WAITING_FOR,
    LABEL_POD_GROUP,
)
from api.integration.kinds import SINGLE_GROUP_KINDS
from controllers.cache.decoding import decode_single_group
from kube.base.errors import Conflict
from tests.controllers.conftest import ControllerHarness
from tests.controllers.owners.test_owner_status import blocked
from tests.support.apps import admitted, deployment, stateful_set
from tests.support.builders import make_pod
from tests.support.parts import mpi_job, ray_cluster, ray_job, worker_group

Json = dict[str, Any]


def put(harness: ControllerHarness, obj: Json, uid: str = "r") -> str:
    """Store an object after admission; return the name of its group."""
    stored = harness.api.objects.get((obj["kind"], "default", obj["metadata"]["name"]))
    made = admitted(obj, stored, request_uid=uid)
    made["metadata"] = (stored or {"metadata": {}})["metadata"] | made["metadata"]
    harness.api.put(made)
    return str(made["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP])


def min_count(harness: ControllerHarness, group: str) -> int:
    spec = harness.api.objects["PodGroup", "default", group]["spec"]
    return int(spec["schedulingPolicy"]["gang"]["minCount"])


def pods(harness: ControllerHarness, group: str, count: int, first: int = 0) -> None:
    for at in range(first, first + count):
        pod = make_pod(f"p{at}").managed(group).bound_to("n").build()
        harness.api.put(pod | {"kind": "Pod", "status": {"phase": "Running"}})


def status(harness: ControllerHarness, obj: Json, replicas: int, updated: int) -> None:
    stored = harness.api.objects[obj["kind"], "default", obj["metadata"]["name"]]
    harness.api.put(stored | {"status": {"replicas": replicas, "updatedReplicas": updated}})


@pytest.mark.parametrize("make", [stateful_set, deployment])
async def test_the_group_is_made_before_any_pod_and_goes_with_its_owner(
    harness: ControllerHarness, make: Any
) -> None:
    obj = make(gang_mode="Gang", disruption_mode="All")
    group = put(harness, obj)
    await harness.settle()

    assert harness.api.names("PodGroup", "Workload") == [group]
    assert min_count(harness, group) == 4
    assert harness.api.writes == [("create", "PodGroup", group)]

    pods(harness, group, 4)
    harness.api.remove(obj["kind"], "default", obj["metadata"]["name"])
    await harness.settle(seconds=60)
    assert harness.api.names("PodGroup") == [group], "its pods still end"
    for name in harness.api.names("Pod"):
        harness.api.remove("Pod", "default", name)
    await harness.settle(seconds=60)
    assert harness.api.names("PodGroup") == []


async def test_what_asks_for_nothing_costs_nothing(harness: ControllerHarness) -> None:
    harness.api.put(deployment())
    harness.api.put(admitted(stateful_set(gang_mode="Off")))
    # As a user may write it: an annotation on one side alone has no effect.
    forged = deployment("forged", gang_mode="Gang")
    forged["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP] = "forged"
    harness.api.put(forged)
    marked = admitted(deployment("marked", gang_mode="Gang"))
    del marked["metadata"]["annotations"][ANNOTATION_GANG_MODE]
    harness.api.put(marked)
    await harness.settle(seconds=60)

    assert harness.api.writes == []


async def test_min_count_follows_the_replicas(harness: ControllerHarness) -> None:
    group = put(harness, deployment(gang_mode="Gang", min_count="6"))
    await harness.settle()
    for replicas, want in ((5, 5), (9, 6), (2, 2)):
        harness.change("Deployment", "web", replicas=replicas)
        await harness.settle()
        assert min_count(harness, group) == want


async def test_from_zero_no_pod_meets_an_old_minimum(harness: ControllerHarness) -> None:
    group = put(harness, deployment(replicas=0, gang_mode="Gang"))
    await harness.settle()
    assert harness.api.names("PodGroup") == []

    harness.change("Deployment", "web", replicas=3)
    await harness.settle()
    assert min_count(harness, group) == 3

    pods(harness, group, 3)
    harness.change("Deployment", "web", replicas=0)
    await harness.settle()
    assert min_count(harness, group) == 3, "its pods still end"
    for name in harness.api.names("Pod"):
        harness.api.remove("Pod", "default", name)
    await harness.settle()
    assert harness.api.names("PodGroup") == []


async def test_an_update_from_pods_without_a_group_is_never_blocked(
    harness: ControllerHarness,
) -> None:
    harness.api.put(deployment())
    group = put(harness, deployment(gang_mode="Gang"))
    await harness.settle()
    assert min_count(harness, group) == 4
    wants = []
    for updated in range(1, 5):
        pods(harness, group, 1, first=updated)
        status(harness, deployment(), 5 if updated < 4 else 4, updated)
        await harness.settle(seconds=1)
        wants.append(min_count(harness, group))

    assert wants == [1, 1, 2, 4]


async def test_an_update_of_pods_in_the_group_keeps_the_minimum(harness: ControllerHarness) -> None:
    obj = stateful_set(gang_mode="Gang")
    group = put(harness, obj)
    pods(harness, group, 4)
    await harness.settle()

    status(harness, obj, 4, 1)
    await harness.settle(seconds=1)

    assert min_count(harness, group) == 4


@pytest.mark.parametrize("make", [stateful_set, deployment])
async def test_a_template_that_fits_no_node_can_be_corrected(
    harness: ControllerHarness, make: Any
) -> None:
    """Its controller creates one or two pods of the new one, and waits until they are ready."""
    obj = make(gang_mode="Gang")
    group = put(harness, obj)
    waiting(harness, group, 4)
    await harness.settle()
    status(harness, obj, 4, 0)
    await harness.settle(seconds=1)
    assert min_count(harness, group) == 4, "none of the new pods is there"

    waiting(harness, group, 1, first=4)
    status(harness, obj, 5, 1)
    await harness.settle(seconds=1)
    assert min_count(harness, group) == 1

    pods(harness, group, 1, first=4)
    condition = {"type": "PodGroupInitiallyScheduled", "status": "True"}
    stored = harness.api.objects["PodGroup", "default", group]
    harness.api.put(stored | {"status": {"conditions": [condition]}})
    await harness.settle(seconds=1)
    assert min_count(harness, group) == 4, "it has started: each new pod counts with those that run"
    status(harness, obj, 4, 4)
    await harness.settle(seconds=1)
    assert min_count(harness, group) == 4


def waiting(harness: ControllerHarness, group: str, count: int, first: int = 0) -> None:
    for at in range(first, first + count):
        harness.api.put(make_pod(f"p{at}").managed(group).build() | {"kind": "Pod"})


@pytest.mark.parametrize(("make", "left"), [(stateful_set, None), (deployment, "")])
async def test_it_is_told_what_it_waits_for(
    harness: ControllerHarness, make: Any, left: str | None
) -> None:
    obj = make(gang_mode="Gang")
    slot = (obj["kind"], "default", obj["metadata"]["name"])
    group = put(harness, obj)
    await harness.settle()
    harness.api.sent.clear()
    replica_set: dict[str, str] = {}

    def copy() -> Any:
        """Copy annotations as the Deployment controller does, which removes none."""
        replica_set.update(harness.api.objects[slot]["metadata"]["annotations"])
        return harness.api.objects[slot]["metadata"]["annotations"].get(ANNOTATION_WAITING_FOR)

    blocked(harness, group, "needs 4 pods, 3 fit")
    await harness.settle(seconds=1)
    await harness.settle(seconds=3)

    assert copy() == f"PodGroup {group}: needs 4 pods, 3 fit"
    assert harness.api.writes == [("patch", slot[0], slot[2])]
    blocked(harness, group, "")
    await harness.settle(seconds=60)
    assert copy() == left
    assert slot[0] != "Deployment" or replica_set[ANNOTATION_WAITING_FOR] == ""
    await harness.new_term()
    await harness.settle(seconds=60)
    assert len(harness.api.writes) == 2, "it is cleared once"


async def test_who_asks_no_more_loses_the_group_with_its_last_pod(
    harness: ControllerHarness,
) -> None:
    group = put(harness, deployment(gang_mode="Gang"))
    pods(harness, group, 2)
    await harness.settle()
    put(harness, deployment())
    await harness.settle()
    assert harness.api.names("PodGroup") == [group]

    for name in harness.api.names("Pod"):
        harness.api.remove("Pod", "default", name)
    await harness.settle(seconds=1)
    assert harness.api.names("PodGroup") == []


async def test_asking_again_makes_a_group_of_its_own(harness: ControllerHarness) -> None:
    first = put(harness, deployment(gang_mode="Gang"))
    await harness.settle()
    pods(harness, first, 1)
    put(harness, deployment())
    await harness.settle()
    second = put(harness, deployment(gang_mode="Gang", topology="rack"), uid="later")
    await harness.settle()
    assert harness.api.names("PodGroup") == sorted([first, second])

    harness.api.remove("Pod", "default", "p0")
    await harness.settle(seconds=1)
    assert harness.api.names("PodGroup") == [second]


async def test_a_group_of_others_is_never_touched(harness: ControllerHarness) -> None:
    obj = deployment(gang_mode="Gang")
    group = admitted(obj)["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP]
    theirs = harness.api.put(
        {
            "kind": "PodGroup",
            "metadata": {"name": group, "namespace": "default"},
            "spec": {"schedulingPolicy": {"basic": {}}},
        }
    )
    put(harness, obj)
    await harness.settle()

    assert harness.api.objects["PodGroup", "default", group] == theirs
    assert ("Deployment", "web", "NameTaken") in harness.recorded.events


async def test_a_conflict_is_tried_again(harness: ControllerHarness) -> None:
    harness.api.fail(Conflict(409, "Conflict", "x"))
    group = put(harness, stateful_set(gang_mode="Gang"))
    await harness.settle()
    await harness.settle(seconds=10)

    assert min_count(harness, group) == 4


async def test_thousands_that_ask_for_nothing_are_kept_by_name_alone() -> None:
    obj = deployment()
    obj["metadata"] |= {"annotations": {"note": "x" * 100_000}, "uid": "u"}
    kept = decode_single_group(SINGLE_GROUP_KINDS["Deployment"], msgspec.json.encode(obj))

    assert (kept.metadata.annotations, kept.spec, kept.metadata.uid) == ({}, b"", "u")
    asking = copy.deepcopy(admitted(deployment(gang_mode="Gang")))
    assert decode_single_group(SINGLE_GROUP_KINDS["Deployment"], msgspec.json.encode(asking)).spec


async def test_a_status_without_an_update_queues_nothing(harness: ControllerHarness) -> None:
    """Every pod that becomes ready changes the status of its Deployment."""
    obj = deployment(gang_mode="Gang")
    put(harness, obj)
    await harness.settle()
    for ready in range(5):
        status(harness, obj, ready, ready)

    assert len(harness.single_groups[1].controller.queue) == 0


async def test_hundreds_that_ask_cost_one_write_each_and_no_more(
    harness: ControllerHarness,
) -> None:
    for at in range(400):
        obj = admitted(deployment(f"web-{at}", 10**9, gang_mode="Gang"), request_uid=str(at))
        harness.api.put(obj)
    await harness.settle()
    await harness.settle(seconds=60)

    assert len(harness.api.writes) == 400
    assert {verb for verb, _, _ in harness.api.writes} == {"create"}


REVISION = "deployment.kubernetes.io/revision"


class DeploymentController:
    """Kubernetes' copies of annotations to the ReplicaSet of the current template, and no others.

    It removes none from a ReplicaSet, and `kubectl rollout undo` gives a Deployment those of the
    ReplicaSet that it returns to.
    """

    def __init__(self, harness: ControllerHarness, group: str) -> None:
        self.api = harness.api
        self.group = group
        self.revision = 1

    @property
    def meta(self) -> Json:
        found: Json = self.api.objects["Deployment", "default", "web"]["metadata"]
        return found

    def sync(self) -> None:
        name, meta = f"web-{self.revision}", self.meta
        notes = meta["annotations"] | {REVISION: str(self.revision)}
        self.api.put(
            self.api.objects["Deployment", "default", "web"]
            | {"metadata": meta | {"annotations": notes}}
        )
        before = self.api.objects.get(("ReplicaSet", "default", name), {"metadata": {}})["metadata"]
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
        self.api.put(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "uid": f"uid-{name}",
                    "labels": {LABEL_POD_GROUP: self.group},
                    "annotations": before.get("annotations", {}) | notes,
                    "ownerReferences": [owner | {"uid": meta["uid"]}],
                },
            }
        )

    def said(self) -> list[str]:
        """Return the annotations of the ReplicaSets, in the order of their revisions."""
        found = [
            self.api.objects["ReplicaSet", "default", f"web-{at}"]["metadata"]
            for at in range(1, self.revision + 1)
        ]
        return [it["annotations"].get(ANNOTATION_WAITING_FOR, "") for it in found]


async def test_replica_sets_of_earlier_templates_lose_what_they_copied(
    harness: ControllerHarness,
) -> None:
    group = put(harness, deployment(gang_mode="Gang"))
    theirs = DeploymentController(harness, group)
    await harness.settle()
    for number in (1, 2, 3):
        theirs.revision = number
        theirs.sync()
        blocked(harness, group, f"{number} fit")
        await harness.settle(seconds=1)
        await harness.settle(seconds=20)
        theirs.sync()
        assert theirs.said() == [""] * (number - 1) + [f"PodGroup {group}: {number} fit"]

    theirs.revision = 4
    theirs.sync()
    blocked(harness, group, "")
    await harness.settle(seconds=60)
    theirs.sync()
    assert theirs.said() == [""] * 4
    writes = len(harness.api.writes)
    await harness.settle(seconds=600)
    assert len(harness.api.writes) == writes


async def test_an_update_that_is_undone_leaves_nothing_on_its_replica_set(
    harness: ControllerHarness,
) -> None:
    """The rollback itself removes the annotation from the Deployment."""
    group = put(harness, deployment(gang_mode="Gang"))
    theirs = DeploymentController(harness, group)
    await harness.settle()
    theirs.sync()
    theirs.revision = 2
    theirs.sync()
    blocked(harness, group, "needs 4 pods, 3 fit")
    await harness.settle(seconds=1)
    await harness.settle(seconds=3)
    theirs.sync()
    assert theirs.said() == ["", f"PodGroup {group}: needs 4 pods, 3 fit"]

    notes = {k: v for k, v in theirs.meta["annotations"].items() if k != ANNOTATION_WAITING_FOR}
    stored = harness.api.objects["Deployment", "default", "web"]
    harness.api.put(stored | {"metadata": theirs.meta | {"annotations": notes}})
    blocked(harness, group, "")
    await harness.settle(seconds=60)

    assert theirs.said() == ["", ""]


async def test_replica_sets_of_others_are_left_alone(harness: ControllerHarness) -> None:
    group = put(harness, deployment(gang_mode="Gang"))
    theirs = DeploymentController(harness, group)
    blocked_before = {ANNOTATION_WAITING_FOR: "mine", REVISION: "0"}
    meta = {"name": "own", "namespace": "default", "labels": {LABEL_POD_GROUP: group}}
    own = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta}
    harness.api.put(own | {"metadata": meta | {"annotations": blocked_before}})
    await harness.settle()
    theirs.sync()
    blocked(harness, group, "3 fit")
    await harness.settle(seconds=1)
    await harness.settle(seconds=3)

    kept = harness.api.objects["ReplicaSet", "default", "own"]["metadata"]["annotations"]
    assert kept[ANNOTATION_WAITING_FOR] == "mine"


def stored(harness: ControllerHarness, obj: Json) -> Json:
    """Return the object in the API server, as admission left it."""
    found: Json = harness.api.objects[obj["kind"], "default", obj["metadata"]["name"]]
    return found


@pytest.mark.parametrize(("obj", "count"), [(ray_cluster(), 3), (mpi_job(4), 5)])
async def test_kinds_of_several_templates_get_one_group(
    harness: ControllerHarness, obj: Json, count: int
) -> None:
    group = put(harness, obj)
    await harness.settle()

    assert min_count(harness, group) == count
    made = harness.api.objects["PodGroup", "default", group]
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["apiVersion"]) == (obj["kind"], obj["apiVersion"])


async def test_a_ray_cluster_that_is_suspended_has_no_group_until_it_is_resumed(
    harness: ControllerHarness,
) -> None:
    group = put(harness, ray_cluster())
    await harness.settle()
    harness.change("RayCluster", "ring", suspend=True)
    await harness.settle(seconds=60)
    assert harness.api.names("PodGroup") == []

    harness.change("RayCluster", "ring", suspend=False)
    await harness.settle()
    assert harness.api.names("PodGroup") == [group]


async def test_an_mpi_job_that_has_ended_keeps_its_group_as_it_is(
    harness: ControllerHarness,
) -> None:
    obj = mpi_job(4)
    group = put(harness, obj)
    await harness.settle()
    writes = len(harness.api.writes)

    ended = {"conditions": [{"type": "Succeeded", "status": "True"}]}
    roles = stored(harness, obj)["spec"]["mpiReplicaSpecs"]
    fewer = {"mpiReplicaSpecs": {**roles, "Worker": {**roles["Worker"], "replicas": 0}}}
    harness.api.put(stored(harness, obj) | {"spec": fewer, "status": ended})
    await harness.settle(seconds=60)

    assert min_count(harness, group) == 5
    assert len(harness.api.writes) == writes


async def test_the_pod_that_cleans_up_after_a_deleted_ray_cluster_waits_for_nobody(
    harness: ControllerHarness,
) -> None:
    """It has the head's template, after the head and the workers are deleted (KubeRay)."""
    obj = ray_cluster(worker_group(replicas=7))
    group = put(harness, obj)
    await harness.settle()
    assert min_count(harness, group) == 8

    gone = copy.deepcopy(stored(harness, obj))
    gone["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["ray.io/x"]}
    harness.api.put(gone)
    await harness.settle()

    assert min_count(harness, group) == 1


async def test_a_deleted_owner_without_a_group_gets_none(harness: ControllerHarness) -> None:
    gone = admitted(ray_cluster())
    gone["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["ray.io/x"]}
    harness.api.put(gone)
    await harness.settle()
    assert harness.api.names("PodGroup") == []


async def test_the_ray_job_reports_what_its_cluster_waits_for(harness: ControllerHarness) -> None:
    job = ray_job()
    harness.api.put(job)
    uid = stored(harness, job)["metadata"]["uid"]
    cluster = ray_cluster(name="train-x7k2p")
    reference = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "train", "uid": uid}
    cluster["metadata"]["ownerReferences"] = [reference | {"controller": True}]
    group = put(harness, cluster)
    await harness.settle()
    blocked(harness, group, "needs 3 pods")
    for _ in range(3):
        await harness.settle(seconds=3)

    for obj in (cluster, job):
        said = stored(harness, obj)["metadata"]["annotations"][ANNOTATION_WAITING_FOR]
        assert said == f"PodGroup {group}: needs 3 pods"
    assert ("RayJob", "train", "FailedScheduling") in harness.recorded.events
