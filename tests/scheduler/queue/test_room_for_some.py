"""Freed capacity is checked for the shapes that may gain, not for all pending ones."""

import random

import numpy as np
import pytest

from scheduler.core.framework.framework import Framework
from scheduler.core.nodes.node_table import Ints
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.place import Refusal, SearchBudget, place
from scheduler.core.values.model import SINGLE_POD, GroupKey, Requirements
from scheduler.queue.scheduling_queue import Queue
from tests.scheduler.state_builder import StateBuilder

SHAPES, EACH = 1000, 3


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Shape]:
    """The shapes for which capacity was checked on some rows."""
    found: list[Shape] = []
    slots = Framework.optimistic_slots

    def counted(self: Framework, shape: Shape, rows: Ints | None) -> Ints:
        found.append(shape)
        return slots(self, shape, rows)

    monkeypatch.setattr(Framework, "optimistic_slots", counted)
    return found


def blocked(builder: StateBuilder, queue: Queue) -> dict[GroupKey, int]:
    """Create as many pending pods, unschedulable, and return the units that each requests."""
    waiting: dict[GroupKey, int] = {}
    for number in range(SHAPES * EACH):
        amount = 10_000 + number % SHAPES
        info = builder.pod(requirements=Requirements((("units", amount),)), name=f"p{number}")
        waiting[SINGLE_POD, "ns", info.name] = amount
    queue.refresh(builder.state.take_changes(), 0)
    while (key := queue.pop()) is not None:
        decision = place(builder.state, builder.state.singles[key], SearchBudget())
        assert isinstance(decision, Refusal)
        queue.refuse(key, decision, 0)
    return waiting


def woken(builder: StateBuilder, queue: Queue) -> tuple[set[GroupKey], int]:
    """Return the ready roots, and the number of refreshes that it took."""
    refreshes = 0
    while True:
        refreshes += 1
        queue.refresh(builder.state.take_changes(), 0)
        ready = set()
        while (key := queue.pop()) is not None:
            ready.add(key)
        if ready or not queue:
            return ready, refreshes


@pytest.mark.parametrize("gain", [0, 5])
def test_a_node_among_a_thousand_blocked_shapes_is_looked_at_for_those_that_may_gain(
    looks: list[Shape], gain: int
) -> None:
    builder = StateBuilder()
    builder.node("old", units=1)
    queue = Queue(builder.state)
    waiting = blocked(builder, queue)
    looks.clear()

    most = 10_000 + gain - 1
    builder.node("new", units=most)

    ready, refreshes = woken(builder, queue)
    assert ready == {key for key, amount in waiting.items() if amount <= most}
    assert refreshes == 1
    assert len(looks) == gain


def test_the_room_of_all_nodes_is_counted_once_however_many_sizes_gangs_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builder = StateBuilder()
    builder.node("n", cpu=12)
    running = [builder.pod(node="n", name=f"runs{number}") for number in range(12)]
    queue = Queue(builder.state)
    for size in range(1, 21):
        builder.gang(f"g{size:02}", size)
        builder.pods(f"g{size:02}", size)
    queue.refresh(builder.state.take_changes(), 0)
    while (key := queue.pop()) is not None:
        decision = place(builder.state, builder.state.forest.groups[key], SearchBudget())
        assert isinstance(decision, Refusal)
        queue.refuse(key, decision, 0)
    asked: list[Shape] = []
    slots = Framework.slots

    def counted(self: Framework, shape: Shape) -> Ints:
        asked.append(shape)
        return slots(self, shape)

    for info in running[:7]:
        builder.state.remove_pod(info.uid)
    monkeypatch.setattr(Framework, "slots", counted)
    queue.refresh(builder.state.take_changes(), 0)

    assert len(queue) == 7
    assert len(asked) == 1


def test_no_shape_that_has_room_is_passed_over() -> None:
    rng = random.Random(7)
    for _ in range(200):
        builder = StateBuilder()
        builder.nodes(rng.randint(1, 4), cpu=rng.randint(1, 4))
        if rng.random() < 0.5:
            builder.node("gpu", 2, pods=rng.randint(1, 3), gpu=1)
        shapes = []
        for _ in range(8):
            wants = [("cpu", rng.randint(0, 5) * 1000)]
            if rng.random() < 0.4:
                wants.append((rng.choice(["gpu", "unknown"]), rng.randint(0, 2)))
            requirements = Requirements(tuple(each for each in wants if each[1]))
            info = builder.pod(requirements=requirements)
            shapes.append(builder.single(info).shape)
        for number in range(rng.randint(0, 3)):
            builder.pod(node="n0", name=f"runs{number}", cpu=rng.randint(1, 3))
        framework = builder.state.framework
        size = framework.nodes.size
        rows = np.array(rng.sample(range(size), rng.randint(0, size)), np.int64)

        kept = framework.may_fit(shapes, rows)

        assert [s for s in shapes if s not in kept and framework.slots_in(s, rows).any()] == []
