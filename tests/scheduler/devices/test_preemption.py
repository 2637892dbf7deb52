"""Preemption for devices: the victims, and the preemptors for which devices count as free."""

from dataclasses import replace

import pytest

from scheduler.core.preemption.plan import Plan
from scheduler.core.search.place import Placement, Refusal
from scheduler.core.state.nominations import Nomination
from scheduler.core.values.device_asks import exactly
from scheduler.core.values.devices import NodeScope
from scheduler.core.values.model import PodInfo
from tests.scheduler.devices.builders import CLASS, ask, device, gpu, has, pool, same, units
from tests.scheduler.devices.preemption import DevicePreemption

ONE = ask(gpu())
TWO = ask(gpu(2))


def cluster(nodes: int = 1, count: int = 2) -> DevicePreemption:
    made = DevicePreemption()
    for at in range(nodes):
        made.gpu_node(f"n{at}", count=count)
    return made


def names(*infos: PodInfo) -> set[str]:
    return {info.name for info in infos}


def test_the_pod_goes_whose_claim_has_the_device() -> None:
    made = cluster(count=1)
    made.holds("n0")
    holder = made.holds("n0", "gpu-0")
    made.holds("n0")
    high = made.asks(None, ONE, priority=1)

    assert made.victims(high.name) == names(holder)


def test_only_devices_that_the_selectors_take_are_made_free() -> None:
    made = DevicePreemption()
    made.gpu_node("n0", *(device(f"d{at}", {"size": size}) for at, size in
                          enumerate(("small", "large", "small"))))  # fmt: skip
    made.holds("n0", "d0")
    large = made.holds("n0", "d1")
    made.holds("n0", "d2")
    high = made.asks(None, ask(gpu(1, has("size", "large"))), priority=1)

    assert made.victims(high.name) == names(large)


