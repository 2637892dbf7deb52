"""The caches that all controllers read, and the informers that fill them."""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import structlog

from api import features, names
from api.constants import (
    ANNOTATION_GROUP_TEMPLATE,
    ANNOTATION_MANAGED_GROUP,
    JOB_LABEL_UID,
    LABEL_MANAGED_BY,
    MANAGED_BY,
)
from api.features import Feature, FeatureGates
from api.groups import Form, GroupReference, WorkloadForm
from api.integration.common.native import GroupsApi
from api.integration.kinds import OWNER_KINDS, SINGLE_GROUP_KINDS
from api.membership import Owners, belongs, claims_of, owners_of, plain_name, pods_name, usual_name
from api.ownership import OwnerId, created_for
from api.reading import mapping
from api.scheduler_names import USUAL, SchedulerNames
from controllers.cache.capacity_requests import REQUESTS, CapacityRequest, decode_request
from controllers.cache.decoding import (
    decode_coscheduling,
    decode_group,
    decode_job,
    decode_jobset,
    decode_lws,
    decode_named,
    decode_native_group,
    decode_pod,
    decode_single_group,
    decode_workload,
)
from controllers.cache.member_counts import MemberCounts
from controllers.cache.objects import (
    CLAIM_TEMPLATES,
    CLAIMS,
    COMPOSITES,
    COSCHEDULINGS,
    JOBS,
    JOBSETS,
    LEADER_WORKER_SETS,
    NATIVE_POD_GROUPS,
    PLUGINS_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    Group,
    NamedObject,
    Owner,
    Pod,
    Workload,
    group_named,
    member_name,
)
from controllers.cache.pod_annotations import PodAsks
from kube.base.clock import Clock
from kube.base.errors import ApiError, ConfigError, Forbidden, NotFound, Unreachable
from kube.client.client import Client
from kube.client.discovery import PROBE_SECONDS, Discovery
from kube.client.meta import HasMeta, ObjectMeta, Partial, decode_partial
from kube.client.resources import NAMESPACES, OWN_RIGHTS, PODS, Resource
from kube.concurrency.backoff import Backoff
from kube.informers.cache import Cache
from kube.informers.quarantine import Quarantine
from kube.informers.reflector import Delivery, Reflector

_PROBE_SECONDS = 15.0
"""Seconds between two checks whether an optional kind is served and allowed, at most."""

_PATIENCE = 10.0
"""Seconds for the first list of an optional kind. After that, work begins without the kind."""

COSCHEDULING_KINDS = (COSCHEDULINGS, PLUGINS_POD_GROUPS)
# Filtered on the API server, as there can be many objects of other controllers.
_OURS = f"{LABEL_MANAGED_BY}={MANAGED_BY}"
_SELECTORS = {REQUESTS: _OURS, CLAIMS: _OURS, NATIVE_POD_GROUPS: _OURS}
"""Label selectors of kinds of which Muster reads only its own objects."""

# Every API server serves these groups, so start-up waits for their lists.
_BUILT_IN = ("apps", "batch")
OWNERS = (*(it.kind for it in OWNER_KINDS.values()), *COSCHEDULING_KINDS)
"""The kinds for which Muster creates groups."""
# A missing kind must not stop the controllers: its CRD may not be installed, or the conversion
# webhook of another project may be down.
OPTIONAL = (
    *(it for it in OWNERS if it.group not in _BUILT_IN),
    *(REQUESTS, CLAIMS, CLAIM_TEMPLATES, NATIVE_POD_GROUPS),
)
"""Kinds that a cluster may not serve, or whose lists may fail. Only their own objects wait then."""

CREATORS = {
    it.kind.kind: {creator.kind: creator for creator in it.created_by}
    for it in OWNER_KINDS.values()
    if it.created_by
}
"""The kinds that create owners for users, by the kind of the owner. Any version counts."""

_log = structlog.get_logger()

