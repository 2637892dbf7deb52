"""Held places for pods that do not exist yet, as the console shows them from statuses."""

from typing import Any

import pytest

from console.views.workload import pod_state
from scheduler.core.values.model import POD_GROUP, GroupSpec
from scheduler.decoding.objects import group_of
from scheduler.expected.pods import ExpectedPods
from scheduler.support.config import ExpectedLimits
from tests.console.cluster_builder import BLOCK, RACK, Builder, flat

Json = dict[str, Any]

KEY = (POD_GROUP, "ns", "train")


@pytest.fixture
def cluster() -> Builder:
    made = Builder()
    made.racks()
    made.use_keys(BLOCK, RACK)
    made.cluster.expected = ExpectedPods(made.state, ExpectedLimits())
    return made


def tells(cluster: Builder, places: dict[str, int], count: int = 4) -> None:
    """Let the group expect pods of one core, with held places in its status."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    kind = {"name": "worker", "count": count, "template": {"spec": {"containers": [container]}}}
    pods = [{"name": "worker", "node": node, "count": it} for node, it in places.items()]
    obj = group_of(
        {
            "metadata": {"name": "train", "namespace": "ns", "uid": "uid-train"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": count}},
                "expectedPods": [kind],
            },
            "status": {"heldPlaces": {"pods": pods}},
        }
    )
    cluster.state.set_group(GroupSpec(KEY, count))
    expected = cluster.cluster.expected
    assert expected is not None
    for info in expected.on_group_changed(("ns", "train"), obj).set:
        cluster.state.set_pod(info)
    cluster.cluster.observed[KEY] = obj


def used_and_held(cluster: Builder, domain: str) -> tuple[int, int]:
    found = flat(cluster.map().domains)[domain]
    return found.used, found.held


def states(cluster: Builder) -> list[tuple[str, str]]:
    pods = cluster.state.forest.groups[KEY].members.values()
    return sorted((pod_state(pod), pod.node) for pod in pods)


def test_held_places_are_shown_and_follow_the_status(cluster: Builder) -> None:
    tells(cluster, {"n-1-1-1": 2, "n-2-1-1": 1})
    assert used_and_held(cluster, "b1") == (2_000, 2_000)
    assert used_and_held(cluster, "b2") == (1_000, 1_000)
    assert states(cluster) == [
        ("Expected", ""),
        ("Held", "n-1-1-1"),
        ("Held", "n-1-1-1"),
        ("Held", "n-2-1-1"),
    ]

    tells(cluster, {"n-2-1-1": 2})
    assert used_and_held(cluster, "b1") == (0, 0)
    assert used_and_held(cluster, "b2") == (2_000, 2_000)


def test_held_room_is_not_used(cluster: Builder) -> None:
    cluster.pod(node="n-1-1-1", cpu=2)
    tells(cluster, {"n-1-1-1": 1})
    cluster.map()
    assert cluster.following.map.utilisation(2) == {"b1": 2 / 16, "b2": 0.0}


def test_a_node_that_is_not_known_yet_is_waited_for(cluster: Builder) -> None:
    """Groups may be delivered before nodes."""
    tells(cluster, {"later": 1})
    assert all(state == "Expected" for state, _ in states(cluster))
    cluster.node("later", 4, labels={BLOCK: "b1", RACK: "r1"})
    assert used_and_held(cluster, "b1") == (1_000, 1_000)


@pytest.mark.parametrize("pods", [None, "x", [1], [{"name": "worker", "node": 1, "count": "2"}]])
def test_what_is_written_by_hand_does_no_harm(cluster: Builder, pods: Any) -> None:
    tells(cluster, {"n-1-1-1": 1})
    cluster.map()
    obj = cluster.cluster.observed[KEY]
    obj.status = {"heldPlaces": {"pods": pods}}
    cluster.cluster.observed[KEY] = obj
    assert used_and_held(cluster, "b1") == (0, 0)


def test_a_group_that_is_gone_holds_nothing(cluster: Builder) -> None:
    tells(cluster, {"n-1-1-1": 1})
    cluster.map()
    expected = cluster.cluster.expected
    assert expected is not None
    for uid in expected.on_group_changed(("ns", "train"), None).deleted:
        cluster.state.remove_pod(uid)
    cluster.cluster.observed.pop(KEY)
    assert used_and_held(cluster, "b1") == (0, 0)
