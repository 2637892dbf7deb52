"""Devices of held places under random arrivals, departures, changes and new leaders."""

import random

import pytest

from scheduler.expected.claims import OWN
from tests.scheduler.claims.holding import HoldingClaimsHarness, expected
from tools.testing.effort import seeds

GROUPS = ("a", "b", "c")


class Course:
    """A random sequence of events on four nodes with some devices each."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.harness = HoldingClaimsHarness()
        self.serial = 0
        self.pods: dict[str, str] = {}
        self.generation = 1
        self.harness.device_class()
        self.harness.template()
        for at in range(4):
            self.harness.builder.node(f"n{at}", 8)
            self.harness.devices(f"n{at}", self.chance.randint(1, 4))

    def step(self) -> None:
        self.chance.choice(
            (self.group, self.come, self.come, self.come, self.go, self.slice, self.template)
        )()

    def group(self) -> None:
        name = self.chance.choice(GROUPS)
        if self.chance.random() < 0.2:
            self.harness.groups.delete(("ns", name))
            return
        own, stage = self.chance.choice((0, 1, 1)), self.chance.choice((0, 1, 2))
        driver = expected("driver", self.chance.randint(0, 2), own=own, stage=stage)
        worker = expected("worker", self.chance.randint(0, 4))
        self.harness.group(name, self.chance.randint(1, 4), driver, worker)

    def come(self) -> None:
        name, group = f"p{self.serial}", self.chance.choice(GROUPS)
        self.serial += 1
        self.pods[name] = group
        if self.chance.random() < 0.3:
            self.harness.worker_without_claim(name, group)
        else:
            self.harness.worker(name, group)

    def go(self) -> None:
        """Delete a pod; its claim is deleted with it, or some time later."""
        if self.pods:
            name = self.chance.choice(sorted(self.pods))
            del self.pods[name]
            claim = f"{name}-0" in self.harness.api.claims
            self.harness.deliver_deletion(name, claim=claim and self.chance.random() < 0.5)

    def collect(self) -> None:
        """Delete claims of deleted pods."""
        for name in sorted(self.harness.api.claims):
            if name.removesuffix("-0") not in self.pods:
                self.harness.api.drop_claim(name)

    def slice(self) -> None:
        self.generation += 1
        devices = self.chance.randint(0, 4)
        node = f"n{self.chance.randrange(4)}"
        self.harness.devices(node, devices, generation=self.generation)

    def template(self) -> None:
        if self.chance.random() < 0.5:
            self.harness.templates.delete(("ns", "t"))
        self.harness.template(count=self.chance.choice((1, 1, 2)))


def check(harness: HoldingClaimsHarness) -> None:
    """Check that devices are assumed only for held places, and that none has two users."""
    state = harness.builder.state
    table = state.devices
    held = [pod for pod in state.pods.values() if pod.info.expected and pod.assumed]
    keys = {key for pod in held for key in pod.info.device_claims if OWN in key[1]}
    assert {key for key in table.assumed if OWN in key[1]} == keys
    for pod in held:
        for key in pod.info.device_claims:
            assert table.allocation(key) is not None, (pod.info.uid, key)
    returning = table.consumers.returning
    for key in table.assumed:
        for device in table.use.held(key):
            others = [each for each in table.use.takers(device.key) if each != key]
            assert all(each in returning for each in others), (key, others)
    for of in harness.expected:
        group = state.forest.groups[of]
        members = [pod for pod in group.members.values() if pod.info.expected]
        assert group.expected_held == sum(pod.assumed for pod in members)
        assert group.expected_waiting == sum(pod.waiting for pod in members)


@pytest.mark.parametrize("seed", seeds(8, 60))
async def test_devices_are_those_of_the_places_whatever_comes(seed: int) -> None:
    course = Course(seed)
    harness = course.harness
    for _ in range(3):
        async with harness.leading(unsettled="groups wait for devices"):
            for _ in range(12):
                course.step()
                if course.chance.random() < 0.3:
                    course.collect()
                await harness.settle(course.chance.choice((0, 1, 2)))
                check(harness)
        await harness.restart()
        check(harness)
    for name in GROUPS:
        harness.groups.delete(("ns", name))
    for name in list(course.pods):
        harness.deliver_deletion(name, claim=False)
    course.pods.clear()
    course.collect()
    assert not harness.builder.state.devices.assumed
    assert not harness.in_use()
    assert not harness.expected.claims._naming
