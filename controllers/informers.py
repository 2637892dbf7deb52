"""The caches that all controllers read, and the informers that fill them."""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

from api import names
from api.groups import WorkloadForm
from api.ownership import OwnerId, is_meant_for_another, made_for
from controllers.objects import (
    COMPOSITES,
    COSCHEDULINGS,
    JOBS,
    JOBSETS,
    PLUGINS_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    Group,
    Owner,
    Pod,
    Workload,
    decode_coscheduling,
    decode_group,
    decode_job,
    decode_jobset,
    decode_plugins_pod_group,
    decode_pod,
    decode_workload,
)
from kube.cache import Cache
from kube.client import Client
from kube.clock import Clock
from kube.errors import ApiError, ConfigError, NotFound, Unreachable
from kube.meta import HasMeta, ObjectMeta, Partial, decode_partial
from kube.reflector import Reflector
from kube.resources import NAMESPACES, PODS, Resource

_PROBE_SECONDS = 15.0
COSCHEDULING_KINDS = (COSCHEDULINGS, PLUGINS_POD_GROUPS)

Decode = Callable[[bytes], HasMeta]

BY_OWNER = "owner"
"""Workloads and groups by the UID of what they were made for."""
BY_CONTROLLER_REF = "controllerRef"
"""Workloads by (namespace, API group, kind, name) of what their controllerRef names."""
BY_PARENT = "parent"
"""Groups by (namespace, parent composite)."""
BY_TEMPLATE = "template"
"""PodGroups without a policy by (namespace, Workload) whose template they wait for."""
BY_GROUP = "group"
"""Active pods by (namespace, group), for every group they name."""
BY_WORKLOAD = "workload"
"""Active pods by (namespace, Workload), where they name their group by Workload and template."""
BY_COSCHEDULING = "coscheduling"
"""Active pods by (namespace, name) of the KEP-3370 group they name."""


class Caches:
    """The informer caches of all controllers, with their indexes. Complete once `synced` is set."""

    def __init__(self) -> None:
        """Empty caches; `Informers` fills them."""
        self.synced = asyncio.Event()
        self.jobs: Cache[Owner] = Cache()
        self.jobsets: Cache[Owner] = Cache()
        self.coschedulings: Cache[Owner] = Cache()
        self.plugins_pod_groups: Cache[Owner] = Cache()
        self.workloads: Cache[Workload] = Cache()
        self.pod_groups: Cache[Group] = Cache()
        self.composites: Cache[Group] = Cache()
        self.pods: Cache[Pod] = Cache()
        self.namespaces: Cache[Partial] = Cache()
        self.sources: Mapping[Resource, tuple[Cache[Any], Decode]] = {
            JOBS: (self.jobs, decode_job),
            JOBSETS: (self.jobsets, decode_jobset),
            COSCHEDULINGS: (self.coschedulings, decode_coscheduling),
            PLUGINS_POD_GROUPS: (self.plugins_pod_groups, decode_plugins_pod_group),
            WORKLOADS: (self.workloads, decode_workload),
            POD_GROUPS: (self.pod_groups, decode_group),
            COMPOSITES: (self.composites, decode_group),
            PODS: (self.pods, decode_pod),
            NAMESPACES: (self.namespaces, decode_partial),
        }
        self._owners = {
            JOBS: self.jobs,
            JOBSETS: self.jobsets,
            COSCHEDULINGS: self.coschedulings,
            PLUGINS_POD_GROUPS: self.plugins_pod_groups,
        }
        self.workloads.add_index(BY_OWNER, lambda obj: _owner_uid(obj.metadata))
        self.workloads.add_index(BY_CONTROLLER_REF, _controller_ref)
        self.pod_groups.add_index(BY_TEMPLATE, _awaited_workload)
        for groups in (self.pod_groups, self.composites):
            groups.add_index(BY_OWNER, lambda obj: _owner_uid(obj.metadata))
            groups.add_index(BY_PARENT, _parent)
        self.pods.add_index(BY_GROUP, _groups)
        self.pods.add_index(BY_WORKLOAD, _implicit)
        self.pods.add_index(BY_COSCHEDULING, _coscheduling)

    def owners(self, resource: Resource) -> Cache[Owner]:
        """The cache of Jobs, of JobSets, or of one of the coscheduling kinds."""
        return self._owners[resource]

    def workloads_for(self, namespace: str, group: str, kind: str, name: str) -> list[Workload]:
        """The Workloads whose controllerRef names the object and that are not being deleted."""
        found = self.workloads.by_index(BY_CONTROLLER_REF, (namespace, group, kind, name))
        return [it for it in found if it.metadata.deletion_timestamp is None]

    def implicit_pods(self, namespace: str, form: WorkloadForm) -> list[Pod]:
        """The active pods that name their group by exactly this Workload, template and key."""
        found = self.pods.by_index(BY_GROUP, (namespace, names.implicit_pod_group(*form)))
        return [pod for pod in found if pod.implicit == form]

    def groups(self, kind: str) -> Cache[Group]:
        """The cache of PodGroups or of CompositePodGroups."""
        return {POD_GROUPS.kind: self.pod_groups, COMPOSITES.kind: self.composites}[kind]

    def group_caches(self) -> list[tuple[str, Cache[Group]]]:
        """Both caches of groups, with their kinds."""
        return [(POD_GROUPS.kind, self.pod_groups), (COMPOSITES.kind, self.composites)]

    def is_in_use(self, kind: str, group: Group) -> bool:
        """Whether an active pod, or any child group, names the group and belongs to it."""
        if kind == COMPOSITES.kind:
            return bool(self.children(*group.metadata.key))
        return any(self.members(group))

    def members(self, group: Group) -> Iterator[Pod]:
        """The active pods that name the PodGroup and belong to it."""
        owner_id = made_for(group.metadata)
        for pod in self.pods.each(BY_GROUP, group.metadata.key):
            if not self._is_meant_for_another(pod, group.metadata.name, owner_id):
                yield pod

    def is_alive(self, owner_id: OwnerId, namespace: str) -> bool:
        """Whether it is a Job, a JobSet or a coscheduling group, and not being deleted."""
        namesakes = (cache.get(namespace, owner_id.name) for cache in self._owners.values())
        return any(
            it is not None and it.owner_id == owner_id and it.metadata.deletion_timestamp is None
            for it in namesakes
        )

    def _is_meant_for_another(self, pod: Pod, group: str, owner_id: OwnerId | None) -> bool:
        """A pod whose Job is not in the cache counts as a member of the group it names."""
        job = self.jobs.get(pod.metadata.namespace, pod.job.name) if pod.job else None
        if job is None or pod.job is None or job.metadata.uid != pod.job.uid:
            return False
        return is_meant_for_another(group, owner_id, job.metadata)

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


