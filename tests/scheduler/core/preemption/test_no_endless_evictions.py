"""Two priorities compete for one cluster: invariants of every round, and convergence."""

import random

import pytest

from scheduler.core.groups.forest import Group
from scheduler.core.values.model import POD_GROUP
from tests.scheduler.eviction_harness import EvictionHarness


class Rounds:
    """Rounds of arrivals, completions and evictions."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.harness = EvictionHarness()
        self.builder = self.harness.builder
        self.builder.nodes(8, cpu=4, rack_of=2)
        self.number = 0
        self.evicted: dict[str, int] = {}

    def arrive(self) -> None:
        rng = self.rng
        name, size = f"g{self.number}", rng.randint(1, 6)
        self.number += 1
        priority = rng.choice([0, 10])
        self.builder.group(
            name,
            rng.randint(1, size),
            priority=priority,
            mode=rng.choice(["all", "all", "single"]),
            topology=rng.choice([None, None, "rack"]),
        )
        self.builder.waits(name, size, cpu=rng.randint(1, 2), priority=priority)

    def end(self) -> None:
        """Complete one of the running groups."""
        pods = self.builder.state.pods.values()
        running = sorted({pod.info.group or "" for pod in pods if pod.info.node})
        if running:
            self.remove(self.rng.choice(running))

    def remove(self, name: str) -> None:
        for pod in [p for p in self.builder.state.pods.values() if p.info.group == name]:
            self.builder.state.remove_pod(pod.info.uid)
        self.builder.state.remove_group((POD_GROUP, "ns", name))

    def groups(self) -> list[Group]:
        return [g for g in self.builder.state.forest.groups.values() if g.spec is not None]

    def check(self) -> None:
        """Check the invariants after everything has settled."""
        state = self.builder.state
        assert (state.nodes.free >= 0).all()
        for group in self.groups():
            disrupted = self.evicted.get(group.name, 0)
            whole = group.spec is not None and group.spec.disruption == "all"
            assert not group.incomplete or (disrupted and not whole), group

    def watch(self, deleted: list[str]) -> None:
        """Check the requested deletions: complete units, of lower priority than a pending root."""
        groups = {
            p.info.group
            for p in self.builder.state.pods.values()
            if p.info.name in deleted and p.info.group is not None
        }
        highest = max((g.priority for g in self.groups() if g.pending_total), default=0)
        for name in groups:
            group = self.builder.state.forest.groups[POD_GROUP, "ns", name]
            self.evicted[name] = self.evicted.get(name, 0) + 1
            assert group.priority < highest
            if group.spec is not None and group.spec.disruption == "all":
                stays = [
                    p for p in group.members.values() if p.info.node and not p.info.terminating
                ]
                assert not stays, f"{name} was broken, not taken whole"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2))
async def test_two_priorities_fight_and_it_settles(seed: int, long: bool) -> None:
    rounds = Rounds(seed)
    harness = rounds.harness

    async with harness.leading():
        for turn in range(120 if long else 20):
            rounds.arrive()
            if turn % 3 == 0:
                rounds.end()
            await harness.settle()
            rounds.watch(harness.evictor_api.leaving)
            harness.evictor_api.end()
            await harness.settle(1)
            rounds.watch(harness.evictor_api.leaving)
            harness.evictor_api.end()
            await harness.settle(1)
            if turn % 10 == 9:
                await quiet(rounds)


async def quiet(rounds: Rounds) -> None:
    """Check that nothing happens without arrivals and completions."""
    harness = rounds.harness
    for _ in range(10):
        harness.evictor_api.end()
        await harness.settle(2)
    before = (dict(harness.api.bound), list(harness.evictor_api.deleted))
    for _ in range(5):
        rounds.builder.state.reconsider_all()
        await harness.settle(2)
    assert (dict(harness.api.bound), list(harness.evictor_api.deleted)) == before
    rounds.check()
    for name in [g.name for g in rounds.groups() if not g.members]:
        rounds.remove(name)
