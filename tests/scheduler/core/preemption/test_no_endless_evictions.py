"""Two priorities fight over one cluster: what must hold in every round, and that it settles."""

from __future__ import annotations

import random

import pytest

from scheduler.core.forest import Group
from scheduler.core.model import POD_GROUP
from tests.scheduler.arena import Arena


class Fight:
    """Rounds of arrivals, endings and evictions; `floors` of all groups that were made."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.arena = Arena()
        self.world = self.arena.world
        self.world.nodes(8, cpu=4, rack_of=2)
        self.number = 0
        self.evicted: dict[str, int] = {}

    def arrive(self) -> None:
        chance = self.chance
        name, size = f"g{self.number}", chance.randint(1, 6)
        self.number += 1
        priority = chance.choice([0, 10])
        self.arena.contest.group(
            name,
            chance.randint(1, size),
            priority=priority,
            mode=chance.choice(["all", "all", "single"]),
            topology=chance.choice([None, None, "rack"]),
        )
        self.arena.contest.waits(name, size, cpu=chance.randint(1, 2), priority=priority)

    def end(self) -> None:
        """One of the running groups is done."""
        pods = self.world.state.pods.values()
        running = sorted({pod.info.group or "" for pod in pods if pod.info.node})
        if running:
            self.remove(self.chance.choice(running))

    def remove(self, name: str) -> None:
        for pod in [p for p in self.world.state.pods.values() if p.info.group == name]:
            self.world.state.remove_pod(pod.info.uid)
        self.world.state.remove_group((POD_GROUP, "ns", name))

    def groups(self) -> list[Group]:
        return [g for g in self.world.state.forest.groups.values() if g.spec is not None]

    def check(self) -> None:
        """After everything has settled."""
        state = self.world.state
        assert (state.nodes.free >= 0).all()
        for group in self.groups():
            disrupted = self.evicted.get(group.name, 0)
            whole = group.spec is not None and group.spec.disruption == "all"
            assert not group.incomplete or (disrupted and not whole), group

    def watch(self, deleted: list[str]) -> None:
        """What was asked to go: whole units, of lower priority than somebody who waits."""
        groups = {
            p.info.group
            for p in self.world.state.pods.values()
            if p.info.name in deleted and p.info.group is not None
        }
        highest = max((g.priority for g in self.groups() if g.pending_total), default=0)
        for name in groups:
            group = self.world.state.forest.groups[POD_GROUP, "ns", name]
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
    fight = Fight(seed)
    arena = fight.arena

    async with arena.leading():
        for turn in range(500 if long else 20):
            fight.arrive()
            if turn % 3 == 0:
                fight.end()
            await arena.settle()
            fight.watch(arena.arena.leaving)
            arena.arena.end()
            await arena.settle(1)
            fight.watch(arena.arena.leaving)
            arena.arena.end()
            await arena.settle(1)
            if turn % 10 == 9:
                await quiet(fight)


async def quiet(fight: Fight) -> None:
    """Nothing arrives and nothing ends: then nothing may happen any more."""
    arena = fight.arena
    for _ in range(10):
        arena.arena.end()
        await arena.settle(2)
    before = (dict(arena.api.bound), list(arena.arena.deleted))
    for _ in range(5):
        fight.world.state.reconsider_all()
        await arena.settle(2)
    assert (dict(arena.api.bound), list(arena.arena.deleted)) == before
    fight.check()
    for name in [g.name for g in fight.groups() if not g.members]:
        fight.remove(name)
