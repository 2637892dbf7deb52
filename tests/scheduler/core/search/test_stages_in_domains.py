"""Pods with a stage in a preferred domain: no node gets more pods than fit."""

from collections import Counter

import numpy as np
import pytest

from scheduler.core.values.model import Requirements, Stage
from tests.scheduler.state_builder import StateBuilder, requests


def staged(racks: list[str], cpus: list[int], pods: int) -> tuple[StateBuilder, int]:
    """Create a gang of one stage that prefers one rack; also return the slots of all nodes."""
    builder = StateBuilder()
    for number, (rack, cpu) in enumerate(zip(racks, cpus, strict=True)):
        builder.node(f"n{number}", cpu, labels={"rack": rack})
    builder.gang("g", pods, prefer_rack=True)
    for _ in range(pods):
        builder.pod("g", requirements=Requirements(requests(1), stage=Stage(1)))
    list(builder.state.catch_up())
    return builder, sum(cpus)


@pytest.mark.parametrize(
    ("racks", "cpus", "pods"),
    [(["r1", "r0", "r0", "r1"], [3, 1, 2, 1], 5), (["r1", "r0"], [3, 1], 4)],
)
def test_domains_are_not_in_the_order_of_their_nodes(
    racks: list[str], cpus: list[int], pods: int
) -> None:
    builder, _ = staged(racks, cpus, pods)

    used = Counter(builder.where(builder.place("g")).values())

    assert sum(used.values()) == pods
    assert all(count <= cpus[int(node[1:])] for node, count in used.items())


def test_several_domains_together_are_in_the_order_of_their_nodes() -> None:
    builder, _ = staged(["r1", "r0", "r2", "r0", "r1"], [1] * 5, 2)
    domains = builder.state.topologies.domains("rack")
    one, zero = domains.values.index("r1"), domains.values.index("r0")

    every = domains.union([one, zero], None)

    assert every.tolist() == [0, 1, 3, 4]
    assert domains.union([one, zero], domains.union([zero, 2], None)).tolist() == [1, 3]
    assert domains.union([], None).tolist() == []
    assert np.array_equal(domains.rows(zero, every), [1, 3])
