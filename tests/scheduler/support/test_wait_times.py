"""The waiting times of gangs, in virtual time."""

from prometheus_client import REGISTRY

from kube.base.errors import Forbidden
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP
from tests.scheduler.harness import Harness


class Measured:
    """The increase of a kind's histogram since the creation of this: count and seconds."""

    def __init__(self, what: str, kind: str = POD_GROUP) -> None:
        self._name = f"muster_scheduler_gang_{what}_duration_seconds"
        self._kind = kind
        self._before = self._now()

    def _now(self) -> tuple[float, float]:
        count, seconds = (
            REGISTRY.get_sample_value(f"{self._name}_{part}", {"kind": self._kind}) or 0.0
            for part in ("count", "sum")
        )
        return count, seconds

    def value(self) -> tuple[float, float]:
        count, seconds = self._now()
        return count - self._before[0], round(seconds - self._before[1], 1)


async def test_the_time_begins_with_the_last_member_and_ends_with_the_first_and_last_binding() -> (
    None
):
    harness = Harness()
    first, whole = Measured("first_bind"), Measured("scheduling")
    harness.builder.gang("g", 2)
    async with harness.leading():
        harness.builder.pod("g", name="a", cpu=3)
        await harness.settle(100)
        harness.builder.pod("g", name="b", cpu=3)
        await harness.settle(30)
        assert round(harness.times.longest(POD_GROUP)) == 30
        harness.api.fail_bind = lambda name: Forbidden(403, "no", "no") if name == "b" else None
        harness.builder.nodes(2)
        await harness.settle(0.5)
        assert first.value() == (1, 30.0)
        assert whole.value() == (0, 0)
        harness.api.fail_bind = lambda _name: None
        await harness.settle(2)

    assert first.value() == (1, 30.0)
    count, seconds = whole.value()
    assert count == 1
    assert 30.5 < seconds < 33
    assert harness.times.longest(POD_GROUP) == 0.0


async def test_a_tree_is_measured_as_one() -> None:
    harness = Harness()
    tree, leaf = Measured("scheduling", COMPOSITE_POD_GROUP), Measured("scheduling")
    harness.builder.nodes(2)
    harness.builder.composite("tree", 2)
    async with harness.leading():
        for name in ("a", "b"):
            harness.builder.gang(name, 1, parent="tree")
            harness.builder.pods(name, 1)
        await harness.settle(1)

    assert (tree.value()[0], leaf.value()[0]) == (1, 0)


async def test_a_gang_that_loses_a_member_begins_anew_and_one_that_is_gone_waits_no_more() -> None:
    harness = Harness()
    key = harness.builder.gang("g", 2)
    async with harness.leading():
        info, _ = harness.builder.pods("g", 2)
        await harness.settle(50)
        harness.builder.state.remove_pod(info.uid)
        await harness.settle(1)
        assert harness.times.longest(POD_GROUP) == 0.0
        harness.builder.pod("g")
        await harness.settle(10)
        assert round(harness.times.longest(POD_GROUP)) == 10
        harness.builder.state.remove_group(key)
        await harness.settle(1)
        assert harness.times.longest(POD_GROUP) == 0.0


async def test_the_oldest_counts_whatever_became_of_older_ones() -> None:
    harness = Harness()
    async with harness.leading():
        for name in ("first", "second", "third"):
            harness.builder.gang(name, 1)
            harness.builder.pod(name, cpu=3 if name == "first" else 9)
            await harness.settle(10)
        harness.builder.nodes(1)
        await harness.settle(1)
        assert round(harness.times.longest(POD_GROUP)) == 21


async def test_a_gang_that_was_whole_is_not_measured_again() -> None:
    harness = Harness()
    whole = Measured("scheduling")
    harness.builder.nodes(2)
    harness.builder.gang("g", 2)
    async with harness.leading():
        info, _ = harness.builder.pods("g", 2)
        await harness.settle(1)
        harness.builder.state.remove_pod(info.uid)
        await harness.settle(1)
        harness.builder.pod("g")
        await harness.settle(1)
        assert harness.times.longest(POD_GROUP) == 0.0

    assert whole.value()[0] == 1
