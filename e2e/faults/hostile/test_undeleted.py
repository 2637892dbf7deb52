"""The random run's report on remaining objects, with invented objects and pages."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from api.constants import ANNOTATION_MADE_FOR
from e2e.faults.hostile import site as sites
from e2e.faults.hostile.inventory import Inventory, read
from e2e.faults.hostile.undeleted import busy_queues, collectors_view, described, report
from e2e.harness.objects import Json
from e2e.harness.support.rest import Rest
from kube.client.resources import PODS

NOW = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
JOB = {"kind": "Job", "name": "j", "uid": "job-1"}


def left(kind: str, **meta: object) -> Json:
    known = {"name": "x", "namespace": "ns", "uid": "x-1", **meta}
    made = {"creationTimestamp": "2026-01-01T00:00:00Z", **known}
    return {"kind": kind, "metadata": made, "spec": {}, "status": {}}


def test_a_line_says_all_that_holds_an_object() -> None:
    group = left(
        "PodGroup",
        deletionTimestamp="2026-01-01T00:04:00Z",
        finalizers=["f"],
        ownerReferences=[JOB],
        annotations={ANNOTATION_MADE_FOR: "batch/Job/j/job-1"},
    )
    job = left("Job", name="j", uid="job-1")

    (first, second) = described(Inventory({"podgroups": [group], "jobs": [job]}), NOW)

    assert first == "Job ns/j, uid job-1, created 300 s ago, finalizers [], owners []"
    assert second == (
        "PodGroup ns/x, uid x-1, created 300 s ago, being deleted since 60 s ago, "
        "finalizers ['f'], owners ['Job/j job-1 (there)'], made for batch/Job/j/job-1 (there)"
    )
    (alone,) = described(Inventory({"podgroups": [group]}), NOW)
    assert "owners ['Job/j job-1 (gone)']" in alone


GRAPH = """strict digraph full {
  // Node definitions.
  "x-1" [
    label="uid=x-1\\nnamespace=ns\\nPod.v1/x\\n"
    kind="Pod"
    uid="x-1"
    missing="false"
    beingDeleted="false"
    deletingDependents="false"
    virtual="false"
  ];
  "job-1" [
    kind="Job"
    uid="job-1"
    missing="true"
    virtual="true"
  ];
  // Edge definitions.
  "x-1" -> "job-1";
}
"""


def test_what_the_collector_believes_stands_beside_each_object() -> None:
    seen = [left("Pod", ownerReferences=[JOB]), left("Pod", name="y", uid="y-1")]

    assert list(collectors_view(seen, GRAPH)) == [
        "Pod ns/x is in its graph (alive); its owner job-1 is in its graph (missing, virtual)",
        "Pod ns/y is not in its graph",
    ]


def test_queues_that_are_not_empty() -> None:
    metrics = """# TYPE workqueue_depth gauge
workqueue_depth{name="garbage_collector_attempt_to_delete"} 3
workqueue_depth{name="garbage_collector_graph_changes"} 0
workqueue_depth{name="job"} 7
muster_workqueue_depth{name="orphans"} 1.0
muster_workqueue_depth{name="job"} 0.0
"""
    assert busy_queues(metrics, "kube-controller-manager") == [
        'workqueue_depth{name="garbage_collector_attempt_to_delete"} 3'
    ]
    assert busy_queues(metrics, "muster") == ['muster_workqueue_depth{name="orphans"} 1.0']


@pytest.mark.long
async def test_everybody_is_asked(server_kind: str, tmp_path: Path) -> None:
    """On a running site, a pod of a nonexistent owner may be in the collector's graph or not."""
    if server_kind == "existing":
        pytest.skip("the processes of a cluster given by its kubeconfig are not ours to ask")
    site = sites.made(server_kind, 0, tmp_path)
    async with site.running(), Rest.open(site.cluster.kubeconfig) as rest:
        container = {"name": "main", "image": "none"}
        pod: Json = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
        (await rest.post(PODS.path("default"), pod)).ok()

        lines = await report(site, await read(rest))

    text = "\n".join(lines)
    assert lines[0].startswith("Pod default/p, uid ")
    assert "does not answer" not in text
    assert "answers 4" not in text
    if server_kind == "real":
        assert "Pod default/p is not in its graph" in text
