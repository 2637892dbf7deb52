"""What `muster gc` finds: every kind of leftover, and nothing that is in order."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from api.constants import DEPLOYMENT, JOB, STATEFUL_SET, KindName, finalizer_of
from cli import commands
from cli.gc import GRACE_SECONDS, check, find_orphans
from controllers.informers import COSCHEDULING_KINDS, Caches
from kube.client import Client
from localcluster.cluster import LocalCluster
from tests.support.builders import make_pod
from tests.support.owners import made_for

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def owner(uid: str = "job") -> Json:
    metadata = {"name": "t", "namespace": "default", "uid": uid}
    return {"metadata": metadata, "spec": {"template": {}}}


def job_reference(uid: str) -> Json:
    return {"apiVersion": "batch/v1", "kind": "Job", "name": "t", "uid": uid, "controller": True}


def workload_reference(name: str) -> Json:
    reference = {"apiVersion": "scheduling.muster.dev/v1alpha3", "kind": "Workload"}
    return reference | {"name": name, "uid": name}


def made(
    name: str, *owners: Json, kind: str = "PodGroup", parent: str = "", deleted: float | None = None
) -> Json:
    metadata: Json = {"name": name, "namespace": "default", "uid": name}
    metadata |= made_for(JOB, "t", "job")
    metadata["ownerReferences"] = list(owners)
    if finalizer_of(kind):
        metadata["finalizers"] = [finalizer_of(kind)]
    if deleted is not None:
        moment = NOW - timedelta(seconds=deleted)
        metadata["deletionTimestamp"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    spec = {"parentCompositePodGroupName": parent} if parent else {}
    return {"metadata": metadata, "spec": spec}


def caches(lists: dict[str, list[Json]]) -> Caches:
    filled = Caches()
    for resource, (cache, decode) in filled.sources.items():
        for obj in lists.pop(resource.plural, []) if resource not in COSCHEDULING_KINDS else []:
            cache.upsert(decode(msgspec.json.encode(obj)))
    assert not lists
    return filled


def names(**lists: list[Json]) -> list[str]:
    return [it.name for it in find_orphans(caches(lists), NOW)]


LATE = GRACE_SECONDS + 10
STRANGER = {"apiVersion": "example.com/v1", "kind": "Pipeline", "name": "p", "uid": "p"}


@pytest.mark.parametrize(
    ("want", "lists"),
    [
        pytest.param(
            [],
            {
                "jobs": [owner()],
                "workloads": [made("w", job_reference("job"), kind="Workload")],
                "podgroups": [made("g", job_reference("job"), workload_reference("w"))],
            },
            id="in order",
        ),
        pytest.param(
            ["g"], {"podgroups": [made("g", job_reference("gone"))]}, id="a group without an owner"
        ),
        pytest.param(["w"], {"workloads": [made("w", kind="Workload")]}, id="a Workload"),
        pytest.param(
            [],
            {"podgroups": [made("g")], "pods": [make_pod("p").in_group("g").build()]},
            id="orphaned on purpose, and its pods run",
        ),
        pytest.param(
            [],
            {
                "workloads": [made("w", kind="Workload")],
                "podgroups": [made("g", workload_reference("w"))],
                "pods": [make_pod("p").in_group("g").build()],
            },
            id="orphaned on purpose with its Workload, and its pods run",
        ),
        pytest.param(
            ["g"],
            {
                "podgroups": [made("g")],
                "pods": [make_pod("p").in_group("g").phase("Failed").build()],
            },
            id="its pods are done",
        ),
        pytest.param(
            ["g"],
            {"podgroups": [made("g", job_reference("gone"), deleted=LATE)]},
            id="a stuck finalizer",
        ),
        pytest.param(
            [], {"podgroups": [made("g", job_reference("gone"), deleted=1)]}, id="it is just going"
        ),
        pytest.param(
            [],
            {
                "podgroups": [made("g", deleted=LATE)],
                "pods": [make_pod("p").in_group("g").build()],
            },
            id="a pod holds it",
        ),
        pytest.param(
            [],
            {
                "compositepodgroups": [made("c", kind="CompositePodGroup", deleted=LATE)],
                "podgroups": [made("g", job_reference("job"), parent="c")],
                "jobs": [owner()],
            },
            id="a child holds it",
        ),
        pytest.param(
            ["c"],
            {"compositepodgroups": [made("c", kind="CompositePodGroup", deleted=LATE)]},
            id="a composite without children",
        ),
        pytest.param(
            [],
            {"podgroups": [{"metadata": {"name": "x", "namespace": "default"}, "spec": {}}]},
            id="a user's own group",
        ),
        pytest.param(
            ["g"],
            {"podgroups": [made("g", job_reference("gone"), STRANGER)]},
            id="another owner of it lives",
        ),
        pytest.param(
            ["g"],
            {
                "workloads": [{"metadata": {"name": "w", "namespace": "default", "uid": "w"}}],
                "podgroups": [made("g", job_reference("gone"), workload_reference("w"))],
            },
            id="its user's Workload lives",
        ),
        pytest.param(
            ["g"],
            {"jobs": [owner("second")], "podgroups": [made("g", job_reference("gone"))]},
            id="a later owner of the name lives",
        ),
    ],
)
def test_what_is_left_over(want: list[str], lists: dict[str, list[Json]]) -> None:
    assert names(**lists) == want


def test_a_finding_says_what_and_why() -> None:
    (finding,) = find_orphans(caches({"podgroups": [made("g", deleted=LATE)]}), NOW)

    assert str(finding) == (
        "PodGroup default/g: being deleted for 70 s, and nothing needs its finalizer"
    )


async def test_a_cluster_without_muster_has_nothing_left_over() -> None:
    async with LocalCluster() as cluster, await Client.connect(cluster.kubeconfig) as client:
        assert await check(client) == []


def test_no_cluster_is_an_error(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["gc", "--check", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [STATEFUL_SET, DEPLOYMENT])
@pytest.mark.parametrize(("there", "want"), [("u", []), ("later", ["g"]), ("", ["g"])])
def test_a_group_outlives_no_stateful_set_or_deployment(
    kind: KindName, there: str, want: list[str]
) -> None:
    group = made("g", STRANGER)
    group["metadata"] |= made_for(kind, "t", "u")
    owners = [owner(there)] if there else []

    assert names(**{"podgroups": [group], kind.plural: owners}) == want
