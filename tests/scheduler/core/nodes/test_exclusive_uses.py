"""The cost of host ports and disks depends on those in use; unused ones are dropped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.nodes.exclusive_uses import ExclusiveUses, overlap
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.exhaustive_packing import pack_exhaustively
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.values.model import POD_GROUP, Disk, HostPort, Requirements, Stage
from tests.scheduler.core.framework.cluster import port, wants
from tests.scheduler.state_builder import StateBuilder
from tests.support.counting import calls


def with_ports(*numbers: int) -> Requirements:
    return wants(ports=tuple(HostPort("TCP", number) for number in numbers))


def test_ports_leave_nothing_behind() -> None:
    builder = StateBuilder()
    builder.nodes(3)
    state = builder.state
    before = (len(state.nodes.exclusive_uses), state.nodes.free.shape, len(state.nodes.resources))
    pods = [builder.pod(node=f"n{n % 3}", requirements=with_ports(n)) for n in range(1, 1000)]
    pods.append(builder.pod(node="n0", requirements=with_ports(*range(1000, 11_000))))
    during = len(state.nodes.exclusive_uses)
    for info in pods[:-1]:
        state.remove_pod(info.uid)
    state.remove_node("n0")
    state.take_changes()

    assert during == 999 + 10_000
    assert (len(state.nodes.exclusive_uses), state.nodes.free.shape) == before[:2]
    assert len(state.nodes.resources) == before[2]


def test_a_port_costs_what_its_own_users_cost() -> None:
    """Other ports' users and the number of nodes do not increase it."""

    def work(nodes: int, others: int) -> int:
        builder = StateBuilder()
        builder.nodes(nodes)
        for number in range(others):
            builder.pod(node=f"n{number % nodes}", requirements=with_ports(5000 + number))
        info = builder.pod(requirements=with_ports(80))
        return calls(lambda: builder.run(builder.place_single(info)))

    assert work(400, 300) <= work(20, 3) * 1.1


def test_disks_leave_nothing_behind() -> None:
    builder = StateBuilder()
    builder.nodes(3)
    state = builder.state
    pods = [
        builder.pod(
            node=f"n{n % 3}",
            requirements=wants(disks=tuple(Disk("iscsi", f"d{d}", shared=True) for d in range(n))),
        )
        for n in range(200)
    ]
    during = len(state.nodes.exclusive_uses)
    for info in pods:
        state.remove_pod(info.uid)

    assert during == 199 + 198 + 197
    assert len(state.nodes.exclusive_uses) == 0


@pytest.mark.parametrize("kind", ["port", "disk"])
def test_a_trial_gives_back_what_is_used(kind: str) -> None:
    builder = StateBuilder()
    builder.node("n")
    builder.gang("g", 2)
    for number in (80, 81):
        disk = wants(disks=(Disk("iscsi", str(number)),))
        builder.pod("g", requirements=with_ports(number) if kind == "port" else disk)
    decision = builder.place("g")

    assert isinstance(decision, Placement)
    assert len(builder.state.nodes.exclusive_uses) == 0
    builder.run(decision)
    assert len(builder.state.nodes.exclusive_uses) == 2


def test_the_user_of_a_port_is_the_victim() -> None:
    builder = StateBuilder()
    builder.node("n", cpu=8)
    builder.pod(node="n")
    user = builder.pod(node="n", requirements=port())
    important = builder.pod(requirements=port(), priority=5)
    refusal = builder.place_single(important)
    assert isinstance(refusal, Refusal)
    plan = preempt(builder.state, builder.single(important), refusal, SearchBudget())

    assert isinstance(plan, Plan)
    assert [uid for unit in plan.victims for uid in unit.pods] == [user.uid]
    assert len(builder.state.nodes.exclusive_uses) == 1


@pytest.mark.parametrize(("pods", "fit"), [(2, True), (3, False)])
def test_packing_exhaustively_keeps_pods_of_one_port_apart(pods: int, *, fit: bool) -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=8)
    intern, framework = builder.state.shapes.intern, builder.state.framework
    demand = {
        intern(Requirements((("cpu", 1000 + n),), ports=(HostPort("TCP", 80),))): 1
        for n in range(pods)
    }
    runs = pack_exhaustively(framework, demand, None, 1000)

    assert (runs is not None) == fit
    assert len({int(row) for _, rows, _ in runs or () for row in rows}) == (2 if fit else 0)


ports = st.builds(
    HostPort,
    st.sampled_from(["TCP", "UDP"]),
    st.integers(80, 81),
    st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"]),
)
disks = st.builds(
    Disk,
    st.sampled_from(["iscsi", "rbd"]),
    st.sampled_from(["x", "y"]),
    st.sampled_from([(), ("pool", "a")]),
    shared=st.booleans(),
)
uses = ports | disks


def conflict(one: HostPort | Disk, other: HostPort | Disk) -> bool:
    if one.key != other.key:
        return False
    if isinstance(one, Disk) and isinstance(other, Disk):
        return not (one.shared and other.shared)
    if isinstance(one, HostPort) and isinstance(other, HostPort):
        return "0.0.0.0" in (one.address, other.address) or one.address == other.address
    return False


Used = tuple[HostPort | Disk, Stage | None]
staged = st.tuples(
    uses,
    st.none()
    | st.builds(
        Stage,
        st.integers(1, 3),
        st.booleans(),
        st.sampled_from([(POD_GROUP, "ns", "a"), (POD_GROUP, "ns", "b")]),
    ),
)


def together(one: Stage | None, other: Stage | None) -> bool:
    """Return True if the two pods may exist at the same time."""
    if one is None or other is None or one.tree != other.tree or one.number == other.number:
        return True
    return one.exists and other.exists


def exclude(one: Used, other: Used) -> bool:
    return conflict(one[0], other[0]) and together(one[1], other[1])


@given(
    st.lists(st.tuples(staged, st.integers(0, 2), st.integers(1, 3), st.booleans()), max_size=30),
    staged,
)
def test_conflicts_are_those_of_asking_every_user(
    steps: list[tuple[Used, int, int, bool]], wanted: Used
) -> None:
    table = ExclusiveUses()
    users: list[tuple[Used, int, int]] = []
    for (user, stage), row, count, comes in steps:
        if comes or not users:
            users.append(((user, stage), row, count))
            table.add((user,), row, count, stage)
        else:
            (gone, its), at, number = users.pop(row % len(users))
            table.add((gone,), at, -number, its)

    found = table.conflicts((wanted[0],), wanted[1])
    assert found == {row for user, row, _ in users if exclude(user, wanted)}
    of_all = bool(table.conflicts((wanted[0],)))
    assert overlap([user for (user, _), _, _ in users], [wanted[0]]) == of_all
    for row in range(3):
        here = [user for user, at, count in users if at == row for _ in range(count)]
        pairs = any(exclude(a, b) for n, a in enumerate(here) for b in here[:n])
        assert table.clash(np.array([row])).tolist() == [pairs]
    for row in range(3):
        table.clear(row)
    assert len(table) == 0
    assert not table.clash(np.arange(3)).any()
