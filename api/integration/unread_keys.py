"""Annotations and labels with Muster's prefix that nothing reads: unknown or misplaced ones.

Objects are raw JSON of any structure. An object that creates pods is checked with its templates.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from api import constants
from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_GANG_MODE,
    ANNOTATION_GROUP_BY,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_PREFERRED_TOPOLOGY,
    ANNOTATION_SLICE_SIZE,
    ANNOTATION_SLICE_TOPOLOGY,
    ANNOTATION_START_TIMEOUT,
    ANNOTATION_TOPOLOGY,
    ANNOTATION_TREE,
    COMPOSITE_POD_GROUP,
    GROUP,
    LABEL_POD_GROUP,
    LABEL_REPLICA_KEY,
    LABEL_SUBSET,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    POD,
    POD_GROUP,
    TRAIN_JOB,
)
from api.groups import groups_of_object
from api.integration.apps.kinds import leader_worker_set_of
from api.integration.common.embedding_kind import EmbeddingKind
from api.integration.common.options import outer_key
from api.integration.common.owner_kind import OwnerKind
from api.integration.kinds import EMBEDDING_KINDS, OWNER_KINDS
from api.integration.pods.groups_from_pods import OF_GROUP, ignored_keys
from api.reading import annotations_of, dig, labels_of, mapping

PREFIX: Final = f"{GROUP}/"
_MOST_WARNINGS: Final = 5
"""Warnings about unknown keys in one review. Further ones are left out."""

# Options for objects that get groups. Nothing reads them elsewhere.
OPTIONS: Final = frozenset(
    {
        ANNOTATION_DISRUPTION_MODE,
        ANNOTATION_GANG_MODE,
        ANNOTATION_MIN_COUNT,
        ANNOTATION_PREFERRED_TOPOLOGY,
        ANNOTATION_SLICE_SIZE,
        ANNOTATION_SLICE_TOPOLOGY,
        ANNOTATION_TOPOLOGY,
        ANNOTATION_TREE,
    }
)
_KINDS: Final[Mapping[str, OwnerKind | EmbeddingKind]] = {**OWNER_KINDS, **EMBEDDING_KINDS}
_OF_PODS: Final = frozenset(
    {LABEL_POD_GROUP, LABEL_REPLICA_KEY, LABEL_SUBSET, LABEL_TEMPLATE, LABEL_WORKLOAD}
)
BY_TEMPLATES: Final = frozenset(
    {
        *("PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob"),
        *("SparkApplication", "ScheduledSparkApplication"),
    }
)
"""Other projects' kinds whose pods request groups: Muster reads nothing on the objects."""

_HAVE_LIMITS: Final = frozenset({POD_GROUP.kind, COMPOSITE_POD_GROUP.kind}) | BY_TEMPLATES
"""Kinds that have a start-timeout themselves, or whose groups have one."""

_IN_TEMPLATES: Final = (
    f"set the label {LABEL_POD_GROUP} and the annotation {ANNOTATION_MIN_COUNT} in the templates "
    "of its pods"
)
_ON_THE_CREATOR: Final = "set it on the object that creates the pods, such as a Job"
_ON_PODS: Final = (
    f"set the label {LABEL_POD_GROUP}, or set the annotation on the object that creates the pods"
)


class Unread(NamedTuple):
    """A key that nothing reads: its path, and the advice, which may take milliseconds."""

    path: str
    instead: Callable[[], str]


def _constants(start: str) -> frozenset[str]:
    values = (value for name, value in vars(constants).items() if name.startswith(start))
    return frozenset(one for one in values if isinstance(one, str) and one.startswith(PREFIX))


ANNOTATIONS: Final = _constants("ANNOTATION_") | {
    outer_key(key)
    for key in OPTIONS - {ANNOTATION_TREE, ANNOTATION_SLICE_SIZE, ANNOTATION_SLICE_TOPOLOGY}
}
LABELS: Final = _constants("LABEL_")


