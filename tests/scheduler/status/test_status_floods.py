"""A tenant with very many or odd objects does not delay the statuses of others."""

from typing import Any

import pytest

from scheduler.core.values.model import POD_GROUP, GroupKey, GroupSpec
from scheduler.status import conditions
from scheduler.status.conditions import GroupView
from scheduler.support.fair_keys import FairKeys
from tests.scheduler.harness import Harness


def names(harness: Harness) -> list[str]:
    return [name for _, name, _ in harness.api.patches]


def small(harness: Harness, namespace: str, name: str) -> GroupKey:
    """Create a PodGroup without pods."""
    key = (POD_GROUP, namespace, name)
    harness.builder.state.set_group(GroupSpec(key, 1))
    harness.observe(key)
    return key


async def test_a_group_does_not_wait_for_the_thousands_of_another_namespace() -> None:
    harness = Harness()
    for number in range(3_000):
        small(harness, "flood", f"g{number:05}")
    small(harness, "quiet", "late")

    async with harness.leading(unsettled="thousands are still to be written"):
        await harness.settle(0.5)

    assert names(harness).index("late") < 1_000


async def test_the_statuses_of_one_round_are_bounded_and_all_are_written_in_the_end() -> None:
    harness = Harness()
    for number in range(1_200):
        small(harness, "flood", f"g{number:05}")

    async with harness.leading():
        await harness.settle(2)

    assert sorted(names(harness)) == [f"g{number:05}" for number in range(1_200)]


def wide(harness: Harness, width: int) -> list[GroupKey]:
    """Create a root that needs all its children; each child needs two pods and has one."""
    builder = harness.builder
    builder.nodes(1, cpu=1)
    keys = [builder.composite("root", width)]
    for number in range(width):
        keys.append(builder.gang(f"leaf{number:04}", 2, parent="root", created=f"{number:04}"))
        builder.pod(f"leaf{number:04}", name=f"first{number:04}")
    harness.observe(*keys)
    return keys


async def test_every_group_of_a_wide_tree_is_told_why_it_waits() -> None:
    harness = Harness()
    keys = wide(harness, 700)

    async with harness.leading():
        await harness.settle(3)

    assert {harness.condition(key)[1] for key in keys} == {"Incomplete"}
    assert harness.condition(keys[-1])[2].startswith('Waiting for PodGroup "leaf0000": The group')


async def test_a_pod_that_comes_to_a_wide_tree_changes_few_statuses() -> None:
    async def writes(width: int) -> int:
        harness = Harness()
        keys = wide(harness, width)
        async with harness.leading():
            await harness.settle(5)
            before = len(names(harness))
            harness.builder.pod("leaf0050", name="second")
            await harness.settle(5)
            found = len(names(harness)) - before
            assert (harness.observed[keys[51]].status or {})["members"] == 2
            counts = harness.observed[keys[0]].status or {}
            assert counts["children"] == width
        return found

    assert await writes(800) == await writes(100) <= 3


async def test_a_wide_tree_is_told_of_another_cause() -> None:
    harness = Harness()
    keys = wide(harness, 150)

    async with harness.leading():
        await harness.settle(3)
        harness.builder.gang("leaf0100", 2, parent="root", workload="x", created="0100")
        await harness.settle(3)
        broken = {harness.condition(key)[1] for key in keys}
        harness.builder.gang("leaf0100", 2, parent="root", created="0100")
        await harness.settle(3)

    assert broken == {"Invalid"}
    assert {harness.condition(key)[1] for key in keys} == {"Incomplete"}


async def test_a_long_chain_of_composites_is_invalid_and_ends_nothing() -> None:
    harness = Harness()
    parent, keys = None, []
    for number in range(1_500):
        keys.append(harness.builder.composite(f"c{number}", 1, parent=parent))
        parent = f"c{number}"
    keys += [harness.builder.gang(name, 1, parent=parent) for name in ("leaf", "empty")]
    harness.builder.pods("leaf", 1)
    harness.observe(*keys)
    harness.observe_pods()

    async with harness.leading():
        await harness.settle(5)

    assert {harness.condition(key)[1] for key in keys} == {"Invalid"}
    assert sum(kind == "Pod" for kind, _, _ in harness.api.patches) == 1


