"""All features at once: random instances and complete courses, with an independent check.

Each run draws new ones; it prints the seed, and shows a failure as a test of a few lines. For more:
`python -m tests.scheduler.crossings --help`.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.scheduler.crossings.checks import complaints, lasting, move_complaints
from tests.scheduler.crossings.cluster import Cluster
from tests.scheduler.crossings.draw import Instance
from tests.scheduler.crossings.play import play
from tests.scheduler.crossings.run import Totals, courses, instances
from tools.testing.effort import count

Run = Callable[[str, float, Totals], Iterator[str]]


@pytest.mark.parametrize(("run", "short", "full"), [(instances, 5, 100), (courses, 3, 60)])
def test_whatever_crosses_the_judge_finds_nothing(run: Run, short: int, full: int) -> None:
    seed, totals = str(time.time_ns()), Totals()
    sys.stdout.write(f"seed {seed}\n")
    failures = list(run(seed, count(short, full), totals))
    assert not failures, "\n".join(failures)
    assert totals.runs


@pytest.mark.long
def test_decisions_are_the_same_in_each_process() -> None:
    seed, runs = str(time.time_ns()), str(count(10, 60))
    command = [sys.executable, "-m", "tests.scheduler.crossings", "--seed", seed, "--digest", runs]
    found = {
        subprocess.run(
            command, env=os.environ | {"PYTHONHASHSEED": str(it)}, capture_output=True, check=True
        ).stdout
        for it in range(count(2, 3))
    }
    assert len(found) == 1, seed


HOST: Instance = {"nodes": [{"name": "n", "cpu": 2, "rack": "r", "devices": [{"name": "d"}]}]}
TWO: Instance = {
    "nodes": [{"name": "n", "cpu": 2, "rack": "r"}, {"name": "m", "cpu": 2, "rack": "s"}]
}

HOSTS: Instance = {"app": "a", "key": "host"}


def waiting(*pods: Instance, **group: Any) -> Instance:
    """Return pods p0, p1, ... of one group."""
    named = [{"name": f"p{at}", "cpu": 1, "group": "g", **pod} for at, pod in enumerate(pods)]
    return {"pods": named, "groups": [{"name": "g", "min": len(pods), **group}]}


@pytest.mark.parametrize(
    ("instance", "places", "more", "found"),
    [
        (HOST | waiting({"cpu": 3}), "n", {}, "n: 3 of 2 cpu"),
        (HOST | waiting({"port": 80}, {"port": 80}), "nn", {}, "n: port 80 of 2 pods"),
        (HOST | waiting({}, {}), "n", {}, "g has pods, and fewer than its minimum"),
        (TWO | waiting({}, {}, key="rack"), "nm", {}, "g requires one rack"),
        (TWO | waiting({"app": "a", "anti": [["a", "host"]]}, {"app": "a"}), "nn", {}, "keeps p1"),
        (TWO | waiting({"affinity": [["a", "host"]]}), "n", {}, "without a pod a"),
        (TWO | waiting(*[{"app": "a", "spread": [HOSTS]}] * 2), "nn", {}, "2 pods a in host n, 0"),
        (TWO | waiting({"rack": "s"}), "n", {}, "which its node selector excludes"),
        (HOST | waiting({"gated": True}), "n", {}, "p0 does not wait"),
        (
            HOST | waiting({"claims": ["a"]}, {"claims": ["b"]}) | {"claims": [
                {"name": "a", "owner": "p0"}, {"name": "b", "owner": "p1"}]},
            "nn",
            {"claims": {"a": [["n", "d", 0, 0]], "b": [["n", "d", 0, 0]]}},
            "n/d is given to ['a', 'b']",
        ),
        (
            HOST
            | waiting({"claims": ["a"]})
            | {"claims": [{"name": "a", "ask": {"size": "large"}}]},
            "n",
            {"claims": {"a": [["n", "d", 0, 0]]}},
            "claim a is given",
        ),
    ],
)  # fmt: skip
def test_the_judge_sees(instance: Instance, places: str, more: Instance, found: str) -> None:
    decided = [[f"p{at}", node] for at, node in enumerate(places)]
    decision = {"root": "g", "kind": "PodGroup", "places": decided, **more}
    assert any(found in each for each in complaints(Cluster(instance), decision))


def test_the_judge_sees_that_pods_come_one_after_the_other() -> None:
    pair: Instance = {"app": "a", "affinity": [["a", "host"]]}
    decision = {"root": "g", "kind": "PodGroup", "places": [["p0", "n"], ["p1", "n"]]}
    instance = TWO | waiting(pair, pair)
    assert complaints(Cluster(instance), decision) == []
    instance["pods"].append({"name": "old", "app": "a", "cpu": 1, "node": "m"})
    found = complaints(Cluster(instance), decision)
    assert found == [f"{it} is in host n without a pod a, which it needs" for it in ("p0", "p1")]
    instance["pods"][0] |= {"affinity": []}
    assert complaints(Cluster(instance), decision) == []


def test_the_judge_sees_needless_and_forbidden_victims() -> None:
    instance = HOST | waiting({}, priority=5)
    instance["pods"] += [{"name": "old", "cpu": 1, "node": "n"}]
    decision = {"root": "g", "kind": "PodGroup", "places": [["p0", "n"]], "minimal": True}
    decision["victims"] = [["old"]]
    assert complaints(Cluster(instance), decision) == ["['old'] are evicted without effect"]
    instance["pods"][1] |= {"priority": 5, "cpu": 2}
    assert complaints(Cluster(instance), decision) == [
        "old is evicted, whose priority is not lower"
    ]


MOVED: Instance = {"cpu": 2, "group": "b", "made": True}


@pytest.mark.parametrize(
    ("pods", "places", "group", "found"),
    [
        ([MOVED | {"node": "n"}], "m", {"movable": True}, ""),
        ([MOVED | {"node": "n"}], "m", {}, "b is moved, but may not be moved"),
        ([MOVED | {"node": "n"}], "m", {"movable": True, "priority": 9}, "priority is higher"),
        ([MOVED | {"node": "n"}], "n", {"movable": True}, "b does not fit again: n: 4 of 2 cpu"),
        ([MOVED | {"node": "n"}] * 2, "m", {"movable": True}, "b is moved in part"),
        ([MOVED | {"node": "n", "made": False}], "m", {"movable": True}, "would not return"),
        ([MOVED | {"node": "n", "claims": ["c"]}], "m", {"movable": True}, "has claims"),
        ([MOVED | {"node": "m"}], "n", {"movable": True}, "once others have moved: n: 4 of 2 cpu"),
        ([MOVED | {"node": "n", "app": "a"}], "m", {"movable": True}, "the budget of a is"),
    ],
)
def test_the_judge_sees_wrong_moves(
    pods: list[Instance], places: str, group: Instance, found: str
) -> None:
    named = [it | {"name": f"old{at}"} for at, it in enumerate(pods)]
    instance = TWO | waiting({"cpu": 2}) | {"budgets": [{"app": "a", "allowed": 0}]}
    instance["pods"] += named
    instance["groups"] += [{"name": "b", "min": 1, **group}]
    if pods[0]["node"] == "m":
        instance["pods"] += [{"name": "full", "cpu": 2, "node": "n"}]
    root = {"root": "g", "kind": "PodGroup", "places": [["p0", "n"]]}
    move: Instance = {"root": "b", "kind": "PodGroup"}
    move["places"] = [[it["name"], node] for it, node in zip(named, places, strict=False)]
    complaints = move_complaints(Cluster(instance), root, [move])
    assert complaints == [] if not found else any(found in it for it in complaints), complaints


def test_the_judge_sees_needless_violations_of_budgets() -> None:
    instance = TWO | waiting({"cpu": 2}, priority=5) | {"budgets": [{"app": "a", "allowed": 0}]}
    olds = [{"name": it, "cpu": 2, "node": it} for it in "nm"]
    instance["pods"] += [olds[0] | {"app": "a"}, olds[1]]
    decision = {"root": "g", "kind": "PodGroup", "places": [["p0", "n"]], "minimal": True}
    decision["victims"] = [["n"]]
    (found,) = complaints(Cluster(instance), decision)
    assert found == "the budgets of ['a'] are violated, and p0 fits m without"


def test_the_judge_sees_what_courses_have_bound_to_a_full_node() -> None:
    pods = [{"name": name, "cpu": 1, "node": "n"} for name in ("p0", "p1", "old")]
    cluster = Cluster(HOST | {"pods": pods})
    assert lasting(cluster, {"p0", "p1"}) == ["n: 3 of 2 cpu"]
    assert lasting(cluster, set()) == []


def test_the_judge_lets_pods_go_where_their_terminating_peers_are_not() -> None:
    pods = [{"cpu": 1, "group": "g", "name": "p0", "node": "n"}]
    pods.append(pods[0] | {"name": "p1", "node": "m"})
    cluster = Cluster(TWO | {"pods": pods, "groups": [{"name": "g", "key": "rack"}]})
    assert lasting(cluster, {"p0", "p1"}) == [
        "g requires one rack, and is in [\"('r',)\", \"('s',)\"]"
    ]
    cluster.pods["p0"]["deleted"] = True
    assert lasting(cluster, {"p0", "p1"}) == []


def test_nobody_is_near_a_peer_that_is_nominated_only() -> None:
    instance: Instance = {
        "nodes": [{"name": "n0", "cpu": 4}, {"name": "n1", "cpu": 3}],
        "groups": [{"name": "g", "min": 2, "priority": 9}],
        "pods": [
            {"name": "old0", "cpu": 2, "node": "n0"},
            {"name": "old1", "cpu": 2, "node": "n1"},
            {"name": "web", "cpu": 3, "app": "b", "priority": 9},
            {"name": "g-0", "cpu": 1, "group": "g", "priority": 9, "affinity": [["b", "host"]]},
            {"name": "g-1", "cpu": 1, "group": "g", "priority": 9},
        ],
    }
    assert not play(instance)[0]


def test_children_that_are_packed_together_stay_with_those_of_theirs_that_run() -> None:
    """One of a child that requires a block runs on a node without a block."""
    group: Instance = {"priority": 9, "min": 2}
    instance: Instance = {
        "nodes": [{"name": "n1", "cpu": 12, "block": "b1"}, {"name": "n3", "cpu": 4}],
        "groups": [
            {"name": "g", "composite": True, "key": "block", "preferred": True, **group},
            {"name": "g.0", "parent": "g", **group},
            {"name": "g.1", "composite": True, "parent": "g", "key": "block", **group, "min": 1},
            {"name": "g.1.0", "parent": "g.1", **group},
        ],
        "pods": [
            {"name": "a", "cpu": 3, "group": "g.0", "priority": 9},
            {"name": "b", "cpu": 2, "group": "g.0", "priority": 9},
            {"name": "c", "cpu": 1, "group": "g.1.0", "priority": 9, "node": "n3"},
            {"name": "d", "cpu": 1, "group": "g.1.0", "priority": 9},
        ],
    }
    assert not play(instance)[0]
