"""Random small clusters: a plan is found where one exists, and everything fits afterwards.

The reference decides each set of gangs by the exact solver: the root and the gangs of the set as
one tree; all of its pods need a node.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import pytest

from scheduler.core.defragmentation.movable import MoveLimits
from scheduler.core.defragmentation.plan import MovePlan
from scheduler.core.search.place import Placement, SearchBudget, place
from scheduler.core.values.model import POD_GROUP, HostPort
from tests.scheduler.move_builder import MoveBuilder
from tests.scheduler.oracle.instances import (
    PREEMPTOR,
    ROOT,
    Instance,
    Node,
    Running,
    RunningPod,
    Tree,
)
from tests.scheduler.oracle.solver import ExactSolver

GANGS = 2


@dataclass(frozen=True)
class Gang:
    """A running gang: the node of each pod, of equal pods; all in one domain of `key`.

    The pods of one that is `apart` use one host port, so they need a node each.
    """

    nodes: tuple[int, ...]
    cpu: int
    key: str | None
    movable: bool
    apart: bool

    def tree(self, name: str) -> Tree:
        pods = ((self.cpu,),) * len(self.nodes)
        return Tree(name, len(pods), pods, key=self.key, apart=self.apart)

    def running(self) -> Running:
        pods = tuple(RunningPod(node, (self.cpu,)) for node in self.nodes)
        return Running(PREEMPTOR, True, pods)


@dataclass(frozen=True)
class Cluster:
    nodes: tuple[Node, ...]
    gangs: tuple[Gang, ...]
    root: Tree

    def feasible(self, moved: tuple[int, ...]) -> bool:
        """Return True if the root and these gangs fit next to all others."""
        again = [self.gangs[at].tree(f"g{at}") for at in moved]
        tree = Tree("all", 1 + len(again), children=(self.root, *again))
        stays = [gang.running() for at, gang in enumerate(self.gangs) if at not in moved]
        return ExactSolver(Instance(self.nodes, tree, tuple(stays))).feasible()

    def fewest(self) -> int | None:
        """Return the fewest gangs to move; None if no set within the limit helps."""
        movable = [at for at, gang in enumerate(self.gangs) if gang.movable]
        for number in range(1, GANGS + 1):
            if any(map(self.feasible, combinations(movable, number))):
                return number
        return None


def cluster(seed: int) -> Cluster:
    """Draw two or three racks in use, and a root that asks for less than what is free in all."""
    rng = random.Random(f"moves {seed}")
    nodes = tuple(
        Node((rng.randint(2, 5),), {"rack": f"r{rack}"})
        for rack in range(rng.randint(2, 3))
        for _ in range(rng.randint(1, 2))
    )
    free = [node.allocatable[0] for node in nodes]
    gangs = tuple(filter(None, (_gang(rng, nodes, free) for _ in range(rng.randint(2, 5)))))
    size = rng.randint(1, 4)
    count = max(1, min(4, sum(free) // size))
    root = Tree(ROOT, count, ((size,),) * count, key=rng.choice(("rack", "rack", None)))
    return Cluster(nodes, gangs, root)


def _gang(rng: random.Random, nodes: tuple[Node, ...], free: list[int]) -> Gang | None:
    cpu, key = rng.randint(1, 2), rng.choice(("rack", None, None))
    rack = rng.choice(nodes).labels["rack"] if key else None
    chosen = []
    for _ in range(rng.randint(1, 3)):
        able = [
            at
            for at, node in enumerate(nodes)
            if free[at] >= cpu and rack in (None, node.labels["rack"])
        ]
        if able:
            chosen.append(rng.choice(able))
            free[chosen[-1]] -= cpu
    apart = len(set(chosen)) == len(chosen) and rng.random() < 0.5
    return Gang(tuple(chosen), cpu, key, rng.random() < 0.8, apart) if chosen else None


def build(drawn: Cluster) -> MoveBuilder:
    builder = MoveBuilder()
    for at, node in enumerate(drawn.nodes):
        builder.node(f"n{at}", node.allocatable[0], labels=node.labels)
    for at, gang in enumerate(drawn.gangs):
        names = [f"n{node}" for node in gang.nodes]
        infos = builder.movable(f"g{at}", *names, cpu=gang.cpu, topology=gang.key)
        for info in infos if gang.apart else ():
            wants = replace(info.requirements, ports=(HostPort("TCP", 1000 + at),))
            builder.state.set_pod(replace(info, requirements=wants))
        if not gang.movable:
            builder.change((POD_GROUP, "ns", f"g{at}"), movable=None)
    builder.group(ROOT, drawn.root.minimum, topology=drawn.root.key)
    builder.waits(ROOT, len(drawn.root.pods), cpu=drawn.root.pods[0][0])
    return builder


def waiting(seeds: int) -> Iterator[tuple[int, Cluster, MoveBuilder]]:
    """Yield the clusters in which the root does not fit."""
    for seed in range(seeds):
        drawn = cluster(seed)
        builder = build(drawn)
        if not isinstance(place(builder.state, builder.root(ROOT), SearchBudget()), Placement):
            yield seed, drawn, builder


def carry_out(builder: MoveBuilder, plan: MovePlan) -> None:
    """Move the pods and bind the root as the plan says; nothing is overcommitted then."""
    state, where = builder.state, builder.targets(plan)
    names = {pod.info.name: pod.info for pod in state.pods.values()}
    for info in [names[name] for name in where]:
        state.remove_pod(info.uid)
    for info in [names[name] for name in where]:
        state.set_pod(replace(info, node=where[info.name], phase="Running"))
    assert (state.nodes.free[:, : state.nodes.size] >= 0).all()
    for group in state.forest.groups.values():
        rows = {pod.row for pod in group.members.values()}
        labels = [state.nodes.infos[row].labels["rack"] for row in rows]  # type: ignore[union-attr]
        assert group.topology is None or len(set(labels)) == 1


@pytest.mark.timeout(1800)
def test_a_plan_is_found_where_one_exists(long: bool) -> None:
    found = Counter[str]()
    for seed, drawn, builder in waiting(1000 if long else 150):
        free = builder.state.nodes.free.copy()
        plan, fewest = builder.defragment(ROOT, MoveLimits(GANGS)), drawn.fewest()
        assert (builder.state.nodes.free == free).all(), seed
        if not isinstance(plan, MovePlan):
            found["none" if fewest is None else "missed"] += 1
            assert plan.why != "limit", seed
            continue
        moved = tuple(sorted(int(mover.root.name[1:]) for mover in plan.moves))
        assert drawn.feasible(moved), seed
        assert all(drawn.gangs[at].movable for at in moved), seed
        assert all(len(pairs) == len(mover.pods) for mover, pairs in plan.moves.items()), seed
        found["fewest" if len(moved) == fewest else "more"] += 1
        carry_out(builder, plan)

    assert found["fewest"] > found.total() // 5, found
    assert found["none"] > found.total() // 5, found
    # `place` takes the nodes for the root first, and may take those that a gang needs.
    assert found["missed"] + found["more"] <= max(1, found["fewest"] // 20), found
