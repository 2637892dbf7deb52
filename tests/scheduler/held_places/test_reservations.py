"""Reservations: groups whose places are held before any of their pods exists (KEP-4671)."""

import pytest

from analysis.explain.explain import explain_lines
from api.features import Feature, FeatureGates
from scheduler.core.search.place import SearchBudget
from scheduler.snapshot.snapshot import Limits, decode, encode, restore, take
from tests.scheduler.holding_harness import HOLD, HoldingHarness, Json, kind, places_held_for

NOTE = "scheduling.muster.dev/hold-from"
TIME = "scheduling.muster.dev/hold-seconds"


class ReservationHarness(HoldingHarness):
    gates = FeatureGates.of({Feature.EXPECTED_PODS: True, Feature.RESERVATIONS: True})

    def reserve(self, count: int = 4, *, priority: int = 0, seconds: str = "60") -> None:
        """Add a group that expects so many workers of one core, and has none."""
        notes = {NOTE: "Creation", TIME: seconds}
        self.group(
            "later", count, kind("worker", count), priority=priority, annotations=notes
        )  # fmt: skip

    def workers(self, count: int = 4, *, first: int = 0) -> None:
        for index in range(first, count):
            self.pod(f"worker-{index}", "later")

    def single(self, name: str, *, priority: int = 0, cpu: int = 1) -> None:
        self.group(name, 1, priority=priority)
        self.pod(name, name, cpu, priority=priority)

    def places(self) -> int:
        return sum(self.held("later").values())


async def test_places_are_held_before_any_pod_exists_and_its_pods_get_them() -> None:
    harness = ReservationHarness()
    async with harness.leading():
        harness.builder.nodes(4, cpu=1)
        harness.reserve()
        await harness.settle(2)
        assert harness.places() == 4
        harness.single("other")
        await harness.settle(2)
        assert not harness.where("other")

        harness.workers()
        await harness.settle(3)
        assert len(set(harness.where("worker").values())) == 4
        assert not harness.held("later")
        assert not harness.where("other")


async def test_a_gang_that_is_not_complete_yet_uses_its_places_once_it_is() -> None:
    harness = ReservationHarness()
    async with harness.leading():
        harness.builder.nodes(4, cpu=1)
        harness.reserve()
        await harness.settle(2)

        harness.workers(2)
        await harness.settle(3)
        assert (len(harness.where("worker")), harness.places()) == (2, 2)
        harness.workers(4, first=2)
        await harness.settle(3)
        assert len(harness.where("worker")) == 4


async def test_after_its_time_the_places_are_released_and_not_held_again() -> None:
    harness = ReservationHarness()
    async with harness.leading():
        harness.builder.nodes(4, cpu=1)
        harness.reserve()
        await harness.settle(2)
        harness.single("other")

        await harness.settle(65)
        assert not harness.held("later")
        assert list(harness.where()) == ["other"]
        await harness.settle(2 * HOLD)
        assert not harness.held("later")
    assert any("did not appear within 60 s" in str(it) for it in harness.events.told)


async def test_pods_that_come_after_its_time_are_scheduled_as_others() -> None:
    harness = ReservationHarness()
    async with harness.leading():
        harness.builder.nodes(4, cpu=1)
        harness.reserve()
        await harness.settle(65)
        assert not harness.held("later")

        harness.workers()
        await harness.settle(3)
        assert len(harness.where("worker")) == 4


async def test_the_status_no_longer_says_that_its_time_is_over_once_pods_wait() -> None:
    harness = ReservationHarness()
    key = ("PodGroup", "ns", "later")
    async with harness.leading(unsettled="the pods wait"):
        harness.builder.nodes(4, cpu=1)
        harness.reserve()
        await harness.settle(65)
        harness.single("other")
        await harness.settle(2)
        harness.workers()
        await harness.settle(0.1)
        assert harness.expected.expired(key)

        harness.held_places.release_unusable()
        assert not harness.expected.expired(key)
        assert key in harness.builder.state.changes.entities


