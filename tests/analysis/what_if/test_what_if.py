"""The what-if analysis: changes of a cluster and manifests, on a copy of it."""

from typing import Any

import pytest
import yaml

from analysis.simulate.deciding import Setup
from analysis.what_if.messages import (
    MOST_CHANGES,
    AddNodes,
    Change,
    RemoveDomain,
    WhatIfAnswer,
    WhatIfRequest,
)
from analysis.what_if.what_if import MOST_NEW_NODES, what_if
from kube.base.errors import ConfigError
from tests.scheduler.state_builder import StateBuilder

Json = dict[str, Any]


def cluster(racks: int = 2, nodes: int = 2, cpu: int = 4) -> StateBuilder:
    """Return nodes rR-N of that many cores."""
    builder = StateBuilder()
    for rack in range(1, racks + 1):
        for number in range(1, nodes + 1):
            name = f"r{rack}-{number}"
            labels = {"rack": f"r{rack}", "kubernetes.io/hostname": name}
            builder.node(name, cpu, labels=labels)
    return builder


def gang(builder: StateBuilder, name: str, count: int, *, on: str = "", priority: int = 0) -> None:
    builder.gang(name, count, priority=priority)
    for number in range(count):
        builder.pod(name, name=f"{name}-{number}", node=on, priority=priority)


def job(name: str, pods: int, cpu: str = "1", **annotations: str) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "annotations": {f"scheduling.muster.dev/{k}": v for k, v in annotations.items()},
        },
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def ask(
    builder: StateBuilder, *changes: Change, manifests: str = "", setup: Setup | None = None
) -> WhatIfAnswer:
    request = WhatIfRequest(manifests=manifests, changes=list(changes))
    return what_if(builder.state, request, setup or Setup())


def placed(answer: WhatIfAnswer) -> dict[str, set[str]]:
    return {each.id: {pod.node for pod in each.pods} for each in answer.placements}


def waits(answer: WhatIfAnswer) -> dict[str, str]:
    return {each.id: each.sentence for each in answer.waiting}


def test_what_waits_would_be_placed_on_more_nodes() -> None:
    builder = cluster(racks=1, nodes=1)
    gang(builder, "g", 8)
    assert "needs capacity for 8 more pods" in waits(ask(builder))["ns/PodGroup/g"]

    builder = cluster(racks=1, nodes=1)
    gang(builder, "g", 8)
    answer = ask(builder, Change(add_nodes=AddNodes(like="r1-1", count=1)))
    assert len(placed(answer)["ns/PodGroup/g"]) == 2
    assert answer.lines == [
        "8 pods of 1 workload would be scheduled.",
        "0 workloads would still wait.",
    ]


def test_a_new_node_is_like_the_other_but_for_its_name() -> None:
    builder = cluster(racks=1, nodes=1)
    ask(builder, Change(add_nodes=AddNodes(like="r1-1", count=2)))
    state = builder.state
    names = sorted(state.nodes.row_of)
    assert len(names) == 3
    for name in names:
        info = state.nodes.infos[state.nodes.row_of[name]]
        assert info is not None
        assert info.labels == {"rack": "r1", "kubernetes.io/hostname": name}


@pytest.mark.parametrize(
    "change",
    [
        Change(remove_node="r1-1"),
        Change(remove_domain=RemoveDomain(key="rack", value="r1")),
    ],
)
def test_the_pods_of_nodes_that_go_find_other_places_or_wait(change: Change) -> None:
    builder = cluster(nodes=1)
    gang(builder, "runs", 4, on="r1-1")
    assert placed(ask(builder, change)) == {"ns/PodGroup/runs": {"r2-1"}}

    builder = cluster(nodes=1)
    gang(builder, "runs", 4, on="r1-1")
    gang(builder, "others", 4, on="r2-1")
    assert "ns/PodGroup/runs" in waits(ask(builder, change))


def test_without_a_workload_there_is_room_for_others() -> None:
    builder = cluster(racks=1, nodes=1)
    gang(builder, "runs", 4, on="r1-1")
    gang(builder, "waits", 4)
    answer = ask(builder, Change(evict="ns/PodGroup/runs"))
    assert placed(answer) == {"ns/PodGroup/waits": {"r1-1"}}
    assert answer.evicted == []


def test_manifests_are_placed_or_wait_with_a_reason() -> None:
    builder = cluster(racks=1, nodes=1)
    jobs = [job("fits", 3, **{"gang-mode": "Gang"}), job("large", 9, **{"gang-mode": "Gang"})]
    answer = ask(builder, manifests=yaml.safe_dump_all(jobs))
    assert placed(answer) == {"ns/PodGroup/pg-job-fits": {"r1-1"}}
    assert list(waits(answer)) == ["ns/PodGroup/pg-job-large"]


