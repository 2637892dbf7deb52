"""PodGroups of KEP-3370 and of scheduler-plugins: groups for their pods, status for their users.

Groups are made when the first pod appears: all pods of one group share its priority, and only the
pods say which.
"""

from collections import Counter
from typing import Final

import msgspec

from api.constants import (
    CONDITION_POD_GROUP_SCHEDULED_BEFORE,
    COSCHEDULING,
    PLUGINS_POD_GROUP,
    REASON_GROUP_WAITS,
    REASON_UNSCHEDULABLE,
    KindName,
)
from api.integration.coscheduling import coscheduling_objects, subsets_of
from controllers.group_writer import GroupWriter
from controllers.informers import BY_COSCHEDULING, BY_OWNER, Caches
from controllers.objects import COSCHEDULINGS, PLUGINS_POD_GROUPS, Group, Owner, Pod
from controllers.owner import OwnerController
from controllers.owner_status import OwnerStatusWriter
from controllers.runtime import Writer
from kube.clock import Clock, rfc3339
from kube.meta import Json
from kube.patch import PatchBuilder
from kube.resources import Resource

KINDS: Final = {COSCHEDULINGS: COSCHEDULING, PLUGINS_POD_GROUPS: PLUGINS_POD_GROUP}

# Pods are created, placed and started in bursts, which one status update covers.
_STATUS_DELAY_SECONDS: Final = 1.0


class CoschedulingController(OwnerController):
    """The controller of one of the two kinds."""

    def __init__(
        self,
        resource: Resource,
        caches: Caches,
        clock: Clock,
        *,
        group_writer: GroupWriter,
        owner_status: OwnerStatusWriter,
        writer: Writer,
    ) -> None:
        """Subscribes to the caches; nothing is done before `controller.run`."""
        super().__init__(
            resource,
            caches,
            clock,
            group_writer=group_writer,
            owner_status=owner_status,
            make=self._make_for,
        )
        self._kind: KindName = KINDS[resource]
        self._writer = writer
        self._clock = clock
        caches.pods.subscribe(self._on_member)

    async def report(self, owner: Owner) -> float:
        """Write the status if it changed. Raises kube errors."""
        before: Json = msgspec.json.decode(owner.status)
        pods = self._members(owner)
        status = (
            self._status(owner, pods, before)
            if self._resource == COSCHEDULINGS
            else self._plugins_status(owner, pods)
        )
        if {**before, **status} == before:
            return 0.0
        meta = owner.metadata
        ops = PatchBuilder().at_version(meta.resource_version)
        ops.add("/status", {**before, **status})
        await self._writer.patch(
            self._resource, meta.name, ops, meta.namespace, subresource="status"
        )
        return 0.0

    async def _make_for(self, owner: Owner) -> None:
        pods = self._members(owner)
        if not pods:
            return
        obj, priority = owner.as_object(), pods[0].priority_class

        def wanted(workload: str | None) -> list[Json]:
            return coscheduling_objects(self._kind, obj, workload, priority)

        objects = wanted(None)
        if len(objects) == 1:
            await self._group_writer.ensure_groups(owner, objects)
        else:
            await self._group_writer.ensure(owner, wanted)

    def _members(self, owner: Owner) -> list[Pod]:
        return self._caches.pods.by_index(BY_COSCHEDULING, owner.metadata.key)

    def _status(self, owner: Owner, pods: list[Pod], before: Json) -> Json:
        counts: Counter[tuple[str, str]] = Counter()
        for pod in pods:
            assert pod.coscheduling is not None
            counts[pod.coscheduling[1], pod.state] += 1
            counts[pod.coscheduling[1], "total"] += 1
        subsets = [
            {
                "name": name,
                "total": counts[name, "total"],
                "scheduledAvailable": counts[name, REASON_GROUP_WAITS],
                "scheduledUnavailable": counts[name, REASON_UNSCHEDULABLE],
                "running": counts[name, "Running"],
            }
            for name in self._subset_names(owner)
        ]
        root = self._root(owner)
        if root is None or root.condition is None:
            return {"subsets": subsets}
        return {"subsets": subsets, "conditions": [self._condition(root.condition, before)]}

    def _subset_names(self, owner: Owner) -> list[str]:
        subsets = subsets_of(owner.as_object())
        # A single subset's pods need not name it.
        return [""] if len(subsets) == 1 else [name for name, _ in subsets]

    def _condition(self, condition: Json, before: Json) -> Json:
        wanted = condition | {"type": CONDITION_POD_GROUP_SCHEDULED_BEFORE}
        for old in before.get("conditions") or []:
            if all(old.get(key) == value for key, value in wanted.items()):
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
        for _, cache in reversed(self._caches.group_caches()):
            for group in cache.by_index(BY_OWNER, owner.metadata.uid):
                return group
        return None

    def _on_group(self, kind: str, old: Group | None, new: Group | None) -> None:
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
            if self._caches.pod_groups.by_index(BY_OWNER, owner.metadata.uid):
                self.controller.queue.add_after(key, _STATUS_DELAY_SECONDS)
            else:
                self.controller.queue.add(key)
