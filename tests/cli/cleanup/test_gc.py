"""The findings of `muster gc`: every kind of orphan, and no object in use."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from api.constants import (
    ANNOTATION_MADE_FOR,
    ANNOTATION_NO_PODS_SINCE,
    DEPLOYMENT,
    JOB,
    LABEL_MANAGED_BY,
    MANAGED_BY,
    STATEFUL_SET,
    KindName,
    finalizer_of,
)
from cli import commands
from cli.cleanup.gc import GRACE_SECONDS, check, find_orphans
from cli.cleanup.lingering import LINGERING_SECONDS
from cli.doctor.findings import Limited
from cli.doctor.idle_groups import check_group
from controllers.cache.informers import COSCHEDULING_KINDS, Caches
from controllers.groups.idle_groups import IDLE_SECONDS
from kube.client.client import Client
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
        "PodGroup default/g: is being deleted for 70 s, and nothing needs its finalizer"
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


def without_pods(since: str, **more: str) -> Json:
    notes = {ANNOTATION_MADE_FOR: "/Pod/g/", ANNOTATION_NO_PODS_SINCE: since}
    labels = {LABEL_MANAGED_BY: MANAGED_BY}
    metadata = {"name": "g", "namespace": "default", "uid": "g", "labels": labels}
    return {"metadata": metadata | {"annotations": notes} | more, "spec": {}}


@pytest.mark.parametrize(
    ("group", "pod", "want"),
    [
        pytest.param(without_pods("2026-01-01T11:57:00Z"), None, True, id="for minutes"),
        pytest.param(without_pods("2026-01-01T12:57:00+01:00"), None, True, id="another zone"),
        pytest.param(without_pods("2026-01-01T11:59:00Z"), None, False, id="it may still go"),
        pytest.param(without_pods("2026-01-01T11:57:00Z"), "Running", False, id="it has pods"),
        pytest.param(without_pods("2026-01-01T11:57:00Z"), "Failed", True, id="its pods ended"),
        pytest.param(
            without_pods("2026-01-01T11:57:00Z", deletionTimestamp="2026-01-01T11:59:59Z"),
            None,
            False,
            id="it is just going",
        ),
        pytest.param(without_pods("2026-01-01T11:57:00Z", name="x"), None, False, id="a copy"),
        pytest.param(without_pods("2026-01-01T11:57:00"), None, False, id="no zone"),
        pytest.param(without_pods("0001-01-01T00:00:00+23:59"), None, False, id="before time"),
        pytest.param(without_pods("9999-12-31T23:59:59-23:59"), None, False, id="after time"),
        pytest.param(without_pods("yesterday"), None, False, id="no time"),
    ],
)
def test_a_group_from_pods_that_has_none_lingers(group: Json, pod: str | None, want: bool) -> None:
    pods = [] if pod is None else [make_pod("p").in_group("g").phase(pod).build()]
    found = [str(it) for it in find_orphans(caches({"podgroups": [group], "pods": pods}), NOW)]

    said = "it was created from pods, and has had none since 2026-01-01T11:57:00Z"
    assert found == ([f"PodGroup default/g: {said}"] if want else [])
    listed = Limited("groups")
    check_group("PodGroup", group, listed, NOW)
    assert [it.problem for it in listed.found] == ([said] if want or pod is not None else [])


@pytest.mark.parametrize("odd", [None, 7, [], {"annotations": {ANNOTATION_NO_PODS_SINCE: 7}}])
def test_groups_of_any_form_end_no_check(odd: Any) -> None:
    listed = Limited("groups")
    check_group("PodGroup", {"metadata": odd}, listed, NOW)
    check_group("CompositePodGroup", without_pods("2026-01-01T11:57:00Z"), listed, NOW)

    assert listed.found == []


def test_the_controllers_have_twice_the_time_that_they_take() -> None:
    assert LINGERING_SECONDS == 2 * IDLE_SECONDS
