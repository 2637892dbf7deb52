"""PodGroups that pods request themselves, whatever created the pods.

A pod that names its group by Muster's label may describe the group in annotations: `min-count`,
topology, disruption mode. If no PodGroup has the name, Muster creates one from these. The group
belongs to its pods: its annotation states "the pods of this name" as its owner, and its owner
reference follows theirs.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from api import causes
from api.causes import Cause
from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_GROUP_BY,
    ANNOTATION_MADE_FOR,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_MIN_COUNT_BASIS,
    ANNOTATION_PREFERRED_TOPOLOGY,
    ANNOTATION_SLICE_SIZE,
    ANNOTATION_SLICE_TOPOLOGY,
    ANNOTATION_TOPOLOGY,
    FINALIZER_POD_GROUP,
    LABEL_MANAGED_BY,
    LABEL_POD_GROUP,
    MANAGED_BY,
    POD,
    POD_GROUP,
)
from api.groups import Form, GroupBy, GroupReference
from api.integration.common.objects import in_slices, template
from api.integration.common.options import ALL, SINGLE, Options, annotation_path, read_group_options
from api.integration.common.rules import check_slices
from api.names import is_label_key, is_label_value
from api.ownership import Noted, OwnerId, created_for
from api.reading import annotations_of, dig, integer, labels_of, listing, mapping, text
from api.rules.table import LABEL_KEY_TEXT
from api.slices import SliceOptions

Json = dict[str, Any]

NEVER: Final = "Never"

OF_GROUP: Final = (
    ANNOTATION_MIN_COUNT,
    ANNOTATION_TOPOLOGY,
    ANNOTATION_PREFERRED_TOPOLOGY,
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_SLICE_SIZE,
    ANNOTATION_SLICE_TOPOLOGY,
)
"""Annotations by which pods describe their group."""

GROUP_BY_TEXT: Final = (
    f"{LABEL_KEY_TEXT}. Or use key,other=value with two label keys: pods with that value of the "
    "second label are a group of their own"
)

_SHOWN: Final = 4
"""Values that a message names, at most."""


class GroupDescription(NamedTuple):
    """A pod's description of its group. Empty values are not set, if that is possible."""

    min_count: int
    topology: str = ""
    preferred: bool = False
    disruption: str = ""
    priority_class: str = ""
    preemption_policy: str = ""
    slice_size: int = 0
    slice_topology: str = ""

    @property
    def fixed(self) -> "GroupDescription":
        """The description without minCount, the only value that can change on an existing group."""
        return self._replace(min_count=0)


def ask_of(
    reference: GroupReference,
    annotations: Mapping[str, str],
    priority_class: str = "",
    preemption_policy: str = "",
) -> GroupDescription | None:
    """Return a pod's description of its group; None if it requests none.

    A pod with an invalid value requests none: admission rejects it.
    """
    if ANNOTATION_MIN_COUNT not in annotations or not _may_ask(reference, annotations):
        return None
    said = tuple(annotations.get(key) for key in OF_GROUP)
    return _ask(said, priority_class, NEVER if preemption_policy == NEVER else "")


@lru_cache(maxsize=1024)
def _ask(
    said: tuple[str | None, ...], priority_class: str, preemption_policy: str
) -> GroupDescription | None:
    """Return the description for these values, the same object for equal ones."""
    # Cached, because pods of one template all have the same values.
    report: list[Cause] = []
    written = {key: value for key, value in zip(OF_GROUP, said, strict=True) if value is not None}
    options = read_group_options({"metadata": {"annotations": written}}, "", report)
    if report or options.min_count is None:
        return None
    return GroupDescription(
        options.min_count,
        options.topology,
        options.preferred,
        options.disruption or SINGLE,
        priority_class,
        preemption_policy,
        *(options.slices or ()),
    )


def check_pod(groups: list[GroupReference], pod: Mapping[str, Any], path: str = "") -> list[Cause]:
    """Return the faults in a pod's description of its group; `groups` are those it names.

    With a `path` the object is a pod template, whose pods may get more labels.
    """
    annotations = annotations_of(pod)
    said = [key for key in (*OF_GROUP, ANNOTATION_GROUP_BY) if key in annotations]
    if not said or not groups or not _may_ask(groups[0], annotations):
        return []
    report: list[Cause] = []
    options = read_group_options(pod, path, report)
    report += check_slices(options, options.min_count or 0, "pods of min-count")
    # A template's pods may get more labels, so a missing one is no fault there.
    labels = None if path else labels_of(pod)
    return [*report, *_wrong_key(annotations.get(ANNOTATION_GROUP_BY), labels, path)]


def warnings_of(groups: list[GroupReference], pod: Mapping[str, Any]) -> list[str]:
    """Return warnings about annotations of a group that have no effect on this pod."""
    return [f"{annotation_path('', key)}: {why}" for key, why in ignored_keys(groups, pod)]


