"""Gangs and basic groups that evict pods and groups of lower priority.

Cases with a scoring plugin made for the test prefer a node by the pods' affinity instead. The one
that scores racks is left out: affinity scores none, and `topology` has cases of the real scores.
"""

from e2e.kubernetes.upstream.situations.model import (
    Budget,
    delete,
    expect,
    group,
    muster,
    nodes,
    pods,
    situation,
)
from e2e.kubernetes.upstream.situations.objects import HOST

_FOUND = "podgrouppreemption_test.go: "
_THREE = nodes("-", cpu=3)
_PAIR = nodes("- -")
_SINGLES = nodes("- - -", cpu=1)
_FOUR = nodes("- - - -", cpu=1)
_LOW = (pods("low", 3, priority=10), expect(low="3 run"))
_GANG = (group("g", 3, priority=100), pods("g", 3, "g", priority=100))
_BASIC = (group("g", priority=100), pods("g", 3, "g", priority=100))
_APPS = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
_ALONE = {"labelSelector": _APPS, "topologyKey": HOST}
APART = {
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_ALONE]}}
}
_SKEW = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 2,
            "topologyKey": HOST,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "foo"}},
            "minDomains": 10,
        }
    ]
}
_WHOLE = {"resources": {"requests": {"cpu": "2"}}}


_HIGH = pods("high", 2, priority=200, node="n3 n4")
_VICTIM = group("victim", 2, mode="all", priority=50)

