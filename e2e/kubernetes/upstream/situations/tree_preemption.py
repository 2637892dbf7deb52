"""Trees that evict pods and trees of lower priority, and trees that are evicted."""

from typing import Any

from e2e.kubernetes.upstream.situations.model import (
    Budget,
    Group,
    Later,
    Pods,
    Step,
    delete_group,
    expect,
    group,
    muster,
    nodes,
    pods,
    situation,
    tree,
)
from e2e.kubernetes.upstream.situations.preemption import APART

_FOUND = "podgrouppreemption_test.go, Composite: "
_NODE = nodes("-")
_PAIR = nodes("- -")
_THREE = nodes("-", cpu=3)
_LOW = (pods("low", 3, priority=10), expect(low="3 run"))
_RUN = expect(low1="1 run", low2="1 run", low3="1 run")
_BIG = pods("big", 1, cpu=2, priority=100, only="n1")


def _root(
    name: str = "root", minimum: int | None = None, *, priority: int = 100, **spec: Any
) -> Group:
    return tree(name, minimum, priority=priority, **spec)


def _leaf(
    name: str, minimum: int = 1, *, parent: str = "root", priority: int = 100, **spec: Any
) -> Group:
    return group(name, minimum, parent=parent, priority=priority, **spec)


def _low(name: str, group: str, node: str, *, priority: int = 10, **spec: Any) -> Pods:
    return pods(name, 1, group, node=node, priority=priority, **spec)


def _victims(root: str, middle: str = "", *, mode: str = "", apart: str = "") -> tuple[Step, ...]:
    """Return two lower gangs on two nodes below a root, or below a tree of it.

    These have the modes `root`, `middle` and `mode`; `apart` is the parent of the second gang.
    """
    below = "middle" if middle else "root"
    middles = [_root("middle", priority=10, parent="root", mode=middle)] if middle else []
    return (
        _root(priority=10, mode=root), *middles,
        _leaf("a", 2, parent=below, priority=10, mode=mode),
        _leaf("b", 1, parent=apart or below, priority=10, mode=mode),
        _low("low1", "a", "n1"), _low("low2", "a", "n2"), _low("low3", "b", "n2"), _RUN,
    )  # fmt: skip