Decode = Callable[[bytes], HasMeta]


class CreatorKey(NamedTuple):
    """The object that created an owner, as the owner's reference names it."""

    resource: Resource
    namespace: str
    name: str
    uid: str


BY_OWNER = "owner"
"""Index of Workloads and groups by namespace and the owner they were created for.

`Owner.as_index` is the key. Anyone may write that annotation on objects of their own, so it counts
in its own namespace only.
"""
BY_OWNER_NAME = "owner's name"
"""Index like `BY_OWNER` by namespace, API group, kind and name, without the UID."""
BY_CONTROLLER_REF = "controllerRef"
"""Index of Workloads by namespace, API group, kind and name in their controllerRef."""
BY_DELEGATION = "delegation"
"""Index of Jobs that name a template, by namespace, API group, kind and name of their owner."""
BY_PARENT = "parent"
"""Index of groups by namespace and parent CompositePodGroup."""
BY_TEMPLATE = "template"
"""Index of PodGroups without a policy by namespace and the Workload with their template."""
BY_USUAL_NAME = "stands for"
"""Index of PodGroups that stand for another name, by namespace and that name."""
BY_CLAIM_TEMPLATE = "claim template"
"""Index of PodGroups by namespace and each ResourceClaimTemplate of their claims."""
BY_GROUP = "group"
"""Index of active pods by namespace and each group they name, and of Jobs by their pods' group."""
BY_WORKLOAD = "workload"
"""Index of active pods that name a Workload and a template, by namespace and Workload."""
BY_CREATOR = "creator"
"""Index of owners by the object that created them (`creator_of`)."""
BY_COSCHEDULING = "coscheduling"
"""Index of active pods by namespace and the name of their KEP-3370 group."""


