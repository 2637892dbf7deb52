"""Feature gates: the features of Muster that can be switched off, and those that are on.

They behave like Kubernetes' own. A gate has a stage and a default, the configuration names those
that differ, and an unknown name is rejected. A gate has Kubernetes' name if Kubernetes has one for
the same feature. The set of gates is a value that processes get at their start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Final, NamedTuple

from api import causes
from api.causes import Cause
from api.constants import (
    COSCHEDULING,
    DEPLOYMENT,
    JOB,
    JOBSET,
    LEADER_WORKER_SET,
    MPI_JOB,
    PLUGINS_POD_GROUP,
    RAY_CLUSTER,
    STATEFUL_SET,
    WORKLOAD,
)
from api.groups import Form
from api.ownership import OwnerId


class FeatureStage(StrEnum):
    """The stage of a feature, as Kubernetes' metrics write it."""

    ALPHA = "ALPHA"
    BETA = "BETA"


class Feature(StrEnum):
    """The gates, by their names in the configuration."""

    WORKLOAD = "GenericWorkload"
    POD_GROUP = "GenericWorkloadPodGroup"
    GANG = "GangScheduling"
    COMPOSITE_POD_GROUP = "CompositePodGroup"
    TOPOLOGY = "TopologyAwareWorkloadScheduling"
    PREEMPTION = "WorkloadAwarePreemption"
    JOB = "WorkloadWithJob"
    JOBSET = "WorkloadWithJobSet"
    STATEFUL_SET = "WorkloadWithStatefulSet"
    DEPLOYMENT = "WorkloadWithDeployment"
    LEADER_WORKER_SET = "LeaderWorkerSets"
    RAY_CLUSTER = "WorkloadWithRayCluster"
    MPI_JOB = "WorkloadWithMPIJob"
    COSCHEDULING = "Coscheduling"
    IMPLICIT_POD_GROUPS = "ImplicitPodGroups"
    POD_GROUPS_FROM_PODS = "PodGroupsFromPods"
    DEVICE_CLAIMS = "DeviceClaims"
    EXPECTED_PODS = "ExpectedPods"
    RESERVATIONS = "GroupReservations"
    NATIVE_GROUPS = "NativeGroups"


class Gate(NamedTuple):
    """A summary of a feature, its stage and default."""

    summary: str
    stage: FeatureStage = FeatureStage.BETA
    default: bool = True


GATES: Final[Mapping[Feature, Gate]] = {
    Feature.WORKLOAD: Gate("Workloads, and all that needs them"),
    Feature.POD_GROUP: Gate("Muster's PodGroups, and all that needs them"),
    Feature.GANG: Gate("gang policies of groups: minCount and minGroupCount"),
    Feature.COMPOSITE_POD_GROUP: Gate(
        "trees of groups: CompositePodGroups, and groups with a parent"
    ),
    Feature.TOPOLOGY: Gate("required and preferred topology constraints of groups"),
    Feature.PREEMPTION: Gate("eviction of pods of lower priority"),
    Feature.JOB: Gate("groups created for Jobs"),
    Feature.JOBSET: Gate("groups created for JobSets"),
    Feature.STATEFUL_SET: Gate("groups created for StatefulSets"),
    Feature.DEPLOYMENT: Gate("groups created for Deployments"),
    Feature.LEADER_WORKER_SET: Gate("groups created for the replicas of LeaderWorkerSets"),
    Feature.RAY_CLUSTER: Gate(
        "groups created for RayClusters, including those of RayJobs and RayServices"
    ),
    Feature.MPI_JOB: Gate("groups created for MPIJobs"),
    Feature.COSCHEDULING: Gate("groups created for PodGroups of KEP-3370 and of scheduler-plugins"),
    Feature.IMPLICIT_POD_GROUPS: Gate(
        "groups created from the templates of a Workload for the pods that name these templates"
    ),
    Feature.POD_GROUPS_FROM_PODS: Gate(
        "groups created for pods that describe their group in annotations"
    ),
    Feature.DEVICE_CLAIMS: Gate("pods with resourceClaims (dynamic resource allocation)"),
    Feature.EXPECTED_PODS: Gate(
        "capacity reserved for pods of a group that do not exist yet", FeatureStage.ALPHA, False
    ),
    Feature.RESERVATIONS: Gate(
        "capacity reserved for a group before its first pod", FeatureStage.ALPHA, False
    ),
    Feature.NATIVE_GROUPS: Gate(
        "Kubernetes' own PodGroups and CompositePodGroups (`scheduling.k8s.io`), where the API "
        "server serves them"
    ),
}

_NEED_POD_GROUPS: Final = frozenset(Feature) - {
    Feature.WORKLOAD,
    Feature.POD_GROUP,
    Feature.PREEMPTION,
    Feature.DEVICE_CLAIMS,
    Feature.NATIVE_GROUPS,
}

_REQUIRED: Final[Mapping[Feature, Feature]] = {
    Feature.POD_GROUP: Feature.WORKLOAD,
    **dict.fromkeys(_NEED_POD_GROUPS, Feature.POD_GROUP),
    Feature.RESERVATIONS: Feature.EXPECTED_PODS,
}
"""Feature -> the feature without which it is off (KEP-4671, KEP-5832 and KEP-6012, enablement)."""

