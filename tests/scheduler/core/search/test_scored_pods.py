"""Pods without a group by kube-scheduler's default scores: alone, in batches, next to features."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest

from scheduler.core.decide import decide
from scheduler.core.framework.framework import Framework
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.batching import (
    Signature,
    batchable_by_score,
    by_score,
    place_batch,
    signature,
)
from scheduler.core.search.place import Placement, Refusal
from scheduler.core.values.model import (
    Expression,
    HostPort,
    NodeTerm,
    PodInfo,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
    Taint,
    WeightedPodTerm,
)
from scheduler.core.values.profiles import Scoring
from scheduler.core.values.search_budget import SearchBudget
from tests.scheduler.core.framework.cluster import WEB, app
from tests.scheduler.oracle.scores import HOST, MIB, ZONE, Cluster
from tests.scheduler.state_builder import GIB, StateBuilder, requests
from tools.testing.effort import seeds

BY_SCORE = SearchBudget(by_score=True)
NONE = Requirements(assumed=(100, 200 * MIB))
"""A pod of one container that requests nothing."""


def labelled(builder: StateBuilder, count: int, *zones: str, cpu: int = 8) -> None:
    """Add nodes n0, n1, ... with a hostname, in these zones in turn."""
    for index in range(count):
        labels = {HOST: f"n{index}"}
        if zones:
            labels[ZONE] = zones[index % len(zones)]
        builder.node(f"n{index}", cpu, labels=labels)


def add(builder: StateBuilder, info: PodInfo, **changes: object) -> PodInfo:
    """Change fields of a pod that the builder has added."""
    changed = replace(info, **changes)  # type: ignore[arg-type]
    builder.state.set_pod(changed)
    return changed


def goes_to(builder: StateBuilder, info: PodInfo) -> str:
    """Place one pod by score, and assume it there."""
    decision = decide(builder.state, builder.single(info), BY_SCORE)
    builder.run(decision)
    return builder.where(decision)[info.name]


def replicas(builder: StateBuilder, count: int, controller: str = "rs") -> list[str]:
    """Place replicas of one controller, one after the other, and return their nodes."""
    pods = (builder.pod(requirements=NONE, labels=WEB) for _ in range(count))
    return [goes_to(builder, add(builder, info, controller=controller)) for info in pods]


# kube-scheduler's rules, by plugin.


def test_least_allocated_chooses_the_emptiest_node() -> None:
    builder = StateBuilder()
    builder.nodes(3)
    builder.pod(node="n0", cpu=2)
    builder.pod(node="n2", cpu=1)

    assert goes_to(builder, builder.pod()) == "n1"


def test_groups_are_packed_all_the_same() -> None:
    builder = StateBuilder()
    builder.nodes(2)
    builder.pod(node="n1", cpu=2)
    builder.gang("g", 2)
    builder.pods("g", 2)

    placed = builder.where(builder.place("g", budget=BY_SCORE))

    assert set(placed.values()) == {"n1"}


def test_a_container_without_requests_counts_as_100m_and_200_mib() -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=1)
    builder.pod(node="n0", requirements=Requirements((("memory", 100 * MIB),), assumed=(500, 0)))
    builder.pod(node="n1", requirements=Requirements((("cpu", 400), ("memory", 100 * MIB))))

    # n0 has more free capacity by requests, and less with the assumed requests.
    assert goes_to(builder, builder.pod(requirements=NONE)) == "n1"


def test_balanced_allocation_decides_between_equally_empty_nodes() -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=64)
    builder.pod(node="n0", requirements=Requirements(requests(32)))
    builder.pod(node="n1", requirements=Requirements((("memory", 32 * GIB),)))

    # More cpu balances the node whose memory is in use.
    assert goes_to(builder, builder.pod(requirements=Requirements(requests(16)))) == "n1"


def test_an_image_on_the_node_counts() -> None:
    builder = StateBuilder()
    builder.nodes(3)
    for name in ("n1", "n2"):
        builder.state.set_images(name, [("web:1", 900 * MIB)])

    assert goes_to(builder, add(builder, builder.pod(), images=("web:1",))) == "n1"


def test_an_image_must_be_large_and_common_to_count() -> None:
    builder = StateBuilder()
    builder.nodes(100)
    builder.state.set_images("n7", [("web:1", 900 * MIB)])

    assert goes_to(builder, add(builder, builder.pod(), images=("web:1",))) == "n0"


@pytest.mark.parametrize("kind", ["controller", "service"])
def test_replicas_spread_over_zones_and_nodes(kind: str) -> None:
    builder = StateBuilder()
    labelled(builder, 6, "a", "b", "c", cpu=64)
    builder.state.replicas.set_service(("ns", "web"), WEB)
    # Not spread, other pods would go to the three nodes that are empty.
    for name in ("n0", "n1", "n2"):
        builder.pod(node=name, cpu=4)

    nodes = replicas(builder, 6, controller="rs" if kind == "controller" else "")

    assert sorted(nodes) == ["n0", "n1", "n2", "n3", "n4", "n5"]
    assert {int(name[1]) % 3 for name in nodes[:3]} == {0, 1, 2}


def test_pods_of_a_batch_spread_alike() -> None:
    builder = StateBuilder()
    labelled(builder, 6, "a", "b", "c", cpu=64)
    pods = [add(builder, builder.pod(requirements=NONE), controller="rs") for _ in range(12)]

    placements = place_batch(builder.state, [builder.single(it) for it in pods], BY_SCORE)

    assert Counter(p.rows[0] for p in placements) == dict.fromkeys(range(6), 2)


@pytest.mark.parametrize(
    ("there", "want"),
    [
        pytest.param({"controller": "rs"}, "n1", id="a replica"),
        pytest.param({"controller": "other"}, "n0", id="a pod of another controller"),
        pytest.param({"controller": "rs", "terminating": True}, "n0", id="a terminating replica"),
    ],
)
def test_what_counts_as_a_replica(there: Mapping[str, object], want: str) -> None:
    builder = StateBuilder()
    labelled(builder, 2, cpu=64)
    add(builder, builder.pod(node="n0", requirements=Requirements()), **there)
    # Without replicas, the emptier node.
    builder.pod(node="n1", requirements=NONE)

    assert goes_to(builder, add(builder, builder.pod(requirements=NONE), controller="rs")) == want


@pytest.mark.parametrize(
    ("selector", "namespace", "want"),
    [
        pytest.param({"app": "web"}, "ns", "n1", id="selected"),
        pytest.param({"app": "db"}, "ns", "n0", id="not selected"),
        pytest.param({}, "ns", "n0", id="an empty selector selects nothing"),
        pytest.param({"app": "web"}, "elsewhere", "n0", id="in another namespace"),
    ],
)
def test_which_services_spread(selector: dict[str, str], namespace: str, want: str) -> None:
    builder = StateBuilder()
    labelled(builder, 2, cpu=64)
    builder.state.replicas.set_service((namespace, "web"), selector)
    builder.pod(node="n0", requirements=Requirements(), labels=WEB)
    builder.pod(node="n1", requirements=NONE)

    assert goes_to(builder, builder.pod(requirements=NONE, labels=WEB)) == want


def test_constraints_of_the_pod_replace_the_default_ones() -> None:
    builder = StateBuilder()
    labelled(builder, 2, "a", cpu=64)
    add(builder, builder.pod(node="n0", requirements=Requirements()), controller="rs")
    builder.pod(node="n1", requirements=NONE)
    own = replace(NONE, spread=(Spread(app("web"), ZONE, 1),))

    info = add(builder, builder.pod(requirements=own), controller="rs")

    assert goes_to(builder, info) == "n0"


@pytest.mark.parametrize("named", [False, True])
def test_a_node_without_a_zone_takes_part_by_its_name(named: bool) -> None:
    builder = StateBuilder()
    labelled(builder, 2, "a", cpu=64)
    builder.node("bare", 64, labels={HOST: "bare"} if named else {})

    # As upstream, fewer labels mean fewer pods: the node gets most points.
    assert replicas(builder, 1) == ["bare"]


# Next to other features.


def test_filters_come_first() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    builder.node("tainted", taints=(Taint("gpu", "", "NoSchedule"),))
    builder.pod(node="n0", cpu=3)

    assert goes_to(builder, builder.pod()) == "n0"
    assert isinstance(decide(builder.state, builder.single(builder.pod()), BY_SCORE), Refusal)


def test_a_soft_taint_counts_three_times() -> None:
    builder = StateBuilder()
    builder.node("soft", taints=(Taint("old", "", "PreferNoSchedule"),))
    builder.node("full")
    builder.pod(node="full", cpu=3)

    assert goes_to(builder, builder.pod()) == "full"


def test_nominated_nodes_are_tried_first() -> None:
    builder = StateBuilder()
    builder.nodes(2)
    builder.pod(node="n1", cpu=2)
    info = builder.pod()
    builder.nominate(builder.single(info), "n1")

    assert goes_to(builder, info) == "n1"


def test_preemption_evicts_as_few_as_without_scores() -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=4)
    for _ in range(4):
        builder.pod(node="n0", cpu=1)
    builder.pod(node="n1", cpu=2, priority=10)
    builder.pod(node="n1", cpu=2)
    root = builder.single(builder.pod(cpu=2, priority=5))
    refusal = decide(builder.state, root, BY_SCORE)
    assert isinstance(refusal, Refusal)

    plan = preempt(builder.state, root, refusal, BY_SCORE)

    # By score, it would go to n0, which is empty once all victims are gone.
    assert isinstance(plan, Plan)
    assert [pod.node for pod in plan.pods] == ["n1"]


def test_only_pods_of_equal_kind_form_a_batch() -> None:
    builder = StateBuilder()
    builder.gang("g", 1)
    single, member = builder.pod(), builder.pod("g")
    kinds = [
        signature(builder.single(single)),
        signature(builder.state.forest.groups["PodGroup", "ns", "g"]),
    ]

    assert single.requirements == member.requirements
    assert kinds[0] != kinds[1]
    assert [by_score(kind, BY_SCORE) for kind in kinds if kind] == [True, False]


@pytest.mark.parametrize(
    ("profile", "want"),
    [
        pytest.param(Scoring("pack", "default"), "n1", id="default"),
        pytest.param(Scoring("pack", "spread"), "n1", id="spread"),
        pytest.param(Scoring("spread", "pack"), "n0", id="pack"),
    ],
)
def test_the_profile_of_the_scheduler_name_decides(profile: Scoring, want: str) -> None:
    builder = StateBuilder()
    builder.nodes(2)
    builder.pod(node="n0")
    info = builder.pod(scheduler="mine")
    budget = SearchBudget(profiles={"mine": profile})

    assert builder.where(decide(builder.state, builder.single(info), budget))[info.name] == want


# Against the slow formulas.

CHOICES = {
    "plain": NONE,
    "cpu": Requirements(requests(1), assumed=(0, 200 * MIB)),
    "both": Requirements((("cpu", 700), ("memory", 3 * GIB))),
    "selects": replace(NONE, selector=(("disk", "ssd"),)),
    "port": replace(NONE, ports=(HostPort("TCP", 80),)),
    "spread": replace(NONE, spread=(Spread(app("web"), ZONE, 2),)),
    "apart": replace(NONE, required_anti_affinity=(PodTerm(app("db"), HOST),)),
}


def drawn(seed: int) -> tuple[StateBuilder, Cluster, list[PodInfo]]:
    """Return a random cluster, the same for the oracle, and pods of one shape that wait."""
    dice, builder = random.Random(seed), StateBuilder()
    nodes, images = [], {}
    for index in range(dice.randint(1, 9)):
        labels = {HOST: f"n{index}"} if dice.random() < 0.9 else {}
        labels |= {ZONE: dice.choice("ab")} if dice.random() < 0.8 else {}
        labels |= {"disk": "ssd"} if dice.random() < 0.7 else {}
        nodes.append(builder.node(f"n{index}", dice.choice((2, 4, 9)), labels=labels))
        images[f"n{index}"] = {
            name: size
            for name, size in (("web:1", 700 * MIB), ("db:1", 90 * MIB), ("big:1", 4 * GIB))
            if dice.random() < 0.5
        }
        builder.state.set_images(f"n{index}", images[f"n{index}"].items())
    services = [("ns", {"app": "web"}), ("ns", {"app": "web", "tier": "1"}), ("ns", {"app": "db"})]
    for number, (namespace, selector) in enumerate(services):
        builder.state.replicas.set_service((namespace, f"s{number}"), selector)
    cluster = Cluster(nodes, [], services, images)

    def pod(requirements: Requirements, node: str = "") -> PodInfo:
        labels = {"app": dice.choice(("web", "db", "job")), "tier": dice.choice("12")}
        wanted = [image for image in ("web:1", "db:1", "big:1", "new:1") if dice.random() < 0.3]
        info = builder.pod(requirements=requirements, node=node, labels=labels)
        return add(
            builder,
            info,
            controller=dice.choice(("", "", "rs-1", "rs-2")),
            images=tuple(wanted),
            terminating=bool(node) and dice.random() < 0.1,
        )

    for _ in range(dice.randint(0, 12)):
        wants = dice.choice((CHOICES["plain"], CHOICES["cpu"], CHOICES["both"]))
        cluster.running.append(pod(wants, node=dice.choice(nodes).name))
    requirements = dice.choice(list(CHOICES.values()))
    return builder, cluster, [pod(requirements) for _ in range(dice.randint(1, 14))]


def feasible(framework: Framework, builder: StateBuilder, info: PodInfo) -> list[str]:
    rows = np.flatnonzero(framework.slots(builder.single(info).shape)).tolist()
    return [builder.state.nodes.name_of(row) for row in rows]


@pytest.mark.parametrize("seed", seeds(30, 600))
def test_each_pod_goes_to_a_node_that_kube_scheduler_prefers(seed: int) -> None:
    builder, cluster, pods = drawn(seed)

    for info in pods:
        fits = feasible(builder.state.framework, builder, info)
        if not fits:
            assert isinstance(decide(builder.state, builder.single(info), BY_SCORE), Refusal)
            continue
        points = cluster.points(info, fits)
        node = goes_to(builder, info)
        assert points[node] == max(points.values()), (seed, info.name, points)
        cluster.running.append(replace(info, node=node))


def one_by_one(builder: StateBuilder, pods: list[PodInfo]) -> Iterator[str]:
    for info in pods:
        decision = decide(builder.state, builder.single(info), BY_SCORE)
        if not isinstance(decision, Placement):
            return
        builder.run(decision)
        yield builder.where(decision)[info.name]


@pytest.mark.parametrize("seed", seeds(30, 600))
def test_a_batch_is_the_same_as_one_pod_after_the_other(seed: int) -> None:
    builder, _, pods = drawn(seed)
    other, _, same = drawn(seed)
    roots = [builder.single(info) for info in pods]
    assert batchable_by_score(builder.state, roots[0].shape)

    together = place_batch(builder.state, roots, BY_SCORE)

    names = [builder.state.nodes.name_of(each.rows[0]) for each in together]
    assert names == list(one_by_one(other, same))


def test_pods_with_preferences_of_others_go_in_turn() -> None:
    builder = StateBuilder()
    labelled(builder, 4, "a", "b")
    term = WeightedPodTerm(50, PodTerm(PodSelector((), ("ns",)), ZONE))
    wants = replace(NONE, preferred_affinity=(term,))
    pods = [builder.pod(requirements=wants, labels=WEB) for _ in range(6)]

    together = place_batch(builder.state, [builder.single(it) for it in pods], BY_SCORE)

    assert len({each.rows[0] % 2 for each in together}) == 1


def test_a_preferred_node_affinity_is_normalised_by_the_nodes_that_still_fit() -> None:
    builder = StateBuilder()
    builder.node("best", 1, labels={"disk": "ssd", "size": "l"})
    builder.node("good", 64, labels={"disk": "ssd"})
    builder.node("other", 64)
    builder.pod(node="good", cpu=60)
    terms = tuple(
        (weight, NodeTerm((Expression(key, "Exists", ()),)))
        for key, weight in (("disk", 10), ("size", 90))
    )
    wants = Requirements(requests(1), preferred_node_affinity=terms)
    pods = [builder.pod(requirements=wants) for _ in range(2)]

    together = place_batch(builder.state, [builder.single(it) for it in pods], BY_SCORE)

    # Next to "best", "good" has 10 of 100 points; alone it has all 100.
    assert [each.rows[0] for each in together] == [0, 1]


def test_the_signature_of_a_single_pod_has_one_pod() -> None:
    builder = StateBuilder()
    kind = signature(builder.single(builder.pod()))

    assert isinstance(kind, Signature)
    assert (kind.size, kind.single) == (1, True)
