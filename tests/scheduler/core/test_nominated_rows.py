"""A decision on a pod's nominated nodes reads only the nominations there."""

import random
from typing import Any

import pytest

from scheduler.core.decide import decide
from scheduler.core.framework.framework import Framework
from scheduler.core.groups.forest import Pod
from scheduler.core.nodes.node_table import NodeTable
from scheduler.core.search.place import Placement, SearchBudget
from scheduler.core.values.model import SINGLE_POD
from tests.scheduler.state_builder import StateBuilder
from tools.testing.effort import count


def waits(builder: StateBuilder, name: str, cpu: int, priority: int) -> Pod:
    info = builder.pod(name=name, cpu=cpu, priority=priority)
    return builder.state.singles[SINGLE_POD, "ns", info.name]


@pytest.mark.parametrize("nodes", [20, 200])
def test_its_cost_does_not_grow_with_what_is_nominated_elsewhere(
    monkeypatch: pytest.MonkeyPatch, nodes: int
) -> None:
    builder = StateBuilder()
    builder.nodes(nodes, cpu=4)
    pods = [waits(builder, f"p{number}", 4, 5) for number in range(nodes)]
    for number, pod in enumerate(pods):
        builder.nominate(pod, f"n{number}")
    taken: list[int] = []
    take = NodeTable.take

    def counted(self: NodeTable, rows: Any, *others: Any) -> None:
        taken.append(len(rows))
        take(self, rows, *others)

    monkeypatch.setattr(NodeTable, "take", counted)

    decision = decide(builder.state, pods[7], SearchBudget())

    assert isinstance(decision, Placement)
    assert builder.where(decision) == {"p7": "n7"}
    assert sum(taken) == 1


def test_decisions_are_the_same_as_with_all_nominated_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(11)
    placed, clusters = 0, count(60, 300)
    for _ in range(clusters):
        builder = StateBuilder()
        builder.nodes(5, cpu=4)
        for number in range(rng.randint(0, 8)):
            node, cpu = f"n{rng.randrange(5)}", rng.randint(1, 3)
            builder.pod(name=f"runs{number}", node=node, cpu=cpu)
        pods = [waits(builder, f"p{n}", rng.randint(1, 4), rng.randint(0, 2)) for n in range(8)]
        for pod in pods:
            if rng.random() < 0.7:
                builder.nominate(pod, f"n{rng.randrange(5)}")
        for pod in pods:
            found = decide(builder.state, pod, SearchBudget())
            with monkeypatch.context() as patched:
                patched.setattr(Framework, "alone", lambda _self, _shape: False)
                known = decide(builder.state, pod, SearchBudget())
            assert found == known
            placed += isinstance(found, Placement)
    assert placed > clusters
