"""RayClusters, and the RayJobs and RayServices that create them."""

import copy
from typing import Any

import pytest

from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_MANAGED_GROUP,
    LABEL_POD_GROUP,
    RAY_OPERATOR,
)
from api.integration.common.owner_kind import Review
from api.integration.kinds import EMBEDDING_KINDS, OWNER_KINDS
from api.integration.ray.kinds import MAX_PODS, RayClusters
from api.integration.single_group.kind import NO_UPDATE, single_group
from tests.support.apps import admitted
from tests.support.parts import pod_template, ray_cluster, ray_job, worker_group

Json = dict[str, Any]
KIND = RayClusters()
MODE = f"metadata.annotations[{ANNOTATION_GANG_MODE}]"


def min_count(obj: Json) -> int:
    group = single_group(KIND.read(admitted(obj)), NO_UPDATE, 0)
    return int(group["spec"]["schedulingPolicy"]["gang"]["minCount"])


def fields(obj: Json, old: Json | None = None) -> list[str]:
    review = Review("CREATE" if old is None else "UPDATE", old, uid="r")
    return [it.field for it in KIND.admit(admitted(obj, old), review).causes]


def test_head_and_workers_are_marked_with_one_group_and_the_scheduler() -> None:
    obj = admitted(ray_cluster(worker_group("a"), worker_group("b")))

    group = obj["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP]
    assert group.startswith("pg-raycluster-ring-")
    spec = obj["spec"]
    templates = [spec["headGroupSpec"]["template"]]
    templates += [it["template"] for it in spec["workerGroupSpecs"]]
    assert len(templates) == 3
    for it in templates:
        assert it["metadata"]["labels"][LABEL_POD_GROUP] == group
        assert it["spec"]["schedulerName"] == "muster-scheduler"
    assert KIND.read(obj).managed == group
    assert fields(obj) == []


@pytest.mark.parametrize(
    ("groups", "more", "want"),
    [
        pytest.param([worker_group(replicas=3)], {}, 4, id="head and workers"),
        pytest.param([worker_group("a"), worker_group("b", replicas=3)], {}, 6, id="two groups"),
        pytest.param([worker_group(replicas=3, numOfHosts=4)], {}, 13, id="of several hosts"),
        pytest.param([worker_group(replicas=1, minReplicas=5)], {}, 6, id="at least minReplicas"),
        pytest.param([worker_group(replicas=9, maxReplicas=4)], {}, 5, id="at most maxReplicas"),
        pytest.param([worker_group(minReplicas=5, maxReplicas=4)], {}, 5, id="a contradiction"),
        pytest.param([worker_group(suspend=True)], {}, 1, id="a group that is suspended"),
        pytest.param([worker_group(replicas=None, minReplicas=None)], {}, 1, id="no numbers"),
        pytest.param(
            [worker_group(replicas=7, minReplicas=2)],
            {"enableInTreeAutoscaling": True},
            3,
            id="Ray's autoscaler starts with minReplicas",
        ),
    ],
)
def test_the_gang_has_the_pods_that_kuberay_creates_at_once(
    groups: list[Json], more: Json, want: int
) -> None:
    assert min_count(ray_cluster(*groups, **more)) == want


def test_min_count_bounds_the_gang() -> None:
    asks = {"gang-mode": "Gang", "min-count": "2"}
    assert min_count(ray_cluster(worker_group(replicas=5), asks=asks)) == 2


@pytest.mark.parametrize("number", [10**40, -(10**40), 2**31 - 1, True, "9", None, 1.5])
def test_no_number_of_workers_costs_anything(number: Any) -> None:
    group = worker_group(replicas=number, minReplicas=number, numOfHosts=number)
    group["maxReplicas"] = number
    assert 1 <= min_count(ray_cluster(group, group)) <= 2 * MAX_PODS + 1


def test_pods_of_two_priorities_are_no_gang() -> None:
    group = worker_group(template=pod_template(priorityClassName="high"))
    field = "spec.workerGroupSpecs[0].template.spec.priorityClassName"
    assert fields(ray_cluster(group)) == [field]


def test_a_group_of_workers_that_comes_later_joins_the_gang() -> None:
    old = admitted(ray_cluster(worker_group("a")))
    new = copy.deepcopy(old)
    new["spec"]["workerGroupSpecs"].append(worker_group("b"))

    made = admitted(new, old)

    assert KIND.read(made).managed == KIND.read(old).managed != ""
    assert min_count(made) == 5


@pytest.mark.parametrize("suspended", [False, True])
def test_a_gang_is_asked_for_at_creation_or_while_no_pod_is_there(suspended: bool) -> None:
    old = admitted(ray_cluster(asks={}, suspend=suspended))
    new = ray_cluster(suspend=False)

    admission = KIND.admit(new, Review("UPDATE", old, uid="r"))

    assert bool(admission.patch) == suspended
    assert bool(admission.warnings) != suspended
    assert KIND.not_annotated(new) == MODE
    if not suspended:
        assert "delete and recreate the object" in admission.warnings[0]
        assert KIND.read(admitted(new, old)).managed == ""


def test_one_that_another_controller_runs_gets_no_group() -> None:
    assert KIND.read(ray_cluster(managedBy=RAY_OPERATOR)).options.asks
    elsewhere = ray_cluster(managedBy="kueue.x-k8s.io/multikueue")

    admission = KIND.admit(elsewhere, Review("CREATE", uid="r"))

    assert admission.patch == []
    assert "kueue.x-k8s.io/multikueue runs this RayCluster" in admission.warnings[0]


def test_a_pod_of_the_heads_template_may_have_a_job_as_its_owner() -> None:
    """The cleanup pod has one too: with the annotation it would name a group of that Job."""
    spec = admitted(ray_cluster())["spec"]
    head, worker = spec["headGroupSpec"]["template"], spec["workerGroupSpecs"][0]["template"]
    assert ANNOTATION_MANAGED_GROUP not in (head["metadata"].get("annotations") or {})
    assert ANNOTATION_MANAGED_GROUP in worker["metadata"]["annotations"]


def test_the_user_of_a_rayjob_reads_what_is_wrong_with_its_cluster() -> None:
    kind = EMBEDDING_KINDS["RayJob"]
    group = worker_group(template=pod_template(priorityClassName="high"))
    obj = ray_job(group)
    embedded = kind.embedded(obj)
    assert embedded is not None

    admission = kind.inner.admit(embedded, Review("CREATE", uid="r"))
    causes, _ = kind.conclude(obj, admission.causes, admission.warnings)

    field = "spec.rayClusterSpec.workerGroupSpecs[0].template.spec.priorityClassName"
    assert [it.field for it in causes] == [field]
    assert kind.conclude(ray_job(), [], ["metadata.x: y"]) == ([], ["metadata.x: y"])
    paths = [it.path for it in kind.templates(ray_job())]
    assert paths == [
        "spec.rayClusterSpec.headGroupSpec.template.",
        "spec.rayClusterSpec.workerGroupSpecs[0].template.",
    ]


def test_a_rayjob_that_uses_a_cluster_cannot_ask_for_a_gang() -> None:
    kind = EMBEDDING_KINDS["RayJob"]
    other = {"ray.io/cluster": "other"}
    using = ray_job(clusterSelector=other)
    del using["spec"]["rayClusterSpec"]

    (cause,), _ = kind.conclude(using, [], [])

    assert cause.field == MODE
    assert "clusterSelector" in cause.message
    assert kind.conclude(ray_job(asks={}, clusterSelector=other), [], []) == ([], [])
    assert kind.embedded(using) is None


@pytest.mark.parametrize("spec", [None, [], 7, {"rayClusterSpec": 7}, {"rayClusterConfig": []}])
@pytest.mark.parametrize("kind", ["RayJob", "RayService"])
def test_odd_structures_are_read(kind: str, spec: Any) -> None:
    obj = {"metadata": None, "spec": spec}
    assert EMBEDDING_KINDS[kind].embedded(obj) is None
    assert list(EMBEDDING_KINDS[kind].templates(obj)) == []


def test_both_that_create_one_report_what_it_waits_for() -> None:
    assert {it.kind for it in OWNER_KINDS["RayCluster"].created_by} == {"RayJob", "RayService"}
