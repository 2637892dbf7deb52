"""The owners of groups that pods request: the common owner of their pods."""

import pytest

from controllers.groups.owner_chain import MOST_CONTROLLERS
from kube.base.errors import Forbidden, Unreachable
from tests.controllers.asking import (
    LAG,
    MPI,
    SET,
    Owner,
    asking,
    existing,
    group,
    owned,
    owner_of,
    submit,
)
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import make_pod
from tests.support.memory_api import FOREVER

AWAY = Unreachable("GET", "/", "reset")


async def test_the_owner_is_the_highest_that_is_no_pod(harness: ControllerHarness) -> None:
    # As in LeaderWorkerSet: a worker's StatefulSet belongs to the leader's pod.
    lws = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lws")
    leaders, workers = ("apps/v1", "StatefulSet", "leaders"), ("apps/v1", "StatefulSet", "workers")
    existing(harness, lws)
    existing(harness, leaders, lws)
    leader = owned(asking("leader"), leaders).build()
    leader["metadata"]["uid"] = "uid-leader"
    existing(harness, workers, ("v1", "Pod", "leader"))
    harness.api.put(leader | {"kind": "Pod"})
    submit(harness, owned(asking("worker"), workers))

    await harness.settle()

    assert owner_of(harness) == ("LeaderWorkerSet", "uid-lws")
    (reference,) = group(harness)["metadata"]["ownerReferences"]
    assert "blockOwnerDeletion" not in reference  # it would need permissions for every kind


async def test_what_two_kinds_of_pods_have_in_common_is_the_owner(
    harness: ControllerHarness,
) -> None:
    launcher = ("batch/v1", "Job", "mpi-launcher")
    existing(harness, MPI)
    submit(harness, owned(asking("worker"), MPI))
    await harness.settle()
    job = {"name": "mpi-launcher", "namespace": "default", "uid": "uid-mpi-launcher"}
    job["ownerReferences"] = [  # type: ignore[assignment]
        {"apiVersion": MPI[0], "kind": MPI[1], "name": "mpi", "uid": "uid-mpi", "controller": True}
    ]
    harness.api.put({"kind": "Job", "metadata": job, "spec": {}})
    submit(harness, owned(asking("launcher"), launcher))
    await harness.settle(seconds=LAG)

    assert owner_of(harness) == ("MPIJob", "uid-mpi")
    assert harness.api.writes == [("create", "PodGroup", "g")]


@pytest.mark.parametrize("other", [None, ("apps/v1", "StatefulSet", "other")])
async def test_pods_that_have_nothing_in_common_own_the_group_themselves(
    harness: ControllerHarness, other: Owner | None
) -> None:
    existing(harness, SET)
    submit(harness, owned(asking("p"), SET))
    await harness.settle()
    assert owner_of(harness) == ("StatefulSet", "uid-db")

    if other is not None:
        existing(harness, other)
    submit(harness, asking("q") if other is None else owned(asking("q"), other))
    await harness.settle(seconds=LAG)
    assert owner_of(harness) is None

    harness.api.remove("Pod", "default", "q")
    await harness.settle(seconds=LAG)
    assert owner_of(harness) == ("StatefulSet", "uid-db")


@pytest.mark.parametrize("known", [True, False], ids=["as was said", "as is seen"])
async def test_without_rights_it_is_the_direct_owner(
    harness: ControllerHarness, known: bool
) -> None:
    path = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs/mpi"
    if known:
        harness.api.client.no_right.add("mpijobs")
    else:
        refused = Forbidden(403, "Forbidden", "no rights")
        harness.api.fail(refused, verbs=("get",), name="mpi", times=FOREVER)
    existing(harness, MPI, SET)
    submit(harness, owned(asking("p"), MPI))

    await harness.settle()

    assert owner_of(harness) == ("MPIJob", "uid-mpi")
    assert (path in harness.api.reads) is not known
    assert harness.api.asked == [("get", "kubeflow.org", "mpijobs")]


async def test_an_owner_that_cannot_be_read_now_holds_nothing_up(
    harness: ControllerHarness,
) -> None:
    harness.api.fail(AWAY, verbs=("get",), name="mpi", times=FOREVER)
    existing(harness, MPI, SET)
    existing(harness, SET)
    submit(harness, owned(asking("p"), MPI))
    await harness.settle()
    await harness.settle(seconds=LAG)
    assert owner_of(harness) == ("MPIJob", "uid-mpi")

    harness.api.recover()
    await harness.settle(seconds=31)
    assert owner_of(harness) == ("StatefulSet", "uid-db")


