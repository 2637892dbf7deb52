"""Event handlers for devices: DeviceClasses, ResourceSlices, ResourceClaims.

A class or slice that is not understood counts as missing. A claim that is not understood keeps its
devices, as far as they are known. Its pods are refused, and the message names the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from kube.client.meta import Key
from scheduler.core.state.state import State
from scheduler.core.values.model import ClaimKey
from scheduler.decoding.device_decode import (
    device_class_info,
    resource_claim_info,
    slice_info,
)
from scheduler.decoding.device_objects import (
    ClaimStatusTaken,
    Consumer,
    DeviceClass,
    DeviceStatus,
    ResourceClaim,
    ResourceSlice,
)
from scheduler.support.metrics import DEVICES_HIDDEN
from scheduler.watch.claim_notifications import ClaimNews
from scheduler.watch.event_handlers import PodHandler

_UNREADABLE: Final = "cannot be read"

_log = structlog.get_logger()


class DeviceClassHandler:
    """Event handler of DeviceClasses.

    With `implicit`, each also maps the extended resource of its name.
    """

    def __init__(self, state: State, on_change: Callable[[], None], pods: PodHandler) -> None:
        self.implicit = False
        self._devices = state.devices
        self._on_change = on_change
        self._pods = pods

    def upsert(self, obj: DeviceClass) -> None:
        info = device_class_info(obj, implicit=self.implicit)
        before = self._resources_of(info.name)
        self._devices.set_class(info)
        # Pods of a resource that the class no longer maps have to be evaluated, too.
        self._changed(before | self._resources_of(info.name))

    def set_aside(self, key: Key, _raw: bytes) -> None:
        """Treat a class that is not understood as missing: its claims wait."""
        self.delete(key)

    def delete(self, key: Key) -> None:
        before = self._resources_of(key[1])
        self._devices.remove_class(key[1])
        self._changed(before)

    def _resources_of(self, name: str) -> frozenset[str]:
        known = self._devices.classes.get(name)
        return frozenset() if known is None else frozenset(known.resources)

    def _changed(self, resources: frozenset[str]) -> None:
        # The order of a set differs between processes, and that of a replay must not.
        for resource in sorted(resources):
            self._pods.on_resource_changed(resource)
        self._on_change()


class ResourceSliceHandler:
    """Event handler of ResourceSlices. Devices that are not understood are hidden."""

    def __init__(self, state: State, on_change: Callable[[], None]) -> None:
        self._devices = state.devices
        self._on_change = on_change
        self._hidden: dict[str, tuple[int, str]] = {}

    def upsert(self, obj: ResourceSlice) -> None:
        info, hidden = slice_info(obj)
        self._hide(info.name, hidden)
        self._devices.slices.set(info)
        self._on_change()

    def set_aside(self, key: Key, _raw: bytes) -> None:
        """Drop the slice. Its pool is incomplete then, so no more devices are allocated from it."""
        self.delete(key)

    def delete(self, key: Key) -> None:
        self._hide(key[1], ())
        self._devices.slices.remove(key[1])
        self._on_change()

    def _hide(self, name: str, problems: tuple[str, ...]) -> None:
        """Count and log the slice's hidden devices, once as long as they remain the same."""
        before = self._hidden.pop(name, (0, ""))
        now = (len(problems), problems[0]) if problems else (0, "")
        if problems:
            self._hidden[name] = now
        # A gauge over all slices: an event adds the difference of one of them.
        DEVICES_HIDDEN.inc(now[0] - before[0])
        if problems and now != before:
            _log.warning(
                "devices hidden: their driver publishes unknown fields",
                resourceslice=name,
                devices=now[0],
                error=now[1],
            )


@dataclass(frozen=True, slots=True)
class ObservedClaim:
    """The fields of a claim that a write needs, as it was last seen.

    `version` is its resourceVersion as a number. `allocated` is the first known version with the
    current allocation, and `since` the first one that may have had it: a watch reports each
    version, a list only the last. `has_status` and `finalizers` are those of its JSON.
    """

    uid: str
    version: int
    finalizers: tuple[str, ...]
    has_status: bool
    consumers: tuple[Consumer, ...]
    allocated: int
    since: int
    statuses: tuple[DeviceStatus, ...] = ()