REFUSED_TEXT: Final = (
    "feature gate %s is off: do not use this field, or ask an administrator to turn the gate on "
    "(featureGates in Muster's configuration)"
)

_OF_OWNERS: Final = {
    (JOB.group, JOB.kind): Feature.JOB,
    (JOBSET.group, JOBSET.kind): Feature.JOBSET,
    (STATEFUL_SET.group, STATEFUL_SET.kind): Feature.STATEFUL_SET,
    (DEPLOYMENT.group, DEPLOYMENT.kind): Feature.DEPLOYMENT,
    (LEADER_WORKER_SET.group, LEADER_WORKER_SET.kind): Feature.LEADER_WORKER_SET,
    (RAY_CLUSTER.group, RAY_CLUSTER.kind): Feature.RAY_CLUSTER,
    (MPI_JOB.group, MPI_JOB.kind): Feature.MPI_JOB,
    (COSCHEDULING.group, COSCHEDULING.kind): Feature.COSCHEDULING,
    (PLUGINS_POD_GROUP.group, PLUGINS_POD_GROUP.kind): Feature.COSCHEDULING,
    (WORKLOAD.group, WORKLOAD.kind): Feature.IMPLICIT_POD_GROUPS,
}

_OF_FORMS: Final = {
    Form.WORKLOAD: Feature.IMPLICIT_POD_GROUPS,
    Form.COSCHEDULING: Feature.COSCHEDULING,
}


def _required_by(feature: Feature) -> list[Feature]:
    """Return the features that this one requires, the most basic one first."""
    needed = _REQUIRED.get(feature)
    return [*_required_by(needed), needed] if needed is not None else []


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """The features that are on."""

    on: frozenset[Feature]

    @classmethod
    def of(cls, said: Mapping[str, bool]) -> FeatureGates:
        """Return the defaults with the configured values; unknown names are ignored.

        A feature is off, too, if one is off that it requires.
        """
        wanted = {it for it in Feature if said.get(it, GATES[it].default)}
        return cls(frozenset(it for it in wanted if wanted.issuperset(_required_by(it))))

    def __contains__(self, feature: Feature) -> bool:
        return feature in self.on

    @property
    def off(self) -> list[Feature]:
        """The features that are off, in the order of the table."""
        return [it for it in Feature if it not in self.on]

    def without(self, *features: Feature) -> FeatureGates:
        """Return the gates without these features, and without those that require them."""
        return FeatureGates.of({it: it in self.on and it not in features for it in Feature})

    def to_turn_on(self, feature: Feature) -> Feature:
        """Return the gate that keeps this feature off: its own, or that of one it requires."""
        return next((it for it in _required_by(feature) if it not in self.on), feature)

    def off_text(self, feature: Feature) -> str:
        """Return the phrase for a feature that is off, with the gate to turn on."""
        return f"feature gate {self.to_turn_on(feature)} is off"


USUAL: Final = FeatureGates.of({})
"""The gates without any configuration."""


def faults_of(said: Mapping[str, bool]) -> list[str]:
    """Return a sentence for each name that is no gate, and for gates that cannot be on together."""
    known = [it.value for it in Feature]
    unknown = [_unknown(name, known) for name in said if name not in known]
    asked = (it for it in Feature if said.get(it))
    return unknown + [
        f"{it} needs {first}, which is off: turn both on, or remove {it}"
        for it in asked
        if (first := next((need for need in _required_by(it) if not said.get(need, True)), None))
    ]


def feature_of_form(form: Form) -> Feature | None:
    """Return the feature that creates groups which pods name in this form, if any."""
    return _OF_FORMS.get(form)


def feature_of_owner(owner: OwnerId | None) -> Feature | None:
    """Return the feature that creates groups for this owner; None for a user's own group."""
    return None if owner is None else _OF_OWNERS.get((owner.group, owner.kind))


class FeatureUse(NamedTuple):
    """The use of a feature by an object, and the field that uses it."""

    feature: Feature
    path: str


def refused(uses: Iterable[FeatureUse], gates: FeatureGates) -> list[Cause]:
    """Return a cause for each use of a feature that is off, and one for all that require it."""
    found: list[Cause] = []
    named: set[Feature] = set()
    for feature, path in uses:
        gate = gates.to_turn_on(feature)
        if gate in gates or (gate in named and gate is not feature):
            continue
        named.add(gate)
        found.append(causes.forbidden(path, REFUSED_TEXT % gate))
    return found


def json_schema() -> dict[str, Any]:
    """Return the schema of `featureGates`."""
    return {
        "title": "FeatureGates",
        "description": "featureGates is a map of feature names to booleans that turn features on "
        "or off. See docs/feature-gates.md.",
        "type": "object",
        "properties": {
            name.value: {
                "type": "boolean",
                "description": f"{gate.stage}, {'on' if gate.default else 'off'} by default:"
                f" {gate.summary}.",
            }
            for name, gate in GATES.items()
        },
        "additionalProperties": False,
    }


def _unknown(name: str, known: list[str]) -> str:
    # The name is from a user's file and may be long. Matching takes quadratic time.
    shown = name[:64]
    closest = get_close_matches(shown, known, n=1, cutoff=0.4)
    meant = f" (did you mean {closest[0]}?)" if closest else ""
    return f"unrecognized feature gate: {shown!r}{meant}; known feature gates: {', '.join(known)}"
