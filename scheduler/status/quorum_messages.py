"""What is said of a group that lacks members: what is there, and who makes the rest, or what to do.

The scheduler sees the pods and the groups, and whom they were made for; why a Job makes no pods is
known to its status and its events, so those are named where nothing else is the cause. No I/O.
"""

from __future__ import annotations

from typing import Final

from api import features
from api.constants import (
    DEPLOYMENT,
    JOB,
    JOBSET,
    JOBSET_LABEL_NAME,
    LABEL_POD_GROUP,
    LEADER_WORKER_SET,
    LWS_LABEL_NAME,
    POD,
    POD_GROUP,
    STATEFUL_SET,
    WORKLOAD,
)
from api.features import Feature, FeatureGates, feature_of_form, off_text
from api.groups import Form, group_of_pod, workload_form
from scheduler.core.groups.forest import Group, NotReady, Pod

"""Kinds whose pods get their group's name from Muster's admission."""
_MAKERS: Final = (JOB.kind, STATEFUL_SET.kind, DEPLOYMENT.kind, LEADER_WORKER_SET.kind)
"""Kinds whose status and events say why there are no pods."""
_REPLICA_SET: Final = "ReplicaSet"
_MANAGED: Final = {STATEFUL_SET.kind: Feature.STATEFUL_SET, _REPLICA_SET: Feature.DEPLOYMENT}
"""By which feature the group is made that admission named, by what makes the pods."""


def summary(not_ready: NotReady, gates: FeatureGates = features.USUAL) -> str:
    """The whole sentence: what is missing, and what to do, or who does it.

    Who makes nothing as a feature gate is off is not named: the gate is.
    """
    group = not_ready.at
    if group.spec is None:
        return f"{not_ready.message}: {_who_makes_it(group, gates)}"
    missing = not_ready.needed - not_ready.present
    if missing <= 0:
        return not_ready.message
    if group.composite:
        return f"{not_ready.message}: {_who_makes_children(group)}"
    return f"{_there(group, not_ready)}: {_who_makes_pods(group, missing, not_ready.present)}"


def _there(group: Group, not_ready: NotReady) -> str:
    """How many members count, and what is known of others."""
    others = [
        f"{number} {what}"
        for number, what in (
            (group.gated, "with schedulingGates"),
            (len(group.unclaimed or ()), "without their ResourceClaims"),
            (group.held, "held"),
            (group.leaving, "being deleted"),
            (group.failed, "failed"),
        )
        if number
    ]
    if others:
        return f"{not_ready.message}, besides {' and '.join(others)}"
    if not_ready.present:
        return not_ready.message
    now = "those that ran are gone" if group.initially_scheduled else "none is there yet"
    return f"{not_ready.message}, {now}"


def _who_makes_pods(group: Group, missing: int, present: int) -> str:
    if group.gated >= missing:
        return "it goes on when their gates are removed"
    if group.unclaimed or group.held:
        lacking = next(iter((group.unclaimed or {}).values()), None)
        return _whose_group_is_it(group) if lacking is None else claims_missing(lacking)
    owner = group.spec.owner if group.spec is not None else None
    first = not (present or group.initially_scheduled or group.failed or group.leaving)
    if owner is not None and owner[0] == JOBSET.kind:
        name = f'JobSet "{owner[1]}"'
        if first:
            return (
                f"{name} makes their Jobs when it is their turn;"
                " if these are there, their events say why no pods come"
            )
        if not (present or group.failed or group.leaving):
            return f"{name} makes their Jobs again when it is their turn, unless it has ended"
        return f"if no others come, the status of {name} and the events of its Jobs say why"
    own = owner is not None and owner[0] in _MAKERS
    maker = _words(owner) if owner is not None and own else _maker(group)
    if maker:
        # Of its own minCount follows it; others may be content with fewer pods.
        why = f"as its status and events may say, {_lower(group)}"
        why = "its status and events say why" if own else why
        return f"if {maker} makes {'none' if first else 'no others'}, {why}"
    if group.spec is not None and not group.spec.gang:
        return "make 1 that names it, or delete it"
    return f"make {missing} more that name it, or {_lower(group)}"


def claims_missing(pod: Pod) -> str:
    """Why a pod waits for its ResourceClaims, and whose matter that is."""
    text = pod.info.unclaimed
    if "not created yet" in text:
        return (
            f"{text}: kube-controller-manager makes it from its ResourceClaimTemplate;"
            " if it does not, the events of the pod say why"
        )
    if "PodGroup is not owner" in text:
        return f"{text}: delete it, and the group's own is made"
    if "status.resourceClaimStatuses" in text:
        return f"{text}: Muster's controllers make it; if not, the events of the group say why"
    if "could not find" in text:
        return f"{text}: create it, or correct the name"
    if "is being deleted" in text:
        return f"{text}: it goes on once another of this name is there"
    return text


