"""Moves that are carried out: decided at that moment, complete or not at all, limited."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from kube.base.errors import Forbidden
from scheduler.core.defragmentation.plan import NoMoves
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.search.place import SearchBudget
from scheduler.core.state.state import State
from scheduler.core.values.model import POD_GROUP
from scheduler.preemption import defragmenter
from scheduler.support.config import Config, Defragmentation, Preemption
from tests.scheduler.move_harness import ALWAYS, ON_REQUEST, MoveHarness, created_again

B = (POD_GROUP, "ns", "b")
LARGE = (POD_GROUP, "ns", "large")


async def test_a_gang_moves_and_the_root_starts() -> None:
    harness = MoveHarness()
    harness.split()

    async with harness.leading():
        await harness.settle()
        assert len(harness.evictor_api.deleted) == 2
        assert harness.nominated() == {B, LARGE}
        await harness.pods_end()
        await harness.settle(1)

    assert harness.where("large") == ["n2", "n2", "n3", "n3"]
    assert harness.where("b") == ["n0", "n1"]
    assert harness.nominated() == set()
    assert harness.defragmenter.next_time() is None


async def test_others_do_not_take_the_places_of_a_moved_gang() -> None:
    harness = MoveHarness()
    harness.split()

    async with harness.leading():
        await harness.settle()
        harness.builder.group("other", 1)
        harness.builder.waits("other", 1)
        await harness.settle(1)
        assert harness.where("other") == [""]
        await harness.pods_end()
        await harness.settle(1)

    assert harness.where("b") == ["n0", "n1"]
    assert harness.where("other") == [""]


async def test_all_are_marked_before_the_first_is_deleted() -> None:
    harness = MoveHarness()
    harness.split()
    async with harness.leading():
        await harness.settle()
        order = harness.evictor_api.order
        last = max(at for at, said in enumerate(order) if said.startswith("mark Pod/"))
        first = min(at for at, said in enumerate(order) if said.startswith("delete"))
        assert last < first
        await harness.pods_end()
        await harness.settle(1)


async def test_nothing_is_evicted_if_one_pod_cannot_be_marked() -> None:
    harness = MoveHarness()
    harness.split()
    victim = next(iter(harness.builder.state.forest.groups[B].members.values())).info.name
    harness.evictor_api.fail_patch = lambda name: (
        Forbidden(403, "Forbidden", "no") if name == victim else None
    )

    async with harness.leading(unsettled="the pods may be evicted again later"):
        await harness.settle(120)

    assert harness.evictor_api.deleted == []
    assert harness.where("b") == ["n2", "n3"]
    assert B not in harness.nominated()


@pytest.mark.parametrize(("mode", "moves"), [("Never", 0), ("OnRequest", 0), ("Always", 2)])
async def test_modes_without_a_request(mode: str, moves: int) -> None:
    harness = MoveHarness(Defragmentation(mode=mode))  # type: ignore[arg-type]
    harness.split()
    async with harness.leading(unsettled="the test ends in the middle of a move"):
        await harness.settle(2)
    assert len(harness.evictor_api.deleted) == moves


@pytest.mark.parametrize(
    ("seconds", "config", "moves"),
    [(60, ON_REQUEST, 2), (-1, ON_REQUEST, 0), (60, Defragmentation(), 0)],
)
async def test_requests(seconds: float, config: Defragmentation, moves: int) -> None:
    harness = MoveHarness(config)
    harness.split()
    harness.asks("large", seconds)
    async with harness.leading(unsettled="the test ends in the middle of a move"):
        await harness.settle(2)
    assert len(harness.evictor_api.deleted) == moves


async def test_a_root_that_asks_does_not_share_the_refusal_of_its_equals() -> None:
    harness = MoveHarness(ON_REQUEST)
    harness.split()
    harness.root("asks")
    async with harness.leading():
        await harness.settle(2)
        assert harness.evictor_api.deleted == []
        harness.asks("asks", 60)
        await harness.settle()
        await harness.pods_end()
        await harness.settle(1)

    assert harness.where("asks") == ["n2", "n2", "n3", "n3"]


async def test_a_request_in_vain_says_why() -> None:
    harness = MoveHarness(ON_REQUEST)
    harness.split()
    harness.builder.change(B, movable=False)
    harness.asks("large", 600)

    async with harness.leading():
        await harness.settle(2)

    written = [str(body) for kind, _, body in harness.status_api.patches if kind == "PodGroup"]
    assert any("No gangs are moved: no gang may be moved for it." in body for body in written)
    assert harness.evictor_api.deleted == []


async def test_a_gang_is_not_moved_again_soon() -> None:
    harness = MoveHarness()
    harness.split()
    async with harness.leading():
        await harness.settle()
        await harness.pods_end()
        await harness.settle(1)
        first = list(harness.evictor_api.deleted)
        await end(harness, "large")
        await end(harness, "a")
        harness.builder.run_pods("a", "n2", "n3")
        harness.root("next")
        await harness.settle(200)

    assert harness.evictor_api.deleted == first


async def test_only_so_many_gangs_of_a_namespace_move_in_an_hour() -> None:
    harness = MoveHarness(Defragmentation(mode="Always", gangs_per_hour=1))
    harness.split()
    async with harness.leading():
        await harness.settle()
        await harness.pods_end()
        await harness.settle(1)
        first = list(harness.evictor_api.deleted)
        # Another gang agrees, and another root waits.
        await end(harness, "large")
        await end(harness, "b")
        harness.builder.change((POD_GROUP, "ns", "a"), movable=True)
        harness.builder.group("c", 2)
        harness.builder.run_pods("c", "n2", "n3")
        harness.root("next")
        await harness.settle(120)
        assert harness.evictor_api.deleted == first
        await harness.settle(3700)
        assert len(harness.evictor_api.deleted) > len(first)
        await harness.pods_end()
        await harness.settle(1)

    assert harness.where("next") == ["n0", "n0", "n1", "n1"]


async def test_moves_are_sought_seldom_however_often_roots_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness, sought = MoveHarness(), list[str]()

    def never(_state: State, root: Group | Pod, *_: object, **__: object) -> NoMoves:
        sought.append(root.key[2])
        return NoMoves("returns", 1)

    monkeypatch.setattr(defragmenter, "defragment", never)
    harness.split()
    for number in range(30):
        harness.builder.group(f"w{number}", 1)
        harness.builder.waits(f"w{number}", 1, cpu=3 + number)
    async with harness.leading():
        for _ in range(150):
            harness.builder.state.reconsider_all()
            await harness.settle(1)

    assert sought
    assert max(Counter(sought).values()) <= 3


async def test_searches_that_end_too_early_get_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    harness, ends, now = MoveHarness(), list[float](), [0.0]

    def early(_state: State, *given: object, **__: object) -> NoMoves:
        budget = cast("Callable[[], SearchBudget]", given[2])()
        begun = now[0]
        while not budget.expired():
            now[0] += 0.25
        ends.append(now[0] - begun)
        return NoMoves("limit", 1)

    monkeypatch.setattr(harness.stepwise, "monotonic", lambda: now[0])
    monkeypatch.setattr(defragmenter, "defragment", early)
    harness.split()
    async with harness.leading():
        for _ in range(7):
            await harness.settle(400)

    assert ends[:6] == [0.5, 1, 2, 4, 8, 16]
    assert set(ends[6:]) <= {16}


async def end(harness: MoveHarness, group: str) -> None:
    """Remove all pods of a group."""
    pods = harness.builder.state.forest.groups[POD_GROUP, "ns", group].members
    for uid in list(pods):
        harness.builder.state.remove_pod(uid)
    await harness.settle()


async def test_one_move_at_a_time() -> None:
    harness = MoveHarness()
    harness.split()
    harness.builder.node("n4", 2, labels={"rack": "r9"})
    harness.builder.node("n5", 2, labels={"rack": "r9"})
    harness.builder.node("n6", 1)
    harness.builder.movable("c", "n4")
    harness.root("second")
    async with harness.leading():
        await harness.settle(5)
        first = len(harness.evictor_api.deleted)
        assert first in (1, 2)
        await harness.pods_end()
        await harness.settle(120)
        await harness.pods_end()
        await harness.settle(120)

    assert len(harness.evictor_api.deleted) == 3
    assert "" not in harness.where("large") + harness.where("second")


async def test_places_are_free_again_if_the_gang_does_not_come_back() -> None:
    harness = MoveHarness()
    harness.split()
    async with harness.leading():
        await harness.settle()
        harness.evictor_api.end()
        await harness.settle(30)
        assert B in harness.nominated()
        await harness.settle(600)
        assert B not in harness.nominated()
        assert harness.defragmenter.next_time() is None


async def test_places_are_free_at_once_if_the_gang_is_deleted() -> None:
    harness = MoveHarness()
    harness.split()
    async with harness.leading():
        await harness.settle()
        harness.evictor_api.end()
        harness.builder.state.remove_group(B)
        await harness.settle(1)
        assert B not in harness.nominated()


async def test_the_rest_of_a_gang_keeps_its_places() -> None:
    """A gang comes back pod by pod, and starts with its minimum."""
    harness = MoveHarness()
    harness.split()
    harness.builder.change(B, minimum=1)
    async with harness.leading():
        await harness.settle()
        infos = {pod.info.name: pod.info for pod in harness.builder.state.pods.values()}
        first, second = [created_again(infos[name]) for name in harness.evictor_api.end()]
        harness.builder.state.set_pod(first)
        await harness.settle(1)
        harness.builder.group("other", 1)
        harness.builder.waits("other", 1)
        await harness.settle(1)
        assert harness.where("other") == [""]
        harness.builder.state.set_pod(second)
        await harness.settle(1)

    assert harness.where("b") == ["n0", "n1"]
    assert harness.nominated() == set()


async def test_a_new_leader_completes_a_move_that_had_begun() -> None:
    """One pod was marked, so the complete gang goes, though its pods are units of their own."""
    harness = MoveHarness(Defragmentation())
    harness.split()
    pod, other = harness.builder.state.forest.groups[B].members.values()
    says = "muster-scheduler: moved for PodGroup ns/large of priority 0"
    marked = replace(pod.info.preemption, targeted=True, target_says=says)
    harness.builder.state.set_pod(replace(pod.info, preemption=marked))

    async with harness.leading(unsettled="the pods terminate"):
        await harness.new_term()
        await harness.settle(1)

    assert set(harness.evictor_api.deleted) == {pod.info.name, other.info.name}


def test_moves_need_a_rest_between_them() -> None:
    with pytest.raises(ValueError, match="repeatWindowSeconds"):
        Config(defragmentation=ALWAYS, preemption=Preemption(repeat_window_seconds=0))
    with pytest.raises(ValueError, match="enabled"):
        Config(defragmentation=ALWAYS, preemption=Preemption(enabled=False))
