"""Groups whose pods use ResourceClaims. The device is on n1 alone."""

from e2e.kubernetes.upstream.situations.model import (
    Claim,
    Devices,
    Situation,
    delete,
    delete_group,
    expect,
    group,
    nodes,
    pods,
    situation,
)

_PAIR = nodes("- -", cpu=32)


def _shared(name: str, case: str, count: int, minimum: int | None) -> Situation:
    """Return a group whose pods share one claim for the only device."""
    return situation(
        name, f"dra/pod_group.go: {case}",
        _PAIR, Devices("n1", 1), Claim("shared"), group("g", minimum),
        pods("members", count, "g", claims=("shared",)),
        expect(members=f"{count} run", at={"members": "n1"}, reserved={"shared": "members"}),
    )  # fmt: skip


SITUATIONS = (
    _shared("The pods of a small gang share a claim", "gang-2-pods-mincount-2", 2, 2),
    _shared("The pods of a large gang share a claim", "gang-20-pods-mincount-20", 20, 20),
    _shared("The pods beyond minCount share the claim too", "gang-5-pods-mincount-2", 5, 2),
    _shared("The pods of a small basic group share a claim", "basic-2-pods", 2, None),
    _shared("The pods of a large basic group share a claim", "basic-20-pods", 20, None),
    situation(
        "A gang whose pods share a claim, but not the node of its device, does not start",
        "dra/pod_group.go: incompatible-node-selectors",
        _PAIR, Devices("n1", 1), Claim("shared"), group("g", 2),
        pods("a", 1, "g", claims=("shared",), only="n1"),
        pods("b", 1, "g", claims=("shared",), only="n2"),
        expect(a="1 refused", b="1 refused"),
    ),
    situation(
        "A claim of a group is reserved for the group, and a claim of its pods for each of them",
        "dra/workload_resource_claims.go: reserved while pods come and go",
        _PAIR, Devices("n1", 2), Claim("whole"), Claim("each"), group("g", claims=("whole",)),
        pods("first", 1, "g", claims=("each", "whole")),
        expect(first="1 run", reserved={"whole": "g", "each": "first"}),
        pods("second", 1, "g", claims=("each", "whole")),
        expect(second="1 run", reserved={"whole": "g", "each": "first second"}),
        delete("first"), expect(reserved={"whole": "g", "each": "second"}),
        delete("second"), expect(reserved={"whole": "g", "each": ""}),
        delete_group("g"),
        expect(reserved={"whole": "", "each": ""}),
    ),
    situation(
        "The pods of a basic group start on the node that has the device of their group's claim",
        "dra/optional_node_operations.go: podgroup-scheduled-on-supported-node",
        _PAIR, Devices("n1", 1), Claim("whole"), group("g", claims=("whole",)),
        pods("members", 2, "g", claims=("whole",)),
        expect(members="2 run", at={"members": "n1"}, reserved={"whole": "g"}),
    ),
)  # fmt: skip
