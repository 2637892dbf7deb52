"""Host ports and the hard terms about other pods: which nodes are left, one sentence each."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from scheduler.core.explain import reasons
from scheduler.core.model import (
    Expression,
    HostPort,
    PodInfo,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
    Taint,
)
from scheduler.core.place import Placement, Refusal, SearchBudget, place
from tests.scheduler.state_builder import StateBuilder, requests

CORE = requests(1)


def app(*values: str, namespaces: tuple[str, ...] = ("ns",)) -> PodSelector:
    return PodSelector((Expression("app", "In", values),), namespaces)


def wants(**fields: object) -> Requirements:
    return Requirements(CORE, **fields)  # type: ignore[arg-type]


def required_affinity(*values: str, key: str = "rack") -> Requirements:
    return wants(required_affinity=(PodTerm(app(*values), key),))


def required_anti_affinity(
    *values: str, key: str = "rack", selector: PodSelector | None = None
) -> Requirements:
    return wants(required_anti_affinity=(PodTerm(selector or app(*values), key),))


def spread_over(skew: int = 1, key: str = "rack", **fields: object) -> Requirements:
    return wants(spread=(Spread(app("web"), key, skew, **fields),))  # type: ignore[arg-type]


def racks(builder: StateBuilder) -> None:
    """a and b in r0, c in r1, d in none."""
    for name, rack in (("a", "r0"), ("b", "r0"), ("c", "r1")):
        builder.node(name, labels={"rack": rack})
    builder.node("d")


def open_nodes(builder: StateBuilder, info: PodInfo) -> str:
    nodes = builder.state.nodes
    slots = builder.state.framework.slots(builder.single(info).shape)
    return " ".join(sorted(nodes.name_of(row) for row in slots.nonzero()[0].tolist()))


WEB: Mapping[str, str] = {"app": "web"}


@pytest.mark.parametrize(
    ("there", "labels", "requirements", "want"),
    [
        pytest.param(
            {"a": WEB}, {}, required_affinity("web"), "a b", id="near a pod is its domain"
        ),
        pytest.param({}, {}, required_affinity("web"), "", id="near nobody is nowhere"),
        pytest.param(
            {}, WEB, required_affinity("web"), "a b c", id="the first of its kind may go anywhere"
        ),
        pytest.param(
            {"d": WEB}, WEB, required_affinity("web"), "a b c", id="one without a domain is nobody"
        ),
        pytest.param(
            {"c": WEB}, WEB, required_affinity("web"), "c", id="the second goes to the first"
        ),
        pytest.param(
            {"a": WEB},
            {},
            required_anti_affinity("web"),
            "c d",
            id="away from a pod is out of its domain",
        ),
        pytest.param(
            {"d": WEB},
            {},
            required_anti_affinity("web"),
            "a b c d",
            id="no label, no domain to avoid",
        ),
        pytest.param(
            {"a": {"app": "x"}},
            {},
            required_anti_affinity("web"),
            "a b c d",
            id="others do not matter",
        ),
        pytest.param(
            {"a": WEB},
            {},
            required_anti_affinity(selector=PodSelector(None, ("ns",))),
            "a b c d",
            id="no selector selects nobody",
        ),
        pytest.param(
            {"a": WEB},
            {},
            required_anti_affinity(selector=app("web", namespaces=("other",))),
            "a b c d",
            id="another namespace is meant",
        ),
        pytest.param(
            {"a": WEB},
            {},
            required_anti_affinity(
                selector=PodSelector((), (), (Expression("team", "In", ("red",)),))
            ),
            "c d",
            id="a namespace by its labels",
        ),
        pytest.param(
            {"a": WEB},
            {},
            required_anti_affinity(
                selector=PodSelector((), (), (Expression("team", "In", ("blue",)),))
            ),
            "a b c d",
            id="a namespace with other labels",
        ),
        pytest.param({"a": WEB}, WEB, spread_over(), "c", id="the emptier domain"),
        pytest.param({"a": WEB}, WEB, spread_over(2), "a b c", id="as much skew as allowed"),
        pytest.param({"a": WEB}, {}, spread_over(), "a b c", id="a pod that does not count itself"),
        pytest.param({"a": WEB, "c": WEB}, WEB, spread_over(), "a b c", id="all even"),
        pytest.param(
            {"a": WEB, "c": WEB},
            WEB,
            spread_over(min_domains=3),
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
    builder = StateBuilder()
    racks(builder)
    builder.state.set_namespace("ns", {"team": "red"})
    for node, of_pod in there.items():
        builder.pod(node=node, labels=of_pod)

    assert open_nodes(builder, builder.pod(requirements=requirements, labels=labels)) == want


@pytest.mark.parametrize("late", [False, True], ids=["its term was known", "its term came later"])
@pytest.mark.parametrize("ours", [True, False], ids=["a pod of ours", "a pod of another scheduler"])
def test_a_running_pod_keeps_others_out_of_its_domain(late: bool, ours: bool) -> None:
    builder = StateBuilder()
    racks(builder)
    info = builder.pod(labels=WEB) if late else None
    builder.pod(node="a", requirements=required_anti_affinity("web"), ours=ours)

    info = info or builder.pod(labels=WEB)

    assert open_nodes(builder, info) == "c d"
    found = dict(reasons(builder.state.framework, builder.single(info).shape))
    assert found["node(s) didn't satisfy existing pods anti-affinity rules"] == 2


def test_what_a_pod_kept_away_comes_back_when_it_goes() -> None:
    builder = StateBuilder()
    racks(builder)
    tyrant = builder.pod(node="a", requirements=required_anti_affinity("web"))
    info = builder.pod(labels=WEB)
    before = open_nodes(builder, info)
    builder.state.take_changes()
    builder.state.remove_pod(tyrant.uid)

    assert (before, open_nodes(builder, info)) == ("c d", "a b c d")
    assert len(builder.state.take_changes().rows) == 4


def test_a_domain_is_empty_again_when_its_node_is_gone() -> None:
    builder = StateBuilder()
    racks(builder)
    builder.pod(node="a", labels=WEB)
    info = builder.pod(requirements=required_anti_affinity("web"))
    builder.state.remove_node("a")

    assert open_nodes(builder, info) == "b c d"


def test_relabelled_pods_and_namespaces_are_judged_anew() -> None:
    builder = StateBuilder()
    racks(builder)
    red = PodSelector((Expression("app", "In", ("web",)),), (), (Expression("team", "Exists", ()),))
    info = builder.pod(requirements=required_anti_affinity(selector=red))
    builder.pod(node="a", name="x")
    seen = [open_nodes(builder, info)]
    builder.pod(node="a", name="x", labels=WEB)
    seen.append(open_nodes(builder, info))
    builder.state.set_namespace("ns", {"team": "red"})
    seen.append(open_nodes(builder, info))

    assert seen == ["a b c d", "a b c d", "c d"]


def test_a_pod_that_brings_a_term_with_its_new_label_is_found_by_it() -> None:
    """As `matchLabelKeys` do: the selector has the pod's own label in it."""
    builder = StateBuilder()
    racks(builder)
    info = builder.pod(node="a", name="x", labels={"rev": "1"})
    second = PodSelector((Expression("rev", "In", ("2",)),), ("ns",))
    builder.pod(
        node="a",
        name="x",
        labels={"rev": "2"},
        requirements=required_anti_affinity(selector=second),
    )
    other = builder.pod(requirements=required_anti_affinity(selector=second))

    assert open_nodes(builder, other) == "c d"
    builder.state.remove_pod(info.uid)
    assert open_nodes(builder, other) == "a b c d"


