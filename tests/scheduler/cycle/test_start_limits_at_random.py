"""Under random events, a gang is given up exactly when its limit is over, as a model counts it."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from scheduler.core.groups.forest import Pod
from scheduler.core.values.model import POD_GROUP
from tests.scheduler.harness import Harness
from tools.testing.effort import seeds

KEY = (POD_GROUP, "ns", "g")
MINIMUM = 2

Event = tuple[str, Any]

WEIGHTS = {
    "come": 2, "go": 1, "ungate": 1, "assume": 6, "forget": 12, "bind": 1, "end": 1, "touch": 1,
    "limit": 1, "advance": 14, "look": 2,
}  # fmt: skip
"""How often each event happens. Most time passes without one, or no limit would ever end."""


def course(seed: int) -> Iterator[Event]:
    """Yield the events of one course, which begins with two pods."""
    draw = random.Random(seed)
    yield from [("limit", 5.0), ("come", False), ("come", False), ("look", None)]
    for what in draw.choices(list(WEIGHTS), list(WEIGHTS.values()), k=40):
        values = {"come": (False, True), "limit": (0.0, 5.0, 9.0), "advance": (0.5, 2.0, 6.0)}
        yield what, draw.choice(values.get(what, range(4)))


@dataclass
class Model:
    """What the documentation says, by numbers of pods only."""

    since: float | None = None
    limit: float = 0.0
    started: bool = False
    given_up: bool = False

    def happened(self, harness: Harness) -> None:
        """Take in one event, whether the scheduler has looked or not."""
        if self._bound(harness) >= MINIMUM:
            self.started = True
        if self._there(harness) < MINIMUM:
            self.since, self.given_up = None, False

    def look(self, harness: Harness, limit: float) -> None:
        """Take in that the scheduler looks."""
        now = harness.clock.monotonic()
        if self.started or not limit or limit != self.limit:
            self.since, self.given_up = None, False
        if self.started or not limit or self._there(harness) < MINIMUM:
            return
        if self.since is None:
            self.since, self.limit = now, limit
        if now >= self.since + limit and not self._placed(harness):
            self.given_up = True

    def _pods(self, harness: Harness) -> list[Pod]:
        pods = harness.builder.state.pods.values()
        return [pod for pod in pods if not (pod.info.gated or pod.info.terminating)]

    def _there(self, harness: Harness) -> int:
        return len(self._pods(harness))

    def _placed(self, harness: Harness) -> int:
        return sum(bool(pod.assumed or pod.info.node) for pod in self._pods(harness))

    def _bound(self, harness: Harness) -> int:
        return sum(bool(pod.info.node) for pod in self._pods(harness))


def play(harness: Harness, what: str, value: Any) -> None:
    """Carry out an event on the state, if it is possible."""
    state, pods = harness.builder.state, list(harness.builder.state.pods.values())
    if what == "come" and len(pods) < 4:
        harness.builder.pod("g", gated=value)
    pod = pods[value % len(pods)] if pods and type(value) is int else None
    if pod is None:
        return
    placed = pod.assumed or pod.info.node
    if what == "go":
        state.remove_pod(pod.info.uid)
    elif what == "ungate":
        state.set_pod(replace(pod.info, gated=False))
    elif what == "assume" and pod.waiting:
        state.assume([pod], [0])
    elif what == "forget":
        state.forget(pod.info.uid)
    elif what == "bind" and pod.assumed:
        state.set_pod(replace(pod.info, node="n", phase="Running"))
    elif what == "end" and not pod.info.gated:
        state.set_pod(replace(pod.info, terminating=True))
    elif what == "touch" and not placed:
        state.set_pod(replace(pod.info, labels={"n": str(harness.clock.monotonic())}))


@pytest.mark.parametrize("seed", seeds(40, 400))
async def test_a_gang_is_given_up_exactly_when_its_limit_is_over(seed: int) -> None:
    harness, model, limit = Harness(), Model(), 0.0
    harness.builder.node("n", cpu=8)
    harness.builder.gang("g", MINIMUM)
    group = harness.builder.state.forest.groups[KEY]
    for what, value in course(seed):
        if what == "limit":
            limit = value
            assert group.spec is not None
            harness.builder.state.set_group(replace(group.spec, start_within=limit))
        elif what == "advance":
            await harness.clock.advance(value)
        else:
            play(harness, what, value)
        model.happened(harness)
        if what in ("look", "advance", "limit"):
            for _ in harness.cycle.refresh():
                pass
            model.look(harness, limit)
            assert group.given_up == model.given_up, what
            assert not (group.given_up and harness.queue.entity(KEY))