class ResourceClaimHandler:
    """Event handler of ResourceClaims. `observed` has what writes need.

    `news` is notified of each change. Versions of a claim older than the last write of this process
    are ignored, because they would report its devices as free. A write is confirmed once everything
    is delivered that others wrote before it.
    """

    def __init__(
        self, state: State, on_change: Callable[[], None], pods: PodHandler, news: ClaimNews
    ) -> None:
        self.observed: dict[ClaimKey, ObservedClaim] = {}
        self._devices = state.devices
        self._on_change = on_change
        self._pods = pods
        self._news = news
        self._awaited: dict[ClaimKey, int] = {}
        self._listing = False
        self._listed: dict[ClaimKey, int] = {}

    def listing(self, under_way: bool) -> None:
        """Record that a list begins, or that all of it was delivered."""
        self._listing = under_way
        listed, self._listed = self._listed, {}
        # A list has no order: an allocation that is older than our write may be on its last page.
        # So only the complete list confirms a write, unlike a single event of the watch.
        for key, version in listed.items() if not under_way else ():
            if self._awaited.get(key, version + 1) <= version:
                del self._awaited[key]
                self._news.changed(key)

    def upsert(self, obj: ResourceClaim) -> None:
        """Apply an event of the watch."""
        key = (obj.metadata.namespace, obj.metadata.name)
        version = version_of(obj.metadata.resource_version)
        if version < self._awaited.get(key, 0):
            return
        # The claim itself is new enough; the confirmation waits for the end of the list.
        if self._listing and key in self._awaited:
            self._listed[key] = version
        else:
            self._awaited.pop(key, None)
        self._take(key, obj, version, each_version=not self._listing)

    def written(self, obj: ResourceClaim, *, by_others: bool = False) -> None:
        """Apply the response to a write of this process, or a read of what others wrote."""
        key = (obj.metadata.namespace, obj.metadata.name)
        version = version_of(obj.metadata.resource_version)
        known = self.observed.get(key)
        # The watch may have delivered this version already, or that another claim has the name.
        if known is not None and known.uid == obj.metadata.uid and known.version < version:
            self._awaited[key] = version
            self._take(key, obj, version, each_version=not by_others)

    def created(self, obj: ResourceClaim, *, by_others: bool = False) -> None:
        """Apply a claim that is not known yet, which this process or an earlier leader created."""
        key = (obj.metadata.namespace, obj.metadata.name)
        # The watch may have been faster than the response.
        if key not in self.observed:
            version = version_of(obj.metadata.resource_version)
            self._awaited[key] = version
            self._take(key, obj, version, each_version=not by_others)

    def awaits(self, key: ClaimKey) -> bool:
        """True if the watch has not delivered the last write of this process."""
        return key in self._awaited

    def set_aside(self, key: Key, _raw: bytes) -> None:
        """Keep the devices of a claim that is not understood, and refuse its pods."""
        self._awaited.pop(key, None)
        self._pods.unreadable_claims[key] = _UNREADABLE
        self._changed(key)

    def delete(self, key: Key) -> None:
        self._awaited.pop(key, None)
        self.observed.pop(key, None)
        self._pods.unreadable_claims.pop(key, None)
        self._devices.remove_claim(key)
        self._changed(key)

    def _take(self, key: ClaimKey, obj: ResourceClaim, version: int, *, each_version: bool) -> None:
        info, problem = resource_claim_info(obj)
        before, seen = self._devices.claims.get(key), self.observed.get(key)
        if before is not None and before.uid != info.uid:
            # Another claim of this name: the watch missed the deletion.
            self._devices.remove_claim(key)
            seen = None
        status = obj.status or ClaimStatusTaken()
        allocated = since = version if info.allocation is not None else 0
        # Versions in between were not seen, so the allocation may be older than this one. Of two
        # allocations of one device the older one wins, so the earliest version possible counts.
        if allocated and not each_version:
            since = seen.version + 1 if seen is not None else 1
        # An allocation does not change until it is released, so its first version remains.
        if seen is not None and seen.allocated and allocated:
            allocated, since = seen.allocated, seen.since
        self.observed[key] = ObservedClaim(
            uid=info.uid,
            version=version,
            finalizers=tuple(obj.metadata.finalizers),
            has_status=obj.status is not None,
            consumers=tuple(status.reserved_for),
            allocated=allocated,
            since=since,
            statuses=tuple(status.devices),
        )
        known = self._pods.unreadable_claims.get(key, "")
        if problem:
            self._pods.unreadable_claims[key] = problem
        else:
            self._pods.unreadable_claims.pop(key, None)
        if before != info:
            self._devices.set_claim(info)
        if before != info or known != problem:
            self._changed(key)
        else:
            # Nothing that decisions read has changed, but writers wait for the version.
            self._news.changed(key)

    def _changed(self, key: ClaimKey) -> None:
        self._pods.on_claim_changed(key)
        self._news.changed(key)
        self._on_change()


def version_of(text: str) -> int:
    """Return a resourceVersion as a number, 0 if it is none. Those of one resource are ordered."""
    return int(text) if text.isdecimal() else 0