class Caches:
    """The informer caches of all controllers, with indexes; complete once `synced` is set."""

    def __init__(self, scheduler_names: SchedulerNames = USUAL) -> None:
        self.scheduler_names = scheduler_names
        self.synced = asyncio.Event()
        self.native = False
        """True if the API server serves Kubernetes' own PodGroups, which pods name by a field."""
        self.jobs: Cache[Owner] = Cache()
        self.jobsets: Cache[Owner] = Cache()
        self.workloads: Cache[Workload] = Cache()
        self.pod_groups: Cache[Group] = Cache()
        self.composites: Cache[Group] = Cache()
        self.native_groups: Cache[Group] = Cache()
        self.pods: Cache[Pod] = Cache()
        self.member_counts = MemberCounts(self.pods)
        self.asks = PodAsks(self.pods)
        self.namespaces: Cache[Partial] = Cache()
        self.requests: Cache[CapacityRequest] = Cache()
        self.claims: Cache[Partial] = Cache()
        self.claim_templates: Cache[NamedObject] = Cache()
        self.served: set[Resource] = set()
        """Optional kinds whose caches are complete."""
        self.unlisted: dict[Resource, Exception] = {}
        """Optional kinds that the API server serves but does not list, and the error."""
        self._on_served: list[Callable[[Resource], None]] = []
        self.sources: Mapping[Resource, tuple[Cache[Any], Decode]] = {
            JOBS: (self.jobs, decode_job),
            JOBSETS: (self.jobsets, decode_jobset),
            **{
                it.kind: (Cache(), partial(decode_single_group, it))
                for it in SINGLE_GROUP_KINDS.values()
            },
            LEADER_WORKER_SETS: (Cache(), decode_lws),
            **{it: (Cache(), partial(decode_coscheduling, it)) for it in COSCHEDULING_KINDS},
            WORKLOADS: (self.workloads, decode_workload),
            POD_GROUPS: (self.pod_groups, decode_group),
            COMPOSITES: (self.composites, decode_group),
            NATIVE_POD_GROUPS: (self.native_groups, decode_native_group),
            PODS: (self.pods, self._decode_pod),
            NAMESPACES: (self.namespaces, decode_partial),
            REQUESTS: (self.requests, decode_request),
            CLAIMS: (self.claims, decode_partial),
            CLAIM_TEMPLATES: (self.claim_templates, decode_named),
        }
        self._owners: Mapping[Resource, Cache[Owner]] = {it: self.sources[it][0] for it in OWNERS}
        self._kinds: Mapping[tuple[str, ...], Resource] = {
            (it.group, it.kind): it for it in (*self._owners, WORKLOADS, POD_GROUPS, COMPOSITES)
        }
        self.jobs.add_index(BY_GROUP, _group_of_job)
        self.jobs.add_index(BY_DELEGATION, _delegated_by)
        for resource, cache in self._owners.items():
            if resource.kind in CREATORS:
                cache.add_index(BY_CREATOR, _creator)
        self.generated_groups: Mapping[Resource, Cache[Group]] = {
            it: self.sources[it][0] for it in (POD_GROUPS, COMPOSITES, NATIVE_POD_GROUPS)
        }
        """The caches of all kinds of groups that Muster creates."""
        of_groups: list[Cache[Any]] = list(self.generated_groups.values())
        for generated in (self.workloads, *of_groups, self.claims):
            generated.add_index(BY_OWNER, _owner_key)
            generated.add_index(BY_OWNER_NAME, _owner_name_key)
        self.workloads.add_index(BY_CONTROLLER_REF, _controller_ref)
        self.pod_groups.add_index(BY_USUAL_NAME, _usual_name_key)
        self.pod_groups.add_index(BY_TEMPLATE, _awaited_workload)
        self.pod_groups.add_index(BY_CLAIM_TEMPLATE, _claim_templates)
        for groups in (self.pod_groups, self.composites):
            groups.add_index(BY_PARENT, _parent)
        self.pods.add_index(BY_GROUP, _groups)
        self.pods.add_index(BY_WORKLOAD, _implicit)
        self.pods.add_index(BY_COSCHEDULING, _coscheduling)

    def _decode_pod(self, data: bytes) -> Pod:
        return decode_pod(data, self.scheduler_names, native=self.native)

    @property
    def forbidden(self) -> set[Resource]:
        """Optional kinds that the account may not read, as with the roles of an earlier version."""
        return {it for it, why in self.unlisted.items() if isinstance(why, Forbidden)}

    def details(self) -> Iterator[str]:
        """Yield a line for each kind that cannot be listed."""
        for resource, problem in sorted(self.unlisted.items(), key=lambda it: it[0].full_name):
            name = resource.full_name
            if resource in self.forbidden:
                yield f"{name} is forbidden to the account: apply the roles of this version"
            else:
                yield f"{name} cannot be listed, and work that needs them waits: {problem}"

    def is_complete(self, resource: Resource) -> bool:
        """Return True if the cache has all objects of the kind: any other does not exist."""
        return resource not in OPTIONAL or resource in self.served

    @contextmanager
    def term(self) -> Iterator[None]:
        """Notify listeners subscribed inside the block until its end: the term of a leader.

        A process that is not the leader then keeps nothing but the caches.
        """
        lists: list[list[Any]] = [cache.listeners for cache, _ in self.sources.values()]
        lists += [self.asks.listeners, self._on_served]
        before = [list(listeners) for listeners in lists]
        try:
            yield
        finally:
            # Assign to the slice: the caches keep a reference to these very lists.
            for listeners, kept in zip(lists, before, strict=True):
                listeners[:] = kept

    def when_served(self, listener: Callable[[Resource], None]) -> None:
        """Call `listener` with each optional kind once its cache is complete."""
        self._on_served.append(listener)

    def serve(self, resource: Resource) -> None:
        """Record that the cache of an optional kind is complete."""
        self.served.add(resource)
        self.unlisted.pop(resource, None)
        for listener in self._on_served:
            listener(resource)

    def owners(self, resource: Resource) -> Cache[Owner]:
        """Return the cache of a kind for which Muster creates groups."""
        return self._owners[resource]

    def workloads_for(self, namespace: str, group: str, kind: str, name: str) -> list[Workload]:
        """Return the Workloads with a controllerRef to the object that are not being deleted."""
        found = self.workloads.by_index(BY_CONTROLLER_REF, (namespace, group, kind, name))
        return [it for it in found if it.metadata.deletion_timestamp is None]

    def implicit_pods(self, namespace: str, form: WorkloadForm) -> list[Pod]:
        """Return the active pods that name exactly this Workload, template and key."""
        found = self.pods.by_index(BY_GROUP, (namespace, names.implicit_pod_group(*form)))
        # A pod may also name the group by its label.
        return [pod for pod in found if pod.implicit == form]

    def pod_group(self, namespace: str, name: str) -> Group | None:
        """Return the PodGroup that pods name so, also if an earlier version named it."""
        found = self.pod_groups.by_index(BY_USUAL_NAME, (namespace, name))
        earlier = next((group for group in found if group.has_earlier_name), None)
        return earlier or self.pod_groups.get(namespace, name)

    def leaves(self, owner: Hashable) -> Iterator[Group]:
        """Yield the PodGroups of both APIs of an owner (`Owner.as_index`)."""
        for cache in (self.pod_groups, self.native_groups):
            yield from cache.by_index(BY_OWNER, owner)

    def groups(self, kind: str) -> Cache[Group]:
        """Return the cache of Muster's PodGroups or CompositePodGroups."""
        return {POD_GROUPS.kind: self.pod_groups, COMPOSITES.kind: self.composites}[kind]

    def group_caches(self) -> list[tuple[str, Cache[Group]]]:
        """Return both caches of Muster's groups with their kinds."""
        return [(POD_GROUPS.kind, self.pod_groups), (COMPOSITES.kind, self.composites)]

    def is_in_use(self, kind: str, group: Group) -> bool:
        """Return True if an active pod or any child group names the group and belongs to it."""
        if kind == COMPOSITES.kind:
            return bool(self.children(*group.metadata.key))
        return any(self.members(group))

    def is_below_minimum(self, group: Group) -> bool:
        """Return True if a gang has fewer pods than its minCount."""
        minimum = group.min_count
        return minimum is not None and self.member_counts.total(group.member_key) < minimum

    def members(self, group: Group) -> Iterator[Pod]:
        """Yield the active pods that name the PodGroup and belong to it."""
        meta, template = group.metadata, group.template[1] if group.template else ""
        # A group that is about to be deleted keeps only pods that name its owner by UID. Others may
        # belong to the next owner of that name.
        leaving = meta.deletion_timestamp is not None or self.is_replaced(meta)
        owners = owners_of(meta, meta.name, template, leaving=leaving)
        # A pod may also name the group by a label, with the name that an earlier version gave it.
        given = {group.pods_name, *([meta.name] if group.has_earlier_name else [])}
        given |= {plain_name(meta)} - {""}
        for named in sorted(member_name(name, native=group.native) for name in given):
            for pod in self.pods.each(BY_GROUP, (meta.namespace, named)):
                # The group stands for another name. A pod without claims means the group that
                # really has this name.
                only_claimed = usual_name(meta) or named == plain_name(meta)
                if only_claimed and not (pod.claims and pod.groups[0] == named):
                    continue
                # Ownership is stated for the first group of a pod only. For its other groups the
                # name decides.
                if pod.groups[0] != named or belongs(pod.claims, owners):
                    yield pod

    def groups_of(self, pod: Pod) -> Iterator[Group]:
        """Yield the PodGroups that a pod names, and those that stand for one of them."""
        namespace = pod.metadata.namespace
        for member in pod.groups:
            name, native = group_named(member)
            group = (self.native_groups if native else self.pod_groups).get(namespace, name)
            if group is not None:
                yield group
            if native:
                continue
            yield from self.pod_groups.by_index(BY_USUAL_NAME, (namespace, name))

    def has_job(self, group: Group) -> bool:
        """Return True if an unfinished Job has its pods in the PodGroup.

        None of them need exist yet.
        """
        owners = owners_of(group.metadata, group.metadata.name, "", leaving=True)
        named = member_name(pods_name(group.metadata), native=group.native)
        jobs = self.jobs.each(BY_GROUP, (group.metadata.namespace, named))
        return any(belongs(_claims_of_job(job), owners) for job in jobs)

    def exists(self, owner_id: OwnerId, namespace: str) -> bool:
        """Return True unless the caches prove that the owner does not exist."""
        resource = self._kinds.get(owner_id[:2])
        # If a kind is not watched or not listed yet, its owners count as existing. Otherwise the
        # groups of a living owner would be deleted.
        if resource is None or not self.is_complete(resource):
            return True
        found = self._namesake(owner_id, namespace)
        return found is not None and found.uid == owner_id.uid

    def is_recreated(self, owner_id: OwnerId, namespace: str) -> bool:
        """Return True if the owner exists, so that its groups return while pods need them."""
        # For groups created from pods, the annotated pods themselves are the owner.
        if owner_id.kind == PODS.kind:
            return self.asks.get((namespace, owner_id.name)) is not None
        found = self._namesake(owner_id, namespace)
        return found is not None and found.deletion_timestamp is None and found.uid == owner_id.uid

    def is_replaced(self, meta: ObjectMeta) -> bool:
        """Return True if a later owner of the same name needs an object of its own instead."""
        owner_id = created_for(meta)
        found = self._namesake(owner_id, meta.namespace) if owner_id is not None else None
        return found is not None and owner_id is not None and found.uid != owner_id.uid

    def _namesake(self, owner_id: OwnerId, namespace: str) -> ObjectMeta | None:
        """Return the metadata of the object with the owner's kind and name, whatever its UID."""
        resource = self._kinds.get(owner_id[:2])
        if resource is None:
            return None
        found = self.sources[resource][0].get(namespace, owner_id.name)
        return None if found is None else found.metadata

    def children(self, namespace: str, composite: str) -> list[Group]:
        """Return the groups of either kind whose parent is the CompositePodGroup."""
        key = (namespace, composite)
        return [
            *self.composites.by_index(BY_PARENT, key),
            *self.pod_groups.by_index(BY_PARENT, key),
        ]

    def is_terminating(self, namespace: str) -> bool:
        """Return True if the namespace is being deleted."""
        found = self.namespaces.get("", namespace)
        return found is not None and found.metadata.deletion_timestamp is not None


