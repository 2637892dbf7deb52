"""The rules of a Workload: every fault with its path and reason, all in one answer."""

from typing import Any

import pytest

from api.rules import validate

Json = dict[str, Any]
GANG: Json = {"gang": {"minCount": 2}}
GROUP_GANG: Json = {"gang": {"minGroupCount": 1}}
REQUIRED, INVALID = "FieldValueRequired", "FieldValueInvalid"
DUPLICATE, TOO_MANY = "FieldValueDuplicate", "FieldValueTooMany"


def leaf(name: Any = "pg", **fields: Any) -> Json:
    return {"name": name, "schedulingPolicy": GANG} | fields


def composite(name: str = "cpg", **fields: Any) -> Json:
    return {"name": name, "schedulingPolicy": GROUP_GANG} | fields


def flat(*leaves: Json, **fields: Any) -> Json:
    return {"podGroupTemplates": list(leaves) or [leaf()]} | fields


def tree(*composites: Json) -> Json:
    return {"compositePodGroupTemplates": list(composites)}


def chain(depth: int) -> Json:
    """Composites one below the other, a leaf at the level below the last."""
    node = composite(f"c{depth}", podGroupTemplates=[leaf()])
    for level in range(depth - 1, 0, -1):
        node = composite(f"c{level}", compositePodGroupTemplates=[node])
    return tree(node)


def faults(spec: Any) -> list[tuple[str, str]]:
    verdict = validate("Workload", {"metadata": {"name": "w"}, "spec": spec}, None, "CREATE")
    return [(cause.field, cause.reason) for cause in verdict.causes]


