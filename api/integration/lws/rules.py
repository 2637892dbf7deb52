"""Rules of LeaderWorkerSets, and their immutable options."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from api import causes
from api.causes import Cause
from api.constants import (
    ANNOTATION_PROVISIONING_REQUEST,
    ANNOTATION_SHARED_CLAIMS,
    LABEL_POD_GROUP,
    MAX_REPLICAS,
)
from api.integration.common.options import COMPOSITE, annotation_path
from api.integration.common.rules import (
    check_minimum,
    check_schedulers,
    check_slices,
    check_tree,
    frozen,
    no_slices,
    one_priority,
    unused,
)
from api.integration.lws.view import ANNOTATION_EXCLUSIVE, LEADER_READY, LwsView
from api.integration.pods.groups_from_pods import OF_GROUP
from api.integration.pods.references import check_pod_template
from api.reading import text
from api.scheduler_names import USUAL, SchedulerNames

LEADER_FIRST_TEXT: Final = (
    "the workers of a replica are created after its leader has a node. Muster schedules the "
    "leader first, and then all workers together or none, which can be long after the leader"
)
LEADER_SLICES_TEXT: Final = (
    "the workers of a replica are in another group than its leader, because they are created after "
    "it has a node: remove this annotation, or use startupPolicy LeaderCreated"
)
NAME_TEXT: Final = "the names of the groups begin with it: use name instead of generateName"
REPLICAS_TEXT: Final = (
    f"must be at most {MAX_REPLICAS} with gang-mode: use several LeaderWorkerSets"
)
IN_TEMPLATE_TEXT: Final = (
    "gang-mode creates the groups: set this annotation on the LeaderWorkerSet, or remove it"
)
OVERWRITTEN_TEXT: Final = (
    "gang-mode names the groups and overwrites this label: remove the label, or gang-mode"
)
UNMARKED_TEXT: Final = (
    "has no effect on a LeaderWorkerSet that was created without it: delete and recreate the "
    "LeaderWorkerSet"
)
_UNSUPPORTED: Final = {
    ANNOTATION_PROVISIONING_REQUEST: "a LeaderWorkerSet cannot request capacity: remove this "
    "annotation",
    ANNOTATION_SHARED_CLAIMS: "the pods of a LeaderWorkerSet cannot share ResourceClaims: remove "
    "this annotation",
}


def faults(view: LwsView, schedulers: SchedulerNames = USUAL) -> list[Cause]:
    """Return all faults of a new LeaderWorkerSet."""
    if not view.options.asks:
        return [*view.faults, *check_tree(view.options)]
    pod_specs = [(f"{it.path}.spec", it.spec) for it in view.templates]
    return [
        *view.faults,
        *_name(view),
        *_unsupported(view),
        *check_tree(view.options),
        *_bounds(view),
        *_templates(view, schedulers),
        *one_priority(pod_specs),
        *check_schedulers(pod_specs, schedulers),
    ]


def changes(view: LwsView, before: LwsView, schedulers: SchedulerNames = USUAL) -> list[Cause]:
    """Return causes for changed immutable fields, and for new faults in mutable ones."""
    had = set(faults(before, schedulers))
    wrong = [fault for fault in faults(view, schedulers) if fault not in had]
    fixed = (*frozen(view.options, before.options), *_order(view, before))
    return [*fixed, *_changed_priority(view, before), *wrong]


def warnings(view: LwsView, *, expects: bool = False) -> list[str]:
    """Return warnings about options without effect, and about leaders that come first.

    With `expects` there is no warning about leaders, as their workers' slots are held.
    """
    if not view.options.asks:
        return list(unused(view.options))
    if not view.leader_first or expects:
        return []
    ready = view.startup_policy == LEADER_READY
    path = "spec.startupPolicy" if ready else annotation_path("", ANNOTATION_EXCLUSIVE)
    return [f"{path}: {LEADER_FIRST_TEXT}"]


def overwritten(view: LwsView) -> list[str]:
    """Return warnings about labels in the templates that name another group and are overwritten."""
    return [
        f"{it.path}.metadata.labels[{LABEL_POD_GROUP}]: {OVERWRITTEN_TEXT}"
        for it in view.templates
        if it.labels.get(LABEL_POD_GROUP, view.name) != view.name
    ]


def not_annotated(view: LwsView) -> list[str]:
    """Return the warning for a gang-mode on a set that got no groups at its creation."""
    return [f"{view.options.mode_path}: {UNMARKED_TEXT}"] if view.options.asks else []


def _name(view: LwsView) -> Iterator[Cause]:
    if not view.name:
        yield causes.required("metadata.name", NAME_TEXT)


def _unsupported(view: LwsView) -> Iterator[Cause]:
    said = {
        ANNOTATION_PROVISIONING_REQUEST: view.options.request,
        ANNOTATION_SHARED_CLAIMS: view.options.claims,
    }
    for key, value in said.items():
        if value:
            yield causes.forbidden(view.options.at(key), _UNSUPPORTED[key])


def _bounds(view: LwsView) -> Iterator[Cause]:
    if view.replicas > MAX_REPLICAS:
        yield causes.invalid("spec.replicas", view.replicas, REPLICAS_TEXT)
    composite = view.options.mode == COMPOSITE
    if composite:
        yield from check_minimum(view.options, max(1, view.replicas), "replicas")
    else:
        yield from check_minimum(view.options, view.size, "pods of a replica")
    if view.leader_first:
        yield from no_slices(view.options, LEADER_SLICES_TEXT)
    else:
        counted = replace(view.options, min_count=None) if composite else view.options
        yield from check_slices(counted, view.size, "pods of a replica")


def _templates(view: LwsView, schedulers: SchedulerNames) -> Iterator[Cause]:
    for it in view.templates:
        for key in OF_GROUP:
            if key in it.annotations:
                yield causes.forbidden(annotation_path(it.path, key), IN_TEMPLATE_TEXT)
        yield from check_pod_template(it.template, it.path, schedulers)


def _changed_priority(view: LwsView, before: LwsView) -> Iterator[Cause]:
    # The groups exist already, and their priority is immutable.
    was = {text(it.spec.get("priorityClassName")) for it in before.templates}
    for it in view.templates:
        name = text(it.spec.get("priorityClassName"))
        if name not in was:
            yield causes.immutable(f"{it.path}.spec.priorityClassName", name)


def _order(view: LwsView, before: LwsView) -> Iterator[Cause]:
    """Yield causes for a change of the order of leaders and workers."""
    # The order decides which groups exist, and what is above them.
    if view.exclusive != before.exclusive:
        path = annotation_path("", ANNOTATION_EXCLUSIVE)
        yield causes.immutable(path, view.exclusive or None)
    elif view.leader_first != before.leader_first:
        yield causes.immutable("spec.startupPolicy", view.startup_policy)