def test_a_leaving_pod_is_near_but_is_not_spread() -> None:
    builder = StateBuilder()
    racks(builder)
    builder.pod(node="a", labels=WEB, terminating=True)

    assert open_nodes(builder, builder.pod(requirements=required_affinity("web"))) == "a b"
    assert open_nodes(builder, builder.pod(requirements=spread_over(), labels=WEB)) == "a b c"


def test_all_terms_of_affinity_speak_of_the_same_pods() -> None:
    builder = StateBuilder()
    racks(builder)
    builder.pod(node="a", labels={"app": "web", "tier": "x"})
    builder.pod(node="c", labels=WEB)
    tier = PodSelector((Expression("tier", "Exists", ()),), ("ns",))
    both = wants(required_affinity=(PodTerm(app("web"), "rack"), PodTerm(tier, "rack")))

    assert open_nodes(builder, builder.pod(requirements=both)) == "a b"


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

    info = builder.pod(requirements=spread_over(honours_taints=honours), labels=WEB)

    assert open_nodes(builder, info) == want


def port(number: int = 80, address: str = "0.0.0.0", protocol: str = "TCP") -> Requirements:
    return wants(ports=(HostPort(protocol, number, address),))


@pytest.mark.parametrize(
    ("there", "here", "want"),
    [
        pytest.param(port(), port(), "n", id="one port, one node"),
        pytest.param(port(), port(81), "m n", id="another port"),
        pytest.param(port(), port(protocol="UDP"), "m n", id="another protocol"),
        pytest.param(port(), port(address="10.0.0.1"), "n", id="all addresses are taken"),
        pytest.param(port(address="10.0.0.1"), port(), "n", id="one of all addresses is taken"),
        pytest.param(
            port(address="10.0.0.1"), port(address="10.0.0.2"), "m n", id="another address"
        ),
        pytest.param(port(address="10.0.0.1"), port(address="10.0.0.1"), "n", id="same address"),
        pytest.param(port(), wants(), "m n", id="no port"),
    ],
)
def test_host_ports(there: Requirements, here: Requirements, want: str) -> None:
    builder = StateBuilder()
    builder.node("m")
    builder.pod(node="m", requirements=there, ours=False)
    builder.node("n")

    info = builder.pod(requirements=here)

    assert open_nodes(builder, info) == want


