"""Admission of LeaderWorkerSets, which labels their pod templates, and the objects of a set.

The label names the group with the set's own name, and the annotation `group-by` separates the
replicas: each is a group of its own. If the leader of a replica comes before its workers, leader
and workers are two groups below a CompositePodGroup. A gang of both could not start, as half of it
is created after the other half has started.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from api import names
from api.constants import (
    ANNOTATION_GROUP_BY,
    COMPOSITE_POD_GROUP,
    LABEL_POD_GROUP,
    LEADER_WORKER_SET,
    POD_GROUP,
)
from api.integration.common.holding import hold_faults
from api.integration.common.native import (
    OWN,
    REPLICAS_TEXT,
    Choice,
    note_choice,
)
from api.integration.common.objects import (
    as_root,
    group_object,
    in_slices,
    priority_of,
    template,
    workload_object,
)
from api.integration.common.options import COMPOSITE, Options
from api.integration.common.owner_kind import Review
from api.integration.common.result import Admission, Operation, set_entries
from api.integration.lws import rules
from api.integration.lws.expected import (
    expected_pods,
    is_expecting,
    leader_group,
    workers_group,
)
from api.integration.lws.expected import faults as lws_faults
from api.integration.lws.view import LwsView, read_lws
from api.ownership import Owner

Json = dict[str, Any]

NO_SIZES: Final[Mapping[int, int]] = {}
"""The sizes if all replicas have as many pods as their set states."""

_ROOT: Final = "replicas"
_REPLICA: Final = "replica"
_LEADER: Final = "leader"
_WORKERS: Final = "workers"


def lws_admission(lws: Mapping[str, Any], review: Review) -> Admission:
    """Validate and label a LeaderWorkerSet (raw JSON of any structure).

    If groups may expect pods, leaders wait for capacity for workers that are created after them.
    Its groups are never native, which `review.native` may ask for.
    """
    view, old, expects = read_lws(lws), review.old, review.expects
    if review.operation == "CREATE" or old is None:
        # The label is the set's name. Validation rejects a set with a generateName.
        choice = review.native.choose([REPLICAS_TEXT]) if view.options.asks else OWN
        patch = _annotation_patch(view) if view.options.asks and view.name else []
        patch += note_choice(lws, choice)
        wrong = rules.faults(view, review.schedulers)
        if expects and view.options.asks:
            wrong += [*lws_faults(view), *hold_faults(lws)]
        warnings = [*rules.warnings(view, expects=expects), *choice.warnings]
        return Admission(patch, wrong, warnings)
    if review.operation != "UPDATE":
        return Admission()
    before = read_lws(old)
    # A set that was created without labels gets none later, as its running pods would be recreated.
    if not before.is_annotated:
        return Admission(warnings=rules.not_annotated(view))
    wrong = rules.changes(view, before, review.schedulers)
    if expects:
        had = set(lws_faults(before))
        wrong += [fault for fault in lws_faults(view) if fault not in had]
        wrong += hold_faults(lws, old)
    return Admission([*_annotation_patch(view), *note_choice(lws, Choice.of(old))], wrong)


def lws_groups(
    lws: Mapping[str, Any],
    *,
    workload: str | None = None,
    sizes: Mapping[int, int] = NO_SIZES,
    expects: bool = False,
) -> list[Json]:
    """Return the objects of a set in order of creation: Workload, composites, PodGroups.

    `workload` is the Workload's name if the usual one was taken. `sizes` are those of replicas with
    fewer pods than the set states, by number. With `expects`, leaders wait for capacity for workers
    that are created after them (gate ExpectedPods). There are none without labels, or without
    replicas.
    """
    view = read_lws(lws)
    if not view.has_groups:
        return []
    owner = Owner(LEADER_WORKER_SET, view.namespace, view.name, view.uid)
    workload = workload or names.workload_name(owner.kind.kind, view.name)
    expects = expects and is_expecting(view)
    return _Groups(view, owner, workload, sizes, expects=expects).objects()


def lws_expected(
    lws: Mapping[str, Any], sizes: Mapping[int, int] = NO_SIZES
) -> dict[str, list[Json]]:
    """Return `expectedPods` of each PodGroup whose pods come one after the other, by name."""
    view = read_lws(lws)
    return expected_pods(view, sizes) if view.has_groups else {}


def workers_min_count(view: LwsView, size: int) -> int:
    """Return the minCount of a workers' group for a replica of `size` pods, at most the set's."""
    asked = _pods_at_least(view)
    pods = min(size, view.size if asked is None else min(asked, view.size))
    return max(1, pods - 1 if view.leader_first else pods)


class _Groups:
    """The objects of one LeaderWorkerSet."""

    def __init__(
        self,
        view: LwsView,
        owner: Owner,
        workload: str,
        sizes: Mapping[int, int],
        *,
        expects: bool,
    ) -> None:
        self._view, self._owner, self._workload, self._sizes = view, owner, workload, sizes
        self._expects = expects
        self._priority = priority_of(*(it.spec for it in view.templates))
        # Requests for capacity are rejected for these, as no pod states that one stands for it.
        self._root_options = replace(view.options, request="")

    def objects(self) -> list[Json]:
        """Return Workload, composites from the root down, PodGroups."""
        if self._view.leader_first:
            replica = self._leader_first()
        else:
            replica = self._template(
                _REPLICA, _pods_at_least(self._view), self._view.size, replica=True
            )
        key = _list_of(replica)
        options = self._view.options
        if options.mode != COMPOSITE and options.tree is None:
            return [self._workload_of({key: [replica]}), *self._of_replicas(replica, "")]
        count = min(len(self._view.grouped), self._view.replicas)
        # In a tree a set is one child, which starts with the first of its replicas that can.
        least = options.min_count if options.mode == COMPOSITE else 1
        root = self._template(_ROOT, least, count, composite=True)
        name = names.lws_composite(self._view.namespace, self._view.name)
        return [
            self._workload_of({"compositePodGroupTemplates": [root | {key: [replica]}]}),
            as_root(self._group(COMPOSITE_POD_GROUP, name, root), self._root_options),
            *self._of_replicas(replica, name),
        ]

    def _leader_first(self) -> Json:
        """Return the template of a replica of two groups, or of one if it has no workers."""
        # A replica for which one pod is enough needs only its leader.
        both = self._expects and _pods_at_least(self._view) != 1
        above = self._template(_REPLICA, 2 if both else 1, 2, composite=True, replica=True)
        leaves = [self._template(_LEADER, None, 1, leaf=True)]
        if self._view.size > 1:
            asked = _pods_at_least(self._view)
            workers = None if asked is None else asked - 1  # a group has 1 at least
            leaves.append(self._template(_WORKERS, workers, self._view.size - 1, leaf=True))
        return above | {"podGroupTemplates": leaves}

    def _template(
        self,
        name: str,
        minimum: int | None,
        members: int,
        *,
        composite: bool = False,
        replica: bool = False,
        leaf: bool = False,
    ) -> Json:
        """Return a template; topology is the replica's, and lower levels inherit the mode."""
        said = self._view.options
        options = Options(min_count=minimum)
        if replica:
            key = said.topology or self._view.exclusive
            options = replace(options, topology=key, preferred=said.preferred)
        if replica or leaf:
            options = replace(options, disruption=said.disruption)
        return template(name, options, members, self._priority, composite=composite)

    def _of_replicas(self, made_from: Json, parent: str) -> list[Json]:
        """Return the groups of all replicas, composites first."""
        found = [it for at in self._view.grouped for it in self._of_replica(made_from, parent, at)]
        # A parent is created before its children.
        return sorted(found, key=lambda it: it["kind"] != COMPOSITE_POD_GROUP.kind)

    def _of_replica(self, made_from: Json, parent: str, index: int) -> list[Json]:
        name = self._view.name
        if not self._view.leader_first:
            group = workers_group(self._view, index)
            made = self._group(POD_GROUP, group, self._of_now(made_from, index), parent)
            made = in_slices(made, self._root_options)
            return [made if parent else as_root(made, self._root_options)]
        above = names.lws_composite(self._view.namespace, name, index)
        made = self._group(COMPOSITE_POD_GROUP, above, made_from, parent)
        leader, *workers = made_from["podGroupTemplates"]
        then = workers_group(self._view, index)
        return [
            made if parent else as_root(made, self._root_options),
            self._group(POD_GROUP, leader_group(self._view, index), leader, above),
            *(self._group(POD_GROUP, then, self._of_now(it, index), above) for it in workers),
        ]

    def _of_now(self, made_from: Json, index: int) -> Json:
        """Return the template of a replica's workers, with the minCount for its existing pods."""
        if index not in self._sizes:
            return made_from
        count = workers_min_count(self._view, self._sizes[index])
        return made_from | {"schedulingPolicy": {"gang": {"minCount": count}}}

    def _group(self, kind: Any, name: str, made_from: Json, parent: str = "") -> Json:
        return group_object(kind, self._owner, name, self._workload, made_from, parent=parent)

    def _workload_of(self, templates: Json) -> Json:
        return workload_object(self._owner, self._workload, templates)


def _pods_at_least(view: LwsView) -> int | None:
    """Return the `min-count` of a replica: in mode Composite the annotation counts replicas."""
    return None if view.options.mode == COMPOSITE else view.options.min_count


def _list_of(made_from: Json) -> str:
    """Return the list of a Workload to which a template belongs."""
    return "compositePodGroupTemplates" if "podGroupTemplates" in made_from else "podGroupTemplates"


def _annotation_patch(view: LwsView) -> list[Operation]:
    wanted = {
        "labels": {LABEL_POD_GROUP: view.name},
        "annotations": {ANNOTATION_GROUP_BY: view.group_by.text()},
    }
    return [
        operation
        for it in view.templates
        for operation in set_entries(it.template, f"/{it.path.replace('.', '/')}", wanted)
    ]
