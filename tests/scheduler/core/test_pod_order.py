"""The order of the pods of a group: highest priority, oldest, then by name."""

import gc
import random

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.groups.forest import Pod, in_order
from scheduler.core.values.model import PodInfo
from tests.scheduler.state_builder import StateBuilder


def pods(parts: list[tuple[int, str, str, str]]) -> list[Pod]:
    """Return pods with these priorities, creation times, namespaces and names."""
    builder = StateBuilder()
    wants = builder.pod().requirements
    state = builder.state
    for number, (priority, created, namespace, name) in enumerate(parts):
        info = PodInfo(f"u{number}", namespace, name, wants, priority=priority, created=created)
        state.set_pod(info)
    return [state.pods[f"u{number}"] for number in range(len(parts))]


@given(st.lists(st.tuples(st.integers(-2, 2), *(st.sampled_from("abc") for _ in range(3)))))
def test_in_order_sorts_by_order(parts: list[tuple[int, str, str, str]]) -> None:
    """The sort is stable, like `sorted`."""
    some = pods(parts)

    assert in_order(some) == sorted(some, key=lambda pod: pod.order)


def test_ordering_many_pods_makes_no_garbage() -> None:
    """Each 700 new tuples start a collection, some of which visit all objects of the process."""
    many = pods([(0, "", "ns", f"p{number}") for number in range(5_000)])
    random.Random(1).shuffle(many)
    started: list[object] = []

    def note(phase: str, _info: object) -> None:
        started.append(phase)

    usual = gc.get_threshold()
    gc.collect()
    gc.callbacks.append(note)
    try:
        gc.set_threshold(700, 10, 10)
        in_order(many)
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*usual)

    assert len(started) <= 2
