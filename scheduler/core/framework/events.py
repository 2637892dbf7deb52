"""Events that can make a rejected pod fit, and where in the cluster each can do so.

kube-scheduler's plugins state the same with EventsToRegister. Muster checks the effect of an event
for all shapes and nodes at once. So a plugin states no queueing hint for each pod, but how far the
event reaches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, StrEnum, auto
from typing import Final


class Event(StrEnum):
    """Events, with kube-scheduler's names where it has the event."""

    NODE_ADD = "Node/Add"
    NODE_UPDATE = "Node/Update"
    DOMAINS = "Domains/Update"
    """Topology domains changed, while pods have terms about other pods or volumes."""

    POD_ADD = "AssignedPod/Add"
    POD_DELETE = "AssignedPod/Delete"
    TERMS = "Terms/Update"
    """Terms about other pods were added or removed, so other match counts include assigned pods."""

    NOMINATION_DELETE = "Nomination/Delete"
    CLAIM_RELEASE = "PersistentVolumeClaim/Release"
    """A pod that used a ReadWriteOncePod claim left its node."""

    VOLUME_RELEASE = "PersistentVolume/Release"
    """A pod whose claim had an assumed volume left its node."""

    CLAIM = "PersistentVolumeClaim/*"
    VOLUME = "PersistentVolume/*"
    STORAGE_CLASS = "StorageClass/*"
    CSI_DRIVER = "CSIDriver/*"
    CSI_NODE = "CSINode/*"
    STORAGE_CAPACITY = "CSIStorageCapacity/*"
    DEVICES = "ResourceSlice,DeviceClass,DeviceTaintRule,ResourceClaim/*"
    """Nodes have free devices that they did not have before."""


class Reach(Enum):
    """Nodes on which rejected pods may fit after an event."""

    NODES = auto()
    """The nodes of the event."""

    READERS = auto()
    """All nodes, for pods whose filters read a match count that the event changed."""

    CLUSTER = auto()
    """All nodes."""


Events = Mapping[Event, Reach]

NODE_EVENTS: Final[Events] = {Event.NODE_ADD: Reach.NODES, Event.NODE_UPDATE: Reach.NODES}
"""Events of a rule about the node object."""

USE_EVENTS: Final[Events] = {
    # No POD_ADD: another pod never frees anything on its node.
    **NODE_EVENTS,
    Event.POD_DELETE: Reach.NODES,
    Event.NOMINATION_DELETE: Reach.NODES,
}
"""Events of a rule about resources that pods use on a node."""

PEER_EVENTS: Final[Events] = {
    **NODE_EVENTS,
    Event.DOMAINS: Reach.CLUSTER,
    # A new pod may be the peer that affinity needs, or even out a spread.
    Event.POD_ADD: Reach.READERS,
    Event.POD_DELETE: Reach.READERS,
    Event.TERMS: Reach.CLUSTER,
}
"""Events of a rule about other pods in the domains of a node."""


def reaches(stated: Iterable[Events]) -> Mapping[Event, frozenset[Reach]]:
    """Return the reaches that any of the plugins states for each event."""
    each = list(stated)
    return {event: frozenset(it[event] for it in each if event in it) for event in Event}
