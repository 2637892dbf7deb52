"""The options of a user at one place of an object, in annotations or in KEP-1068's field."""

import re
from dataclasses import dataclass
from typing import Any, Final

from api import causes, names
from api.causes import Cause
from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_EVICTION_COST,
    ANNOTATION_GANG_MODE,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_MIN_RUN_TIME,
    ANNOTATION_MOVABLE,
    ANNOTATION_PREEMPTION_DELAY,
    ANNOTATION_PREFERRED_TOPOLOGY,
    ANNOTATION_PROVISIONING_REQUEST,
    ANNOTATION_SHARED_CLAIMS,
    ANNOTATION_START_TIMEOUT,
    ANNOTATION_TOPOLOGY,
    ANNOTATION_TREE,
    GROUP,
    REPLICATED_JOB_PREFIX,
)
from api.integration.common.shared_claims import read_shared
from api.integration.common.trees import TREE_TEXT, Tree, read_tree
from api.provisioning import CLASSES
from api.reading import annotations_of, dig
from api.rules.table import LABEL_KEY_TEXT, READ
from api.slices import SliceOptions, read_slices

_COUNT: Final = re.compile(r"0*[1-9][0-9]{0,8}", re.ASCII)

COUNT_TEXT: Final = "must be an integer between 1 and 999999999, inclusive"

OFF: Final = "Off"
BASIC: Final = "Basic"
GANG: Final = "Gang"
REPLICATED_GANG: Final = "ReplicatedGang"
COMPOSITE: Final = "Composite"

JOB_MODES: Final = (OFF, BASIC, GANG)
REPLICATED_JOB_MODES: Final = (OFF, BASIC, GANG, REPLICATED_GANG)
JOBSET_MODES: Final = (OFF, BASIC, GANG, COMPOSITE)

SINGLE: Final = "Single"
ALL: Final = "All"
DISRUPTION_MODES: Final = (SINGLE, ALL)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one level. Empty and None mean "not set".

    `path` is the path of the object with the annotations (empty for the root). `mode_path` is the
    path of the mode. `outer` is True for the `replicated-job-` annotations. `request` (of
    capacity), `delay` (of preemption), `min_run` (the time before it), `eviction_cost`,
    `movable` and `start_within` (the time limit of its start) apply to a root, and are written to
    the group if it is one. `claims` are the entries of the pods' claims that the pods share. `tree`
    is the tree of several owners in which the owner is. `slices` are the slices of a PodGroup of
    this level.
    """

    mode: str = ""
    mode_path: str = ""
    min_count: int | None = None
    topology: str = ""
    preferred: bool = False
    slices: SliceOptions | None = None
    disruption: str = ""
    request: str = ""
    delay: str = ""
    min_run: str = ""
    start_within: str = ""
    eviction_cost: str = ""
    movable: str = ""
    claims: tuple[str, ...] = ()
    tree: Tree | None = None

    path: str = ""
    outer: bool = False

    def at(self, key: str) -> str:
        """Return the field path of one of this level's annotations."""
        return annotation_path(self.path, outer_key(key) if self.outer else key)

    @property
    def of_root(self) -> dict[str, str]:
        """The options that only a root has, by their annotations; empty if not set."""
        return {
            ANNOTATION_PROVISIONING_REQUEST: self.request,
            ANNOTATION_PREEMPTION_DELAY: self.delay,
            ANNOTATION_MIN_RUN_TIME: self.min_run,
            ANNOTATION_EVICTION_COST: self.eviction_cost,
            ANNOTATION_MOVABLE: self.movable,
            ANNOTATION_START_TIMEOUT: self.start_within,
        }

    @property
    def asks(self) -> bool:
        """True if a group is requested here."""
        return self.mode not in {"", OFF}


def annotation_path(holder: str, key: str) -> str:
    """Return the field path of an annotation; `holder` is the path of its object."""
    metadata = f"{holder}.metadata" if holder else "metadata"
    return f"{metadata}.annotations[{key}]"


def outer_key(key: str) -> str:
    """Return the same annotation for the CompositePodGroup of a replicatedJob."""
    return f"{GROUP}/{REPLICATED_JOB_PREFIX}{key.removeprefix(f'{GROUP}/')}"


def read_options(
    obj: Any,
    path: str,
    modes: tuple[str, ...],
    report: list[Cause],
    *,
    field: tuple[Any, str] = (None, ""),
) -> Options:
    """Return the options in the annotations of `obj`, or in the KEP-1068 field next to it.

    `field` is the object that may have `gangConfig`, and its path. Invalid values are appended to
    `report` and count as not set.
    """
    mode, mode_path = _mode(obj, path, modes, report, field)
    fields = _fields(obj, path, report, outer=False) | _fields_of_root(obj, path, report)
    fields["slices"] = _slices(obj, path, report)
    shared_path = annotation_path(path, ANNOTATION_SHARED_CLAIMS)
    claims = read_shared(annotations_of(obj).get(ANNOTATION_SHARED_CLAIMS), shared_path, report)
    return Options(mode=mode, mode_path=mode_path, path=path, claims=claims, **fields)


