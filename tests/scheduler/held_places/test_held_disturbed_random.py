"""Gangs that start in order during node losses, preemptions and changes of leaders.

Owners create workers once the driver runs, and recreate those that they lost. Once there are no
disturbances and enough capacity, every started gang runs completely.
"""

import random

import pytest

from tests.scheduler.held_places.test_held_places_random import GROUPS, check
from tests.scheduler.holding_harness import HoldingHarness, kind
from tools.testing.effort import seeds

NODES = 6
ROUNDS = 20
SPARE = 60
"""Cores that are enough for all groups."""


class Disturbed:
    """A random course.

    `pods` of each group are by their number; 0 is the driver.

    `disturbed` are groups that lost a place since they started, by a lost node, by the end of the
    holding time or, in every second course, by a higher priority.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.preempted = bool(seed % 2)
        self.harness = HoldingHarness()
        self.serial = 0
        self.cores = {f"n{at}": self.chance.randint(2, 5) for at in range(NODES)}
        self.there = set[str]()
        for name in self.cores:
            self.node(name)
        self.sizes: dict[str, list[int]] = {}
        self.pods: dict[str, dict[int, str]] = {name: {} for name in GROUPS}
        self.others: dict[str, list[str]] = {}
        self.disturbed = set[str]()
        for name in GROUPS:
            self.add_group(name)

    def add_group(self, name: str) -> None:
        worker = self.chance.randint(1, 2)
        sizes = self.sizes[name] = [1, *[worker] * self.chance.randint(2, 5)]
        notes = {"scheduling.muster.dev/hold-seconds": self.chance.choice(("4", "600", "600"))}
        notes["scheduling.muster.dev/on-hold-expired"] = self.chance.choice(("Keep", "Evict"))
        kinds = [kind("driver", 1), kind("worker", len(sizes) - 1, worker)]
        mode = self.chance.choice(("single", "all"))
        self.harness.group(name, len(sizes), *kinds, mode=mode, annotations=notes)

    def step(self) -> None:
        owners = (self.start, self.follow, self.follow, self.follow, self.again)
        others = (self.rival, self.urgent, self.leave, self.lose_node, self.cordon, self.back)
        self.chance.choice((*owners, *owners, *others))()
        if self.chance.random() < 0.5:
            self.victims_end()

    # What owners do.

    def start(self) -> None:
        name = self.chance.choice(GROUPS)
        if 0 not in self.pods[name]:
            self.make(name, 0)

    def follow(self) -> None:
        """Let an owner with a running driver create a missing worker."""
        self.go_on(self.chance.choice(GROUPS), 1)

    def again(self) -> None:
        name = self.chance.choice(GROUPS)
        if self.chance.random() < 0.3 and self.pods[name]:
            self.restart(name)

    def restart(self, name: str) -> None:
        """Let an owner delete all its pods, and recreate its driver."""
        for each in self.pods[name].values():
            self.harness.delete_pod(each)
        self.pods[name] = {}
        self.make(name, 0)

    def go_on(self, name: str, most: int) -> None:
        pods = self.pods[name]
        if pods.get(0) in self.harness.where():
            for index in [at for at in range(len(self.sizes[name])) if at not in pods][:most]:
                self.make(name, index)

    def owners_go_on(self) -> None:
        """Let all owners with pods create the missing ones.

        Restart those whose holding time ended.
        """
        self.victims_end()
        for name, pods in self.pods.items():
            if self.harness.expected.expired(("PodGroup", "ns", name)):
                self.restart(name)
            elif pods and 0 not in pods:
                self.make(name, 0)
            self.go_on(name, len(self.sizes[name]))

    def make(self, group: str, index: int) -> None:
        self.serial += 1
        name = self.pods[group][index] = f"{group}{self.serial}"
        self.harness.pod(name, group, self.sizes[group][index])

    # What disturbs them.

    def rival(self) -> None:
        self.other(priority=0)

    def urgent(self) -> None:
        if self.preempted:
            self.disturbed |= set(GROUPS)
            self.other(priority=10)

    def other(self, priority: int) -> None:
        """Create a gang whose pods all exist."""
        self.serial += 1
        group, size = f"other{self.serial}", self.chance.randint(1, 3)
        self.others[group] = [f"{group}-{at}" for at in range(size)]
        self.harness.group(group, size, priority=priority)
        for name in self.others[group]:
            self.harness.pod(name, group, self.chance.randint(1, 3), priority=priority)

    def leave(self) -> None:
        """Delete one of the other gangs."""
        if self.others:
            group = self.chance.choice(sorted(self.others))
            for name in self.others.pop(group):
                self.harness.delete_pod(name)
            self.harness.delete_group(group)

    def lose_node(self) -> None:
        """Delete a node, and then its pods."""
        name = self.chance.choice(sorted(self.cores))
        if name in self.there and len(self.there) > 2:
            self.disturb(name)
            self.there.remove(name)
            self.harness.builder.state.remove_node(name)
            for pod in [pod for pod, node in self.harness.where().items() if node == name]:
                self.gone(pod)
                self.harness.delete_pod(pod)

    def cordon(self) -> None:
        name = self.chance.choice(sorted(self.there))
        self.disturb(name)
        self.harness.builder.node(name, self.cores[name], unschedulable=True)

    def disturb(self, node: str) -> None:
        """Record the groups with places on the node as disturbed."""
        for pod in self.harness.builder.state.pods_on(node):
            self.disturbed.add(pod.info.group or "")

    def back(self) -> None:
        """Restore a node."""
        self.node(self.chance.choice(sorted(self.cores)))

    def node(self, name: str) -> None:
        self.there.add(name)
        self.harness.builder.node(name, self.cores[name])

    def victims_end(self) -> None:
        for name in self.harness.evictor_api.end():
            self.gone(name)
            self.harness.delete_pod(name)

    def gone(self, name: str) -> None:
        for pods in self.pods.values():
            for index in [at for at, pod in pods.items() if pod == name]:
                del pods[index]
        for names in self.others.values():
            if name in names:
                names.remove(name)

    # What is looked at.

    def bound(self, group: str) -> int:
        """Return the number of running pods, without evicted ones that have not ended yet."""
        runs = self.harness.where().keys() - set(self.harness.evictor_api.leaving)
        return sum(name in runs for name in self.pods[group].values())

    def placed(self, group: str) -> int:
        """Return the number of pods with a node, including held places."""
        found = self.harness.builder.state.forest.groups["PodGroup", "ns", group].members.values()
        return sum(pod.row >= 0 and not pod.info.terminating for pod in found)

    def check(self) -> None:
        """Check that every started group has all its places, unless it was disturbed."""
        check(self.harness)
        for name in GROUPS:
            expired = self.harness.expected.expired(("PodGroup", "ns", name))
            if not self.placed(name):
                self.disturbed.discard(name)
            elif expired:
                self.disturbed.add(name)
            elif name not in self.disturbed:
                assert self.placed(name) == len(self.sizes[name]), name

    def calm_down(self) -> None:
        """Delete all others, restore nodes, and add one that fits everything."""
        while self.others:
            self.leave()
        for name in self.cores:
            self.node(name)
        self.harness.builder.node("spare", SPARE)


async def run(seed: int) -> None:
    course = Disturbed(seed)
    harness = course.harness
    for _ in range(4):
        async with harness.leading(unsettled="groups wait for room"):
            for _ in range(15):
                course.step()
                await harness.settle(course.chance.choice((0, 0, 1, 2)))
                course.check()
            await harness.settle(2)  # places of recreated pods are stored once per second
            course.check()
        await harness.restart()
        course.check()
    course.calm_down()
    async with harness.leading():
        for _ in range(ROUNDS):
            await harness.settle(1)
            course.owners_go_on()
        for name, pods in course.pods.items():
            assert course.bound(name) == len(pods) in (0, len(course.sizes[name])), name


@pytest.mark.parametrize("seed", seeds(2, 60))
async def test_what_has_begun_comes_to_run_whole(seed: int) -> None:
    await run(seed)
