"""Trees whose levels require zones, blocks and racks, with and without lower pods in their way.

Nodes have 2 cpu each. The pods of a tree have priority 100, as those that it cannot evict.
"""

from typing import Any

from e2e.kubernetes.upstream.situations.model import (
    Group,
    Pods,
    Step,
    expect,
    group,
    muster,
    nodes,
    pods,
    situation,
    tree,
)

_FOUND = "cpg_tas_test.go: "
_EVICTING = "cpg_tas_test.go, WorkloadAwarePreemption: "
_RACKS = nodes("z1/r1 z1/r1 z1/r2 z1/r2")
_ZONES = nodes("z1/r1 z1/r2 z2/r1 z2/r1")
_UNEVEN = nodes("z1/r1 z1/r2 z1/r2 z2/r1 z2/r1")
_BLOCKS = nodes("z1/b1/r1 z1/b1/r2 z1/b2/r1 z1/b2/r2 z2/b1/r1 z2/b1/r1")
_WIDE = nodes("z1/r1 z1/r1 z1/r2 z1/r2 z2/r3 z2/r3")
_EIGHT = nodes("z1/r1 z1/r1 z1/r2 z1/r2 z2/r1 z2/r1 z2/r2 z2/r2")
_TAINTED = (nodes("z1/r1", tainted=True), nodes("z1/r2 z1/r3 z2/r1 z2/r2"))
_FOUR = ("a", "b", "c", "d")


def _root(name: str, minimum: int | None = 2, *, key: str = "", parent: str = "") -> Group:
    return tree(name, minimum, key=key, parent=parent, priority=100)


def _leaf(name: str, parent: str = "root", *, key: str = "", basic: bool = False) -> Group:
    minimum = None if basic else 2
    return group(name, minimum, key=key, parent=parent, priority=100)


def _of(name: str, count: int = 2, **spec: Any) -> Pods:
    return pods(name, count, name, priority=100, **spec)


def _bound(name: str, node: str, cpu: int, *, priority: int = 100, group: str = "") -> Pods:
    return pods(name, 1, group, cpu=cpu, node=node, priority=priority)


def _low(*taken: str) -> tuple[Pods, ...]:
    """Return lower pods by node and cpu, as in "n1:2"."""
    found = (each.split(":") for each in taken)
    return tuple(_bound(f"low{node[1:]}", node, int(cpu), priority=10) for node, cpu in found)


def _two(root_key: str, key: str) -> tuple[Step, ...]:
    """Return a root with two gangs."""
    return _root("root", key=root_key), _leaf("a", key=key), _leaf("b", key=key)


def _three(root: Group, middle: str, key: str, *, basic: bool = False) -> tuple[Step, ...]:
    """Return a root with two trees of two gangs."""
    minimum = None if basic else 2
    middles = [_root(name, minimum, key=middle, parent="root") for name in ("s", "t")]
    leaves = [_leaf(name, parent, key=key) for name, parent in zip(_FOUR, "sstt", strict=True)]
    return root, *middles, *leaves


_SAME_RACKS = (("rack", "a"), ("rack", "b"))
_ALL_RACKS = tuple(("rack", name) for name in _FOUR)
_HALVES = ("a b", "c d")


def _each(key: str) -> tuple[tuple[str, str], ...]:
    return tuple((key, half) for half in _HALVES)


_PODS = tuple(map(_of, _FOUR))
_RUN = dict.fromkeys(_FOUR, "2 run")
_RUN_ON = {**_RUN, "a": "1 run"}
_RIGHT = {"a": "n5 n6", "b": "n5 n6", "c": "n7 n8", "d": "n7 n8"}
_FULL = _low("n1:2", "n2:2", "n3:2", "n4:2")
_FULL_RUNS = expect({each.name: "1 run" for each in _FULL})
_FULL_EVICTED = {each.name: "1 evicted" for each in _FULL}

