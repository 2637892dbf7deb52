"""An owner's annotations on the held places of pods that it creates later.

`hold-seconds` states how long places are held. `on-hold-expired` states what happens to running
pods after that time.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from api import causes
from api.causes import Cause
from api.constants import ANNOTATION_HOLD_SECONDS, ANNOTATION_ON_HOLD_EXPIRED
from api.integration.common.options import annotation_path
from api.reading import annotations_of

SECONDS_TEXT: Final = "must be an integer between 1 and 999999, inclusive"

NOTES: Final = (ANNOTATION_HOLD_SECONDS, ANNOTATION_ON_HOLD_EXPIRED)

_SECONDS: Final = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
_ENDS: Final = ("Keep", "Evict")


def hold_faults(new: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> Iterator[Cause]:
    """Yield the new faults in these annotations of a JobSet or LeaderWorkerSet."""
    notes, before = annotations_of(new), annotations_of(old)
    for key in NOTES:
        said, path = notes.get(key), annotation_path("", key)
        if said is None or said == before.get(key) or _is_usable(key, said):
            continue
        if key == ANNOTATION_HOLD_SECONDS:
            yield causes.invalid(path, said, SECONDS_TEXT)
        else:
            yield causes.not_supported(path, said, _ENDS)


def hold_notes(annotations: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations that an owner's groups with expected pods copy from it."""
    said = ((key, annotations.get(key)) for key in NOTES)
    return {key: str(value) for key, value in said if _is_usable(key, value)}


def _is_usable(key: str, said: Any) -> bool:
    if key == ANNOTATION_ON_HOLD_EXPIRED:
        return said in _ENDS
    return isinstance(said, str) and _SECONDS.fullmatch(said) is not None
