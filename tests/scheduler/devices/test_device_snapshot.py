"""A snapshot has everything that device decisions depend on, and no tenants' data."""

from dataclasses import replace

import pytest

from scheduler.cel.selectors import Selectors
from scheduler.core.devices.taint_rules import DeviceTaintRule
from scheduler.core.search.place import Placement, SearchBudget
from scheduler.core.values.device_asks import Ask, DeviceConfig
from scheduler.core.values.devices import DeviceClassInfo, DeviceTaint
from scheduler.snapshot.snapshot import Limits, decide_all, decode, encode, queue_of, restore, take
from tests.scheduler.devices.builders import CLASS, ask, device, gpu, has, pool, same
from tests.scheduler.devices.cluster import DeviceCluster
from tests.scheduler.devices.preemption import DevicePreemption
from tests.scheduler.devices.preemption_instances import build, occupied

LIMITS = Limits.of(SearchBudget())
SECRET = '{"opaque":{"parameters":"hush"}}'


def replayed(made: DeviceCluster) -> None:
    snapshot = take(made.state, queue_of(made.state), LIMITS, decisions=100)
    state, queue = restore(decode(encode(snapshot), "a test"))

    assert snapshot.decisions
    assert list(decide_all(state, queue.waiting(), LIMITS)) == snapshot.decisions
    assert encode(take(state, queue, LIMITS, decisions=100)) == encode(snapshot)
    assert state.devices.assumed.keys() == made.table.assumed.keys()


def test_decisions_with_devices_are_the_same_after_writing_and_reading() -> None:
    made = DeviceCluster(Selectors().evaluate)
    rails = [device(f"d{at}", {"size": ("small", "large")[at % 2], "rail": at // 2})
             for at in range(4)]  # fmt: skip
    for name in ("n0", "n1"):
        made.gpu_node(name, *rails)
    made.slice(pool(device("net"), pool="half", node="n1", slices=2))
    named = made.claim("named", ask(gpu(1, has("size", "large"))))
    first = made.asks(None, ask(gpu(2), constraints=[same("rail")]))
    made.run(made.place_single(first))
    written = made.asks(None, named)
    made.write(made.place_single(written))
    for count in (1, 2, 5):
        made.gang(f"g{count}", 2)
        made.asks(f"g{count}", ask(gpu(count)))
        made.asks(f"g{count}", named)

    replayed(made)

    (decision, *_) = take(made.state, queue_of(made.state), LIMITS).decisions
    assert sum(map(len, decision.devices.values())) == 1
    assert len(made.table.assumed) == 1


def test_rules_that_taint_devices_count_and_can_be_told_from_the_drivers_taints() -> None:
    made = DeviceCluster(Selectors().evaluate)
    for name in ("n0", "n1"):
        made.gpu_node(name, count=1)
    made.table.slices.set_rule(DeviceTaintRule("r", DeviceTaint("broken"), pool="n0"))
    made.gang("g", 1)
    made.asks("g", ask(gpu()))

    replayed(made)

    snapshot = take(made.state, queue_of(made.state), LIMITS)
    (decision,) = snapshot.decisions
    assert decision.placed is not None
    assert set(decision.placed.values()) == {"n1"}
    assert not any(each.taints for info in snapshot.slices for each in info.devices)


def test_domains_of_an_attribute_are_the_same() -> None:
    made = DeviceCluster(Selectors().evaluate)
    for at, clique in enumerate(("a", "b", "b", "c")):
        made.gpu_node(f"n{at}", device("d", {"clique": clique}), cpu=2)
    made.table.slices.remove("gpu.example.com-n3")
    for name, pods in (("fits", 4), ("does-not", 5)):
        made.gang(name, pods, rack=True, key="gpu.example.com/clique")
        made.pods(name, pods)

    replayed(made)

    refused, placed = take(made.state, queue_of(made.state), LIMITS).decisions
    assert placed.placed is not None
    assert set(placed.placed.values()) == {"n1", "n2"}
    assert refused.blocker is not None
    assert refused.blocker.best_domain is not None
    assert refused.blocker.best_domain.value == "b"


@pytest.mark.parametrize("number", range(12))
def test_victims_that_hold_devices_are_the_same(number: int) -> None:
    made = build(occupied(23, number))
    made.state.units.refresh()
    snapshot = take(made.state, queue_of(made.state), LIMITS)

    again = DevicePreemption()
    again.state, queue = restore(decode(encode(snapshot), "a test"))

    (decision,) = snapshot.decisions
    assert list(decide_all(again.state, queue.waiting(), LIMITS)) == [decision]


def test_parameters_of_drivers_are_left_out_and_still_tell_shapes_apart() -> None:
    made = DeviceCluster()
    made.gpu_node("n0", count=4)
    made.table.set_class(DeviceClassInfo(CLASS, config=(DeviceConfig(SECRET),)))
    for text in (SECRET, SECRET, "hush-too"):
        made.asks(None, Ask((gpu(),), config=(DeviceConfig(text),)))
    decision = made.place_single(made.asks(None, Ask((gpu(),), config=(DeviceConfig(SECRET),))))
    assert isinstance(decision, Placement)
    made.run(decision)
    key, allocation = next(iter((decision.devices or {}).items()))
    made.table.set_claim(replace(made.table.claims[key], allocation=allocation))
    made.run(made.place_single(made.asks(None, Ask((gpu(),), config=(DeviceConfig(SECRET),)))))

    data = encode(take(made.state, queue_of(made.state), LIMITS))

    assert b"hush" not in data
    state, _ = restore(decode(data, "a test"))
    assert len({pod.shape for pod in state.pods.values()}) == 2
