"""PodTopologySpread: required and preferred constraints."""

from collections.abc import Mapping

import numpy as np
import pytest

from scheduler.core.search.place import Placement
from scheduler.core.values.model import Requirements, Spread, Taint, Toleration
from tests.scheduler.core.framework.cluster import (
    TWO_EACH,
    WEB,
    app,
    goes_beside,
    goes_to,
    nodes_beside,
    open_nodes,
    preferred_spread,
    racks,
    racks_of_gang,
    required_affinity,
    required_spread,
    spread_of,
    spread_of_gang,
    two_racks,
    wants,
)
from tests.scheduler.state_builder import StateBuilder


@pytest.mark.parametrize(
    ("there", "labels", "requirements", "want"),
    [
        pytest.param({"a": WEB}, WEB, required_spread(), "c", id="the emptier domain"),
        pytest.param({"a": WEB}, WEB, required_spread(2), "a b c", id="as much skew as allowed"),
        pytest.param(
            {"a": WEB}, {}, required_spread(), "a b c", id="a pod that does not count itself"
        ),
        pytest.param({"a": WEB, "c": WEB}, WEB, required_spread(), "a b c", id="all even"),
        pytest.param(
            {"a": WEB, "c": WEB},
            WEB,
            required_spread(min_domains=3),
            "",
            id="too few domains count as none",
        ),
    ],
)
def test_nodes_that_are_left(
    there: Mapping[str, Mapping[str, str]],
    labels: Mapping[str, str],
    requirements: Requirements,
    want: str,
) -> None:
    assert nodes_beside(there, labels, requirements) == want


def test_a_terminating_pod_counts_for_affinity_but_not_for_spread() -> None:
    builder = StateBuilder()
    two_racks(builder)
    builder.pod(node="a", labels=WEB, terminating=True)

    assert open_nodes(builder, builder.pod(requirements=required_affinity("web"))) == "a b"
    assert open_nodes(builder, builder.pod(requirements=required_spread(), labels=WEB)) == "a b c"


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        pytest.param({}, "b", id="nodes it cannot use do not count"),
        pytest.param({"honours_affinity": False}, "", id="unless affinity is ignored"),
    ],
)
def test_spreading_over_nodes_the_affinity_admits(policy: dict[str, bool], want: str) -> None:
    builder = StateBuilder()
    builder.node("a", labels={"rack": "r0"})
    builder.node("b", labels={"rack": "r1", "disk": "ssd"})
    builder.pod(node="b", labels=WEB)
    spread = (Spread(app("web"), "rack", 1, **policy),)
    info = builder.pod(requirements=wants(selector=(("disk", "ssd"),), spread=spread), labels=WEB)

    assert open_nodes(builder, info) == want


@pytest.mark.parametrize(
    ("honours", "want"),
    [
        pytest.param(False, "", id="tainted nodes count"),
        pytest.param(True, "b", id="unless taints are honoured"),
    ],
)
def test_spreading_over_tainted_nodes(honours: bool, want: str) -> None:
    builder = StateBuilder()
    builder.node("a", labels={"rack": "r0"}, taints=(Taint("gpu", "", "NoSchedule"),))
    builder.node("b", labels={"rack": "r1"})
    builder.pod(node="b", labels=WEB)

    info = builder.pod(requirements=required_spread(honours_taints=honours), labels=WEB)

    assert open_nodes(builder, info) == want


@pytest.mark.parametrize(
    ("requirements", "count", "want"),
    [
        pytest.param(required_spread(), 6, TWO_EACH, id="spread evenly"),
    ],
)
def test_members_of_a_gang_count_for_each_other(
    requirements: Requirements, count: int, want: list[str] | None
) -> None:
    assert racks_of_gang(requirements, count) == want


@pytest.mark.parametrize(
    ("there", "labels", "requirements", "want"),
    [
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
    assert goes_beside(there, labels, requirements) == want


def test_spread_counts_no_nodes_that_the_pod_may_not_use() -> None:
    """In kube-scheduler, with nodeTaintsPolicy Honor, pods on tainted nodes do not count."""
    builder = StateBuilder()
    taint = Taint("gpu", "", "NoSchedule")
    builder.node("r0a", labels={"rack": "r0"}, taints=(taint,))
    builder.node("r0b", labels={"rack": "r0"})
    builder.node("r1a", labels={"rack": "r1"})
    tolerant = wants(tolerations=(Toleration("gpu", "Exists", "", ""),))
    for _ in range(2):
        builder.pod(node="r0a", requirements=tolerant, labels=WEB)
    builder.pod(node="r1a", labels=WEB)

    assert goes_to(builder, builder.pod(requirements=preferred_spread(), labels=WEB)) == "r1a"
    honours = preferred_spread(honours_taints=True)
    assert goes_to(builder, builder.pod(requirements=honours, labels=WEB)) == "r0b"


def test_nodes_that_all_lack_a_label_are_scored_alike() -> None:
    """kube-scheduler gives such nodes 0: the fuller zone is not better than the other."""
    builder = StateBuilder()
    builder.node("z2", labels={"zone": "z2"})
    builder.node("z1", labels={"zone": "z1"})
    builder.node("full", 2, labels={"zone": "z1", "rack": "r0"})
    for _ in range(2):
        builder.pod(node="full", labels=WEB)
    both = tuple(Spread(app("web"), key) for key in ("zone", "rack"))
    shape = builder.single(builder.pod(requirements=wants(preferred_spread=both))).shape

    score = builder.state.framework.preference(shape, np.array([0, 1]))

    assert score is not None
    assert score.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("requirements", "count", "key", "want"),
    [
        pytest.param(preferred_spread(), 6, "rack", [2, 2, 2], id="spread over racks"),
        pytest.param(preferred_spread(), 7, "rack", [3, 2, 2], id="one more than even"),
        pytest.param(
            preferred_spread(), 20, "rack", [8, 8, 4], id="a full rack does not hold others back"
        ),
    ],
)
def test_members_of_a_gang_count_in_each_others_preferences(
    requirements: Requirements, count: int, key: str, want: list[int]
) -> None:
    assert spread_of_gang(requirements, count, key) == want


def test_racks_and_nodes_at_once() -> None:
    builder = StateBuilder()
    racks(builder, 3, 3)
    soft = (Spread(app("web"), "rack"), Spread(app("web"), "host"))
    builder.gang("g", 6)
    for _ in range(6):
        builder.pod("g", requirements=wants(preferred_spread=soft), labels=WEB)
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
