"""Kinds whose pods are all in one PodGroup: admission names it, a controller writes it.

The name of the group is in a label of each pod template and in an annotation on the object itself.
Muster creates the group only if all of them agree. The name comes from the request that first asked
for the group, so no other object, of the same name or not, ever gets it.

The group outlives changes of templates and of numbers. Its minCount is the number of pods, or
`min-count` if that is less. Pods outside the group that an update has yet to replace do not count:
they never join it, and an update would wait for them forever. Before the first start, an update may
correct a template that does not fit any node. Then only pods of the current template count, as a
Deployment or StatefulSet creates no more of these before the first are ready.
"""

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple

from api import causes, names
from api.causes import Cause
from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_GROUPS_API,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_PROVISIONING_REQUEST,
    ANNOTATION_SHARED_CLAIMS,
    LABEL_POD_GROUP,
    POD,
    POD_GROUP,
    KindName,
)
from api.features import Feature, FeatureUse
from api.groups import groups_of_object
from api.integration.common import objects
from api.integration.common.managed_by import warnings_for
from api.integration.common.native import OWN, Choice, GroupsApi, NativeApi, note_choice
from api.integration.common.options import BASIC, GANG, OFF, Options, annotation_path, read_options
from api.integration.common.owner_kind import (
    AnnotationHolder,
    OwnerKind,
    Review,
    mode_uses,
    topology_uses,
    tree_uses,
)
from api.integration.common.result import Admission, Operation, drop_entry, escape, set_entries
from api.integration.common.rules import (
    check_minimum,
    check_scheduler,
    check_slices,
    check_tree,
    frozen,
    one_priority,
)
from api.integration.pods.references import check_pod_template
from api.ownership import Owner
from api.reading import annotations_of, dig, labels_of, mapping, text
from api.scheduler_names import SchedulerNames, is_open

Json = dict[str, Any]

MODES: Final = (OFF, BASIC, GANG)

GROUPED_TEXT: Final = "the pod template names group %s: remove that name, or gang-mode"
PRIORITY_TEXT: Final = (
    "the priority of a group is immutable: remove gang-mode first, or recreate the object"
)
NOT_HERE_TEXT: Final = "only Jobs and JobSets support this annotation: remove it"
LATE_TEXT: Final = (
    "has no effect on a %s whose pods were created without it: delete and recreate the object"
)
_INDEX: Final = re.compile(r"\[(\d+)\]")


class Rollout(NamedTuple):
    """The progress of an update by the status: all pods, and those of the current template."""

    pods: int = 0
    updated: int = 0


NO_UPDATE: Final = Rollout()


class PodTemplate(NamedTuple):
    """A pod template, the path to it, and the minimum number of its pods.

    With `by_job` a Job of its own creates the pods, whose labels name that Job as their owner.
    """

    path: str
    template: Any
    pods: int
    by_job: bool = False

    @property
    def spec(self) -> Mapping[str, Any]:
        """Spec of the template's pods."""
        return mapping(dig(self.template, "spec"))

    @property
    def pointer(self) -> str:
        """The path as a JSON pointer."""
        parts = _INDEX.sub(r".\1", self.path).split(".")
        return "".join(f"/{escape(part)}" for part in parts)


@dataclass(frozen=True, slots=True)
class SingleGroupView:
    """The options of one object.

    `noted` is the group in its annotation, `managed` the same if all templates agree. `choice` is
    the API of that group. `other_owner` is another owner that requests groups in its place, as a
    LeaderWorkerSet does for its StatefulSets.
    """

    kind: KindName
    namespace: str
    name: str
    uid: str
    options: Options
    spec: Mapping[str, Any]
    templates: tuple[PodTemplate, ...]
    noted: str
    managed: str
    faults: tuple[Cause, ...]
    choice: Choice = OWN
    other_owner: str = ""

    @property
    def pods(self) -> int:
        """Number of pods that the group has at least when all exist."""
        return sum(it.pods for it in self.templates)


