"""The steps of a removal, in an order in which none waits for a later one.

Pure. A step whose work is already done is not planned again, so the plan of a second run is the
rest of the first one's.

The order, and why:
1. the webhook configurations: without the webhook they reject requests (failurePolicy Fail);
2. conversion of the CRDs: without the webhook, API servers can read the stored version only. They
  could not even delete a CRD that has an older one stored;
3. the processes, 4. their rights: from now on no process binds a pod, creates a group, or protects
  one by a finalizer;
5. the release of waiting Jobs and pods: until now a process could bind them, or the webhook add
  them to a group again;
6. annotations on the owners of groups; 7. finalizers of groups, which no controller removes now;
8. the CRDs, with all their objects; 9. Helm's revisions of the release, if it is one, then the
  rest, whose annotations name the release; 10. the namespace, which has the records of 5.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any

from api.constants import ANNOTATION_WAITING_FOR, finalizer_of
from api.groups import groups_of_object
from api.reading import annotations_of, controller_of, dig, listing, text
from api.scheduler_names import USUAL, SchedulerNames
from api.wording import count
from cli.uninstall.release import (
    Handover,
    HandoverMethod,
    Target,
    needs_release,
    release_job,
    release_pod,
    target_of,
)
from kube.client.resources import CRDS, JOBS, JOBSETS

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RemovalState:
    """The part of a cluster's state that concerns the removal.

    `installed` is in the order of the manifests. `groups` are the objects of Muster's kinds, `pods`
    those that name Muster's scheduler, and `owners` the controllers of those that wait, by UID.
    `records` are the Jobs that are being recreated, `quotas` stay, and `foreign` are other objects
    in Muster's namespace. `names` are the schedulerNames of Muster, `revisions` Helm's revisions of
    the release. `annotated` are other objects that may have annotations of Muster.
    """

    installed: Sequence[tuple[Target, Object]] = ()
    groups: Sequence[tuple[Target, Object]] = ()
    jobs: Sequence[Object] = ()
    jobsets: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    owners: Mapping[str, Object] = field(default_factory=dict)
    records: Sequence[Target] = ()
    quotas: Sequence[Target] = ()
    foreign: Sequence[Target] = ()
    names: SchedulerNames = USUAL
    revisions: Sequence[Target] = ()
    annotated: Sequence[tuple[Target, Object]] = ()


class RemovalStage(IntEnum):
    """The order of the steps."""

    ADMISSION = 1
    CONVERSION = 2
    PROCESSES = 3
    RIGHTS = 4
    RELEASE = 5
    NOTES = 6
    FINALIZERS = 7
    DEFINITIONS = 8
    REST = 9
    NAMESPACE = 10


class Action(Enum):
    """The change of a step to its target."""

    DELETE = "delete"
    STOP_CONVERSION = "disable the conversion webhook of"
    RESTORE = "recreate the Job of"
    HAND_OVER = "hand off"
    DROP_FINALIZERS = "remove Muster's finalizer from"
    DROP_ANNOTATIONS = "remove Muster's annotation from"


@dataclass(frozen=True, slots=True)
class Step:
    """One write, or a few that a second run completes. `names` are finalizers or annotations."""

    stage: RemovalStage
    action: Action
    target: Target
    names: tuple[str, ...] = ()
    handover: Handover | None = None

    def __str__(self) -> str:
        """Return the step as one line for people."""
        if self.handover is not None:
            return str(self.handover)
        return f"{self.action.value} {self.target}"


def counted_line(steps: Sequence[Step]) -> str:
    """Return one line for steps of the same action."""
    return f"{steps[0].action.value} {count(len(steps), 'object')}"


@dataclass(slots=True)
class NamespaceUse:
    """The use of Muster in one namespace."""

    groups: set[str] = field(default_factory=set)
    running: int = 0
    waiting: int = 0
    jobs: int = 0

    def __str__(self) -> str:
        """Return `2 groups, 8 running pods, 4 waiting pods, 2 unfinished Jobs`."""
        return (
            f"{count(len(self.groups), 'group')}, {count(self.running, 'running pod')},"
            f" {count(self.waiting, 'waiting pod')}, {count(self.jobs, 'unfinished Job')}"
        )


_STAGES: Mapping[str, RemovalStage] = {
    "MutatingWebhookConfiguration": RemovalStage.ADMISSION,
    "ValidatingWebhookConfiguration": RemovalStage.ADMISSION,
    "Deployment": RemovalStage.PROCESSES,
    "ClusterRoleBinding": RemovalStage.RIGHTS,
    "RoleBinding": RemovalStage.RIGHTS,
    CRDS.kind: RemovalStage.DEFINITIONS,
    "Namespace": RemovalStage.NAMESPACE,
}


def in_use(found: RemovalState) -> dict[str, NamespaceUse]:
    """Return each namespace in which pods run or wait under Muster, or Jobs have not ended."""
    uses: dict[str, NamespaceUse] = defaultdict(NamespaceUse)
    for pod in found.pods:
        if _ended(pod):
            continue
        use = uses[_namespace(pod)]
        use.groups.update(it.name for it in groups_of_object(pod, ours=True)[:1])
        if dig(pod, "spec", "nodeName"):
            use.running += 1
        else:
            use.waiting += 1
    for job in found.jobs:
        if needs_release(job, found.names):
            uses[_namespace(job)].jobs += 1
    return dict(sorted(uses.items()))


def plan(found: RemovalState, *, release: bool, prepare: bool = False) -> list[Step]:
    """Return all steps in their order. With `release`, also the release of what waits.

    With `prepare` the steps end where the installer can delete the rest, in any order.
    """
    installed = (it for it in _installed(found) if not prepare or _is_prepared(it))
    # First in their stage: a second run finds the revisions by the annotations of the rest.
    steps = [Step(RemovalStage.REST, Action.DELETE, it) for it in found.revisions]
    steps += [*installed, *_conversions(found), *_notes(found), *_finalizers(found)]
    steps += (Step(RemovalStage.RELEASE, Action.RESTORE, it) for it in found.records)
    if release:
        steps += _releases(found)
    return sorted(steps, key=lambda step: step.stage)


def handovers(found: RemovalState) -> Iterator[Handover]:
    """Yield the handover of every Job and waiting pod of Muster's."""
    jobsets = {_uid(jobset): jobset for jobset in found.jobsets}
    pods_of: dict[str, list[Object]] = defaultdict(list)
    for pod in found.pods:
        pods_of[text(controller_of(pod).get("uid"))].append(pod)
    released = set()
    for job in found.jobs:
        if not needs_release(job, found.names):
            continue
        released.add(_uid(job))
        jobset = jobsets.get(text(controller_of(job).get("uid")))
        yield release_job(job, pods_of[_uid(job)], jobset, found.names)
    for pod in found.pods:
        waits = not _ended(pod) and not dig(pod, "spec", "nodeName")
        if not waits or dig(pod, "metadata", "deletionTimestamp"):
            continue
        # The release of a Job covers its pods.
        owner = text(controller_of(pod).get("uid"))
        if owner not in released:
            yield release_pod(pod, found.owners.get(owner), found.names)


