"""Feature gates: names, defaults, configuration, and the feature of an owner's groups."""

import pytest

from api.features import (
    GATES,
    USUAL,
    Feature,
    FeatureGates,
    FeatureStage,
    FeatureUse,
    faults_of,
    feature_of_owner,
    json_schema,
    refused,
)
from api.ownership import OwnerId


def test_every_feature_has_a_gate_in_the_order_of_the_list() -> None:
    assert list(GATES) == list(Feature)


def test_what_is_alpha_is_off_and_what_is_beta_is_on() -> None:
    """Kubernetes' gates have the same rule.

    A feature is off until an administrator could try it.
    """
    assert {it for it in Feature if it in USUAL} == {
        it for it, gate in GATES.items() if gate.stage is FeatureStage.BETA
    }
    assert USUAL.off == [it for it, gate in GATES.items() if not gate.default]


def test_what_is_said_stands_before_the_default() -> None:
    gates = FeatureGates.of({"CompositePodGroup": False, "DeviceClaims": True})

    assert Feature.COMPOSITE_POD_GROUP not in gates
    assert Feature.DEVICE_CLAIMS in gates
    assert Feature.TOPOLOGY in gates
    assert USUAL.without(Feature.COMPOSITE_POD_GROUP) == FeatureGates.of(
        {"CompositePodGroup": False}
    )


@pytest.mark.parametrize(
    ("name", "closest"),
    [
        pytest.param("CompositePodGroups", "CompositePodGroup", id="one letter more"),
        pytest.param("coscheduling", "Coscheduling", id="another case"),
        pytest.param("TopologyAware", "TopologyAwareWorkloadScheduling", id="a part of the name"),
    ],
)
def test_an_unknown_name_is_answered_with_the_closest_and_all(name: str, closest: str) -> None:
    (fault,) = faults_of({name: False, "WorkloadWithJob": True})

    assert fault.startswith(
        f"unrecognized feature gate: {name!r} (did you mean {closest}?); known feature gates: "
    )
    assert all(it in fault for it in Feature)


def test_a_name_like_none_gets_the_list_alone_and_a_long_one_is_cut() -> None:
    assert faults_of({"x": True}) == [
        f"unrecognized feature gate: 'x'; known feature gates: {', '.join(Feature)}"
    ]
    (fault,) = faults_of({"y" * 100_000: True})
    assert len(fault) < 600


@pytest.mark.parametrize(
    ("off", "feature", "want"),
    [
        pytest.param(Feature.WORKLOAD, Feature.POD_GROUP, Feature.WORKLOAD, id="next"),
        pytest.param(Feature.WORKLOAD, Feature.JOB, Feature.WORKLOAD, id="two steps away"),
        pytest.param(
            Feature.POD_GROUP, Feature.TOPOLOGY, Feature.POD_GROUP, id="of one in between"
        ),
        pytest.param(Feature.GANG, Feature.GANG, Feature.GANG, id="its own"),
        pytest.param(Feature.GANG, Feature.JOB, None, id="a Job may have a basic group"),
        pytest.param(Feature.POD_GROUP, Feature.WORKLOAD, None, id="not the other way round"),
        pytest.param(Feature.WORKLOAD, Feature.DEVICE_CLAIMS, None, id="no groups needed"),
    ],
)
def test_a_feature_is_off_without_what_it_requires(
    off: Feature, feature: Feature, want: Feature | None
) -> None:
    """KEP-4671, KEP-5832 and KEP-6012, feature enablement: 4671-091, 4671-092, 5832-46."""
    gates = FeatureGates.of({off: False})

    assert (feature not in gates) == (want is not None)
    assert gates == USUAL.without(off)
    if want is not None:
        assert gates.to_turn_on(feature) is want
        assert gates.off_text(feature) == f"feature gate {want} is off"


def test_gates_that_cannot_be_on_together_are_a_fault() -> None:
    said = {"GenericWorkload": False, "WorkloadWithJob": True, "WorkloadWithJobSet": False}

    (fault,) = faults_of(said)
    assert fault == (
        "WorkloadWithJob needs GenericWorkload, which is off: turn both on, or remove "
        "WorkloadWithJob"
    )
    assert faults_of(said | {"WorkloadWithJob": False}) == []


@pytest.mark.parametrize(
    ("group", "kind", "want"),
    [
        ("batch", "Job", Feature.JOB),
        ("jobset.x-k8s.io", "JobSet", Feature.JOBSET),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet", Feature.LEADER_WORKER_SET),
        ("ray.io", "RayCluster", Feature.RAY_CLUSTER),
        ("kubeflow.org", "MPIJob", Feature.MPI_JOB),
        ("coscheduling.muster.dev", "PodGroup", Feature.COSCHEDULING),
        ("scheduling.x-k8s.io", "PodGroup", Feature.COSCHEDULING),
        ("scheduling.muster.dev", "Workload", Feature.IMPLICIT_POD_GROUPS),
        ("example.com", "Trainer", None),
    ],
)
def test_whose_feature_an_owners_groups_are(group: str, kind: str, want: Feature | None) -> None:
    assert feature_of_owner(OwnerId(group, kind, "a", "uid")) is want
    assert feature_of_owner(None) is None


def test_a_use_of_what_is_off_names_field_gate_and_way_out() -> None:
    uses = [FeatureUse(Feature.TOPOLOGY, "spec.a"), FeatureUse(Feature.COMPOSITE_POD_GROUP, "kind")]

    (cause,) = refused(uses, USUAL.without(Feature.TOPOLOGY))

    assert cause.as_dict() == {
        "field": "spec.a",
        "reason": "FieldValueForbidden",
        "message": "Forbidden: feature gate TopologyAwareWorkloadScheduling is off: do not "
        "use this field, or ask an administrator to turn the gate on (featureGates in "
        "Muster's configuration)",
    }
    assert refused(uses, USUAL) == []


def test_what_requires_a_feature_that_is_off_is_said_once() -> None:
    names = (Feature.POD_GROUP, Feature.GANG, Feature.TOPOLOGY)
    uses = [
        FeatureUse(it, path) for it, path in zip(names, ("kind", "spec.a", "spec.b"), strict=True)
    ]

    (cause,) = refused(uses, USUAL.without(Feature.WORKLOAD))
    both = refused([*uses, uses[1]], USUAL.without(Feature.GANG))

    assert "feature gate GenericWorkload is off" in cause.as_dict()["message"]
    assert [it.as_dict()["field"] for it in both] == ["spec.a", "spec.a"]


def test_the_schema_has_every_gate_and_no_other() -> None:
    schema = json_schema()

    assert set(schema["properties"]) == set(Feature)
    assert schema["additionalProperties"] is False
