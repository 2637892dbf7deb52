"""The complete scheduler evicts for devices once, and waits for the deallocation."""

from collections.abc import Callable

from scheduler.core.values.model import ClaimKey
from tests.scheduler.devices.builders import ask, gpu
from tests.scheduler.devices.preemption import DevicePreemption
from tests.scheduler.eviction_harness import EvictionHarness
from tests.scheduler.preemption_builder import PreemptionBuilder

ONE = ask(gpu())


class DeviceHarness(EvictionHarness):
    def build_state(self, claim_changed: Callable[[ClaimKey], None]) -> PreemptionBuilder:
        self.made = DevicePreemption()
        return self.made


async def test_a_root_gets_the_devices_when_their_claim_is_given_back() -> None:
    harness = DeviceHarness()
    made = harness.made
    async with harness.leading():
        for at in range(2):
            made.gpu_node(f"n{at}", count=1)
        lows = [made.holds(f"n{at}", "gpu-0") for at in range(2)]
        high = made.asks(None, ONE, priority=5)
        await harness.settle(5)
        (victim,) = harness.evictor_api.deleted
        other = made.asks(None, ONE, priority=0)
        (low,) = (each for each in lows if each.name == victim)

        made.state.remove_pod(low.uid)
        await harness.settle(5)

        assert harness.api.bound == {}
        assert harness.evictor_api.deleted == [victim]

        made.give_back(low.device_claims[0])
        await harness.settle(5)

        assert list(harness.api.bound) == [high.name]
        assert harness.evictor_api.deleted == [victim]
        assert made.single(other).waiting


async def test_a_gang_evicts_one_that_holds_its_devices() -> None:
    harness, size = DeviceHarness(), 4
    made = harness.made
    async with harness.leading():
        for at in range(size):
            made.gpu_node(f"n{at}", count=1)
        harness.observe(made.group("low", size, mode="all"))
        lows = [made.holds(f"n{at}", "gpu-0", group="low") for at in range(size)]
        harness.observe(made.group("high", size, priority=5))
        for _ in range(size):
            made.asks("high", ONE, priority=5)
        await harness.settle(5)
        assert sorted(harness.evictor_api.deleted) == sorted(each.name for each in lows)

        for low in lows:
            made.state.remove_pod(low.uid)
            await harness.settle(1)
            assert harness.api.bound == {}
        for low in lows:
            made.give_back(low.device_claims[0])
            await harness.settle(1)

        assert len(harness.api.bound) == size
        assert len(harness.evictor_api.deleted) == size
