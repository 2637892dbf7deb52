"""One workload: its tree of groups and pods, with states and conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from api.constants import JOBSET, TRAIN_JOB
from console.base import messages
from console.base.messages import Branch, Condition, Counts, PodRow, PodsOnNode
from console.base.protocols import RefusedError, Viewer
from console.base.times import rfc3339
from console.state.state import ClusterState
from console.views import timeline
from console.views.queue import minimum_of
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.groups.groups import in_order
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP, SINGLE_POD, plain_kind
from scheduler.status.conditions import has_leaving_pods

MOST_PODS: Final = 20_000
"""Pods of one workload that are shown. Further ones are counted."""
_MOST_CONDITIONS: Final = 32
"""Conditions of a group that are shown. Further ones are left out."""

_MISSING: Final = "The workload was not found, or you do not have access to it."


@dataclass(frozen=True, slots=True)
class Subject:
    """The workload of an ID: the groups of an owner, one group, or one pod."""

    namespace: str
    kind: str
    name: str
    groups: tuple[Group, ...] = ()
    pod: Pod | None = None

    @property
    def id(self) -> str:
        """`NAMESPACE/KIND/NAME`."""
        return f"{self.namespace}/{self.kind}/{self.name}"

    def leaves(self) -> Iterator[Group]:
        """Yield the groups that have pods."""
        return (leaf for group in self.groups for leaf in group.leaves())

    def pods(self) -> Iterator[Pod]:
        """Yield all of its pods."""
        if self.pod is not None:
            yield self.pod
        for leaf in self.leaves():
            yield from leaf.members.values()


def find(cluster: ClusterState, id_: str, viewer: Viewer) -> Subject:
    """Return the workload of an ID.

    Raises the same RefusedError if there is none and if the viewer may not see it, so that the
    response does not reveal that it exists.
    """
    namespace, _, rest = id_.partition("/")
    kind, _, name = rest.partition("/")
    if not (namespace and kind and name and viewer.sees(namespace)):
        raise RefusedError(404, _MISSING)
    if kind == SINGLE_POD:
        pod = _pod(cluster, namespace, name)
        if pod is None:
            raise RefusedError(404, _MISSING)
        return Subject(namespace, kind, name, pod=pod)
    groups = tuple(_groups(cluster, namespace, kind, name))
    if not groups:
        raise RefusedError(404, _MISSING)
    return Subject(namespace, kind, name, groups)


def complete_view(cluster: ClusterState, subject: Subject, yaml: str = "") -> messages.Workload:
    """Return the complete workload, with the YAML that was read for it."""
    tree = tree_of(cluster, subject)
    conditions = [each for group in subject.groups for each in _conditions(cluster, group)]
    return messages.Workload(
        id=subject.id,
        tree=tree,
        timeline=timeline.of(cluster, subject.groups, list(subject.pods())),
        conditions=conditions[:_MOST_CONDITIONS],
        yaml=yaml,
    )


def pods_on_nodes(subject: Subject) -> list[PodsOnNode]:
    """Return the number of its pods on each node, without those that have ended."""
    nodes = Counter(pod.node for pod in subject.pods() if pod.node)
    return [PodsOnNode(node=node, pods=number) for node, number in sorted(nodes.items())]


def _pod(cluster: ClusterState, namespace: str, name: str) -> Pod | None:
    known = cluster.state.singles.get((SINGLE_POD, namespace, name))
    if known is not None:
        return known
    pods = cluster.state.pods.values()
    return next(
        (pod for pod in pods if pod.info.name == name and pod.info.namespace == namespace), None
    )


def _groups(cluster: ClusterState, namespace: str, kind: str, name: str) -> Iterable[Group]:
    groups = cluster.state.forest.groups
    if plain_kind(kind) in (POD_GROUP, COMPOSITE_POD_GROUP):
        group = groups.get((kind, namespace, name))
        return () if group is None else (group,)
    owned = cluster.observed.owned.get((namespace, kind, name), {})
    # The groups of a TrainJob belong to the JobSet of the same name.
    if not owned and kind == TRAIN_JOB.kind:
        owned = cluster.observed.owned.get((namespace, JOBSET.kind, name), {})
    found = (groups.get(key) for key in sorted(owned))
    return [
        group
        for group in found
        if group is not None and (group.parent is None or group.parent.key not in owned)
    ]


def tree_of(cluster: ClusterState, subject: Subject, *, most_pods: int = MOST_PODS) -> Branch:
    """Return the tree, with the first pods. Costs O(pods of the workload)."""
    if subject.pod is not None:
        return _single(subject.pod)
    # A list, so that all branches share the number of pods that may still be shown.
    room = [most_pods]
    children = [_branch(cluster, group, room) for group in subject.groups]
    if len(children) == 1 and children[0].kind == subject.kind:
        return children[0]
    # Next to Muster's group, a Job may have a native one that no pod names: it has no effect.
    ours = [each for each in children if plain_kind(each.kind) == each.kind or each.counts.pods]
    effective = ours or children
    minimums = [each.counts.minimum for each in effective if each.counts.minimum is not None]
    states = [each.state for each in effective]
    return Branch(
        kind=subject.kind,
        name=subject.name,
        state=next((state for state in _WORST_FIRST if state in states), states[0]),
        counts=_counts((), children, sum(minimums) if minimums else None),
        conditions=[],
        children=children,
        pods=[],
    )


_OF_OTHERS: Final = "Other scheduler"

_WORST_FIRST: Final = (
    "Invalid",
    "Disrupted",
    "Incomplete",
    "Preempting",
    "Nominated",
    "Waiting",
    "Starting",
    "Running",
    _OF_OTHERS,
)


def _branch(cluster: ClusterState, group: Group, room: list[int]) -> Branch:
    children = [_branch(cluster, child, room) for child in group.children_in_order()]
    members = group.members.values()
    shown = in_order(members)[: room[0]] if room[0] else []
    room[0] -= len(shown)
    counts = _counts(members, children, minimum_of(group))
    return Branch(
        kind=group.key[0],
        name=group.name,
        state=_state(cluster, group, counts),
        counts=counts,
        conditions=_conditions(cluster, group),
        children=children,
        pods=[_row(pod) for pod in shown],
    )


def _counts(pods: Collection[Pod], children: Iterable[Branch], minimum: int | None) -> Counts:
    """Return the numbers of these pods and of all below the children."""
    below = [child.counts for child in children]
    bound = sum(bool(pod.info.node) for pod in pods)
    running = sum(pod.info.phase in ("Running", "Succeeded") for pod in pods)
    return Counts(
        pods=len(pods) + sum(each.pods for each in below),
        bound=bound + sum(each.bound for each in below),
        running=running + sum(each.running for each in below),
        minimum=minimum,
    )


def _conditions(cluster: ClusterState, group: Group) -> list[Condition]:
    return list(islice(timeline.conditions_of(cluster, group), _MOST_CONDITIONS))


def _state(cluster: ClusterState, group: Group, counts: Counts) -> str:
    if group.of_others and any(leaf.foreign for leaf in group.leaves()):
        # kube-scheduler's, for example: Muster decides nothing about it.
        return _OF_OTHERS
    if group.state in ("invalid", "disrupted", "incomplete", ""):
        return (group.state or "incomplete").capitalize()
    if group.state == "pending":
        if not cluster.state.nominations.own(group.top.key):
            return "Waiting"
        return "Preempting" if has_leaving_pods(cluster.state, group) else "Nominated"
    if counts.pods and _all_succeeded(group):
        return "Succeeded"
    whole_now = group.state == "scheduled" and counts.running >= (counts.minimum or 1)
    return "Running" if whole_now else "Starting"


def _all_succeeded(group: Group) -> bool:
    members = (pod for leaf in group.leaves() for pod in leaf.members.values())
    return all(pod.info.phase == "Succeeded" for pod in members)


def _single(pod: Pod) -> Branch:
    row = _row(pod)
    return Branch(
        kind=SINGLE_POD,
        name=pod.info.name,
        state=row.state,
        counts=_counts([pod], (), None),
        conditions=[],
        children=[],
        pods=[row],
    )


def _row(pod: Pod) -> PodRow:
    info = pod.info
    started = rfc3339(info.started) if 0 < info.started < timeline.FAR_AWAY else None
    return PodRow(
        name=info.name,
        node=info.node or (pod.node if info.expected and pod.assumed else None),
        state=pod_state(pod),
        since=(started if info.node else None) or info.created or None,
    )


def pod_state(pod: Pod) -> str:
    """Return the pod's state, in one word."""
    info = pod.info
    if pod.ended:
        return info.phase
    if info.expected:
        return "Held" if pod.assumed else "Expected"
    if info.preemption.targeted:
        return "Evicted"
    if info.terminating:
        return "Terminating"
    if info.node:
        return "Running" if info.phase == "Running" else "Bound"
    if info.nominated:
        return "Nominated"
    return "Gated" if pod.hold is not None else "Waiting"
