"""Kubernetes' own groups for new owners: the choice of the API, and the form of their objects.

The choice is made when the owner is created, and never changes: the name of the group in the pods
decides which kind it is of. So no group has objects of both APIs, and a running gang keeps its own
when the configuration changes.

The names of native groups are unique (`api.names.request_digits`). A pod states no owner of its
native group, so no later owner of the same name may ever use the group.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_GROUPS_API,
    ANNOTATION_NOT_NATIVE,
    ANNOTATION_PREFERRED_TOPOLOGY,
    ANNOTATION_PROVISIONING_REQUEST,
    ANNOTATION_SHARED_CLAIMS,
    ANNOTATION_TOPOLOGY,
    ANNOTATION_TREE,
    NATIVE_POD_GROUP,
)
from api.integration.common.options import ALL, BASIC, COMPOSITE, Options
from api.integration.common.result import Operation, drop_entry, set_entries
from api.priority import NEVER, PriorityClass, Resolved, resolve
from api.reading import annotations_of, dig, mapping, text

Json = dict[str, Any]

UNSERVED_TEXT: Final = (
    f"the API server does not serve {NATIVE_POD_GROUP.full_name}/{NATIVE_POD_GROUP.version}"
)
COMPOSITE_TEXT: Final = (
    "minGroupCount of a native CompositePodGroup is immutable, and cannot follow Jobs that end"
)
REQUEST_TEXT: Final = "Muster creates ProvisioningRequests only for groups of its own"
TREE_TEXT: Final = "a tree of several owners has groups of Muster"
CLAIMS_TEXT: Final = "a native PodGroup creates the claims of its pods in another way"
TOPOLOGY_TEXT: Final = (
    "the API server drops it from a native PodGroup without its feature gate "
    "TopologyAwareWorkloadScheduling"
)
BASIC_TEXT: Final = "a native PodGroup with the policy basic may not have it"
NEVER_TEXT: Final = (
    "the PriorityClass of its pods never preempts, and the API server drops preemptionPolicy from "
    "a native PodGroup without its feature gate PodGroupPreemptionPolicy"
)
EXPECTED_TEXT: Final = "its gang waits for pods that start later: a native PodGroup expects none"
REPLICAS_TEXT: Final = (
    "a later LeaderWorkerSet may use the names of its groups again, and native groups must not be "
    "used again"
)
WORKLOAD_TEXT: Final = "a Workload of Muster has the templates of its groups"


class GroupsApi(StrEnum):
    """The API in which new owners get groups: the setting `groups.api`."""

    MUSTER = "muster"
    NATIVE = "native"
    AUTO = "auto"


class Choice(NamedTuple):
    """The API of a new owner's groups.

    `lacks` is the reason against native groups, if they were an option. An owner that is `asked` to
    have native groups then waits, while the setting is `native`.
    """

    native: bool = False
    asked: bool = False
    lacks: str = ""

    @classmethod
    def of(cls, owner: Mapping[str, Any]) -> "Choice":
        """Return the choice in the annotations of an owner."""
        said = annotations_of(owner)
        asked = said.get(ANNOTATION_GROUPS_API) == GroupsApi.NATIVE
        lacks = text(said.get(ANNOTATION_NOT_NATIVE))
        return cls(asked and not lacks, asked, lacks)

    @property
    def warnings(self) -> list[str]:
        """The warning for the user who creates the owner."""
        if not self.lacks:
            return []
        then = "its pods wait, as groups.api is native" if self.asked else "it gets Muster's own"
        return [f"{self.lacks}: no native PodGroup is created, and {then}"]

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the owner; an empty one has to be removed."""
        asked = self.native or self.asked
        return {
            ANNOTATION_GROUPS_API: GroupsApi.NATIVE.value if asked else "",
            ANNOTATION_NOT_NATIVE: self.lacks,
        }


OWN: Final = Choice()
"""Groups of Muster, where no other ones are an option."""


