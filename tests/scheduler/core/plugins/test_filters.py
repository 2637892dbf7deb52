"""Which nodes a pod may run on: the filters' answers, one sentence each."""

from __future__ import annotations

import pytest

from scheduler.core.explain import reasons
from scheduler.core.model import Expression, Requirements, Taint, Term, Toleration
from scheduler.core.place import SearchBudget
from tests.scheduler.state_builder import StateBuilder, requests

CORE = requests(1)


def wants(**fields: object) -> Requirements:
    return Requirements(CORE, **fields)  # type: ignore[arg-type]


def affinity(*expressions: Expression) -> Requirements:
    return wants(affinity=(Term(expressions),))


def tolerating(operator: str, key: str = "gpu", value: str = "", effect: str = "") -> Requirements:
    return wants(tolerations=(Toleration(key, operator, value, effect),))


@pytest.mark.parametrize(
    ("requirements", "want_nodes"),
    [
        pytest.param(wants(), "a b c", id="a plain pod avoids cordoned and tainted nodes"),
        pytest.param(wants(node_name="b"), "b", id="nodeName leaves one node"),
        pytest.param(wants(selector=(("zone", "x"),)), "a b", id="nodeSelector asks for equality"),
        pytest.param(affinity(Expression("zone", "In", ("x",))), "a b", id="In"),
        pytest.param(
            affinity(Expression("zone", "NotIn", ("x",))), "c", id="NotIn, unlabelled too"
        ),
        pytest.param(affinity(Expression("zone", "Exists", ())), "a b", id="Exists"),
        pytest.param(affinity(Expression("zone", "DoesNotExist", ())), "c", id="DoesNotExist"),
        pytest.param(affinity(Expression("size", "Gt", ("5",))), "b", id="Gt compares integers"),
        pytest.param(affinity(Expression("size", "Lt", ("5",))), "a", id="Lt compares integers"),
        pytest.param(affinity(Expression("size", "Gt", ("z",))), "", id="Gt of no integer"),
        pytest.param(wants(affinity=(Term(()),)), "", id="an empty term matches nothing"),
        pytest.param(wants(affinity=()), "", id="no term matches nothing"),
        pytest.param(
            wants(affinity=(Term((), (Expression("metadata.name", "In", ("c",)),)),)),
            "c",
            id="matchFields names a node",
        ),
        pytest.param(
            wants(affinity=(Term((), (Expression("metadata.name", "NotIn", ("c",)),)),)),
            "a b",
            id="matchFields NotIn leaves the others",
        ),
        pytest.param(
            wants(
                affinity=(
                    Term((), (Expression("metadata.name", "In", ("c",)),)),
                    Term((Expression("size", "In", ("3",)),)),
                )
            ),
            "a c",
            id="terms are alternatives, by name or by label",
        ),
        pytest.param(tolerating("Exists"), "a b c tainted", id="Exists tolerates any value"),
        pytest.param(tolerating("Exists", key=""), "a b c cordoned tainted", id="all tolerated"),
        pytest.param(tolerating("Equal", value="yes"), "a b c tainted", id="Equal value"),
        pytest.param(tolerating("", value="yes"), "a b c tainted", id="operator defaults to Equal"),
        pytest.param(tolerating("Equal", value="no"), "a b c", id="another value is no toleration"),
        pytest.param(
            tolerating("Exists", effect="NoExecute"), "a b c", id="another effect is none either"
        ),
        pytest.param(
            tolerating("Exists", key="node.kubernetes.io/unschedulable"),
            "a b c cordoned",
            id="a cordon can be tolerated",
        ),
    ],
)
def test_permitted_nodes(requirements: Requirements, want_nodes: str) -> None:
    builder = StateBuilder()
    builder.node("a", labels={"zone": "x", "size": "3"})
    builder.node("b", labels={"zone": "x", "size": "7"})
    builder.node("c", labels={"size": "big"})
    builder.node("cordoned", unschedulable=True)
    builder.node("tainted", taints=(Taint("gpu", "yes", "NoSchedule"),))
    nodes = builder.state.nodes

    shape = builder.state.shapes.intern(requirements)

    names = [
        nodes.name_of(row) for row in builder.state.framework.permitted(shape).nonzero()[0].tolist()
    ]
    assert sorted(names) == want_nodes.split()


