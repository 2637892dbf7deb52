"""Gangs and basic groups on nodes without topology."""

from e2e.kubernetes.upstream.situations.model import (
    Minimum,
    Volume,
    delete,
    expect,
    group,
    in_turn,
    nodes,
    pods,
    situation,
)
from e2e.kubernetes.upstream.situations.objects import HOST

_NODE = nodes("-", cpu=4)
_FOO = {"labelSelector": {"matchLabels": {"app": "foo"}}, "topologyKey": HOST}
_APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_FOO]}}
_GUARD = pods("guard", 1, "g", only="n1", app="foo", spec={"affinity": _APART})
_OTHER = pods("other", 1, "g", app="foo")

SITUATIONS = (
    situation(
        "A gang that fits starts, and its condition says so",
        "podgroup_test.go: gang schedules when pod group and resources are available",
        _NODE, group("g", 3), pods("g", 3, "g"),
        expect(g="3 run", status={"g": "Scheduled"}),
    ),
    situation(
        "A pod that comes later joins its running gang",
        "podgroup_test.go: any available pod group members get scheduled",
        _NODE, group("g", 3), pods("g", 3, "g"), expect(g="3 run"),
        pods("late", 1, "g"),
        expect(late="1 run"),
    ),
    situation(
        "A gang waits until minCount pods exist",
        "podgroup_test.go: gang waits for quorum to start, then schedules",
        _NODE, group("g", 3), pods("g", 2, "g"), expect(g="2 wait"),
        pods("last", 1, "g"),
        expect(g="2 run", last="1 run"),
    ),
    situation(
        "Pods wait for their group, and then as a gang for capacity",
        "podgroup_test.go: gang waits for pod group, then for resources, then schedules",
        _NODE, pods("busy", 1, cpu=2), expect(busy="1 run"),
        pods("g", 3, "g"), expect(g="3 wait"),
        group("g", 3), expect(g="3 refused", status={"g": "Unschedulable"}),
        delete("busy"),
        expect(g="3 run", status={"g": "Scheduled"}),
    ),
    situation(
        "A gang starts with minCount pods, and its last pod waits for capacity",
        "podgroup_test.go: minCount is scheduled, but one pod from a gang remain unschedulable",
        _NODE, pods("busy", 1), expect(busy="1 run"),
        pods("g", 4, "g"), group("g", 3), expect(g="3 run 1 refused"),
        delete("busy"),
        expect(g="4 run"),
    ),
    situation(
        "Of two gangs whose pods come in turn the one that is complete first starts",
        "podgroup_test.go: two gangs competing for the same resources shouldn't deadlock",
        _NODE, group("a", 3), group("b", 3),
        in_turn(pods("a", 3, "a"), pods("b", 3, "b")),
        expect(a="3 run", b="3 refused"),
    ),
    situation(
        "The other one starts if its pods come first",
        "podgroup_test.go: two gangs competing for the same resources, reversed order",
        _NODE, group("a", 3), group("b", 3),
        in_turn(pods("b", 3, "b"), pods("a", 2, "a")), expect(b="3 run", a="2 wait"),
        pods("last", 1, "a"),
        expect(b="3 run", a="2 refused", last="1 refused"),
    ),
    situation(
        "A pod without a group that comes before a gang starts before it",
        "podgroup_test.go: pod group interleaving with an individual pod",
        _NODE, group("g", 3), pods("single", 1, cpu=2), pods("g", 3, "g"),
        expect(single="1 run", g="3 refused"),
    ),
    situation(
        "Pods of a basic group start as they come",
        "podgroup_test.go: basic group schedules when pod group and resources are available",
        _NODE, group("g"), pods("g", 1, "g"), expect(g="1 run"),
        pods("late", 2, "g"),
        expect(late="2 run"),
    ),
    situation(
        "Pods of a basic group wait for their group, and then each for capacity",
        "podgroup_test.go: basic group waits for pod group, part of it waits for resources",
        _NODE, pods("busy", 1, cpu=2), expect(busy="1 run"),
        pods("g", 3, "g"), expect(g="3 wait"),
        group("g"), expect(g="2 run 1 refused"),
        delete("busy"),
        expect(g="3 run"),
    ),
    situation(
        "A basic group evicts a lower pod",
        "podgroup_test.go: basic group schedules with workload-aware preemption",
        _NODE, pods("low", 1, cpu=2, priority=10), expect(low="1 run"),
        group("g", priority=100), pods("g", 4, "g", priority=100),
        expect(g="4 run", low="1 evicted"),
    ),
    situation(
        "A gang evicts all lower pods if it needs all of their capacity",
        "podgroup_test.go: gang schedules with workload-aware preemption",
        _NODE, pods("low", 4, priority=10), expect(low="4 run"),
        group("g", 3, priority=100), pods("g", 4, "g", priority=100),
        expect(g="4 run", low="4 evicted", status={"g": "Scheduled"}),
    ),
    situation(
        "A gang evicts the pods of the lowest priority",
        "podgroup_test.go: gang schedules with partial workload-aware preemption",
        _NODE, pods("lowest", 2, priority=5), pods("low", 2, priority=10),
        expect(lowest="2 run", low="2 run"),
        group("g", 2, priority=50), pods("g", 2, "g", priority=50),
        expect(g="2 run", lowest="2 evicted"),
    ),
    situation(
        "A gang that requires one rack evicts the pods of the lowest priority",
        "podgroup_test.go: tas gang with constraint uses workload preemption",
        nodes("r1", cpu=4), pods("lowest", 2, priority=5), pods("low", 2, priority=10),
        expect(lowest="2 run", low="2 run"),
        group("g", 2, key="rack", priority=50), pods("g", 2, "g", priority=50),
        expect(g="2 run", lowest="2 evicted"),
    ),
    situation(
        "A gang of mode all evicts no more lower pods than it needs",
        "podgroup_test.go: TestWorkloadAwarePreemptionInvocation",
        _NODE, pods("low", 4, priority=10), expect(low="4 run"),
        group("g", 3, mode="all", priority=100), pods("g", 3, "g", priority=100),
        expect(g="3 run", low="3 evicted 1 run"),
    ),
    situation(
        "A gang without minCount pods starts when minCount is lowered to what exists",
        "podgroup_test.go: lack of quorum, then scheduled when minCount is decreased",
        _NODE, group("g", 5), pods("g", 4, "g"), expect(g="4 wait"),
        Minimum("g", 4),
        expect(g="4 run"),
    ),
    situation(
        "A gang without capacity starts when minCount is lowered to what fits",
        "podgroup_test.go: lack of space, then scheduled when minCount is decreased",
        _NODE, group("g", 5), pods("g", 5, "g"), expect(g="5 refused"),
        Minimum("g", 4),
        expect(g="4 run 1 refused"),
    ),
    situation(
        "A gang without minCount pods waits on when minCount is raised",
        "podgroup_test.go: remain unschedulable when minCount is increased",
        _NODE, group("g", 5), pods("g", 4, "g"), expect(g="4 wait"),
        Minimum("g", 6),
        expect(g="4 wait"),
    ),
    situation(
        "A pod of a gang keeps others away by its anti-affinity, also from its own gang",
        "podgroup_affinity_test.go: anti-affinity honored across the cycle",
        nodes("- -"), group("g", 2), _GUARD, _OTHER,
        expect(guard="1 run", other="1 run", at={"guard": "n1", "other": "n2"}),
    ),
    situation(
        "A gang whose pods may not be on the only node together does not start",
        "podgroup_affinity_test.go: anti-affinity keeps the group unschedulable",
        nodes("-"), group("g", 2), _GUARD, _OTHER,
        expect(guard="1 refused", other="1 refused", status={"g": "Unschedulable"}),
    ),
    situation(
        "A gang whose pods share a volume for a single pod does not start",
        "podgroup_pvc_test.go: two pods sharing a ReadWriteOncePod PVC",
        nodes("-"), Volume("data"), group("g", 2), pods("g", 2, "g", volume="data"),
        expect(g="2 refused", status={"g": "Unschedulable"}),
    ),
    situation(
        "A gang whose pods have a volume each starts",
        "podgroup_pvc_test.go: two pods with distinct ReadWriteOncePod PVCs",
        nodes("-"), Volume("data-a"), Volume("data-b"), group("g", 2),
        pods("a", 1, "g", volume="data-a"), pods("b", 1, "g", volume="data-b"),
        expect(a="1 run", b="1 run"),
    ),
)  # fmt: skip