def read_outer_options(obj: Any, path: str, report: list[Cause]) -> Options:
    """Return the options in the `replicated-job-` annotations of a replicatedJob."""
    return Options(path=path, outer=True, **_fields(obj, path, report, outer=True))


def read_group_options(obj: Any, path: str, report: list[Cause]) -> Options:
    """Return the options in the annotations of `obj`, whatever its mode."""
    slices = _slices(obj, path, report)
    return Options(path=path, slices=slices, **_fields(obj, path, report, outer=False))


def _mode(
    obj: Any, path: str, modes: tuple[str, ...], report: list[Cause], field: tuple[Any, str]
) -> tuple[str, str]:
    holder, holder_path = field
    noted = annotations_of(obj).get(ANNOTATION_GANG_MODE)
    noted_path = annotation_path(path, ANNOTATION_GANG_MODE)
    written = dig(holder, "gangConfig", "gangMode")
    written_path = ".".join(part for part in (holder_path, "gangConfig.gangMode") if part)
    if noted is not None and written is not None and noted != written:
        report.append(
            causes.invalid(
                written_path, written, f"must be the same as {noted_path}: set only one of them"
            )
        )
    if noted is None and written is not None:
        return _enum(written, written_path, modes, report), written_path
    return _enum(noted, noted_path, modes, report), noted_path


def _fields(obj: Any, path: str, report: list[Cause], *, outer: bool) -> dict[str, Any]:
    annotations = annotations_of(obj)

    def read(key: str) -> tuple[Any, str]:
        key = outer_key(key) if outer else key
        return annotations.get(key), annotation_path(path, key)

    hard, hard_path = read(ANNOTATION_TOPOLOGY)
    soft, soft_path = read(ANNOTATION_PREFERRED_TOPOLOGY)
    if hard is not None and soft is not None:
        report.append(
            causes.invalid(
                soft_path, soft, f"must not be set together with {hard_path}: remove one of them"
            )
        )
    topology = _label_key(hard, hard_path, report) or _label_key(soft, soft_path, report)
    disruption, disruption_path = read(ANNOTATION_DISRUPTION_MODE)
    count, count_path = read(ANNOTATION_MIN_COUNT)
    return {
        "min_count": _count(count, count_path, report),
        "topology": topology,
        "preferred": hard is None and soft is not None,
        "disruption": _enum(disruption, disruption_path, DISRUPTION_MODES, report),
    }


def _fields_of_root(obj: Any, path: str, report: list[Cause]) -> dict[str, Any]:
    asked = annotations_of(obj).get(ANNOTATION_PROVISIONING_REQUEST)
    asked_path = annotation_path(path, ANNOTATION_PROVISIONING_REQUEST)
    return {
        "request": _enum(asked, asked_path, CLASSES, report),
        "delay": _read(obj, path, ANNOTATION_PREEMPTION_DELAY, report),
        "min_run": _read(obj, path, ANNOTATION_MIN_RUN_TIME, report),
        "start_within": _read(obj, path, ANNOTATION_START_TIMEOUT, report),
        "eviction_cost": _read(obj, path, ANNOTATION_EVICTION_COST, report),
        "movable": _read(obj, path, ANNOTATION_MOVABLE, report),
        "tree": _tree(obj, path, report),
    }


def _slices(obj: Any, path: str, report: list[Cause]) -> SliceOptions | None:
    found = read_slices(annotations_of(obj))
    if isinstance(found, SliceOptions):
        return found
    for fault in found:
        at = annotation_path(path, fault.annotation)
        missing = fault.value is None
        report.append(
            causes.required(at, fault.text)
            if missing
            else causes.invalid(at, fault.value, fault.text)
        )
    return None


def _tree(obj: Any, path: str, report: list[Cause]) -> Tree | None:
    written = annotations_of(obj).get(ANNOTATION_TREE)
    found = read_tree(written)
    if written is not None and found is None:
        report.append(causes.invalid(annotation_path(path, ANNOTATION_TREE), written, TREE_TEXT))
    return found


def _read(obj: Any, path: str, key: str, report: list[Cause]) -> str:
    """Return the annotation as it is written; empty if it has another form, which is reported."""
    written, (rule, read) = annotations_of(obj).get(key), READ[key]
    if written is not None and read(written) is None:
        report.append(causes.invalid(annotation_path(path, key), written, rule.text))
        return ""
    return written or ""


def _enum(value: Any, path: str, values: tuple[str, ...], report: list[Cause]) -> str:
    if value is None:
        return ""
    if value not in values:
        report.append(causes.not_supported(path, value, values))
        return ""
    return str(value)


def _label_key(value: Any, path: str, report: list[Cause]) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not names.is_label_key(value):
        report.append(causes.invalid(path, value, LABEL_KEY_TEXT))
        return ""
    return value


def _count(value: Any, path: str, report: list[Cause]) -> int | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _COUNT.fullmatch(value):
        report.append(causes.invalid(path, value, COUNT_TEXT))
        return None
    return int(value)