class ControllerInformers:
    """The reflectors that fill `Caches`.

    They watch `OPTIONAL` kinds from the time that the API server serves them.
    """

    def __init__(
        self,
        client: Client,
        caches: Caches,
        clock: Clock,
        quarantine: Quarantine | None = None,
        gates: FeatureGates = features.USUAL,
        *,
        groups_api: GroupsApi = GroupsApi.MUSTER,
    ) -> None:
        """Create the reflectors; `run` starts them. `quarantine` lists undecodable objects.

        Native groups are watched with any `groups_api`, as long as the account may: owners keep
        the groups that they have.
        """
        delivery = Delivery(Quarantine() if quarantine is None else quarantine)
        self._client = client
        self._clock = clock
        self._caches = caches
        reflectors = {
            resource: Reflector(
                client,
                resource,
                cache,
                decode=decode,
                clock=clock,
                delivery=delivery,
                label_selector=_SELECTORS.get(resource),
            )
            for resource, (cache, decode) in caches.sources.items()
        }
        self._pods = reflectors[PODS]
        self._discovery: Discovery | None = None
        if Feature.NATIVE_GROUPS in gates:
            wanted = {NATIVE_POD_GROUPS.full_name: NATIVE_POD_GROUPS}
            self._discovery = Discovery(client, wanted, clock)
        else:
            del reflectors[NATIVE_POD_GROUPS]
        # Without the setting the account needs no rights on them.
        self._needless = {NATIVE_POD_GROUPS} if groups_api is GroupsApi.MUSTER else set()
        optional = [it for it in OPTIONAL if it in reflectors]
        self._optional = {reflectors.pop(it): asyncio.Event() for it in optional}
        """Each reflector with an event: its cache is complete, or cannot be for now."""
        self._reflectors = list(reflectors.values())

    async def run(self) -> None:
        """Fill the caches until cancelled.

        `caches.synced` is set once they are complete. It does not wait for optional kinds that are
        not served or whose lists fail.
        """
        async with asyncio.TaskGroup() as group:
            if self._discovery is not None:
                # Before the first pod is read: the group that it names depends on it.
                self._caches.native = bool(await self._discovery.probe())
                group.create_task(self._follow_native(self._discovery))
            for reflector in self._reflectors:
                group.create_task(reflector.run())
            for reflector, settled in self._optional.items():
                group.create_task(self._follow(reflector, settled))
            group.create_task(self._wait())

    async def _follow_native(self, discovery: Discovery) -> None:
        """Read the pods again when the API server begins or ceases to serve native groups."""
        while True:
            await self._clock.sleep(PROBE_SECONDS)
            native = bool(await discovery.probe())
            if native != self._caches.native:
                self._caches.native = native
                self._caches.pods.expect_again()
                await self._pods.relist()

    async def _wait(self) -> None:
        for reflector in self._reflectors:
            await reflector.synced.wait()
        async with asyncio.TaskGroup() as group:
            # A list that hangs would otherwise delay all controllers after a restart.
            patience = group.create_task(self._settle_late())
            for settled in self._optional.values():
                await settled.wait()
            patience.cancel()
        self._caches.synced.set()

    async def _settle_late(self) -> None:
        await self._clock.sleep(_PATIENCE)
        for reflector, settled in self._optional.items():
            if not settled.is_set():
                self._note(reflector.resource, TimeoutError("its first list is not complete"))
                settled.set()

    async def _follow(self, reflector: Reflector[Any], settled: asyncio.Event) -> None:
        """Watch an optional kind once it can be listed."""
        waits = Backoff(1.0, _PROBE_SECONDS)
        while not await self._is_listed(reflector.resource):
            # Set the event after the first failed probe already: start-up does not wait for this
            # kind.
            settled.set()
            problem = self._caches.unlisted.get(reflector.resource)
            await self._clock.sleep(waits.next(problem))
        async with asyncio.TaskGroup() as group:
            group.create_task(reflector.run())
            await reflector.synced.wait()
            self._caches.serve(reflector.resource)
            settled.set()

    async def _is_listed(self, resource: Resource) -> bool:
        """Return True if the API server lists the kind; otherwise record the error."""
        if resource in self._needless and not await self._may_list(resource):
            return False
        try:
            # A list of one object proves both that the kind is served and that the account may read
            # it.
            await self._client.request("GET", resource.path(), params={"limit": "1"})
        except NotFound:
            self._caches.unlisted.pop(resource, None)
            return False
        except (ApiError, ConfigError, Unreachable) as error:
            self._note(resource, error)
            return False
        self._caches.unlisted.pop(resource, None)
        return True

    async def _may_list(self, resource: Resource) -> bool:
        """Return True if native groups are served, and the account may list them."""
        # A request that is rejected would alarm an administrator who did not ask for them.
        if not self._caches.native:
            return False
        asked = {"verb": "list", "group": resource.group, "resource": resource.plural}
        try:
            found = await self._client.create(OWN_RIGHTS, {"spec": {"resourceAttributes": asked}})
        except (ApiError, ConfigError, Unreachable):
            return False
        return mapping(found.get("status")).get("allowed") is True

    def _note(self, resource: Resource, problem: Exception) -> None:
        before = self._caches.unlisted.get(resource)
        self._caches.unlisted[resource] = problem
        # A kind is probed again and again. One error of each type is enough in the log.
        if type(before) is not type(problem):
            _log.error(
                "failed to list a kind, and work that needs it waits",
                resource=resource.full_name,
                error=str(problem),
            )


