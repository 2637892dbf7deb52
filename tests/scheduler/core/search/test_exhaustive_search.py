"""Trees that fit only if a child leaves devices to another that has no alternative."""

import copy

import pytest

from scheduler.core.decide import decide
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from tests.scheduler.crossings.build import Built, pod_name
from tests.scheduler.crossings.draw import Instance
from tests.scheduler.crossings.play import play

TREE: Instance = {
    "nodes": [
        {"name": "n2", "cpu": 2, "devices": [{"name": "d0"}, {"name": "d1"}]},
        {"name": "n3", "cpu": 1, "devices": [{"name": "d1"}, {"name": "d2"}, {"name": "d3"}]},
    ],
    "groups": [
        {"name": "g0", "composite": True, "min": 2},
        {"name": "g0.0", "parent": "g0"},
        {"name": "g0.1", "parent": "g0", "min": 2},
        {"name": "g0.2", "parent": "g0", "min": 2},
    ],
    "pods": [
        {"name": "large", "cpu": 1, "group": "g0.0", "claims": ["one", "two"]},
        {"name": "sharing", "cpu": 1, "group": "g0.1", "claims": ["shared"]},
        {"name": "plain", "cpu": 1, "group": "g0.1"},
        {"name": "other", "cpu": 1, "group": "g0.2", "claims": ["pair"]},
        {"name": "last", "cpu": 1, "group": "g0.2", "claims": ["own", "common"]},
    ],
    "claims": [
        {"name": "one"},
        {"name": "two", "ask": {"count": 2}},
        {"name": "shared"},
        {"name": "common"},
        {"name": "pair", "ask": {"any": [{"count": 2}]}},
        {"name": "own"},
    ],
}
"""Two nodes: "large" needs the one with three devices and one CPU, so "plain" the other."""

PLACES = {"large": "n3", "sharing": "n2", "plain": "n2"}


def places(built: Built, found: Placement) -> dict[str, str]:
    names = (built.state.nodes.name_of(row) for row in found.rows)
    return dict(zip(map(pod_name, found.pods), names, strict=True))


def waiting(instance: Instance) -> tuple[Built, Group | Pod]:
    built = Built(instance)
    key = built.next()
    assert key is not None
    root = built.queue.entity(key)
    assert root is not None
    return built, root


def with_victim() -> Instance:
    instance = copy.deepcopy(TREE)
    instance["nodes"][1]["cpu"] = 2
    instance["pods"].append({"name": "old", "cpu": 1, "node": "n3"})
    for entry in (*instance["groups"], *instance["pods"][:-1]):
        entry["priority"] = 5
    return instance


@pytest.mark.parametrize("instance", [TREE, with_victim()])
def test_all_ways_are_tried_before_anybody_is_evicted(instance: Instance) -> None:
    complaints, decisions = play(instance)
    assert not complaints
    assert dict(decisions[0]["places"]) == PLACES
    assert "victims" not in decisions[0]


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_what_the_budget_leaves_is_tried_at_the_next_attempt(steps: int) -> None:
    (built, root), budget = waiting(with_victim()), SearchBudget(steps=steps)
    tried = []
    for _ in range(40):
        found = decide(built.state, root, budget)
        if isinstance(found, Placement):
            assert places(built, found) == PLACES
            break
        assert found.timed_out
        tried.append(found.tried)
    else:
        pytest.fail(f"it is never placed: {tried}")
    assert tried == sorted(tried)


def test_what_fits_nowhere_is_refused_for_good() -> None:
    instance = copy.deepcopy(TREE)
    instance["nodes"][1]["devices"].pop()
    instance["nodes"][0]["devices"].pop()
    built, root = waiting(instance)
    attempts = (decide(built.state, root, SearchBudget(steps=2)) for _ in range(200))
    assert any(isinstance(it, Refusal) and not it.timed_out for it in attempts)


def test_another_state_begins_the_walk_anew() -> None:
    built, root = waiting(with_victim())
    assert isinstance(decide(built.state, root, SearchBudget(steps=1)), Refusal)
    memory = built.state.searches.take(root.key)
    assert memory.cursor
    memory.begin("the same", "other nodes")
    assert (memory.cursor, memory.walked) == ((), 0)
