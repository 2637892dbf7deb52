"""The verdict of the random run: it finds each fault injected into a cluster's objects."""

from collections.abc import Callable
from pathlib import Path

import pytest

from api.constants import ANNOTATION_MADE_FOR, LABEL_POD_GROUP, SCHEDULER_NAME
from e2e.faults.hostile import verdict
from e2e.faults.hostile.inventory import Inventory, Key
from e2e.faults.hostile.observer import Observer
from e2e.faults.hostile.site import RACK
from e2e.harness.objects import Json

NS = "ns"


def node(name: str, cpu: str = "8", rack: str = "r0", **spec: object) -> Json:
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {RACK: rack}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name: str, on: str | None = None, *, group: str | None = None, cpu: str = "1",
        priority: int = 0, phase: str | None = None, owner: str | None = None) -> Json:  # fmt: skip
    labels = {LABEL_POD_GROUP: group} if group else {}
    owners = [{"uid": owner, "kind": "Job", "name": owner}] if owner else []
    spec: Json = {
        "containers": [{"resources": {"requests": {"cpu": cpu}}}],
        "schedulerName": SCHEDULER_NAME,
        "priority": priority,
    }
    if on:
        spec["nodeName"] = on
    meta = {"namespace": NS, "name": name, "uid": name, "labels": labels, "ownerReferences": owners}
    status = {"phase": phase or ("Running" if on else "Pending")}
    return {"kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def group(name: str, count: int, *, parent: str | None = None, rack: bool = False,
          priority: int = 0, made_for: str | None = None) -> Json:  # fmt: skip
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": count}}, "priority": priority}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    if rack:
        spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
    annotations = {ANNOTATION_MADE_FOR: made_for} if made_for else {}
    meta = {"namespace": NS, "name": name, "uid": name, "annotations": annotations}
    return {"kind": "PodGroup", "metadata": meta, "spec": spec}


def composite(name: str, count: int) -> Json:
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": count}}}
    return {
        "kind": "CompositePodGroup", "metadata": {"namespace": NS, "name": name}, "spec": spec
    }  # fmt: skip


def gang(name: str, *places: str | None, **kwargs: int) -> list[Json]:
    return [
        pod(f"{name}-{i}", place, group=name, priority=kwargs.get("priority", 0))
        for i, place in enumerate(places)
    ]


def job(name: str, pods: int, **status: object) -> Json:
    spec = {"parallelism": pods, "completions": pods}
    meta = {"namespace": NS, "name": name, "uid": name}
    return {"kind": "Job", "metadata": meta, "spec": spec, "status": status}


def inventory_of(*objects: Json) -> Inventory:
    plurals = {
        "Node": "nodes", "Pod": "pods", "Job": "jobs", "PodGroup": "podgroups",
        "CompositePodGroup": "compositepodgroups",
    }  # fmt: skip
    found: dict[str, list[Json]] = {}
    for each in objects:
        found.setdefault(plurals[each["kind"]], []).append(each)
    return Inventory(found)


def never(_key: Key) -> bool:
    return False


def always(_key: Key) -> bool:
    return True


FULL = [node("a", cpu="2"), node("b", cpu="2", rack="r1")]

