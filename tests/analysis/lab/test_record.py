"""A trace recorded from a cluster's objects."""

from typing import Any

import pytest

from analysis.lab.errors import LabError
from analysis.lab.record import record
from analysis.lab.trace import Job
from api.constants import LABEL_POD_GROUP, NATIVE_POD_GROUP

NOW = 1_767_229_200.0  # 2026-01-01T01:00:00Z


def at(minute: int) -> str:
    return f"2026-01-01T00:{minute:02}:00Z"


def pod(
    name: str,
    created: int,
    begun: int | None = None,
    ended: int | None = None,
    *,
    group: str = "",
    cpu: str = "1",
    scheduler: str = "muster-scheduler",
) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": "Pending" if begun is None else "Running"}
    if begun is not None:
        status["startTime"] = at(begun)
    if ended is not None:
        status |= {
            "phase": "Succeeded",
            "containerStatuses": [
                {"name": "c", "state": {"terminated": {"finishedAt": at(ended)}}}
            ],
        }
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": name,
            "creationTimestamp": at(created),
            "labels": {LABEL_POD_GROUP: group} if group else {},
        },
        "spec": {
            "schedulerName": scheduler,
            "nodeName": "" if begun is None else "n",
            "priority": 7,
            "terminationGracePeriodSeconds": 10,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        },
        "status": status,
    }


def group(
    name: str, minimum: int, parent: str = "", *, kind: str = "PodGroup"
) -> tuple[str, dict[str, Any]]:
    spec: dict[str, Any] = {
        "schedulingPolicy": {
            "gang": {"minCount" if kind == "PodGroup" else "minGroupCount": minimum}
        },
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
    }
    if parent:
        spec["parentCompositePodGroupName"] = parent
    meta = {"name": name, "namespace": "ns", "creationTimestamp": at(5)}
    return kind, {"metadata": meta, "spec": spec}


def test_a_gang_is_a_job_from_its_creation() -> None:
    pods = [pod(f"p{n}", 6, 10 + n, 40, group="g", cpu=f"{n + 1}") for n in range(3)]
    others = [pod("single", 0, 1, 2), pod("foreign", 0, 1, 2, scheduler="default-scheduler")]

    found = record([group("g", 2)], [*pods, *others], NOW)

    assert found.jobs == [
        Job(
            name="single", namespace="ns", arrival=0, duration=60, requests=(("cpu", 1000),),
            priority=7, grace=10,
        ),
        Job(
            name="g", namespace="ns", arrival=300, duration=1800, pods=3, min_pods=2,
            requests=(("cpu", 3000),), priority=7, grace=10, topology="required", key="rack",
            disruption="single",
        ),
    ]  # fmt: skip
    assert (found.running, found.waiting) == (0, 0)


def test_a_tree_is_one_job_with_its_gangs() -> None:
    groups = [group("tree", 2, kind="CompositePodGroup")]
    groups += [group(f"g{n}", 2, "tree") for n in range(3)]
    pods = [pod(f"p{n}", 6, 10, 20, group=f"g{n // 2}") for n in range(6)]

    (job,) = record(groups, pods, NOW).jobs

    assert (job.name, job.pods, job.replicas, job.min_replicas) == ("tree", 2, 3, 2)
    assert (job.topology, job.key) == (job.gang_topology, job.gang_key) == ("required", "rack")


def test_a_pod_that_took_anothers_place_is_no_further_pod() -> None:
    pods = [
        pod("a", 0, 1, 5, group="g"),
        pod("b", 0, 1, 20, group="g"),
        pod("c", 5, 6, 20, group="g"),
    ]

    (job,) = record([group("g", 1)], pods, NOW).jobs

    assert job.pods == 2


def test_what_runs_is_counted_until_now_and_what_waits_is_left_out() -> None:
    found = record([], [pod("a", 0, 30), pod("b", 0)], NOW)

    assert [job.duration for job in found.jobs] == [1800]
    assert (found.running, found.waiting) == (1, 1)


def test_a_ring_of_groups_ends() -> None:
    ring = [
        group("a", 1, "b", kind="CompositePodGroup"),
        group("b", 1, "a", kind="CompositePodGroup"),
    ]
    groups = [*ring, group("g", 1, "a")]

    assert len(record(groups, [pod("p", 0, 1, 2, group="g")], NOW).jobs) == 1


def test_a_cluster_without_a_past_says_so() -> None:
    with pytest.raises(LabError, match="the cluster: no jobs found"):
        record([], [pod("b", 0)], NOW)


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"metadata": 3},
        pod("x", 0, 1, 2, cpu="much"),
        pod("x", 0, 1, 2) | {"status": {"startTime": "yesterday", "phase": "Running"}},
        pod("x", 0, 1, 2) | {"status": {"phase": "Failed", "containerStatuses": [3]}},
    ],
)
def test_what_a_namespace_wrote_oddly_does_not_end_it(odd: dict[str, Any]) -> None:
    found = record([("PodGroup", odd)], [odd, pod("a", 0, 1, 2)], NOW)

    assert [job.name for job in found.jobs] == ["a"]
    assert found.odd >= (odd != {})


def test_pods_with_volumes_and_claims_are_recorded() -> None:
    """Every pod has a volume: its service account's token."""
    made = pod("a", 0, 1, 5)
    made["spec"] |= {
        "volumes": [{"name": "token", "projected": {"sources": []}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        "schedulingGates": [{"name": "example.com/gate"}],
    }

    found = record([], [made], NOW)

    assert (len(found.jobs), found.odd) == (1, 0)


@pytest.mark.parametrize("tree", [False, True])
def test_a_native_group_is_a_job(tree: bool) -> None:
    """A group of Muster's of the same name has none of its pods."""
    api = NATIVE_POD_GROUP.full_kind.partition(".")[2]
    pods = [pod(f"p{n}", 6, 10, 40) for n in range(3)]
    for each in pods:
        each["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    (_, leaf), root = group("g", 3, "t" * tree), group("t", 1, kind=f"CompositePodGroup.{api}")

    found = record([(f"PodGroup.{api}", leaf), root, group("g", 2)], pods, NOW)

    ((job,), kept) = found.jobs, (found.running, found.waiting, found.odd)
    assert (job.name, job.pods, job.min_pods, kept) == ("t" if tree else "g", 3, 3, (0, 0, 0))
