"""Release of Jobs and pods that wait for Muster's scheduler to the default scheduler.

`schedulerName` of a pod, and that of a Job's pod template, can never be changed, not even while the
Job is suspended. So a pod is released by deleting it, if its owner recreates it without Muster's
name. A Job is recreated, if none of its pods has run yet. All others are left as they are: the
output says what the user has to do.

Names in owner references can be any text of a user: commands quote them, and lines show no control
characters.
"""

from __future__ import annotations

import copy
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from api.constants import (
    ANNOTATION_CLAIM_TEMPLATES,
    ANNOTATION_GROUPS_API,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_NOT_NATIVE,
    ANNOTATION_WAITING_FOR,
    JOBSET,
    JOBSET_LABEL_REPLICATED_JOB,
    LABEL_POD_GROUP,
)
from api.integration.common.native import group_in_field
from api.integration.common.shared_claims import original_claims
from api.integration.job.admission import read_job
from api.reading import (
    annotations_of,
    controller_of,
    dig,
    is_true,
    labels_of,
    listing,
    mapping,
    text,
)
from api.scheduler_names import USUAL, SchedulerNames
from kube.client.resources import JOBS, PODS, Resource

Object = dict[str, Any]

TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
"""Finalizer of a Job's pods. A pod that is deleted without it does not count as failed."""
# Kubernetes sets these labels from a Job's name and UID. It rejects a Job with those of another.
LABELS_OF_JOB: Final = (
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
)
_COUNTS: Final = ("succeeded", "failed", "ready", "terminating")
_KEPT: Final = ("name", "namespace", "labels", "annotations", "ownerReferences")


class HandoverMethod(Enum):
    """The handover of a Job or a pod."""

    REMADE = "recreated for the default scheduler"
    BY_OWNER = "deleted; its owner recreates it for the default scheduler"
    LEFT = "not changed"


@dataclass(frozen=True, slots=True)
class Target:
    """One object of the cluster."""

    resource: Resource
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        """Return `Kind name`, with its namespace if it has one."""
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.resource.kind} {where}{self.name}"


def target_of(resource: Resource, obj: Mapping[str, Any]) -> Target:
    """Return the coordinates of an object as it was read."""
    meta = mapping(obj.get("metadata"))
    return Target(resource, *(text(meta.get(key)) for key in ("namespace", "name", "uid")))


@dataclass(frozen=True, slots=True)
class Handover:
    """The handover of one Job or pod. `why` and `command` are set if it is left."""

    target: Target
    way: HandoverMethod
    why: str = ""
    command: str = ""

    def __str__(self) -> str:
        """Return the handover as one line for people."""
        return f"{self.target}: {self.why if self.way is HandoverMethod.LEFT else self.way.value}"


def names_muster(pod_template: Any, names: SchedulerNames = USUAL) -> bool:
    """Return true if pods of the template name Muster's scheduler."""
    return dig(pod_template, "spec", "schedulerName") in names


def needs_release(job: Mapping[str, Any], names: SchedulerNames = USUAL) -> bool:
    """Return true if the Job may still create pods that wait for Muster's scheduler."""
    ends = dig(job, "metadata", "deletionTimestamp") or is_true(job, "Complete", "Failed")
    return not ends and names_muster(dig(job, "spec", "template"), names)


def release_job(
    job: Mapping[str, Any],
    pods: Iterable[Mapping[str, Any]],
    jobset: Mapping[str, Any] | None,
    names: SchedulerNames = USUAL,
) -> Handover:
    """Return the handover of a Job that `needs_release`, from its pods and its JobSet."""
    target, owner = target_of(JOBS, job), controller_of(job)
    began = _has_begun(job, pods)
    if owner.get("kind") == JOBSET.kind:
        return _release_child(job, jobset, owner, names, began=began)
    view = read_job(job)
    remake = _remake_command(view.namespace, view.name)
    # Its controller would create it again with the same schedulerName.
    if owner:
        why = f"{_named(owner)} creates it with Muster's schedulerName"
        command = f"kubectl -n {view.namespace} delete job {view.name}"
        return Handover(target, HandoverMethod.LEFT, why, command)
    if began:
        why = (
            "its pods have started and keep running, but pods that it creates later wait forever; a"
            " recreated Job starts from its beginning"
        )
        return Handover(target, HandoverMethod.LEFT, why, remake)
    if not view.managed:
        why = f"its manifest has schedulerName {_name_of(job)}"
        return Handover(target, HandoverMethod.LEFT, why, remake)
    # The Job stays until another controller removes them, and blocks the name of the new Job.
    if listing(dig(job, "metadata", "finalizers")):
        return Handover(target, HandoverMethod.LEFT, "finalizers block its deletion", remake)
    return Handover(target, HandoverMethod.REMADE)


def release_pod(
    pod: Mapping[str, Any], owner: Mapping[str, Any] | None, names: SchedulerNames = USUAL
) -> Handover:
    """Return the handover of a waiting pod. `owner` is its controller; None if it is unknown."""
    target, reference = target_of(PODS, pod), controller_of(pod)
    namespace, by = target.namespace, _named(reference)
    if not reference:
        command = _replace_command(namespace, "pod", target.name, '{"spec":{"schedulerName":null}}')
        return Handover(target, HandoverMethod.LEFT, "no controller recreates it", command)
    if owner is None:
        why = f"Muster does not know whether {by} recreates it for another scheduler"
        command = f"kubectl -n {namespace} edit {_resource(reference)}"
        return Handover(target, HandoverMethod.LEFT, why, command)
    if names_muster(dig(owner, "spec", "template"), names):
        why = f"{by} has schedulerName {_name_of(owner)}"
        return Handover(target, HandoverMethod.LEFT, why, _rename(owner, namespace))
    return Handover(target, HandoverMethod.BY_OWNER)