SITUATIONS = (
    situation(
        "A tree goes to the only rack that has capacity for all of its gangs",
        _FOUND + "parent CPG has topology constraints, children do not; on a single rack",
        _RACKS, _bound("busy", "n4", 2), *_two("rack", ""), _of("a"), _of("b"),
        expect(busy="1 run", a="2 run", b="2 run", at={"a": "n1 n2", "b": "n1 n2"}),
    ),
    situation(
        "A running pod decides the rack of its tree",
        _FOUND + "children do not; preexisting pod belonging to the hierarchy",
        _RACKS, _bound("first", "n4", 1, group="a"), *_two("rack", ""), _of("a", 1), _of("b"),
        expect(first="1 run", a="1 run", b="2 run", at={"a": "n3 n4", "b": "n3 n4"}),
    ),
    situation(
        "A tree waits if no rack has capacity for all of its groups",
        _FOUND + "children do not; remains pending when no single rack can fit",
        nodes("z1/r1 z1/r2"), _bound("busy1", "n1", 1), _bound("busy2", "n2", 1),
        _root("root", key="rack"), _leaf("a", basic=True), _leaf("b", basic=True),
        _of("a", 1), _of("b", 1),
        expect(busy1="1 run", busy2="1 run", a="1 refused", b="1 refused"),
    ),
    situation(
        "A tree goes to one zone, and each of its gangs to one rack of it",
        _FOUND + "multi-level constraints: zone and rack",
        _ZONES, _bound("busy", "n3", 1), *_two("zone", "rack"), _of("a"), _of("b"),
        expect(
            busy="1 run", a="2 run", b="2 run",
            at={"a": "n1 n2", "b": "n1 n2"}, together=_SAME_RACKS,
        ),
    ),
    situation(
        "A gang without a key of its own stays in the zone of its tree",
        _FOUND + "parent CPG and only one child PG has topology constraints",
        *_TAINTED, _bound("busy5", "n5", 1), _bound("busy2", "n2", 1), _bound("busy3", "n3", 1),
        _root("root", key="zone"), _leaf("a", key="rack"), _leaf("b"),
        _of("a", tolerates=True), _of("b", prefers="n4"),
        expect(
            busy5="1 run", busy2="1 run", busy3="1 run", a="2 run", b="2 run",
            together=(("zone", "a b"), ("rack", "a")),
        ),
    ),
    situation(
        "A running pod decides the zone of its tree and the rack of its gang",
        _FOUND + "preexisting pod group pods constrain the available topology domains",
        _UNEVEN, *_two("zone", "rack"), _bound("first", "n1", 1, group="a"), _of("a", 1), _of("b"),
        expect(first="1 run", a="1 run", b="2 run", at={"a": "n1", "b": "n2 n3"}),
    ),
    situation(
        "A tree with running pods in two zones starts no further pods if it requires one",
        _FOUND + "preexisting pod group pods are in conflicting domains",
        nodes("z1/r1 z1/r1 z2/r1 z2/r1"), *_two("zone", "rack"),
        _bound("first", "n1", 1, group="a"), _bound("second", "n3", 1, group="b"),
        _of("a", 1), _of("b", 1),
        expect(first="1 run", second="1 run", a="1 refused", b="1 refused"),
    ),
    situation(
        "Three levels of a tree get a zone, blocks and racks",
        _FOUND + "3-level CPG hierarchy: all levels have topology constraints",
        _BLOCKS, *_three(_root("root", key="zone"), "block", "rack"), *_PODS,
        expect(_RUN, together=(("zone", "a b c d"), *_each("block"), *_ALL_RACKS)),
    ),
    situation(
        "The levels above and below one without a key get a zone and racks",
        _FOUND + "3-level CPG hierarchy: mid-level without topology constraints",
        nodes("z1/r1 z1/r2 z2/r1"), _root("root", key="zone"), _root("s", None, parent="root"),
        _root("t", None, parent="root"), _leaf("a", "s", key="rack"), _leaf("b", "t", key="rack"),
        _of("a"), _of("b"),
        expect(a="2 run", b="2 run", together=(("zone", "a b"), *_SAME_RACKS)),
    ),
    situation(
        "The trees of a root without a key get a zone each",
        _FOUND + "3-level CPG hierarchy: top level without topology constraint",
        nodes("z1/r1 z1/r2 z2/r3 z2/r4 z2/r5"),
        *_three(_root("root", None), "zone", "rack"), *_PODS,
        expect(_RUN, together=(*_each("zone"), *_ALL_RACKS)),
    ),
    situation(
        "Gangs without a key stay in the rack of their tree",
        _FOUND + "3-level CPG hierarchy: bottom level without topology constraint",
        _WIDE, *_three(_root("root", key="zone"), "rack", ""), *_PODS,
        expect(_RUN, together=(("zone", "a b c d"), *_each("rack"))),
    ),
    situation(
        "A running pod decides the domains of all its ancestors",
        _FOUND + "3-level CPG hierarchy: preexisting pod in leaf PodGroup determines topology",
        _EIGHT, *_three(_root("root", key="zone"), "rack", ""),
        _bound("first", "n5", 1, group="a"), _of("a", 1), *_PODS[1:],
        expect(_RUN_ON, first="1 run", at=_RIGHT),
    ),
    situation(
        "A tree evicts lower pods in the only rack that it can have",
        _EVICTING + "children do not; schedules on a single rack",
        _RACKS, *_low("n1:2", "n2:2"), _bound("busy", "n4", 2),
        expect(low1="1 run", low2="1 run", busy="1 run"), *_two("rack", ""), _of("a"), _of("b"),
        expect(
            low1="1 evicted", low2="1 evicted", a="2 run", b="2 run",
            at={"a": "n1 n2", "b": "n1 n2"},
        ),
    ),
    situation(
        "A later pod of a tree waits if the rack of its tree is full",
        _EVICTING + "then cannot schedule additional pods",
        _RACKS, *_low("n1:2", "n2:2"), _bound("busy", "n4", 2),
        expect(low1="1 run", low2="1 run", busy="1 run"), *_two("rack", ""), _of("a"), _of("b"),
        expect(low1="1 evicted", low2="1 evicted", a="2 run", b="2 run"),
        pods("late", 1, "a", priority=100),
        expect(late="1 refused", at={"a": "n1 n2", "b": "n1 n2"}),
    ),
    situation(
        "A tree evicts lower pods in the rack of its running pod",
        _EVICTING + "preexisting pod belonging to the hierarchy determines topology",
        _RACKS, _bound("first", "n4", 1, group="a"), *_low("n3:2", "n4:1"),
        expect(first="1 run", low3="1 run", low4="1 run"), *_two("rack", ""), _of("a", 1), _of("b"),
        expect(
            low3="1 evicted", low4="1 evicted", a="1 run", b="2 run",
            at={"a": "n3 n4", "b": "n3 n4"},
        ),
    ),
    situation(
        "A tree of basic groups evicts a lower pod in the only rack that it can have",
        _EVICTING + "children do not; schedules on a rack after preempting",
        nodes("z1/r1 z1/r2"), *_low("n1:2"), _bound("busy", "n2", 2),
        expect(low1="1 run", busy="1 run"), _root("root", key="rack"),
        _leaf("a", basic=True), _leaf("b", basic=True), _of("a", 1), _of("b", 1),
        expect(low1="1 evicted", a="1 run", b="1 run", at={"a": "n1", "b": "n1"}),
    ),
    situation(
        "A tree evicts lower pods in the only zone that it can have",
        _EVICTING + "multi-level constraints: zone and rack, with preemption",
        _ZONES, *_low("n1:2", "n2:2"), _bound("busy", "n3", 1),
        expect(low1="1 run", low2="1 run", busy="1 run"),
        *_two("zone", "rack"), _of("a"), _of("b"),
        expect(
            low1="1 evicted", low2="1 evicted", a="2 run", b="2 run",
            at={"a": "n1 n2", "b": "n1 n2"}, together=_SAME_RACKS,
        ),
    ),
    situation(
        "A gang that is added to a tree evicts in its zone only",
        _EVICTING + "preemption does not help for subsequent",
        nodes("z1/r1 z1/r2 z1/r3 z2/r1 z2/r1"), *_low("n3:2", "n4:2"),
        expect(low3="1 run", low4="1 run"), *_two("zone", "rack"), _of("a"), _of("b"),
        expect(a="2 run", b="2 run", together=_SAME_RACKS),
        _leaf("c", key="rack"), _of("c"),
        expect(c="2 run", low3="1 evicted", together=(("rack", "c"),)),
        _leaf("d", key="rack"), _of("d"),
        expect(d="2 refused", together=(("zone", "a b c"), *_SAME_RACKS, ("rack", "c"))),
    ),
    situation(
        "A gang with a key evicts in the only rack that it can have, one without a key nowhere",
        _EVICTING + "parent CPG and only one child PG has topology constraints",
        *_TAINTED, *_low("n1:2"), _bound("busy5", "n5", 1), _bound("busy2", "n2", 1),
        _bound("busy3", "n3", 1), expect(low1="1 run", busy5="1 run", busy2="1 run", busy3="1 run"),
        _root("root", key="zone"), _leaf("a", key="rack"), _leaf("b"),
        _of("a", tolerates=True), _of("b", prefers="n4"),
        expect(
            low1="1 evicted", a="2 run", b="2 run", together=(("zone", "a b"), ("rack", "a")),
        ),
    ),
    situation(
        "A tree evicts lower pods in the zone of its running pod",
        _EVICTING + "preexisting pod group pods constrain available topology domains",
        _UNEVEN, *_two("zone", "rack"), _bound("first", "n1", 1, group="a"), *_low("n1:1", "n2:2"),
        expect(first="1 run", low1="1 run", low2="1 run"), _of("a", 1), _of("b"),
        expect(
            low1="1 evicted", low2="1 evicted", a="1 run", b="2 run",
            at={"a": "n1", "b": "n2 n3"},
        ),
        differs=muster(
            "It evicts no more than it needs: n3 has capacity for both pods of the second gang.",
            low1="1 evicted", low2="1 run", a="1 run", b="2 run", at={"a": "n1", "b": "n3"},
        ),
    ),
    situation(
        "Three levels of a tree evict in one zone",
        _EVICTING + "3-level CPG hierarchy: all levels have topology constraints",
        _BLOCKS, *_FULL, _FULL_RUNS, *_three(_root("root", key="zone"), "block", "rack"), *_PODS,
        expect(
            _RUN, _FULL_EVICTED,
            together=(("zone", "a b c d"), *_each("block"), *_ALL_RACKS),
        ),
    ),
    situation(
        "The levels above and below one without a key evict in one zone",
        _EVICTING + "3-level CPG hierarchy: mid-level without topology constraints",
        nodes("z1/r1 z1/r2 z2/r1"), *_low("n1:2", "n2:2"), expect(low1="1 run", low2="1 run"),
        _root("root", key="zone"), _root("s", None, parent="root"),
        _root("t", None, parent="root"), _leaf("a", "s", key="rack"), _leaf("b", "t", key="rack"),
        _of("a"), _of("b"),
        expect(
            low1="1 evicted", low2="1 evicted", a="2 run", b="2 run",
            together=(("zone", "a b"), *_SAME_RACKS),
        ),
    ),
    situation(
        "The trees of a root without a key evict in a zone each",
        _EVICTING + "3-level CPG hierarchy: top level without topology constraint",
        nodes("z1/r1 z1/r2 z2/r3 z2/r4"), *_FULL, _FULL_RUNS,
        *_three(_root("root", None), "zone", "rack"), *_PODS,
        expect(_RUN, _FULL_EVICTED, together=(*_each("zone"), *_ALL_RACKS)),
    ),
    situation(
        "Gangs without a key evict in the rack of their tree",
        _EVICTING + "3-level CPG hierarchy: bottom level without topology constraint",
        _WIDE, *_FULL, _FULL_RUNS, *_three(_root("root", key="zone"), "rack", ""), *_PODS,
        expect(_RUN, _FULL_EVICTED, together=(("zone", "a b c d"), *_each("rack"))),
    ),
    situation(
        "All gangs of a tree evict in the zone of its running pod",
        _EVICTING + "3-level CPG hierarchy: preexisting pod in leaf PodGroup",
        _EIGHT, *_three(_root("root", key="zone"), "rack", ""),
        _bound("first", "n5", 1, group="a"), *_low("n6:2", "n7:2"),
        expect(first="1 run", low6="1 run", low7="1 run"), _of("a", 1), *_PODS[1:],
        expect(_RUN_ON, low6="1 evicted", low7="1 evicted", at=_RIGHT),
    ),
)  # fmt: skip
