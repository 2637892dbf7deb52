"""PodGroup: v1alpha2 has its template reference and the number of its scheduled pods.

v1alpha3 has `workloadRef{workloadName, templateName}`. v1alpha2 has `workloadRef.name` and two ways
to name the template. The fields that a client chose among these are kept in the annotation of
v1alpha3, and used as long as they mean the same as v1alpha3's own field.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from api.constants import (
    CONDITION_POD_GROUP_SCHEDULED,
    CONDITION_POD_GROUP_SCHEDULED_BEFORE,
    V1ALPHA2,
)
from api.conversion import annotation
from api.models import v1alpha3
from api.reading import mapping

Json = dict[str, Any]

_REFERENCE: Final = "workloadRef"
_NAME: Final = "podGroupTemplateName"
_REF: Final = "podGroupTemplateRef"
_FIELDS: Final = frozenset({_REFERENCE, _NAME, _REF})
_STATUS: Final = frozenset({"conditions", "scheduledPods"})
_MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "spec": v1alpha3.PodGroupSpec,
    "status": v1alpha3.PodGroupStatus,
}

# The two names of one condition. They are swapped, so that an object with conditions of both names
# keeps both.
_CONDITIONS: Final = {
    CONDITION_POD_GROUP_SCHEDULED: CONDITION_POD_GROUP_SCHEDULED_BEFORE,
    CONDITION_POD_GROUP_SCHEDULED_BEFORE: CONDITION_POD_GROUP_SCHEDULED,
}


def to_v1alpha2(obj: Mapping[str, Any]) -> Json:
    """Convert from v1alpha3."""
    made, hidden, used = dict(obj), {}, False
    spec, status = obj.get("spec"), obj.get("status")
    if isinstance(spec, Mapping):
        fields, used = _reference_fields(obj, spec)
        made["spec"] = fields
        hidden["spec"] = {key: value for key, value in spec.items() if key != _REFERENCE}
    if isinstance(status, Mapping):
        made["status"] = _renamed({key: status[key] for key in status if key in _STATUS})
        hidden["status"] = {key: value for key, value in status.items() if key not in _STATUS}
    return annotation.store(made, hidden, used=used)


def from_v1alpha2(obj: Mapping[str, Any]) -> Json:
    """Convert to v1alpha3."""
    made, hidden = annotation.restore(obj, _MODELS)
    spec, status = obj.get("spec"), obj.get("status")
    if isinstance(spec, Mapping):
        fields = {key: value for key, value in spec.items() if key in _FIELDS}
        kept = {key: value for key, value in hidden["spec"].items() if key != _REFERENCE}
        made["spec"] = kept | _reference(fields)
        # Keep the client's fields only if v1alpha3 cannot reproduce them.
        if _reference_fields(made, made["spec"])[0] != fields:
            plain = _default_fields(made["spec"]) == fields
            way = "" if plain else annotation.pack(V1ALPHA2, {"spec": fields})
            made = annotation.attach(made, way)
    if isinstance(status, Mapping):
        kept = {key: value for key, value in hidden["status"].items() if key not in _STATUS}
        made["status"] = kept | _renamed(status)
    return made


def chosen_fields(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields by which a v1alpha2 client named the template, unless by default."""
    return mapping(annotation.unpack(annotation.text_of(obj), V1ALPHA2).get("spec"))


def _reference_fields(obj: Mapping[str, Any], spec: Mapping[str, Any]) -> tuple[Json, bool]:
    """Return v1alpha2's fields for the reference, and whether the annotation had them."""
    fields = dict(chosen_fields(obj))
    written = annotation.pack(V1ALPHA2, {"spec": fields}) if fields else ""
    reference = {key: value for key, value in spec.items() if key == _REFERENCE}
    # Another client may have changed the reference, or the annotation, in v1alpha3.
    if written == annotation.text_of(obj) and fields and _reference(fields) == reference:
        return fields, True
    return _default_fields(spec), False


def _default_fields(spec: Mapping[str, Any]) -> Json:
    """Return v1alpha2's default fields for a reference of v1alpha3."""
    if _REFERENCE not in spec:
        return {}
    reference = spec[_REFERENCE]
    if not isinstance(reference, Mapping):
        return {_REFERENCE: reference}
    found: Json = {}
    if "workloadName" in reference or not reference:
        found[_REFERENCE] = {"name": reference["workloadName"]} if reference else {}
    if "templateName" in reference:
        found[_NAME] = reference["templateName"]
    return found


def _reference(fields: Mapping[str, Any]) -> Json:
    """Return v1alpha3's `workloadRef` for these fields, if there are any."""
    if not fields:
        return {}
    workload = fields.get(_REFERENCE)
    if workload is not None and not isinstance(workload, Mapping):
        return {_REFERENCE: workload}
    made: Json = {}
    if "name" in mapping(workload):
        made["workloadName"] = mapping(workload)["name"]
    if fields.get(_NAME) is not None:
        made["templateName"] = fields[_NAME]
    elif "name" in mapping(fields.get(_REF)):
        made["templateName"] = mapping(fields[_REF])["name"]
    return {_REFERENCE: made}


def _renamed(status: Mapping[str, Any]) -> Json:
    conditions = status.get("conditions")
    if not isinstance(conditions, list):
        return dict(status)
    return {**status, "conditions": [_swapped(condition) for condition in conditions]}


def _swapped(condition: Any) -> Any:
    if not isinstance(condition, Mapping) or not isinstance(condition.get("type"), str):
        return condition
    kind = condition["type"]
    return {**condition, "type": _CONDITIONS.get(kind, kind)}
