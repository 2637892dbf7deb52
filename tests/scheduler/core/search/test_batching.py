"""Roots decided in one batch get the same nodes as one by one."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.search.batching import Signature, alike, batchable, place_batch, signature
from scheduler.core.search.place import Placement, SearchBudget, place
from scheduler.core.values.model import POD_GROUP
from tests.scheduler.core.framework.cluster import WEB, ZONE, bound, preferred_affinity, wants
from tests.scheduler.harness import Harness
from tests.scheduler.state_builder import StateBuilder, requests


def filled(capacities: list[int], taken: list[int], count: int) -> tuple[StateBuilder, list[Pod]]:
    builder = StateBuilder()
    for index, capacity in enumerate(capacities):
        builder.node(f"n{index}", cpu=capacity)
    for index, pods in enumerate(taken[: len(capacities)]):
        for _ in range(min(pods, capacities[index])):
            builder.pod(node=f"n{index}")
    infos = [builder.pod() for _ in range(count)]
    return builder, [builder.state.pods[info.uid] for info in infos]


Nominated = tuple[int, int, int, int]
"""A node, the number of pods, their CPU, and the priority."""
nominated = st.lists(
    st.tuples(st.integers(0, 7), st.integers(1, 3), st.integers(1, 2), st.sampled_from((-1, 0, 1))),
    max_size=4,
)


def nominate(builder: StateBuilder, places: list[Nominated]) -> None:
    """Nominate nodes for other pods, whose victims may still exist."""
    for index, (node, count, cpu, priority) in enumerate(places):
        other = builder.single(builder.pod(cpu=cpu, name=f"other{index}", priority=priority))
        builder.nominate(other, f"n{node}", count)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.lists(st.integers(0, 4), min_size=8, max_size=8),
    st.integers(1, 12),
    nominated,
)
def test_many_in_one_go_are_as_one_by_one(
    capacities: list[int], taken: list[int], count: int, others: list[Nominated]
) -> None:
    builder, pods = filled(capacities, taken, count)
    nominate(builder, others)
    assert batchable(builder.state, pods[0].shape)
    at_once = {
        p.pods[0].info.name: p.rows[0] for p in place_batch(builder.state, pods, SearchBudget())
    }

    in_turn: dict[str, int] = {}
    for pod in pods:
        decision = place(builder.state, pod, SearchBudget())
        if isinstance(decision, Placement):
            builder.state.assume(decision.pods, decision.rows)
            in_turn[pod.info.name] = decision.rows[0]

    assert at_once == in_turn


Places = dict[str, list[int]]


def in_turn(builder: StateBuilder, groups: list[Group]) -> Places:
    """Decide one by one, until one fails."""
    found: Places = {}
    for group in groups:
        decision = place(builder.state, group, SearchBudget())
        if not isinstance(decision, Placement):
            break
        builder.state.assume(decision.pods, decision.rows)
        found |= where(decision)
    return found


def at_once(builder: StateBuilder, groups: list[Group]) -> Places:
    """Decide in as few batches as possible for equal roots."""
    found: Places = {}
    while groups:
        placements = place_batch(builder.state, groups, SearchBudget())
        if not placements:
            break
        for placement in placements:
            builder.state.assume(placement.pods, placement.rows)
            found |= where(placement)
        groups = groups[len(placements) :]
    return found


def where(placement: Placement) -> Places:
    names = [pod.info.name for pod in placement.pods]
    assert placement.minimums == len(names)
    return {placement.root[2]: [*placement.rows]} | {
        name: [row] for name, row in zip(names, placement.rows, strict=True)
    }


def test_a_gang_whose_pods_prefer_each_other_is_decided_alone() -> None:
    """The node of one of them changes the preference of the next one."""
    builder = StateBuilder()
    for name, terms in (("plain", wants()), ("together", preferred_affinity(1))):
        builder.gang(name, 2)
        for _ in range(2):
            builder.pod(name, requirements=terms, labels=WEB)
    groups = builder.state.forest.groups

    assert signature(groups[POD_GROUP, "ns", "plain"]) is not None
    assert signature(groups[POD_GROUP, "ns", "together"]) is None


def test_a_gang_that_expects_pods_is_decided_alone() -> None:
    """A placement for a pod that does not exist yet is held, not bound."""
    builder = StateBuilder()
    builder.gang("g", 2)
    builder.pod("g")
    group = builder.state.forest.groups[POD_GROUP, "ns", "g"]
    other = builder.pod("g")
    assert signature(group) is not None

    builder.state.remove_pod(other.uid)
    builder.state.set_pod(replace(other, uid="expected", expected=True))

    assert (group.pending_total, group.available) == (2, 2)
    assert signature(group) is None


@given(
    capacities=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    taken=st.lists(st.integers(0, 5), min_size=12, max_size=12),
    size=st.integers(1, 5),
    cpu=st.integers(1, 3),
    gangs=st.integers(2, 7),
    rack=st.booleans(),
    others=nominated,
    above=st.integers(0, 2),
)
def test_many_gangs_in_one_go_are_as_one_by_one(
    capacities: list[int],
    taken: list[int],
    size: int,
    cpu: int,
    gangs: int,
    rack: bool,
    others: list[Nominated],
    above: int,
) -> None:
    def fresh() -> tuple[StateBuilder, list[Group]]:
        builder = StateBuilder()
        for index, capacity in enumerate(capacities):
            builder.node(f"n{index}", cpu=capacity, labels={"rack": f"r{index % 3}"})
        for index, pods in enumerate(taken[: len(capacities)]):
            for _ in range(min(pods, capacities[index])):
                builder.pod(node=f"n{index}")
        for number in range(gangs):
            builder.gang(f"g{number}", size, rack=rack)
        # Members arrive in any order. A gang without a priority has the lowest of its pods'.
        for member in range(size):
            for number in reversed(range(gangs)):
                builder.pod(f"g{number}", cpu=cpu, priority=above if member else 0)
        nominate(builder, others)
        groups = builder.state.forest.groups
        return builder, [groups[POD_GROUP, "ns", f"g{number}"] for number in range(gangs)]

    _, groups = fresh()
    kinds = {signature(group) for group in groups}
    assert len(kinds) == 1
    assert None not in kinds

    assert at_once(*fresh()) == in_turn(*fresh())


def test_gangs_that_differ_in_anything_are_not_alike() -> None:
    builder = StateBuilder()
    builder.node("n", cpu=50)

    def gang(name: str, size: int = 2, cpu: int = 1, **spec: bool | int) -> Group:
        builder.gang(name, size, **spec)  # type: ignore[arg-type]
        builder.pods(name, size, cpu)
        return builder.state.forest.groups[POD_GROUP, "ns", name]

    kinds = [
        signature(gang("plain")),
        signature(gang("larger", size=3)),
        signature(gang("hungrier", cpu=2)),
        signature(gang("in a rack", rack=True)),
    ]

    assert None not in kinds
    assert len(set(kinds)) == len(kinds)
    assert signature(gang("plain too")) == kinds[0]


def test_who_goes_alone() -> None:
    builder = StateBuilder()
    builder.node("n", cpu=50)
    builder.gang("top", 1, composite=True)
    for name, minimum in (("runs", 2), ("extras", 1), ("mixed", 2), ("few", 3)):
        builder.gang(name, minimum)
    builder.gang("child", 2, parent="top")
    builder.gang("prefers", 2, prefer_rack=True)
    builder.gang("flawed", 2, priority=7)
    builder.pod("runs", node="n")
    builder.pod("runs")
    builder.pod("mixed", cpu=1)
    builder.pod("mixed", cpu=2)
    for name in ("extras", "few", "child", "prefers", "flawed"):
        builder.pods(name, 2)

    groups = builder.state.forest.groups
    leaves = [group for key, group in groups.items() if key[0] == POD_GROUP]

    assert {group.name: signature(group) for group in leaves} == dict.fromkeys(
        ("runs", "extras", "mixed", "few", "child", "prefers", "flawed")
    )


async def test_gangs_that_are_alike_fill_rack_after_rack_and_the_last_is_refused() -> None:
    harness = Harness()
    harness.builder.nodes(4, cpu=2, rack_of=2)
    for name in ("a", "b", "c"):
        harness.builder.gang(name, 2, rack=True, created=name)
        harness.builder.pods(name, 2)
    harness.builder.gang("d", 2, rack=True, created="d")
    late = harness.builder.pods("d", 2, cpu=1)
    harness.builder.gang("e", 2, rack=True, created="e")
    harness.builder.pods("e", 2, cpu=1)

    async with harness.leading():
        await harness.settle()

    # Eight pods fit, in two racks of four: four gangs.
    assert len(harness.api.bound) == 8
    assert {pod.name for pod in late} <= set(harness.api.bound)
    assert harness.queue.sizes() == {"active": 0, "unschedulable": 1, "backoff": 0}


async def test_who_finds_no_room_among_many_alike_is_refused_alone() -> None:
    harness = Harness()
    harness.builder.node("n", cpu=3)
    names = [harness.builder.pod().name for _ in range(5)]

    async with harness.leading():
        await harness.settle()

    assert sorted(harness.api.bound) == names[:3]
    assert harness.queue.sizes() == {"active": 0, "unschedulable": 2, "backoff": 0}


async def test_a_pod_of_another_kind_has_its_turn_in_between() -> None:
    harness = Harness()
    harness.builder.node("n", cpu=4)
    first = harness.builder.pod(cpu=1)
    large = harness.builder.pod(cpu=3)
    late = harness.builder.pod(cpu=1)

    async with harness.leading():
        await harness.settle()

    assert sorted(harness.api.bound) == [first.name, large.name]
    assert late.name not in harness.api.bound


async def test_roots_are_batched_beside_a_nomination_but_not_the_one_that_has_it() -> None:
    harness = Harness()
    builder = harness.builder
    builder.node("n", cpu=20)
    pods = [builder.single(builder.pod(name=f"p{index}")) for index in range(5)]
    kind = signature(pods[0])
    builder.nominate(pods[2], "n")
    harness.queue.refresh(builder.state.take_changes(), 0)

    assert kind is not None
    assert batchable(builder.state, kind.shape)
    assert harness.queue.pop() == pods[0].key
    assert harness.queue.pop_batch(kind, 9) == [pods[1]]
    assert harness.queue.pop() == pods[2].key
    assert harness.queue.pop_batch(kind, 9) == pods[3:]


def test_pods_are_alike_that_differ_only_in_volumes_of_all_nodes() -> None:
    builder = StateBuilder()
    builder.node("a")
    for name in ("one", "two"):
        bound(builder, name)
    bound(builder, "of a zone", labels={ZONE: "x"})

    def kind(cpu: int = 1, priority: int = 0, scheduler: str = "", **fields: object) -> Signature:
        asked = replace(wants(**fields), requests=requests(cpu))
        info = builder.pod(requirements=asked, priority=priority, scheduler=scheduler)
        found = signature(builder.single(info))
        assert found is not None
        return found

    def with_claim(name: str, **more: object) -> Signature:
        return kind(claims=(("ns", name),), **more)  # type: ignore[arg-type]

    first = with_claim("one")
    assert alike(builder.state, first, with_claim("two"))
    assert alike(builder.state, first, kind())
    for other in (
        with_claim("of a zone"),
        with_claim("missing"),
        with_claim("two", cpu=2),
        with_claim("two", priority=1),
        with_claim("two", scheduler="another"),
        with_claim("two", selector=(("disk", "ssd"),)),
    ):
        assert not alike(builder.state, first, other)
