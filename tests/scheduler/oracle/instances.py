"""Random small clusters, with the same instance for the scheduler and for the exact solver."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.scheduler.contest import Contest

PREEMPTOR = 9
APPS = ("a", "b")


@dataclass(frozen=True, slots=True)
class Node:
    cpu: int
    labels: tuple[tuple[str, str], ...]

    def label(self, key: str) -> str | None:
        return dict(self.labels).get(key)


@dataclass(frozen=True, slots=True)
class Running:
    """A group that runs: (node, cpu, app) of its pods; `whole` if it can only go as one."""

    priority: int
    whole: bool
    pods: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True)
class Child:
    """Pods by size that must run together, below nodes of one value of `key`."""

    sizes: tuple[int, ...]
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """`floor` of the children, all under one value of `key`, within one of the grandparent's."""

    children: tuple[Child, ...]
    minimum: int
    key: str | None = None
    above: str | None = None


@dataclass(frozen=True, slots=True)
class Instance:
    nodes: tuple[Node, ...]
    tree: Tree
    running: tuple[Running, ...] = ()
    budgets: dict[str, int] = field(default_factory=dict)


def topology_instance(seed: int) -> Instance:
    """Two or three levels, uneven domains, mixed sizes; some nodes are partly full."""
    chance = random.Random(seed)
    nodes = _nodes(chance, blocks=chance.randint(2, 3), racks=chance.randint(2, 3), most=3)
    three = chance.random() < 0.5
    children = tuple(
        Child(_sizes(chance), chance.choice(["rack", "rack", None]))
        for _ in range(chance.randint(1, 4))
    )
    minimum = chance.randint(max(1, len(children) - 1), len(children))
    key = "block" if three or chance.random() < 0.7 else None
    return Instance(nodes, Tree(children, minimum, key, "zone" if three else None))


def preemption_instance(seed: int) -> Instance:
    """A cluster that is mostly full of units of lower, equal and higher priority."""
    chance = random.Random(seed)
    nodes = _nodes(chance, blocks=2, racks=2, most=3)
    free = [node.cpu for node in nodes]
    running = []
    for _ in range(chance.randint(4, 10)):
        pods = []
        for _ in range(chance.randint(1, 4)):
            size = chance.randint(1, 3)
            open_nodes = [i for i, room in enumerate(free) if room >= size]
            if open_nodes:
                at = chance.choice(open_nodes)
                free[at] -= size
                pods.append((at, size, chance.choice([*APPS, "", "", ""])))
        if pods:
            priority = chance.choice([0, 0, 1, 1, 2, 3, PREEMPTOR])
            running.append(Running(priority, chance.random() < 0.5, tuple(pods)))
    kind = chance.random()
    if kind < 0.6:
        tree = Tree((Child(_sizes(chance), chance.choice([None, "rack", "block"])),), 1)
    else:
        children = tuple(
            Child(_sizes(chance, most=3), chance.choice(["rack", None]))
            for _ in range(chance.randint(2, 3))
        )
        tree = Tree(children, len(children), chance.choice([None, "block"]))
    budgets = {app: chance.randint(0, 2) for app in APPS if chance.random() < 0.6}
    return Instance(nodes, tree, tuple(running), budgets)


def build(instance: Instance) -> Contest:
    """The instance as the scheduler sees it. The preemptor's root is `top`."""
    world = Contest()
    for index, node in enumerate(instance.nodes):
        world.node(f"n{index}", node.cpu, labels=dict(node.labels))
    for index, group in enumerate(instance.running):
        name = f"r{index}"
        world.group(name, 1, priority=group.priority, mode="all" if group.whole else "single")
        for at, cpu, app in group.pods:
            labels = {"app": app} if app else {}
            world.runs(name, f"n{at}", cpu=cpu, priority=group.priority, **labels)
    for app, allowed in instance.budgets.items():
        world.budget(app, allowed, app=app)
    tree = instance.tree
    parent = None
    if tree.above:
        world.group("top", 1, priority=PREEMPTOR, composite=True, topology=tree.above)
        parent = "top"
    name = "tree" if parent else "top"
    world.group(
        name, tree.minimum, priority=PREEMPTOR, composite=True, parent=parent, topology=tree.key
    )
    for index, child in enumerate(tree.children):
        leaf = f"c{index}"
        world.group(leaf, len(child.sizes), priority=PREEMPTOR, parent=name, topology=child.key)
        for cpu in child.sizes:
            world.waits(leaf, cpu=cpu, priority=PREEMPTOR)
    return world


def _sizes(chance: random.Random, most: int = 5) -> tuple[int, ...]:
    """Mostly equal pods, sometimes mixed ones."""
    count, size = chance.randint(1, most), chance.randint(1, 3)
    if chance.random() < 0.7:
        return (size,) * count
    return tuple(chance.randint(1, 3) for _ in range(count))


def _nodes(chance: random.Random, *, blocks: int, racks: int, most: int) -> tuple[Node, ...]:
    """Racks of the same names under different blocks are different racks."""
    nodes = []
    for block in range(blocks):
        zone = f"z{block // 2}"
        for rack in range(racks):
            for _ in range(chance.randint(1, most)):
                labels = {"zone": zone, "block": f"b{block}", "rack": f"r{rack}"}
                if chance.random() < 0.05:
                    del labels["rack"]
                nodes.append(Node(chance.randint(1, 6), tuple(labels.items())))
    return tuple(nodes)
