"""Groups and trees that are evicted for a single pod. Nodes have 5 cpu each."""

from collections.abc import Iterator

from e2e.kubernetes.upstream.situations.model import (
    Group,
    Situation,
    expect,
    group,
    nodes,
    pods,
    situation,
    tree,
)

_PAIR = nodes("- -", cpu=5)
_MIDDLE = 50
_TOP = pods("top", 1, cpu=5, priority=100, only="n1")
_SMALLER = pods("top", 1, cpu=3, priority=100, only="n1")


def _group(of_tree: bool, name: str, mode: str, priority: int = 10) -> tuple[Group, ...]:
    """Return a basic group of this mode, or one below a tree of this mode."""
    if not of_tree:
        return (group(name, mode=mode, priority=priority),)
    root = tree(f"{name}-root", mode=mode, priority=priority)
    return root, group(name, parent=root.name, priority=priority)


def _situations(of_tree: bool) -> Iterator[Situation]:
    what, called = ("tree", "CPG") if of_tree else ("basic group", "pod group")
    found = f"preemption_test.go, {called}: "
    victims = pods("v", 2, "v", cpu=5, priority=10, node="n1 n2")
    yield situation(
        f"A pod evicts a {what} of mode all also on another node",
        found + "victim across multiple nodes, pod-group-as-victim enabled",
        _PAIR, *_group(of_tree, "v", "all"), victims, expect(v="2 run"), _TOP,
        expect(top="1 run", v="2 evicted"),
    )  # fmt: skip
    yield situation(
        f"A pod evicts all pods of a {what} of mode all on its node",
        found + "occupying a single node, pod-group-as-victim enabled",
        nodes("-", cpu=5), *_group(of_tree, "v", "all"),
        pods("v", 2, "v", cpu=2, priority=10, node="n1"), expect(v="2 run"), _SMALLER,
        expect(top="1 run", v="2 evicted"),
    )  # fmt: skip
    yield situation(
        f"Of two on its node a pod evicts the {what} of the lower priority",
        found + "multiple victims, only subset selected for preemption",
        _PAIR, *_group(of_tree, "low", "all"), *_group(of_tree, "middle", "all", _MIDDLE),
        pods("low", 2, "low", cpu=2, priority=10, node="n1 n2"),
        pods("middle", 2, "middle", cpu=2, priority=_MIDDLE, node="n1 n2"),
        expect(low="2 run", middle="2 run"), _SMALLER,
        expect(top="1 run", low="2 evicted"),
    )  # fmt: skip
    yield situation(
        f"A pod evicts no {what} if it does not fit without it",
        found + "unsuccessful preemption when freeing lower priority group is insufficient",
        nodes("-", cpu=10), *_group(of_tree, "v", "all"),
        pods("high", 1, cpu=5, priority=100, node="n1"),
        pods("v", 2, "v", cpu="1.5", priority=10, node="n1"), expect(high="1 run", v="2 run"),
        pods("top", 1, cpu=6, priority=100),
        expect(top="1 refused"),
    )  # fmt: skip
    yield situation(
        f"A pod evicts only the pod in its way of a {what} of mode single",
        found + "victim across multiple nodes, DisruptionModeSingle enabled",
        _PAIR, *_group(of_tree, "v", "single"), victims, expect(v="2 run"), _TOP,
        expect(top="1 run", v="1 evicted 1 run", at={"v": "n2"}),
    )  # fmt: skip


SITUATIONS = tuple(each for of_tree in (False, True) for each in _situations(of_tree))