def test_who_would_be_evicted_and_for_whom() -> None:
    builder = cluster(racks=1, nodes=1)
    gang(builder, "low", 4, on="r1-1")
    gang(builder, "high", 4, priority=10)
    answer = ask(builder)
    # One unit is enough for each pod, so no more than needed are evicted.
    assert {(each.id, each.by) for each in answer.evicted} == {
        ("ns/PodGroup/low", "ns/PodGroup/high")
    }
    assert placed(answer) == {"ns/PodGroup/high": {"r1-1"}}
    assert "1 workload with 4 pods would be evicted." in answer.lines


def test_where_nobody_may_be_evicted_it_waits() -> None:
    builder = cluster(racks=1, nodes=1)
    gang(builder, "low", 4, on="r1-1")
    gang(builder, "high", 4, priority=10)
    answer = ask(builder, setup=Setup(preempts=False))
    assert answer.evicted == []
    assert list(waits(answer)) == ["ns/PodGroup/high"]


def test_a_group_without_its_pods_says_so() -> None:
    group = {
        "apiVersion": "scheduling.muster.dev/v1alpha3",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    answer = ask(cluster(), manifests=yaml.safe_dump(group))
    assert list(waits(answer)) == ["ns/PodGroup/g"]


def test_what_is_not_tried_in_time_is_counted() -> None:
    builder = cluster()
    gang(builder, "a", 2)
    gang(builder, "b", 2)
    answer = ask(builder, setup=Setup(expired=lambda: True))
    assert answer.placements == []
    assert "2 workloads were not decided within the time limit." in answer.lines


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Change(), r"changes\[0\]: must have exactly one of"),
        (Change(remove_node="r1-1", evict="a/b/c"), r"changes\[0\]: must have exactly one of"),
        (Change(remove_node="none"), r"changes\[0\]\.removeNode: Not found: \"none\""),
        (
            Change(add_nodes=AddNodes(like="none", count=1)),
            r"addNodes\.like: Not found: \"none\"",
        ),
        (
            Change(add_nodes=AddNodes(like="r1-1", count=0)),
            r"addNodes\.count: must be between 1 and",
        ),
        (
            Change(add_nodes=AddNodes(like="r1-1", count=MOST_NEW_NODES + 1)),
            r"addNodes\.count: must be between 1 and",
        ),
        (
            Change(remove_domain=RemoveDomain(key="rack", value="none")),
            r"removeDomain: no node has rack=none",
        ),
        (
            Change(remove_domain=RemoveDomain(key="unknown", value="r1")),
            r"removeDomain: no node has unknown=r1",
        ),
        (Change(evict="ns/PodGroup/none"), r"evict: Not found: \"ns/PodGroup/none\""),
        (Change(evict="x" * 5000), r"evict: Not found: \"x{300}\""),
    ],
)
def test_a_change_that_cannot_be_made_is_named(change: Change, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ask(cluster(), change)


def test_new_nodes_are_bounded_over_all_changes() -> None:
    more = Change(add_nodes=AddNodes(like="r1-1", count=MOST_NEW_NODES // 2 + 1))
    with pytest.raises(ConfigError, match=r"changes\[1\]\.addNodes\.count"):
        ask(cluster(), more, more)


def test_there_may_be_so_many_changes() -> None:
    more = Change(add_nodes=AddNodes(like="r1-1", count=1))
    with pytest.raises(ConfigError, match="changes: Too many: 101: must have at most 100 items"):
        ask(cluster(), *[more] * (MOST_CHANGES + 1))


@pytest.mark.parametrize(
    "manifests",
    [
        "[",
        "a: b: c",
        "just text",
        "- a list",
        "kind: 7",
        "kind: Job\nmetadata: text",
        "kind: Node\nmetadata: {name: n}",
        "!!python/object/apply:os.system ['true']",
        "kind: Job\nmetadata: {name: a}\nspec: {parallelism: many}",
        "kind: Pod\nmetadata: {name: a}\nspec: {containers: text}",
        "{" * 1000,
    ],
)
def test_manifests_of_any_content_are_refused_with_a_reason(manifests: str) -> None:
    with pytest.raises(ConfigError):
        ask(cluster(), manifests=manifests)


def test_manifests_stand_for_so_many_pods_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.what_if.what_if.MOST_OBJECTS", 100)
    made = yaml.safe_dump(job("huge", 2_000_000_000))
    with pytest.raises(ConfigError, match="more than 100 groups and pods"):
        ask(cluster(), manifests=made)
