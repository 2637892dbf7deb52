"""Random full clusters in which a tree fits only after evictions.

They are harder than `preemption_instance`: trees of up to three levels with topology keys at each,
minimums below the number of pods, and pods of unequal size in up to two resources. Running groups
and trees are evicted pod by pod or as one; there are disruption budgets.
"""

import random
from collections.abc import Iterator

from tests.scheduler.oracle.instances import (
    APPS,
    PREEMPTOR,
    ROOT,
    Amounts,
    Instance,
    Node,
    Running,
    RunningPod,
    Tree,
)

MOST_NODES = 12


def eviction_instance(seed: int) -> Instance:
    """Draw up to 12 nodes, three to eight running groups, and a tree of one to three levels."""
    rng = random.Random(f"evictions/{seed}")
    resources = rng.choice((1, 1, 2))
    nodes = _nodes(rng, resources)
    running = _running(rng, nodes, resources)
    names = (f"g{number}" for number in range(100))
    depth = rng.choice((1, 2, 2, 3))
    tree = _tree(rng, ROOT, depth, [None, "zone", "block", "rack"], resources, names)
    budgets = {app: rng.randint(0, 2) for app in APPS if rng.random() < 0.5}
    return Instance(nodes, tree, running, budgets)


def _nodes(rng: random.Random, resources: int) -> tuple[Node, ...]:
    """Draw zones of blocks of racks, all of uneven size; few nodes lack a label."""
    nodes = []
    for number in range(rng.randint(4, MOST_NODES)):
        block = number // rng.choice((3, 4))
        labels = {"zone": f"z{block // 2}", "block": f"b{block}", "rack": f"b{block}r{number % 2}"}
        if rng.random() < 0.05:
            del labels[rng.choice(["zone", "block", "rack"])]
        cpu = rng.randint(3, 8)
        nodes.append(Node((cpu, rng.randint(0, 4))[:resources], labels))
    return tuple(nodes)


def _running(rng: random.Random, nodes: tuple[Node, ...], resources: int) -> tuple[Running, ...]:
    free = [list(node.allocatable) for node in nodes]
    running = []
    for _ in range(rng.randint(3, 8)):
        pods = []
        size = _size(rng, resources)
        mixed = rng.random() < 0.4
        for _ in range(rng.randint(1, 6)):
            asked = _size(rng, resources) if mixed else size
            room = [
                at
                for at, left in enumerate(free)
                if all(a <= b for a, b in zip(asked, left, strict=True))
            ]
            if room:
                at = rng.choice(room)
                free[at] = [b - a for a, b in zip(asked, free[at], strict=True)]
                pods.append(RunningPod(at, asked, rng.choice([*APPS, "", ""])))
        if pods:
            priority = rng.choice([0, 0, 1, 1, 2, 3, 4, PREEMPTOR])
            parts = rng.choice((1, 1, 2, 3))
            running.append(Running(priority, rng.random() < 0.5, tuple(pods), parts))
    return tuple(running)


def _tree(
    rng: random.Random,
    name: str,
    depth: int,
    keys: list[str | None],
    resources: int,
    names: Iterator[str],
) -> Tree:
    """Draw a tree whose lower groups have keys of smaller domains."""
    at = rng.randrange(len(keys)) if rng.random() < 0.5 else 0
    key = keys[at]
    preferred = key is not None and rng.random() < 0.1
    if depth == 1:
        pods = _pods(rng, resources)
        minimum = rng.randint(max(1, len(pods) - 1), len(pods))
        return Tree(name, minimum, pods, key=key, preferred=preferred)
    below = [None, *keys[at + 1 :]] if at else keys
    children = tuple(
        _tree(rng, next(names), depth - 1, below, resources, names)
        for _ in range(rng.randint(1, 3))
    )
    minimum = rng.randint(max(1, len(children) - 1), len(children))
    return Tree(name, minimum, children=children, key=key, preferred=preferred)


def _pods(rng: random.Random, resources: int) -> tuple[Amounts, ...]:
    """Draw equal pods, or pods of two sizes."""
    sizes = [_size(rng, resources) for _ in range(rng.choice((1, 1, 2)))]
    return tuple(rng.choice(sizes) for _ in range(rng.randint(1, 4)))


def _size(rng: random.Random, resources: int) -> Amounts:
    return (rng.randint(1, 4), rng.choice((0, 0, 1, 2)))[:resources]