class SingleGroupKind(OwnerKind):
    """A kind whose pods are all in one PodGroup."""

    feature: ClassVar[Feature]
    replaces_pods: ClassVar[bool]
    """True if an update of a pod template replaces the pods: a group may then be requested late."""
    cleans_up: ClassVar[bool] = False
    """True if pods of the group's templates may come while the object is being deleted."""
    members: ClassVar[str]
    """The objects that `min-count` counts, for messages."""

    @abstractmethod
    def pod_templates(self, spec: Mapping[str, Any]) -> Iterable[PodTemplate]:
        """Return the pod templates in an object's spec."""

    def other_owner(self, obj: Mapping[str, Any]) -> str:
        """Return the name of another owner that requests groups in its place; empty for none."""
        return ""

    def faults(self, view: SingleGroupView) -> Iterable[Cause]:
        """Return the faults that only this kind can have, for an object that requests a group."""
        return ()

    def warnings(self, view: SingleGroupView) -> Iterable[str]:
        """Return warnings of this kind alone."""
        return ()

    def is_suspended(self, spec: Mapping[str, Any]) -> bool:
        """Return True if the object has no pods for now, by its own spec."""
        return spec.get("suspend") is True

    def is_finished(self, status: Mapping[str, Any]) -> bool:
        """Return True if the object creates no more pods."""
        return False

    def rollout(self, status: Mapping[str, Any]) -> Rollout:
        """Return the progress of an update of the pods."""
        return NO_UPDATE

    def read(self, obj: Mapping[str, Any]) -> SingleGroupView:
        """Parse an object (raw JSON of any structure)."""
        faults: list[Cause] = []
        spec, other_owner = mapping(obj.get("spec")), self.other_owner(obj)
        templates = tuple(self.pod_templates(spec))
        noted = text(annotations_of(obj).get(ANNOTATION_MANAGED_GROUP))
        agree = all(_group_label(it) == noted for it in templates)
        return SingleGroupView(
            kind=self.kind,
            namespace=text(dig(obj, "metadata", "namespace")),
            name=text(dig(obj, "metadata", "name")),
            uid=text(dig(obj, "metadata", "uid")),
            options=Options() if other_owner else read_options(obj, "", MODES, faults),
            spec=spec,
            templates=templates,
            noted=noted,
            managed=noted if templates and agree else "",
            faults=tuple(faults),
            choice=Choice.of(obj),
            other_owner=other_owner,
        )

    def admit(self, obj: Mapping[str, Any], review: Review) -> Admission:
        """Validate an object and name its group.

        An object keeps its group until it requests none. Faults of a stored object are not
        reported.
        """
        if review.operation not in ("CREATE", "UPDATE"):
            return Admission()
        is_update = review.operation == "UPDATE" and review.old is not None
        before = self.read(review.old) if is_update and review.old is not None else None
        view = self.read(obj)
        noted = "" if before is None else before.noted
        if not view.options.asks:
            wrong = self._new_faults(view, before, review.schedulers)
            left = self.other_owner_warnings(view, obj, is_new=before is None)
            return Admission(_unmarked(obj, view, noted), wrong, left)
        # The name of the existing group stays, whatever the new object has.
        kept = noted if before is not None and before.options.asks else ""
        # Its pods exist without the label, and this kind never replaces them, so they would never
        # join the group.
        if before is not None and not (
            kept or self.replaces_pods or self.is_suspended(before.spec)
        ):
            late = f"{view.options.mode_path}: {LATE_TEXT % self.kind.kind}"
            return Admission(_unmarked(obj, view, noted), warnings=[late])
        shown = view.name or text(dig(obj, "metadata", "generateName"))
        group = kept or names.requested_pod_group(self.kind.kind, shown, review.uid)
        choice = before.choice if before is not None and kept else _choice(view, review.native)
        found = [
            *self._new_faults(view, before, review.schedulers),
            *_other_group(view, noted, review.schedulers),
        ]
        if before is not None and kept:
            found += _frozen(view, before)
        patch = _annotation_patch(obj, view, group, review.schedulers, native=choice.native)
        patch += note_choice(obj, choice)
        warnings = [*_more_than_pods(view, self.members), *self.warnings(view)]
        warnings += [] if kept else choice.warnings
        return Admission(patch, list(dict.fromkeys(found)), warnings)

    def other_owner_warnings(
        self, view: SingleGroupView, obj: Mapping[str, Any], *, is_new: bool
    ) -> list[str]:
        """Return warnings about an object with a gang-mode that another owner controls."""
        return []

    def pod_specs(self, obj: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
        view = self.read(obj)
        return [(f"{it.path}.spec", it.spec) for it in view.templates] if view.options.asks else []

    def uses(self, obj: Mapping[str, Any], schedulers: SchedulerNames) -> Iterator[FeatureUse]:
        view = self.read(obj)
        if view.options.asks:
            yield from mode_uses(self.feature, view.options)
            yield from tree_uses(view.options)
            yield from topology_uses([view.options])

    def templates(self, obj: Mapping[str, Any]) -> Iterator[AnnotationHolder]:
        for it in self.pod_templates(mapping(obj.get("spec"))):
            yield AnnotationHolder(f"{it.path}.", POD, it.template)

    def not_annotated(self, obj: Mapping[str, Any]) -> str:
        view = self.read(obj)
        return view.options.mode_path if view.options.asks and not view.managed else ""

    def _new_faults(
        self, view: SingleGroupView, before: SingleGroupView | None, schedulers: SchedulerNames
    ) -> list[Cause]:
        had = set() if before is None else set(self._faults(before, schedulers))
        return [fault for fault in self._faults(view, schedulers) if fault not in had]

    def _faults(self, view: SingleGroupView, schedulers: SchedulerNames) -> Iterator[Cause]:
        yield from view.faults
        options = view.options
        yield from check_tree(options)
        if not options.asks:
            return
        if options.claims:
            yield causes.forbidden(options.at(ANNOTATION_SHARED_CLAIMS), NOT_HERE_TEXT)
        if options.request:
            yield causes.forbidden(options.at(ANNOTATION_PROVISIONING_REQUEST), NOT_HERE_TEXT)
        if options.mode == BASIC and options.min_count is not None:
            yield from check_minimum(options, options.min_count, self.members)
        yield from check_slices(options, view.pods, "pods")
        yield from self.faults(view)
        yield from one_priority([(f"{it.path}.spec", it.spec) for it in view.templates])
        for it in view.templates:
            yield from check_scheduler(it.spec, f"{it.path}.spec", schedulers)
            yield from check_pod_template(mapping(it.template), it.path, schedulers)


def minimum(
    asked: int | None, pods: int, rollout: Rollout, members: int, *, started: bool = True
) -> int:
    """Return the minCount of a gang with so many `members` in the group.

    `asked` is its `min-count`. Pods of an earlier template outside the group do not count. Before
    the gang has `started`, no pod of an earlier template counts.
    """
    wanted = pods if asked is None else min(asked, pods)
    # Pods of an earlier template, except those that are in the group already.
    outside = min(rollout.pods - rollout.updated, rollout.pods - members)
    left = wanted - max(0, outside)
    # Otherwise the gang would wait for pods that the owner creates only once these are ready.
    if not started and rollout.updated:
        left = min(left, rollout.updated)
    return max(1, left)


def single_group(
    view: SingleGroupView, rollout: Rollout, members: int, *, started: bool = True
) -> Json:
    """Return the PodGroup of an annotated object with so many `members`."""
    owner = Owner(view.kind, view.namespace, view.name, view.uid)
    waited_for = minimum(view.options.min_count, view.pods, rollout, members, started=started)
    made_from = objects.template(
        "",
        replace(view.options, min_count=None),
        waited_for,
        objects.priority_of(*(it.spec for it in view.templates)),
    )
    group = objects.group_object(POD_GROUP, owner, view.managed, "", made_from)
    # The group has no Workload, so it must not name one.
    del group["spec"]["workloadRef"]
    return objects.as_root(group, view.options)


def unmanaged_warnings(view: SingleGroupView, obj: Mapping[str, Any], path: str) -> list[str]:
    """Return the warning about an object with a gang-mode that another controller runs.

    `path` is the path of the object with the field `managedBy`.
    """
    mode = text(annotations_of(obj).get(ANNOTATION_GANG_MODE))
    asks = view.other_owner and mode not in ("", OFF)
    return warnings_for(view.kind.kind, path, view.other_owner, ()) if asks else []


def _choice(view: SingleGroupView, native: NativeApi) -> Choice:
    return native.choose(native.lacking([view.options], (it.spec for it in view.templates)))


def _group_label(it: PodTemplate) -> str:
    return text(labels_of(it.template).get(LABEL_POD_GROUP))


def _annotation_patch(
    obj: Mapping[str, Any],
    view: SingleGroupView,
    group: str,
    schedulers: SchedulerNames,
    *,
    native: bool,
) -> list[Operation]:
    named = {ANNOTATION_MANAGED_GROUP: group}
    patch = set_entries(obj, "", {"annotations": named})
    # Many kinds drop spec.schedulingGroup from their templates: the pods get it at their creation.
    api = {ANNOTATION_GROUPS_API: GroupsApi.NATIVE.value} if native else {}
    for it in view.templates:
        # Pods of a Job have another owner than the group.
        notes = api if it.by_job else named | api
        wanted = {"labels": {LABEL_POD_GROUP: group}, "annotations": notes}
        patch += set_entries(it.template, it.pointer, wanted)
        if not native:
            patch += drop_entry(it.template, it.pointer, "annotations", ANNOTATION_GROUPS_API)
        spec = mapping(it.template).get("spec")
        if isinstance(spec, Mapping) and is_open(spec.get("schedulerName")):
            path = f"{it.pointer}/spec/schedulerName"
            patch.append({"op": "add", "path": path, "value": schedulers.default})
    return patch


def _unmarked(obj: Mapping[str, Any], view: SingleGroupView, noted: str) -> list[Operation]:
    """Return the operations that remove the group's name from the templates."""
    # The annotation remains on an object that had a group, as it tells the controller to delete it.
    patch = (
        set_entries(obj, "", {"annotations": {ANNOTATION_MANAGED_GROUP: noted}})
        if noted
        else drop_entry(obj, "", "annotations", ANNOTATION_MANAGED_GROUP)
    )
    for it in view.templates:
        label = _group_label(it)
        # Only a label that admission wrote: a user's own label stays.
        if label and label in (noted, view.noted):
            patch += drop_entry(it.template, it.pointer, "labels", LABEL_POD_GROUP)
        for key in (ANNOTATION_MANAGED_GROUP, ANNOTATION_GROUPS_API):
            patch += drop_entry(it.template, it.pointer, "annotations", key)
    return [*patch, *note_choice(obj, OWN)]


def _other_group(view: SingleGroupView, noted: str, schedulers: SchedulerNames) -> Iterator[Cause]:
    """Yield causes for templates that name another group than admission wrote, copied or not."""
    for it in view.templates:
        ours = it.spec.get("schedulerName") in schedulers
        named = {found.name for found in groups_of_object(mapping(it.template), ours=ours)}
        others = sorted(named - {noted, view.noted})
        if others:
            yield causes.invalid(
                view.options.mode_path, view.options.mode, GROUPED_TEXT % others[0]
            )


def _frozen(view: SingleGroupView, before: SingleGroupView) -> Iterator[Cause]:
    """Yield causes for changes that the existing group cannot follow."""
    yield from frozen(view.options, before.options)
    was = {it.path: it.spec for it in before.templates}
    for it in view.templates:
        for key in ("priorityClassName", "preemptionPolicy"):
            now = text(it.spec.get(key))
            if it.path in was and now != text(was[it.path].get(key)):
                yield causes.invalid(f"{it.path}.spec.{key}", now, PRIORITY_TEXT)


def _more_than_pods(view: SingleGroupView, members: str) -> list[str]:
    count = view.options.min_count
    if count is None or not 0 < view.pods < count:
        return []
    path = annotation_path("", ANNOTATION_MIN_COUNT)
    return [f"{path}: more than {members}: while there are fewer pods, the group needs all of them"]
