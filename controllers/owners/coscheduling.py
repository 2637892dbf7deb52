"""The controllers of PodGroups of KEP-3370 and of scheduler-plugins.

They create Muster's groups when the first pod appears: all pods of one group share its priority,
which only the pods state.
"""

from collections import Counter
from typing import Final

import msgspec

from api.constants import (
    CONDITION_POD_GROUP_SCHEDULED_BEFORE,
    REASON_GROUP_WAITS,
    REASON_UNSCHEDULABLE,
)
from api.integration.pods.coscheduling import coscheduling_objects, subsets_of
from controllers.cache.informers import BY_COSCHEDULING, BY_OWNER
from controllers.cache.objects import COSCHEDULINGS, Group, Owner, Pod
from controllers.owners.base import OwnerController, Tools
from kube.base.clock import rfc3339
from kube.client.meta import Json
from kube.client.patch import PatchBuilder
from kube.client.resources import Resource

# A phase outside this list, or one of these fields, shows that the controller of scheduler-plugins
# runs. It owns the status then.
_PHASES: Final = {"", "Pending", "Scheduled", "Running"}
_THEIRS: Final = ("occupiedBy", "scheduleStartTime", "scheduled", "succeeded", "failed")

# Pods are created, placed and started in bursts, which one status update covers.
_STATUS_DELAY_SECONDS: Final = 1.0
"""Seconds in which changes of pods share one write of the status."""


class CoschedulingController(OwnerController):
    """The controller of one of the two kinds."""

    def __init__(self, resource: Resource, tools: Tools) -> None:
        super().__init__(resource, tools)
        self._writer = tools.writer
        self._clock = tools.clock
        tools.caches.pods.subscribe(self._on_member)

    async def report(self, owner: Owner) -> float:
        """Write the status if it changed. Raises kube errors."""
        before: Json = msgspec.json.decode(owner.status)
        pods = self._members(owner)
        if self._resource != COSCHEDULINGS and self._is_anothers(owner, pods, before):
            return 0.0
        status = (
            self._status(owner, pods, before)
            if self._resource == COSCHEDULINGS
            else self._plugins_status(owner, pods)
        )
        if {**before, **status} == before:
            return 0.0
        meta = owner.metadata
        # The patch replaces the whole status. Fail if another client has changed it meanwhile.
        ops = PatchBuilder().at_version(meta.resource_version)
        ops.add("/status", {**before, **status})
        await self._writer.patch(
            self._resource, meta.name, ops, meta.namespace, subresource="status"
        )
        return 0.0

    async def create_objects(self, owner: Owner) -> None:
        pods = self._members(owner)
        if not pods:
            return
        obj, priority = owner.as_object(), pods[0].priority_class

        def wanted(workload: str | None) -> list[Json]:
            return coscheduling_objects(self._resource, obj, workload, priority)

        # With several subsets the group is a tree, which needs a Workload with their templates.
        if len(subsets_of(obj)) > 1:
            await self._group_writer.ensure(owner, wanted)
            return
        named = {pod.coscheduling[1] for pod in pods if pod.coscheduling}
        made = [
            coscheduling_objects(self._resource, obj, None, priority, it) for it in sorted(named)
        ]
        by_name = {it["metadata"]["name"]: it for objects in made for it in objects}
        await self._group_writer.ensure_groups(owner, list(by_name.values()))

    def _is_anothers(self, owner: Owner, pods: list[Pod], status: Json) -> bool:
        """Return True if the controller of scheduler-plugins writes this PodGroup's status.

        That controller counts all pods with the label, whatever schedules them.
        """
        if not pods and self._root(owner) is None:
            return True
        # Once it runs and writes fields that only it writes, two writers would undo each other's
        # phase without end.
        return any(status.get(key) for key in _THEIRS) or status.get("phase", "") not in _PHASES

    def _members(self, owner: Owner) -> list[Pod]:
        return self._caches.pods.by_index(BY_COSCHEDULING, owner.metadata.key)

    def _status(self, owner: Owner, pods: list[Pod], before: Json) -> Json:
        counts: Counter[tuple[str, str]] = Counter()
        names = self._subset_names(owner)
        for pod in pods:
            assert pod.coscheduling is not None
            # Pods of a single subset need not name it.
            name = names[0] if len(names) == 1 else pod.coscheduling[1]
            counts[name, pod.state] += 1
            counts[name, "total"] += 1
        subsets = [
            {
                "name": name,
                "total": counts[name, "total"],
                "scheduledAvailable": counts[name, REASON_GROUP_WAITS],
                "scheduledUnavailable": counts[name, REASON_UNSCHEDULABLE],
                "running": counts[name, "Running"],
            }
            for name in names
        ]
        root = self._root(owner)
        if root is None or root.condition is None:
            return {"subsets": subsets}
        return {"subsets": subsets, "conditions": [self._condition(root.condition, before)]}

    def _subset_names(self, owner: Owner) -> list[str]:
        return [name for name, _ in subsets_of(owner.as_object())]

    def _condition(self, condition: Json, before: Json) -> Json:
        wanted = condition | {"type": CONDITION_POD_GROUP_SCHEDULED_BEFORE}
        for old in before.get("conditions") or []:
            if all(old.get(key) == value for key, value in wanted.items()):
                # Keep the times of a condition that has not changed. Otherwise each report would be
                # a write.
                return dict(old)
        now = rfc3339(self._clock.now())
        return wanted | {"lastTransitionTime": now, "lastUpdateTime": now}

    def _plugins_status(self, owner: Owner, pods: list[Pod]) -> Json:
        root = self._root(owner)
        running = sum(pod.state == "Running" for pod in pods)
        scheduled = root is not None and root.scheduled
        phase = ("Running" if running else "Scheduled") if scheduled else "Pending"
        return {"phase": phase, "running": running}

    def _root(self, owner: Owner) -> Group | None:
        # The CompositePodGroup, if there is one, is the root.
        for _, cache in reversed(self._caches.group_caches()):
            for group in cache.by_index(BY_OWNER, owner.as_index):
                return group
        return None

    def _on_group(self, kind: Resource, old: Group | None, new: Group | None) -> None:
        super()._on_group(kind, old, new)
        if old is not None and new is not None and old.condition != new.condition:
            self._queue_owner(new.metadata, after=_STATUS_DELAY_SECONDS)

    def _on_member(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is None or pod.coscheduling is None:
                continue
            key = (pod.metadata.namespace, pod.coscheduling[0])
            owner = self._owners.get(*key)
            if owner is None:
                continue
            # Without groups the first pod is urgent, as its group is missing. Later ones change
            # numbers only.
            if self._caches.pod_groups.by_index(BY_OWNER, owner.as_index):
                self.controller.queue.add_after(key, _STATUS_DELAY_SECONDS)
            else:
                self.controller.queue.add(key)
