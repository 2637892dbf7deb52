"""What pods of a stage wait for: the requests that change it, and the raw rate of these."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from bench.e2e import raw, raw_rates, stage_changes, workload_objects
from bench.e2e.cases import CASES, RAW, Case
from bench.e2e.constraints import Outcome, complaints
from bench.e2e.objects import NAMESPACE, NATIVE, PODS, Json, node
from bench.e2e.wire import Wire
from bench.e2e.workloads import Stage
from tests.bench.e2e.test_changes import FakeAccess

STAGED = [name for name, case in CASES.items() if case.staged]


def stages(name: str) -> tuple[Case, list[tuple[int, Stage, list[Json]]]]:
    case = CASES[name].scaled(6, 0.01)
    assert case.workload is not None
    lots = [pods for _, pods in NATIVE.waiting(case)]
    return case, list(zip(range(9), case.workload.stages, lots, strict=False))


@pytest.mark.parametrize("name", STAGED)
def test_each_stage_needs_something_and_has_a_raw_rate(name: str) -> None:
    case, found = stages(name)

    assert RAW in case.subjects
    for number, stage, pods in found:
        names = [pod["metadata"]["name"] for pod in pods]
        needed = stage_changes.needed(case, number, stage, names)
        assert needed
        if stage.own:
            assert [change.path for change in needed] == [f"{PODS}/{each}" for each in names]


def test_a_change_is_counted_as_the_api_server_counts_it() -> None:
    of = [
        raw.Change("PATCH", "/api/v1/nodes/n0/status", {}),
        raw.Change("POST", "/api/v1/nodes", {}),
        raw.Change("DELETE", f"{PODS}/v-1"),
        raw.Change("PATCH", f"{PODS}/v-1/resize", []),
    ]

    assert [stage_changes.written(each) for each in of] == [
        "nodes/status", "nodes", "pods/delete", "pods/resize",
    ]  # fmt: skip


def outcome(case: Case, number: int, stage: Stage, pods: list[Json], *more: Json) -> list[str]:
    """What a checker says if these pods are all on the first node, among those that run."""
    given = stage_changes.given(case, number, stage)
    placed = [pod | {"spec": pod["spec"] | {"nodeName": "n0"}} for pod in pods]
    everyone = [*given, *more, *placed]
    for pod in everyone:
        pod["metadata"]["namespace"] = NAMESPACE
    nodes = [node(case, index) for index in range(case.nodes)]
    return complaints(Outcome(everyone, nodes), lambda _: None)


def test_pods_that_are_behind_others_may_only_run_once_more_have_come() -> None:
    case, ((number, stage, pods), *_) = stages("perf-pod-added")
    needed = stage_changes.needed(case, number, stage, [pod["metadata"]["name"] for pod in pods])
    more = [cast("Json", change.body) for change in needed]

    assert any("skew" in each for each in outcome(case, number, stage, pods))
    assert not outcome(case, number, stage, pods, *more)


def test_pods_wait_for_the_label_that_others_are_given() -> None:
    case, ((number, stage, pods), *_) = stages("perf-pod-updated")
    needed = stage_changes.needed(case, number, stage, [])

    assert outcome(case, number, stage, pods)
    assert len(needed) == case.nodes
    (term,) = pods[0]["spec"]["affinity"]["podAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    labels = cast("Json", needed[0].body)["metadata"]["labels"]
    assert term["labelSelector"]["matchLabels"] == labels


def test_there_is_no_room_before_the_pods_that_run_are_made_smaller() -> None:
    case, (*_, (number, stage, pods)) = stages("perf-pod-updated")

    assert any("less cpu" in each for each in outcome(case, number, stage, pods))
    assert [change.path for change in stage_changes.needed(case, number, stage, [])] == [
        f"{PODS}/{pod['metadata']['name']}/resize"
        for pod in stage_changes.given(case, number, stage)
    ]


def test_pods_that_tolerate_nothing_fit_on_no_node_of_their_own() -> None:
    case, (_, (number, stage, pods), _) = stages("perf-pod-updated")
    assert stage.before is not None
    nodes = stage_changes.nodes(case, number, stage, stage.before)
    pod = pods[0] | {"spec": pods[0]["spec"] | {"nodeName": nodes[0]["metadata"]["name"]}}

    assert complaints(Outcome([pod], nodes), lambda _: None)
    (added,) = cast("list[Json]", stage_changes.needed(case, number, stage, ["p"])[0].body)
    pod["spec"]["tolerations"] = [added["value"]]
    assert not complaints(Outcome([pod], nodes), lambda _: None)


class Sent:
    def __init__(self) -> None:
        self.access = FakeAccess()
        self.lines: list[str] = []

    async def call(self, sent: bytes) -> bytes:
        self.lines.append(sent.split(b" HTTP", 1)[0].decode())
        return b"{}"


async def test_a_pods_own_change_is_written_before_its_binding() -> None:
    gates = [raw.Change("PATCH", f"{PODS}/{name}", {}) for name in ("a", "b")]
    chains = raw_rates._of_stage(["a", "b"], gates, own=True)
    wire = Sent()

    for chain in chains:
        for write in chain:
            await raw._Prepared(cast("Wire", wire), write).send(cast("Wire", wire))

    assert wire.lines == [
        f"PATCH {PODS}/a", f"POST {PODS}/a/binding", f"PATCH {PODS}/b", f"POST {PODS}/b/binding",
    ]  # fmt: skip


async def test_what_others_wait_for_is_written_before_all_bindings() -> None:
    gone = [raw.Change("DELETE", f"{PODS}/v-0")]
    chains = raw_rates._of_stage(["a", "b"], gone, own=False)

    assert [[(write.pod, write.change) for write in chain] for chain in chains] == [
        [("", gone[0])], [("a", None)], [("b", None)],
    ]  # fmt: skip


def test_what_runs_beforehand_is_not_taken_for_what_cannot_be_bound() -> None:
    case = replace(CASES["perf-pod-updated"], nodes=2)
    assert case.workload is not None
    given = stage_changes.given(case, 0, case.workload.stages[0])

    assert {pod["metadata"]["name"] for pod in given} == {"v-given-0-0", "v-given-0-1"}
    assert all(pod["spec"]["nodeName"] for pod in given)
    assert workload_objects.pod("unlabelled", "x", NAMESPACE)["metadata"] == {"name": "x"}
