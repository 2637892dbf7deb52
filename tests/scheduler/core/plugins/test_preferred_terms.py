"""What is only preferred about other pods decides among nodes, and never keeps a pod out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from scheduler.core.model import (
    Expression,
    PodInfo,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
    Taint,
    Toleration,
    WeightedPodTerm,
)
from scheduler.core.place import Placement, SearchBudget, place
from tests.scheduler.state_builder import StateBuilder, requests

WEB: Mapping[str, str] = {"app": "web"}
OF_WEB = PodSelector((Expression("app", "In", ("web",)),), ("ns",))


def preferred_affinity(weight: int, key: str = "rack") -> Requirements:
    return Requirements(
        requests(1), preferred_affinity=(WeightedPodTerm(weight, PodTerm(OF_WEB, key)),)
    )


def preferred_spread(key: str = "rack", **fields: object) -> Requirements:
    spread = Spread(OF_WEB, key, **fields)  # type: ignore[arg-type]
    return Requirements(requests(1), preferred_spread=(spread,))


def racks(builder: StateBuilder, *sizes: int, cpu: int = 4) -> None:
    """Nodes r0a, r0b, ... in racks r0, r1, ... of these sizes."""
    for rack, size in enumerate(sizes):
        for index in range(size):
            name = f"r{rack}{'abcdef'[index]}"
            builder.node(name, cpu, labels={"rack": f"r{rack}", "host": name})


def goes_to(builder: StateBuilder, info: PodInfo) -> str:
    decision = place(builder.state, builder.single(info), SearchBudget())
    return builder.where(decision)[info.name]


@pytest.mark.parametrize(
    ("there", "labels", "requirements", "want"),
    [
        pytest.param({"r1a": WEB}, {}, preferred_affinity(1), "r1a", id="near the pods it likes"),
        pytest.param(
            {"r1a": WEB}, {}, preferred_affinity(-1), "r0a", id="far from the pods it does not like"
        ),
        pytest.param(
            {"r0a": WEB}, {}, preferred_affinity(-1), "r1a", id="in another domain, not just node"
        ),
        pytest.param(
            {"r1a": {}}, {}, preferred_affinity(1), "r1a", id="others do not matter: it packs"
        ),
        pytest.param(
            {"r0a": WEB}, WEB, preferred_spread(), "r1a", id="spread to the emptier domain"
        ),
        pytest.param({"r0a": {}}, WEB, preferred_spread(), "r0a", id="nothing to spread: it packs"),
        pytest.param(
            {"x": WEB},
            WEB,
            preferred_spread(),
            "r0a",
            id="a node without the label is the last choice",
        ),
    ],
)
def test_the_node_that_is_preferred(
    there: Mapping[str, Mapping[str, str]],
    labels: Mapping[str, str],
    requirements: Requirements,
    want: str,
) -> None:
    builder = StateBuilder()
    racks(builder, 2, 2)
    builder.node("x")
    for node, of_pod in there.items():
        builder.pod(node=node, labels=of_pod)

    assert goes_to(builder, builder.pod(requirements=requirements, labels=labels)) == want


@pytest.mark.parametrize(("weight", "want"), [(5, "r1a"), (-5, "r0a")], ids=["likes", "dislikes"])
@pytest.mark.parametrize("ours", [True, False], ids=["a pod of ours", "a pod of another scheduler"])
@pytest.mark.parametrize("late", [True, False], ids=["its term came later", "its term was known"])
def test_pods_that_run_have_preferences_too(
    weight: int, want: str, *, ours: bool, late: bool
) -> None:
    builder = StateBuilder()
    racks(builder, 1, 1)
    info = builder.pod(labels=WEB) if late else None
    builder.pod(node="r1a", requirements=preferred_affinity(weight), ours=ours)
    info = info or builder.pod(labels=WEB)

    assert goes_to(builder, info) == want


def test_the_stronger_preference_wins() -> None:
    builder = StateBuilder()
    racks(builder, 1, 1)
    builder.pod(node="r0a", labels=WEB)
    builder.pod(node="r1a", labels={"app": "db"})
    db = PodSelector((Expression("app", "In", ("db",)),), ("ns",))
    both = (WeightedPodTerm(1, PodTerm(OF_WEB, "rack")), WeightedPodTerm(2, PodTerm(db, "rack")))

    assert (
        goes_to(
            builder, builder.pod(requirements=Requirements(requests(1), preferred_affinity=both))
        )
        == "r1a"
    )


def test_preferences_never_keep_a_pod_out() -> None:
    builder = StateBuilder()
    racks(builder, 1)
    builder.pod(node="r0a", labels=WEB)

    assert goes_to(builder, builder.pod(requirements=preferred_affinity(-100), labels=WEB)) == "r0a"
    assert goes_to(builder, builder.pod(requirements=preferred_spread("zone"), labels=WEB)) == "r0a"


def test_spread_counts_no_nodes_that_the_pod_may_not_use() -> None:
    """As kube-scheduler: with nodeTaintsPolicy Honor, pods on tainted nodes are not there."""
    builder = StateBuilder()
    taint = Taint("gpu", "", "NoSchedule")
    builder.node("r0a", labels={"rack": "r0"}, taints=(taint,))
    builder.node("r0b", labels={"rack": "r0"})
    builder.node("r1a", labels={"rack": "r1"})
    tolerant = Requirements(requests(1), tolerations=(Toleration("gpu", "Exists", "", ""),))
    for _ in range(2):
        builder.pod(node="r0a", requirements=tolerant, labels=WEB)
    builder.pod(node="r1a", labels=WEB)

    assert goes_to(builder, builder.pod(requirements=preferred_spread(), labels=WEB)) == "r1a"
    honours = preferred_spread(honours_taints=True)
    assert goes_to(builder, builder.pod(requirements=honours, labels=WEB)) == "r0b"


def spread_of(builder: StateBuilder, decision: object, key: str) -> list[int]:
    """How many of the placed pods each domain got, most first."""
    assert isinstance(decision, Placement), decision
    nodes = builder.state.nodes.infos
    found = Counter(n.labels.get(key, "") for r in decision.rows if (n := nodes[r]) is not None)
    return sorted(found.values(), reverse=True)


@pytest.mark.parametrize(
    ("requirements", "count", "key", "want"),
    [
        pytest.param(preferred_spread(), 6, "rack", [2, 2, 2], id="spread over racks"),
        pytest.param(preferred_spread(), 7, "rack", [3, 2, 2], id="one more than even"),
        pytest.param(
            preferred_spread(), 20, "rack", [8, 8, 4], id="a full rack does not hold others back"
        ),
        pytest.param(preferred_affinity(-1), 6, "rack", [2, 2, 2], id="apart if possible"),
        pytest.param(preferred_affinity(-1, "host"), 5, "host", [1] * 5, id="a node each"),
        pytest.param(
            preferred_affinity(-1, "host"), 7, "host", [2, 2, 1, 1, 1], id="a second one if need be"
        ),
        pytest.param(preferred_affinity(1), 8, "rack", [8], id="together in one rack"),
        pytest.param(preferred_affinity(1), 3, "rack", [3], id="few of them too"),
        pytest.param(
            preferred_affinity(1), 12, "rack", [8, 4], id="in two racks where one is too small"
        ),
        pytest.param(preferred_affinity(1), 20, "rack", [8, 8, 4], id="all there is"),
    ],
)
def test_members_of_a_gang_heed_each_other(
    requirements: Requirements, count: int, key: str, want: list[int]
) -> None:
    builder = StateBuilder()
    racks(builder, 2, 2, 1)
    builder.gang("g", count)
    for _ in range(count):
        builder.pod("g", requirements=requirements, labels=WEB)

    assert spread_of(builder, builder.place("g"), key) == want


def test_racks_and_nodes_at_once() -> None:
    builder = StateBuilder()
    racks(builder, 3, 3)
    soft = (Spread(OF_WEB, "rack"), Spread(OF_WEB, "host"))
    builder.gang("g", 6)
    for _ in range(6):
        builder.pod("g", requirements=Requirements(requests(1), preferred_spread=soft), labels=WEB)
    decision = builder.place("g")

    assert spread_of(builder, decision, "rack") == [3, 3]
    assert spread_of(builder, decision, "host") == [1] * 6


def test_a_thousand_pods_are_spread_in_a_few_steps() -> None:
    builder = StateBuilder()
    racks(builder, 6, 6, 6, cpu=100)
    builder.gang("g", 1000)
    for _ in range(1000):
        builder.pod("g", requirements=preferred_spread("host"), labels=WEB)
    decision = builder.place("g")

    assert set(spread_of(builder, decision, "host")) == {55, 56}
    assert isinstance(decision, Placement)
    assert decision.steps <= 3
