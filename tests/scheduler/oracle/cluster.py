"""An instance as a scheduler's state, and the scheduler's result, checked."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import cycle

from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.state.search_memory import SearchMemory
from scheduler.core.values.model import NodeInfo
from tests.scheduler.oracle.instances import (
    PREEMPTOR,
    RESOURCES,
    ROOT,
    Amounts,
    Instance,
    Running,
    Tree,
)
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.scheduler.state_builder import GIB


def build(instance: Instance) -> PreemptionBuilder:
    """Return a state with nodes n0, n1, ... in the instance's order; cpu counts in cores."""
    builder = PreemptionBuilder()
    for index, node in enumerate(instance.nodes):
        allocatable = {"memory": 64 * GIB, "pods": 110, **_named(node.allocatable)}
        builder.state.set_node(NodeInfo(f"n{index}", allocatable, node.labels))
    for index, group in enumerate(instance.running):
        leaves = _add_running(builder, f"r{index}", group)
        for pod, leaf in zip(group.pods, cycle(leaves), strict=False):
            labels = {"app": pod.app} if pod.app else {}
            builder.runs(
                leaf,
                f"n{pod.node}",
                cpu=pod.requests[0],
                others=_others(pod.requests),
                priority=group.priority,
                **labels,
            )
    for app, allowed in instance.budgets.items():
        builder.budget(app, allowed, app=app)
    _add(builder, instance.tree, None)
    return builder


def _add_running(builder: PreemptionBuilder, name: str, group: Running) -> list[str]:
    """Add the running groups; return the names of those that have pods."""
    mode = "all" if group.whole else "single"
    if group.parts == 1:
        builder.group(name, 1, priority=group.priority, mode=mode)
        return [name]
    builder.group(name, 1, priority=group.priority, mode=mode, composite=True)
    leaves = [f"{name}.{part}" for part in range(group.parts)]
    for leaf in leaves:
        builder.group(leaf, 1, priority=group.priority, parent=name)
    return leaves


def _add(builder: PreemptionBuilder, tree: Tree, parent: str | None) -> None:
    builder.group(
        tree.name,
        tree.minimum,
        priority=PREEMPTOR,
        composite=bool(tree.children),
        parent=parent,
        topology=tree.key,
        preferred=tree.preferred,
    )
    for child in tree.children:
        _add(builder, child, tree.name)
    for pod in tree.pods:
        builder.waits(tree.name, cpu=pod[0], others=_others(pod), priority=PREEMPTOR)


def _named(amounts: Amounts) -> dict[str, int]:
    return {"cpu": amounts[0] * 1000, **_others(amounts)}


def _others(amounts: Amounts) -> dict[str, int]:
    """Return all amounts except cpu."""
    return dict(zip(RESOURCES[1:], amounts[1:], strict=False))


def decide(
    instance: Instance,
    builder: PreemptionBuilder,
    *,
    budget: SearchBudget = SearchBudget(),
    attempts: int = 1,
) -> Placement | Refusal:
    """Return the decision core's result for the tree, checked pod by pod.

    Up to so many searches continue each other, as the queue does it.
    """
    memory = SearchMemory() if attempts > 1 else None
    for _ in range(attempts):
        decision = place(builder.state, builder.root(ROOT), budget, memory=memory)
        if isinstance(decision, Placement) or not decision.timed_out:
            break
    if isinstance(decision, Placement):
        _check(instance, builder, decision)
    return decision


def _check(instance: Instance, builder: PreemptionBuilder, placement: Placement) -> None:
    used: Counter[tuple[str, str]] = Counter()
    placed: defaultdict[str, list[str]] = defaultdict(list)
    for group in instance.running:
        for pod in group.pods:
            for resource, amount in _named(pod.requests).items():
                used[f"n{pod.node}", resource] += amount
    infos = {pod.info.name: pod.info for pod in builder.state.pods.values()}
    for pod_name, node_name in builder.where(placement).items():
        info = infos[pod_name]
        placed[info.group or ""].append(node_name)
        for resource, amount in info.requirements.requests:
            used[node_name, resource] += amount
    nodes = {f"n{index}": node for index, node in enumerate(instance.nodes)}
    for name, node in nodes.items():
        for resource, amount in _named(node.allocatable).items():
            assert used[name, resource] <= amount, (name, resource)
    assert _whole(instance.tree, placed), placed
    for tree in instance.tree:
        if tree.key is not None and not tree.preferred:
            where = [name for leaf in tree.leaves() for name in placed[leaf.name]]
            values = {nodes[name].labels.get(tree.key) for name in where}
            assert len(values) <= 1, (tree.name, values)
            assert None not in values, tree.name


def _whole(tree: Tree, placed: Mapping[str, list[str]]) -> bool:
    """Return True if the minimum is met; check that no group is below its own minimum."""
    if not tree.children:
        count = len(placed.get(tree.name, ()))
        assert count in (0, *range(tree.minimum, len(tree.pods) + 1)), tree.name
        return count >= tree.minimum
    return sum([_whole(child, placed) for child in tree.children]) >= tree.minimum