def unread_keys(kind: str, obj: Mapping[str, Any]) -> Iterator[Unread]:
    """Yield the unread keys of an object of this kind, and of the templates in it."""
    for path, what, found in _holders(kind, obj):
        holder = mapping(found)
        yield from unknown_keys(holder, path)
        for at, action in _misplaced(what, holder):
            yield Unread(f"{path}metadata.{at}", partial(str, action))


def unknown_keys(holder: Any, path: str = "") -> Iterator[Unread]:
    """Yield unknown keys of an object, or of the template at a path."""
    for key in _unknown(annotations_of(holder), ANNOTATIONS):
        at = f"{path}metadata.annotations[{key}]"
        yield Unread(at, partial(_instead, key, "annotation"))
    for key in _unknown(labels_of(holder), LABELS):
        yield Unread(f"{path}metadata.labels[{key}]", partial(_instead, key, "label"))


def warnings(found: Iterable[Unread]) -> list[str]:
    """Return the first of them as warnings for the user who creates the object."""
    # Lazy, so that only the advice that is shown is computed.
    shown = islice(found, _MOST_WARNINGS)
    return [f"{path}: has no effect: {instead()}" for path, instead in shown]


def _misplaced(kind: str, holder: Any) -> Iterator[tuple[str, str]]:
    """Yield keys that are read elsewhere, with the advice."""
    written = annotations_of(holder).keys()
    if kind == POD.kind:
        yield from _misplaced_on_pods(holder, written)
        return
    if ANNOTATION_GROUP_BY in written:
        yield f"annotations[{ANNOTATION_GROUP_BY}]", "set it in the pod template"
    part_of = leader_worker_set_of(kind, holder)
    action = "set it in spec.annotations" if kind == TRAIN_JOB.kind else _ON_THE_CREATOR
    action = _IN_TEMPLATES if kind in BY_TEMPLATES else action
    action = f"set it on LeaderWorkerSet {part_of}" if part_of else action
    options = OPTIONS if kind in _HAVE_LIMITS else OPTIONS | {ANNOTATION_START_TIMEOUT}
    for key in sorted(options & written) if part_of or kind not in _KINDS else ():
        yield f"annotations[{key}]", action
    # API servers copy the labels of a Job's pods to a Job without labels.
    of_pods = labels_of(dig(holder, "spec", "template")).keys()
    unsaid = (_OF_PODS & labels_of(holder).keys()) - of_pods
    for key in sorted(unsaid) if kind in _KINDS else ():
        yield f"labels[{key}]", "set it in the pod template"


def _misplaced_on_pods(holder: Any, written: Any) -> Iterator[tuple[str, str]]:
    for key in (ANNOTATION_GANG_MODE, ANNOTATION_START_TIMEOUT, ANNOTATION_TREE):
        if key in written:
            yield f"annotations[{key}]", _ON_THE_CREATOR
    named = groups_of_object(holder, ours=True)
    for key in (*OF_GROUP, ANNOTATION_GROUP_BY):
        if key in written and not named:
            yield f"annotations[{key}]", _ON_PODS
    for key, why in ignored_keys(named, holder):
        yield f"annotations[{key}]", why


def _holders(kind: str, obj: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield the object and the templates in it: the path, the kind to read it as, and the value."""
    yield "", kind, obj
    for it in _KINDS[kind].templates(mapping(obj)) if kind in _KINDS else ():
        yield it.path, it.kind.kind, it.found


def _unknown(keys: Mapping[str, Any], known: frozenset[str]) -> Iterator[str]:
    return (key for key in keys if key.startswith(PREFIX) and key not in known)


def _instead(key: str, what: str) -> str:
    right, other = (ANNOTATIONS, LABELS) if what == "annotation" else (LABELS, ANNOTATIONS)
    if key in other:
        return f"use {'a label' if what == 'annotation' else 'an annotation'} with this key"
    names = sorted(one.removeprefix(PREFIX) for one in right)
    nearest = difflib.get_close_matches(key.removeprefix(PREFIX)[:64], names, n=1)
    if nearest:
        return f"use {PREFIX}{nearest[0]}"
    return f"remove it, or use one of the {what}s in docs/guide.md"
