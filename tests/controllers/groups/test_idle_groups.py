"""The idle annotation on groups from pods without pods: few writes, and leaders continue it."""

from collections import Counter
from datetime import timedelta

import pytest

from api.constants import ANNOTATION_NO_PODS_SINCE
from controllers.groups.idle_groups import IDLE_ALONE_SECONDS, IDLE_SECONDS, NOTED_SECONDS
from kube.base.clock import rfc3339
from kube.base.errors import Forbidden
from tests.controllers.asking import LAG, SET, asking, existing, group, owned, submit
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import make_pod

PATCH = ("patch", "PodGroup", "g")


async def with_a_pod(harness: ControllerHarness) -> None:
    existing(harness, SET)
    submit(harness, owned(asking("p"), SET))
    await harness.settle()
    await harness.settle(seconds=LAG)


async def without(harness: ControllerHarness, *, seconds: float) -> None:
    """Delete its pod, and let time pass, more than a burst of changes takes."""
    harness.api.remove("Pod", "default", "p")
    await harness.settle(seconds=0.6)
    await harness.settle(seconds=seconds)


async def again(harness: ControllerHarness) -> None:
    submit(harness, owned(asking("p"), SET))
    await harness.settle(seconds=0.6)


def noted(harness: ControllerHarness) -> str | None:
    found: str | None = group(harness)["metadata"]["annotations"].get(ANNOTATION_NO_PODS_SINCE)
    return found


def note(harness: ControllerHarness, text: str) -> None:
    obj = group(harness)
    notes = obj["metadata"]["annotations"] | {ANNOTATION_NO_PODS_SINCE: text}
    harness.api.put(obj | {"metadata": obj["metadata"] | {"annotations": notes}})


def new_leader(harness: ControllerHarness) -> ControllerHarness:
    later = ControllerHarness()
    later.clock = harness.clock
    later.api.share(harness.api)
    later.api.relist()
    return later


async def test_it_is_noted_once_and_taken_back_with_the_next_pod(
    harness: ControllerHarness,
) -> None:
    await with_a_pod(harness)
    await without(harness, seconds=NOTED_SECONDS)
    since = rfc3339(harness.clock.now() - timedelta(seconds=NOTED_SECONDS))
    assert noted(harness) == since
    for _ in range(5):
        await harness.settle(seconds=NOTED_SECONDS / 2)
    assert harness.api.writes.count(PATCH) == 1
    assert noted(harness) == since

    await again(harness)
    assert noted(harness) is None
    assert harness.api.writes.count(PATCH) == 2

    await without(harness, seconds=NOTED_SECONDS - 1)
    await harness.settle(seconds=IDLE_SECONDS - NOTED_SECONDS)
    assert harness.api.names("PodGroup") == ["g"], "its time begins anew"


async def test_a_pod_that_asks_for_nothing_takes_it_back(harness: ControllerHarness) -> None:
    await with_a_pod(harness)
    await without(harness, seconds=NOTED_SECONDS)
    submit(harness, make_pod("q").in_group("g"))
    harness.from_pods.controller.queue.add(("default", "g"))
    await harness.settle(seconds=IDLE_SECONDS)

    assert noted(harness) is None
    assert harness.api.names("PodGroup") == ["g"]


async def test_pods_that_come_and_go_hundreds_of_times_cost_no_write(
    harness: ControllerHarness,
) -> None:
    await with_a_pod(harness)
    for _ in range(300):
        await without(harness, seconds=1)
        await again(harness)

    assert harness.api.writes == [("create", "PodGroup", "g")]


async def test_whoever_waits_for_the_note_each_time_gets_two_writes_in_its_time(
    harness: ControllerHarness,
) -> None:
    await with_a_pod(harness)
    for _ in range(100):
        await without(harness, seconds=NOTED_SECONDS)
        await again(harness)

    assert harness.api.writes.count(PATCH) == 200


async def test_hundreds_of_groups_that_lose_their_pods_at_once_cost_no_patch(
    harness: ControllerHarness,
) -> None:
    for _ in range(2):
        submit(harness, *(asking(f"p-{at}", f"g-{at}") for at in range(150)))
        await harness.settle()
        for at in range(150):
            harness.api.remove("Pod", "default", f"p-{at}")
        await harness.settle(seconds=1)

    await harness.settle(seconds=LAG)
    await harness.settle(seconds=IDLE_ALONE_SECONDS)
    assert harness.api.names("PodGroup") == []
    wrote = Counter(verb for verb, _, _ in harness.api.writes)
    assert wrote == dict.fromkeys(("create", "delete", "patch"), 150), "patched: the finalizers"


async def test_a_new_leader_counts_on(harness: ControllerHarness) -> None:
    await with_a_pod(harness)
    await without(harness, seconds=NOTED_SECONDS)
    await harness.clock.advance(IDLE_SECONDS)

    later = new_leader(harness)
    await later.new_term()
    await later.from_pods.controller.handle(("default", "g"))

    assert later.api.writes == [("delete", "PodGroup", "g")]
    later.close()


async def test_the_same_process_that_leads_again_counts_on(harness: ControllerHarness) -> None:
    await with_a_pod(harness)
    await without(harness, seconds=NOTED_SECONDS)
    await harness.clock.advance(IDLE_SECONDS)
    await harness.new_term()
    await harness.settle()

    assert harness.api.names("PodGroup") == []


async def test_a_note_that_the_cache_has_not_lost_yet_ends_nothing(
    harness: ControllerHarness,
) -> None:
    await with_a_pod(harness)
    await without(harness, seconds=NOTED_SECONDS)
    await harness.settle(seconds=IDLE_SECONDS / 2)
    before = noted(harness)
    await again(harness)
    note(harness, before or "")  # as a stale cache has it
    await without(harness, seconds=IDLE_SECONDS / 2)

    assert harness.api.names("PodGroup") == ["g"]


@pytest.mark.parametrize(
    "written", ["", "x", "2999-01-01T00:00:00Z", "2026-01-01T00:00:00", "0001-01-01T00:00:00+23:59"]
)
async def test_what_somebody_else_wrote_is_corrected_and_ends_nothing_early(
    harness: ControllerHarness, written: str
) -> None:
    await with_a_pod(harness)
    await without(harness, seconds=NOTED_SECONDS)
    right = noted(harness)
    note(harness, written)
    await harness.settle()
    assert noted(harness) == right

    note(harness, written)
    await harness.new_term()  # it ignores times in the future
    await harness.settle(seconds=IDLE_SECONDS / 2)
    assert harness.api.names("PodGroup") == ["g"]


async def test_one_whose_deletion_is_refused_says_since_when(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_args: object, **_how: object) -> None:
        raise Forbidden(403, "Forbidden", "a webhook says no")

    submit(harness, asking("p"))
    await harness.settle()
    await without(harness, seconds=IDLE_ALONE_SECONDS - 1)
    assert noted(harness) is None
    with monkeypatch.context() as refusing:
        refusing.setattr(harness.api.client, "delete", refuse)
        await harness.settle(seconds=1)
    since = rfc3339(harness.clock.now() - timedelta(seconds=IDLE_ALONE_SECONDS))
    assert noted(harness) == since

    await harness.settle(seconds=30)
    assert harness.api.names("PodGroup") == [], "it is tried again"
