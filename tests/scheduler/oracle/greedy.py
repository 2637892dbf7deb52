"""The greedy rule of KEP-6012: children in order, each pod on the freest node, no backtracking."""

from tests.scheduler.oracle.instances import Amounts, Instance, Tree


def greedily_placed(instance: Instance) -> bool:
    """Return True if the rule places the tree; it ignores domains and evicts no pod."""
    return _greedy(instance.tree, [list(node.allocatable) for node in instance.nodes])


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