TEMPLATE = "spec.podGroupTemplates[0]"
ROOT = "spec.compositePodGroupTemplates[0]"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(flat(), id="one gang"),
        pytest.param(flat(*(leaf(f"pg-{at}") for at in range(8))), id="eight templates"),
        pytest.param(flat(leaf(schedulingPolicy={"basic": {}})), id="a basic group"),
        pytest.param(chain(3), id="a tree of four levels"),
        pytest.param(
            flat(controllerRef={"apiGroup": "batch", "kind": "Job", "name": "a"}),
            id="with an owner",
        ),
        pytest.param(
            flat(controllerRef={"kind": "Pod", "name": "a"}), id="an owner of the core group"
        ),
        pytest.param(
            flat(leaf(priority=2_000_000_000, priorityClassName="system-cluster-critical")),
            id="a system class above the users' range",
        ),
        pytest.param(
            tree(composite(disruptionMode={"single": {}}, podGroupTemplates=[leaf()])),
            id="mode single over a child without a mode",
        ),
        pytest.param(
            flat(leaf(schedulingConstraints={"topology": [{"key": "example.com/rack"}]})),
            id="one topology",
        ),
    ],
)
def test_accepted(spec: Json) -> None:
    assert faults(spec) == []


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, [("spec", REQUIRED)], id="no templates"),
        pytest.param(None, [("spec", REQUIRED)], id="no spec"),
        pytest.param(
            flat() | tree(composite(podGroupTemplates=[leaf("child")])),
            [("spec", INVALID)],
            id="both kinds of templates",
        ),
        pytest.param(
            flat(*(leaf(f"pg-{at}") for at in range(9))),
            [("spec.podGroupTemplates", TOO_MANY)],
            id="nine templates",
        ),
        pytest.param(
            tree(composite(podGroupTemplates=[leaf(f"pg-{at}") for at in range(9)])),
            [(f"{ROOT}.podGroupTemplates", TOO_MANY)],
            id="nine children",
        ),
        pytest.param(
            flat(leaf("")), [(f"{TEMPLATE}.name", REQUIRED)], id="a template without a name"
        ),
        pytest.param(
            flat(leaf("x" * 64)), [(f"{TEMPLATE}.name", INVALID)], id="a name too long for a label"
        ),
        pytest.param(flat(leaf("a.b")), [(f"{TEMPLATE}.name", INVALID)], id="a name with a dot"),
        pytest.param(
            tree(composite("same", podGroupTemplates=[leaf("same")])),
            [(f"{ROOT}.podGroupTemplates[0].name", DUPLICATE)],
            id="one name twice in the tree",
        ),
        pytest.param(tree(composite()), [(ROOT, INVALID)], id="a composite without children"),
        pytest.param(
            chain(4),
            [(ROOT + ".compositePodGroupTemplates[0]" * 3, INVALID)],
            id="a composite on the fourth level",
        ),
        pytest.param(
            flat(leaf(schedulingPolicy=None)),
            [(f"{TEMPLATE}.schedulingPolicy", REQUIRED)],
            id="no policy",
        ),
        pytest.param(
            flat(leaf(schedulingPolicy={})),
            [(f"{TEMPLATE}.schedulingPolicy", INVALID)],
            id="an empty policy",
        ),
        pytest.param(
            flat(leaf(schedulingPolicy=GANG | {"basic": {}})),
            [(f"{TEMPLATE}.schedulingPolicy", INVALID)],
            id="two policies",
        ),
        pytest.param(
            flat(leaf(schedulingPolicy={"gang": {}})),
            [(f"{TEMPLATE}.schedulingPolicy.gang.minCount", REQUIRED)],
            id="a gang without a floor",
        ),
        pytest.param(
            flat(leaf(schedulingPolicy={"gang": {"minCount": 0}})),
            [(f"{TEMPLATE}.schedulingPolicy.gang.minCount", INVALID)],
            id="minCount 0",
        ),
        pytest.param(
            tree(
                composite(
                    schedulingPolicy={"gang": {"minGroupCount": 0}}, podGroupTemplates=[leaf()]
                )
            ),
            [(f"{ROOT}.schedulingPolicy.gang.minGroupCount", INVALID)],
            id="minGroupCount 0",
        ),
        pytest.param(
            flat(leaf(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]})),
            [(f"{TEMPLATE}.schedulingConstraints.topology", TOO_MANY)],
            id="two topologies",
        ),
        pytest.param(
            flat(leaf(schedulingConstraints={"topology": [{}]})),
            [(f"{TEMPLATE}.schedulingConstraints.topology[0].key", REQUIRED)],
            id="a topology without a key",
        ),
        pytest.param(
            flat(leaf(schedulingConstraints={"topology": [{"key": "not a label"}]})),
            [(f"{TEMPLATE}.schedulingConstraints.topology[0].key", INVALID)],
            id="a topology key that is no label key",
        ),
        pytest.param(
            flat(leaf(disruptionMode={"single": {}, "all": {}})),
            [(f"{TEMPLATE}.disruptionMode", INVALID)],
            id="two disruption modes",
        ),
        pytest.param(
            tree(composite(disruptionMode={"all": {}}, podGroupTemplates=[leaf()])),
            [(f"{ROOT}.podGroupTemplates[0].disruptionMode", INVALID)],
            id="mode all over a child without a mode",
        ),
        pytest.param(
            flat(leaf("a", priorityClassName="high"), leaf("b")),
            [("spec.podGroupTemplates[1].priorityClassName", INVALID)],
            id="two priority classes in one Workload",
        ),
        pytest.param(
            flat(leaf("a", priority=1), leaf("b", priority=2)),
            [("spec.podGroupTemplates[1].priority", INVALID)],
            id="two priorities in one Workload",
        ),
        pytest.param(
            flat(leaf(priority=1_000_000_001)), [(f"{TEMPLATE}.priority", INVALID)], id="above 10^9"
        ),
        pytest.param(
            flat(leaf(priorityClassName="Not Valid")),
            [(f"{TEMPLATE}.priorityClassName", INVALID)],
            id="a class name that is none",
        ),
        pytest.param(
            flat(leaf(preemptionPolicy="Sometimes")),
            [(f"{TEMPLATE}.preemptionPolicy", "FieldValueNotSupported")],
            id="an unknown preemption policy",
        ),
        pytest.param(
            flat(controllerRef={}),
            [("spec.controllerRef.kind", REQUIRED), ("spec.controllerRef.name", REQUIRED)],
            id="an empty controllerRef",
        ),
        pytest.param(
            flat(controllerRef={"apiGroup": "Batch", "kind": "a/b", "name": ".."}),
            [
                ("spec.controllerRef.kind", INVALID),
                ("spec.controllerRef.name", INVALID),
                ("spec.controllerRef.apiGroup", INVALID),
            ],
            id="a controllerRef of no valid names",
        ),
        pytest.param(
            flat(
                leaf(
                    resourceClaims=[{"name": f"c{at}", "resourceClaimName": "x"} for at in range(5)]
                )
            ),
            [(f"{TEMPLATE}.resourceClaims", TOO_MANY)],
            id="five claims",
        ),
        pytest.param(
            flat(leaf(resourceClaims=[{"name": "c", "resourceClaimName": "x"}] * 2)),
            [(f"{TEMPLATE}.resourceClaims[1].name", DUPLICATE)],
            id="one claim name twice",
        ),
        pytest.param(
            flat(leaf(resourceClaims=[{"name": "c"}, {"resourceClaimName": "X"}, {"name": "A"}])),
            [
                (f"{TEMPLATE}.resourceClaims[0]", INVALID),
                (f"{TEMPLATE}.resourceClaims[1].name", REQUIRED),
                (f"{TEMPLATE}.resourceClaims[1].resourceClaimName", INVALID),
                (f"{TEMPLATE}.resourceClaims[2].name", INVALID),
                (f"{TEMPLATE}.resourceClaims[2]", INVALID),
            ],
            id="claims with a fault each",
        ),
        pytest.param(
            {"podGroupTemplates": "many"},
            [("spec.podGroupTemplates", "FieldValueTypeInvalid"), ("spec", REQUIRED)],
            id="a list that is a string",
        ),
        pytest.param(
            flat(leaf(schedulingPolicy={"gang": {"minCount": True}})),
            [(f"{TEMPLATE}.schedulingPolicy.gang.minCount", "FieldValueTypeInvalid")],
            id="a floor that is a boolean",
        ),
    ],
)
def test_refused(spec: Any, want: list[tuple[str, str]]) -> None:
    assert faults(spec) == want


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(
            {"podGroupTemplates": [3]}, (f"{TEMPLATE}", "FieldValueTypeInvalid"), id="a template"
        ),
        pytest.param(flat(leaf(7)), (f"{TEMPLATE}.name", "FieldValueTypeInvalid"), id="a name"),
        pytest.param(
            flat(leaf(priority=2**40)),
            (f"{TEMPLATE}.priority", "FieldValueTypeInvalid"),
            id="int32",
        ),
        pytest.param("text", ("spec", "FieldValueTypeInvalid"), id="the spec"),
    ],
)
def test_wrong_types_are_reported_where_they_are(spec: Any, want: tuple[str, str]) -> None:
    assert want in faults(spec)


def test_all_faults_come_in_one_answer() -> None:
    spec = flat(leaf("", schedulingPolicy={"gang": {"minCount": 0}}), controllerRef={"kind": "Job"})

    assert faults(spec) == [
        ("spec.controllerRef.name", REQUIRED),
        (f"{TEMPLATE}.name", REQUIRED),
        (f"{TEMPLATE}.schedulingPolicy.gang.minCount", INVALID),
    ]


def test_the_text_says_what_to_do() -> None:
    verdict = validate("Workload", {"spec": chain(4)}, None, "CREATE")

    assert [cause.message for cause in verdict.causes] == [
        'Invalid value: "object": maximum template hierarchy depth is 4'
    ]
