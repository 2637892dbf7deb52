"""Held places under random arrivals, departures, changes and new leaders: what always holds."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from scheduler.core.model import POD_GROUP
from tests.scheduler.holding_harness import HoldingHarness, kind

GROUPS = ("a", "b", "c")


class Course:
    """A random course of events on a small cluster."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.harness = HoldingHarness()
        self.serial = 0
        self.pods: dict[str, str] = {}
        for index in range(6):
            self.harness.builder.node(f"n{index}", self.chance.randint(2, 5))

    def step(self) -> None:
        act = self.chance.choice((self.group, self.come, self.come, self.come, self.go, self.node))
        act()

    def group(self) -> None:
        name = self.chance.choice(GROUPS)
        if self.chance.random() < 0.2:
            self.harness.delete_group(name)
            return
        kinds = [
            kind(each, self.chance.randint(0, 4), self.chance.randint(1, 2))
            for each in self.chance.sample(("driver", "worker", "other"), 2)
        ]
        self.harness.group(name, self.chance.randint(1, 4), *kinds, mode="single")

    def come(self) -> None:
        name = f"p{self.serial}"
        self.serial += 1
        self.pods[name] = self.chance.choice(GROUPS)
        self.harness.pod(name, self.pods[name], self.chance.randint(1, 2))

    def go(self) -> None:
        if self.pods:
            name = self.chance.choice(sorted(self.pods))
            del self.pods[name]
            self.harness.delete_pod(name)

    def node(self) -> None:
        name = f"n{self.chance.randrange(6)}"
        if self.chance.random() < 0.5:
            self.harness.builder.state.remove_node(name)
        else:
            cordoned = self.chance.random() < 0.3
            self.harness.builder.node(name, self.chance.randint(2, 5), unschedulable=cordoned)


def check(harness: HoldingHarness) -> None:
    """Every number follows from the pods, and no place is anybody else's."""
    state = harness.builder.state
    for group in state.forest.groups.values():
        members = [pod for pod in group.members.values() if pod.info.expected]
        assert group.expected_held == sum(pod.assumed for pod in members)
        assert group.expected_waiting == sum(not pod.assumed for pod in members)
    for key in harness.expected:
        for each in harness.expected.kinds(key):
            assert all(uid in state.pods for uid in each.expected)
    known = {
        uid for key in harness.expected for it in harness.expected.kinds(key) for uid in it.expected
    }
    assert {uid for uid, pod in state.pods.items() if pod.info.expected} == known
    used: Counter[str] = Counter()
    for pod in state.pods.values():
        if pod.row >= 0:
            used[pod.node] += dict(pod.shape.requirements.requests).get("cpu", 0)
    cpu = state.nodes.resources.indices["cpu"]
    for name, row in state.nodes.row_of.items():
        info = state.nodes.infos[row]
        assert info is not None
        assert int(state.nodes.free[cpu][row]) == info.allocatable["cpu"] - used[name]


@pytest.mark.parametrize("seed", range(40))
async def test_counters_and_rooms_hold_whatever_comes(seed: int) -> None:
    course = Course(seed)
    harness = course.harness
    for _ in range(3):
        async with harness.leading(unsettled="groups wait for room"):
            for _ in range(12):
                course.step()
                await harness.settle(course.chance.choice((0, 1, 2)))
                check(harness)
        await harness.restart()
        check(harness)
    for name in GROUPS:
        harness.delete_group(name)
    check(harness)
    assert not any(pod.info.expected for pod in harness.builder.state.pods.values())
    assert (POD_GROUP, "ns", "a") not in set(harness.expected)
