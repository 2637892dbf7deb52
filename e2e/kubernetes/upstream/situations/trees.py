"""Trees of groups on nodes without topology."""

from e2e.kubernetes.upstream.situations.model import (
    Minimum,
    Step,
    expect,
    group,
    nodes,
    pods,
    situation,
    tree,
)

_NODE = nodes("-", cpu=20)
_FIVE = {"a": "3 run", "b": "3 run", "d": "3 run", "e": "3 run"}
_EIGHT = nodes("-", cpu=8)
_TALL = (tree("root", 1), tree("middle", 1, parent="root"), group("g", 2, parent="middle"))
_TWO_OF = tree("root", 2)


def _leaf(name: str, parent: str, cpu: int = 1, minimum: int | None = 3) -> tuple[Step, ...]:
    """Return a group below a parent, and its three pods."""
    return group(name, minimum, parent=parent), pods(name, 3, name, cpu=cpu)


SITUATIONS = (
    situation(
        "A tree of three levels starts the groups that fit and that their ancestors allow",
        "cpg_test.go: TestCPGHierarchicalScheduling",
        _NODE, tree("root", 2), tree("first", 2, parent="root"), tree("second", parent="root"),
        tree("third", 2, parent="root"),
        *_leaf("a", "first"), *_leaf("b", "first"), *_leaf("c", "first", 100),
        *_leaf("d", "second", minimum=None), *_leaf("e", "second"),
        *_leaf("f", "third"), *_leaf("h", "third", 100),
        expect(_FIVE, c="3 refused", f="3 refused", h="3 refused"),
    ),
    situation(
        "A tree starts with minGroupCount gangs, and the gang with a pod that fits nowhere waits",
        "cpg_test.go: TestCPGMinGroupCount",
        _NODE, tree("root", 2), *_leaf("a", "root"), *_leaf("b", "root"),
        group("c", 3, parent="root"), pods("huge", 1, "c", cpu=100), pods("c", 2, "c"),
        expect(a="3 run", b="3 run", huge="1 refused", c="2 refused"),
    ),
    situation(
        "Gangs below a basic parent start independently",
        "cpg_test.go: TestCPGBasicWithGangChildren",
        _NODE, tree("root"), *_leaf("a", "root"),
        group("b", 3, parent="root"), pods("huge", 1, "b", cpu=100), pods("b", 2, "b"),
        expect(a="3 run", huge="1 refused", b="2 refused"),
    ),
    situation(
        "Basic groups below a basic parent start",
        "cpg_test.go: TestCPGBasicWithBasicChildren",
        _NODE, tree("root"), *_leaf("a", "root", minimum=None), *_leaf("b", "root", minimum=None),
        expect(a="3 run", b="3 run"),
    ),
    situation(
        "A tree starts with minGroupCount basic groups",
        "cpg_test.go: TestCPGGangWithBasicChildren",
        nodes("-", cpu=8), tree("root", 2), *_leaf("a", "root", minimum=None),
        *_leaf("b", "root", minimum=None), *_leaf("c", "root", 10, minimum=None),
        expect(a="3 run", b="3 run", c="3 refused"),
    ),
    situation(
        "Basic groups that fit nowhere wait below a basic parent",
        "cpg_test.go: TestCPGBasicWithUnschedulableBasicChildren",
        _NODE, tree("root"), *_leaf("a", "root", 50, minimum=None),
        *_leaf("b", "root", 50, minimum=None),
        expect(a="3 refused", b="3 refused"),
    ),
    situation(
        "Groups that are added to a running tree start as their own parent allows",
        "cpg_test.go: TestCPGDynamicChildAddition",
        _NODE, tree("root"), *_leaf("a", "root", minimum=None), expect(a="3 run"),
        *_leaf("b", "root", minimum=None), expect(b="3 run"),
        tree("below", 2, parent="root"), *_leaf("c", "below", minimum=None), expect(c="3 wait"),
        *_leaf("d", "below", minimum=None),
        expect(c="3 run", d="3 run"),
    ),
    situation(
        "Pods wait until the last ancestor of their group exists",
        "queueing_test.go: Incomplete CPG tree buffers pods and missing root CPG wakes them up",
        _EIGHT, *_TALL[:0:-1], pods("g", 2, "g", cpu=2), expect(g="2 wait"),
        _TALL[0],
        expect(g="2 run"),
    ),
    situation(
        "A tree that waits without nodes starts when one is added",
        "queueing_test.go: Node add triggers queueing hint for complete CPG tree",
        *_TALL, pods("g", 2, "g", cpu=2), expect(g="2 refused"),
        _EIGHT,
        expect(g="2 run"),
    ),
    situation(
        "A tree that needs two groups starts when the second one is created",
        "queueing_test.go: PodGroup add triggers queueing hint for unschedulable CPG root",
        _EIGHT, _TWO_OF, group("a", 2, parent="root"), pods("a", 2, "a", cpu=2),
        pods("b", 2, "b", cpu=2), expect(a="2 wait", b="2 wait"),
        group("b", 2, parent="root"),
        expect(a="2 run", b="2 run"),
    ),
    situation(
        "A tree starts when the last pod of its gangs is created",
        "queueing_test.go: Pod add triggers queueing hint for unschedulable CPG root",
        _EIGHT, _TWO_OF, group("a", 2, parent="root"), group("b", 2, parent="root"),
        pods("a", 2, "a", cpu=2), pods("b", 1, "b", cpu=2), expect(a="2 wait", b="1 wait"),
        pods("last", 1, "b", cpu=2),
        expect(a="2 run", b="1 run", last="1 run"),
    ),
    situation(
        "A tree starts when the minCount of its gang is lowered to what exists",
        "queueing_test.go: PodGroup update (reduce minCount) triggers queueing hint",
        _EIGHT, *_TALL, pods("g", 1, "g", cpu=2), expect(g="1 wait"),
        Minimum("g", 1),
        expect(g="1 run"),
    ),
)  # fmt: skip
