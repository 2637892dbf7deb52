"""Invariants of held places under random arrivals, departures, changes and new leaders."""

import random
from collections import Counter

import pytest

from scheduler.core.groups.forest import Pod as StatePod
from scheduler.core.values.model import POD_GROUP, GroupKey
from tests.scheduler.holding_harness import HoldingHarness, kind
from tools.testing.effort import seeds

GROUPS = ("a", "b", "c")


class Course:
    """A random sequence of events on a small cluster."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.harness = HoldingHarness()
        self.serial = 0
        self.pods: dict[str, str] = {}
        for index in range(6):
            self.harness.builder.node(f"n{index}", self.chance.randint(2, 5))

    def step(self) -> None:
        come = (self.come, self.come, self.come)
        act = self.chance.choice((self.group, *come, self.go, self.node, self.restart, self.urgent))
        act()

    def restart(self) -> None:
        """Let the owner of a group delete all its pods, and recreate some of them."""
        group = self.chance.choice(GROUPS)
        gone = [name for name, of in self.pods.items() if of == group]
        for name in gone:
            del self.pods[name]
            self.harness.delete_pod(name)
        for _ in range(self.chance.randint(0, len(gone))):
            self.come_to(group)

    def urgent(self) -> None:
        """Create a pod of higher priority, after the evicted ones have ended."""
        for name in self.harness.evictor_api.end():
            self.pods.pop(name, None)
            self.harness.delete_pod(name)
        name = f"u{self.serial}"
        self.serial += 1
        self.pods[name] = name
        self.harness.group(name, 1, priority=10)
        self.harness.pod(name, name, self.chance.randint(1, 4), priority=10)

    def group(self) -> None:
        name = self.chance.choice(GROUPS)
        if self.chance.random() < 0.2:
            self.harness.delete_group(name)
            return
        kinds = [
            kind(each, self.chance.randint(0, 4), self.chance.randint(1, 2), stage=self.stage())
            for each in self.chance.sample(("driver", "worker", "other"), 2)
        ]
        notes = {"scheduling.muster.dev/hold-seconds": self.chance.choice(("2", "600"))}
        if self.chance.random() < 0.5:
            notes["scheduling.muster.dev/on-hold-expired"] = "Evict"
        mode = self.chance.choice(("single", "all"))
        minimum = self.chance.randint(1, 4)
        self.harness.group(name, minimum, *kinds, mode=mode, annotations=notes)

    def stage(self) -> int:
        """Draw a stage; owners may declare any stages and violate them."""
        return self.chance.choice((0, 0, 1, 2))

    def come(self) -> None:
        self.come_to(self.chance.choice(GROUPS))

    def come_to(self, group: str) -> None:
        name = f"p{self.serial}"
        self.serial += 1
        self.pods[name] = group
        self.harness.pod(name, group, self.chance.randint(1, 2))

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
    """Check that every number follows from the pods, and that no place has two users."""
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
    trees: dict[tuple[str, GroupKey], list[StatePod]] = {}
    for pod in state.pods.values():
        if pod.row < 0:
            continue
        if not pod.info.expected or pod.info.requirements.stage is None:
            used[pod.node] += cpu_of(pod)
        if pod.info.requirements.stage is not None and pod.group is not None:
            trees.setdefault((pod.node, pod.group.top.key), []).append(pod)
    for (node, _), pods in trees.items():
        used[node] += to_come(pods)
    cpu = state.nodes.resources.indices["cpu"]
    for name, row in state.nodes.row_of.items():
        info = state.nodes.infos[row]
        assert info is not None
        assert int(state.nodes.free[cpu][row]) == info.allocatable["cpu"] - used[name]


def cpu_of(pod: StatePod) -> int:
    return dict(pod.shape.requirements.requests).get("cpu", 0)


def to_come(pods: list[StatePod]) -> int:
    """Return the places that the stages of a tree hold on a node beyond those of existing pods."""
    here = [(pod.info.requirements.stage, pod) for pod in pods]
    numbers = {stage.number for stage, _ in here if stage is not None}
    return max(
        0,
        *(
            sum(cpu_of(pod) for it, pod in here if it and it.number == number and not it.exists)
            - sum(cpu_of(pod) for it, pod in here if it and it.number != number and it.exists)
            for number in numbers
        ),
    )


@pytest.mark.parametrize("seed", seeds(4, 60))
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


class Orderly:
    """Owners that create their pods in order, with rivals of the same priority."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.harness = HoldingHarness()
        self.serial = 0
        self.sizes: dict[str, list[int]] = {}
        self.made: dict[str, list[str]] = {name: [] for name in GROUPS}
        for index in range(self.chance.randint(3, 8)):
            self.harness.builder.node(f"n{index}", self.chance.randint(1, 5))
        for name in GROUPS:
            worker = self.chance.randint(1, 2)
            self.sizes[name] = [1, *[worker] * self.chance.randint(2, 6)]
            kinds = [kind("driver", 1), kind("worker", len(self.sizes[name]) - 1, worker)]
            self.harness.group(name, len(self.sizes[name]), *kinds)

    def step(self) -> None:
        acts = (self.start, self.follow, self.follow, self.rival, self.again)
        self.chance.choice(acts)()

    def start(self) -> None:
        """Let an owner create its driver."""
        name = self.chance.choice(GROUPS)
        if not self.made[name]:
            self.make(name)

    def follow(self) -> None:
        """Let an owner with a running driver create its next worker."""
        name = self.chance.choice(GROUPS)
        if self.bound(name) and len(self.made[name]) < len(self.sizes[name]):
            self.make(name)

    def again(self) -> None:
        """Let an owner delete all its pods one by one, and recreate its driver."""
        name = self.chance.choice(GROUPS)
        if self.chance.random() < 0.3 and self.bound(name):
            for each in self.made[name]:
                self.harness.delete_pod(each)
            self.made[name] = []
            self.make(name)

    def rival(self) -> None:
        """Create a gang whose pods all exist."""
        self.serial += 1
        group, size = f"rival{self.serial}", self.chance.randint(1, 4)
        self.harness.group(group, size)
        for index in range(size):
            self.harness.pod(f"{group}-{index}", group, self.chance.randint(1, 2))

    def make(self, group: str) -> None:
        self.serial += 1
        name, index = f"{group}{self.serial}", len(self.made[group])
        self.made[group].append(name)
        self.harness.pod(name, group, self.sizes[group][index])

    def bound(self, group: str) -> int:
        return sum(name in self.harness.where() for name in self.made[group])


@pytest.mark.parametrize("seed", seeds(3, 60))
async def test_what_has_begun_comes_to_run_whole_whoever_leads_and_comes(seed: int) -> None:
    course = Orderly(seed)
    harness = course.harness
    for _ in range(4):
        async with harness.leading(unsettled="groups wait for room"):
            for _ in range(10):
                course.step()
                await harness.settle(course.chance.choice((0, 1, 2)))
                check(harness)
        await harness.restart()
        check(harness)
    begun = [name for name in GROUPS if course.bound(name)]
    async with harness.leading(unsettled="groups wait for room"):
        for name in begun:
            while len(course.made[name]) < len(course.sizes[name]):
                course.make(name)
        await harness.settle(5)
        for name in begun:
            assert course.bound(name) == len(course.sizes[name]), name