SITUATIONS = (
    situation(
        "A gang evicts all lower pods of the only node",
        _FOUND + "Full PodGroup Preemption",
        _THREE, *_LOW, *_GANG,
        expect(g="3 run", low="3 evicted"),
    ),
    situation(
        "A basic group evicts all lower pods of the only node",
        _FOUND + "Full PodGroup Preemption for basic policy",
        _THREE, *_LOW, *_BASIC,
        expect(g="3 run", low="3 evicted"),
    ),
    situation(
        "A gang evicts on the node that it prefers",
        _FOUND + "Partial Preemption",
        _PAIR, pods("large", 1, cpu=2, priority=10, node="n1"),
        pods("low", 1, priority=10, node="n2"), expect(large="1 run", low="1 run"),
        group("g", 3, priority=100),
        pods("g", 3, "g", priority=100, prefers="n1"),
        expect(g="3 run", large="1 evicted"),
    ),
    situation(
        "A basic group evicts on the node that it prefers",
        _FOUND + "Partial Preemption with basic policy",
        _PAIR, pods("low", 1, priority=10, node="n1"), pods("lowest", 1, priority=5, node="n2"),
        expect(low="1 run", lowest="1 run"), group("g", priority=100),
        pods("g", 3, "g", priority=100, prefers="n1"),
        expect(g="3 run", low="1 evicted"),
        differs=muster(
            "It evicts the lowest priority that suffices, whatever node the pods prefer.",
            g="3 run", lowest="1 evicted", low="1 run",
        ),
    ),
    situation(
        "A gang evicts a pod without a PodDisruptionBudget before those with one",
        _FOUND + "PDB Violation Handling (Reprieve)",
        _THREE, pods("kept", 2, priority=10, app="foo"), pods("low", 1, priority=10),
        expect(kept="2 run", low="1 run"), Budget("foo", 2),
        group("g", 2, priority=100), pods("g", 2, "g", cpu="0.5", priority=100),
        expect(g="2 run", low="1 evicted"),
    ),
    situation(
        "A gang evicts all lower pods of two nodes",
        _FOUND + "Multi-node Preemption",
        _PAIR, pods("low1", 2, priority=10, node="n1"), pods("low2", 2, priority=10, node="n2"),
        expect(low1="2 run", low2="2 run"), group("g", 4, priority=100),
        pods("g", 4, "g", priority=100),
        expect(g="4 run", low1="2 evicted", low2="2 evicted"),
    ),
    situation(
        "A gang evicts nobody if it does not fit without all lower pods",
        _FOUND + "Insufficient Resources (No Preemption)",
        _THREE, pods("high", 1, priority=500), pods("low", 2, priority=10),
        expect(high="1 run", low="2 run"), *_GANG,
        expect(g="3 refused"),
    ),
    situation(
        "A gang evicts the lowest pods and leaves one between",
        _FOUND + "Priority-based Victim Selection",
        _THREE, pods("middle", 1, priority=50), pods("low", 2, priority=10),
        expect(middle="1 run", low="2 run"), group("g", 2, priority=100),
        pods("g", 2, "g", priority=100),
        expect(g="2 run", low="2 evicted"),
    ),
    situation(
        "A gang of mode all is evicted whole for a single pod",
        _FOUND + "Preempt the whole PodGroup even if preempting a single Pod would suffice",
        _THREE, group("victim", 3, mode="all", priority=10), pods("v", 3, "victim", priority=10),
        expect(v="3 run"), group("g", 1, priority=100), pods("g", 1, "g", priority=100),
        expect(g="1 run", v="3 evicted"),
    ),
    situation(
        "A basic group of mode all is evicted whole for a single pod",
        _FOUND + "Preempt the whole basic PodGroup with a PodGroup disruption mode",
        _THREE, group("victim", mode="all", priority=10), pods("v", 3, "victim", priority=10),
        expect(v="3 run"), group("g", 1, priority=100), pods("g", 1, "g", priority=100),
        expect(g="1 run", v="3 evicted"),
    ),
    situation(
        "A gang starts as many pods as it can by evicting lower pods, not higher ones",
        _FOUND + "Gang scheduling: schedule as many pods as possible",
        _FOUR, pods("low", 2, priority=10, node="n1 n2"), _HIGH,
        expect(low="2 run", high="2 run"),
        group("g", 1, priority=100), pods("g", 3, "g", priority=100),
        expect(g="2 run 1 refused", low="2 evicted"),
    ),
    situation(
        "A gang evicts a lower gang and a still lower pod if it needs both",
        _FOUND + "Gang scheduling: do not reprieve victim pod group of lower priority",
        _SINGLES, group("victim", 1, mode="all", priority=50),
        pods("v", 2, "victim", priority=50, node="n1 n2"), pods("low", 1, priority=10, node="n3"),
        expect(v="2 run", low="1 run"), *_GANG,
        expect(g="3 run", v="2 evicted", low="1 evicted"),
    ),
    situation(
        "A gang evicts a lower gang for a part of its pods, and the others wait",
        _FOUND + "Gang scheduling: preempt a pod group victim but do not schedule full",
        _FOUR, _VICTIM, group("top", 2, mode="all", priority=200),
        pods("v", 2, "victim", priority=50, node="n1 n2"),
        pods("t", 2, "top", priority=200, node="n3 n4"), expect(v="2 run", t="2 run"),
        group("g", 1, mode="all", priority=100), pods("g", 3, "g", priority=100),
        expect(g="2 run 1 refused", v="2 evicted"),
    ),
    situation(
        "A basic group starts as many pods as it can by evicting lower pods, not higher ones",
        _FOUND + "Basic scheduling: schedule as many pods as possible",
        _FOUR, pods("low", 2, priority=10, node="n1 n2"), _HIGH,
        expect(low="2 run", high="2 run"),
        *_BASIC,
        expect(g="2 run 1 refused", low="2 evicted"),
    ),
    situation(
        "A basic group evicts a lower gang and a still lower pod if it needs both",
        _FOUND + "Basic scheduling: do not reprieve victim pod group of lower priority",
        _SINGLES, group("victim", 1, mode="all", priority=50),
        pods("v", 2, "victim", priority=50, node="n1 n2"), pods("low", 1, priority=10, node="n3"),
        expect(v="2 run", low="1 run"), *_BASIC,
        expect(g="3 run", v="2 evicted", low="1 evicted"),
    ),
    situation(
        "A basic group evicts a lower gang for a part of its pods, and the others wait",
        _FOUND + "Basic scheduling: preempt a pod group victim but do not schedule full",
        _FOUR, _VICTIM, group("top", 2, mode="all", priority=200),
        pods("v", 2, "victim", priority=50, node="n1 n2"),
        pods("t", 2, "top", priority=200, node="n3 n4"), expect(v="2 run", t="2 run"),
        group("g", mode="all", priority=100), pods("g", 3, "g", priority=100),
        expect(g="2 run 1 refused", v="2 evicted"),
    ),
    situation(
        "A gang whose priority class does not preempt evicts nobody",
        _FOUND + "PodGroup with PreemptNever preemption policy",
        _THREE, *_LOW, group("g", 3, priority=100, never=True),
        pods("g", 3, "g", priority=100, never=True),
        expect(g="3 refused"),
    ),
    situation(
        "A gang of two large pods evicts the one in its way",
        _FOUND + "Gang scheduling: preemption with node resources",
        _PAIR, pods("low", 1, cpu=2, priority=10, node="n1"), expect(low="1 run"),
        group("g", 2, priority=100), pods("g", 2, "g", cpu=2, priority=100),
        expect(g="2 run", low="1 evicted"),
    ),
    situation(
        "Of two lower pods on a node a gang evicts the lowest",
        _FOUND + "prioritizes reprieval of higher priority pods",
        _PAIR, pods("lowest", 1, priority=5, node="n1"), pods("low", 1, priority=10, node="n1"),
        expect(lowest="1 run", low="1 run"), group("g", 2, priority=100),
        pods("a", 1, "g", priority=100, only="n1"), pods("b", 1, "g", priority=100, only="n2"),
        expect(a="1 run", b="1 run", lowest="1 evicted"),
    ),
    situation(
        "A gang evicts by the resources of its pods as a whole",
        _FOUND + "Gang scheduling: preemption with pod level resources",
        _PAIR, pods("low", 1, cpu="", priority=10, node="n1", app="initial", spec=_WHOLE),
        expect(low="1 run"), group("g", 2, priority=100),
        pods("g", 2, "g", cpu="", priority=100, spec=_WHOLE | APART),
        expect(g="2 run", low="1 evicted"),
    ),
    situation(
        "A gang evicts a pod that its anti-affinity excludes",
        _FOUND + "Gang scheduling: preemption with pod anti-affinity constraints",
        _PAIR, pods("low", 1, cpu="0.25", priority=10, node="n1", app="initial"),
        expect(low="1 run"), group("g", 2, priority=100),
        pods("g", 2, "g", cpu="1.5", priority=100, spec=APART),
        expect(g="2 run", low="1 evicted"),
    ),
    situation(
        "A gang evicts a pod that has its host port",
        _FOUND + "Gang scheduling: preemption with pod node port",
        _PAIR, pods("low", 1, cpu="0.25", priority=10, node="n1", port=8080),
        expect(low="1 run"), group("g", 2, priority=100),
        pods("g", 2, "g", cpu="1.5", priority=100, port=8080),
        expect(g="2 run", low="1 evicted"),
    ),
    situation(
        "A gang evicts a pod for its topology spread",
        _FOUND + "preemption with pod topology spread constraints",
        nodes("- -", cpu=16), pods("low", 1, priority=10, node="n1", app="foo"),
        expect(low="1 run"), group("g", 2, priority=100),
        pods("g", 2, "g", priority=100, only="n1", app="foo", spec=_SKEW),
        expect(g="2 run", low="1 evicted"),
    ),
    situation(
        "A gang evicts for its topology spread where its pods are, not a lower pod elsewhere",
        _FOUND + "preemption with pod topology spread constraints, single reprieve",
        nodes("- -", cpu=16), pods("low", 1, priority=10, node="n1", app="foo"),
        pods("lowest", 1, priority=5, node="n2", app="foo"),
        expect(low="1 run", lowest="1 run"), group("g", 2, priority=100),
        pods("g", 2, "g", priority=100, only="n1", app="foo", spec=_SKEW),
        expect(g="2 run", low="1 evicted"),
    ),
    situation(
        "Later pods of a running gang take what is free and evict for the rest",
        _FOUND + "Binding first before preemption for gang policy",
        nodes("-", cpu=4), group("g", 2, priority=100), pods("g", 2, "g", priority=100),
        pods("low", 1, priority=10), expect(g="2 run", low="1 run"),
        pods("late", 2, "g", priority=100),
        expect(late="2 run", low="1 evicted"),
    ),
    situation(
        "Later pods of a running basic group take what is free and evict for the rest",
        _FOUND + "Binding first before preemption for basic policy",
        nodes("-", cpu=4), group("g", priority=100), pods("g", 2, "g", priority=100),
        pods("low", 1, priority=10), expect(g="2 run", low="1 run"),
        pods("late", 2, "g", priority=100),
        expect(late="2 run", low="1 evicted"),
    ),
    situation(
        "A gang evicts in the only rack",
        _FOUND + "Topology-Aware Preemption: single topology domain",
        nodes("r1 r1", cpu=1), pods("low", 2, priority=10, node="n1 n2"), expect(low="2 run"),
        pods("g", 2, "g", priority=100), group("g", 2, key="rack", priority=100),
        expect(g="2 run", low="2 evicted"),
    ),
    situation(
        "A gang evicts in the rack without higher pods",
        _FOUND + "Topology-Aware Preemption: two topologies, only one eligible",
        nodes("r1 r1 r2 r2", cpu=1), pods("low", 2, priority=10, node="n1 n2"), _HIGH,
        expect(low="2 run", high="2 run"),
        pods("g", 2, "g", priority=100), group("g", 2, key="rack", priority=100),
        expect(g="2 run", low="2 evicted"),
    ),
    situation(
        "A gang evicts nobody if each rack has a higher pod in its way",
        _FOUND + "Topology-Aware Preemption: insufficient capacity across all topologies",
        nodes("r1 r1 r2 r2", cpu=1), pods("low", 2, priority=10, node="n1 n3"),
        pods("high", 2, priority=200, node="n2 n4"), expect(low="2 run", high="2 run"),
        pods("g", 2, "g", priority=100), group("g", 2, key="rack", priority=100),
        expect(g="2 refused"),
    ),
    situation(
        "A gang is unschedulable as long as its victim terminates",
        _FOUND + "TestPodGroupPreemptionStatus",
        nodes("-", cpu=1), pods("low", 1, priority=10, lasting=True), expect(low="1 run"),
        group("g", 1, priority=100), pods("g", 1, "g", priority=100),
        expect(low="1 evicted", g="1 refused", status={"g": "Unschedulable"}),
    ),
    situation(
        "A gang waits for its victims to end, also if another node becomes free",
        _FOUND + "TestPodGroupPreemption_NominatedNodeNameRespected",
        _SINGLES, pods("high", 1, priority=100, node="n1"),
        pods("low", 2, priority=10, lasting=True), expect(high="1 run", low="2 run"),
        group("g", 2, priority=50), pods("g", 2, "g", priority=50),
        expect(low="2 evicted", g="2 wait"),
        delete("high"),
        expect(low="2 evicted", g="2 wait"),
    ),
)  # fmt: skip
