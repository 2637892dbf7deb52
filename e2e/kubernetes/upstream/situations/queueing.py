"""Groups that change while they wait: new pods, gated pods, deleted groups.

The cases that count or stop single scheduling attempts are left out: a user cannot see these.
"""

from e2e.kubernetes.upstream.situations.model import (
    Ungate,
    delete_group,
    expect,
    group,
    muster,
    nodes,
    pods,
    situation,
)

_NODE = nodes("-")
_SECOND = nodes("-", cpu=6)
_FOUND = "queueing/queueing_test.go: "

SITUATIONS = (
    situation(
        "A pod that joins a waiting gang waits with it, and starts with it",
        _FOUND + "Gang scheduling pod group queueing when new member pods are added",
        _NODE, group("g", 2), pods("g", 2, "g", cpu=2), expect(g="2 refused"),
        pods("more", 1, "g", cpu=2), expect(more="1 refused"),
        _SECOND, expect(g="2 run", more="1 run"),
        pods("last", 1, "g", cpu=2),
        expect(last="1 run"),
    ),
    situation(
        "A pod that joins a waiting basic group waits, and starts with it",
        _FOUND + "Basic policy pod group queueing when new member pods are added",
        _NODE, group("g"), pods("g", 1, "g", cpu=2), expect(g="1 run"),
        pods("more", 1, "g", cpu=2), expect(more="1 refused"),
        pods("last", 1, "g", cpu=2), expect(last="1 refused"),
        _SECOND,
        expect(more="1 run", last="1 run"),
    ),
    situation(
        "A gated pod keeps its gang waiting, though minCount other pods exist",
        _FOUND + "Single gated pod blocks gang group from being scheduled",
        _NODE, _SECOND, group("g", 2), pods("gated", 1, "g", cpu=2, gated=True),
        pods("g", 2, "g", cpu=2),
        expect(gated="1 wait", g="2 wait"),
        differs=muster(
            "A gated pod counts as one that does not exist yet: the others start.",
            gated="1 wait", g="2 run",
        ),
    ),
    situation(
        "A gated pod keeps its basic group waiting",
        _FOUND + "Single gated pod blocks basic group from being scheduled",
        _NODE, _SECOND, group("g"), pods("gated", 1, "g", cpu=2, gated=True),
        pods("g", 2, "g", cpu=2),
        expect(gated="1 wait", g="2 wait"),
        differs=muster(
            "A gated pod counts as one that does not exist yet: the others start.",
            gated="1 wait", g="2 run",
        ),
    ),
    situation(
        "A gang runs whole once its gated pod is not gated any longer",
        _FOUND + "Single gated pod blocks gang group until pod is ungated",
        _NODE, _SECOND, group("g", 2), pods("gated", 1, "g", cpu=2, gated=True),
        expect(gated="1 wait"),
        pods("g", 2, "g", cpu=2), Ungate("gated"),
        expect(gated="1 run", g="2 run"),
    ),
    situation(
        "All pods of a basic group run once none is gated any longer",
        _FOUND + "Single gated pod blocks basic group until pod is ungated",
        _NODE, _SECOND, group("g"), pods("gated", 1, "g", cpu=2, gated=True),
        expect(gated="1 wait"),
        pods("g", 2, "g", cpu=2), Ungate("gated"),
        expect(gated="1 run", g="2 run"),
    ),
    situation(
        "A waiting gang that gets a gated pod runs when it is not gated any longer",
        _FOUND + "Gang pod group in active queue becomes gated when a new gated member is added",
        _NODE, group("g", 2), pods("g", 2, "g", cpu=2), expect(g="2 refused"),
        pods("gated", 1, "g", cpu=2, gated=True), expect(gated="1 wait"),
        _SECOND, Ungate("gated"),
        expect(gated="1 run", g="2 run"),
    ),
    situation(
        "A waiting basic group that gets a gated pod runs when it is not gated any longer",
        _FOUND + "Basic pod group in active queue becomes gated when a new gated member is added",
        _NODE, group("g"), pods("g", 1, "g", cpu=2), expect(g="1 run"),
        pods("more", 1, "g", cpu=2), expect(more="1 refused"),
        pods("gated", 1, "g", cpu=2, gated=True), expect(gated="1 wait"),
        _SECOND, Ungate("gated"),
        expect(gated="1 run", more="1 run"),
    ),
    situation(
        "A new pod of a gang that was deleted while it runs waits",
        _FOUND + "gang is scheduled, then pod group is deleted",
        _NODE, group("g", 2), pods("g", 2, "g"), expect(g="2 run"),
        delete_group("g"), _SECOND, pods("late", 1, "g", cpu=2),
        expect(late="1 wait"),
    ),
    situation(
        "A new pod of a basic group that was deleted while it runs waits",
        _FOUND + "basic group is scheduled, then pod group is deleted",
        _NODE, group("g"), pods("g", 2, "g"), expect(g="2 run"),
        delete_group("g"), _SECOND, pods("late", 1, "g", cpu=2),
        expect(late="1 wait"),
    ),
    situation(
        "The pod that did not fit into a gang waits on when the gang is deleted",
        _FOUND + "gang is partially scheduled, then pod group is deleted",
        _NODE, group("g", 2), pods("g", 2, "g"), pods("more", 1, "g", cpu=2),
        expect(g="2 run", more="1 refused"),
        delete_group("g"), _SECOND,
        expect(more="1 wait"),
    ),
    situation(
        "The pod that did not fit into a basic group waits on when the group is deleted",
        _FOUND + "basic group is partially scheduled, then pod group is deleted",
        _NODE, group("g"), pods("g", 2, "g"), pods("more", 1, "g", cpu=2),
        expect(g="2 run", more="1 refused"),
        delete_group("g"), _SECOND,
        expect(more="1 wait"),
    ),
    situation(
        "The pods of a gang that is deleted while it waits do not start",
        _FOUND + "gang is unschedulable, then pod group is deleted",
        _NODE, group("g", 3), pods("g", 2, "g"), pods("more", 1, "g", cpu=2),
        expect(g="2 refused", more="1 refused"),
        delete_group("g"), _SECOND,
        expect(g="2 wait", more="1 wait"),
    ),
)  # fmt: skip
