"""Event handlers for volumes: PersistentVolumeClaims, PersistentVolumes, StorageClasses, CSINodes.

An undecodable object counts as missing, so the pods that need it wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from kube.client.meta import Key
from scheduler.core.framework.events import Event
from scheduler.core.state.state import State
from scheduler.decoding.volume_decode import attach_limits, claim_info, class_info, volume_info
from scheduler.decoding.volume_objects import Claim, CsiNode, StorageClass, Volume


class _StorageHandler:
    event: ClassVar[Event]
    """The event that may make a pod fit that waits for a volume."""

    def __init__(self, state: State, on_change: Callable[[], None]) -> None:
        self._state = state
        self._storage = state.volumes
        self._on_change = on_change

    def _after_change(self) -> None:
        self._state.happened(self.event)
        self._on_change()


class ClaimHandler(_StorageHandler):
    """Event handler of PersistentVolumeClaims."""

    event = Event.CLAIM

    def upsert(self, obj: Claim) -> None:
        self._storage.set_claim(claim_info(obj))
        self._after_change()

    def set_aside(self, key: Key, _raw: bytes) -> None:
        self.delete(key)

    def delete(self, key: Key) -> None:
        self._storage.remove_claim(key)
        self._after_change()


class VolumeHandler(_StorageHandler):
    """Event handler of PersistentVolumes."""

    event = Event.VOLUME

    def upsert(self, obj: Volume) -> None:
        self._storage.set_volume(volume_info(obj))
        self._after_change()

    def set_aside(self, key: Key, _raw: bytes) -> None:
        self.delete(key)

    def delete(self, key: Key) -> None:
        self._storage.remove_volume(key[1])
        self._after_change()


class StorageClassHandler(_StorageHandler):
    """Event handler of StorageClasses."""

    event = Event.STORAGE_CLASS

    def upsert(self, obj: StorageClass) -> None:
        self._storage.set_class(class_info(obj))
        self._after_change()

    def set_aside(self, key: Key, _raw: bytes) -> None:
        self.delete(key)

    def delete(self, key: Key) -> None:
        self._storage.remove_class(key[1])
        self._after_change()


class CsiNodeHandler(_StorageHandler):
    """Event handler of CSINodes, which limit the volumes that each node can attach."""

    # Without `set_aside`: an undecodable CSINode keeps its last limits. Missing ones would mean no
    # limit at all.
    event = Event.CSI_NODE

    def upsert(self, obj: CsiNode) -> None:
        self._storage.set_limits(obj.metadata.name, attach_limits(obj))
        self._after_change()

    def delete(self, key: Key) -> None:
        self._storage.remove_limits(key[1])
        self._after_change()
