"""Jobs and JobSets that another controller runs: `spec.managedBy` names it.

Kubernetes' own controller makes no pods for them. Another one may run them in another cluster and
write their status only, as MultiKueue does; the copy there has the annotations of the original, and
Muster makes the groups where the pods are. So nothing is made here, and nothing is marked.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from api.causes import Cause
from api.reading import text


def other_controller(spec: Mapping[str, Any], usual: str) -> str:
    """The controller in `spec.managedBy`, empty where that is the usual one."""
    named = text(spec.get("managedBy"))
    return "" if named == usual else named


def warnings_for(kind: str, path: str, controller: str, faults: Iterable[Cause]) -> list[str]:
    """What a user is told who asks for a group in such a Job or JobSet; nothing is refused."""
    said = (
        f"{path}.managedBy: {controller} runs this {kind}: Muster makes no group for it in this "
        "cluster; gang-mode counts where its pods are made, if Muster runs there"
    )
    return [said, *(fault.as_warning() for fault in faults)]