def _lower(group: Group) -> str:
    """How to let it start with fewer pods."""
    spec = group.spec
    owner = spec.owner if spec is not None else None
    if owner is not None and owner[0] == POD_GROUP.kind:
        return f"lower minMember of {_words(owner)}"
    if owner is not None and owner[0] == POD.kind:
        return "lower the min-count that its pods say"
    if spec is not None and owner is not None and owner[0] == WORKLOAD.kind:
        return f'lower minCount of template "{spec.template}" of {_words(owner)}'
    return "lower minCount"


def _whose_group_is_it(group: Group) -> str:
    """Pods are held that Muster named this group, which was not made for their owner."""
    if group.spec is not None and group.spec.owner is not None:
        return "those are of another owner, and go on once this group is gone and theirs is made"
    return "those are meant for a group that Muster makes under this name: delete this one"


def _who_makes_children(group: Group) -> str:
    owner = group.spec.owner if group.spec is not None else None
    if owner is None:
        return "make the others, or lower minGroupCount"
    return f"Muster makes the others for {_words(owner)}, whose events say if it cannot"


def _who_makes_it(group: Group, gates: FeatureGates) -> str:
    """Of a group that does not exist, but that pods or child groups name."""
    feature = _made_by(group)
    if feature is not None and feature not in gates:
        return f"it is not made, as {off_text(feature)}"
    if group.composite:
        children = (child for child in group.children.values() if child.spec is not None)
        owner = next((it.spec.owner for it in children if it.spec is not None), None)
        if owner is not None and owner[0] in (JOBSET.kind, LEADER_WORKER_SET.kind):
            return _made_by_muster(_words(owner))
        return "create it, or correct the name that its child groups give"
    pod = next(iter(group.members.values()), None)
    return (_admitted(pod) or _by_label(pod, group.name)) if pod is not None else _MISSPELT


def _made_by(group: Group) -> Feature | None:
    """The feature by which a group that does not exist would be made; None for a user's own."""
    if group.composite:
        return Feature.COMPOSITE_POD_GROUP
    pod = next(iter(group.members.values()), None)
    if pod is None:
        return None
    if pod.info.membership.asks:
        return Feature.POD_GROUPS_FROM_PODS
    if pod.info.membership.managed:
        if JOBSET_LABEL_NAME in pod.info.labels:
            return Feature.JOBSET
        return _MANAGED.get(pod.info.membership.maker.partition(" ")[0], Feature.JOB)
    if _leader_worker_set(pod):
        return Feature.LEADER_WORKER_SET
    reference = group_of_pod(pod.info.labels, ours=True)
    if reference is None or reference.name != group.name:
        return None
    return feature_of_form(reference.form)


_MISSPELT: Final = "create it, or correct the name that its pods give"


def _admitted(pod: Pod) -> str:
    """Of a group that admission named, or that its pods ask for: the controllers make it."""
    if pod.info.membership.asks:
        return "Muster makes it as the annotations of its pods say, whose events say if it cannot"
    if _leader_worker_set(pod):
        return _made_by_muster(f'{LEADER_WORKER_SET.kind} "{_leader_worker_set(pod)}"')
    if not pod.info.membership.managed:
        return ""
    jobset = pod.info.labels.get(JOBSET_LABEL_NAME)
    maker = f'JobSet "{jobset}"' if jobset else pod.info.membership.maker
    if maker.startswith(f"{_REPLICA_SET} "):
        maker = f"the Deployment of {maker}"
    return _made_by_muster(maker) if maker else ""


def _leader_worker_set(pod: Pod) -> str:
    """The LeaderWorkerSet in whose templates admission named the group, by the set's own name."""
    name = pod.info.labels.get(LWS_LABEL_NAME, "")
    return name if name == pod.info.labels.get(LABEL_POD_GROUP) else ""


def _made_by_muster(owner: str) -> str:
    return f"Muster makes it for {owner}, whose events say if it cannot"


def _by_label(pod: Pod, name: str) -> str:
    reference = group_of_pod(pod.info.labels, ours=True)
    if reference is None or reference.name != name:
        return _MISSPELT
    if reference.form is Form.COSCHEDULING:
        return f'it is made from coscheduling PodGroup "{name}": create that, or correct the name'
    form = workload_form(pod.info.labels, None) if reference.form is Form.WORKLOAD else None
    if form is None:
        return _MISSPELT
    return (
        f'it is made from template "{form.pod_group}" of Workload "{form.name}":'
        " create those, or correct the labels"
    )


def _maker(group: Group) -> str:
    """What makes its pods, by one of those that are there."""
    pod = next(iter(group.members.values()), None)
    return pod.info.membership.maker if pod is not None else ""


def _words(owner: tuple[str, str]) -> str:
    kind, name = owner
    return f'{"coscheduling " if kind == POD_GROUP.kind else ""}{kind} "{name}"'
