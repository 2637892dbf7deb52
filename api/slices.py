"""The annotations that cut a PodGroup into equal slices, each in one domain of a topology key."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from api.constants import (
    ANNOTATION_SLICE_JOB_PODS,
    ANNOTATION_SLICE_SIZE,
    ANNOTATION_SLICE_TOPOLOGY,
    MAX_SLICE_SIZE,
)
from api.names import is_label_key
from api.reading import text

_DIGITS: Final = re.compile(r"[0-9]{1,9}", re.ASCII)

SIZE_TEXT: Final = (
    f"must be an integer between 1 and {MAX_SLICE_SIZE}, inclusive, the number of pods of each "
    "slice"
)
SIZE_MISSING_TEXT: Final = (
    f"set the number of pods of each slice, or remove annotation {ANNOTATION_SLICE_TOPOLOGY}"
)
TOPOLOGY_MISSING_TEXT: Final = (
    "set the node label of which the pods of a slice share one value, or remove annotation "
    f"{ANNOTATION_SLICE_SIZE}"
)
TOPOLOGY_TEXT: Final = "must be a label key, such as nvidia.com/gpu.clique"
LEAF_TEXT: Final = "only PodGroups have slices: set it on a PodGroup below, or remove it"
EXPECTED_TEXT: Final = (
    "a group with spec.expectedPods cannot have slices: remove one of them, because pods that do "
    "not exist yet have no index"
)


class SliceOptions(NamedTuple):
    """The slices that annotations request: their `size`, and the label `key` of their domains."""

    size: int
    key: str

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations that request them."""
        return {ANNOTATION_SLICE_SIZE: str(self.size), ANNOTATION_SLICE_TOPOLOGY: self.key}


class SliceFault(NamedTuple):
    """A fault in the value of an annotation; `value` is None if it is missing."""

    annotation: str
    value: Any
    text: str

    def sentence(self) -> str:
        """Return the fault as a sentence for users, of which a value is at most a part."""
        said = "is missing" if self.value is None else f"is {str(self.value)[:32]!r}"
        return f"Annotation {self.annotation} {said}: {self.text}."


def read_slices(annotations: Mapping[str, Any]) -> SliceOptions | list[SliceFault]:
    """Return what the annotations request, or their faults; no fault if they request none."""
    size = annotations.get(ANNOTATION_SLICE_SIZE)
    key = annotations.get(ANNOTATION_SLICE_TOPOLOGY)
    if size is None and key is None:
        return []
    faults = []
    if size is None:
        faults.append(SliceFault(ANNOTATION_SLICE_SIZE, None, SIZE_MISSING_TEXT))
    elif not 1 <= _number(size) <= MAX_SLICE_SIZE:
        faults.append(SliceFault(ANNOTATION_SLICE_SIZE, size, SIZE_TEXT))
    if key is None:
        faults.append(SliceFault(ANNOTATION_SLICE_TOPOLOGY, None, TOPOLOGY_MISSING_TEXT))
    elif not isinstance(key, str) or not is_label_key(key):
        faults.append(SliceFault(ANNOTATION_SLICE_TOPOLOGY, key, TOPOLOGY_TEXT))
    return faults or SliceOptions(int(text(size)), text(key))


def job_pods(annotations: Mapping[str, Any]) -> int:
    """Return how many indexes each Job of the group has; 0 if it is not known."""
    return _number(annotations.get(ANNOTATION_SLICE_JOB_PODS))


def _number(value: Any) -> int:
    """Return the number that an annotation states, 0 if it states none."""
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else 0
