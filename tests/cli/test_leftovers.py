"""What `muster gc` finds: every kind of leftover, and nothing that is in order."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.constants import LABEL_MANAGED_BY, finalizer_of
from cli import commands
from cli.gc import check
from cli.leftovers import GRACE_SECONDS, Cluster, leftovers
from kube.client import Client
from localcluster.cluster import LocalCluster
from tests.support.builders import make_pod

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def owner(uid: str = "job") -> Json:
    return {"metadata": {"name": "t", "namespace": "default", "uid": uid}}


def made(
    name: str, *owners: str, kind: str = "PodGroup", parent: str = "", deleted: float | None = None
) -> Json:
    metadata: Json = {"name": name, "namespace": "default", "uid": name}
    metadata["labels"] = {LABEL_MANAGED_BY: "muster"}
    metadata["ownerReferences"] = [{"uid": uid} for uid in owners]
    if finalizer_of(kind):
        metadata["finalizers"] = [finalizer_of(kind)]
    if deleted is not None:
        moment = NOW - timedelta(seconds=deleted)
        metadata["deletionTimestamp"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    spec = {"parentCompositePodGroupName": parent} if parent else {}
    return {"metadata": metadata, "spec": spec}


def names(**lists: list[Json]) -> list[str]:
    kinds = ("owners", "workloads", "composites", "pod_groups", "pods")
    cluster = Cluster(**{kind: lists.get(kind, []) for kind in kinds})
    return [it.name for it in leftovers(cluster, NOW)]


LATE = GRACE_SECONDS + 10


@pytest.mark.parametrize(
    ("want", "lists"),
    [
        pytest.param(
            [],
            {
                "owners": [owner()],
                "workloads": [made("w", "job", kind="Workload")],
                "pod_groups": [made("g", "job", "w")],
            },
            id="in order",
        ),
        pytest.param(["g"], {"pod_groups": [made("g", "gone")]}, id="a group without an owner"),
        pytest.param(["w"], {"workloads": [made("w", kind="Workload")]}, id="a Workload"),
        pytest.param(
            [],
            {"pod_groups": [made("g")], "pods": [make_pod("p").in_group("g").build()]},
            id="orphaned on purpose, and its pods run",
        ),
        pytest.param(
            ["g"],
            {
                "pod_groups": [made("g")],
                "pods": [make_pod("p").in_group("g").phase("Failed").build()],
            },
            id="its pods are done",
        ),
        pytest.param(
            ["g"], {"pod_groups": [made("g", "gone", deleted=LATE)]}, id="a stuck finalizer"
        ),
        pytest.param([], {"pod_groups": [made("g", "gone", deleted=1)]}, id="it is just going"),
        pytest.param(
            [],
            {
                "pod_groups": [made("g", deleted=LATE)],
                "pods": [make_pod("p").in_group("g").build()],
            },
            id="a pod holds it",
        ),
        pytest.param(
            [],
            {
                "composites": [made("c", kind="CompositePodGroup", deleted=LATE)],
                "pod_groups": [made("g", "job", parent="c")],
                "owners": [owner()],
            },
            id="a child holds it",
        ),
        pytest.param(
            ["c"],
            {"composites": [made("c", kind="CompositePodGroup", deleted=LATE)]},
            id="a composite without children",
        ),
        pytest.param(
            [],
            {"pod_groups": [{"metadata": {"name": "x", "namespace": "default"}, "spec": {}}]},
            id="a user's own group",
        ),
    ],
)
def test_what_is_left_over(want: list[str], lists: dict[str, list[Json]]) -> None:
    assert names(**lists) == want


def test_a_finding_says_what_and_why() -> None:
    (finding,) = leftovers(Cluster([], [], [], [made("g", deleted=LATE)], []), NOW)

    assert str(finding) == (
        "PodGroup default/g: being deleted for 70 s, and nothing holds its finalizer"
    )


async def test_a_cluster_without_muster_has_nothing_left_over() -> None:
    async with LocalCluster() as cluster, await Client.connect(cluster.kubeconfig) as client:
        assert await check(client) == []


def test_no_cluster_is_an_error(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["gc", "--check", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err
