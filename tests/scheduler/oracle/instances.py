"""Random small clusters and trees of groups, for both the scheduler and the exact solver."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

RESOURCES: Final = ("cpu", "example.com/gpu", "memory")
ROOT: Final = "root"
PREEMPTOR: Final = 9
"""The tree's priority."""
APPS: Final = ("a", "b")

Amounts = tuple[int, ...]
"""Amounts of RESOURCES, or of the first of them that the instance uses."""


@dataclass(frozen=True, slots=True)
class Node:
    allocatable: Amounts
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tree:
    """A group with its pods' requests, or a composite with children.

    `minimum` counts one or the other. Its pods must run on nodes with one value of the label `key`;
    with `preferred` only if possible. No two pods of an `apart` group may run on one node. With
    `spread`, the numbers of a group's pods on nodes with a value of that label differ by 1 at most.
    """

    name: str
    minimum: int
    pods: tuple[Amounts, ...] = ()
    children: tuple[Tree, ...] = ()
    key: str | None = None
    preferred: bool = False
    apart: bool = False
    spread: str | None = None

    def __iter__(self) -> Iterator[Tree]:
        """Yield the tree itself and all below."""
        yield self
        for child in self.children:
            yield from child

    def leaves(self) -> list[Tree]:
        return [tree for tree in self if not tree.children]


