"""ProvisioningRequests for roots that wait for capacity and have the annotation for it.

If the API server serves Cluster Autoscaler's ProvisioningRequest, a root with the annotation
`provisioning-request` gets one for all of its pods while they wait for capacity. The request has
the root's name.

The spec of a request is immutable. When the gang changes, the controller deletes and recreates the
request. It first waits until the gang is stable, and limits how often this happens. A request that
ended without capacity is replaced after a growing pause. It is deleted once its root is placed, and
by its owner reference together with the root.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Final

from api.constants import (
    ANNOTATION_CAPACITY_REQUESTED,
    ANNOTATION_CONSUMES_REQUEST,
    ANNOTATION_PREEMPTION_DELAY,
    CAPACITY_FAILED,
    EVENT_CAPACITY_FAILED,
    EVENT_CAPACITY_NOT_REQUESTED,
    EVENT_CAPACITY_REQUESTED,
    EVENT_NAME_TAKEN,
    GROUP,
)
from api.membership import pods_name, taken_name_advice, usual_name
from api.ownership import Ownership, created_for, ownership
from api.provisioning import (
    MOST_POD_SETS,
    Root,
    class_name,
    pod_sets,
)
from api.wording import count
from controllers.cache.capacity_requests import (
    MOST_REQUESTS,
    REQUESTS,
    CapacityRequest,
    NamespaceLimits,
    RootKey,
)
from controllers.cache.informers import Caches
from controllers.cache.known_objects import known_objects
from controllers.cache.objects import COMPOSITES, POD_GROUPS, Group, Pod
from controllers.provisioning.waiting_roots import WaitingPods, WaitingRoots, asked_by, root_of
from controllers.provisioning.writer import CapacityWriter
from controllers.runtime.controller import (
    BlockedError,
    Controller,
    NotServedError,
    RequeueError,
    Writer,
    queue_all,
)
from kube.base.clock import Clock, rfc3339
from kube.base.errors import Forbidden, Invalid, NotFound
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import Resource
from kube.events.events import EventType, Recorder

SETTLE_SECONDS: Final = 2.0
"""Seconds that a gang must be unchanged before its request is created: pods come one by one."""

REPLACE_SECONDS: Final = 30.0
"""The minimum age in seconds of a request that is replaced because its gang changed."""

IDLE_SECONDS: Final = 15.0
"""Seconds for which a request is kept while its root waits for something else, such as a pod."""

RETRY_SECONDS: Final = (60.0, 1800.0)
"""Seconds of the pause after the first request that ended without capacity, and of the longest."""

_BLOCKED_SECONDS: Final = 60.0
"""Seconds until the next attempt if the name is taken, or the kind is not served."""

_REFUSED_SECONDS: Final = 300.0
"""Seconds until the next attempt if the API server rejected the request."""

_BURST_SECONDS: Final = 0.5
"""Seconds in which changes of a gang's pods are handled together."""

_CACHE_LAG_SECONDS: Final = 5.0
"""Seconds for which the cache may lack a created request."""

_NOTE: Final = pointer("metadata", "annotations", ANNOTATION_CAPACITY_REQUESTED)
_RESOURCES: Final = {it.kind: it for it in (POD_GROUPS, COMPOSITES)}


@dataclass(frozen=True, slots=True)
class DesiredRequest:
    """The request that a root should have: its class, and the pod count of each PodTemplate."""

    root: Root
    asked: str
    sets: Mapping[str, int]
    waiting: WaitingPods

    def describes(self, found: CapacityRequest) -> bool:
        """Return True if a request has this class and these counts."""
        return (found.class_name, found.pod_sets) == (class_name(self.asked), self.sets)

    @property
    def signature(self) -> tuple[object, ...]:
        """The values that must be unchanged for a moment before a request is created."""
        return self.root.uid, self.asked, tuple(sorted(self.sets.items()))


