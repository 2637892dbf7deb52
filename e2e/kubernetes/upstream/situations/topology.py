"""Gangs that require one rack or one zone. Nodes have 2 cpu each."""

from e2e.kubernetes.upstream.situations.model import (
    delete,
    expect,
    group,
    muster,
    nodes,
    pods,
    situation,
)

_FOUND = "tas_test.go: "
_RACK = group("g", 3, key="rack")
_HIGH = group("g", 3, key="rack", priority=200)
_HIGH_PODS = pods("g", 3, "g", priority=200)

SITUATIONS = (
    situation(
        "A gang goes to the only rack that has capacity for it",
        _FOUND + "gang schedules on a single rack, when only one feasible rack is available",
        nodes("z1/r1 z1/r1 z1/r1 z1/r2 z1/r2 z2/r3"), pods("busy", 1, cpu=2, node="n4"),
        _RACK, pods("g", 3, "g"),
        expect(busy="1 run", g="3 run", at={"g": "n1 n2 n3"}),
    ),
    situation(
        "A gang waits if no rack has capacity for it",
        _FOUND + "gang remains pending when no feasible resources are found",
        nodes("z1/r1 z1/r1 z1/r2 z2/r3"), _RACK, pods("g", 3, "g", cpu=2),
        expect(g="3 refused"),
    ),
    situation(
        "A gang starts in the rack where a pod ends",
        _FOUND + "gang remains pending when resources are consumed by existing pods",
        nodes("r1 r1 r1"), pods("ends", 1, cpu=2, node="n1"), pods("busy", 1, cpu=2, node="n3"),
        _RACK, pods("g", 3, "g"), expect(ends="1 run", busy="1 run", g="3 refused"),
        delete("ends"),
        expect(g="3 run"),
    ),
    situation(
        "A gang evicts lower pods of the only rack",
        _FOUND + "gang uses pod group preemption when resources are consumed",
        nodes("r1 r1 r1"), pods("low", 2, cpu=2, priority=100, node="n1 n3"),
        expect(low="2 run"), _HIGH, _HIGH_PODS,
        expect(g="3 run", low="2 evicted"),
        differs=muster(
            "It evicts no more than it needs: kube-scheduler first spreads the gang as if no lower "
            "pod were there.",
            g="3 run", low="1 evicted 1 run",
        ),
    ),
    situation(
        "A gang evicts in the rack that it fills best",
        _FOUND + "gang uses preemption, choosing placement with the highest score",
        nodes("z1/r1 z1/r1 z2/r2 z2/r2 z2/r2 z2/r3"),
        pods("low", 3, cpu=2, priority=10, node="n1 n3 n4"), expect(low="3 run"),
        _HIGH, _HIGH_PODS,
        expect(g="3 run", low="1 evicted 2 run", at={"g": "n1 n2"}),
    ),
    situation(
        "A gang evicts in the rack that is fullest with it, higher pods counted",
        _FOUND + "gang uses preemption, choosing highest allocation percentage",
        nodes("z1/r1 z1/r1 z2/r2 z2/r2 z2/r2 z2/r3 z2/r3 z2/r3 z2/r4"),
        pods("high", 1, cpu=2, priority=200, node="n3"), pods("half", 1, priority=200, node="n8"),
        pods("low", 3, cpu=2, priority=10, node="n1 n4 n6"),
        pods("small", 1, priority=10, node="n8"),
        expect(high="1 run", half="1 run", low="3 run", small="1 run"), _HIGH, _HIGH_PODS,
        expect(g="3 run", low="1 evicted 2 run", at={"g": "n3 n4 n5"}),
        differs=muster(
            "Both racks would have 1 cpu left. Muster compares what is left, not the share in use, "
            "and takes the first by name.",
            g="3 run", low="1 evicted 2 run", at={"g": "n1 n2"},
        ),
    ),
    situation(
        "A gang goes to the rack that it fills best",
        _FOUND + "gang schedules on a single rack, choosing the highest score",
        nodes("z1/r1 z1/r1 z2/r2 z2/r2 z2/r2 z2/r3"), _RACK, pods("g", 3, "g"),
        expect(g="3 run", at={"g": "n1 n2"}),
    ),
    situation(
        "A gang goes to the rack that is fullest with it, running pods counted",
        _FOUND + "gang schedules on a single rack, choosing highest allocation percentage",
        nodes("z1/r1 z1/r1 z2/r2 z2/r2 z2/r2 z2/r3 z2/r3 z2/r3 z2/r4"),
        pods("busy", 1, cpu=2, node="n3"), pods("half", 1, node="n8"),
        expect(busy="1 run", half="1 run"), _RACK, pods("g", 3, "g"),
        expect(g="3 run", at={"g": "n3 n4 n5"}),
        differs=muster(
            "Both racks would have 1 cpu left. Muster compares what is left, not the share in use, "
            "and takes the first by name.",
            g="3 run", at={"g": "n1 n2"},
        ),
    ),
    situation(
        "Two gangs each get the rack that has capacity for them",
        _FOUND + "two gangs schedule consecutively, each on a separate rack",
        nodes("r1 r1 r1 r2 r2"), _RACK, pods("g", 3, "g", cpu=2), expect(g="3 run"),
        group("h", 2, key="rack"), pods("h", 2, "h"),
        expect(h="2 run", at={"g": "n1 n2 n3", "h": "n4 n5"}),
    ),
    situation(
        "Two gangs share the only rack that has capacity for either",
        _FOUND + "two gangs schedule consecutively, both on the same rack",
        nodes("r1 r1 r1 r2"), group("g", 2, key="rack"), pods("g", 1, "g", cpu=2),
        pods("g2", 1, "g"), group("h", 3, key="rack"), pods("h", 3, "h"),
        expect(g="1 run", g2="1 run", h="3 run", together=(("rack", "g g2 h"),)),
    ),
    situation(
        "A gang that requires a zone gets one next to a gang that requires a rack",
        _FOUND + "two gangs schedule consecutively, different topology keys",
        nodes("z1/r1 z1/r1 z1/r2 z2/r3 z2/r3 z2/r3"), _RACK, pods("g", 3, "g", cpu=2),
        expect(g="3 run"), group("h", 3, key="zone"), pods("h", 3, "h", cpu=2),
        expect(h="3 run", at={"g": "n4 n5 n6", "h": "n1 n2 n3"}),
    ),
    situation(
        "The second of two gangs waits if the only rack has capacity for one",
        _FOUND + "two gangs schedule consecutively, only one fits in the cluster",
        nodes("r1 r1"), _RACK, pods("g", 3, "g"), expect(g="3 run"),
        group("h", 2, key="rack"), pods("h", 2, "h"),
        expect(h="2 refused"),
    ),
    situation(
        "All pods of a gang go to one rack, also those beyond minCount",
        _FOUND + "gang with minCount < pod count schedules on a single rack",
        nodes("r1 r1 r2 r2"), group("g", 2, key="rack"), pods("g", 3, "g"),
        expect(g="3 run", together=(("rack", "g"),)),
    ),
    situation(
        "Later pods of a gang go to its rack, and wait if that is full",
        _FOUND + "gang with minCount < pod count, choosing smaller rack",
        nodes("z1/r1 z1/r1 z1/r1 z1/r2 z1/r2 z2/r3"), _RACK, pods("g", 3, "g"), expect(g="3 run"),
        pods("late", 1, "g"), expect(late="1 run", at={"g": "n4 n5", "late": "n4 n5"}),
        pods("last", 1, "g"),
        expect(last="1 refused"),
    ),
    situation(
        "A later pod of a gang evicts a lower pod of its rack, the next one waits",
        _FOUND + "additional pod triggers preemption on the same rack",
        nodes("z1/r1 z1/r1 z1/r1 z1/r2 z1/r2 z2/r3"), pods("low", 1, priority=10, node="n5"),
        expect(low="1 run"), _HIGH, _HIGH_PODS, expect(g="3 run", at={"g": "n4 n5"}),
        pods("late", 1, "g", priority=200),
        expect(late="1 run", low="1 evicted", at={"late": "n4 n5"}),
        pods("last", 1, "g", priority=200),
        expect(last="1 refused", at={"g": "n4 n5", "late": "n4 n5"}),
    ),
    situation(
        "A gang does not evict pods of its own priority",
        _FOUND + "gang does not schedule when preemption could free up enough resources",
        nodes("r1 r1"), pods("busy", 1, cpu=2, node="n2"), _RACK, pods("g", 3, "g"),
        expect(busy="1 run", g="3 refused"),
    ),
)  # fmt: skip
