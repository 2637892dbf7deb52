"""Workload: the flat lists of v1alpha1 (`podGroups`) and v1alpha2 (`podGroupTemplates`)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from api.conversion import annotation
from api.models import v1alpha3
from api.reading import listing, mapping, text

Json = dict[str, Any]

_LEAVES: Final = "podGroupTemplates"
_GROUPS: Final = "podGroups"
_V1ALPHA2: Final = frozenset({"controllerRef", _LEAVES})
# The fields of a group in v1alpha1, with their names in v1alpha3.
_FIELDS: Final = {"name": "name", "policy": "schedulingPolicy"}
_MODELS: Final[Mapping[str, type[BaseModel]]] = {"spec": v1alpha3.WorkloadSpec}


def to_v1alpha2(obj: Mapping[str, Any]) -> Json:
    """Convert from v1alpha3."""
    spec = obj.get("spec")
    if not isinstance(spec, Mapping):
        return annotation.store(obj, {})
    visible, hidden = _split(spec)
    return annotation.store({**obj, "spec": visible}, {"spec": hidden})


def from_v1alpha2(obj: Mapping[str, Any]) -> Json:
    """Convert to v1alpha3."""
    made, carried = annotation.restore(obj, _MODELS)
    spec = obj.get("spec")
    if not isinstance(spec, Mapping):
        return made
    _, hidden = _split(carried["spec"])
    return {**made, "spec": {**hidden, **spec}}


def to_v1alpha1(obj: Mapping[str, Any]) -> Json:
    """Convert from v1alpha3."""
    spec = obj.get("spec")
    if not isinstance(spec, Mapping):
        return annotation.store(obj, {})
    visible, hidden = _split(spec)
    if _LEAVES in visible:
        leaves = visible.pop(_LEAVES)
        visible[_GROUPS] = _each(leaves, _to_group)
        if hidden_fields := [rest for rest in map(_carried, listing(leaves)) if rest]:
            hidden[_LEAVES] = hidden_fields
    return annotation.store({**obj, "spec": visible}, {"spec": hidden})


def from_v1alpha1(obj: Mapping[str, Any]) -> Json:
    """Convert to v1alpha3."""
    made, carried = annotation.restore(obj, _MODELS)
    spec = obj.get("spec")
    if not isinstance(spec, Mapping):
        return made
    visible, hidden = _split(carried["spec"])
    # By name, as a client may have reordered the list.
    hidden_fields = {
        text(rest.get("name")): _hidden(rest) for rest in listing(visible.get(_LEAVES))
    }
    visible = {key: value for key, value in spec.items() if key != _GROUPS}
    if _GROUPS in spec:
        visible[_LEAVES] = _each(spec[_GROUPS], lambda group: _to_leaf(group, hidden_fields))
    return {**made, "spec": hidden | visible}


def _split(spec: Mapping[str, Any]) -> tuple[Json, Json]:
    """Return the fields of a v1alpha3 spec that v1alpha2 has, and those that it lacks."""
    visible = {key: value for key, value in spec.items() if key in _V1ALPHA2}
    return visible, {key: value for key, value in spec.items() if key not in _V1ALPHA2}


def _to_group(leaf: Mapping[str, Any]) -> Json:
    return {old: leaf[new] for old, new in _FIELDS.items() if new in leaf}


def _to_leaf(group: Mapping[str, Any], hidden_fields: Mapping[str, Json]) -> Json:
    visible = {_FIELDS.get(key, key): value for key, value in group.items()}
    return hidden_fields.get(text(group.get("name")), {}) | visible


def _carried(leaf: Any) -> Json:
    """Return the hidden fields of a template with its name; empty if v1alpha1 has all of them."""
    hidden_fields = _hidden(mapping(leaf))
    return hidden_fields | {"name": text(leaf.get("name"))} if hidden_fields else {}


def _hidden(leaf: Mapping[str, Any]) -> Json:
    return {key: value for key, value in leaf.items() if key not in _FIELDS.values()}


def _each(items: Any, change: Callable[[Mapping[str, Any]], Json]) -> Any:
    """Return a list with each of its objects changed; other values stay as they are."""
    if not isinstance(items, list):
        return items
    return [change(item) if isinstance(item, Mapping) else item for item in items]