@dataclass(slots=True)
class _RootRecord:
    """The state of a root in this process; a new leader loses nothing but time.

    - `seen`, `since`: the wanted request, and since when it is unchanged.
    - `created`, `created_at`, `created_uid`: the request created last. `request`,
      `request_since`: the known one.
    - `ended_since`, `idle_since`: since when the request has ended, or was not needed.

    Times are of this process's clock, as the API server's may differ.
    """

    seen: tuple[object, ...] = ()
    since: float = 0.0
    created: tuple[object, ...] = ()
    created_at: float = 0.0
    created_uid: str = ""
    request: str = ""
    request_since: float = 0.0
    ended_since: float | None = None
    idle_since: float | None = None
    attempt: int = 1
    reported: dict[str, str] = field(default_factory=dict)


class ProvisioningController:
    """The controller of ProvisioningRequests; its keys are roots."""

    def __init__(self, caches: Caches, writer: Writer, recorder: Recorder, clock: Clock) -> None:
        self.controller: Controller[RootKey] = Controller(
            "provisioning", self.reconcile, clock, namespace=itemgetter(1)
        )
        self._caches = caches
        self._writer = writer
        self._requests = CapacityWriter(writer)
        self._recorder = recorder
        self._clock = clock
        self._roots = WaitingRoots(caches, clock)
        self._limits = NamespaceLimits(clock)
        self._notes: dict[RootKey, _RootRecord] = {}
        caches.requests.subscribe(self._on_request)
        caches.pods.subscribe(self._on_pod)
        for kind, cache in caches.group_caches():
            cache.subscribe(partial(self._on_group, kind))
        caches.when_served(self._on_served)

    async def resync(self) -> None:
        """Queue all roots that want a request, after those that have one."""
        # Existing requests first, so that they count for the limit before a new one is created.
        await queue_all(self._caches.requests.values(), lambda it: self._on_request(None, it))
        for kind, cache in self._caches.group_caches():
            await queue_all(cache.values(), partial(self._on_group, kind, None))

    async def reconcile(self, key: RootKey) -> None:
        """Create, replace or delete the request of one root. Raises RequeueError, kube errors."""
        if REQUESTS not in self._caches.served:
            return
        group = self._roots.group(key)
        try:
            await self._ensure(key, group)
        except BlockedError as fault:
            # No event reports that the name is free, as other owners' requests are not watched.
            if group is not None:
                self._report(key, group, "Warning", fault.reason, str(fault))
            raise RequeueError(str(fault), _BLOCKED_SECONDS) from fault
        except (Forbidden, Invalid) as error:
            if isinstance(error, Invalid) and error.patch_failed:
                # The cache is behind. The queue's back-off is shorter than that of a rejection.
                raise
            if group is not None:
                self._report(key, group, "Warning", EVENT_CAPACITY_NOT_REQUESTED, error.message)
            raise RequeueError(error.message, _REFUSED_SECONDS) from error
        except (NotFound, NotServedError) as error:
            # A 404 with a name is about a missing object, one without is about the kind.
            if isinstance(error, NotFound) and error.name:
                raise
            raise RequeueError(
                "the API server does not serve the kind now", _BLOCKED_SECONDS
            ) from error

    async def _ensure(self, key: RootKey, group: Group | None) -> None:
        found = self._found(key)
        wanted = await self._wanted(key, group) if group is not None else None
        if group is None or wanted is None:
            await self._end(key, group, found)
            return
        notes = self._notes.setdefault(key, _RootRecord())
        notes.idle_since = None
        # The clock starts when this process sees the request: a new leader gives it the full time.
        if found is not None and found.metadata.uid != notes.request:
            notes.request, notes.request_since = found.metadata.uid, self._clock.monotonic()
            notes.ended_since = None
        if found is None:
            await self._create(key, group, wanted, notes)
        elif ownership(found.metadata, wanted.root.owner_id) is not Ownership.OURS:
            # The request belongs to an earlier root of the name.
            await self._delete(key, found)
        elif wanted.describes(found):
            await self._follow(key, group, found, wanted, notes)
        else:
            await self._replace(key, found, wanted, notes)

    async def _wanted(self, key: RootKey, group: Group) -> DesiredRequest | None:
        """Return the request that the root needs now; None if none is needed, or possible."""
        asked = asked_by(group)
        if not asked or not self._roots.waits_for_capacity(group):
            return None
        waiting = await self._roots.waiting(key, group)
        if len(waiting.shapes) > MOST_POD_SETS:
            text = (
                f"its waiting pods are of {len(waiting.shapes)} kinds, and a ProvisioningRequest "
                f"can have at most {MOST_POD_SETS}: use the same requests, volumes and selectors "
                "for more pods"
            )
            self._report(key, group, "Warning", EVENT_CAPACITY_NOT_REQUESTED, text)
            return None
        # An event, not a refusal: capacity for the counted pods is still of use.
        if waiting.others:
            text = _uncounted(waiting, pods_name(group.metadata))
            self._report(key, group, "Warning", EVENT_CAPACITY_NOT_REQUESTED, text)
        root = root_of(key, group)
        sets = pod_sets(root, waiting.shapes)
        return DesiredRequest(root, asked, sets, waiting) if sets else None

    async def _create(
        self, key: RootKey, group: Group, wanted: DesiredRequest, notes: _RootRecord
    ) -> None:
        """Create the request once the gang is stable and the namespace's limit allows one more."""
        now = self._clock.monotonic()
        # A second create request would only fail until the cache has the first one.
        if notes.created == wanted.signature and now - notes.created_at < _CACHE_LAG_SECONDS:
            raise RequeueError("the request is not in the cache yet", _CACHE_LAG_SECONDS)
        # The root stands for the name of another root. Both requests would have that name, as the
        # pods of both state it.
        other = self._roots.group((key[0], key[1], usual_name(group.metadata)))
        if other is not None and asked_by(other):
            text = f"ProvisioningRequest {wanted.root.request}: {taken_name_advice(group.metadata)}"
            raise BlockedError(EVENT_NAME_TAKEN, text)
        self._settle(wanted, notes)
        if not self._limits.take(key):
            text = (
                f"{MOST_REQUESTS} groups of this namespace have a ProvisioningRequest, which is "
                "the limit: the group waits until one of them ends"
            )
            self._report(key, group, "Warning", EVENT_CAPACITY_NOT_REQUESTED, text)
            # The end of another request in the namespace queues this root.
            return
        self._keep_pace(key)
        notes.created_uid = await self._requests.create_request(
            wanted.root, wanted.asked, wanted.sets, wanted.waiting, notes.attempt
        )
        notes.created, notes.created_at = wanted.signature, self._clock.monotonic()
        pods = count(sum(wanted.sets.values()), "pod")
        text = f"ProvisioningRequest {wanted.root.request} requests capacity for {pods}"
        self._report(key, group, "Normal", EVENT_CAPACITY_REQUESTED, text)

    async def _follow(
        self,
        key: RootKey,
        group: Group,
        found: CapacityRequest,
        wanted: DesiredRequest,
        notes: _RootRecord,
    ) -> None:
        """Report a matching request to the scheduler, and replace it once it has ended."""
        self._limits.hold(key)
        # A matching request proves that the gang is stable, so its replacement need not wait again.
        notes.seen, notes.since = wanted.signature, self._clock.monotonic() - SETTLE_SECONDS
        await self._note(key, group, found)
        if not found.ended:
            return
        # A booking that expired is no failure: capacity came, but the pods did not use it in time.
        if found.failed:
            text = f"ProvisioningRequest {found.metadata.name}: {found.ended}: {found.why}"
            self._report(key, group, "Warning", EVENT_CAPACITY_FAILED, text)
        pause, longest = RETRY_SECONDS
        pause = min(pause * 2 ** min(found.attempt - 1, 10), longest)
        now = self._clock.monotonic()
        since = notes.ended_since = now if notes.ended_since is None else notes.ended_since
        if now - since < pause:
            raise RequeueError("the request has ended", since + pause - now)
        notes.attempt = found.attempt + 1
        # Forget the creation, so that the cache's lag does not block the next request.
        notes.created = ()
        await self._delete(key, found, wanted)

    async def _replace(
        self, key: RootKey, found: CapacityRequest, wanted: DesiredRequest, notes: _RootRecord
    ) -> None:
        """Delete a request whose gang changed; it is recreated once it is deleted."""
        self._limits.hold(key)
        # This very request was created with the wanted values. If it has others, something between
        # drops or changes fields, and replacing it would go on forever.
        if notes.created == wanted.signature and notes.created_uid == found.metadata.uid:
            raise BlockedError(
                EVENT_CAPACITY_NOT_REQUESTED,
                "the API server stores ProvisioningRequests with another spec than Muster sends: "
                "install the CRD of autoscaling.x-k8s.io/v1",
            )
        self._settle(wanted, notes)
        left = notes.request_since + REPLACE_SECONDS - self._clock.monotonic()
        if left > 0:
            raise RequeueError("the gang is changing", left)
        notes.attempt = 1
        await self._delete(key, found, wanted)

    async def _end(self, key: RootKey, group: Group | None, found: CapacityRequest | None) -> None:
        """Delete a request that is not needed, after a pause unless the root is placed."""
        notes = self._notes.get(key)
        # A lost pod, for example, is recreated soon. The autoscaler would have to begin again.
        if found is not None and group is not None and _may_wait(group):
            notes = self._notes.setdefault(key, _RootRecord())
            now = self._clock.monotonic()
            since = notes.idle_since = now if notes.idle_since is None else notes.idle_since
            if now - since < IDLE_SECONDS:
                raise RequeueError("the root may wait again", since + IDLE_SECONDS - now)
        if found is not None:
            await self._delete(key, found)
        if group is not None:
            await self._forget_note(key, group)
        reported = notes.reported if notes is not None else {}
        self._notes.pop(key, None)
        # Keep the reported texts of a root that still waits, so that no event repeats.
        if reported and group is not None and self._roots.waits_for_capacity(group):
            self._notes[key] = _RootRecord(reported=reported)
        follower = self._limits.release(key)
        if follower is not None:
            self.controller.queue.add(follower)

    async def _delete(
        self, key: RootKey, found: CapacityRequest, wanted: DesiredRequest | None = None
    ) -> None:
        """Delete a request, and the PodTemplates that are no longer wanted."""
        self._keep_pace(key)
        await self._requests.delete(found, wanted.sets if wanted is not None else {})

    async def _note(self, key: RootKey, group: Group, found: CapacityRequest) -> None:
        """Annotate the root with the time of its request: its preemption delay counts from then."""
        said, made = group.metadata.annotations, found.metadata.creation_timestamp
        # Only roots with a preemption delay need it, so other roots cost no write.
        if ANNOTATION_PREEMPTION_DELAY not in said or made is None:
            return
        value = CAPACITY_FAILED if found.failed else rfc3339(made)
        if said.get(ANNOTATION_CAPACITY_REQUESTED) != value:
            ops = PatchBuilder().of_uid(group.metadata.uid).add(_NOTE, value)
            await self._writer.patch(_RESOURCES[key[0]], key[2], ops, key[1])

    async def _forget_note(self, key: RootKey, group: Group) -> None:
        if ANNOTATION_CAPACITY_REQUESTED in group.metadata.annotations:
            # The add operation ensures that the annotation exists, as removing a missing one fails.
            ops = PatchBuilder().of_uid(group.metadata.uid).add(_NOTE, "").remove(_NOTE)
            await self._writer.patch(_RESOURCES[key[0]], key[2], ops, key[1])

    def _settle(self, wanted: DesiredRequest, notes: _RootRecord) -> None:
        """Raise RequeueError until the root has wanted the same request for a moment."""
        now = self._clock.monotonic()
        if notes.seen != wanted.signature:
            notes.seen, notes.since = wanted.signature, now
        if now - notes.since < SETTLE_SECONDS:
            raise RequeueError("the gang is changing", notes.since + SETTLE_SECONDS - now)

    def _keep_pace(self, key: RootKey) -> None:
        wait = self._limits.wait(key[1])
        if wait > 0:
            raise RequeueError("many ProvisioningRequests of this namespace change", wait)

    def _found(self, key: RootKey) -> CapacityRequest | None:
        """Return the request with the root's name, if it was created for such a root."""
        group = self._roots.group(key)
        name = key[2] if group is None else pods_name(group.metadata)
        found = self._caches.requests.get(key[1], name)
        return found if found is not None and _root_key(found) == key else None

    def _report(
        self, key: RootKey, group: Group, event_type: EventType, reason: str, text: str
    ) -> None:
        """Record an event for each change, on the root and on the Job or JobSet that users know."""
        notes = self._notes.setdefault(key, _RootRecord())
        if notes.reported.get(reason) == text:
            return
        notes.reported[reason] = text
        for reference in known_objects(_RESOURCES[key[0]], group.metadata):
            self._recorder.event(reference, event_type, reason, text)

    def _on_served(self, resource: Resource) -> None:
        """Queue all roots that want a request once the CRD is installed."""
        if resource == REQUESTS:
            for kind, cache in self._caches.group_caches():
                for group in cache.values():
                    self._on_group(kind, None, group)

    def _on_request(self, _old: CapacityRequest | None, new: CapacityRequest | None) -> None:
        there = new or _old
        key = _root_key(there) if there is not None else None
        if key is None:
            return
        if new is not None and self._caches.groups(key[0]).get(*key[1:]) is not None:
            self._limits.hold(key)
        self.controller.queue.add(key)

    def _on_group(self, kind: str, old: Group | None, new: Group | None) -> None:
        for group in (old, new):
            if group is None:
                continue
            named: RootKey = (kind, *group.metadata.key)
            # A root that had a request may have dropped the annotation, so it is queued, too.
            if named in self._notes or (not group.parent and asked_by(group)):
                self.controller.queue.add(named)
            elif group.parent and (old is None or new is None or old.parent != new.parent):
                self._queue_root(kind, group)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Queue the root of a pod that begins or ends to wait."""
        pod = new or old
        if pod is None or not pod.consumes:
            return
        if old is not None and new is not None and (old.waits, old.shape) == (new.waits, new.shape):
            return
        for group in self._caches.groups_of(pod):
            self._queue_root(POD_GROUPS.kind, group)

    def _queue_root(self, kind: str, group: Group) -> None:
        key = self._roots.asking(kind, group)
        if key is not None:
            # Pods and groups come and go in bursts, which one pass covers.
            self.controller.queue.add_after(key, _BURST_SECONDS)


def _may_wait(group: Group) -> bool:
    """Return True if the root has the annotation and is not placed."""
    # It may wait only until another pod exists.
    return bool(asked_by(group)) and not (group.scheduled and not group.blocked_by)


def _root_key(request: CapacityRequest) -> RootKey | None:
    """Return the root that a request was created for."""
    owner = created_for(request.metadata)
    if owner is None or owner.group != GROUP or owner.kind not in _RESOURCES:
        return None
    return owner.kind, request.metadata.namespace, owner.name


def _uncounted(waiting: WaitingPods, request: str) -> str:
    return (
        f"{waiting.others} of its waiting pods {'is' if waiting.others == 1 else 'are'} not "
        f"counted: set the annotation {ANNOTATION_CONSUMES_REQUEST}: {request} on the pods, so "
        "that the autoscaler does not count them itself"
    )
