"""What the pods of a generated group tell autoscalers, which know pods and no groups.

In which domain nodes are to be bought, as a required pod affinity (`api.group_affinity`); and that
a pod is not to be evicted to save a node, where that would end a whole gang. Both are written in
the pod template of a Job when it is made, and put back by an update that leaves them out: pod
templates do not change.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from api.constants import (
    ANNOTATION_DO_NOT_DISRUPT,
    ANNOTATION_SAFE_TO_EVICT,
    LABEL_POD_GROUP,
)
from api.group_affinity import REQUIRED, Scope, is_generated, term
from api.integration.common.result import Operation
from api.reading import annotations_of, dig, labels_of, listing, mapping

Json = dict[str, Any]

KNOWN_KEYS: Final = frozenset({"topology.kubernetes.io/zone", "topology.kubernetes.io/region"})
"""Topology keys of which autoscalers know the value that a new node will have.

`kubernetes.io/hostname` is not among them, though it is known: autoscalers place one pod after the
other. They put the first pod of a gang on a node that has room for no more of them, or the first
ones of several gangs on one new node, and find no room for the others then. A zone can grow.
"""

LEFT_ALONE: Final = {ANNOTATION_DO_NOT_DISRUPT: "true", ANNOTATION_SAFE_TO_EVICT: "false"}
"""What pods say that are not to be evicted to save a node."""


class Level(NamedTuple):
    """A group that the pods are in: the key of its required topology, empty for none, and mode."""

    scope: Scope
    topology: str
    all_or_none: bool


@dataclass(frozen=True, slots=True)
class Autoscalers:
    """What is said: affinity by these keys, and to leave groups of mode All alone."""

    topology_keys: frozenset[str] = KNOWN_KEYS
    do_not_disrupt: bool = True

    def terms(
        self, levels: Iterable[Level], labels: Mapping[str, Any], *, of_jobset: bool
    ) -> list[Json]:
        """The required affinity of pods with these labels, the widest first.

        One for each key: a constraint on a composite holds for what is below it.
        """
        widest = {it.topology: it for it in levels if it.topology in self.topology_keys}
        found = []
        for level in sorted(widest.values(), reverse=True):
            try:
                found.append(term(level.scope, level.topology, labels, of_jobset=of_jobset))
            except KeyError:  # a Job with the marks of a JobSet's, but without its labels
                continue
        return found

    def annotations(self, levels: Iterable[Level]) -> dict[str, str]:
        """The annotations of the pods; what the user says of the same keys is not changed."""
        unit = self.do_not_disrupt and any(level.all_or_none for level in levels)
        return dict(LEFT_ALONE) if unit else {}


SILENT: Final = Autoscalers(frozenset(), do_not_disrupt=False)
"""Autoscalers are told nothing."""


def missing_annotations(template: Any, wanted: Mapping[str, str]) -> dict[str, str]:
    """Those of the wanted annotations about which the pod template says nothing."""
    said = annotations_of(template)
    return {key: value for key, value in wanted.items() if key not in said}


def kept_annotations(old: Any) -> dict[str, str]:
    """Those that the old pod template had, in the words of admission."""
    said = annotations_of(old)
    return {key: value for key, value in LEFT_ALONE.items() if said.get(key) == value}


def affinity(template: Any, pointer: str, terms: list[Json]) -> list[Operation]:
    """Operations that write the terms as the required pod affinity of a pod template.

    Terms that admission wrote before, for a Job from which this one was copied, go. With a term of
    the user's nothing is changed: kube-scheduler, and whoever simulates it, counts only pods that
    match all terms of a pod, so another one would change what the user's says.
    """
    spec = mapping(template).get("spec")
    if not isinstance(spec, Mapping):
        return []
    said = _required(template)
    if said == terms or not all(is_generated(each) for each in said):
        return []
    return _written(spec, f"{pointer}/spec", terms)


def kept_affinity(old: Any) -> list[Json]:
    """The terms that admission wrote in the old pod template."""
    said = _required(old)
    return said if all(is_generated(each) for each in said) else []


def group_labels(template: Any, group: str) -> dict[str, Any]:
    """The labels of the pods, with that of the group which the template gets."""
    return {**labels_of(template), LABEL_POD_GROUP: group}


def _required(template: Any) -> list[Json]:
    return listing(dig(template, "spec", "affinity", "podAffinity", REQUIRED))


def _written(spec: Mapping[str, Any], pointer: str, terms: list[Json]) -> list[Operation]:
    """Nothing where the structure cannot hold the terms."""
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