@dataclass(frozen=True, slots=True)
class RunningPod:
    node: int
    requests: Amounts
    app: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """A running group; `whole` if it can only be evicted as one.

    With several `parts` it is a composite, whose pods are distributed to that many groups.
    """

    priority: int
    whole: bool
    pods: tuple[RunningPod, ...]
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance; `budgets` are the allowed disruptions of each app."""

    nodes: tuple[Node, ...]
    tree: Tree
    running: tuple[Running, ...] = ()
    budgets: Mapping[str, int] = field(default_factory=dict)


def tight_instance(seed: int, number: int) -> Instance:
    """Draw up to 4 levels, 12 leaves, 8 nodes, 3 resources, with little spare capacity."""
    rng = random.Random(f"{seed}/{number}")
    sizes = [(rng.randint(1, 4), rng.choice((0, 0, 1, 2)), rng.randint(1, 4)) for _ in range(4)]
    tree = _tree(rng, rng.randint(1, 4), rng.randint(1, 12), sizes)
    count = rng.randint(2, 8)
    need = [sum(amounts) for amounts in zip(*_first_to_meet_minimums(tree), strict=True)]
    slack = rng.uniform(1.0, 1.6)
    nodes: list[list[int]] = [[0] * len(need) for _ in range(count)]
    for resource, total in enumerate(need):
        for _ in range(round(total * slack)):
            nodes[rng.randrange(count)][resource] += 1
    return Instance(tuple(Node(tuple(node)) for node in nodes), tree)


def topology_instance(seed: int) -> Instance:
    """Draw two or three levels, uneven domains, mixed sizes; some nodes are partly full."""
    rng = random.Random(seed)
    nodes = _nodes(rng, blocks=rng.randint(2, 3), racks=rng.randint(2, 3), most=3)
    three = rng.random() < 0.5
    children = _leaves(rng, rng.randint(1, 4), ["rack", "rack", None])
    minimum = rng.randint(max(1, len(children) - 1), len(children))
    key = "block" if three or rng.random() < 0.7 else None
    tree = Tree(ROOT, minimum, children=children, key=key)
    if three:
        tree = Tree(ROOT, 1, children=(replace(tree, name="tree"),), key="zone")
    return Instance(nodes, tree)


def preference_instance(seed: int) -> Instance:
    """Draw one leaf of up to eight pods, mostly of one size, that prefers one of six racks."""
    rng = random.Random(seed)
    nodes = tuple(
        replace(node, labels={"rack": f"r{rng.randrange(6)}"})
        for node in topology_instance(seed).nodes
    )
    size, count = rng.randint(1, 3), rng.randint(2, 8)
    mixed = rng.random() < 0.3
    pods = tuple((rng.randint(1, 3) if mixed else size,) for _ in range(count))
    return Instance(nodes, Tree(ROOT, count, pods, key="rack", preferred=True))


def one_zone_instance(seed: int) -> Instance:
    """Draw a tree of leaves with a choice of pods; all of its pods must be in one small zone."""
    rng = random.Random(f"one zone {seed}")
    nodes = [
        Node((rng.randint(1, 6),), {"zone": f"z{zone}"})
        for zone in range(rng.randint(2, 4))
        for _ in range(rng.randint(1, 3))
    ]
    leaves = []
    for number in range(rng.randint(2, 4)):
        pods = _pods(rng, 3)
        leaves.append(Tree(f"c{number}", rng.randint(max(1, len(pods) - 1), len(pods)), pods))
    minimum = rng.randint(max(1, len(leaves) - 1), len(leaves))
    return Instance(tuple(nodes), Tree(ROOT, minimum, children=tuple(leaves), key="zone"))


def crossed_instance(seed: int) -> Instance:
    """Draw leaves with a rule each, whose pods request cpu, devices and disks; little is spare.

    The amounts of a node and a pod are cpu, devices that a driver publishes, and disks that the
    node can attach.
    """
    rng = random.Random(f"crossed {seed}")
    leaves = []
    for number in range(rng.randint(1, 3)):
        sizes = [(rng.randint(1, 3), rng.choice((0, 0, 1, 2)), rng.choice((0, 0, 1)))]
        if rng.random() < 0.5:
            sizes.append((rng.randint(1, 3), sizes[0][1], rng.choice((0, 1))))
        pods = tuple(rng.choice(sizes) for _ in range(rng.randint(2, 6)))
        leaf = Tree(f"c{number}", len(pods), pods)
        rule = rng.choice(("apart", "spread", "rack", "block", "some", ""))
        if rule == "some":
            leaf = replace(leaf, minimum=rng.randint(1, len(pods)))
        elif rule in ("rack", "block"):
            leaf = replace(leaf, key=rule)
        else:
            spread = rng.choice(("rack", "block")) if rule == "spread" else None
            leaf = replace(leaf, apart=rule == "apart", spread=spread)
        leaves.append(leaf)
    tree = Tree(ROOT, len(leaves), children=tuple(leaves), key=rng.choice((None, None, "block")))
    need = [sum(each) for each in zip(*_first_to_meet_minimums(tree), strict=True)]
    racks = [(block, rack) for block in range(rng.randint(1, 2)) for rack in range(2)]
    nodes = [
        ({"block": f"b{block}", "rack": f"b{block}r{rack}"}, [0, 0, 0])
        for block, rack in racks
        for _ in range(rng.randint(1, 3))
    ]
    slack = rng.uniform(1.0, 1.5) * (1 + (tree.key is not None))
    for resource, total in enumerate(need):
        for _ in range(round(total * slack)):
            rng.choice(nodes)[1][resource] += 1
    return Instance(tuple(Node(tuple(amounts), labels) for labels, amounts in nodes), tree)


def preemption_instance(seed: int) -> Instance:
    """Draw a cluster that is mostly full of groups of lower, equal and higher priority."""
    rng = random.Random(seed)
    nodes = _nodes(rng, blocks=2, racks=2, most=3)
    free = [cpu for node in nodes for cpu in node.allocatable]
    running = []
    for _ in range(rng.randint(4, 10)):
        pods = []
        for _ in range(rng.randint(1, 4)):
            size = rng.randint(1, 3)
            open_nodes = [i for i, room in enumerate(free) if room >= size]
            if open_nodes:
                at = rng.choice(open_nodes)
                free[at] -= size
                pods.append(RunningPod(at, (size,), rng.choice([*APPS, "", "", ""])))
        if pods:
            priority = rng.choice([0, 0, 1, 1, 2, 3, PREEMPTOR])
            running.append(Running(priority, rng.random() < 0.5, tuple(pods)))
    if rng.random() < 0.6:
        tree = Tree(ROOT, 1, children=_leaves(rng, 1, [None, "rack", "block"]))
    else:
        children = _leaves(rng, rng.randint(2, 3), ["rack", None], most=3)
        tree = Tree(ROOT, len(children), children=children, key=rng.choice([None, "block"]))
    budgets = {app: rng.randint(0, 2) for app in APPS if rng.random() < 0.6}
    return Instance(nodes, tree, tuple(running), budgets)


def _tree(rng: random.Random, depth: int, leaves: int, sizes: Sequence[Amounts]) -> Tree:
    serial = iter(range(100))

    def grow(name: str, depth: int, leaves: int) -> Tree:
        if depth == 1 or leaves == 1:
            kinds = rng.sample(sizes, rng.choice((1, 1, 2)))
            pods = tuple(rng.choice(kinds) for _ in range(rng.randint(1, 6)))
            return Tree(name, rng.randint(max(1, len(pods) - 2), len(pods)), pods)
        count = rng.randint(2, min(4, leaves))
        shares = [leaves // count + (at < leaves % count) for at in range(count)]
        children = tuple(grow(f"g{next(serial):02}", depth - 1, share) for share in shares)
        minimum = count if rng.random() < 0.6 else rng.randint(1, count)
        return Tree(name, minimum, children=children)

    return grow(ROOT, depth, leaves)


def _first_to_meet_minimums(tree: Tree) -> list[Amounts]:
    """Return enough pods for the tree: the first ones of the first children."""
    if not tree.children:
        return list(tree.pods[: tree.minimum])
    first = tree.children[: tree.minimum]
    return [pod for child in first for pod in _first_to_meet_minimums(child)]


def _leaves(
    rng: random.Random, count: int, keys: Sequence[str | None], most: int = 5
) -> tuple[Tree, ...]:
    """Draw groups that need all of their pods."""
    leaves = []
    for number in range(count):
        pods = _pods(rng, most)
        leaves.append(Tree(f"c{number}", len(pods), pods, key=rng.choice(keys)))
    return tuple(leaves)


def _pods(rng: random.Random, most: int) -> tuple[Amounts, ...]:
    """Draw mostly equal pods, sometimes mixed ones."""
    count, size = rng.randint(1, most), rng.randint(1, 3)
    if rng.random() < 0.7:
        return ((size,),) * count
    return tuple((rng.randint(1, 3),) for _ in range(count))


def _nodes(rng: random.Random, *, blocks: int, racks: int, most: int) -> tuple[Node, ...]:
    """Draw nodes; racks of the same names under different blocks are different racks."""
    nodes = []
    for block in range(blocks):
        zone = f"z{block // 2}"
        for rack in range(racks):
            for _ in range(rng.randint(1, most)):
                labels = {"zone": zone, "block": f"b{block}", "rack": f"r{rack}"}
                if rng.random() < 0.05:
                    del labels["rack"]
                nodes.append(Node((rng.randint(1, 6),), labels))
    return tuple(nodes)