def ignored_keys(groups: list[GroupReference], pod: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the annotations of a group that have no effect on this pod, with the reasons."""
    annotations = annotations_of(pod)
    if not groups or annotations.get(ANNOTATION_MANAGED_GROUP) == groups[0].name:
        return []
    found = [key for key in (*OF_GROUP, ANNOTATION_GROUP_BY) if key in annotations]
    if groups[0].form is not Form.LABEL:
        why = f"Muster reads it only where the label {LABEL_POD_GROUP} names the group"
    elif ANNOTATION_MIN_COUNT not in annotations:
        why = f"Muster reads it only together with {ANNOTATION_MIN_COUNT}, which creates the group"
        found = [key for key in found if key != ANNOTATION_GROUP_BY]
    else:
        return []
    return [(key, why) for key in found]


def owner_id_of(group: str) -> OwnerId:
    """Return the owner of a group created from pods: the pods that name it."""
    return OwnerId(POD.group, POD.kind, group, "")


def is_from_pods(meta: Noted, name: str) -> bool:
    """Return True if the PodGroup `name` was created from its pods."""
    return created_for(meta) == owner_id_of(name)


def group_object(namespace: str, name: str, ask: GroupDescription, owner: Json | None) -> Json:
    """Return the PodGroup; `owner` is the reference to the pods' common owner, if any."""
    options = Options(
        min_count=ask.min_count,
        topology=ask.topology,
        preferred=ask.preferred,
        disruption=ask.disruption,
        slices=SliceOptions(ask.slice_size, ask.slice_topology) if ask.slice_size else None,
    )
    said = {
        "priorityClassName": ask.priority_class,
        "preemptionPolicy": ask.preemption_policy,
    }
    spec = template(
        name, options, ask.min_count, {key: value for key, value in said.items() if value}
    )
    del spec["name"]
    metadata: Json = {
        "name": name,
        "namespace": namespace,
        "labels": {LABEL_MANAGED_BY: MANAGED_BY},
        "annotations": {
            ANNOTATION_MADE_FOR: owner_id_of(name).annotation(),
            ANNOTATION_MIN_COUNT_BASIS: str(ask.min_count),
        },
        "finalizers": [FINALIZER_POD_GROUP],
    }
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    group = {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "metadata": metadata,
        "spec": spec,
    }
    return in_slices(group, options)


def ask_in(spec: Mapping[str, Any]) -> GroupDescription:
    """Return the description by which pods would get this spec."""
    topology = mapping(next(iter(listing(dig(spec, "schedulingConstraints", "topology"))), {}))
    return GroupDescription(
        min_count=integer(dig(spec, "schedulingPolicy", "gang", "minCount")) or 0,
        topology=text(topology.get("key")),
        preferred=topology.get("preferred") is True,
        disruption=ALL if "all" in mapping(spec.get("disruptionMode")) else SINGLE,
        priority_class=text(spec.get("priorityClassName")),
        preemption_policy=NEVER if spec.get("preemptionPolicy") == NEVER else "",
    )


def chosen(asks: Mapping[GroupDescription, int], current: int = 0) -> GroupDescription:
    """Return the description that a group gets; `asks` counts the pods with each.

    The `current` minCount of a group stays as long as a pod requests it. Otherwise the most
    frequent description counts, and the smallest of equally frequent ones.
    """
    # A rolling update changes the annotations pod by pod. minCount must not change back and forth.
    same = {ask: pods for ask, pods in asks.items() if ask.min_count == current}
    return min(same or asks, key=lambda ask: (-asks[ask], ask))


def differences(asks: Mapping[GroupDescription, int], group: GroupDescription) -> str:
    """Return a message about pods whose description differs from their group; else empty."""
    counts = sorted({ask.min_count for ask in asks} - {group.min_count})
    parts = []
    if counts:
        parts.append(
            f"the pods have min-count {_listed(counts)}, and the group keeps minCount "
            f"{group.min_count} while one of its pods has this value"
        )
    fixed = {ask.fixed for ask in asks}
    for name, said in _FIXED.items():
        values = {said(ask) for ask in fixed} - {said(group)}
        # Admission fills in these fields from the PriorityClass, so pods without them do not
        # differ.
        if name in _FILLED:
            values.discard("")
        if values:
            parts.append(
                f"the pods have {name} {_listed(sorted(values))}, and the group has "
                f"{said(group) or 'none'}: delete the group, and Muster recreates it"
            )
    return "; ".join(parts)


def _topology(ask: GroupDescription) -> str:
    if not ask.topology:
        return ""
    return f"{ask.topology} (preferred)" if ask.preferred else ask.topology


_FIXED: Final[Mapping[str, Callable[[GroupDescription], str]]] = {
    "topology": _topology,
    "disruption-mode": lambda ask: ask.disruption,
    "priorityClassName": lambda ask: ask.priority_class,
    "preemptionPolicy": lambda ask: ask.preemption_policy,
}
_FILLED: Final = frozenset({"priorityClassName", "preemptionPolicy"})
"""Fields that admission may fill in on the group."""


def _listed(values: list[Any]) -> str:
    shown = [str(value or "none") for value in values[:_SHOWN]]
    more = len(values) - len(shown)
    return " and ".join(shown) + (f" and {more} more" if more else "")


def _may_ask(reference: GroupReference, annotations: Mapping[str, Any]) -> bool:
    """Return True if these annotations describe this group."""
    managed = annotations.get(ANNOTATION_MANAGED_GROUP)
    return reference.form is Form.LABEL and managed != reference.name


def _wrong_key(said: Any, labels: Mapping[str, Any] | None, holder: str) -> Iterator[Cause]:
    """Yield the fault of `group-by`, if any."""
    path = annotation_path(holder, ANNOTATION_GROUP_BY)
    if said is None:
        return
    parts = GroupBy.read(text(said))
    if parts.text() != said or not _is_group_by(parts):
        yield causes.invalid(path, said, GROUP_BY_TEXT)
    elif LABEL_POD_GROUP in parts[:2]:
        yield causes.invalid(path, said, "must not be the label that names the group")
    elif labels is not None and not text(labels.get(parts.key)):
        yield causes.required(
            f"metadata.labels[{parts.key}]",
            f"set the label: {path} uses its value to tell the groups apart",
        )


def _is_group_by(parts: GroupBy) -> bool:
    other = is_label_key(parts.other_label) and is_label_value(parts.value)
    return is_label_key(parts.key) and (other or not parts.other_label)