def creator_of(owner: Owner) -> CreatorKey | None:
    """Return the object that created the owner for its user, and shows what the owner waits for.

    Returns None if there is none, or for a reference that no request can name.
    """
    parent = owner.metadata.controller
    kind = None if parent is None else CREATORS.get(owner.kind, {}).get(parent.kind)
    if parent is None or kind is None:
        return None
    group, _, version = parent.api_version.rpartition("/")
    # Users can write any owner reference. Its parts end up in the path of a request.
    nameable = names.is_dns_label(version) and names.is_dns_subdomain(parent.name)
    if group != kind.group or not nameable:
        return None
    resource = Resource(group, version, kind.plural, kind.kind)
    return CreatorKey(resource, owner.metadata.namespace, parent.name, parent.uid)


def _creator(owner: Owner) -> Iterable[Hashable]:
    found = creator_of(owner)
    return () if found is None else (found,)


def _owner_key(obj: Workload | Group | Partial) -> Iterable[Hashable]:
    owner_id = created_for(obj.metadata)
    return () if owner_id is None else ((obj.metadata.namespace, owner_id),)


def _owner_name_key(obj: Workload | Group | Partial) -> Iterable[Hashable]:
    owner_id = created_for(obj.metadata)
    return () if owner_id is None else ((obj.metadata.namespace, *owner_id[:3]),)


