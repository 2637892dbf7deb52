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
# What v1alpha1 says of a group, in its words and in v1alpha3's.
_WORDS: Final = {"name": "name", "policy": "schedulingPolicy"}
_MODELS: Final[Mapping[str, type[BaseModel]]] = {"spec": v1alpha3.WorkloadSpec}


def to_v1alpha2(obj: Mapping[str, Any]) -> Json:
    """From v1alpha3."""
    spec = obj.get("spec")
    if not isinstance(spec, Mapping):
        return annotation.store(obj, {})
    said, hidden = _split(spec)
    return annotation.store({**obj, "spec": said}, {"spec": hidden})


def from_v1alpha2(obj: Mapping[str, Any]) -> Json:
    """To v1alpha3."""
    made, carried = annotation.restore(obj, _MODELS)
    spec = obj.get("spec")
    if not isinstance(spec, Mapping):
        return made
    _, hidden = _split(carried["spec"])
    return {**made, "spec": {**hidden, **spec}}


def to_v1alpha1(obj: Mapping[str, Any]) -> Json:
    """From v1alpha3."""
    spec = obj.get("spec")
    if not isinstance(spec, Mapping):
        return annotation.store(obj, {})
    said, hidden = _split(spec)
    if _LEAVES in said:
        leaves = said.pop(_LEAVES)
        said[_GROUPS] = _each(leaves, _to_group)
        if unsaid := [rest for rest in map(_carried, listing(leaves)) if rest]:
            hidden[_LEAVES] = unsaid
    return annotation.store({**obj, "spec": said}, {"spec": hidden})


def from_v1alpha1(obj: Mapping[str, Any]) -> Json:
    """To v1alpha3."""
    made, carried = annotation.restore(obj, _MODELS)
    spec = obj.get("spec")
    if not isinstance(spec, Mapping):
        return made
    said, hidden = _split(carried["spec"])
    unsaid = {text(rest.get("name")): _unsaid(rest) for rest in listing(said.get(_LEAVES))}
    said = {key: value for key, value in spec.items() if key != _GROUPS}
    if _GROUPS in spec:
        said[_LEAVES] = _each(spec[_GROUPS], lambda group: _to_leaf(group, unsaid))
    return {**made, "spec": hidden | said}


def _split(spec: Mapping[str, Any]) -> tuple[Json, Json]:
    """What v1alpha2 can say of a spec of v1alpha3, and what it cannot."""
    said = {key: value for key, value in spec.items() if key in _V1ALPHA2}
    return said, {key: value for key, value in spec.items() if key not in _V1ALPHA2}


def _to_group(leaf: Mapping[str, Any]) -> Json:
    return {old: leaf[new] for old, new in _WORDS.items() if new in leaf}


def _to_leaf(group: Mapping[str, Any], unsaid: Mapping[str, Json]) -> Json:
    said = {_WORDS.get(key, key): value for key, value in group.items()}
    return unsaid.get(text(group.get("name")), {}) | said


def _carried(leaf: Any) -> Json:
    """What is carried of a template, by its name; empty if v1alpha1 can say all of it."""
    unsaid = _unsaid(mapping(leaf))
    return unsaid | {"name": text(leaf.get("name"))} if unsaid else {}


def _unsaid(leaf: Mapping[str, Any]) -> Json:
    return {key: value for key, value in leaf.items() if key not in _WORDS.values()}


def _each(items: Any, change: Callable[[Mapping[str, Any]], Json]) -> Any:
    """A list with each of its objects changed; whatever is none stays as it is."""
    if not isinstance(items, list):
        return items
    return [change(item) if isinstance(item, Mapping) else item for item in items]
