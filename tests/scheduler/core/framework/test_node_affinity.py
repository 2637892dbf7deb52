"""NodeAffinity: node selectors and node affinity, required and preferred."""

import pytest

from scheduler.core.values.model import Expression, NodeTerm, Requirements
from tests.scheduler.core.framework.cluster import chosen_disk, permitted_nodes, prefers_disk, wants


def affinity(*expressions: Expression) -> Requirements:
    return wants(affinity=(NodeTerm(expressions),))


@pytest.mark.parametrize(
    ("requirements", "want_nodes"),
    [
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
        pytest.param(wants(affinity=(NodeTerm(()),)), "", id="an empty term matches nothing"),
        pytest.param(wants(affinity=()), "", id="no term matches nothing"),
        pytest.param(
            wants(affinity=(NodeTerm((), (Expression("metadata.name", "In", ("c",)),)),)),
            "c",
            id="matchFields names a node",
        ),
        pytest.param(
            wants(affinity=(NodeTerm((), (Expression("metadata.name", "NotIn", ("c",)),)),)),
            "a b",
            id="matchFields NotIn leaves the others",
        ),
        pytest.param(
            wants(
                affinity=(
                    NodeTerm((), (Expression("metadata.name", "In", ("c",)),)),
                    NodeTerm((Expression("size", "In", ("3",)),)),
                )
            ),
            "a c",
            id="terms are alternatives, by name or by label",
        ),
    ],
)
def test_permitted_nodes(requirements: Requirements, want_nodes: str) -> None:
    assert permitted_nodes(requirements) == want_nodes.split()


@pytest.mark.parametrize("profile", ["pack", "spread"])
@pytest.mark.parametrize(
    ("requirements", "want"),
    [
        pytest.param(
            wants(preferred_node_affinity=(prefers_disk("hdd"),)), "hdd", id="what is preferred"
        ),
        pytest.param(
            wants(preferred_node_affinity=(prefers_disk("hdd", 1), prefers_disk("ssd", 9))),
            "ssd",
            id="by weight",
        ),
    ],
)
def test_soft_rules_choose_among_permitted_nodes(
    requirements: Requirements, want: str, profile: str
) -> None:
    assert chosen_disk(requirements, profile) <= set(want.split())
