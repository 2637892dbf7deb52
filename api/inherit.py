"""The fields that a PodGroup without a policy takes from its template (KEP-5832)."""

from collections.abc import Mapping
from typing import Any, Final

INHERITED: Final = (
    "schedulingPolicy",
    "schedulingConstraints",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
)
DEFAULT_MODE: Final[Mapping[str, Any]] = {"single": {}}


def is_incomplete(spec: Mapping[str, Any]) -> bool:
    """Return True if a PodGroup waits for its template: it names one and has no policy."""
    return spec.get("schedulingPolicy") is None and spec.get("workloadRef") is not None


def inherited_values(spec: Mapping[str, Any], template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template's fields that a PodGroup without a policy takes: those it lacks."""
    return {
        key: template[key]
        for key in INHERITED
        if template.get(key) is not None and spec.get(key) is None
    }


def filled_fields(
    old: Mapping[str, Any], new: Mapping[str, Any], template: Mapping[str, Any] | None
) -> set[str]:
    """Return the fields that an update may set late because they come from the template.

    They must have the template's values. Fields that the template lacks may get their defaults:
    mode `single`, and the priority that admission computes.
    """
    if template is None or not is_incomplete(old) or new.get("schedulingPolicy") is None:
        return set()
    taken = {key for key, value in inherited_values(old, template).items() if new.get(key) == value}
    if "schedulingPolicy" not in taken:
        return set()
    absent = {key for key in INHERITED if old.get(key) is None and template.get(key) is None}
    if "disruptionMode" in absent and new.get("disruptionMode") != DEFAULT_MODE:
        absent.discard("disruptionMode")
    return taken | (absent - {"schedulingConstraints"})
