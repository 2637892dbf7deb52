"""Unschedulable roots by shape and by priority."""

from scheduler.core.groups.forest import Pod
from scheduler.core.values.model import GroupKey
from scheduler.queue.unschedulable import RefusedRoot, RefusedRoots
from tests.scheduler.state_builder import StateBuilder


def root(pod: Pod, priority: int) -> tuple[GroupKey, RefusedRoot]:
    return pod.key, RefusedRoot(priority, frozenset({pod.shape}), pod.shape, 1, 60.0)


def test_whether_any_is_above_a_priority() -> None:
    builder, refused = StateBuilder(), RefusedRoots()
    low, high = (builder.single(builder.pod(cpu=cpu)) for cpu in (1, 2))
    assert not refused.any_above(-5)

    refused.add(*root(low, 0))
    refused.add(*root(high, 7))
    assert (refused.any_above(6), refused.any_above(7)) == (True, False)

    refused.add(*root(high, 3))  # its class changed
    assert (refused.any_above(2), refused.any_above(3)) == (True, False)

    refused.discard(high.key)
    refused.discard(high.key)
    assert (refused.any_above(-1), refused.any_above(0)) == (True, False)
    refused.discard(low.key)
    assert not refused.any_above(-1)


def test_the_shapes_of_some_roots() -> None:
    builder, refused = StateBuilder(), RefusedRoots()
    pods = [builder.single(builder.pod(cpu=cpu)) for cpu in (1, 2, 3)]
    for pod in pods[:2]:
        refused.add(*root(pod, 0))

    found = refused.shapes_of(pod.key for pod in pods[1:])

    assert found == {pods[1].shape}
