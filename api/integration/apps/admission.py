"""StatefulSets and Deployments (API group apps): how admission marks them, and their PodGroup.

All pods of one are in one PodGroup. Its name is on the pod template and on the object itself; only
where both agree Muster makes the group. It is made from the request that first asked for it, so no
other object, of the same name or not, ever gets it: their pods know no owner but by that name.

The StatefulSets that a LeaderWorkerSet makes ask for nothing, whatever is written on them: the set
above asks (`api.integration.lws`), and a mark here would make its pods anew. They are not refused
either, as that would stop the set.

The group outlives templates and numbers of replicas. Its minCount is the number of replicas, or
`min-count` where that is less, without the pods that an update has yet to replace and that are not
in the group: they never come into it, so an update would wait for them for ever. Before the first
start an update may correct a template that fits no node: then only pods of the template of now
count, since a Deployment or StatefulSet makes no more of these before the first are ready.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from api import causes, names
from api.causes import Cause
from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_PROVISIONING_REQUEST,
    ANNOTATION_SHARED_CLAIMS,
    DEPLOYMENT,
    LABEL_POD_GROUP,
    LWS_LABEL_NAME,
    POD_GROUP,
    STATEFUL_SET,
    KindName,
)
from api.groups import groups_of_object
from api.integration.common import objects
from api.integration.common.options import BASIC, GANG, OFF, Options, annotation_path, read_options
from api.integration.common.result import Admission, Operation, drop_entry, set_entries
from api.integration.common.rules import check_minimum, check_scheduler, frozen
from api.integration.pods.references import check_pod_template
from api.reading import annotations_of, dig, integer, labels_of, mapping, text
from api.scheduler_names import USUAL, SchedulerNames, is_open

Json = dict[str, Any]

KINDS: Final = {kind.kind: kind for kind in (STATEFUL_SET, DEPLOYMENT)}
MODES: Final = (OFF, BASIC, GANG)

ORDER_TEXT: Final = (
    "each pod comes when the one before is ready, so these never start together: set "
    "spec.podManagementPolicy to Parallel in a new StatefulSet, or ask for mode Basic, or for "
    "min-count 1"
)
GROUPED_TEXT: Final = "the pod template names a group itself (%s): leave that out, or this"
PRIORITY_TEXT: Final = (
    "the priority of a group cannot change: take gang-mode away first, or make the object anew"
)
NOT_HERE_TEXT: Final = "Jobs and JobSets alone have this: leave it out"
PART_TEXT: Final = (
    "nothing reads what is asked for here: the pods are those of LeaderWorkerSet %s, write it there"
)
MORE_TEXT: Final = "more than spec.replicas: all replicas count as long as these are fewer"

_TEMPLATE: Final = "/spec/template"
_POD_SPEC: Final = "spec.template.spec"


class Rollout(NamedTuple):
    """How far an update is, by the status: all pods, and those of the template of now."""

    pods: int = 0
    updated: int = 0


@dataclass(frozen=True, slots=True)
class AppView:
    """What a StatefulSet or Deployment asks for.

    `noted` is the group that admission noted on it, `managed` the same where the template agrees.
    `part_of` is the LeaderWorkerSet whose pods it makes.
    """

    kind: KindName
    namespace: str
    name: str
    uid: str
    options: Options
    spec: Mapping[str, Any]
    noted: str
    managed: str
    faults: tuple[Cause, ...]
    part_of: str = ""

    @property
    def pod_spec(self) -> Mapping[str, Any]:
        """The pod template's spec."""
        return mapping(dig(self.spec, "template", "spec"))

    @property
    def replicas(self) -> int:
        """`spec.replicas`, 1 when unset."""
        found = integer(self.spec.get("replicas"))
        return 1 if found is None else max(0, found)

    @property
    def ordered(self) -> bool:
        """Whether each pod is made when the one before is ready."""
        policy = self.spec.get("podManagementPolicy")
        return self.kind == STATEFUL_SET and policy != "Parallel"


