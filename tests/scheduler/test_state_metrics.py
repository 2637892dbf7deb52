"""The metrics read from the state: correct, reported only by the leader, and few."""

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from structlog.testing import capture_logs

from scheduler.core.explain.free_capacity import MOST_DOMAINS, MOST_RESOURCES
from scheduler.core.groups.groups import GROUP_STATES
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP, NodeInfo, Requirements
from scheduler.state_metrics import LEADER, StateMetrics
from tests.scheduler.harness import Harness

TENANTS = 60


@pytest.fixture
def harness() -> Iterator[Harness]:
    """A harness whose scheduler leads in this process."""
    harness = Harness()
    harness.builder.nodes(4, cpu=4, rack_of=2)
    state = harness.builder.state
    LEADER.source = StateMetrics(state, harness.times, harness.freeze, ["rack"])
    yield harness
    LEADER.source = None


def told() -> dict[str, float]:
    """Return every series, without `muster_scheduler_`."""
    registry = CollectorRegistry()
    registry.register(LEADER)
    lines = generate_latest(registry).decode().splitlines()
    samples = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name.removeprefix("muster_scheduler_"): float(value) for name, _, value in samples}


def test_groups_by_kind_and_state(harness: Harness) -> None:
    builder = harness.builder
    builder.composite("tree", 1)
    builder.gang("a", 2, parent="tree")
    builder.gang("b", 1)
    builder.pod("b")
    builder.pod("b", held=True)
    found = told()

    assert {
        name: value for name, value in found.items() if name.startswith("groups") and value
    } == {
        'groups{kind="PodGroup",state="incomplete"}': 1,
        'groups{kind="PodGroup",state="pending"}': 1,
        'groups{kind="CompositePodGroup",state="incomplete"}': 1,
    }
    assert (found["held_pods"], found["held_groups"]) == (1, 1)


async def test_the_longest_wait_of_each_kind(harness: Harness) -> None:
    harness.builder.gang("g", 1)
    async with harness.leading():
        harness.builder.pod("g", cpu=99)
        await harness.settle(30)
        found = told()

    assert round(found['longest_pending_seconds{kind="PodGroup"}']) == 30
    assert found['longest_pending_seconds{kind="CompositePodGroup"}'] == 0


def test_free_room_in_all_and_by_domain(harness: Harness) -> None:
    harness.builder.pod(node="n0")
    found = told()

    assert found['nodes_free{resource="cpu"}'] == 15
    assert found['nodes_allocatable{resource="cpu"}'] == 16
    assert found['domains{topology_key="rack"}'] == 2
    assert found['domain_free{domain="r000",resource="cpu",topology_key="rack"}'] == 7
    assert found['domain_free_max{resource="cpu",topology_key="rack"}'] == 8


def test_what_a_decision_tries_is_not_told(harness: Harness) -> None:
    before = told()
    with harness.freeze:
        harness.builder.pod(node="n0", cpu=4)
        during = told()

    assert during == before
    assert told() != before


def test_a_replica_that_does_not_lead_tells_nothing(harness: Harness) -> None:
    assert told()
    LEADER.source = None

    assert told() == {}


async def test_nothing_that_tenants_name_makes_more_series(harness: Harness) -> None:
    """The test uses dozens of namespaces, groups, pods, schedulers, keys, resources and labels."""
    builder = harness.builder
    async with harness.leading(unsettled="most of them never fit"):
        await harness.settle(1)
        before = told().keys()
        for number in range(TENANTS):
            mine = f"tenant-{number}"
            builder.gang(mine, 1, key=f"{mine}/rack", rack=True, workload=mine)
            requests = ((f"{mine}/gpu", 1),)
            builder.pod(mine, requirements=Requirements(requests), labels={mine: mine})
            builder.pod(namespace=mine, scheduler=mine, priority=number)
        await harness.settle(2)

    assert told().keys() == before


def test_the_number_of_series_is_bounded_by_the_configuration(harness: Harness) -> None:
    """The names and resources of nodes do not matter: they are many, and each is a domain."""
    for number in range(300):
        offers = {f"example.com/device-{number}-{each}": 1 for each in range(5)}
        harness.builder.state.set_node(NodeInfo(f"n{number}", offers, {"rack": f"r{number}"}))
    groups = len(GROUP_STATES) * len((POD_GROUP, COMPOSITE_POD_GROUP))

    assert len(told()) <= groups + 2 + 2 + 2 * MOST_RESOURCES + 1 + MOST_RESOURCES * MOST_DOMAINS


async def test_a_line_for_each_decision(harness: Harness) -> None:
    harness.builder.gang("small", 2)
    harness.builder.gang("large", 1)
    with capture_logs() as logs:
        async with harness.leading():
            harness.builder.pods("small", 2, cpu=3)
            harness.builder.pod("large", cpu=99)
            await harness.settle(1)
            said = [log for log in logs if log["event"] == "decision"]

    scheduled = next(log for log in said if log["root"] == "PodGroup/ns/small")
    refused = next(log for log in said if log["root"] == "PodGroup/ns/large")
    assert (scheduled["result"], scheduled["pods"], scheduled["nodes"]) == ("scheduled", 2, 2)
    assert (refused["result"], refused["reason"]) == ("unschedulable", "capacity")
    assert "4 Insufficient cpu." in refused["message"]
