"""The table of units is updated in time proportional to the changes."""

import random
from dataclasses import replace

import numpy as np

from scheduler.core.values.model import NodeInfo, PodInfo, Requirements
from tests.scheduler.preemption_builder import PreemptionBuilder


def test_pods_that_change_while_it_is_brought_up_to_date_are_taken_in_too() -> None:
    builder = PreemptionBuilder()
    builder.nodes(3)
    first, second = builder.runs(None, "n0", "n1")
    steps = builder.state.units.refresh_in_steps()
    next(steps)
    builder.state.remove_pod(second.uid)
    (third,) = builder.runs(None, "n2")
    for _ in steps:
        pass

    assert builder.state.units.order() == [first.uid, third.uid]


def test_what_pods_release_and_where_they_are_follows_whatever_comes_and_goes() -> None:
    """Each may have a shape of its own, and the index of a removed shape is reused."""
    lot = random.Random(7)
    builder = PreemptionBuilder()
    builder.nodes(4, cpu=64)
    state, running = builder.state, dict[str, int]()
    for step in range(300):
        if running and lot.random() < 0.4:
            uid = lot.choice(sorted(running))
            del running[uid]
            state.remove_pod(uid)
            state.take_changes()  # drops unused shapes
        else:
            amount, uid = lot.randrange(1, 30), f"uid-{step}"
            wants = Requirements((("cpu", amount),))
            node, namespace = f"n{lot.randrange(4)}", f"ns{step % 3}"
            state.set_pod(PodInfo(uid, namespace, uid, wants, node, phase="Running"))
            running[uid] = amount
        if step % 50 == 25:
            offers = {"cpu": 1000, "pods": 10, f"example.com/{step}": 1}
            state.set_node(NodeInfo(f"other{step}", offers))  # columns change
        units = state.units
        units.refresh()
        slots = np.array([units._slots[uid] for uid in running], np.int64)
        cpu = state.nodes.resources.indices["cpu"]

        assert units.released(slots, cpu).tolist() == list(running.values())
        chosen = units.owners[slots]
        for names in (["ns0"], ["ns1", "ns2"], ["nowhere"]):
            want = [index for index in chosen.tolist() if units.unit(index).key[1] in names]
            assert units.within(names, chosen).tolist() == want


def test_pods_that_two_groups_expect_under_one_name_are_two_units() -> None:
    """Otherwise those of the more important group would be evicted with the others."""
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    for number, priority in enumerate((1, 5)):
        (info,) = builder.runs(None, f"n{number}", priority=priority)
        builder.state.remove_pod(info.uid)
        builder.state.set_pod(replace(info, name="worker-0 (expected)", expected=True))
    units = builder.state.units
    units.refresh()

    assert [len(units.unit(at).pods) for at in units.below(9).tolist()] == [1, 1]
    assert len(units.below(3)) == 1
