"""The events that can make a refused pod fit, and where in the cluster each can do so.

kube-scheduler's plugins state the same with EventsToRegister. What an event changes is worked out
for all shapes and nodes at once, so a plugin states no hint for each pod, but how far the event
reaches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, StrEnum, auto
from typing import Final


class Event(StrEnum):
    """By kube-scheduler's names, where it has the event."""

    NODE_ADD = "Node/Add"
    NODE_UPDATE = "Node/Update"
    DOMAINS = "Domains/Update"
    """Topology domains changed, while pods have terms about other pods or volumes."""

    POD_ADD = "AssignedPod/Add"
    POD_DELETE = "AssignedPod/Delete"
    TERMS = "Terms/Update"
    """Terms about other pods came or ended, and assigned pods are counted by others."""

    NOMINATION_DELETE = "Nomination/Delete"
    CLAIM_RELEASE = "PersistentVolumeClaim/Release"
    """A pod left that used a ReadWriteOncePod claim."""

    VOLUME_RELEASE = "PersistentVolume/Release"
    """A pod left for whose claim a volume was assumed."""

    CLAIM = "PersistentVolumeClaim/*"
    VOLUME = "PersistentVolume/*"
    STORAGE_CLASS = "StorageClass/*"
    CSI_NODE = "CSINode/*"
    DEVICES = "ResourceSlice,DeviceClass,DeviceTaintRule,ResourceClaim/*"
    """Nodes have devices that they did not have before."""


class Reach(Enum):
    """Where pods may fit after an event that did not fit before."""

    NODES = auto()
    """On the nodes of the event."""

    READERS = auto()
    """On any node, for pods whose filters read a match count that the event changed."""

    CLUSTER = auto()
    """On any node."""


Events = Mapping[Event, Reach]

NODE_EVENTS: Final[Events] = {Event.NODE_ADD: Reach.NODES, Event.NODE_UPDATE: Reach.NODES}
"""Those of a rule about what a node is."""

USE_EVENTS: Final[Events] = {
    **NODE_EVENTS,
    Event.POD_DELETE: Reach.NODES,
    Event.NOMINATION_DELETE: Reach.NODES,
}
"""Those of a rule about what pods use of a node."""

PEER_EVENTS: Final[Events] = {
    **NODE_EVENTS,
    Event.DOMAINS: Reach.CLUSTER,
    Event.POD_ADD: Reach.READERS,
    Event.POD_DELETE: Reach.READERS,
    Event.TERMS: Reach.CLUSTER,
}
"""Those of a rule about other pods in the domains of a node."""


def reaches(stated: Iterable[Events]) -> Mapping[Event, frozenset[Reach]]:
    """Return how far each event reaches for any of those who state their events."""
    each = list(stated)
    return {event: frozenset(it[event] for it in each if event in it) for event in Event}
