"""Jobs and JobSets of another controller, which `spec.managedBy` names.

Kubernetes' own controller creates no pods for them. Another controller may run them in another
cluster and write only their status, as MultiKueue does. The copy there has the annotations of the
original, and Muster creates the groups where the pods are. So nothing is created or annotated here.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from api.causes import Cause
from api.reading import text


def other_controller(spec: Mapping[str, Any], usual: str) -> str:
    """Return the controller in `spec.managedBy`, empty if it is the usual one."""
    named = text(spec.get("managedBy"))
    return "" if named == usual else named


def warnings_for(kind: str, path: str, controller: str, faults: Iterable[Cause]) -> list[str]:
    """Return the warnings for such a Job or JobSet with a gang-mode, which is not rejected."""
    said = (
        f"{path}.managedBy: {controller} runs this {kind}, so Muster creates no group for it in "
        "this cluster. gang-mode has an effect in the cluster where the pods are created, if "
        "Muster runs there"
    )
    return [said, *(fault.as_warning() for fault in faults)]
