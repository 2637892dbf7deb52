"""Settings for autoscalers in the pods of a generated group, as autoscalers know no groups.

A required pod affinity (`api.group_affinity`) states the domain in which to add nodes. Annotations
state that a pod must not be evicted to save a node, where this would end a complete gang. Admission
writes both in the pod template of a new Job, and restores them in an update that omits them: pod
templates are immutable.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from api.constants import (
    ANNOTATION_DO_NOT_DISRUPT,
    ANNOTATION_SAFE_TO_EVICT,
    LABEL_POD_GROUP,
)
from api.group_affinity import REQUIRED, AffinityScope, is_generated, term
from api.integration.common.result import Operation
from api.reading import annotations_of, dig, labels_of, listing, mapping

Json = dict[str, Any]

KNOWN_KEYS: Final = frozenset({"topology.kubernetes.io/zone", "topology.kubernetes.io/region"})
"""Topology keys whose value on a new node autoscalers know.

`kubernetes.io/hostname` is not included, although its value is known. Autoscalers place one pod
after the other. They would put the first pod of a gang on a node without capacity for the others,
or the first pods of several gangs on one new node, where the others do not fit. A zone can grow.
"""

LEFT_ALONE: Final = {ANNOTATION_DO_NOT_DISRUPT: "true", ANNOTATION_SAFE_TO_EVICT: "false"}
"""Annotations of pods that must not be evicted to save a node."""


class Level(NamedTuple):
    """A group of the pods: its required topology key, empty for none, and its disruption mode."""

    scope: AffinityScope
    topology: str
    all_or_none: bool


@dataclass(frozen=True, slots=True)
class Autoscalers:
    """The configured settings: keys for affinity, and protection of groups of mode All."""

    topology_keys: frozenset[str] = KNOWN_KEYS
    do_not_disrupt: bool = True

    def terms(
        self, levels: Iterable[Level], labels: Mapping[str, Any], *, of_jobset: bool
    ) -> list[Json]:
        """Return the required affinity of pods with these labels, the widest term first.

        There is one term for each key: a constraint on a CompositePodGroup holds for all groups
        below it.
        """
        # Levels are ordered from the lowest, so the widest level of a key remains.
        widest = {it.topology: it for it in levels if it.topology in self.topology_keys}
        found = []
        for level in sorted(widest.values(), reverse=True):
            try:
                found.append(term(level.scope, level.topology, labels, of_jobset=of_jobset))
            # A Job with the annotations of a JobSet's Job, but without its labels.
            except KeyError:
                continue
        return found

    def annotations(self, levels: Iterable[Level]) -> dict[str, str]:
        """Return the annotations for the pods. Those that the user set are not overwritten."""
        unit = self.do_not_disrupt and any(level.all_or_none for level in levels)
        return dict(LEFT_ALONE) if unit else {}


SILENT: Final = Autoscalers(frozenset(), do_not_disrupt=False)
"""Settings that tell autoscalers nothing."""


def missing_annotations(template: Any, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the wanted annotations that the pod template does not have."""
    said = annotations_of(template)
    return {key: value for key, value in wanted.items() if key not in said}


def kept_annotations(old: Any) -> dict[str, str]:
    """Return the annotations that admission wrote in the old pod template."""
    said = annotations_of(old)
    return {key: value for key, value in LEFT_ALONE.items() if said.get(key) == value}


def affinity(template: Any, pointer: str, terms: list[Json]) -> list[Operation]:
    """Return operations that write the terms as the required pod affinity of a pod template.

    They replace terms that admission wrote for a Job from which this one was copied.
    """
    spec = mapping(template).get("spec")
    if not isinstance(spec, Mapping):
        return []
    said = _required(template)
    # Leave a user's term alone. kube-scheduler, and autoscalers that simulate it, count only pods
    # that match all terms of a pod, so one more term would change the meaning of the user's.
    if said == terms or not all(is_generated(each) for each in said):
        return []
    return _written(spec, f"{pointer}/spec", terms)


def kept_affinity(old: Any) -> list[Json]:
    """Return the terms that admission wrote in the old pod template."""
    said = _required(old)
    return said if all(is_generated(each) for each in said) else []


def group_labels(template: Any, group: str) -> dict[str, Any]:
    """Return the labels of the pods, with the label of the group that the template gets."""
    return {**labels_of(template), LABEL_POD_GROUP: group}


def _required(template: Any) -> list[Json]:
    return listing(dig(template, "spec", "affinity", "podAffinity", REQUIRED))


def _written(spec: Mapping[str, Any], pointer: str, terms: list[Json]) -> list[Operation]:
    """Return the operation that writes the terms; none if the structure is invalid."""
    path = ("affinity", "podAffinity", REQUIRED)
    holder: Any = spec
    for at, step in enumerate(path):
        pointer = f"{pointer}/{step}"
        if at == len(path) - 1 or holder.get(step) is None:
            return [{"op": "add", "path": pointer, "value": _nested(path[at + 1 :], terms)}]
        holder = holder[step]
        if not isinstance(holder, Mapping):
            break
    return []


def _nested(path: tuple[str, ...], terms: list[Json]) -> Any:
    return {path[0]: _nested(path[1:], terms)} if path else terms
