"""Messages of groups that lack members: what exists, and who creates the rest, or what to do.

The scheduler knows pods, groups and owners, but not why a Job creates no pods. So the messages
refer to the status and the events of the owner if they know no other cause. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api.constants import (
    DEPLOYMENT,
    JOB,
    JOBSET,
    JOBSET_LABEL_NAME,
    LABEL_POD_GROUP,
    LEADER_WORKER_SET,
    LWS_LABEL_NAME,
    NATIVE_POD_GROUP,
    POD_GROUP,
    STATEFUL_SET,
)
from api.features import Feature, FeatureGates, feature_of_form
from api.groups import Form, groups_of_pod, workload_form
from scheduler.core.groups.forest import Group, NotReady, Pod
from scheduler.core.groups.workload_templates import Templates, WorkloadKey
from scheduler.core.values.group_source import lower_minimum
from scheduler.core.values.wording import count, sentence

_CREATORS: Final = (JOB.kind, STATEFUL_SET.kind, DEPLOYMENT.kind, LEADER_WORKER_SET.kind)
"""Kinds whose status and events explain why they create no pods; minCount follows their size."""

_REPLICA_SET: Final = "ReplicaSet"
_MANAGED: Final = {STATEFUL_SET.kind: Feature.STATEFUL_SET, _REPLICA_SET: Feature.DEPLOYMENT}
"""The feature that creates the group named at admission, by the kind that creates the pods."""


def summary(
    not_ready: NotReady, gates: FeatureGates, workloads: Mapping[WorkloadKey, Templates]
) -> str:
    """Return the message of a group that is not ready: what is missing, and who creates it.

    If Muster does not create it because a feature gate is off, the message names the gate.
    `workloads` are the templates of all Workloads.
    """
    group = not_ready.at
    missing = not_ready.needed - not_ready.present
    if group.spec is None:
        text, advice = not_ready.message, _who_creates_it(group, gates, workloads)
    # The group lacks something other than members, such as a policy: the message is complete.
    elif missing <= 0:
        return f"{not_ready.message}."
    elif group.composite:
        text, advice = not_ready.message, _who_creates_children(group)
    else:
        text = _members(group, not_ready)
        # If gated pods would be enough, the user has to remove their gates first.
        unclaimed = next(iter(group.held_by("claims").values()), None)
        if unclaimed is not None and len(group.held_by("gate")) < missing:
            return f"{text}: {unclaimed.info.unclaimed}"
        advice = _who_creates_pods(group, missing, not_ready.present)
    return f"{text}. {sentence(advice)}"


def _members(group: Group, not_ready: NotReady) -> str:
    """Return how many members count, how many do not, and why they do not."""
    others = [
        f"{number} {what}"
        for number, what in (
            (len(group.held_by("gate")), "with schedulingGates"),
            (len(group.held_by("claims")), "waiting for ResourceClaims"),
            (len(group.held_by("owner")), "of another owner"),
            (group.leaving, "being deleted"),
            (group.failed, "failed"),
        )
        if number
    ]
    if others:
        return f"{not_ready.message}, not counting {' and '.join(others)}"
    if not_ready.present:
        return not_ready.message
    now = "its earlier pods are deleted" if group.initially_scheduled else "none exists yet"
    return f"{not_ready.message}; {now}"


def _who_creates_pods(group: Group, missing: int, present: int) -> str:
    # Enough pods exist, so their creator has nothing more to do.
    if len(group.held_by("gate")) >= missing:
        return "it is scheduled when their schedulingGates are removed"
    if group.held_by("owner"):
        return _whose_group_is_it(group)
    owner = group.spec.owner if group.spec is not None else None
    # As far as the counters show, the group has never had pods.
    first = not (present or group.initially_scheduled or group.failed or group.leaving)
    # With a startup order, it is normal that the JobSet has not created this Job yet.
    if owner is not None and owner[0] == JOBSET.kind:
        name = f'JobSet "{owner[1]}"'
        if first:
            return (
                f"{name} creates the Jobs in its startup order; if the Jobs exist, see their events"
            )
        if not (present or group.failed or group.leaving):
            return f"{name} creates them again if it restarts; see its status if it has ended"
        return f"if no more pods appear, see the status of {name} and the events of its Jobs"
    own, lower = owner is not None and owner[0] in _CREATORS, lower_minimum(group.spec)
    creator = _phrase(owner) if owner is not None and own else _creator(group)
    if creator:
        # minCount follows kinds that Muster knows. Other creators may want fewer pods for good.
        instead = "" if own else f", or {lower}"
        pods = "no pods" if first else "no more pods"
        return f"if {creator} creates {pods}, see its status and events{instead}"
    if group.spec is not None and not group.spec.gang:
        return "create a pod that names the group, or delete the group"
    verb = "names" if missing == 1 else "name"
    return f"create {count(missing, 'more pod')} that {verb} the group, or {lower}"


def of_another_owner(pod: Pod) -> str:
    """Return the message of a pod that names a group although it belongs to another owner."""
    group = pod.group
    if group is None:
        return "The group belongs to another owner."
    owner = group.spec.owner if group.spec is not None else None
    whose = _phrase(owner) if owner is not None else "a user"
    problem = f"{group.phrase} belongs to {whose}, not to the owner of the pod"
    return f"{problem}. {sentence(_whose_group_is_it(group))}"


def _whose_group_is_it(group: Group) -> str:
    """Return the advice for pods that name this group although it belongs to another owner."""
    if group.spec is not None and group.spec.owner is not None:
        return "the pods wait until this group is deleted and Muster creates that of their owner"
    return "the pods belong to a group that Muster creates under this name: delete this group"


def _who_creates_children(group: Group) -> str:
    owner = group.spec.owner if group.spec is not None else None
    if owner is None:
        return "create the others, or lower minGroupCount"
    return f"Muster creates the others for {_phrase(owner)}; if they do not appear, see its events"


def _who_creates_it(
    group: Group, gates: FeatureGates, workloads: Mapping[WorkloadKey, Templates]
) -> str:
    """Return who creates a missing group that pods or child groups name."""
    if group.key[0] == NATIVE_POD_GROUP.full_kind:
        return f"create it in {NATIVE_POD_GROUP.api_version}, or correct the name in its pods"
    feature = _feature_of(group)
    if feature is not None and feature not in gates:
        return f"Muster does not create it because {gates.off_text(feature)}"
    if Feature.POD_GROUP not in gates:
        return f"it cannot be created because {gates.off_text(Feature.POD_GROUP)}"
    if group.composite:
        children = (child for child in group.children.values() if child.spec is not None)
        owner = next((it.spec.owner for it in children if it.spec is not None), None)
        if owner is not None and owner[0] in (JOBSET.kind, LEADER_WORKER_SET.kind):
            return _created_by_muster(_phrase(owner))
        return "create it, or correct the name in its child groups"
    pod = next(iter(group.members.values()), None)
    return (_admitted(pod) or _by_label(pod, group, workloads)) if pod is not None else _MISSPELT


def _feature_of(group: Group) -> Feature | None:
    """Return the feature that creates a missing group; None for a group that users create."""
    if group.composite:
        return Feature.COMPOSITE_POD_GROUP
    pod = next(iter(group.members.values()), None)
    if pod is None:
        return None
    if pod.info.membership.asks:
        return Feature.POD_GROUPS_FROM_PODS
    if pod.info.membership.managed:
        # For pods of a JobSet, the maker is one of its Jobs, so the label decides.
        if JOBSET_LABEL_NAME in pod.info.labels:
            return Feature.JOBSET
        return _MANAGED.get(pod.info.membership.maker.partition(" ")[0], Feature.JOB)
    if _leader_worker_set(pod):
        return Feature.LEADER_WORKER_SET
    reference = next(groups_of_pod(pod.info.labels, ours=True), None)
    if reference is None or reference.name != group.name:
        return None
    return feature_of_form(reference.form)


_MISSPELT: Final = "create it, or correct the name in its pods"
"""Advice for a missing group of a user."""


def _admitted(pod: Pod) -> str:
    """Return who creates a group that was named at admission or that pod annotations request."""
    if pod.info.membership.asks:
        return "Muster creates it from pod annotations; if it does not appear, see the pods' events"
    if _leader_worker_set(pod):
        return _created_by_muster(f'{LEADER_WORKER_SET.kind} "{_leader_worker_set(pod)}"')
    if not pod.info.membership.managed:
        return ""
    jobset = pod.info.labels.get(JOBSET_LABEL_NAME)
    maker = f'JobSet "{jobset}"' if jobset else pod.info.membership.maker
    # The pod knows only its ReplicaSet, but Muster creates the group for the Deployment.
    if maker.startswith(f"{_REPLICA_SET} "):
        maker = f"the Deployment of {maker}"
    return _created_by_muster(maker) if maker else ""


def _leader_worker_set(pod: Pod) -> str:
    """Return the LeaderWorkerSet whose name admission set as the group in its templates."""
    name = pod.info.labels.get(LWS_LABEL_NAME, "")
    return name if name == pod.info.labels.get(LABEL_POD_GROUP) else ""


def _created_by_muster(owner: str) -> str:
    return f"Muster creates it for {owner}; if it does not appear, see the events of its owner"


def _by_label(pod: Pod, group: Group, workloads: Mapping[WorkloadKey, Templates]) -> str:
    """Return who creates a group that the labels of a pod name."""
    reference = next(groups_of_pod(pod.info.labels, ours=True), None)
    if reference is None or reference.name != group.name:
        return _MISSPELT
    if reference.form is Form.COSCHEDULING:
        return (
            f'it is created from coscheduling PodGroup "{group.name}": create that, or correct the'
            " name"
        )
    form = workload_form(pod.info.labels, None) if reference.form is Form.WORKLOAD else None
    if form is None:
        return _MISSPELT
    workload, template = f'Workload "{form.name}"', f'template "{form.pod_group}"'
    templates = workloads.get((pod.info.namespace, form.name))
    if templates is None:
        return (
            f"it is created from {template} of {workload}, which does not exist: create it, or"
            " correct the labels"
        )
    known = templates.get((POD_GROUP.kind, form.pod_group))
    # Pods name a template by itself, so only one that is under no other.
    if known is None or known.below:
        return (
            f"{workload} has no {template} in its podGroupTemplates: add it, or correct the label"
        )
    return f"Muster creates it from {template} of {workload}; if it does not appear, see its events"


def _creator(group: Group) -> str:
    """Return the owner of the group's first pod; empty without an owner or a pod."""
    pod = next(iter(group.members.values()), None)
    return pod.info.membership.maker if pod is not None else ""


def _phrase(owner: tuple[str, str]) -> str:
    kind, name = owner
    return f'{"coscheduling " if kind == POD_GROUP.kind else ""}{kind} "{name}"'
