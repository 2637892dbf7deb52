"""Defaults that admission adds to a new group, as JSON patch operations."""

from collections.abc import Mapping
from typing import Any

from api import inherit
from api.constants import KINDS, POD_GROUP, finalizer_of

Operation = dict[str, Any]


def defaults(kind: str, obj: Mapping[str, Any]) -> list[Operation]:
    """Return the operations for a new object: protection finalizer and disruption mode.

    Structures that cannot be defaulted are left for validation to reject. Raises ValueError for a
    kind that is not Muster's.
    """
    if kind not in {known.kind for known in KINDS}:
        raise ValueError(f"no defaults for kind {kind!r}")
    finalizer = finalizer_of(kind)
    if finalizer is None:
        return []
    return [*_finalizer(obj, finalizer), *_disruption_mode(kind, obj)]


def _finalizer(obj: Mapping[str, Any], finalizer: str) -> list[Operation]:
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping):
        return []
    present = metadata.get("finalizers")
    if not isinstance(present, list) or not present:
        return [{"op": "add", "path": "/metadata/finalizers", "value": [finalizer]}]
    if finalizer in present:
        return []
    return [{"op": "add", "path": "/metadata/finalizers/-", "value": finalizer}]


def _disruption_mode(kind: str, obj: Mapping[str, Any]) -> list[Operation]:
    spec = obj.get("spec")
    if not isinstance(spec, Mapping) or spec.get("disruptionMode") is not None:
        return []
    # A PodGroup without a policy gets no mode yet, because its template may state one.
    if kind == POD_GROUP.kind and inherit.is_incomplete(spec):
        return []
    return [{"op": "add", "path": "/spec/disruptionMode", "value": dict(inherit.DEFAULT_MODE)}]