async def test_a_reservation_waits_until_it_fits_as_a_whole() -> None:
    harness = ReservationHarness()
    async with harness.leading():
        harness.builder.nodes(3, cpu=1)
        harness.reserve()
        await harness.settle(3)
        assert not harness.held("later")

        harness.builder.node("n3", 1)
        harness.changed.set()
        await harness.settle(3)
        assert harness.places() == 4


@pytest.mark.parametrize("pods", [0, 1])
async def test_only_pods_that_exist_evict_others(pods: int) -> None:
    """A reservation of a higher priority takes nobody's node; its first pod does."""
    harness = ReservationHarness()
    async with harness.leading():
        harness.builder.nodes(4, cpu=1)
        harness.single("other")
        await harness.settle(2)
        harness.reserve(priority=9)
        for index in range(pods):
            harness.pod(f"worker-{index}", "later", priority=9)
        await harness.settle(5)

        assert harness.evictor_api.marked == ["Pod/other"] * pods


async def test_a_higher_priority_takes_the_places() -> None:
    harness = ReservationHarness()
    async with harness.leading():
        harness.builder.nodes(4, cpu=1)
        harness.reserve()
        await harness.settle(2)
        harness.single("other", priority=5)
        await harness.settle(5)
        assert list(harness.where()) == ["other"]


async def test_a_new_leader_keeps_the_places_and_their_time() -> None:
    harness = ReservationHarness()
    async with harness.leading():
        harness.builder.nodes(4, cpu=1)
        harness.reserve()
        await harness.settle(2)
        before = harness.held("later")
        await harness.settle(30)
    await harness.restart()
    async with harness.leading():
        await harness.settle(2)
        assert harness.held("later") == before
        await harness.settle(35)
        assert not harness.held("later")


async def test_places_are_in_one_rack() -> None:
    """The racks have two slots and five."""
    harness = ReservationHarness()
    async with harness.leading():
        for name, rack in [("n0", "a"), ("n1", "a"), *((f"n{at}", "b") for at in range(2, 7))]:
            harness.builder.node(name, 1, labels={"rack": rack})
        notes = {NOTE: "Creation"}
        harness.group("later", 4, kind("worker", 4), annotations=notes, rack=True)
        await harness.settle(2)
        assert set(harness.held("later")) < {"n2", "n3", "n4", "n5", "n6"}
        assert harness.places() == 4

        harness.workers()
        await harness.settle(3)
        assert set(harness.where("worker").values()) < {"n2", "n3", "n4", "n5", "n6"}


async def test_a_place_whose_node_is_deleted_is_chosen_again() -> None:
    harness = ReservationHarness()
    async with harness.leading():
        harness.builder.nodes(5, cpu=1)
        harness.reserve()
        await harness.settle(2)
        gone = next(iter(harness.held("later")))
        harness.builder.state.remove_node(gone)
        await harness.settle(5)
        assert harness.places() == 4
        assert gone not in harness.held("later")


async def test_an_annotation_that_comes_and_goes_holds_no_longer_than_its_time_each_time() -> None:
    harness = ReservationHarness()
    async with harness.leading():
        harness.builder.nodes(4, cpu=1)
        for _ in range(5):
            harness.reserve()
            await harness.settle(2)
            assert harness.places() == 4
            harness.group("later", 4, kind("worker", 4), annotations={TIME: "60"})
            await harness.settle(65)
            assert not harness.held("later")
        harness.single("other")
        await harness.settle(2)
        assert list(harness.where()) == ["other"]


