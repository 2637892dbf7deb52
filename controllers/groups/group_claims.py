"""ResourceClaims that all pods of a PodGroup share, created from templates.

Each entry of `spec.resourceClaims` with a ResourceClaimTemplate gets one ResourceClaim, as
kube-controller-manager does for pods, and an entry in the PodGroup's status. A claim that is
deleted while the group exists is recreated. Its owner reference deletes it with the group. Entries
that name a claim are left as they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from api import names
from api.constants import EVENT_CLAIM_NOT_MADE, EVENT_NAME_TAKEN, MAX_RESOURCE_CLAIMS, POD_GROUP
from api.group_claims import claim_object
from api.membership import pods_name, taken_name_advice, usual_name
from api.ownership import Owner, Ownership, created_for, ownership
from controllers.cache.informers import BY_CLAIM_TEMPLATE, Caches
from controllers.cache.known_objects import known_objects
from controllers.cache.objects import (
    CLAIM_TEMPLATES,
    CLAIMS,
    POD_GROUPS,
    ClaimEntry,
    ClaimStatus,
    Group,
    NamedObject,
)
from controllers.runtime.controller import (
    BlockedError,
    Controller,
    InTheWayError,
    RequeueError,
    Writer,
    queue_all,
)
from controllers.runtime.rate_limit import NamespacePace
from kube.base.clock import Clock
from kube.base.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from kube.client.meta import Json, Key, ObjectMeta, Partial, decode_partial
from kube.client.patch import PatchBuilder
from kube.client.resources import Resource
from kube.events.events import Recorder

BURST: Final = 500
"""Writes for one namespace at once. After that, `PER_SECOND` applies."""

PER_SECOND: Final = 50.0
"""Writes for one namespace a second, once it has used `BURST`. Later ones wait."""

RETRY_SECONDS: Final = (60.0, 600.0)
"""The first pause after a taken name or a rejected claim, and the longest, in seconds.