async def test_every_group_of_a_ring_and_below_it_is_invalid() -> None:
    harness = Harness()
    keys = [
        harness.builder.composite("a", 1, parent="b"),
        harness.builder.composite("b", 1, parent="a"),
        harness.builder.composite("below", 1, parent="a"),
        harness.builder.gang("leaf", 1, parent="below"),
    ]
    harness.observe(*keys)

    async with harness.leading():
        await harness.settle(2)

    said = [harness.condition(key) for key in keys]
    assert {reason for _, reason, _ in said} == {"Invalid"}
    assert all("The parents of the group form a cycle" in message for _, _, message in said)


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({"conditions": [{}]}, id="a condition without a type"),
        pytest.param({"conditions": [{"type": 7}, "x", None]}, id="conditions that are none"),
        pytest.param({"conditions": {"type": "x"}}, id="conditions that are no list"),
        pytest.param({"blocker": "x"}, id="a blocker that is text"),
        pytest.param({"blocker": {"kind": "quorum", "since": 5}}, id="a since that is a number"),
        pytest.param({"blocker": {"kind": "quorum", "since": "soon"}}, id="a since that is text"),
        pytest.param({"blocker": {"kind": "quorum"}}, id="a blocker without since"),
        pytest.param(
            {
                "conditions": [
                    {
                        "type": "PodGroupInitiallyScheduled",
                        "status": "False",
                        "lastTransitionTime": ["x"],
                    }
                ]
            },
            id="a transition that is a list",
        ),
        pytest.param({"members": "many", "scheduledPods": None}, id="counts that are none"),
    ],
)
async def test_a_status_written_by_hand_is_put_right(odd: dict[str, Any]) -> None:
    harness = Harness()
    key = harness.builder.gang("g", 2)
    harness.builder.pod("g")
    harness.observe(key)
    harness.observed[key].status = odd

    async with harness.leading():
        await harness.settle(2)

    found = harness.observed[key].status or {}
    assert harness.condition(key)[:2] == ("False", "Incomplete")
    assert (found["members"], found["scheduledPods"]) == (1, 0)
    assert found["blocker"]["since"].startswith("20")
    assert all(isinstance(each["type"], str) for each in found["conditions"])


async def test_a_group_whose_status_cannot_be_derived_does_not_keep_others_from_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Harness()
    keys = [harness.builder.gang(name, 2) for name in ("bad", "good")]
    harness.observe(*keys)
    usual = conditions.group_view

    def view(state: Any, group: Any, blocker: Any) -> GroupView:
        if group.name == "bad":
            raise ZeroDivisionError
        return usual(state, group, blocker)

    monkeypatch.setattr("scheduler.status.reporter.group_view", view)
    async with harness.leading():
        await harness.settle(2)

    assert names(harness) == ["good"]


def test_namespaces_take_turns_and_the_oldest_key_of_each_is_first() -> None:
    keys: FairKeys[int] = FairKeys()
    for namespace, count in (("a", 3), ("b", 1), ("c", 2)):
        for number in range(count):
            keys.put(("PodGroup", namespace, str(number)), number)

    def take(most: int) -> list[str]:
        found = keys.take(lambda _, number: number != 1, most)
        return [f"{namespace}{name}" for _, namespace, name in found]

    assert [take(2), take(2), take(9)] == [["a0", "b0"], ["c0", "a2"], []]
    assert (keys.size, keys.count("a"), keys.count("b"), keys.count("c")) == (2, 1, 0, 1)


def test_keys_that_are_not_ready_do_not_hide_those_behind_them() -> None:
    keys: FairKeys[bool] = FairKeys()
    for number in range(5_000):
        keys.put(("PodGroup", "a", str(number)), number == 4_999)
    found: list[GroupKey] = []
    for _ in range(6):
        found += keys.take(lambda _, ready: ready, 10)

    assert found == [("PodGroup", "a", "4999")]
    assert keys.size == 4_999


async def test_a_wide_tree_that_is_mended_is_whole_without_further_events() -> None:
    harness = Harness()
    parent = None
    for number in range(4):
        harness.builder.composite(f"c{number}", 1, parent=parent)
        parent = f"c{number}"
    keys = []
    for number in range(1_500):
        keys.append(harness.builder.gang(f"leaf{number}", 1, parent=parent))
    harness.observe(*keys)

    async with harness.leading():
        await harness.settle(1)
        harness.builder.composite("c1", 1)
        harness.changed.set()
        for _ in range(5):
            await harness.clock.advance(1)

    forest = harness.builder.state.forest
    assert {forest.groups[key].top.name for key in keys} == {"c1"}
    assert {harness.condition(key)[1] for key in keys} == {"Incomplete"}
