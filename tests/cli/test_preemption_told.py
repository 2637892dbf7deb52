"""What explain and simulate say of domains and of those who would go; nobody does."""

from __future__ import annotations

from cli.explain import explain_lines
from scheduler.core.placement import Budget
from tests.scheduler.contest import Contest


def test_the_domains_and_the_victims_are_listed_and_nobody_goes() -> None:
    world = Contest()
    world.nodes(4, cpu=1, rack_of=2)
    world.group("low", 2, mode="all")
    world.runs("low", "n0", "n1")
    world.runs(None, "n2", priority=9)
    world.group("high", 2, priority=5, topology="rack")
    world.waits("high", 2, priority=5)

    lines = [line.strip() for line in explain_lines(world.state, world.root("high"), Budget())]

    assert "rack=r000: room for 0, 2 more by preemption, 0 missing" in lines
    assert "rack=r001: room for 1, 0 more by preemption, 1 missing" in lines
    at = lines.index("would evict pods of lower priority, 2 in all:")
    assert lines[at + 1] == "PodGroup ns/low, priority 0, 2 pods"
    assert len(world.state.pods) == 5
