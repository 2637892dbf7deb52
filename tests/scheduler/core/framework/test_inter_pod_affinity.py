"""InterPodAffinity: required and preferred affinity and anti-affinity between pods."""

from collections.abc import Mapping

import pytest

from scheduler.core.explain.explain import reasons
from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.values.model import (
    Expression,
    PodSelector,
    PodTerm,
    Requirements,
    WeightedPodTerm,
)
from tests.scheduler.core.framework.cluster import (
    TWO_EACH,
    WEB,
    app,
    goes_beside,
    goes_to,
    members,
    nodes_beside,
    open_nodes,
    preferred_affinity,
    preferred_spread,
    racks,
    racks_of,
    racks_of_gang,
    required_affinity,
    required_anti_affinity,
    spread_of_gang,
    two_racks,
    wants,
)
from tests.scheduler.state_builder import StateBuilder


@pytest.mark.parametrize(
    ("there", "labels", "requirements", "want"),
    [
        pytest.param(
            {"a": WEB},
            {},
            required_affinity("web"),
            "a b",
            id="affinity: the domain of a pod that matches",
        ),
        pytest.param({}, {}, required_affinity("web"), "", id="affinity that no pod matches"),
        pytest.param(
            {},
            WEB,
            required_affinity("web"),
            "a b c",
            id="the first pod that matches its own term goes to any domain",
        ),
        pytest.param(
            {"d": WEB},
            WEB,
            required_affinity("web"),
            "a b c",
            id="a matching pod on a node without the label does not count",
        ),
        pytest.param(
            {"c": WEB},
            WEB,
            required_affinity("web"),
            "c",
            id="the second pod goes to the domain of the first",
        ),
        pytest.param(
            {"a": WEB},
            {},
            required_anti_affinity("web"),
            "c d",
            id="anti-affinity: out of the domain of a pod that matches",
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
            id="pods that do not match do not count",
        ),
        pytest.param(
            {"a": WEB},
            {},
            required_anti_affinity(selector=PodSelector(None, ("ns",))),
            "a b c d",
            id="no selector matches no pod",
        ),
        pytest.param(
            {"a": WEB},
            {},
            required_anti_affinity(selector=app("web", namespaces=("other",))),
            "a b c d",
            id="a pod of another namespace does not count",
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
    ],
)
def test_nodes_that_are_left(
    there: Mapping[str, Mapping[str, str]],
    labels: Mapping[str, str],
    requirements: Requirements,
    want: str,
) -> None:
    assert nodes_beside(there, labels, requirements) == want


@pytest.mark.parametrize("late", [False, True], ids=["its term was known", "its term came later"])
@pytest.mark.parametrize("ours", [True, False], ids=["a pod of ours", "a pod of another scheduler"])
def test_a_running_pod_with_anti_affinity_excludes_others_from_its_domain(
    late: bool, ours: bool
) -> None:
    builder = StateBuilder()
    two_racks(builder)
    info = builder.pod(labels=WEB) if late else None
    builder.pod(node="a", requirements=required_anti_affinity("web"), ours=ours)

    info = info or builder.pod(labels=WEB)

    assert open_nodes(builder, info) == "c d"
    found = dict(reasons(builder.state.framework, builder.single(info).shape))
    assert found["node(s) didn't satisfy existing pods anti-affinity rules"] == 2


def test_nodes_are_free_again_when_the_pod_with_anti_affinity_goes() -> None:
    builder = StateBuilder()
    two_racks(builder)
    running = builder.pod(node="a", requirements=required_anti_affinity("web"))
    info = builder.pod(labels=WEB)
    before = open_nodes(builder, info)
    builder.state.take_changes()
    builder.state.remove_pod(running.uid)

    assert (before, open_nodes(builder, info)) == ("c d", "a b c d")
    assert ("Pod", "ns", info.name) in builder.state.take_changes().reconsider


def test_it_is_looked_at_again_when_one_of_several_with_anti_affinity_goes() -> None:
    builder = StateBuilder()
    two_racks(builder)
    running = builder.pod(node="a", requirements=required_anti_affinity("web"))
    builder.pod(node="c", requirements=required_anti_affinity("web"))
    info = builder.pod(labels=WEB)
    builder.state.take_changes()
    builder.state.remove_pod(running.uid)

    assert open_nodes(builder, info) == "a b d"
    changed = builder.state.take_changes().match_ids
    assert not changed.isdisjoint(builder.single(info).shape.filter_match_ids)


def test_a_domain_is_empty_again_when_its_node_is_gone() -> None:
    builder = StateBuilder()
    two_racks(builder)
    builder.pod(node="a", labels=WEB)
    info = builder.pod(requirements=required_anti_affinity("web"))
    builder.state.remove_node("a")

    assert open_nodes(builder, info) == "b c d"


def test_relabelled_pods_and_namespaces_are_matched_again() -> None:
    builder = StateBuilder()
    two_racks(builder)
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
    """`matchLabelKeys` do so: the selector contains the pod's own label."""
    builder = StateBuilder()
    two_racks(builder)
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


def test_all_terms_of_affinity_match_the_same_pods() -> None:
    builder = StateBuilder()
    two_racks(builder)
    builder.pod(node="a", labels={"app": "web", "tier": "x"})
    builder.pod(node="c", labels=WEB)
    tier = PodSelector((Expression("tier", "Exists", ()),), ("ns",))
    both = wants(required_affinity=(PodTerm(app("web"), "rack"), PodTerm(tier, "rack")))

    assert open_nodes(builder, builder.pod(requirements=both)) == "a b"


@pytest.mark.parametrize(
    ("requirements", "count", "want"),
    [
        pytest.param(
            required_anti_affinity("web"), 3, ["r000", "r001", "r002"], id="one in each rack"
        ),
        pytest.param(required_anti_affinity("web"), 4, None, id="one more than there are racks"),
        pytest.param(required_anti_affinity("web", key="host"), 6, TWO_EACH, id="one on each node"),
        pytest.param(required_affinity("web"), 8, ["r000"] * 8, id="all in one rack"),
        pytest.param(required_affinity("web"), 9, None, id="more than one rack holds"),
    ],
)
def test_members_of_a_gang_count_for_each_other(
    requirements: Requirements, count: int, want: list[str] | None
) -> None:
    assert racks_of_gang(requirements, count) == want


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
    two_racks(builder)
    builder.gang("g", 3)
    for _ in range(2):
        builder.pod("g", requirements=required_affinity("driver"), labels={"app": "worker"})
    builder.pod("g", requirements=wants(selector=(("rack", "r1"),)), labels={"app": "driver"})

    assert racks_of(builder, builder.place("g")) == ["r1"] * 3


def test_a_worker_group_goes_to_the_driver_group_of_its_tree() -> None:
    builder = StateBuilder()
    two_racks(builder)
    builder.composite("tree", 2)
    builder.gang("a-workers", 2, parent="tree", created="1")
    builder.gang("driver", 1, parent="tree", created="2")
    for _ in range(2):
        builder.pod("a-workers", requirements=required_affinity("driver"), labels={"app": "worker"})
    builder.pod("driver", requirements=wants(selector=(("rack", "r1"),)), labels={"app": "driver"})

    assert racks_of(builder, builder.place("tree", composite=True)) == ["r1"] * 3


def test_pods_beyond_the_minimum_are_placed_where_anti_affinity_lets_them() -> None:
    builder = StateBuilder()
    two_racks(builder)
    builder.gang("g", 1)
    members(builder, 7, required_anti_affinity("web"))

    decision = builder.place("g")

    # One in each rack, and as many as fit on the node without a rack.
    assert racks_of(builder, decision) == ["", "", "", "", "r0", "r1"]


def test_a_trial_leaves_the_match_counts_as_they_were() -> None:
    builder = StateBuilder()
    two_racks(builder)
    builder.gang("g", 9)
    members(builder, 9, required_anti_affinity("web"))
    first = builder.place("g")
    single = builder.pod(requirements=required_anti_affinity("web"), labels=WEB)
    decision = place(builder.state, builder.single(single), SearchBudget())

    assert isinstance(first, Refusal)
    assert isinstance(decision, Placement)
    assert open_nodes(builder, single) == "a b c d"


@pytest.mark.parametrize(
    ("there", "labels", "requirements", "want"),
    [
        pytest.param(
            {"r1a": WEB}, {}, preferred_affinity(1), "r1a", id="affinity: to the pods that match"
        ),
        pytest.param(
            {"r1a": WEB},
            {},
            preferred_affinity(-1),
            "r0a",
            id="anti-affinity: away from the pods that match",
        ),
        pytest.param(
            {"r0a": WEB}, {}, preferred_affinity(-1), "r1a", id="in another domain, not just node"
        ),
        pytest.param({"r1a": {}}, {}, preferred_affinity(1), "r1a", id="no pod matches: it packs"),
    ],
)
def test_the_node_that_is_preferred(
    there: Mapping[str, Mapping[str, str]],
    labels: Mapping[str, str],
    requirements: Requirements,
    want: str,
) -> None:
    assert goes_beside(there, labels, requirements) == want


@pytest.mark.parametrize(
    ("weight", "want"), [(5, "r1a"), (-5, "r0a")], ids=["affinity", "anti-affinity"]
)
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
    both = (
        WeightedPodTerm(1, PodTerm(app("web"), "rack")),
        WeightedPodTerm(2, PodTerm(db, "rack")),
    )

    assert goes_to(builder, builder.pod(requirements=wants(preferred_affinity=both))) == "r1a"


def test_preferences_never_keep_a_pod_out() -> None:
    builder = StateBuilder()
    racks(builder, 1)
    builder.pod(node="r0a", labels=WEB)

    assert goes_to(builder, builder.pod(requirements=preferred_affinity(-100), labels=WEB)) == "r0a"
    assert goes_to(builder, builder.pod(requirements=preferred_spread("zone"), labels=WEB)) == "r0a"


@pytest.mark.parametrize(
    ("requirements", "count", "key", "want"),
    [
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
def test_members_of_a_gang_count_in_each_others_preferences(
    requirements: Requirements, count: int, key: str, want: list[int]
) -> None:
    assert spread_of_gang(requirements, count, key) == want
