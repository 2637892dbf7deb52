"""The webhook's processing of a request, without a webhook: default, then validate."""

from collections.abc import Mapping
from typing import Any

from api import conversion, priority
from api.causes import Cause, ValidationResult
from api.constants import GROUP, VERSION
from api.defaults import defaults
from api.inherit import is_incomplete
from api.reading import mapping
from api.rules.validation import validate
from tests.support.admission import Case
from tests.support.admission.case import CLASSES, SYSTEM_CLASSES

Json = dict[str, Any]


def admitted(case: Case) -> tuple[ValidationResult, bool, Json]:
    """Return the result, True if it is Forbidden, and the object as it would be stored."""
    group, new = case.new["apiVersion"].split("/")[0], case.new
    if group == GROUP:
        new = conversion.convert(new, f"{GROUP}/{VERSION}") if _has_versions(new) else new
        if case.old is None:
            new, refusal = _completed(new)
            if refusal is not None:
                return ValidationResult([refusal]), True, new
    operation = "CREATE" if case.old is None else "UPDATE"
    result = validate(
        new["kind"], new, case.old, operation, group=group, subresource=case.subresource
    )
    if new["kind"] == "Workload" and case.old is None and not result.causes:
        denied = list(priority.check_templates(mapping(new.get("spec")), CLASSES))
        if denied:
            return ValidationResult(denied), True, new
    return result, False, new


def _has_versions(obj: Mapping[str, Any]) -> bool:
    return bool(obj["kind"] != "CompositePodGroup")


def _completed(obj: Json) -> tuple[Json, Cause | None]:
    """Return a new object as the mutating webhook completes it, or the error."""
    kind, spec = obj["kind"], mapping(obj.get("spec"))
    operations = defaults(kind, obj)
    if kind != "Workload" and not (kind == "PodGroup" and is_incomplete(spec)):
        resolved = priority.resolve(spec, [*CLASSES, *SYSTEM_CLASSES])
        if isinstance(resolved, Cause):
            return obj, resolved
        operations += resolved.operations(spec)
    made = {**obj, "metadata": {**obj["metadata"]}, "spec": {**spec}} if spec else obj
    for operation in operations:
        _, place, key, *end = operation["path"].split("/")
        if end:
            made[place][key] = [*made[place][key], operation["value"]]
        else:
            made[place][key] = operation["value"]
    return made, None
