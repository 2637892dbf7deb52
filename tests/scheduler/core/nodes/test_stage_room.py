"""The capacity that stages of a tree share, compared with the rule."""

from collections import Counter
from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.nodes.node_table import Load, NodeTable
from scheduler.core.nodes.resource_table import LARGEST
from scheduler.core.values.model import NodeInfo, Stage
from tools.testing.effort import examples

TREES = (("PodGroup", "ns", "a"), ("PodGroup", "ns", "b"))
OFFERED = {"cpu": 12, "gpu": 8, "pods": 10}
NAMES = tuple(OFFERED)

Requests = tuple[tuple[str, int], ...]
Change = tuple[int, int, Stage | None, Requests]
"""Row, number of added pods, their stage, and the requests of each."""

STAGED = st.builds(Stage, st.integers(1, 3), st.booleans(), st.sampled_from(TREES))
STAGES = st.one_of(st.none(), STAGED)
REQUESTS = st.sampled_from(
    [
        (("cpu", 1),),
        (("cpu", 3), ("gpu", 1)),
        (("gpu", 4),),
        (),
        (("other", 2),),
        (("cpu", LARGEST),),
    ]
)
CHANGES = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3), STAGES, REQUESTS), max_size=12)


def table() -> NodeTable:
    nodes = NodeTable()
    for name in ("n0", "n1"):
        nodes.set_node(NodeInfo(name, allocatable=OFFERED))
    return nodes


def load(nodes: NodeTable, stage: Stage | None, requests: Requests) -> Load:
    return Load(nodes.resources.request(requests), stage=stage)


def free(nodes: NodeTable, row: int) -> dict[str, int]:
    return {name: int(nodes.free[nodes.resources.indices[name], row]) for name in NAMES}


def by_rule(pods: list[tuple[Stage | None, Requests]]) -> dict[str, int]:
    """Return the free resources: minus all existing pods, and each tree's largest future stage."""
    left = dict(OFFERED)
    for name in NAMES:
        amounts = [(stage, dict((*requests, ("pods", 1))).get(name, 0)) for stage, requests in pods]
        left[name] -= sum(amount for stage, amount in amounts if stage is None or stage.exists)
        for tree in TREES:
            mine = [(stage, amount) for stage, amount in amounts if stage and stage.tree == tree]
            numbers = {stage.number for stage, _ in mine}
            to_come = (
                sum(amount for stage, amount in mine if not stage.exists and stage.number == each)
                - sum(amount for stage, amount in mine if stage.exists and stage.number != each)
                for each in numbers
            )
            left[name] -= min(max(0, 0, *to_come), LARGEST + 1) if numbers else 0
    return left


def applied(nodes: NodeTable, changes: list[Change]) -> list[list[tuple[Stage | None, Requests]]]:
    """Apply the changes; return the pods of each node."""
    pods: list[list[tuple[Stage | None, Requests]]] = [[], []]
    for row, count, stage, requests in changes:
        nodes.take(np.array([row]), np.array([count]), load(nodes, stage, requests))
        pods[row] += [(stage, requests)] * count
    return pods


@given(CHANGES)
def test_a_tree_takes_what_its_largest_stage_needs(changes: list[Change]) -> None:
    nodes = table()
    pods = applied(nodes, changes)
    assert [free(nodes, row) for row in (0, 1)] == [by_rule(each) for each in pods]


@given(CHANGES, CHANGES)
def test_what_a_trial_takes_is_undone_exactly(before: list[Change], inside: list[Change]) -> None:
    nodes = table()
    applied(nodes, before)
    amounts = nodes.free.copy()
    with nodes.trial():
        applied(nodes, inside)
    assert (nodes.free == amounts).all()
    with nodes.trial() as kept:
        applied(nodes, inside)
        kept.keep()
    again = table()
    applied(again, [*before, *inside])
    assert (nodes.free == again.free).all()


@given(CHANGES, st.permutations(range(12)))
def test_the_order_of_comings_and_goings_is_no_matter(
    changes: list[Change], order: list[int]
) -> None:
    nodes = table()
    applied(nodes, changes)
    for index in order:
        if index < len(changes):
            row, count, stage, requests = changes[index]
            nodes.take_one(row, load(nodes, stage, requests), -count)
    assert free(nodes, 0) == free(nodes, 1) == OFFERED
    assert not list(nodes.stages.held())
    assert not any(len(nodes.stages.rows(tree)) for tree in TREES)


@examples(100, 500)
@given(
    CHANGES, st.builds(Stage, st.integers(1, 3), st.booleans(), st.sampled_from(TREES)), REQUESTS
)
def test_as_many_more_fit_as_leave_nothing_overcommitted(
    changes: list[Change], stage: Stage, requests: Requests
) -> None:
    nodes = table()
    pods = applied(nodes, changes)[0]
    if 0 not in nodes.stages.rows(stage.tree):
        return
    wanted = [name for name in NAMES if name == "pods" or dict(requests).get(name)]

    def fits(count: int, limit: Callable[[str], int]) -> bool:
        left = by_rule([*pods, *[(stage, requests)] * count])
        return all(left[name] >= limit(name) for name in wanted)

    request = load(nodes, stage, requests).request
    most = sum(fits(count, lambda _: 0) for count in range(1, 15))
    if fits(0, lambda _: 0):
        assert max(0, min(14, nodes.stages.slots(0, request, stage))) == most
    every = (requests, *(change[3] for change in changes))
    huge = any(amount == LARGEST for each in every for _, amount in each)
    if not (stage.exists or huge or "other" in dict(requests)):
        now = by_rule(pods)
        same = sum(fits(count, lambda name: now[name]) for count in range(1, 15))
        assert max(0, min(14, nodes.stages.shared_slots(0, request, stage))) == same


def test_a_node_that_goes_takes_its_share_along() -> None:
    nodes = table()
    stage = Stage(1, exists=False, tree=TREES[0])
    nodes.take_one(0, load(nodes, stage, (("cpu", 2),)))
    nodes.remove_node("n0")
    assert not len(nodes.stages.rows(TREES[0]))
    row = nodes.set_node(NodeInfo("n2", allocatable=OFFERED))
    assert free(nodes, row) == OFFERED


def test_counting_a_node_anew_gives_the_same() -> None:
    nodes = table()
    loads = [
        load(nodes, Stage(number, exists=exists, tree=TREES[0]), (("cpu", amount),))
        for number, exists, amount in ((1, True, 2), (2, False, 5), (3, False, 4))
    ]
    for each in loads:
        nodes.take_one(0, each)
    before = Counter(free(nodes, 0))
    nodes.recount(0, loads)
    assert free(nodes, 0) == before
    assert before["cpu"] == 12 - 5
