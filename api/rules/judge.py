"""Judges one object: all its faults in one answer."""

from collections.abc import Callable, Mapping
from typing import Any

from api.causes import Cause, Verdict
from api.constants import KINDS, LABEL_VALUE_LENGTH, POD_GROUP, WORKLOAD
from api.reading import Reader, dig, mapping, text
from api.rules import groups, parts, table, update, workload


def validate(
    kind: str,
    new: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    operation: str,
    *,
    subresource: str = "",
    template: Mapping[str, Any] | None = None,
) -> Verdict:
    """Judges a Workload, PodGroup or CompositePodGroup of v1alpha3 as raw JSON of any structure.

    `operation` and `subresource` are those of the admission request; `old` is None on CREATE.
    An update is judged on what it changes: one that leaves the spec as it was is always allowed,
    and a fault the old object already had is not held against the new one. `template` is the
    live template a PodGroup's workloadRef names, if known (`inherit.template_of`). Raises
    ValueError for a kind that is not ours.
    """
    if kind not in {known.kind for known in KINDS}:
        raise ValueError(f"no rules for kind {kind!r}")
    if operation not in {"CREATE", "UPDATE"}:
        return Verdict()
    if subresource == "status":
        return Verdict(_new_faults(_status_faults, new, old))
    if operation == "CREATE" or old is None:
        return Verdict(_spec_faults(kind, new), _warnings(kind, new))
    if old.get("spec") == new.get("spec"):
        return Verdict()
    changed = update.check_update(mapping(old.get("spec")), mapping(new.get("spec")), template)
    return Verdict(changed + _new_faults(lambda obj: _spec_faults(kind, obj), new, old))


def _new_faults(
    faults: Callable[[Mapping[str, Any]], list[Cause]],
    new: Mapping[str, Any],
    old: Mapping[str, Any] | None,
) -> list[Cause]:
    known = faults(old) if old is not None else []
    return [fault for fault in faults(new) if fault not in known]


def _spec_faults(kind: str, obj: Mapping[str, Any]) -> list[Cause]:
    report: list[Cause] = []
    reader = Reader(report)
    spec = reader.mapping(obj, "spec", "spec")
    name = text(dig(obj, "metadata", "name"))
    if kind == WORKLOAD.kind:
        workload.check_workload(reader, spec)
    elif kind == POD_GROUP.kind:
        groups.check_pod_group(reader, name, spec)
    else:
        groups.check_composite(reader, name, spec)
    return report


def _status_faults(obj: Mapping[str, Any]) -> list[Cause]:
    report: list[Cause] = []
    reader = Reader(report)
    status = reader.mapping(obj, "status", "status")
    parts.check_claim_statuses(reader, mapping(obj.get("spec")), status)
    return report


def _warnings(kind: str, obj: Mapping[str, Any]) -> list[str]:
    if kind == POD_GROUP.kind and len(text(dig(obj, "metadata", "name"))) > LABEL_VALUE_LENGTH:
        return [table.NAME_TOO_LONG_WARNING]
    return []
