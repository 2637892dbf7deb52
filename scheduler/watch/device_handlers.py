"""Event handlers of what devices need: DeviceClasses, ResourceSlices, ResourceClaims.

A class or slice that is not understood counts as missing. A claim that is not understood keeps its
devices, as far as they are known, and its pods are refused by what is not known about it.
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
    device_taint_rule,
    resource_claim_info,
    slice_info,
)
from scheduler.decoding.device_objects import (
    ClaimStatusTaken,
    ClaimTemplate,
    Consumer,
    DeviceClass,
    DeviceStatus,
    ResourceClaim,
    ResourceSlice,
    TaintRule,
)
from scheduler.support.metrics import DEVICES_HIDDEN
from scheduler.watch.claim_notifications import ClaimNews
from scheduler.watch.event_handlers import PodHandler

_UNREADABLE: Final = "cannot be read"

_log = structlog.get_logger()


class DeviceClassHandler:
    """Handles events of DeviceClasses.

    `implicit`: each stands for the extended resource with its name as well.
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
        self._changed(before | self._resources_of(info.name))

    def set_aside(self, key: Key, _raw: bytes) -> None:
        """Claims of a class that is not understood wait, as without it."""
        self.delete(key)

    def delete(self, key: Key) -> None:
        before = self._resources_of(key[1])
        self._devices.remove_class(key[1])
        self._changed(before)

    def _resources_of(self, name: str) -> frozenset[str]:
        known = self._devices.classes.get(name)
        return frozenset() if known is None else frozenset(known.resources)

    def _changed(self, resources: frozenset[str]) -> None:
        for resource in sorted(resources):
            self._pods.resource_is(resource)
        self._on_change()


class DeviceTaintRuleHandler:
    """Handles events of DeviceTaintRules."""

    def __init__(self, state: State, on_change: Callable[[], None]) -> None:
        self._devices = state.devices
        self._on_change = on_change

    def upsert(self, obj: TaintRule) -> None:
        self._devices.set_taint_rule(device_taint_rule(obj))
        self._on_change()

    def set_aside(self, key: Key, _raw: bytes) -> None:
        """Which devices a rule means that is not understood is not known: it taints none."""
        self.delete(key)

    def delete(self, key: Key) -> None:
        self._devices.remove_taint_rule(key[1])
        self._on_change()


class ResourceSliceHandler:
    """Handles events of ResourceSlices; devices that are not understood are hidden."""

    def __init__(self, state: State, on_change: Callable[[], None]) -> None:
        self._devices = state.devices
        self._on_change = on_change
        self._hidden: dict[str, tuple[int, str]] = {}

    def upsert(self, obj: ResourceSlice) -> None:
        info, hidden = slice_info(obj)
        self._hide(info.name, hidden)
        self._devices.set_slice(info)
        self._on_change()

    def set_aside(self, key: Key, _raw: bytes) -> None:
        """Without the slice its pool is incomplete, so nothing new is taken from it."""
        self.delete(key)

    def delete(self, key: Key) -> None:
        self._hide(key[1], ())
        self._devices.remove_slice(key[1])
        self._on_change()

    def _hide(self, name: str, problems: tuple[str, ...]) -> None:
        """Count and tell of the slice's hidden devices, once as long as they stay the same."""
        before = self._hidden.pop(name, (0, ""))
        now = (len(problems), problems[0]) if problems else (0, "")
        if problems:
            self._hidden[name] = now
        DEVICES_HIDDEN.inc(now[0] - before[0])
        if problems and now != before:
            _log.warning(
                "devices hidden: have their driver publish them without what is not known",
                resourceslice=name,
                devices=now[0],
                problem=now[1],
            )


class ClaimTemplateHandler:
    """Handles events of ResourceClaimTemplates, of which claims of expected pods will be made."""

    def __init__(self, on_change: Callable[[], None], pods: PodHandler) -> None:
        self._on_change = on_change
        self._pods = pods

    def upsert(self, obj: ClaimTemplate) -> None:
        self._pods.template_is((obj.metadata.namespace, obj.metadata.name), bytes(obj.spec.spec))
        self._on_change()

    def set_aside(self, key: Key, _raw: bytes) -> None:
        """What it asks for is not known: pods that name it are not expected to get any."""
        self.delete(key)

    def delete(self, key: Key) -> None:
        self._pods.template_is(key, None)
        self._on_change()


@dataclass(frozen=True, slots=True)
class ObservedClaim:
    """What writing to a claim needs, as the claim was last seen.

    `version` is its resourceVersion as a number, `allocated` the first one known with the
    allocation that it has, and `since` the first one that may have had it: a watch tells of each
    version, a list only of the last. `has_status` and `finalizers` are what its JSON has.
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
    """Handles events of ResourceClaims. `observed` has what writing to them needs.

    `news` is told of each change. Older versions of a claim than the one that this process wrote
    last are not taken in: they would say that its devices are free. What was written is delivered
    once all is that others wrote before: a list has no order, so that takes all of it.
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
        """A list begins, or all of it was delivered."""
        self._listing = under_way
        listed, self._listed = self._listed, {}
        for key, version in listed.items() if not under_way else ():
            if self._awaited.get(key, version + 1) <= version:
                del self._awaited[key]
                self._news.changed(key)

    def upsert(self, obj: ResourceClaim) -> None:
        """An event of the watch."""
        key = (obj.metadata.namespace, obj.metadata.name)
        version = version_of(obj.metadata.resource_version)
        if version < self._awaited.get(key, 0):
            return
        if self._listing and key in self._awaited:
            self._listed[key] = version
        else:
            self._awaited.pop(key, None)
        self._take(key, obj, version, each_version=not self._listing)

    def written(self, obj: ResourceClaim, *, by_others: bool = False) -> None:
        """What this process wrote itself, or read of what others wrote before the watch told."""
        key = (obj.metadata.namespace, obj.metadata.name)
        version = version_of(obj.metadata.resource_version)
        known = self.observed.get(key)
        if known is not None and known.uid == obj.metadata.uid and known.version < version:
            self._awaited[key] = version
            self._take(key, obj, version, each_version=not by_others)

    def created(self, obj: ResourceClaim, *, by_others: bool = False) -> None:
        """A claim that is not known yet: this process made it, or read what an earlier leader made.

        The watch may not have delivered it.
        """
        key = (obj.metadata.namespace, obj.metadata.name)
        if key not in self.observed:
            version = version_of(obj.metadata.resource_version)
            self._awaited[key] = version
            self._take(key, obj, version, each_version=not by_others)

    def awaits(self, key: ClaimKey) -> bool:
        """Whether the watch has not delivered yet what this process wrote last."""
        return key in self._awaited

    def set_aside(self, key: Key, _raw: bytes) -> None:
        """What it held is still held; its pods are refused."""
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
            self._devices.remove_claim(key)  # another one of this name: the deletion was missed
            seen = None
        status = obj.status or ClaimStatusTaken()
        allocated = since = version if info.allocation is not None else 0
        if allocated and not each_version:
            since = seen.version + 1 if seen is not None else 1
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
            self._news.changed(key)

    def _changed(self, key: ClaimKey) -> None:
        self._pods.claim_is(key)
        self._news.changed(key)
        self._on_change()


def version_of(text: str) -> int:
    """A resourceVersion as a number; of one resource they are ordered. 0 if it is none."""
    return int(text) if text.isdecimal() else 0