def read_app(kind: KindName, obj: Mapping[str, Any]) -> AppView:
    """Reads a StatefulSet or Deployment (raw JSON of any structure)."""
    faults: list[Cause] = []
    spec = mapping(obj.get("spec"))
    noted = text(annotations_of(obj).get(ANNOTATION_MANAGED_GROUP))
    label = text(labels_of(spec.get("template")).get(LABEL_POD_GROUP))
    part_of = leader_worker_set_of(kind.kind, obj)
    return AppView(
        kind=kind,
        namespace=text(dig(obj, "metadata", "namespace")),
        name=text(dig(obj, "metadata", "name")),
        uid=text(dig(obj, "metadata", "uid")),
        options=Options() if part_of else read_options(obj, "", MODES, faults),
        spec=spec,
        noted=noted,
        managed=noted if noted == label else "",
        faults=tuple(faults),
        part_of=part_of,
    )


def leader_worker_set_of(kind: str, obj: Mapping[str, Any]) -> str:
    """The name of the LeaderWorkerSet that makes this object, a StatefulSet; empty for no such."""
    return text(labels_of(obj).get(LWS_LABEL_NAME)) if kind == STATEFUL_SET.kind else ""


def app_pod_specs(kind: KindName, obj: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Path and spec of the pod template, if it asks for a group."""
    view = read_app(kind, obj)
    return [(_POD_SPEC, view.pod_spec)] if view.options.asks else []


def app_admission(
    kind: KindName,
    new: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    operation: str,
    *,
    request_uid: str = "",
    schedulers: SchedulerNames = USUAL,
) -> Admission:
    """Validates a StatefulSet or Deployment and names its group (raw JSON of any structure).

    `request_uid` is that of the request, which a new group is named by. One that asks for a group
    keeps it until it asks no more; what was stored before is not refused.
    """
    if operation not in ("CREATE", "UPDATE"):
        return Admission()
    before = read_app(kind, old) if operation == "UPDATE" and old is not None else None
    view = read_app(kind, new)
    noted = "" if before is None else before.noted
    if not view.options.asks:
        faults = _new_faults(view, before, schedulers)
        told = _unread(new, view) if before is not None else []  # a new one: `unread_keys`
        return Admission(_unmarked(new, view, noted), faults, told)
    kept = noted if before is not None and before.options.asks else ""
    shown = view.name or text(dig(new, "metadata", "generateName"))
    group = kept or names.requested_pod_group(kind.kind, shown, request_uid)
    found = [*_new_faults(view, before, schedulers), *_other_group(view, noted, schedulers)]
    if before is not None and kept:
        found += _frozen(view, before)
    return Admission(_marked(new, group, schedulers), list(dict.fromkeys(found)), _warnings(view))


def minimum(
    asked: int | None, replicas: int, rollout: Rollout, members: int, *, started: bool = True
) -> int:
    """The minCount of a gang whose `min-count` is `asked`, with so many pods in the group.

    Pods of an earlier template that are not among these are not waited for, nor any of these
    before the gang has `started`.
    """
    wanted = replicas if asked is None else min(asked, replicas)
    outside = min(rollout.pods - rollout.updated, rollout.pods - members)
    left = wanted - max(0, outside)
    if not started and rollout.updated:
        left = min(left, rollout.updated)
    return max(1, left)


def app_group(view: AppView, rollout: Rollout, members: int, *, started: bool = True) -> Json:
    """The PodGroup of one that is marked, with so many `members`."""
    owner = objects.Owner(view.kind, view.namespace, view.name, view.uid)
    waited_for = minimum(view.options.min_count, view.replicas, rollout, members, started=started)
    made_from = objects.template(
        "", replace(view.options, min_count=None), waited_for, objects.priority_of(view.pod_spec)
    )
    group = objects.group_object(POD_GROUP, owner, view.managed, "", made_from)
    del group["spec"]["workloadRef"]
    return objects.as_root(group, view.options)


def _marked(obj: Mapping[str, Any], group: str, schedulers: SchedulerNames) -> list[Operation]:
    template = dig(obj, "spec", "template")
    named = {ANNOTATION_MANAGED_GROUP: group}
    labels = {LABEL_POD_GROUP: group}
    marks = [
        *set_entries(obj, "", {"annotations": named}),
        *set_entries(template, _TEMPLATE, {"labels": labels, "annotations": named}),
    ]
    spec = mapping(template).get("spec")
    if isinstance(spec, Mapping) and is_open(spec.get("schedulerName")):
        path = f"{_TEMPLATE}/spec/schedulerName"
        marks.append({"op": "add", "path": path, "value": schedulers.default})
    return marks


def _unmarked(obj: Mapping[str, Any], view: AppView, noted: str) -> list[Operation]:
    """The note stays on an object that had a group: by it the controller takes that away."""
    template = dig(obj, "spec", "template")
    label = text(labels_of(template).get(LABEL_POD_GROUP))
    named = label != "" and label in (noted, view.noted)
    return [
        *(
            set_entries(obj, "", {"annotations": {ANNOTATION_MANAGED_GROUP: noted}})
            if noted
            else drop_entry(obj, "", "annotations", ANNOTATION_MANAGED_GROUP)
        ),
        *(drop_entry(template, _TEMPLATE, "labels", LABEL_POD_GROUP) if named else []),
        *drop_entry(template, _TEMPLATE, "annotations", ANNOTATION_MANAGED_GROUP),
    ]


def _new_faults(view: AppView, before: AppView | None, schedulers: SchedulerNames) -> list[Cause]:
    had = set() if before is None else set(_faults(before, schedulers))
    return [fault for fault in _faults(view, schedulers) if fault not in had]


def _faults(view: AppView, schedulers: SchedulerNames) -> Iterator[Cause]:
    yield from view.faults
    options = view.options
    if not options.asks:
        return
    if options.claims:
        yield causes.forbidden(options.at(ANNOTATION_SHARED_CLAIMS), NOT_HERE_TEXT)
    if options.request:
        yield causes.forbidden(options.at(ANNOTATION_PROVISIONING_REQUEST), NOT_HERE_TEXT)
    if options.mode == BASIC and options.min_count is not None:
        yield from check_minimum(options, options.min_count, "replicas")
    if view.ordered and options.mode == GANG and options.min_count != 1:
        yield causes.invalid(options.mode_path, options.mode, ORDER_TEXT)
    yield from check_scheduler(view.pod_spec, _POD_SPEC, schedulers)
    yield from check_pod_template(mapping(view.spec.get("template")), "spec.template", schedulers)


def _other_group(view: AppView, noted: str, schedulers: SchedulerNames) -> Iterator[Cause]:
    """A group that the template names, and that is not from Muster's mark, copied or not."""
    template = mapping(view.spec.get("template"))
    scheduler = view.pod_spec.get("schedulerName")
    named = {it.name for it in groups_of_object(template, ours=scheduler in schedulers)}
    others = sorted(named - {noted, view.noted})
    if others:
        mode = view.options
        yield causes.invalid(mode.mode_path, mode.mode, GROUPED_TEXT % others[0])


def _frozen(view: AppView, before: AppView) -> Iterator[Cause]:
    """What an update may not change, as the group that is there cannot."""
    yield from frozen(view.options, before.options)
    for key in ("priorityClassName", "preemptionPolicy"):
        now = text(view.pod_spec.get(key))
        if now != text(before.pod_spec.get(key)):
            yield causes.invalid(f"{_POD_SPEC}.{key}", now, PRIORITY_TEXT)


def _unread(obj: Mapping[str, Any], view: AppView) -> list[str]:
    asks = view.part_of and ANNOTATION_GANG_MODE in annotations_of(obj)
    path = annotation_path("", ANNOTATION_GANG_MODE)
    return [f"{path}: {PART_TEXT % view.part_of}"] if asks else []


def _warnings(view: AppView) -> list[str]:
    count = view.options.min_count
    if count is None or not 0 < view.replicas < count:
        return []
    return [f"{annotation_path('', ANNOTATION_MIN_COUNT)}: {MORE_TEXT}"]
