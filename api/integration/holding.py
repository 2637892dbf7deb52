"""How long an owner asks for places to be held for pods that it creates later: `hold-seconds`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeGuard

from api import causes
from api.causes import Cause
from api.constants import ANNOTATION_HOLD_SECONDS
from api.integration.options import annotation_path
from api.reading import annotations_of

TEXT: Final = "must be a whole number of seconds, 1 to 999999"

_SECONDS: Final = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)


def hold_faults(new: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> Iterator[Cause]:
    """What is wrong with the annotation of a JobSet or LeaderWorkerSet, and was not before."""
    said = annotations_of(new).get(ANNOTATION_HOLD_SECONDS)
    if said is None or said == annotations_of(old).get(ANNOTATION_HOLD_SECONDS):
        return
    if not _is_usable(said):
        yield causes.invalid(annotation_path("", ANNOTATION_HOLD_SECONDS), said, TEXT)


def hold_notes(annotations: Mapping[str, Any]) -> dict[str, str]:
    """What goes from the annotations of an owner to those of its groups that expect pods."""
    said = annotations.get(ANNOTATION_HOLD_SECONDS)
    return {ANNOTATION_HOLD_SECONDS: said} if _is_usable(said) else {}


def _is_usable(said: Any) -> TypeGuard[str]:
    return isinstance(said, str) and _SECONDS.fullmatch(said) is not None
