"""Annotations and labels under our prefix that nothing reads: mostly typing errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from api import constants
from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_GANG_MODE,
    ANNOTATION_GROUP_BY,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_PREFERRED_TOPOLOGY,
    ANNOTATION_TOPOLOGY,
    CRON_JOB,
    GROUP,
    JOB,
    JOBSET,
    LABEL_POD_GROUP,
    LEADER_WORKER_SET,
    POD,
)
from api.groups import groups_of_object
from api.integration.groups_from_pods import OF_GROUP, warnings_of
from api.integration.options import outer_key
from api.reading import annotations_of, dig, labels_of, listing, mapping, text
from cli.doctor.findings import About, Limited, warning
from kube.meta import Json

PREFIX: Final = f"{GROUP}/"

# What a user asks for, on what is made into groups; elsewhere nothing reads these.
OPTIONS: Final = frozenset(
    {
        ANNOTATION_DISRUPTION_MODE,
        ANNOTATION_GANG_MODE,
        ANNOTATION_MIN_COUNT,
        ANNOTATION_PREFERRED_TOPOLOGY,
        ANNOTATION_TOPOLOGY,
    }
)
_OWNERS: Final = frozenset({JOB.kind, JOBSET.kind, LEADER_WORKER_SET.kind, CRON_JOB.kind})


def _constants(start: str) -> frozenset[str]:
    values = (value for name, value in vars(constants).items() if name.startswith(start))
    return frozenset(one for one in values if isinstance(one, str) and one.startswith(PREFIX))


ANNOTATIONS: Final = _constants("ANNOTATION_") | {outer_key(key) for key in OPTIONS}
LABELS: Final = _constants("LABEL_")


def check_keys(kind: str, obj: Json, found: Limited) -> None:
    """Adds what nothing reads of an object, of its Job templates too."""
    namespace, name = (text(dig(obj, "metadata", key)) for key in ("namespace", "name"))
    # A namespace is its own tenant.
    about = About(kind, name, name if kind == "Namespace" else namespace)
    for path, holder in _holders(kind, obj):
        for key in _unread(annotations_of(holder), ANNOTATIONS):
            _add(found, about, f"{path}metadata.annotations[{key}]", _instead(key, "annotation"))
        for key in _unread(labels_of(holder), LABELS):
            _add(found, about, f"{path}metadata.labels[{key}]", _instead(key, "label"))
        for key, where in _misplaced(kind, holder):
            _add(found, about, f"{path}metadata.annotations[{key}]", where)


def _misplaced(kind: str, holder: Any) -> Iterator[tuple[str, str]]:
    """Annotations that are read elsewhere, and what to do."""
    written = annotations_of(holder).keys()
    if kind != POD.kind:
        for key in sorted(written & {ANNOTATION_GROUP_BY}):
            yield key, "write it in the template of the pods"
        for key in sorted(OPTIONS & written) if kind not in _OWNERS else ():
            yield key, "write it on the Job or JobSet, not here"
        return
    if ANNOTATION_GANG_MODE in written:
        yield ANNOTATION_GANG_MODE, "write it on the Job or JobSet, not here"
    named = groups_of_object(holder, ours=True)
    for key in (*OF_GROUP, ANNOTATION_GROUP_BY):
        if key in written and not named:
            yield key, f"add the label {LABEL_POD_GROUP}, or write it on the Job or JobSet"
    for warning_ in warnings_of(named, holder):
        path, _, why = warning_.partition(": ")
        yield path.partition("[")[2].removesuffix("]"), why


def _holders(kind: str, obj: Json) -> Iterator[tuple[str, Any]]:
    """The object and the Job templates in it, each with the path to it."""
    yield "", obj
    if kind == CRON_JOB.kind:
        yield "spec.jobTemplate.", dig(obj, "spec", "jobTemplate")
    if kind == JOBSET.kind:
        for at, one in enumerate(listing(dig(obj, "spec", "replicatedJobs"))):
            yield f"spec.replicatedJobs[{at}].template.", mapping(one).get("template")


def _unread(keys: Mapping[str, Any], known: frozenset[str]) -> Iterator[str]:
    return (key for key in keys if key.startswith(PREFIX) and key not in known)


def _add(found: Limited, about: About, path: str, action: Any) -> None:
    if found.takes(about.namespace):
        told = action if isinstance(action, str) else action()
        found.add(warning(found.check, about, f"{path}: nothing reads this", told))


def _instead(key: str, what: str) -> Any:
    """What to write instead; worked out only where it is shown, since it takes milliseconds."""

    def action() -> str:
        right, other = (ANNOTATIONS, LABELS) if what == "annotation" else (LABELS, ANNOTATIONS)
        if key in other:
            return f"make it {'a label' if what == 'annotation' else 'an annotation'}"
        names = sorted(one.removeprefix(PREFIX) for one in right)
        nearest = difflib.get_close_matches(key.removeprefix(PREFIX), names, n=1)
        if nearest:
            return f"write {PREFIX}{nearest[0]}"
        return f"remove it, or write one of the {what}s in docs/guide.md"

    return action
