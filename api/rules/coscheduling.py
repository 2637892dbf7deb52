"""Rules of coscheduling.muster.dev PodGroups (KEP-3370): subsets, and their immutable fields."""

from collections.abc import Mapping
from typing import Any

from api import names
from api.causes import Cause
from api.constants import MAX_TEMPLATES
from api.reading import Reader, listing, mapping
from api.rules import parts, table

_PATH = "spec.subsets"


def check_coscheduling(reader: Reader, spec: Mapping[str, Any]) -> None:
    """Check all rules of the spec."""
    subsets = reader.items(spec, "subsets", _PATH)
    if not subsets:
        reader.report.append(table.SUBSETS_REQUIRED.at(_PATH))
    if len(subsets) > MAX_TEMPLATES:
        reader.report.append(table.SUBSETS_TOO_MANY.at(_PATH, len(subsets)))
    seen: set[str] = set()
    for at, subset in enumerate(subsets):
        _check_name(reader, subset, f"{_PATH}[{at}].name", seen, alone=len(subsets) == 1)
        parts.check_bound(reader, subset, "minMember", f"{_PATH}[{at}].minMember")
    parts.check_bound(
        reader, spec, "scheduleTimeoutSeconds", "spec.scheduleTimeoutSeconds", required=False
    )


def check_coscheduling_update(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    template: Mapping[str, Any] | None,  # noqa: ARG001 - no templates here; as `check_update`
) -> list[Cause]:
    """Return a cause for changed subsets; their minMember and the timeout may change."""
    if _fixed(old) == _fixed(new):
        return []
    return [table.IMMUTABLE.at(_PATH, new.get("subsets"))]


def _fixed(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in mapping(subset).items() if key != "minMember"}
        for subset in listing(spec.get("subsets"))
    ]


def _check_name(
    reader: Reader, subset: Mapping[str, Any], path: str, seen: set[str], *, alone: bool
) -> None:
    name = reader.text(subset, "name", path)
    if not name and not alone:
        reader.report.append(table.SUBSET_NAME_REQUIRED.at(path))
    elif name and not names.is_dns_label(name):
        reader.report.append(table.SUBSET_NAME.at(path, name))
    elif name in seen:
        reader.report.append(table.SUBSET_NAME_DUPLICATE.at(path, name))
    seen.add(name)
