"""The objects of scheduler_perf's workloads."""

import pytest

from api.constants import SCHEDULER_NAME
from tools.bench.end_to_end import victims, workload_volumes
from tools.bench.end_to_end import workload_objects as made
from tools.bench.end_to_end.cases import CASES, Case
from tools.bench.end_to_end.objects import NATIVE, OURS, namespaces, node
from tools.bench.end_to_end.workloads import WORKLOADS, Content, Workload

OWN = "bench"


def workload(case: Case) -> Workload:
    assert case.workload is not None
    return case.workload


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("share", [1.0, 0.02])
def test_there_is_room_for_all_pods(name: str, share: float) -> None:
    case = CASES[name] if share == 1.0 else CASES[name].scaled(100, share)
    of = workload(case)

    if of.one_node:
        assert case.pods <= 90_000
    elif of.filled:
        assert case.pods // of.staged <= made.BLOCKERS * case.nodes
        assert made.BLOCKERS * 350 <= 4_000
        kinds = [kind for stage in of.stages for kind in stage.pods]
        attached = sum(kind in ("once-blocked", "limit-blocked") for kind in kinds)
        slots = workload_volumes.attachable(of) * case.nodes
        assert attached * (case.pods // of.staged) <= slots
    elif of.stages:
        assert case.pods // of.staged <= 3_000  # on one node, or less than all of one kind's cpu
        assert case.pods // of.staged * 200 <= case.nodes * 200_000
    elif of.alone:
        usable = sum(not of.tainted(index) for index in range(case.nodes))
        assert case.pods + of.running <= usable
    else:
        on_one = -(-of.running // case.nodes)
        assert case.pods <= case.nodes * (40 - on_one)  # 100m each of 4 cores


@pytest.mark.parametrize("name", WORKLOADS)
def test_names_are_of_one_pod_each_and_nodes_and_namespaces_are_there(name: str) -> None:
    case = CASES[name].scaled(100, 0.02)
    of = workload(case)
    nodes = {node(case, index)["metadata"]["name"] for index in range(case.nodes)}
    spaces = {each["metadata"]["name"] for each in namespaces(case)}
    running = list(made.running(of, OWN, case.nodes))

    assert len(nodes) == case.nodes
    assert {pod["spec"]["nodeName"] for _, pod in running} <= nodes
    assert {space for space, _ in running} <= spaces - {OWN}
    own = [*OURS.blocked(of), *(pod for _, pods in OURS.waiting(case) for pod in pods)]
    assert len({pod["metadata"]["name"] for pod in own}) == len(own) == of.blocked + case.pods


@pytest.mark.parametrize("name", WORKLOADS)
def test_both_schedulers_get_the_same_pods(name: str) -> None:
    case = CASES[name].scaled(100, 0.02)
    ours, theirs = ([pod for _, pods in it.waiting(case) for pod in pods] for it in (OURS, NATIVE))
    for pod in (*ours, *OURS.blocked(workload(case))):
        assert pod["spec"].pop("schedulerName") == SCHEDULER_NAME

    assert ours == theirs


def test_those_that_are_gated_want_to_be_with_the_pods_that_are_bound() -> None:
    of = workload(CASES["perf-gated-near"])
    gated = made.blocked(of, OWN)[0]
    (term,) = gated["spec"]["affinity"]["podAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]

    assert gated["spec"]["schedulingGates"]
    labels = made.pod(of.content, "p-0", OWN)["metadata"]["labels"]
    assert term["labelSelector"]["matchLabels"].items() <= labels.items()
    assert OWN in term["namespaces"]


def test_pods_that_are_spread_by_default_are_those_of_a_service() -> None:
    labels = made.pod("served", "p-0", OWN)["metadata"]["labels"]

    assert made.service("all")["spec"]["selector"].items() <= labels.items()


@pytest.mark.parametrize("content", ["in-tree-volume", "csi-volume", "migrated-volume"])
def test_a_volume_and_its_claim_are_bound_to_each_other(content: Content) -> None:
    volume, claim = workload_volumes.volume(content, "p-1", OWN)
    pod = made.pod(content, "p-1", OWN)

    asked = pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
    assert asked == claim["metadata"]["name"] == volume["spec"]["claimRef"]["name"]
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]


def test_a_composite_gang_that_evicts_nothing_asks_for_no_priority() -> None:
    case = CASES["perf-trees-large"]
    gangs = [gang for gang, _ in OURS.waiting(case) if gang]

    assert "priorityClassName" not in OURS.composite(case, gangs)["spec"]


def test_each_stage_has_as_many_pods_of_each_kind_and_starts_with_one_cordoned_node() -> None:
    case = CASES["perf-node-added"].scaled(100, 0.0205)
    lots = [pods for _, pods in OURS.waiting(case)]

    assert [len(lot) for lot in lots] == [20, 20, 60, 20]
    assert case.first == 1
    assert node(case, 0)["spec"] == {"unschedulable": True}


def test_every_fifth_node_is_tainted_where_pods_spread_over_the_others() -> None:
    case = CASES["perf-inclusion"]
    tainted = [index for index in range(100) if node(case, index)["spec"].get("taints")]

    assert tainted == list(range(0, 100, 5))


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_priority_class_that_pods_name_is_there(name: str) -> None:
    case = CASES[name].scaled(100, 0.02)
    pods = [*OURS.blocked(workload(case)), *(pod for _, lot in OURS.waiting(case) for pod in lot)]
    named = {pod["spec"].get("priorityClassName") for pod in pods} - {None}

    assert named <= {each["metadata"]["name"] for each in victims.classes()}
    assert case.prioritized or not named


def test_pods_that_never_fit_are_more_important_than_those_that_do() -> None:
    of = workload(CASES["perf-unschedulable"].scaled(100, 0.02))

    assert made.pod(of.blocks, "late-0", OWN)["spec"]["priorityClassName"] == victims.URGENT
    assert of.arriving
    assert not of.blocked