No event reports that either is resolved: claims of other owners are not watched.
"""

_BEHIND_SECONDS: Final = 1.0
"""Seconds until the next attempt if the cache lacks the latest write."""

_STATUSES: Final = "resourceClaimStatuses"

UNSERVED_TEXT: Final = (
    "spec.resourceClaims needs resource.k8s.io/v1, which this cluster does not serve: use "
    "Kubernetes 1.34 or later"
)
FORBIDDEN_TEXT: Final = (
    "spec.resourceClaims: muster-controller may not read ResourceClaims and "
    "ResourceClaimTemplates: apply the manifests of its version"
)


Fault = BlockedError | InTheWayError


@dataclass(frozen=True, slots=True)
class _ClaimFaults:
    """The faults of the claims of a group with this UID, by entry, and the attempts so far."""

    uid: str = ""
    reported: Mapping[str, str] = field(default_factory=dict)
    attempt: int = 0


class GroupClaimController:
    """The controller of claims of groups; its keys are those of PodGroups."""

    def __init__(self, caches: Caches, writer: Writer, recorder: Recorder, clock: Clock) -> None:
        self.controller: Controller[Key] = Controller("group-claims", self.reconcile, clock)
        self._caches = caches
        self._writer = writer
        self._recorder = recorder
        self._pace = NamespacePace(clock, BURST, PER_SECOND)
        self._notes: dict[Key, _ClaimFaults] = {}
        caches.pod_groups.subscribe(self._on_group)
        caches.claims.subscribe(self._on_claim)
        caches.claim_templates.subscribe(self._on_template)
        caches.when_served(self._on_served)

    async def resync(self) -> None:
        """Queue all PodGroups that share claims."""
        await queue_all(self._caches.pod_groups.values(), lambda it: self._on_group(None, it))

    async def reconcile(self, key: Key) -> None:
        """Create the missing claims of one group. Raises RequeueError, kube errors."""
        group = self._caches.pod_groups.get(*key)
        if group is None or self._is_terminating(group):
            self._notes.pop(key, None)
            return
        # An event without a requeue: `_on_served` queues the group once the API is served.
        if not self._is_served:
            self._remember(group, {"": BlockedError(EVENT_CLAIM_NOT_MADE, self._why_not_served())})
            return
        faults: dict[str, Fault] = {}
        made = [await self._given(group, it, faults) for it in _from_templates(group)]
        # Record existing claims even if others failed: a fault of one entry must not hide the rest.
        await self._record(group, [it for it in made if it is not None])
        notes = self._remember(group, faults)
        if faults:
            first, longest = RETRY_SECONDS
            # Back off up to ten minutes: these faults last until a user acts.
            pause = min(first * 2.0 ** min(notes.attempt - 1, 10), longest)
            raise RequeueError(str(next(iter(faults.values()))), pause)

    async def _given(
        self, group: Group, entry: ClaimEntry, faults: dict[str, Fault]
    ) -> ClaimStatus | None:
        """Return the status entry of a claim, or None with the reason in `faults`."""
        wanted = ClaimStatus(entry.name, _claim_name(group, entry))
        try:
            await self._ensure(group, entry)
        # The claim is being deleted. Its status entry remains until the claim is replaced.
        except InTheWayError as fault:
            faults[entry.name] = fault
            return wanted if wanted in group.claim_statuses else None
        except BlockedError as fault:
            faults[entry.name] = fault
            return None
        except (Forbidden, Invalid) as error:
            faults[entry.name] = BlockedError(
                EVENT_CLAIM_NOT_MADE, _fault_message(entry, error.message)
            )
            return None
        return wanted

    async def _ensure(self, group: Group, entry: ClaimEntry) -> None:
        """Create the claim of an entry unless it exists.

        Raises BlockedError, InTheWayError for a claim that is being deleted, RequeueError, kube
        errors.
        """
        meta, name = group.metadata, _claim_name(group, entry)
        # This group stands for the name of another one. Pods of both would name the same claim, and
        # nothing could tell whose it is.
        other = self._caches.pod_groups.get(meta.namespace, usual_name(meta))
        if other is not None and any(it.name == entry.name for it in _from_templates(other)):
            raise BlockedError(EVENT_NAME_TAKEN, f"ResourceClaim {name}: {taken_name_advice(meta)}")
        found = self._caches.claims.get(meta.namespace, name)
        claim = found.metadata if found is not None else await self._create(group, entry, name)
        owned = ownership(claim, _owner(group).owner_id)
        if owned is Ownership.LEAVING:
            raise InTheWayError(f"ResourceClaim {name} is being deleted", RETRY_SECONDS[0])
        if owned is Ownership.FOREIGN:
            raise BlockedError(
                EVENT_NAME_TAKEN,
                f"ResourceClaim {name} exists and was not created for this PodGroup: delete it, "
                "and Muster creates the claim of the group",
            )

    async def _create(self, group: Group, entry: ClaimEntry, name: str) -> ObjectMeta:
        """Return the claim of this name, and create it if it is missing.

        Its owner is not checked.
        """
        namespace = group.metadata.namespace
        template = await self._template(namespace, entry)
        claim = claim_object(_owner(group), name, template)
        try:
            live = await self._writer.create(CLAIMS, claim)
        # Read it instead: it may be the group's own claim, which the cache does not have yet.
        except AlreadyExists:
            live = await self._writer.get(CLAIMS, name, namespace)
        return decode_partial(msgspec.json.encode(live)).metadata

    async def _template(self, namespace: str, entry: ClaimEntry) -> Json:
        """Return the live template."""
        # The cache has only names of templates, as one spec may be as large as a request.
        name = entry.resource_claim_template_name or ""
        missing = BlockedError(
            EVENT_CLAIM_NOT_MADE,
            _fault_message(
                entry,
                f"ResourceClaimTemplate {name} not found. Muster creates the "
                "ResourceClaim when it exists",
            ),
        )
        if self._caches.claim_templates.get(namespace, name) is None:
            raise missing
        self._keep_pace(namespace)
        try:
            return await self._writer.get(CLAIM_TEMPLATES, name, namespace)
        except NotFound as error:
            raise missing from error

    async def _record(self, group: Group, made: list[ClaimStatus]) -> None:
        """Write the entries to the status, of which this controller writes this field only."""
        if tuple(made) == group.claim_statuses:
            return
        meta = group.metadata
        self._keep_pace(meta.namespace)
        ops, said = PatchBuilder(), [msgspec.to_builtins(it) for it in made]
        # Test the UID, not the version: the scheduler writes other fields of this status all the
        # time.
        if group.has_status:
            ops.of_uid(meta.uid).add(f"/status/{_STATUSES}", said)
        else:
            # The patch creates the status. Fail if the scheduler has created it in the meantime.
            ops.at_version(meta.resource_version).add("/status", {_STATUSES: said})
        try:
            await self._writer.patch(
                POD_GROUPS, meta.name, ops, meta.namespace, subresource="status"
            )
        except (Conflict, Invalid) as error:
            if isinstance(error, Invalid) and not error.patch_failed:
                raise
            raise RequeueError("the cache is not up to date", _BEHIND_SECONDS) from error
        except NotFound:
            return  # the group is gone

    def _keep_pace(self, namespace: str) -> None:
        wait = self._pace.wait(namespace)
        if wait > 0:
            raise RequeueError("many ResourceClaims of this namespace change", wait)

    def _is_terminating(self, group: Group) -> bool:
        meta = group.metadata
        return meta.deletion_timestamp is not None or self._caches.is_terminating(meta.namespace)

    @property
    def _is_served(self) -> bool:
        return {CLAIMS, CLAIM_TEMPLATES} <= self._caches.served

    def _why_not_served(self) -> str:
        unlisted = self._caches.unlisted
        if self._caches.forbidden & {CLAIMS, CLAIM_TEMPLATES}:
            return FORBIDDEN_TEXT
        for kind in (CLAIMS, CLAIM_TEMPLATES):
            if kind in unlisted:
                return f"spec.resourceClaims: {kind.full_name} cannot be listed: {unlisted[kind]}"
        return UNSERVED_TEXT

    def _remember(self, group: Group, faults: Mapping[str, Fault]) -> _ClaimFaults:
        """Record the current faults, and report each fault once, and again if it comes back."""
        key, before = group.metadata.key, self._notes.pop(group.metadata.key, _ClaimFaults())
        # A recreated group has a new UID, and its user has not seen any event yet.
        if before.uid != group.metadata.uid:
            before = _ClaimFaults()
        reported = {entry: str(fault) for entry, fault in faults.items()}
        notes = _ClaimFaults(group.metadata.uid, reported, before.attempt + 1)
        if faults:
            self._notes[key] = notes
        for entry, fault in faults.items():
            # A claim that is being deleted resolves by itself, so it needs no event.
            if isinstance(fault, BlockedError) and before.reported.get(entry) != reported[entry]:
                self._report(group, fault)
        return notes

    def _report(self, group: Group, fault: BlockedError) -> None:
        """Record an event on the group, and on the Job or JobSet that users know."""
        for reference in known_objects(POD_GROUPS, group.metadata):
            self._recorder.event(reference, "Warning", fault.reason, str(fault))

    def _on_group(self, old: Group | None, new: Group | None) -> None:
        """Queue a group that appears, disappears or changes in a way that affects its claims."""
        there = new or old
        if there is None or not there.claims:
            return
        if old is None or new is None or _of_claims(old) != _of_claims(new):
            self.controller.queue.add(there.metadata.key)

    def _on_claim(self, old: Partial | None, new: Partial | None) -> None:
        """Queue the group of a claim that appears, is being deleted or disappears."""
        there = new or old
        # The scheduler writes allocations into claims, which are none of this controller's
        # business.
        if old is not None and new is not None and _of_claim(old) == _of_claim(new):
            return
        owner = created_for(there.metadata) if there is not None else None
        if there is None or owner is None or owner[:2] != (POD_GROUP.group, POD_GROUP.kind):
            return
        group = self._caches.pod_groups.get(there.metadata.namespace, owner.name)
        if group is not None and group.claims:
            self.controller.queue.add(group.metadata.key)

    def _on_template(self, old: NamedObject | None, new: NamedObject | None) -> None:
        """Queue the groups that waited for a new template."""
        if new is None or (old is not None and old.metadata.uid == new.metadata.uid):
            return
        key = (new.metadata.namespace, new.metadata.name)
        for group in self._caches.pod_groups.each(BY_CLAIM_TEMPLATE, key):
            # Many groups may use the template, most of which have their claims already.
            if self._misses_claim(group):
                self.controller.queue.add(group.metadata.key)

    def _misses_claim(self, group: Group) -> bool:
        namespace = group.metadata.namespace
        return any(
            self._caches.claims.get(namespace, _claim_name(group, entry)) is None
            for entry in _from_templates(group)
        )

    def _on_served(self, resource: Resource) -> None:
        """Queue all groups with claims once the API is served."""
        if resource in {CLAIMS, CLAIM_TEMPLATES} and self._is_served:
            for group in self._caches.pod_groups.values():
                self._on_group(None, group)


def _from_templates(group: Group) -> list[ClaimEntry]:
    """Return the entries that get a claim from a template, up to the limit of admission."""
    # A PodGroup that did not pass admission may have more.
    shared = group.claims[:MAX_RESOURCE_CLAIMS]
    return [it for it in shared if it.resource_claim_template_name and not it.resource_claim_name]


def _owner(group: Group) -> Owner:
    meta = group.metadata
    return Owner(POD_GROUP, meta.namespace, meta.name, meta.uid)


def _claim_name(group: Group, entry: ClaimEntry) -> str:
    """Return the name of the claim as the pods of the group state it."""
    # A group that stands for another name keeps the claim names that its pods already have.
    return names.group_claim(pods_name(group.metadata), entry.name)


def _of_claims(group: Group) -> tuple[object, ...]:
    meta = group.metadata
    return meta.uid, meta.deletion_timestamp, group.claims, group.claim_statuses


def _of_claim(claim: Partial) -> tuple[object, ...]:
    meta = claim.metadata
    return meta.uid, meta.deletion_timestamp, created_for(meta)


def _fault_message(entry: ClaimEntry, problem: str) -> str:
    return f"spec.resourceClaims {entry.name}: {problem}"