SITUATIONS = (
    situation(
        "A tree evicts on the node that it prefers",
        _FOUND + "CPG Partial Preemption",
        _PAIR, _low("low1", "", "n1", cpu=2), _low("low2", "", "n2"),
        expect(low1="1 run", low2="1 run"), _root(), _leaf("g", 3),
        pods("g", 3, "g", priority=100, prefers="n1"),
        expect(g="3 run", low1="1 evicted"),
    ),
    situation(
        "A tree of mode all is evicted whole, also on other nodes",
        _FOUND + "CPG Victim Across Multiple Nodes, CPG DisruptionModeAll",
        _PAIR, *_victims("all"), _BIG,
        expect(big="1 run", low1="1 evicted", low2="1 evicted", low3="1 evicted"),
    ),
    situation(
        "Of a tree of mode single only the pod in the way is evicted",
        _FOUND + "CPG Victim Across Multiple Nodes, CPG DisruptionModeSingle",
        _PAIR, *_victims("single", mode="single"), _BIG,
        expect(big="1 run", low1="1 evicted"),
    ),
    situation(
        "A tree is not evicted for a pod that does not fit without it",
        _FOUND + "CPG Preemption aborted if victim yields insufficient resources",
        _NODE, _root(priority=10), _leaf("a", priority=10), _low("low1", "a", "n1"),
        expect(low1="1 run"), pods("huge", 1, cpu=3, priority=100),
        expect(huge="1 refused"),
    ),
    situation(
        "A gang of its own is evicted before a tree of the same priority",
        _FOUND + "CPG Tie-Breaking: PodGroup chosen over CompositePodGroup",
        _NODE, _root(priority=10, mode="all"), _leaf("below", priority=10),
        group("alone", 1, priority=10), _low("low1", "alone", "n1"), expect(low1="1 run"), Later(),
        _low("low2", "below", "n1"), expect(low2="1 run"), group("g", 1, priority=100),
        pods("g", 1, "g", priority=100),
        expect(g="1 run", low1="1 evicted"),
        differs=muster(
            "It compares how many pods end, and when they started, not the kinds of their groups: "
            "the one that started last is evicted.",
            g="1 run", low1="1 run", low2="1 evicted",
        ),
    ),
    situation(
        "The tree of the lower priority is evicted",
        _FOUND + "Scheduler targets lower-priority CPG over higher-priority CPG",
        _THREE, _root("lower", priority=10), _root("higher", priority=20),
        _leaf("a", parent="lower", priority=10), _leaf("b", parent="higher", priority=20),
        _low("low1", "a", "n1"), _low("low2", "b", "n1", priority=20),
        expect(low1="1 run", low2="1 run"), pods("big", 1, cpu=2, priority=100),
        expect(big="1 run", low1="1 evicted"),
    ),
    situation(
        "A tree of mode all without a PodDisruptionBudget is evicted before one with one",
        _FOUND + "PDB Violation reprieves the entire CPG victim (DisruptionModeAll)",
        _THREE, _root("kept", priority=10, mode="all"), _root("other", priority=10, mode="all"),
        _leaf("a", 2, parent="kept", priority=10), _leaf("b", parent="other", priority=10),
        pods("kept", 2, "a", priority=10, node="n1", app="foo"), _low("low1", "b", "n1"),
        expect(kept="2 run", low1="1 run"), Budget("foo", 2), pods("g", 1, priority=100),
        expect(g="1 run", low1="1 evicted"),
    ),
    situation(
        "Of a tree of mode single the pod without a PodDisruptionBudget is evicted",
        _FOUND + "PDB Violation reprieves only the child PG (DisruptionModeSingle)",
        _THREE, _root(priority=10, mode="single"), _leaf("a", 2, priority=10, mode="single"),
        _leaf("b", priority=10, mode="single"),
        pods("kept", 2, "a", priority=10, node="n1", app="foo"), _low("low1", "b", "n1"),
        expect(kept="2 run", low1="1 run"), Budget("foo", 2), pods("g", 1, priority=100),
        expect(g="1 run", low1="1 evicted"),
    ),
    situation(
        "The mode all of a root counts more than the mode single of the trees below it",
        _FOUND + "3-Level Nested CPG resolves DisruptionMode up to the grandparent",
        _PAIR, *_victims("all", "single", mode="single"), _BIG,
        expect(big="1 run", low1="1 evicted", low2="1 evicted", low3="1 evicted"),
    ),
    situation(
        "A tree of mode all below a root of mode single is evicted whole, and nothing else",
        _FOUND + "Hierarchical DisruptionMode - Grandparent Single, Parent All",
        _PAIR, *_victims("single", "all", mode="single", apart="root"), _BIG,
        expect(big="1 run", low1="1 evicted", low2="1 evicted"),
    ),
    situation(
        "A tree evicts all lower pods of the only node",
        _FOUND + "CPG with default preemption policy performs preemption",
        _THREE, *_LOW, _root(), _leaf("g", 3), pods("g", 3, "g", priority=100),
        expect(g="3 run", low="3 evicted"),
    ),
    situation(
        "A tree of two gangs whose priority class does not preempt evicts nobody",
        _FOUND + "CPG with PreemptNever Policy",
        _THREE, *_LOW, _root(never=True), _leaf("a", 2, never=True), _leaf("b", never=True),
        pods("a", 2, "a", priority=100, never=True), pods("b", 1, "b", priority=100, never=True),
        expect(a="2 refused", b="1 refused"),
    ),
    situation(
        "A tree of two gangs evicts all lower pods of the only node",
        _FOUND + "CPG with PreemptLowerPriority Policy",
        _THREE, *_LOW, _root(), _leaf("a", 2), _leaf("b"), pods("a", 2, "a", priority=100),
        pods("b", 1, "b", priority=100),
        expect(a="2 run", b="1 run", low="3 evicted"),
    ),
    situation(
        "A tree of unequal pods whose priority class does not preempt evicts nobody",
        _FOUND + "CPG PreemptionPolicy PreemptNever prevents preemption",
        _THREE, *_LOW, _root(never=True), _leaf("g", 2, never=True),
        pods("big", 1, "g", cpu=2, priority=100, never=True),
        pods("small", 1, "g", priority=100, never=True),
        expect(big="1 refused", small="1 refused"),
    ),
    situation(
        "A tree of unequal pods evicts all lower pods of the only node",
        _FOUND + "CPG PreemptionPolicy PreemptLowerPriority allows preemption",
        _THREE, *_LOW, _root(), _leaf("g", 2), pods("big", 1, "g", cpu=2, priority=100),
        pods("small", 1, "g", priority=100),
        expect(big="1 run", small="1 run", low="3 evicted"),
    ),
    situation(
        "A tree evicts a pod that its anti-affinity excludes",
        _FOUND + "CPG Gang scheduling: preemption with pod anti-affinity constraints",
        _PAIR, _low("low1", "", "n1", cpu="0.25", app="initial"), expect(low1="1 run"),
        _root(), _leaf("g", 2), pods("g", 2, "g", cpu="1.5", priority=100, spec=APART),
        expect(g="2 run", low1="1 evicted"),
    ),
    situation(
        "A tree evicts a pod that has its host port",
        _FOUND + "CPG Gang scheduling: preemption with pod node port",
        _PAIR, _low("low1", "", "n1", cpu="0.25", port=8080), expect(low1="1 run"),
        _root(), _leaf("g", 2), pods("g", 2, "g", cpu="1.5", priority=100, port=8080),
        expect(g="2 run", low1="1 evicted"),
    ),
    situation(
        "A tree with minGroupCount evicts a lower tree on both nodes",
        _FOUND + "Binding first before preemption for gang policy",
        _PAIR, _root("lower", 1, priority=10), _leaf("a", 4, parent="lower", priority=10),
        _low("low1", "a", "n1"), _low("low2", "a", "n2"), expect(low1="1 run", low2="1 run"),
        pods("g", 4, "g", priority=100), _root("root", 1), _leaf("g", 4),
        expect(g="4 run", low1="1 evicted", low2="1 evicted"),
    ),
    situation(
        "A basic tree evicts a lower tree on both nodes",
        _FOUND + "Binding first before preemption for CPG",
        _PAIR, _root("lower", priority=10), _leaf("a", 4, parent="lower", priority=10),
        _low("low1", "a", "n1"), _low("low2", "a", "n2"), expect(low1="1 run", low2="1 run"),
        _root(), _leaf("g", 4), pods("g", 4, "g", priority=100),
        expect(g="4 run", low1="1 evicted", low2="1 evicted"),
    ),
    situation(
        "A tree evicts a lower gang whose parent was deleted",
        _FOUND + "CPG Missing Parent Reference Fallback",
        _NODE, _root("lower", priority=10), _leaf("a", 2, parent="lower", priority=10),
        pods("low", 2, "a", priority=10, node="n1"), expect(low="2 run"),
        delete_group("lower", composite=True), _root(), _leaf("g", 2),
        pods("g", 2, "g", priority=100),
        expect(g="2 run", low="2 evicted"),
    ),
)  # fmt: skip
