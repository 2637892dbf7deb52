"""The caches all controllers read, and the watches that fill them."""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from api.constants import JOB, JOBSET
from controllers.objects import (
    COMPOSITES,
    OWNERS,
    POD_GROUPS,
    WORKLOADS,
    Group,
    Owner,
    Pod,
    decode_group,
    decode_job,
    decode_jobset,
    decode_pod,
)
from kube.cache import Cache
from kube.client import Client
from kube.clock import Clock
from kube.errors import ApiError, ConfigError, NotFound, Unreachable
from kube.meta import HasMeta, ObjectMeta, Partial, decode_partial
from kube.reflector import Reflector
from kube.resources import NAMESPACES, PODS, Resource

_PROBE_SECONDS = 15.0

BY_OWNER = "owner"
"""Workloads and groups by the UID of the controller owner."""
BY_PARENT = "parent"
"""Groups by (namespace, parent composite)."""
BY_GROUP = "group"
"""Active pods by (namespace, group), for every group they name."""


class World:
    """The cluster as the controllers know it. Readable once `synced` is set."""

    def __init__(self) -> None:
        """Empty caches; `Watches` fills them."""
        self.synced = asyncio.Event()
        self.jobs: Cache[Owner] = Cache()
        self.jobsets: Cache[Owner] = Cache()
        self.workloads: Cache[Partial] = Cache()
        self.pod_groups: Cache[Group] = Cache()
        self.composites: Cache[Group] = Cache()
        self.pods: Cache[Pod] = Cache()
        self.namespaces: Cache[Partial] = Cache()
        self.workloads.add_index(BY_OWNER, lambda obj: _owner_uid(obj.metadata))
        for groups in (self.pod_groups, self.composites):
            groups.add_index(BY_OWNER, lambda obj: _owner_uid(obj.metadata))
            groups.add_index(BY_PARENT, _parent)
        self.pods.add_index(BY_GROUP, _groups)

    def owners(self, kind: str) -> Cache[Owner]:
        """The cache of Jobs or of JobSets."""
        return {JOB.kind: self.jobs, JOBSET.kind: self.jobsets}[kind]

    def groups(self, kind: str) -> Cache[Group]:
        """The cache of PodGroups or of CompositePodGroups."""
        return {POD_GROUPS.kind: self.pod_groups, COMPOSITES.kind: self.composites}[kind]

    def has_pods(self, namespace: str, group: str) -> bool:
        """Whether a pod that is not finished names the PodGroup."""
        return bool(self.pods.by_index(BY_GROUP, (namespace, group)))

    def children(self, namespace: str, composite: str) -> list[Group]:
        """The groups of either kind whose parent is the composite."""
        key = (namespace, composite)
        return [
            *self.composites.by_index(BY_PARENT, key),
            *self.pod_groups.by_index(BY_PARENT, key),
        ]

    def is_terminating(self, namespace: str) -> bool:
        """Whether the namespace is being deleted."""
        found = self.namespaces.get("", namespace)
        return found is not None and found.metadata.deletion_timestamp is not None


class Watches:
    """The reflectors of a `World`. JobSets are watched from the time their CRD is installed."""

    def __init__(self, client: Client, world: World, clock: Clock) -> None:
        """Nothing is read before `run`."""
        self._client = client
        self._clock = clock
        self._world = world
        self._jobsets = self._reflector(OWNERS[JOBSET.kind], world.jobsets, decode_jobset)
        self._reflectors = [
            self._reflector(OWNERS[JOB.kind], world.jobs, decode_job),
            self._reflector(WORKLOADS, world.workloads, decode_partial),
            self._reflector(POD_GROUPS, world.pod_groups, decode_group),
            self._reflector(COMPOSITES, world.composites, decode_group),
            self._reflector(PODS, world.pods, decode_pod),
            self._reflector(NAMESPACES, world.namespaces, decode_partial),
        ]

    async def run(self) -> None:
        """Fill the caches until cancelled; `world.synced` is set once all of them are whole."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())
            group.create_task(self._follow_jobsets(group))

    async def _follow_jobsets(self, group: asyncio.TaskGroup) -> None:
        installed = await self._jobsets_served()
        if installed:
            group.create_task(self._jobsets.run())
            await self._jobsets.synced.wait()
        for reflector in self._reflectors:
            await reflector.synced.wait()
        self._world.synced.set()
        while not installed:
            await self._clock.sleep(_PROBE_SECONDS)
            installed = await self._jobsets_served()
            if installed:
                group.create_task(self._jobsets.run())

    async def _jobsets_served(self) -> bool:
        """Whether the API server knows JobSets; waits while it does not answer."""
        while True:
            try:
                path = OWNERS[JOBSET.kind].path()
                await self._client.request("GET", path, params={"limit": "1"})
            except NotFound:
                return False
            except (ApiError, ConfigError, Unreachable):
                await self._clock.sleep(1.0)
            else:
                return True

    def _reflector(
        self, resource: Resource, cache: Cache[Any], decode: Callable[[bytes], HasMeta]
    ) -> Reflector[Any]:
        return Reflector(self._client, resource, cache, decode=decode, clock=self._clock)


def _owner_uid(meta: ObjectMeta) -> Iterable[Hashable]:
    controller = meta.controller
    return () if controller is None else (controller.uid,)


def _parent(group: Group) -> Iterable[Hashable]:
    return ((group.metadata.namespace, group.parent),) if group.parent else ()


def _groups(pod: Pod) -> Iterable[Hashable]:
    if not pod.active:
        return ()
    return [(pod.metadata.namespace, group) for group in pod.groups]