class Informers:
    """The reflectors that fill `Caches`.

    JobSets and the coscheduling kinds are watched from the time their CRDs are installed.
    """

    def __init__(self, client: Client, caches: Caches, clock: Clock) -> None:
        """Nothing is read before `run`."""
        self._client = client
        self._clock = clock
        self._caches = caches
        reflectors = {
            resource: Reflector(client, resource, cache, decode=decode, clock=clock)
            for resource, (cache, decode) in caches.sources.items()
        }
        self._later = {it: reflectors.pop(it) for it in (JOBSETS, *COSCHEDULING_KINDS)}
        self._reflectors = list(reflectors.values())

    async def run(self) -> None:
        """Fill the caches until cancelled; `caches.synced` is set once all of them are complete."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())
            group.create_task(self._start_when_served(group))

    async def _start_when_served(self, group: asyncio.TaskGroup) -> None:
        started = await self._newly_served(group)
        for reflector in (*started, *self._reflectors):
            await reflector.synced.wait()
        self._caches.synced.set()
        while self._later:
            await self._clock.sleep(_PROBE_SECONDS)
            await self._newly_served(group)

    async def _newly_served(self, group: asyncio.TaskGroup) -> list[Reflector[Any]]:
        """The reflectors of kinds that were not served before, started."""
        started = []
        for resource in list(self._later):
            if await self._is_served(resource):
                reflector = self._later.pop(resource)
                group.create_task(reflector.run())
                started.append(reflector)
        return started

    async def _is_served(self, resource: Resource) -> bool:
        """Whether the API server knows the kind; waits while it does not answer."""
        while True:
            try:
                await self._client.request("GET", resource.path(), params={"limit": "1"})
            except NotFound:
                return False
            except (ApiError, ConfigError, Unreachable):
                await self._clock.sleep(1.0)
            else:
                return True


def _owner_uid(meta: ObjectMeta) -> Iterable[Hashable]:
    owner_id = made_for(meta)
    return () if owner_id is None else (owner_id.uid,)


def _controller_ref(workload: Workload) -> Iterable[Hashable]:
    if workload.controller_ref is None:
        return ()
    return ((workload.metadata.namespace, *workload.controller_ref),)


def _awaited_workload(group: Group) -> Iterable[Hashable]:
    if group.policy or group.template is None:
        return ()
    return ((group.metadata.namespace, group.template[0]),)


def _parent(group: Group) -> Iterable[Hashable]:
    return ((group.metadata.namespace, group.parent),) if group.parent else ()


def _groups(pod: Pod) -> Iterable[Hashable]:
    if not pod.active:
        return ()
    return [(pod.metadata.namespace, group) for group in pod.groups]


def _implicit(pod: Pod) -> Iterable[Hashable]:
    if pod.implicit is None or not pod.active:
        return ()
    return ((pod.metadata.namespace, pod.implicit.name),)


def _coscheduling(pod: Pod) -> Iterable[Hashable]:
    if pod.coscheduling is None or not pod.active:
        return ()
    return ((pod.metadata.namespace, pod.coscheduling[0]),)