async def test_a_limit_of_its_start_counts_from_its_first_pod() -> None:
    harness = ReservationHarness()
    notes = {NOTE: "Creation", "scheduling.muster.dev/start-timeout": "60s"}
    key = ("PodGroup", "ns", "later")

    def given_up() -> bool:
        wait = harness.builder.state.forest.groups[key].start_wait
        return wait is not None and bool(wait.given_up)

    async with harness.leading(unsettled="the pods come in the end"):
        harness.builder.nodes(3, cpu=1)
        harness.group("later", 4, kind("worker", 4), annotations=notes)
        await harness.settle(300)
        assert not given_up()

        harness.pod("worker-0", "later")
        await harness.settle(55)
        assert not given_up()
        await harness.settle(10)
        assert given_up()


async def test_a_start_in_time_is_no_limit_for_places_that_are_held() -> None:
    harness = ReservationHarness()
    notes = {NOTE: "Creation", "scheduling.muster.dev/start-timeout": "60s"}
    async with harness.leading():
        harness.builder.nodes(4, cpu=1)
        harness.group("later", 4, kind("worker", 4), annotations=notes)
        await harness.settle(90)
        assert harness.places() == 4


async def test_a_snapshot_has_the_places() -> None:
    harness = ReservationHarness()
    async with harness.leading():
        harness.builder.nodes(4, cpu=1)
        harness.reserve()
        await harness.settle(2)
        taken = take(harness.builder.state, harness.queue, Limits.of(SearchBudget()))

        state, _ = restore(decode(encode(taken), "a test"))

        assert places_held_for(state, "later") == harness.held("later")


@pytest.mark.parametrize("nodes", [3, 4])
async def test_explain_says_what_a_reservation_holds_and_that_it_evicts_nobody(nodes: int) -> None:
    harness = ReservationHarness()
    async with harness.leading(unsettled="one that is too large waits"):
        harness.builder.nodes(nodes, cpu=1)
        harness.reserve()
        await harness.settle(2)
        state = harness.builder.state
        root = state.forest.groups["PodGroup", "ns", "later"]

        lines = "\n".join(explain_lines(state, root, SearchBudget()))

        assert ("has 4 held places for pods that do not exist yet" in lines) is (nodes == 4)
        said = "no preemption: it reserves capacity, and none of its pods exists yet"
        assert (said in lines) is (nodes == 3)


async def test_deleting_the_group_releases_the_places() -> None:
    harness = ReservationHarness()
    async with harness.leading():
        harness.builder.nodes(4, cpu=1)
        harness.reserve()
        await harness.settle(2)
        harness.delete_group("later")
        harness.single("other", cpu=1)
        await harness.settle(3)
        assert list(harness.where()) == ["other"]
    assert harness.api.reservations == {}


async def test_a_namespace_reserves_no_more_than_its_limit() -> None:
    harness = ReservationHarness()
    async with harness.leading():
        harness.builder.nodes(200, cpu=1)
        harness.reserve(101)
        await harness.settle(3)
        assert not harness.held("later")
    assert any("would have more than 100" in str(it) for it in harness.events.told)


@pytest.mark.parametrize(
    ("gates", "note", "parent"),
    [
        ({Feature.EXPECTED_PODS: True}, "Creation", None),
        ({Feature.EXPECTED_PODS: True, Feature.RESERVATIONS: True}, "FirstPod", None),
        ({Feature.EXPECTED_PODS: True, Feature.RESERVATIONS: True}, "creation", None),
        ({Feature.EXPECTED_PODS: True, Feature.RESERVATIONS: True}, "Creation", "root"),
    ],
)
async def test_without_gate_or_annotation_nothing_is_held_before_the_first_pod(
    gates: dict[str, bool], note: str, parent: str | None
) -> None:
    harness = ReservationHarness()
    harness.groups._gates = FeatureGates.of(gates)
    async with harness.leading():
        harness.builder.nodes(4, cpu=1)
        if parent is not None:
            harness.builder.composite(parent, 1)
        notes: Json = {NOTE: note}
        harness.group("later", 4, kind("worker", 4), annotations=notes, parent=parent)
        await harness.settle(3)
        assert not harness.held("later")
