"""Affinity of pods to their own group: free if a constraint implies it, else a term."""

from collections.abc import Callable
from itertools import permutations

import pytest

from scheduler.core.pods.shapes import Shape
from scheduler.core.search.place import Placement
from scheduler.core.values.model import Expression, GroupTerm, PodSelector, PodTerm, Requirements
from tests.scheduler.state_builder import StateBuilder
from tests.support.counting import calls

RACK = "rack"


def to_group(group: str, key: str = RACK, above: int = 0) -> tuple[GroupTerm, ...]:
    selector = PodSelector((Expression("group", "In", (group,)),), ("ns",))
    return (GroupTerm(PodTerm(selector, key), above),)


def member(builder: StateBuilder, group: str, *terms: GroupTerm, name: str = "") -> None:
    builder.pod(group, name=name, labels={"group": group}, group_affinity=terms)


def shape(builder: StateBuilder, pod: str) -> Shape:
    for _ in builder.state.catch_up():
        pass
    return builder.state.pods[f"uid-{pod}"].shape


def considered(builder: StateBuilder, pod: str = "p") -> bool:
    return bool(shape(builder, pod).requirements.required_affinity)


@pytest.mark.parametrize(
    ("key", "above", "constrained", "want"),
    [
        pytest.param(RACK, 0, "leaf", False, id="of the PodGroup, by its own constraint"),
        pytest.param(RACK, 0, "middle", False, id="of the PodGroup, by one above it"),
        pytest.param(RACK, 0, "root", False, id="of the PodGroup, by one far above it"),
        pytest.param(RACK, 1, "leaf", True, id="of a composite, by a constraint below it"),
        pytest.param(RACK, 1, "middle", False, id="of a composite, by its own"),
        pytest.param(RACK, 2, "middle", True, id="of the root, by a constraint below it"),
        pytest.param(RACK, 2, "root", False, id="of the root, by its own"),
        pytest.param("host", 0, "leaf", True, id="by another key"),
        pytest.param(RACK, 0, "", True, id="no constraint at all"),
    ],
)
def test_a_term_that_no_constraint_stands_for_is_considered(
    key: str, above: int, constrained: str, want: bool
) -> None:
    builder = StateBuilder()
    builder.gang("root", composite=True, rack=constrained == "root")
    builder.gang("middle", parent="root", composite=True, rack=constrained == "middle")
    builder.gang("leaf", parent="middle", rack=constrained == "leaf")
    member(builder, "leaf", *to_group("leaf", key, above), name="p")

    assert considered(builder) == want


def test_a_preferred_constraint_stands_for_no_required_term() -> None:
    builder = StateBuilder()
    builder.gang("g", prefer_rack=True)
    member(builder, "g", *to_group("g"), name="p")

    assert considered(builder)


@pytest.mark.parametrize("rack", [True, False])
def test_the_order_in_which_pods_and_groups_come_does_not_matter(rack: bool) -> None:
    for order in permutations(range(3)):
        builder = StateBuilder()
        events: tuple[Callable[[], object], ...] = (
            lambda it=builder: it.gang("root", composite=True, rack=rack),  # type: ignore[misc]
            lambda it=builder: it.gang("g", parent="root"),  # type: ignore[misc]
            lambda it=builder: member(it, "g", *to_group("g"), name="p"),  # type: ignore[misc]
        )
        for number in order:
            events[number]()

        assert considered(builder) != rack, order


def test_a_pod_that_comes_before_its_group_makes_no_counts() -> None:
    builder = StateBuilder()
    member(builder, "g", *to_group("g"))
    builder.gang("g", rack=True)

    assert (len(builder.state.selectors), len(builder.state.shapes)) == (0, 1)


def test_the_constraints_of_a_group_that_is_made_anew_count() -> None:
    builder = StateBuilder()
    key = builder.gang("g", rack=True)
    member(builder, "g", *to_group("g"), name="p")

    builder.state.remove_group(key)
    builder.gang("g")
    assert considered(builder)

    builder.state.remove_group(key)
    builder.gang("g", rack=True)
    builder.state.take_changes()
    assert not considered(builder)
    assert len(builder.state.selectors) == 0


def test_a_term_that_is_considered_binds() -> None:
    builder = StateBuilder()
    builder.nodes(4, 4, rack_of=2)
    builder.gang("g")
    builder.pod("g", labels={"group": "g"}, node="n3")
    member(builder, "g", *to_group("g"), name="p")

    assert builder.where(builder.place("g"))["p"] in {"n2", "n3"}


def test_running_members_pin_the_domain_without_the_term() -> None:
    builder = StateBuilder()
    builder.nodes(4, 4, rack_of=2)
    builder.gang("g", 3, rack=True)
    builder.pod("g", labels={"group": "g"}, node="n3")
    for _ in range(2):
        member(builder, "g", *to_group("g"))

    assert set(builder.where(builder.place("g")).values()) <= {"n2", "n3"}
    assert len(builder.state.selectors) == 0


def test_pods_with_and_without_the_term_are_of_one_shape() -> None:
    builder = StateBuilder()
    builder.gang("g", rack=True)
    builder.gang("h", rack=True)
    for group in "gh":
        member(builder, group, *to_group(group))
        builder.pod(group, labels={"group": group})

    assert len(builder.state.shapes) == 1


def test_a_gang_costs_what_one_without_the_term_costs() -> None:
    def cost(*, with_terms: bool) -> int:
        builder = StateBuilder()
        builder.nodes(64, 4, rack_of=8)
        builder.gang("g", 32, rack=True)
        for _ in range(32):
            member(builder, "g", *(to_group("g") if with_terms else ()))
        return calls(lambda: isinstance(builder.place("g"), Placement))

    assert cost(with_terms=True) == cost(with_terms=False)


def test_a_thousand_gangs_with_terms_of_their_own_cost_the_next_one_nothing() -> None:
    def last(gangs: int) -> int:
        builder = StateBuilder()
        builder.nodes(16, 4, rack_of=4)
        for number in range(gangs):
            builder.gang(f"g{number}", rack=True)
            member(builder, f"g{number}", *to_group(f"g{number}"))
        assert (len(builder.state.selectors), len(builder.state.shapes)) == (0, 1)

        def one_more() -> None:
            member(builder, "more", *to_group("more"))
            builder.gang("more", rack=True)
            builder.place("more")

        return calls(one_more)

    assert last(1000) == last(10)


def test_a_root_above_many_pods_with_terms_costs_one_step_at_a_time() -> None:
    def dearest(pods: int) -> int:
        builder = StateBuilder()
        builder.gang("leaf", parent="root")
        # Its count is computed once for all, at the cost of any term.
        (known,) = to_group("leaf")
        builder.pod(requirements=Requirements(required_affinity=(known.term,)))
        for _ in range(pods):
            member(builder, "leaf", *to_group("leaf"))
        found = calls(lambda: builder.composite("root", 1))
        steps = builder.state.catch_up()
        for _ in range(3):
            found = max(found, calls(lambda: next(steps, None)))
        return found

    assert dearest(4_000) <= dearest(500) * 1.1
