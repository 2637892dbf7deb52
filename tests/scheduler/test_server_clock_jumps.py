"""No duration that the scheduler measures depends on the API server's time of day.

An operator may set that clock, and one of several API servers may be ahead of the others: then the
Date header of a response differs by hours from the previous one.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kube.base.clock import rfc3339
from kube.base.errors import ServerError
from kube.client.resources import PODS
from scheduler.decoding.objects import decode_pod
from scheduler.preemption.evictor import SPARED_FOR
from tests.scheduler.holding_harness import HOLD, HoldingHarness, kind, template

Jumps = Mapping[int, int]
"""Seconds by which the time of day jumps, by the second of the jump."""

Play = Callable[[HoldingHarness], int]
"""Function that sets up a scenario, and returns the seconds to observe."""

GRACE = 30
PATIENCE = 60


def held_places_expire(harness: HoldingHarness) -> int:
    harness.builder.nodes(9, cpu=1)
    asked = {"scheduling.muster.dev/on-hold-expired": "Evict"}
    harness.group("train", 9, kind("driver", 1), kind("worker", 8), annotations=asked)
    harness.pod("driver", "train")
    return int(HOLD) + 60


def a_victim_does_not_end(harness: HoldingHarness) -> int:
    """Another victim is chosen after the first one's grace period and the timeout."""
    harness.builder.nodes(2, cpu=1)
    harness.builder.runs(None, "n0")
    harness.builder.runs(None, "n1", priority=1)
    harness.builder.waits(None, priority=5)
    return GRACE + PATIENCE + 120


def a_user_deletes_a_pod(harness: HoldingHarness) -> int:
    """A preemptor waits for its deletion, as long as it may take."""
    harness.builder.nodes(2, cpu=1)
    harness.builder.runs(None, "n1", priority=1)
    running_pod(harness, "deleted", "n0")

    async def deletes() -> None:
        await harness.clock.sleep(20)
        by = harness.server_clock.now() + timedelta(seconds=GRACE)
        stamps = {"deletionTimestamp": rfc3339(by), "deletionGracePeriodSeconds": GRACE}
        running_pod(harness, "deleted", "n0", **stamps)
        harness.builder.waits(None, priority=5)
        harness.changed.set()

    harness.users = asyncio.ensure_future(deletes())  # type: ignore[attr-defined]
    return 20 + GRACE + PATIENCE + 120


def a_preemption_is_delayed(harness: HoldingHarness) -> int:
    harness.builder.nodes(1, cpu=1)
    harness.builder.runs(None, "n0")
    key = harness.builder.group("high", 1, priority=5)
    spec = harness.builder.state.forest.groups[key].spec
    assert spec is not None
    harness.builder.state.set_group(replace(spec, delay=30.0))
    harness.builder.waits("high", 1, priority=5)
    return 60


def a_gang_is_given_up(harness: HoldingHarness) -> int:
    harness.builder.nodes(2, cpu=1)
    harness.observe(harness.builder.gang("g", 2))
    one, _ = harness.builder.pods("g", 2)
    fails = ServerError(500, "InternalError", "no")
    harness.evictor_api.fail_bind = lambda name: fails if name == one.name else None
    return 300


def a_deletion_fails(harness: HoldingHarness) -> int:
    """The victim is spared for a time."""
    harness.builder.nodes(1, cpu=1)
    harness.builder.runs(None, "n0")
    harness.builder.waits(None, priority=5)
    harness.evictor_api.fail_delete = lambda _name: ServerError(500, "InternalError", "no")
    return int(SPARED_FOR) + 200


ACTS = {"HoldExpired", "Evicted", "Preempting", "Preempted", "EvictionFailed"}
"""Events about actions. Other events report states, which may end before the report."""

PLAYS: list[Play] = [
    held_places_expire,
    a_victim_does_not_end,
    a_user_deletes_a_pod,
    a_preemption_is_delayed,
    a_gang_is_given_up,
    a_deletion_fails,
]


def running_pod(harness: HoldingHarness, name: str, node: str, **stamps: object) -> None:
    spec = template()["spec"] | {"nodeName": node, "schedulerName": "another"}
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", **stamps}
    obj = {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
    stored = harness.status_api.put(PODS, obj)
    harness.pods.upsert(decode_pod(json.dumps(stored | {"metadata": metadata}).encode()))


async def history(play: Play, jumps: Jumps) -> list[tuple[int, object]]:
    """Return the actions, each with its second."""
    harness = HoldingHarness()
    ahead, seen = timedelta(), None
    found: list[tuple[int, object]] = []

    def hears() -> None:
        """Let a response of the API server set the time, as renewals of the lease do."""
        harness.server_clock.heard(format_datetime(harness.clock.now() + ahead, usegmt=True))

    hears()
    async with harness.leading(unsettled="time passes, and the stage stays"):
        for second in range(0, play(harness), STEP):
            if second in jumps:
                ahead += timedelta(seconds=jumps[second])
                hears()
            harness.changed.set()
            await harness.clock.advance(STEP)
            done = (
                sorted(harness.api.bound.items()),
                list(harness.evictor_api.deleted),
                list(harness.status_api.deleted),
                sorted(harness.evictor_api.nominated.items()),
                [(who, why) for who, why, _ in harness.events.told if why in ACTS],
                harness.held("train"),
            )
            if done != seen:
                found.append((second, done))
                seen = done
    return found


STEP = 5
HOUR = 3600
LONGEST_BACKOFF = 5
"""Maximum random backoff of retried requests, in seconds."""

MOMENTS = st.integers(0, 20).map(lambda at: at * STEP)
SECONDS = st.integers(-HOUR, HOUR).filter(lambda by: abs(by) > 4 * STEP)
USUAL: dict[Play, list[tuple[int, object]]] = {}


@pytest.mark.parametrize("play", PLAYS)
@settings(max_examples=2, deadline=None)
@given(st.dictionaries(MOMENTS, SECONDS, min_size=1, max_size=3))
@example({5: HOUR})
@example({5: -HOUR})
@example({25: HOUR, 60: -HOUR})
def test_all_happens_at_its_time_whatever_the_time_of_day(play: Play, jumps: Jumps) -> None:
    usual = USUAL.get(play) or USUAL.setdefault(play, asyncio.run(history(play, {})))
    assert len(usual) > 1, "nothing happens"
    found = asyncio.run(history(play, jumps))
    assert [done for _, done in found] == [done for _, done in usual]
    for (at, _), (want, _) in zip(found, usual, strict=True):
        assert abs(at - want) <= LONGEST_BACKOFF + STEP