def remade(job: Mapping[str, Any]) -> Object:
    """Return the Job as a manifest, without Muster's annotations and fields that servers write.

    Labels, annotations, owners and spec are those of before. A selector that Kubernetes generated
    is generated again. If the group had one claim for all pods, each pod has its own claims again.
    """
    meta: Object = {
        key: copy.deepcopy(value) for key, value in job["metadata"].items() if key in _KEPT
    }
    spec: Object = copy.deepcopy(job["spec"])
    template = spec["template"]
    made = [template.get("metadata") or {}]
    if not spec.get("manualSelector"):
        spec.pop("selector", None)
        made.append(meta)
        for labels in made:
            _drop(labels, "labels", LABELS_OF_JOB)
    template["spec"].pop("schedulerName", None)
    if group_in_field(template) == annotations_of(job).get(ANNOTATION_MANAGED_GROUP):
        # Muster created this native group for the Job that is deleted.
        template["spec"].pop("schedulingGroup", None)
    if ANNOTATION_CLAIM_TEMPLATES in annotations_of(job):
        template["spec"]["resourceClaims"] = original_claims(job)
    _drop(made[0], "labels", [LABEL_POD_GROUP])
    _drop(made[0], "annotations", [ANNOTATION_MANAGED_GROUP])
    marks = [ANNOTATION_MANAGED_GROUP, ANNOTATION_WAITING_FOR, ANNOTATION_CLAIM_TEMPLATES]
    marks += [ANNOTATION_GROUPS_API, ANNOTATION_NOT_NATIVE]
    _drop(meta, "annotations", marks)
    _drop(meta, "labels", [LABEL_POD_GROUP])
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def _release_child(
    job: Mapping[str, Any],
    jobset: Mapping[str, Any] | None,
    owner: Mapping[str, Any],
    names: SchedulerNames,
    *,
    began: bool,
) -> Handover:
    target, name = target_of(JOBS, job), _printable(owner.get("name"))
    namespace = target.namespace
    remake = _replace_command(namespace, "jobset", shlex.quote(name))
    # A JobSet of the same name may be a new one, and this Job not its child.
    if jobset is None or dig(jobset, "metadata", "uid") != owner.get("uid"):
        command = f"kubectl -n {namespace} get jobs"
        return Handover(target, HandoverMethod.LEFT, f"its JobSet {name} is deleted", command)
    wanted = labels_of(job).get(JOBSET_LABEL_REPLICATED_JOB)
    for it in listing(dig(jobset, "spec", "replicatedJobs")):
        job_template = dig(it, "template")
        if dig(it, "name") == wanted and names_muster(dig(job_template, "spec", "template"), names):
            named = _name_of(mapping(job_template))
            why = f"JobSet {name} has schedulerName {named} in its templates, which are immutable"
            command = f"kubectl -n {namespace} delete jobset {shlex.quote(name)}"
            return Handover(target, HandoverMethod.LEFT, why, command)
    if began:
        why = (
            "its pods have started and keep running, but pods that it creates later wait forever; a"
            f" recreated JobSet {name} starts from its beginning"
        )
        return Handover(target, HandoverMethod.LEFT, why, remake)
    return Handover(target, HandoverMethod.BY_OWNER)


def _name_of(owner: Mapping[str, Any]) -> str:
    return text(dig(owner, "spec", "template", "spec", "schedulerName"))


def _has_begun(job: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> bool:
    status = mapping(job.get("status"))
    counted = mapping(status.get("uncountedTerminatedPods"))
    # Pods that ran may be deleted by now: the status still counts them.
    if any(status.get(key) for key in (*_COUNTS, "completedIndexes", "failedIndexes")):
        return True
    return any(counted.values()) or any(
        dig(pod, "spec", "nodeName") or dig(pod, "status", "phase") in {"Succeeded", "Failed"}
        for pod in pods
    )


def _drop(holder: Object, section: str, keys: Sequence[str]) -> None:
    entries = holder.get(section)
    if not isinstance(entries, dict):
        return
    for key in keys:
        entries.pop(key, None)
    if not entries:
        del holder[section]


def _remake_command(namespace: str, name: str) -> str:
    labels = '"controller-uid":null,"batch.kubernetes.io/controller-uid":null'
    template = f'{{"metadata":{{"labels":{{{labels}}}}},"spec":{{"schedulerName":null}}}}'
    patch = f'{{"spec":{{"selector":null,"template":{template}}}}}'
    return _replace_command(namespace, "job", name, patch)


def _replace_command(namespace: str, kind: str, name: str, patch: str = "") -> str:
    edit = f" | kubectl patch --local -f - --type=merge -p '{patch}' -o json" if patch else ""
    read = f"kubectl -n {namespace} get {kind} {name} -o json"
    return f"{read}{edit} | kubectl replace --force -f -"


def _rename(owner: Mapping[str, Any], namespace: str) -> str:
    own = {"kind": owner.get("kind"), "name": dig(owner, "metadata", "name")}
    what = _resource(controller_of(owner) or own)
    patch = '{"spec":{"template":{"spec":{"schedulerName":"default-scheduler"}}}}'
    return f"kubectl -n {namespace} patch {what} --type=merge -p '{patch}'"


def _resource(reference: Mapping[str, Any]) -> str:
    """Return kind and name for a command line."""
    kind, name = (_printable(reference.get(key)) for key in ("kind", "name"))
    return f"{shlex.quote(kind.lower())} {shlex.quote(name)}"


def _named(reference: Mapping[str, Any]) -> str:
    return f"{_printable(reference.get('kind'))} {_printable(reference.get('name'))}"


def _printable(value: Any) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text(value))
