"""Basic groups that require one rack or one zone. Nodes have 2 cpu each.

The first pod decides: kube-scheduler does not know how many more will come.
"""

from e2e.kubernetes.upstream.situations.model import delete, expect, group, nodes, pods, situation

_FOUND = "tas_test.go: basic podgroup "
_RACK = group("g", key="rack")
_NEXT = group("h", key="rack")

SITUATIONS = (
    situation(
        "A basic group starts in the only rack",
        _FOUND + "schedules on the only rack in the cluster",
        nodes("r1 r1"), _RACK, pods("g", 3, "g"),
        expect(g="3 run"),
    ),
    situation(
        "A basic group goes to one of several racks",
        _FOUND + "schedules all pods on a single rack, when multiple racks fit",
        nodes("z1/r1 z1/r1 z1/r2 z1/r2 z2/r3 z2/r3"), _RACK, pods("g", 3, "g"),
        expect(g="3 run", together=(("rack", "g"),)),
    ),
    situation(
        "The pod of a basic group that does not fit into its rack waits",
        _FOUND + "cannot fit on a single rack, no pods get scheduled on a different rack",
        nodes("r1 r2"), _RACK, pods("g", 3, "g"),
        expect(g="2 run 1 refused", together=(("rack", "g"),)),
    ),
    situation(
        "A basic group waits if none of its pods fits",
        _FOUND + "does not schedule at all when no pods fit",
        nodes("r1 r2"), _RACK, pods("g", 2, "g", cpu=3),
        expect(g="2 refused"),
    ),
    situation(
        "The pods of a basic group that fit start",
        _FOUND + "schedules only some pods when others don't fit on any node",
        nodes("r1 r2"), _RACK, pods("huge", 1, "g", cpu=3), pods("g", 1, "g"),
        expect(huge="1 refused", g="1 run"),
    ),
    situation(
        "A basic group goes to the rack that it fills best",
        _FOUND + "choosing placement with highest allocation percentage",
        nodes("z1/r1 z1/r1 z2/r2 z2/r2 z2/r2"), _RACK, pods("g", 3, "g"),
        expect(g="3 run", at={"g": "n1 n2"}),
    ),
    situation(
        "A basic group goes to the rack that is fullest with it, running pods counted",
        _FOUND + "choosing placement with highest allocation with pre-existing pods",
        nodes("z1/r1 z1/r1 z1/r1 z2/r2 z2/r2 z2/r2 z2/r3 z2/r3 z2/r3 z2/r3"),
        pods("busy1", 1, node="n1"), pods("busy5", 1, node="n5"), pods("busy6", 1, node="n6"),
        expect(busy1="1 run", busy5="1 run", busy6="1 run"), _RACK, pods("g", 3, "g"),
        expect(g="3 run", at={"g": "n4 n5 n6"}),
    ),
    situation(
        "The first pod of a basic group takes a rack that has no capacity for the others",
        _FOUND + "choosing best scoring placement that will not fit all podgroup",
        nodes("r1 r1 r1 r1 r2"), pods("busy", 1, cpu=2, node="n1"), expect(busy="1 run"),
        _RACK, pods("first", 1, "g"), expect(first="1 run"), pods("g", 2, "g"),
        expect(g="1 run 1 refused", at={"first": "n5", "g": "n5"}),
    ),
    situation(
        "Two basic groups each get a rack",
        "tas_test.go: two basic podgroups schedule consecutively, each on a single rack",
        nodes("r1 r1 r1 r2"), _RACK, pods("g", 2, "g"), expect(g="2 run"),
        _NEXT, pods("h", 2, "h"),
        expect(h="2 run", at={"g": "n4", "h": "n1 n2 n3"}),
    ),
    situation(
        "Two basic groups share the only rack",
        "tas_test.go: two basic podgroups schedule consecutively on the only rack",
        nodes("r1 r1 r1"), _RACK, pods("g", 2, "g"), _NEXT, pods("h", 3, "h"),
        expect(g="2 run", h="3 run"),
    ),
    situation(
        "A basic group that requires a zone gets one next to a group that requires a rack",
        "tas_test.go: two basic podgroups schedule consecutively, different topology keys",
        nodes("z1/r1 z2/r2 z2/r2 z2/r3 z2/r3"), _RACK, pods("g", 2, "g"), expect(g="2 run"),
        group("h", key="zone"), pods("h", 3, "h", cpu=2),
        expect(h="3 run", at={"g": "n1", "h": "n2 n3 n4 n5"}),
    ),
    situation(
        "A later pod of a basic group waits for its rack, and the next group gets another one",
        "tas_test.go: two basic podgroups, one does not fit in the assigned rack",
        nodes("r1 r1 r2"), _RACK, pods("first", 1, "g"), expect(first="1 run"),
        pods("g", 2, "g"), expect(g="1 run 1 refused", at={"first": "n3", "g": "n3"}),
        _NEXT, pods("h", 3, "h"),
        expect(h="3 run", at={"h": "n1 n2"}),
    ),
    situation(
        "A later pod of a basic group starts in its rack when a pod there ends",
        _FOUND + "continues to schedule pods when more resources become available",
        nodes("r1 r2"), pods("busy", 1, node="n1"), expect(busy="1 run"),
        _RACK, pods("first", 1, "g"), expect(first="1 run", at={"first": "n1"}),
        pods("late", 1, "g"), expect(late="1 refused"),
        delete("busy"),
        expect(late="1 run", at={"first": "n1", "late": "n1"}),
    ),
)  # fmt: skip