def test_the_devices_of_victims_keep_the_constraints() -> None:
    made = DevicePreemption()
    made.gpu_node("n0", *(device(f"d{at}", {"rail": at // 2}) for at in range(4)))
    pods = [made.holds("n0", f"d{at}", priority=at % 2) for at in range(4)]
    high = made.asks(None, ask(gpu(2), constraints=[same("rail")]), priority=5)

    assert made.victims(high.name) in (names(*pods[:2]), names(*pods[2:]))


def test_the_node_where_one_pod_has_all_is_chosen() -> None:
    made = cluster(nodes=2, count=4)
    for at in range(4):
        made.holds("n0", f"gpu-{at}")
    whole = made.holds("n1", *(f"gpu-{at}" for at in range(4)))
    high = made.asks(None, ask(gpu(4)), priority=1)

    assert made.victims(high.name) == names(whole)


def test_the_pod_that_runs_the_longest_stays_whatever_device_it_has() -> None:
    made = cluster(count=3)
    first = made.holds("n0", "gpu-0")
    pods = [made.holds("n0", f"gpu-{at}") for at in (1, 2)]
    high = made.asks(None, ONE, priority=1)

    victims = made.victims(high.name)

    assert len(victims) == 1
    assert victims <= names(*pods)
    assert first.name not in victims


def test_a_gang_evicts_as_many_as_it_needs_over_all_nodes() -> None:
    made = cluster(nodes=4, count=2)
    for node in range(4):
        for at in range(2):
            made.holds(f"n{node}", f"gpu-{at}", priority=node)
    made.group("g", 4, priority=9)
    for _ in range(4):
        made.asks("g", ONE, priority=9)

    plan = made.preempt("g")

    assert isinstance(plan, Plan)
    assert plan.minimal
    assert [unit.priority for unit in plan.victims] == [0, 0, 1, 1]


def test_a_gang_that_is_evicted_whole_gives_back_all_its_devices() -> None:
    made = cluster(nodes=2, count=2)
    made.group("low", 4, mode="all")
    low = [made.holds(f"n{at // 2}", f"gpu-{at % 2}", group="low") for at in range(4)]
    made.group("g", 3, priority=1)
    for _ in range(3):
        made.asks("g", ONE, priority=1)

    assert made.victims("g") == names(*low)


@pytest.mark.parametrize("priority", [1, 2])
def test_nobody_goes_while_others_keep_the_claim(priority: int) -> None:
    """The eviction of the low one alone would have no effect: the claim stays allocated."""
    made = cluster(count=1)
    shared = made.allocated("shared", "n0", "gpu-0")
    made.holds("n0", claims=(shared,))
    made.holds("n0", claims=(shared,), priority=priority)
    high = made.asks(None, ONE, priority=1)

    assert isinstance(made.preempt(high.name), Refusal)


def test_all_pods_of_a_shared_claim_go_or_none() -> None:
    made = cluster(count=1)
    shared = made.allocated("shared", "n0", "gpu-0")
    pods = [made.holds("n0", claims=(shared,)) for _ in range(3)]
    high = made.asks(None, ONE, priority=1)

    assert made.victims(high.name) == names(*pods)


def test_nobody_goes_for_a_claim_that_somebody_has_who_is_no_pod() -> None:
    made = cluster(count=1)
    holder = made.holds("n0", "gpu-0")
    key = holder.device_claims[0]
    made.table.set_claim(replace(made.table.claims[key], reserved_elsewhere=True))
    high = made.asks(None, ONE, priority=1)

    assert isinstance(made.preempt(high.name), Refusal)


def test_nobody_goes_for_a_claim_that_is_reserved_for_a_pod_that_waits() -> None:
    made = cluster(count=1)
    holder = made.holds("n0", "gpu-0")
    made.reserve(holder.device_claims[0], made.pod(None, cpu=1000))
    high = made.asks(None, ONE, priority=1)

    assert isinstance(made.preempt(high.name), Refusal)


def test_devices_alone_are_not_enough() -> None:
    made = DevicePreemption()
    made.gpu_node("n0", count=1, cpu=2)
    made.holds("n0", "gpu-0", cpu=1)
    made.holds("n0", priority=9)
    high = made.asks(None, ONE, priority=1, cpu=2)

    assert isinstance(made.preempt(high.name), Refusal)


def test_a_device_of_several_nodes_is_freed_where_its_holder_is_not() -> None:
    made = DevicePreemption()
    made.node("n0", 1)
    made.node("n1", 4)
    made.slice(pool(device("net"), pool="net", scope=NodeScope(everywhere=True)))
    far = made.allocated("far", "n0", "net", pool="net", local=False)
    holder = made.holds("n0", claims=(far,))
    made.holds("n1")
    high = made.asks(None, ONE, priority=1, cpu=3)

    assert made.victims(high.name) == names(holder)


def test_a_device_that_two_claims_have_is_free_when_both_are_gone() -> None:
    """Two schedulers allocated it twice."""
    made = cluster(count=1)
    pods = [made.holds("n0", "gpu-0") for _ in range(2)]
    high = made.asks(None, ONE, priority=1)

    assert made.victims(high.name) == names(*pods)


def test_shares_of_a_device_are_given_back() -> None:
    made = DevicePreemption()
    made.gpu_node("n0", device("nic", capacity={"rate": 10}, shared=True))
    share = ask(exactly("nic", CLASS, capacity=units(rate=4)))
    low = [made.asks(None, share) for _ in range(2)]
    for info in low:
        made.write(made.place_single(info))
        wants = replace(info.requirements, asks=())
        made.state.set_pod(replace(info, node="n0", requirements=wants, phase="Running"))
    high = made.asks(None, ask(exactly("nic", CLASS, capacity=units(rate=6))), priority=1)

    assert len(made.victims(high.name)) == 1


# While victims leave


def evicting() -> tuple[DevicePreemption, PodInfo, PodInfo]:
    made = cluster(count=1)
    holder = made.holds("n0", "gpu-0")
    high = made.asks(None, ONE, priority=1)
    plan = made.preempt(high.name)
    assert isinstance(plan, Plan)
    shape = made.single(high).shape
    made.state.nominations.set(Nomination(plan.root, 1, ((shape, (("n0", 1),)),)))
    made.state.units.mark_evicting([made.single(holder)])
    made.leave(holder)
    return made, holder, high


def waits(made: DevicePreemption, info: PodInfo) -> bool:
    """Return True if it waits for the deallocation, and evicts no pod."""
    plan = made.preempt(info.name)
    return isinstance(plan, Plan) and not plan.victims


def test_a_leaving_pods_devices_are_free_for_the_preemptor_only() -> None:
    made, _, high = evicting()
    other = made.asks(None, ONE, priority=0)

    assert waits(made, high)
    assert isinstance(made.place_single(high), Refusal)
    assert isinstance(made.place_single(other), Refusal)
    assert isinstance(made.preempt(other.name), Refusal)


def test_nobody_else_is_evicted_while_the_claim_of_a_pod_that_is_gone_stands() -> None:
    made, holder, high = evicting()
    made.gpu_node("n1", count=1)
    made.holds("n1", "gpu-0")

    made.state.remove_pod(holder.uid)

    assert isinstance(made.place_single(high), Refusal)
    assert waits(made, high)


def test_the_preemptor_gets_the_devices_once_the_claim_is_given_back() -> None:
    made, holder, high = evicting()
    other = made.asks(None, ONE, priority=0)
    made.state.remove_pod(holder.uid)

    made.give_back(holder.device_claims[0])

    assert isinstance(made.place_single(other), Refusal)
    assert isinstance(made.place_single(high), Placement)


def test_a_claim_whose_pod_has_ended_is_about_to_be_given_back() -> None:
    made = cluster(count=1)
    made.group("done", 1)
    holder = made.holds("n0", "gpu-0", group="done")
    made.gpu_node("n1", count=1)
    made.holds("n1", "gpu-0")
    high = made.asks(None, ONE, priority=1)

    made.state.set_pod(replace(made.single(holder).info, phase="Succeeded"))

    assert waits(made, high)


def test_a_claim_that_nobody_ever_used_is_not_waited_for() -> None:
    made = cluster(count=1)
    made.allocated("idle", "n0", "gpu-0")
    high = made.asks(None, ONE, priority=1)

    assert isinstance(made.preempt(high.name), Refusal)


def test_pods_without_claims_wait_for_no_claim() -> None:
    made = cluster(count=1)
    holder = made.holds("n0", "gpu-0", cpu=60)
    made.state.remove_pod(holder.uid)
    low = made.pod(None, 64, node="n0")
    (high,) = made.waits(None, cpu=64, priority=1)

    assert made.victims(high.name) == names(low)


def test_an_assumed_pod_gives_back_what_it_was_to_get() -> None:
    made = cluster(count=1)
    low = made.asks(None, ONE)
    made.run(made.place_single(low))
    high = made.asks(None, ONE, priority=1)

    assert made.victims(high.name) == names(low)
    assert made.table.allocation(low.device_claims[0]) is not None


def test_a_named_claim_that_victims_give_back_is_allocated_anew() -> None:
    """The preemptor shares their claim: until they are deleted, it may be allocated elsewhere."""
    made = DevicePreemption()
    made.gpu_node("n0", count=1, cpu=2)
    made.gpu_node("n1", count=1, cpu=8)
    shared = made.allocated("shared", "n0", "gpu-0")
    low = made.holds("n0", claims=(shared,))
    high = made.asks(None, shared, priority=1, cpu=4)

    plan = made.preempt(high.name)

    assert isinstance(plan, Plan)
    assert {pod.info.name for unit in plan.victims for pod in unit.pods.values()} == names(low)
    assert made.state.nodes.name_of(plan.placement.rows[0]) == "n1"
    assert made.table.allocation(shared) is not None