def _controller_ref(workload: Workload) -> Iterable[Hashable]:
    if workload.controller_ref is None:
        return ()
    return ((workload.metadata.namespace, *workload.controller_ref),)


def _delegated_by(job: Owner) -> Iterable[Hashable]:
    parent = job.metadata.controller
    if parent is None or ANNOTATION_GROUP_TEMPLATE not in job.metadata.annotations:
        return ()
    group = parent.api_version.rpartition("/")[0]
    return ((job.metadata.namespace, group, parent.kind, parent.name),)


def _usual_name_key(group: Group) -> Iterable[Hashable]:
    meta = group.metadata
    others = {group.pods_name, plain_name(meta)} - {"", meta.name}
    return [(meta.namespace, name) for name in sorted(others)]


def _awaited_workload(group: Group) -> Iterable[Hashable]:
    if group.policy or group.template is None:
        return ()
    return ((group.metadata.namespace, group.template[0]),)


def _claim_templates(group: Group) -> Iterable[Hashable]:
    named = {it.resource_claim_template_name for it in group.claims}
    return [(group.metadata.namespace, template) for template in named if template]


def _parent(group: Group) -> Iterable[Hashable]:
    return ((group.metadata.namespace, group.parent),) if group.parent else ()


def _group_of_job(job: Owner) -> Iterable[Hashable]:
    group = job.metadata.annotations.get(ANNOTATION_MANAGED_GROUP)
    if not group or job.finished or job.metadata.deletion_timestamp is not None:
        return ()
    return ((job.metadata.namespace, member_name(group, native=job.native)),)


def _claims_of_job(job: Owner) -> Owners:
    """Return the owners that the pods of a Job claim."""
    meta = job.metadata
    reference = GroupReference(meta.annotations[ANNOTATION_MANAGED_GROUP], Form.LABEL)
    labels = {**meta.labels, JOB_LABEL_UID: meta.uid}
    return claims_of(reference, labels, meta.annotations, certain=True)


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
