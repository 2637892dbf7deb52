"""The features that objects of ours use, and the fields that use them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.features import Feature
from api.rules.feature_use import uses_of

OURS = "scheduling.muster.dev"
RACK = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
NESTED = "spec.compositePodGroupTemplates[0].podGroupTemplates[0]"
GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}
TREE, TOPOLOGY = Feature.COMPOSITE_POD_GROUP, Feature.TOPOLOGY
WORKLOAD, POD_GROUP = Feature.WORKLOAD, Feature.POD_GROUP

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "spec",
                    "podGroupTemplates",
                    "compositePodGroupTemplates",
                    "schedulingConstraints",
                    "schedulingPolicy",
                    "gang",
                    "topology",
                    "parentCompositePodGroupName",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("kind", "spec", "want"),
    [
        pytest.param("PodGroup", {}, [(POD_GROUP, "kind")], id="a plain group"),
        pytest.param(
            "PodGroup",
            GANG,
            [(POD_GROUP, "kind"), (Feature.GANG, "spec.schedulingPolicy.gang")],
            id="a gang",
        ),
        pytest.param(
            "PodGroup",
            {"schedulingPolicy": {"basic": {}}},
            [(POD_GROUP, "kind")],
            id="a basic group",
        ),
        pytest.param(
            "PodGroup",
            {"expectedPods": [{"name": "worker"}]},
            [(POD_GROUP, "kind"), (Feature.EXPECTED_PODS, "spec.expectedPods")],
            id="a group that expects pods",
        ),
        pytest.param(
            "PodGroup",
            {"parentCompositePodGroupName": "top", **RACK},
            [
                (POD_GROUP, "kind"),
                (TREE, "spec.parentCompositePodGroupName"),
                (TOPOLOGY, "spec.schedulingConstraints.topology"),
            ],
            id="a leaf of a tree with a topology",
        ),
        pytest.param(
            "PodGroup",
            {"parentCompositePodGroupName": "", "schedulingConstraints": {"topology": []}},
            [(POD_GROUP, "kind")],
            id="empty fields use nothing",
        ),
        pytest.param(
            "CompositePodGroup",
            RACK,
            [(TREE, "kind"), (TOPOLOGY, "spec.schedulingConstraints.topology")],
            id="a composite with a topology",
        ),
        pytest.param(
            "Workload",
            {"podGroupTemplates": [{}, RACK]},
            [
                (WORKLOAD, "kind"),
                (TOPOLOGY, "spec.podGroupTemplates[1].schedulingConstraints.topology"),
            ],
            id="the second template",
        ),
        pytest.param(
            "Workload",
            {"podGroupTemplates": [GANG]},
            [(WORKLOAD, "kind"), (Feature.GANG, "spec.podGroupTemplates[0].schedulingPolicy.gang")],
            id="a gang's template",
        ),
        pytest.param(
            "Workload",
            {"compositePodGroupTemplates": [{"podGroupTemplates": [RACK]}]},
            [
                (WORKLOAD, "kind"),
                (TREE, "spec.compositePodGroupTemplates"),
                (
                    TOPOLOGY,
                    f"{NESTED}.schedulingConstraints.topology",
                ),
            ],
            id="a template inside a tree",
        ),
    ],
)
def test_what_a_group_or_workload_uses(
    kind: str, spec: dict[str, Any], want: list[tuple[Feature, str]]
) -> None:
    assert list(uses_of(OURS, kind, {"spec": spec})) == want


@pytest.mark.parametrize(("note", "uses"), [("Creation", True), ("FirstPod", False)])
def test_a_group_whose_places_are_held_from_its_creation_is_a_reservation(
    note: str, uses: bool
) -> None:
    key = "scheduling.muster.dev/hold-from"
    made = {"metadata": {"annotations": {key: note}}, "spec": {}}

    found = list(uses_of(OURS, "PodGroup", made))

    assert ((Feature.RESERVATIONS, f"metadata.annotations[{key}]") in found) is uses


def test_a_coscheduling_group_uses_its_feature_and_a_kind_of_others_none() -> None:
    assert list(uses_of("coscheduling.muster.dev", "PodGroup", {})) == [
        (Feature.COSCHEDULING, "kind")
    ]
    assert list(uses_of("scheduling.k8s.io", "PodGroup", {"spec": RACK})) == []


@given(
    kind=st.sampled_from(["PodGroup", "CompositePodGroup", "Workload"]),
    obj=st.dictionaries(st.just("spec"), JSON),
)
def test_any_structure_is_read(kind: str, obj: dict[str, Any]) -> None:
    for feature, path in uses_of(OURS, kind, obj):
        assert feature in (WORKLOAD, POD_GROUP, Feature.GANG, TREE, TOPOLOGY)
        assert path


def test_templates_deeper_than_a_tree_are_not_entered() -> None:
    spec: dict[str, Any] = dict(RACK)
    for _ in range(900):
        spec = {"compositePodGroupTemplates": [spec]}

    assert [it.feature for it in uses_of(OURS, "Workload", {"spec": spec})] == [WORKLOAD, TREE]
