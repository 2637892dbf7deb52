"""Validation of one object, with all of its faults in one response."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from api.causes import Cause, ValidationResult
from api.constants import (
    COMPOSITE_POD_GROUP,
    COSCHEDULING,
    GROUP,
    LABEL_VALUE_LENGTH,
    POD_GROUP,
    WORKLOAD,
)
from api.conversion.podgroup import chosen_fields
from api.reading import Reader, dig, mapping, text
from api.rules import coscheduling, groups, parts, table, update, workload

Json = Mapping[str, Any]
# The reader, the complete object, and its spec.
Check = Callable[[Reader, Json, Json], None]


@dataclass(frozen=True, slots=True)
class _KindValidation:
    """The validation of one kind: the rules of a spec, and those of an update."""

    check: Check
    changes: Callable[[Json, Json, Json | None], list[Cause]] = update.check_update
    named_by_label: bool = False
    is_group: bool = False


_KINDS: Final[Mapping[tuple[str, str], _KindValidation]] = {
    (GROUP, WORKLOAD.kind): _KindValidation(
        lambda reader, obj, spec: workload.check_workload(reader, _name(obj), spec),
    ),
    (GROUP, POD_GROUP.kind): _KindValidation(
        lambda reader, obj, spec: groups.check_pod_group(reader, spec, chosen_fields(obj)),
        named_by_label=True,
        is_group=True,
    ),
    (GROUP, COMPOSITE_POD_GROUP.kind): _KindValidation(
        lambda reader, obj, spec: groups.check_composite(reader, _name(obj), spec),
        is_group=True,
    ),
    (COSCHEDULING.group, COSCHEDULING.kind): _KindValidation(
        lambda reader, _, spec: coscheduling.check_coscheduling(reader, spec),
        changes=coscheduling.check_coscheduling_update,
        named_by_label=True,
    ),
}


def validate(
    kind: str,
    new: Json,
    old: Json | None,
    operation: str,
    *,
    group: str = GROUP,
    subresource: str = "",
    template: Json | None = None,
) -> ValidationResult:
    """Validate an object of Muster's in the stored version, as raw JSON of any structure.

    `operation` and `subresource` are those of the admission request; `old` is None on CREATE. Only
    changes of an update are validated. One that leaves the spec as it was is always allowed (a new
    fault in an annotation is a warning), and faults of the old object are not reported. `template`
    is the live template that a PodGroup's workloadRef names, if known.
    Raises ValueError for a kind that is not Muster's.
    """
    known = _KINDS.get((group, kind))
    if known is None:
        raise ValueError(f"no rules for kind {kind!r} of {group!r}")
    if operation not in {"CREATE", "UPDATE"}:
        return ValidationResult()
    if subresource == "status":
        return ValidationResult(_new_faults(_status_faults, new, old))
    if operation == "CREATE" or old is None:
        return ValidationResult(_spec_faults(known, new), _warnings(known, new))
    # Labels and finalizers of a stored object must remain mutable, whatever rules were added later.
    if old.get("spec") == new.get("spec"):
        new_faults = _new_faults(lambda obj: _annotation_faults(known, obj), new, old)
        return ValidationResult(warnings=[fault.as_warning() for fault in new_faults])
    changed = known.changes(mapping(old.get("spec")), mapping(new.get("spec")), template)
    return ValidationResult(changed + _new_faults(lambda obj: _spec_faults(known, obj), new, old))


def _new_faults(faults: Callable[[Json], list[Cause]], new: Json, old: Json | None) -> list[Cause]:
    known = faults(old) if old is not None else []
    return [fault for fault in faults(new) if fault not in known]


def _spec_faults(known: _KindValidation, obj: Json) -> list[Cause]:
    report: list[Cause] = []
    reader = Reader(report)
    known.check(reader, obj, reader.mapping(obj, "spec", "spec"))
    return report + _annotation_faults(known, obj)


def _annotation_faults(known: _KindValidation, obj: Json) -> list[Cause]:
    report: list[Cause] = []
    if known.is_group:
        parts.check_annotations(Reader(report), obj, leaf=known.named_by_label)
    return report


def _status_faults(obj: Json) -> list[Cause]:
    report: list[Cause] = []
    reader = Reader(report)
    status = reader.mapping(obj, "status", "status")
    parts.check_claim_statuses(reader, mapping(obj.get("spec")), status)
    return report


def _warnings(known: _KindValidation, obj: Json) -> list[str]:
    too_long = known.named_by_label and len(_name(obj)) > LABEL_VALUE_LENGTH
    said = [table.NAME_TOO_LONG_WARNING] if too_long else []
    return [*said, *groups.too_many_consumers(mapping(obj.get("spec")))] if known.is_group else said


def _name(obj: Json) -> str:
    return text(dig(obj, "metadata", "name"))