CASES = [
    pytest.param(
        [node("a", cpu="2"), group("g", 3), *gang("g", "a", "a", None)], never,
        "PodGroup ns/g runs 2 of 3 pods and never ran whole", id="a half gang"),
    pytest.param(
        [node("a", cpu="1"), group("g", 2), *gang("g", "a", None)], always,
        "", id="a gang that lost a pod, without room for another"),
    pytest.param(
        [*FULL, group("g", 2), *gang("g", "a", "b")], never, "", id="a whole gang"),
    pytest.param(
        [node("a", cpu="1"), composite("c", 2), group("g", 1, parent="c"),
         group("h", 1, parent="c"), *gang("g", "a"), *gang("h", None)], never,
        "CompositePodGroup ns/c runs in part; never ran: ns/h", id="half a tree"),
    pytest.param(
        [node("a", cpu="1"), pod("x", "a"), pod("y", "a")], never,
        "Node a: 2000m CPU asked for, 1000m there", id="a node over what it has"),
    pytest.param(
        [*FULL, group("g", 2, rack=True), *gang("g", "a", "b")], never,
        f"PodGroup ns/g must share one {RACK} and is in r0, r1", id="a split rack"),
    pytest.param(
        [*FULL, pod("x")], never,
        "Pod ns/x waits, and there is room for 4", id="a pod that waits though it fits"),
    pytest.param(
        [*FULL, group("g", 3, rack=True), *gang("g", None, None, None)], never,
        "", id="a gang that fits into no single rack"),
    pytest.param(
        [*FULL, group("g", 2, rack=True), *gang("g", None, None)], never,
        "PodGroup ns/g waits for 2 pods of 1000m CPU, and there is room for 2 in r0",
        id="a gang that fits into a rack"),
    pytest.param(
        [node("a", cpu="2", unschedulable=True), group("g", 2), *gang("g", None, None)], never,
        "", id="room on a cordoned node is none"),
    pytest.param(
        [node("a", cpu="2"), pod("x", "a"), group("g", 2, priority=5),
         *gang("g", None, None, priority=5)], never,
        "PodGroup ns/g waits for 2 pods of 1000m CPU, "
        "and there is room for 2 once less important pods are evicted",
        id="an important gang that evicts nobody"),
    pytest.param(
        [node("a", cpu="2"), pod("x", "a", priority=5), group("g", 2, priority=5),
         *gang("g", None, None, priority=5)], never,
        "", id="nobody is evicted for an equal"),
    pytest.param(
        [*FULL, group("g", 3), *gang("g", None, None)], never, "", id="without its quorum"),
    pytest.param(
        [*FULL, composite("c", 2), group("g", 1, parent="c"), *gang("g", None)], never,
        "", id="a tree that lacks a child"),
    pytest.param(
        [node("a", cpu="0"), *gang("g", None)], never,
        "Pod ns/g-0 waits for PodGroup ns/g, which is not there", id="no group"),
    pytest.param(
        [group("g", 1, made_for="batch/Job/j/uid")], never,
        "PodGroup ns/g is left, its owner batch/Job/j/uid is gone", id="a leftover"),
    pytest.param(
        [*FULL, group("g", 1, made_for="batch/Job/j/uid"), *gang("g", "a")], never,
        "", id="a group whose pods outlive its owner"),
    pytest.param(
        [*FULL, job("j", 2), pod("x", "a", owner="j")], never,
        "Job ns/j has 1 of 2 pods", id="a lost pod"),
    pytest.param(
        [*FULL, job("j", 2, failed=1), pod("x", "a", owner="j")], never,
        "", id="a pod that its Job makes again later"),
]  # fmt: skip


@pytest.mark.parametrize(("objects", "whole", "want"), CASES)
def test_the_verdict_names_what_is_wrong_and_nothing_else(
    objects: list[Json], whole: Callable[[Key], bool], want: str
) -> None:
    found = verdict.faults(inventory_of(*objects), whole)

    assert found == ([want] if want else [])


def test_what_is_under_way_delays_the_verdict() -> None:
    leaving = pod("leaves", "a")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    found = verdict.under_way(
        inventory_of(*FULL, leaving, pod("new", "b", phase="Pending"), pod("lost", "gone"))
    )

    assert found == [
        "Pod ns/leaves is being deleted",
        "Pod ns/new starts",
        "Pod ns/lost is on gone, which is gone",
    ]


def test_a_pod_on_two_nodes_and_a_binding_to_a_full_node_are_noted() -> None:
    observer = Observer(Path("unused"), 2000)

    for each in (*gang("g", "a", "a"), pod("x", None), pod("x", "a"), pod("x", "b")):
        observer.see(each)

    assert observer.peak((NS, "g")) == 2
    assert observer.bound == 3
    assert observer.wrongs == [
        "pod x was bound to a, which then had 3000m CPU asked",
        "pod x was bound to a, then to b",
    ]
