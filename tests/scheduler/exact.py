"""Random tight instances, an exact answer by CP-SAT, and the greedy rule of KEP-6012 beside it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ortools.sat.python import cp_model

from scheduler.core.model import NodeInfo, Requirements
from scheduler.core.place import Placement, Refusal, SearchBudget
from tests.scheduler.world import World

RESOURCES: Final = ("cpu", "example.com/gpu", "memory")
ROOT: Final = "root"

Amounts = tuple[int, ...]


@dataclass
class Tree:
    """A leaf with pods by size, or a composite with children; `floor` counts one or the other."""

    name: str
    minimum: int
    pods: list[Amounts] = field(default_factory=list)
    children: list[Tree] = field(default_factory=list)

    def leaves(self) -> Iterator[Tree]:
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


@dataclass(frozen=True)
class Instance:
    nodes: list[Amounts]
    tree: Tree


def instance(seed: int, number: int) -> Instance:
    """The instance of that number: up to 4 levels, 12 leaves, 8 nodes, 3 resources."""
    dice = random.Random(f"{seed}/{number}")
    sizes = [(dice.randint(1, 4), dice.choice((0, 0, 1, 2)), dice.randint(1, 4)) for _ in range(4)]
    tree = _tree(dice, dice.randint(1, 4), dice.randint(1, 12), sizes)
    count = dice.randint(2, 8)
    need = [sum(amounts) for amounts in zip(*_floors(tree), strict=True)]
    slack = dice.uniform(1.0, 1.6)
    nodes: list[list[int]] = [[0] * len(need) for _ in range(count)]
    for resource, total in enumerate(need):
        for _ in range(round(total * slack)):
            nodes[dice.randrange(count)][resource] += 1
    return Instance([tuple(node) for node in nodes], tree)


def _tree(dice: random.Random, depth: int, leaves: int, sizes: Sequence[Amounts]) -> Tree:
    serial = iter(range(100))

    def grow(name: str, depth: int, leaves: int) -> Tree:
        if depth == 1 or leaves == 1:
            kinds = dice.sample(sizes, dice.choice((1, 1, 2)))
            pods = [dice.choice(kinds) for _ in range(dice.randint(1, 6))]
            return Tree(name, dice.randint(max(1, len(pods) - 2), len(pods)), pods=pods)
        children = dice.randint(2, min(4, leaves))
        shares = [leaves // children + (at < leaves % children) for at in range(children)]
        made = [grow(f"g{next(serial):02}", depth - 1, share) for share in shares]
        minimum = children if dice.random() < 0.6 else dice.randint(1, children)
        return Tree(name, minimum, children=made)

    return grow(ROOT, depth, leaves)


def _floors(tree: Tree) -> list[Amounts]:
    """Pods that make the tree stand if its first children do."""
    if not tree.children:
        return tree.pods[: tree.minimum]
    return [pod for child in tree.children[: tree.minimum] for pod in _floors(child)]


def solvable(problem: Instance) -> bool:
    """By CP-SAT, to the end."""
    model = cp_model.CpModel()
    loads: list[list[list[cp_model.LinearExpr]]] = [[[] for _ in RESOURCES] for _ in problem.nodes]
    model.add(_stands(model, problem, problem.tree, loads) == 1)
    for node, load in zip(problem.nodes, loads, strict=True):
        for amount, terms in zip(node, load, strict=True):
            model.add(sum(terms) <= amount)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    status = solver.solve(model)
    assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE)
    return status != cp_model.INFEASIBLE


def _stands(
    model: cp_model.CpModel,
    problem: Instance,
    tree: Tree,
    loads: list[list[list[cp_model.LinearExpr]]],
) -> cp_model.IntVar:
    stands = model.new_bool_var(tree.name)
    if tree.children:
        below = [_stands(model, problem, child, loads) for child in tree.children]
        model.add(sum(below) >= tree.minimum).only_enforce_if(stands)
        return stands
    placed = []
    for size, count in sorted(Counter(tree.pods).items()):
        here = [model.new_int_var(0, count, "") for _ in problem.nodes]
        model.add(sum(here) <= count)
        placed += here
        for node, pods in enumerate(here):
            for resource, amount in enumerate(size):
                loads[node][resource].append(amount * pods)
    model.add(sum(placed) >= tree.minimum).only_enforce_if(stands)
    return stands


def greedy(problem: Instance) -> bool:
    """KEP-6012's rule: children in order, every pod where most is free, no way back."""
    free = [list(node) for node in problem.nodes]
    return _greedy(problem.tree, free)


def _greedy(tree: Tree, free: list[list[int]]) -> bool:
    before = [list(node) for node in free]
    if tree.children:
        done = sum(_greedy(child, free) for child in tree.children)
    else:
        done = sum(_put(pod, free) for pod in tree.pods)
    if done >= tree.minimum:
        return True
    free[:] = before
    return False


def _put(pod: Amounts, free: list[list[int]]) -> bool:
    fitting = [node for node in free if all(f >= a for f, a in zip(node, pod, strict=True))]
    if not fitting:
        return False
    best = max(fitting, key=sum)
    for resource, amount in enumerate(pod):
        best[resource] -= amount
    return True


def muster(problem: Instance) -> Placement | Refusal:
    """The decision core's answer; what it places is checked pod by pod."""
    world = World()
    for index, amounts in enumerate(problem.nodes):
        world.state.set_node(NodeInfo(f"n{index}", {**_named(amounts), "pods": 110}))
    _build(world, problem.tree, None)
    budget = SearchBudget()
    decision = world.place(ROOT, composite=bool(problem.tree.children), budget=budget)
    if isinstance(decision, Placement):
        _check(problem, world.where(decision), world)
    return decision


def _named(amounts: Amounts) -> dict[str, int]:
    return dict(zip(RESOURCES, amounts, strict=True))


def _build(world: World, tree: Tree, parent: str | None) -> None:
    composite = bool(tree.children)
    world.gang(tree.name, tree.minimum, parent=parent, composite=composite, created=tree.name)
    for child in tree.children:
        _build(world, child, tree.name)
    for pod in tree.pods:
        amounts = sorted((name, amount) for name, amount in _named(pod).items() if amount)
        world.pod(tree.name, requirements=Requirements(tuple(amounts)))


def _check(problem: Instance, where: Mapping[str, str], world: World) -> None:
    used: Counter[tuple[str, str]] = Counter()
    members: Counter[str] = Counter()
    pods = {pod.info.name: pod.info for pod in world.state.pods.values()}
    for name, node in where.items():
        info = pods[name]
        members[info.group or ""] += 1
        for resource, amount in info.requirements.requests:
            used[node, resource] += amount
    for index, amounts in enumerate(problem.nodes):
        for resource, amount in _named(amounts).items():
            assert used[f"n{index}", resource] <= amount, (index, resource)
    assert _whole(problem.tree, members), members


def _whole(tree: Tree, members: Mapping[str, int]) -> bool:
    """It stands, and in it no leaf has less than its floor but more than nothing."""
    for leaf in tree.leaves():
        assert members[leaf.name] in (0, *range(leaf.minimum, len(leaf.pods) + 1)), leaf.name
    if not tree.children:
        return members[tree.name] >= tree.minimum
    return sum(_whole(child, members) for child in tree.children) >= tree.minimum
