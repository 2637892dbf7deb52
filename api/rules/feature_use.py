"""The features that an object of Muster's uses, by its fields (raw JSON of any structure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from api.constants import (
    ANNOTATION_HOLD_FROM,
    COMPOSITE_POD_GROUP,
    COSCHEDULING,
    GROUP,
    HOLD_FROM_CREATION,
    MAX_DEPTH,
    POD_GROUP,
    WORKLOAD,
)
from api.features import Feature, FeatureUse
from api.reading import annotations_of, listing, mapping

_CONSTRAINTS = "schedulingConstraints"
_POLICY = "schedulingPolicy"
_PARENT = "parentCompositePodGroupName"
_COMPOSITES = "compositePodGroupTemplates"
_LEAVES = "podGroupTemplates"
_EXPECTED = "expectedPods"


def uses_of(group: str, kind: str, obj: Mapping[str, Any]) -> Iterator[FeatureUse]:
    """Yield the uses of one object; none for other kinds."""
    spec = mapping(obj.get("spec"))
    if (group, kind) == (COSCHEDULING.group, COSCHEDULING.kind):
        yield FeatureUse(Feature.COSCHEDULING, "kind")
    elif (group, kind) == (GROUP, WORKLOAD.kind):
        yield FeatureUse(Feature.WORKLOAD, "kind")
        yield from _of_templates(spec, "spec", 1)
    elif (group, kind) in {(GROUP, COMPOSITE_POD_GROUP.kind), (GROUP, POD_GROUP.kind)}:
        yield from _of_group(kind, spec)
        if annotations_of(obj).get(ANNOTATION_HOLD_FROM) == HOLD_FROM_CREATION:
            yield FeatureUse(Feature.RESERVATIONS, f"metadata.annotations[{ANNOTATION_HOLD_FROM}]")


def _of_group(kind: str, spec: Mapping[str, Any]) -> Iterator[FeatureUse]:
    if kind == COMPOSITE_POD_GROUP.kind:
        yield FeatureUse(Feature.COMPOSITE_POD_GROUP, "kind")
    else:
        yield FeatureUse(Feature.POD_GROUP, "kind")
        if spec.get(_PARENT):
            yield FeatureUse(Feature.COMPOSITE_POD_GROUP, f"spec.{_PARENT}")
    if kind == POD_GROUP.kind and spec.get(_EXPECTED):
        yield FeatureUse(Feature.EXPECTED_PODS, f"spec.{_EXPECTED}")
    yield from _of_policies(spec, "spec")


def _of_policies(holder: Mapping[str, Any], path: str) -> Iterator[FeatureUse]:
    if mapping(holder.get(_POLICY)).get("gang"):
        yield FeatureUse(Feature.GANG, f"{path}.{_POLICY}.gang")
    if mapping(holder.get(_CONSTRAINTS)).get("topology"):
        yield FeatureUse(Feature.TOPOLOGY, f"{path}.{_CONSTRAINTS}.topology")


def _of_templates(holder: Mapping[str, Any], path: str, level: int) -> Iterator[FeatureUse]:
    """Yield the uses of the templates in an object."""
    if holder.get(_COMPOSITES) and level == 1:
        yield FeatureUse(Feature.COMPOSITE_POD_GROUP, f"{path}.{_COMPOSITES}")
    for field in (_COMPOSITES, _LEAVES):
        for at, item in enumerate(listing(holder.get(field))):
            template, place = mapping(item), f"{path}.{field}[{at}]"
            yield from _of_policies(template, place)
            # Another rule rejects templates that are deeper than a tree may be.
            if field == _COMPOSITES and level < MAX_DEPTH:
                yield from _of_templates(template, place, level + 1)
