"""Events on groups, on their owners such as Jobs and JobSets, and on single pods."""

from __future__ import annotations

from collections.abc import Mapping

from api.constants import EVENT_SCHEDULED
from kube.events.events import EventType, ObjectReference, Recorder
from scheduler.core.groups.forest import Pod
from scheduler.core.state.state import State
from scheduler.core.values.model import SINGLE_POD, GroupKey, PodInfo, plain_kind
from scheduler.decoding.objects import GroupObject, Metadata
from scheduler.support.kinds import GROUP_RESOURCES


class GroupEvents:
    """A recorder of events in the schedulerName of the pods, as kube-scheduler's profiles have it.

    `observed` are the group objects as the watch last delivered them. `bound` records that pods
    were bound, once for each pod; without it these events are not sent.
    """

    def __init__(
        self,
        recorder: Recorder,
        state: State,
        observed: Mapping[GroupKey, GroupObject],
        bound: Recorder | None = None,
    ) -> None:
        self._recorder = recorder
        self._bound = bound
        self._state = state
        self._observed = observed

    def entity(self, key: GroupKey, kind: EventType, reason: str, message: str) -> None:
        """Record an event on the group or single pod, and for a root group on its owner, too."""
        if key[0] == SINGLE_POD:
            pod = self._state.singles.get(key)
            if pod is not None:
                self.pod(pod, kind, reason, message)
            return
        observed = self._observed.get(key)
        # Deleted, or not delivered yet: an event needs the UID of its object.
        if observed is None:
            return
        meta = observed.metadata
        group = ObjectReference.of(GROUP_RESOURCES[key[0]], meta)
        scheduler = self._scheduler_of(key)
        self._recorder.event(group, kind, reason, message, component=scheduler)
        owner = _controller(meta)
        # Only for a root: the owner of a tree would get an event for each child.
        if owner is not None and observed.spec.parent_composite_pod_group_name is None:
            text = f"{plain_kind(key[0])} {key[2]}: {message}"
            self._recorder.event(owner, kind, reason, text, component=scheduler)

    def pod(self, pod: Pod, kind: EventType, reason: str, message: str) -> None:
        """Record an event on a pod."""
        info = pod.info
        self._recorder.event(_reference(info), kind, reason, message, component=info.scheduler)

    def root_controller(self, pod: Pod) -> ObjectReference | None:
        """Return the controller of the topmost group of the pod's tree, if there is one."""
        observed = self._observed.get(pod.group.top.key) if pod.group is not None else None
        return _controller(observed.metadata) if observed is not None else None

    def warn(self, regarding: ObjectReference, pod: Pod, reason: str, message: str) -> None:
        """Record a warning on the owner of a waiting pod."""
        self._recorder.event(regarding, "Warning", reason, message, component=pod.info.scheduler)

    def on_pod_bound(self, pod: Pod, node: str) -> None:
        """Record that a pod was bound, in kube-scheduler's words."""
        if self._bound is not None:
            info = pod.info
            text = f"Successfully assigned {info.namespace}/{info.name} to {node}"
            reference, component = _reference(info), info.scheduler
            self._bound.event(reference, "Normal", EVENT_SCHEDULED, text, component=component)

    def _scheduler_of(self, key: GroupKey) -> str:
        """Return the schedulerName of the group's pods; empty if it has no pods."""
        group = self._state.forest.groups.get(key)
        return group.scheduler if group is not None else ""


def _controller(meta: Metadata) -> ObjectReference | None:
    owner = meta.controller
    if owner is None:
        return None
    return ObjectReference(owner.api_version, owner.kind, meta.namespace, owner.name, owner.uid)


def _reference(info: PodInfo) -> ObjectReference:
    return ObjectReference("v1", "Pod", info.namespace, info.name, info.uid)
