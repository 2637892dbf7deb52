"""FailedScheduling events on pending pods: once for each change, and never very many."""

import tracemalloc

from kube.base.errors import ServerError
from kube.events.events import EventType, ObjectReference, Recorder
from scheduler.core.state.state import State
from scheduler.core.values.model import POD_GROUP, GroupSpec
from scheduler.events.group_events import GroupEvents
from scheduler.status.conditions import PodView
from scheduler.status.pod_events import OF_A_GROUP, PodEvents
from tests.scheduler.harness import Harness
from tests.scheduler.state_builder import StateBuilder
from tests.support.clock import FakeClock


def on_pods(harness: Harness) -> list[tuple[str, str]]:
    """Return (pod, message) of each event."""
    found = [each for each in harness.events.told if each[0].startswith("Pod/")]
    assert {reason for _, reason, _ in found} <= {"FailedScheduling"}
    return [(about.partition("/")[2], message) for about, _, message in found]


async def test_a_waiting_pod_is_told_once_of_each_change() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=1)
    harness.builder.gang("g", 2)
    harness.builder.pod("g", name="first")
    lone = harness.builder.pod(cpu=9, name="lone")
    harness.observe_pods()

    async with harness.leading():
        await harness.settle(8)
        harness.builder.pod("g", name="second")
        harness.observe_pods()
        await harness.settle(8)
        for _ in range(3):
            harness.builder.state.reconsider_all()
            await harness.settle(2)

    told = [(name, message.partition(" ")[0]) for name, message in on_pods(harness)]
    of_gang = sorted(each for each in told if each[0] != lone.name)
    assert of_gang == [("first", "0/1"), ("first", "Waiting"), ("second", "0/1")]
    assert [name for name, _ in told].count("lone") == 1


async def test_of_a_large_gang_few_pods_are_told() -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(1, cpu=1)
    builder.composite("root", 2)
    for name in ("a", "b"):
        builder.gang(name, 40, parent="root")
        builder.pods(name, 40)
    harness.observe_pods()

    async with harness.leading():
        await harness.settle(5)

    conditions = [name for kind, name, _ in harness.api.patches if kind == "Pod"]
    told = {name for name, _ in on_pods(harness)}
    assert len(conditions) == 80
    assert len(told) == 2 * OF_A_GROUP
    state = harness.builder.state
    assert {pod.group.name for pod in state.pods.values() if pod.group and pod.info.name in told} \
        == {"a", "b"}  # fmt: skip


async def test_many_gangs_of_a_namespace_take_few_events_and_none_of_others() -> None:
    harness = Harness()
    builder = harness.builder
    for number in range(150):
        builder.gang(f"g{number:03}", 2)
        builder.pods(f"g{number:03}", 2)
    key = (POD_GROUP, "quiet", "q")
    builder.state.set_group(GroupSpec(key, 2))
    builder.pod("q", namespace="quiet", name="q0")
    builder.pod("q", namespace="quiet", name="q1")
    harness.observe_pods()

    async with harness.leading():
        await harness.settle(4)
        told = on_pods(harness)
        conditions = [name for kind, name, _ in harness.api.patches if kind == "Pod"]

    assert len(conditions) == 302
    assert {"q0", "q1"} <= {name for name, _ in told}
    assert 50 <= len(told) - 2 <= 75


async def test_nodes_that_join_one_after_another_cost_few_writes_on_pods_and_no_events() -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(1, cpu=1)
    for number in range(30):
        builder.gang(f"g{number:02}", 4)
        builder.pods(f"g{number:02}", 4)
    harness.observe_pods()

    async with harness.leading():
        await harness.settle(5)
        before = (len(harness.api.patches), len(on_pods(harness)))
        for number in range(2):
            builder.node(f"more{number}", cpu=1)
            await harness.settle(5)
        after = (len(harness.api.patches), len(on_pods(harness)))

    # Twenty a second, however many pods wait, and no event.
    assert before[0] == 120
    assert before[0] < after[0] <= before[0] + 20 * 10 + 120
    assert after[1] == before[1]


async def test_a_condition_that_was_not_written_is_not_told() -> None:
    harness = Harness()
    harness.builder.gang("g", 1)
    pod = harness.builder.pod("g")
    harness.observe_pods()
    harness.api.fail_patch = lambda name: (
        ServerError(500, "InternalError", "down") if name == pod.name else None
    )

    async with harness.leading():
        await harness.settle(3)
        assert on_pods(harness) == []
        harness.api.fail_patch = lambda _name: None
        await harness.settle(15)

    assert [name for name, _ in on_pods(harness)] == [pod.name]


async def test_a_namespace_may_send_again_after_a_while() -> None:
    harness = Harness()
    for number in range(60):
        harness.builder.gang(f"g{number:03}", 1)
        harness.builder.pod(f"g{number:03}")
    harness.observe_pods()

    async with harness.leading():
        await harness.settle(3)
        early = len(on_pods(harness))
        await harness.settle(10)
        harness.builder.gang("late", 1)
        harness.builder.pod("late", name="late")
        harness.observe_pods()
        await harness.settle(3)

    assert early < 60
    assert "late" in {name for name, _ in on_pods(harness)}


class Owners(Recorder):
    """A recorder that keeps the namespaces of the owners, and no text."""

    def __init__(self) -> None:
        self.namespaces: list[str] = []
        self.pod_events = PodEvents(GroupEvents(self, State(), {}), FakeClock())

    def event(
        self,
        regarding: ObjectReference,
        _kind: EventType,
        _reason: str,
        _message: str,
        *,
        component: str = "",
    ) -> None:
        del component
        if regarding.kind == "Job":
            self.namespaces.append(regarding.namespace)

    def failed(self, namespace: str, uid: str) -> None:
        builder = StateBuilder()
        pod = builder.state.pods[builder.pod(namespace=namespace).uid]
        owner = ObjectReference("batch/v1", "Job", namespace, "j", uid)
        self.pod_events.failed(PodView(pod, "Unschedulable", "why", ()), owner)


def test_the_uid_of_an_owner_in_another_namespace_does_not_silence_its_event() -> None:
    owners = Owners()
    for namespace in ("forger", "victim", "victim"):
        owners.failed(namespace, "uid")

    assert owners.namespaces == ["forger", "victim"]


def test_nothing_of_an_owner_is_kept_after_its_event() -> None:
    owners = Owners()
    tracemalloc.start()
    try:
        for number in range(20):
            owners.failed("ns", f"{number}-" + "u" * 1_000_000)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(owners.namespaces) == 20
    assert kept < 5_000_000