def test_taken_ports_are_a_reason_of_their_own() -> None:
    builder = StateBuilder()
    builder.node("n")
    builder.pod(node="n", requirements=port())
    info = builder.pod(requirements=port())

    assert reasons(builder.state.framework, builder.single(info).shape) == (
        ("node(s) didn't have free ports for the requested pod ports", 1),
    )


def members(builder: StateBuilder, count: int, requirements: Requirements) -> None:
    for _ in range(count):
        builder.pod("g", requirements=requirements, labels=WEB)


def racks_of(builder: StateBuilder, decision: Placement | Refusal) -> list[str]:
    assert isinstance(decision, Placement), decision
    nodes = builder.state.nodes.infos
    return sorted(n.labels.get("rack", "") for r in decision.rows if (n := nodes[r]) is not None)


TWO_EACH = ["r000"] * 2 + ["r001"] * 2 + ["r002"] * 2


@pytest.mark.parametrize(
    ("requirements", "count", "want"),
    [
        pytest.param(
            required_anti_affinity("web"), 3, ["r000", "r001", "r002"], id="one in each rack"
        ),
        pytest.param(required_anti_affinity("web"), 4, None, id="one more than there are racks"),
        pytest.param(required_anti_affinity("web", key="host"), 6, TWO_EACH, id="one on each node"),
        pytest.param(spread_over(), 6, TWO_EACH, id="spread evenly"),
        pytest.param(required_affinity("web"), 8, ["r000"] * 8, id="all in one rack"),
        pytest.param(required_affinity("web"), 9, None, id="more than one rack holds"),
        pytest.param(port(), 6, TWO_EACH, id="a port each"),
        pytest.param(port(), 7, None, id="more ports than nodes"),
    ],
)  # fmt: skip
def test_members_of_a_gang_see_each_other(
    requirements: Requirements, count: int, want: list[str] | None
) -> None:
    builder = StateBuilder()
    for index in range(6):
        builder.node(f"n{index}", labels={"rack": f"r{index // 2:03}", "host": f"n{index}"})
    builder.gang("g", count)
    members(builder, count, requirements)

    decision = builder.place("g")

    assert (racks_of(builder, decision) if isinstance(decision, Placement) else None) == want


def test_pods_that_need_each_other_find_the_rack_that_holds_them_all() -> None:
    builder = StateBuilder()
    builder.node("busy", 2, labels={"rack": "r0"})
    builder.pod(node="busy")
    for index in range(2):
        builder.node(f"n{index}", 2, labels={"rack": "r1"})
    builder.gang("g", 4)
    members(builder, 4, required_affinity("web"))

    assert racks_of(builder, builder.place("g")) == ["r1"] * 4


def test_a_worker_goes_to_the_driver_of_its_own_group() -> None:
    builder = StateBuilder()
    racks(builder)
    builder.gang("g", 3)
    for _ in range(2):
        builder.pod("g", requirements=required_affinity("driver"), labels={"app": "worker"})
    builder.pod("g", requirements=wants(selector=(("rack", "r1"),)), labels={"app": "driver"})

    assert racks_of(builder, builder.place("g")) == ["r1"] * 3


def test_a_worker_group_goes_to_the_driver_group_of_its_tree() -> None:
    builder = StateBuilder()
    racks(builder)
    builder.composite("tree", 2)
    builder.gang("a-workers", 2, parent="tree", created="1")
    builder.gang("driver", 1, parent="tree", created="2")
    for _ in range(2):
        builder.pod("a-workers", requirements=required_affinity("driver"), labels={"app": "worker"})
    builder.pod("driver", requirements=wants(selector=(("rack", "r1"),)), labels={"app": "driver"})

    assert racks_of(builder, builder.place("tree", composite=True)) == ["r1"] * 3


def test_extras_come_as_far_as_the_terms_let_them() -> None:
    builder = StateBuilder()
    racks(builder)
    builder.gang("g", 1)
    members(builder, 7, required_anti_affinity("web"))

    decision = builder.place("g")

    # One in each rack, and as many as there is room for on the node that is in none.
    assert racks_of(builder, decision) == ["", "", "", "", "r0", "r1"]


def test_a_trial_leaves_no_trace_in_the_tallies() -> None:
    builder = StateBuilder()
    racks(builder)
    builder.gang("g", 9)
    members(builder, 9, required_anti_affinity("web"))
    first = builder.place("g")
    single = builder.pod(requirements=required_anti_affinity("web"), labels=WEB)
    decision = place(builder.state, builder.single(single), SearchBudget())

    assert isinstance(first, Refusal)
    assert isinstance(decision, Placement)
    assert open_nodes(builder, single) == "a b c d"