@pytest.mark.parametrize(
    ("amounts", "want"),
    [
        pytest.param(requests(8), "Insufficient cpu", id="too few cores"),
        pytest.param(requests(1, gpu=1), "Insufficient gpu", id="a resource no node has"),
        pytest.param(requests(0), "Too many pods", id="only the pod count without requests"),
    ],
)
def test_reasons_name_the_resource(amounts: tuple[tuple[str, int], ...], want: str) -> None:
    builder = StateBuilder()
    builder.nodes(3)

    found = reasons(builder.state.framework, builder.state.shapes.intern(Requirements(amounts)))

    assert found == ((want, 3),)


def test_the_pod_count_is_a_resource() -> None:
    builder = StateBuilder()
    builder.node("n", pods=1)
    builder.pod(node="n", requirements=Requirements())
    shape = builder.state.shapes.intern(Requirements())

    assert reasons(builder.state.framework, shape) == (("Too many pods", 1),)


def test_one_node_counts_under_each_reason() -> None:
    builder = StateBuilder()
    builder.node("full", cpu=1, pods=1)
    builder.pod(node="full")
    builder.node("cordoned", unschedulable=True)
    shape = builder.state.shapes.intern(Requirements(CORE))

    assert reasons(builder.state.framework, shape) == (
        ("Insufficient cpu", 1),
        ("Too many pods", 1),
        ("node(s) were unschedulable", 1),
    )


def test_a_relabelled_node_is_judged_anew() -> None:
    builder = StateBuilder()
    builder.node("n", labels={"zone": "x"})
    shape = builder.state.shapes.intern(wants(selector=(("zone", "y"),)))
    before = int(builder.state.framework.slots(shape).sum())
    builder.node("n", labels={"zone": "y"})

    assert (before, int(builder.state.framework.slots(shape).sum())) == (0, 4)


def test_labels_nobody_asks_for_make_no_classes() -> None:
    builder = StateBuilder()
    for index in range(100):
        builder.node(f"n{index}", labels={"kubernetes.io/hostname": f"n{index}"})

    assert len(builder.state.nodes.classes.all) == 1


def prefers(value: str, weight: int = 1) -> tuple[int, Term]:
    return (weight, Term((Expression("disk", "In", (value,)),)))


@pytest.mark.parametrize("profile", ["pack", "spread"])
@pytest.mark.parametrize(
    ("requirements", "want"),
    [
        pytest.param(wants(), "ssd hdd", id="soft taints are avoided"),
        pytest.param(
            wants(preferred_node_affinity=(prefers("hdd"),)), "hdd", id="what is preferred"
        ),
        pytest.param(
            wants(preferred_node_affinity=(prefers("hdd", 1), prefers("ssd", 9))),
            "ssd",
            id="by weight",
        ),
        pytest.param(
            wants(
                preferred_node_affinity=(prefers("nvme"),),
                tolerations=(Toleration("slow", "Exists", "", ""),),
            ),
            "nvme",
            id="a soft taint may be tolerated",
        ),
        pytest.param(
            wants(preferred_node_affinity=(prefers("nvme"),)),
            "ssd hdd",
            id="a soft taint weighs more",
        ),
    ],
)
def test_soft_rules_choose_among_permitted_nodes(
    requirements: Requirements, want: str, profile: str
) -> None:
    builder = StateBuilder()
    for disk in ("nvme", "ssd", "hdd"):
        taints = (Taint("slow", "", "PreferNoSchedule"),) if disk == "nvme" else ()
        builder.node(disk, labels={"disk": disk}, taints=taints)
    builder.gang("g", 1)
    builder.pod("g", requirements=requirements)

    decision = builder.place(
        "g", budget=SearchBudget(profile="spread" if profile == "spread" else "pack")
    )

    assert set(builder.where(decision).values()) <= set(want.split())


def test_soft_rules_never_keep_a_pod_out() -> None:
    builder = StateBuilder()
    builder.node("n", 2, taints=(Taint("slow", "", "PreferNoSchedule"),))
    builder.gang("g", 2)
    for _ in range(2):
        builder.pod("g", requirements=wants(preferred_node_affinity=(prefers("nvme"),)))

    assert len(builder.where(builder.place("g"))) == 2