@dataclass(frozen=True, slots=True)
class NativeApi:
    """The setting, and what the API server does with native groups.

    `kept` has the fields of a PodGroup's spec that the API server keeps: some have a feature gate.
    `classes` are the PriorityClasses.
    """

    setting: GroupsApi = GroupsApi.MUSTER
    served: bool = False
    kept: frozenset[str] = frozenset()
    classes: Sequence[PriorityClass] = ()

    def choose(self, lacks: Iterable[str]) -> Choice:
        """Return the API for an owner with these reasons against native groups."""
        if self.setting is GroupsApi.MUSTER:
            return OWN
        reason = next(iter(lacks), "") if self.served else UNSERVED_TEXT
        return Choice(not reason, self.setting is GroupsApi.NATIVE, reason)

    def lacking(
        self, levels: Iterable[Options], pod_specs: Iterable[Mapping[str, Any]]
    ) -> Iterator[str]:
        """Yield what a native group cannot state, or does not keep, of these options and pods."""
        for options in levels:
            yield from self._lacking(options)
        if "preemptionPolicy" not in self.kept and any(map(self._never_preempts, pod_specs)):
            yield NEVER_TEXT

    def _lacking(self, options: Options) -> Iterator[str]:
        if options.mode == COMPOSITE:
            yield f"{options.mode_path}: {COMPOSITE_TEXT}"
        if options.mode == BASIC and options.disruption == ALL:
            yield f"{options.at(ANNOTATION_DISRUPTION_MODE)}: {BASIC_TEXT}"
        if options.tree is not None:
            yield f"{options.at(ANNOTATION_TREE)}: {TREE_TEXT}"
        if options.request:
            yield f"{options.at(ANNOTATION_PROVISIONING_REQUEST)}: {REQUEST_TEXT}"
        if options.claims:
            yield f"{options.at(ANNOTATION_SHARED_CLAIMS)}: {CLAIMS_TEXT}"
        required = options.topology and not options.preferred
        if required and "schedulingConstraints" not in self.kept:
            yield f"{options.at(ANNOTATION_TOPOLOGY)}: {TOPOLOGY_TEXT}"

    def _never_preempts(self, pod_spec: Mapping[str, Any]) -> bool:
        found = resolve(pod_spec, self.classes)
        return isinstance(found, Resolved) and found.preemption_policy == NEVER


MUSTER_ONLY: Final = NativeApi()
"""The default: no native groups are created."""


def note_choice(owner: Mapping[str, Any], choice: Choice) -> list[Operation]:
    """Return the operations that set the annotations of a choice, and remove others."""
    wanted = choice.annotations
    said = {key: value for key, value in wanted.items() if value}
    left = (drop_entry(owner, "", "annotations", key) for key in wanted if key not in said)
    return [*set_entries(owner, "", {"annotations": said}), *(op for ops in left for op in ops)]


def name_in_field(pod_template: Any, pointer: str, group: str, before: str) -> list[Operation]:
    """Return the operations that let a pod template name its native group; none if it does.

    Without a group, the field is removed if it names `before`, as in a copied template.
    """
    named = group_in_field(pod_template)
    path = f"{pointer}/spec/schedulingGroup"
    if group and named != group and isinstance(mapping(pod_template).get("spec"), Mapping):
        return [{"op": "add", "path": path, "value": {"podGroupName": group}}]
    if not group and named and named == before:
        return [{"op": "remove", "path": path}]
    return []


def group_in_field(pod_template: Any) -> str:
    """Return the group in `spec.schedulingGroup` of a pod or pod template."""
    return text(dig(pod_template, "spec", "schedulingGroup", "podGroupName"))


def native_form(group: Json) -> Json:
    """Return a wanted PodGroup of Muster as a native one.

    It has no Workload. Kubernetes adds a finalizer of its own. A preferred topology becomes an
    annotation, which Muster's scheduler reads.
    """
    metadata = {key: value for key, value in group["metadata"].items() if key != "finalizers"}
    spec = {key: value for key, value in group["spec"].items() if key != "workloadRef"}
    for constraint in (spec.get("schedulingConstraints") or {}).get("topology", []):
        if constraint.get("preferred"):
            del spec["schedulingConstraints"]
            preferred = {ANNOTATION_PREFERRED_TOPOLOGY: constraint["key"]}
            metadata["annotations"] = metadata["annotations"] | preferred
    kind = {"apiVersion": NATIVE_POD_GROUP.api_version, "kind": NATIVE_POD_GROUP.kind}
    return {**kind, "metadata": metadata, "spec": spec}
