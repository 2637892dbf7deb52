"""The queue: unschedulable roots, and the backoff after a failed binding."""

import pytest

from scheduler.core.search.place import Refusal, SearchBudget, place
from scheduler.core.values.model import (
    SINGLE_POD,
    Expression,
    GroupKey,
    PodSelector,
    PodTerm,
    Requirements,
)
from scheduler.queue.scheduling_queue import Queue
from tests.scheduler.state_builder import StateBuilder, requests
from tests.support.counting import calls


def gang() -> tuple[Queue, GroupKey]:
    builder = StateBuilder()
    key = builder.gang("g", 1)
    builder.pod("g")
    return Queue(builder.state), key


def test_each_failure_doubles_the_wait_up_to_ten_seconds() -> None:
    queue, key = gang()
    waits = []
    for _ in range(6):
        queue.fail(key, 100.0)
        waits.append((queue.next_time() or 0) - 100)

    assert waits == [1, 2, 4, 8, 10, 10]


def test_a_success_resets_the_back_off() -> None:
    queue, key = gang()
    for _ in range(4):
        queue.fail(key, 100.0)
    queue.succeed(key)
    assert queue.failures(key) == 0
    queue.fail(key, 100.0)

    assert queue.next_time() == 101.0


def test_a_blocked_root_is_not_decided_until_it_is_unblocked() -> None:
    queue, key = gang()
    queue.block(key)
    queue.review(key)
    before = queue.pop()
    queue.unblock(key)

    assert (before, queue.pop()) == (None, key)


@pytest.mark.parametrize("event", ["the node goes", "the node goes to another rack"])
def test_a_pod_with_anti_affinity_is_woken_when_a_matching_pods_node_leaves_the_rack(
    event: str,
) -> None:
    builder = StateBuilder()
    builder.nodes(2, rack_of=2)
    builder.pod(node="n1", labels={"app": "web"}, name="web")
    queue = Queue(builder.state)
    selector = PodSelector((Expression("app", "In", ("web",)),), ("ns",))
    wants = Requirements(requests(1), required_anti_affinity=(PodTerm(selector, "rack"),))
    info = builder.pod(requirements=wants)
    key = (SINGLE_POD, "ns", info.name)
    queue.refresh(builder.state.take_changes(), 0)
    assert queue.pop() == key
    refusal = place(builder.state, builder.single(info), SearchBudget())
    assert isinstance(refusal, Refusal)
    queue.refuse(key, refusal, 0)
    queue.refresh(builder.state.take_changes(), 0)

    if event == "the node goes":
        builder.state.remove_node("n1")
        builder.state.remove_pod("uid-web")
    else:
        builder.node("n1", labels={"rack": "another"})
    queue.refresh(builder.state.take_changes(), 0)

    assert queue.pop() == key


def test_thousands_of_roots_that_wait_for_a_moment_cost_nothing_before_it() -> None:
    def cost(count: int) -> int:
        builder = StateBuilder()
        queue = Queue(builder.state)
        for number in range(count):
            pod = builder.pod()
            key = (SINGLE_POD, "ns", pod.name)
            if number % 2:
                queue.fail(key, 0.0)
            else:
                queue.retry_at(key, 50.0 + number)
        builder.state.take_changes()
        queue.refresh(builder.state.take_changes(), 0.5)

        def look() -> None:
            queue.refresh(builder.state.take_changes(), 0.6)
            queue.next_time()

        found = calls(look)
        assert queue.next_time() == 1.0
        return found

    assert cost(2_000) == cost(20)


def test_refused_roots_are_tried_again_after_a_minute_a_share_at_a_time() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=1)
    queue = Queue(builder.state)
    keys = [builder.gang(f"g{number:03}", 1) for number in range(600)]
    for number, key in enumerate(keys):
        builder.pod(key[2], cpu=2 + number)
    queue.refresh(builder.state.take_changes(), 0)
    while (ready := queue.pop()) is not None:
        refusal = place(builder.state, builder.state.forest.groups[ready], SearchBudget())
        assert isinstance(refusal, Refusal)
        queue.refuse(ready, refusal, 0)
    sizes = []
    for _ in range(3):
        queue.refresh(builder.state.take_changes(), 61.0)
        sizes.append(len(queue))

    assert sizes == [256, 512, 600]