def _installed(found: RemovalState) -> Iterator[Step]:
    # In reverse: an object that refers to another comes after it in the manifests.
    for target, obj in reversed(found.installed):
        stage = _STAGES.get(target.resource.kind, RemovalStage.REST)
        leaving = dig(obj, "metadata", "deletionTimestamp") is not None
        if not leaving and not (stage is RemovalStage.NAMESPACE and found.foreign):
            yield Step(stage, Action.DELETE, target)


def _is_prepared(step: Step) -> bool:
    # No manifest has the leases, so the installer would not delete them.
    return step.stage < RemovalStage.DEFINITIONS or step.target.resource.kind == "Lease"


def _conversions(found: RemovalState) -> Iterator[Step]:
    for target, obj in found.installed:
        webhook = dig(obj, "spec", "conversion", "strategy") == "Webhook"
        if target.resource == CRDS and webhook:
            yield Step(RemovalStage.CONVERSION, Action.STOP_CONVERSION, target)


def _releases(found: RemovalState) -> Iterator[Step]:
    for it in handovers(found):
        if it.way is not HandoverMethod.LEFT:
            yield Step(RemovalStage.RELEASE, Action.HAND_OVER, it.target, handover=it)


def _notes(found: RemovalState) -> Iterator[Step]:
    jobs = ((target_of(JOBS, it), it) for it in found.jobs)
    jobsets = ((target_of(JOBSETS, it), it) for it in found.jobsets)
    for target, obj in (*jobs, *jobsets, *found.annotated):
        if ANNOTATION_WAITING_FOR in annotations_of(obj):
            yield Step(
                RemovalStage.NOTES, Action.DROP_ANNOTATIONS, target, (ANNOTATION_WAITING_FOR,)
            )


def _finalizers(found: RemovalState) -> Iterator[Step]:
    for target, obj in found.groups:
        finalizer = finalizer_of(target.resource.kind)
        if finalizer in listing(dig(obj, "metadata", "finalizers")) and finalizer is not None:
            yield Step(RemovalStage.FINALIZERS, Action.DROP_FINALIZERS, target, (finalizer,))


def _ended(pod: Object) -> bool:
    return dig(pod, "status", "phase") in {"Succeeded", "Failed"}


def _namespace(obj: Object) -> str:
    return text(dig(obj, "metadata", "namespace"))


def _uid(obj: Object) -> str:
    return text(dig(obj, "metadata", "uid"))
