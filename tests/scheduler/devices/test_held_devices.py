"""Sole-use devices as columns: the same as claim by claim."""

import numpy as np
import pytest

from scheduler.core.devices.sole_use import ALONE, OTHERWISE, HeldDevices
from scheduler.core.nodes.node_table import Ints
from scheduler.core.values.changed_keys import ChangedKeys
from tests.scheduler.devices.builders import ask, gpu
from tests.scheduler.devices.preemption import DevicePreemption
from tests.scheduler.devices.preemption_instances import build, occupied

SEED = 171


@pytest.mark.parametrize("number", range(40))
def test_what_pods_give_back_is_the_same_as_claim_by_claim(number: int) -> None:
    by_column, by_claim = build(occupied(SEED, number)), build(occupied(SEED, number))
    otherwise = held(by_claim)
    otherwise.kinds[otherwise.kinds == ALONE] = OTHERWISE

    for part in (slots(by_column), slots(by_column)[::2], slots(by_column)[1::2]):
        usages = [released(made, part) for made in (by_column, by_claim)]
        assert usages[0] == usages[1]
    assert not by_column.table.held.freed.any()


def test_most_pods_of_a_cluster_are_seen_as_columns() -> None:
    clusters = [build(occupied(SEED, number)) for number in range(20)]
    kinds = np.concatenate([held(made).kinds[slots(made)] for made in clusters])

    assert (kinds == ALONE).sum() > len(kinds) // 3


def test_a_claim_that_is_given_back_has_no_allocation_as_long() -> None:
    made = DevicePreemption()
    made.gpu_node("n0", count=2)
    pod = made.holds("n0", "gpu-0")
    key = pod.device_claims[0]
    assert held(made).kinds[slots(made)].tolist() == [ALONE]

    with made.state.nodes.trial():
        made.state.units.release(slots(made))
        assert made.table.allocation(key) is None
        made.state.units.release(slots(made), -1)
        assert made.table.allocation(key) is not None
        made.state.units.release(slots(made))
    assert made.table.allocation(key) is not None


def test_a_claim_that_others_use_by_now_is_not_given_back() -> None:
    made = DevicePreemption()
    made.gpu_node("n0", count=2)
    first, second = made.holds("n0", "gpu-0"), made.holds("n0", "gpu-1")
    assert held(made).kinds[slots(made)].tolist() == [ALONE, ALONE]
    made.reserve(first.device_claims[0], second)
    only = np.array([made.state.units._slots[first.uid]], np.int64)

    assert held(made).kinds[only].tolist() == [OTHERWISE]
    assert released(made, only) == [0b11]
    assert released(made, slots(made)) == [0]


def test_a_device_on_another_node_is_no_column() -> None:
    made = DevicePreemption()
    made.gpu_node("n0", count=1)
    made.gpu_node("n1", count=1)
    far = made.allocated("far", "n1", "gpu-0", local=False)
    pod = made.holds("n0", claims=(far,))
    made.state.set_pod(pod)

    assert held(made).kinds[slots(made)].tolist() == [OTHERWISE]
    assert released(made, slots(made)) == [0, 0]


def test_a_pod_that_waits_may_name_a_claim_that_victims_give_back() -> None:
    made = DevicePreemption()
    made.gpu_node("n0", count=1)
    low = made.holds("n0", "gpu-0")
    high = made.asks(None, ask(gpu()), priority=1)

    assert made.victims(high.name) == {low.name}


def test_changes_are_bounded() -> None:
    changes: ChangedKeys[int] = ChangedKeys()
    changes.update(range(10))
    changes.add(10)
    assert changes.take() == {*range(11)}
    assert changes.take() == set()

    for at in range(1 << 15):
        changes.add(at)

    assert changes.take() is None
    assert changes.take() == set()


def slots(made: DevicePreemption) -> Ints:
    """Return the slots of all running pods."""
    made.state.units.refresh()
    return np.array(sorted(made.state.units._slots.values()), np.int64)


def held(made: DevicePreemption) -> HeldDevices:
    made.state.units.refresh()
    return made.table.held


def released(made: DevicePreemption, which: Ints) -> list[int]:
    """Return the positions in use on each node without these pods."""
    table = made.table
    with made.state.nodes.trial():
        made.state.units.release(which)
        numbers = table.states_of(slice(made.state.nodes.size)).tolist()
        return [table.states.all[number].after.used for number in numbers]