async def test_an_owner_is_kept_while_what_is_below_it_cannot_be_read(
    harness: ControllerHarness,
) -> None:
    existing(harness, MPI, SET)
    existing(harness, SET)
    submit(harness, owned(asking("p"), MPI))
    await harness.settle()
    await harness.settle(seconds=LAG)
    await harness.settle(seconds=61)  # the cached result has expired
    harness.api.fail(AWAY, verbs=("get",), name="mpi", times=FOREVER)

    submit(harness, owned(asking("q", count="5"), MPI))
    await harness.settle(seconds=1)

    assert harness.api.writes[-1] == ("patch", "PodGroup", "g")  # the pods' annotations
    assert owner_of(harness) == ("StatefulSet", "uid-db")


@pytest.mark.parametrize(
    "forged",
    [
        ("apps/v1", "StatefulSet", "absent"),
        ("apps/v1", "Nonsense", "x"),
        ("nowhere.example/v1", "Thing", "x"),
        ("../../x", "Thing", "x"),
        ("apps/v1", "StatefulSet", ".."),
        ("apps/v1", "StatefulSet", "a/b"),
        ("scheduling.muster.dev/v1alpha3", "PodGroup", "g"),
    ],
)
async def test_a_forged_owner_is_none(harness: ControllerHarness, forged: Owner) -> None:
    submit(harness, owned(asking("p"), forged))

    await harness.settle()

    assert owner_of(harness) is None
    assert not any(".." in path for path in harness.api.reads)


async def test_an_earlier_owner_of_the_name_is_not_taken_for_the_present_one(
    harness: ControllerHarness,
) -> None:
    existing(harness, SET)
    submit(harness, asking("p").owned_by("StatefulSet", "db", "uid-before", "apps/v1"))

    await harness.settle()

    assert owner_of(harness) is None


async def test_a_chain_in_a_ring_ends(harness: ControllerHarness) -> None:
    existing(harness, SET, MPI)
    existing(harness, MPI, SET)
    submit(harness, owned(asking("p"), SET))

    await harness.settle()

    assert len(harness.api.reads) == 4  # each kind and each object once


async def test_more_owners_than_are_looked_at_cost_no_look(harness: ControllerHarness) -> None:
    many = [("apps/v1", "StatefulSet", f"s-{at}") for at in range(MOST_CONTROLLERS + 1)]
    submit(harness, *(owned(asking(f"p-{it[2]}"), it) for it in many))

    await harness.settle()

    assert harness.api.reads == []
    assert owner_of(harness) is None


async def test_it_goes_with_its_owner_and_not_before_its_pods(harness: ControllerHarness) -> None:
    existing(harness, SET)
    submit(harness, owned(asking("p"), SET).bound_to("n"))
    await harness.settle()

    harness.api.remove("StatefulSet", "default", "db")
    await harness.settle(seconds=LAG)

    assert harness.api.names("Pod", "PodGroup") == []


async def test_pods_of_a_pod_have_no_owner_but_one_above_that(harness: ControllerHarness) -> None:
    # As in Spark: the driver creates the executors.
    driver = make_pod("driver").build() | {"kind": "Pod"}
    driver["metadata"]["uid"] = "uid-driver"
    harness.api.put(driver)
    submit(harness, owned(asking("executor"), ("v1", "Pod", "driver")))

    await harness.settle()

    assert owner_of(harness) is None


async def test_pods_that_an_owner_adopts_bring_it(harness: ControllerHarness) -> None:
    existing(harness, SET)
    submit(harness, asking("p"))
    await harness.settle()
    assert owner_of(harness) is None

    submit(harness, owned(asking("p"), SET))
    await harness.settle(seconds=1)

    assert owner_of(harness) == ("StatefulSet", "uid-db")


async def test_references_of_others_stay(harness: ControllerHarness) -> None:
    existing(harness, SET)
    submit(harness, owned(asking("p"), SET))
    await harness.settle()
    found = group(harness)
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "uid-c"}
    found["metadata"]["ownerReferences"].insert(0, theirs)
    harness.api.put(found)

    submit(harness, asking("q"))
    await harness.settle(seconds=1)

    assert group(harness)["metadata"]["ownerReferences"] == [theirs]
    harness.api.remove("Pod", "default", "q")
    await harness.settle(seconds=1)
    found = group(harness)["metadata"]["ownerReferences"]
    assert [it["kind"] for it in found] == ["ConfigMap", "StatefulSet"]
