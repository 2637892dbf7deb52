"""The cluster map: capacity and use of one resource, by node and domain, and their changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from console.base import messages
from console.base.messages import DomainTotals, Largest, MapChange, Node, RoomInDomain, Unit
from console.base.protocols import RefusedError
from console.state.state import ClusterState
from console.views.layout import MapLayout, keys_of, layout
from kube.client.quantity import QuantityError
from scheduler.core.explain.holders import held_capacity
from scheduler.core.nodes.node_classes import NodeClass
from scheduler.core.nodes.node_table import Ints
from scheduler.core.nodes.resource_table import BY_DEVICES, PODS
from scheduler.core.values.model import Requirements
from scheduler.decoding.requests import amount

_NOT_READY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_FIRST: Final = ("cpu", "memory", PODS)
_BYTES: Final = ("memory", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"

MOST_RESOURCES: Final = 64
"""Resources that the map offers. Further ones are left out."""

MOST_IN_SHAPE: Final = 16
"""Resources of a shape in the address. More are rejected."""

_LONGEST_SHAPE: Final = 1024
"""Characters of a shape in the address. More are rejected."""


@dataclass(slots=True)
class _Amounts:
    """Amounts of one resource per node (N,), and per box (boxes,), as they were sent last."""

    capacity: Ints
    used: Ints
    free: Ints
    pods: Ints
    boxes: Ints
    flags: Ints


class ClusterMap:
    """The map of one cluster. `revision` changes when nodes or domains are added or removed."""

    def __init__(self, cluster: ClusterState) -> None:
        """Start without data."""
        self._cluster = cluster
        self._seen: tuple[object, ...] = ()
        self._known: tuple[object, ...] = ()
        self._layout: MapLayout | None = None
        self._sent: dict[str, _Amounts] = {}
        self._held_room: tuple[int, Ints] | None = None
        self.revision = 0

    @property
    def layout(self) -> MapLayout:
        """The current layout. It is rebuilt, in O(nodes), only if nodes or labels changed."""
        state, cluster = self._cluster.state, self._cluster
        seen = (cluster.keys_version, state.topologies.version, state.nodes.size)
        if self._layout is None or seen != self._seen:
            keys = keys_of(state, cluster.topology_keys, cluster.settings.topology_keys)
            # `keys_of` reads attributes of devices, which can change the version: read it again.
            places = (state.topologies.version, state.nodes.size)
            self._seen = (cluster.keys_version, *places)
            if self._layout is None or self._known != (keys, places):
                self._known = (keys, places)
                made = layout(state, keys)
                if not made.same_places(self._layout):
                    self.revision += 1
                    self._sent.clear()
                self._layout = made
        assert self._layout is not None
        return self._layout

    def resources(self) -> list[messages.Resource]:
        """Return the resources that nodes offer: cpu, memory, pods, then devices by name."""
        names = self._cluster.state.nodes.resources.indices
        others = sorted(names.keys() - set(_FIRST), key=lambda name: ("/" not in name, name))
        ordered = [*(name for name in _FIRST if name in names), *others][:MOST_RESOURCES]
        return [messages.Resource(name=name, unit=unit_of(name)) for name in ordered]

    def full(self, resource: str) -> messages.Map:
        """Return the complete map. Costs O(nodes). Raises RefusedError for an unknown resource."""
        known = self.resources()
        any_node = len(self._cluster.state.nodes.row_of) > 0
        # Without nodes no resource is known yet: the map is empty, not missing.
        if any_node and all(each.name != resource for each in known):
            raise RefusedError(404, f"No node offers {resource[:253]}.")
        places = self.layout
        now = self._amounts(places, resource)
        held = self._held(places, resource)
        capacity = places.sums(now.capacity).tolist()
        used, free, reserved = now.boxes.tolist()[0], now.boxes.tolist()[1], held.tolist()
        rows = self._rows(places, now, range(len(places.names)))

        def domain(index: int) -> messages.Domain:
            box = places.boxes[index]
            return messages.Domain(
                id=box.id,
                key=box.key,
                value=box.value,
                capacity=capacity[index],
                used=used[index],
                held=reserved[index],
                free=free[index],
                children=[domain(child) for child in box.children],
                nodes=[rows[row] for row in box.rows],
            )

        return messages.Map(
            resource=resource,
            resources=known,
            keys=list(places.keys),
            domains=[domain(at) for at, box in enumerate(places.boxes) if box.parent < 0],
            revision=self.revision,
        )

    def begin(self, resource: str) -> None:
        """Start to record the changes of this resource."""
        if resource not in self._sent:
            self.changes(resource)

    def changes(self, resource: str) -> MapChange | None:
        """Return the changes since the last call; None if nodes or domains were added or removed.

        The first call returns no changes. Python's part costs O(changed nodes and domains).
        """
        before_places = self._layout
        places = self.layout
        sent = self._sent.get(resource)
        now = self._amounts(places, resource)
        held = self._held(places, resource)
        now.boxes = np.vstack((now.boxes, held))
        self._sent[resource] = now
        if sent is None:
            new = before_places is None or places.same_places(before_places)
            return MapChange(revision=self.revision, nodes=[], domains=[]) if new else None
        differs = (
            (now.used != sent.used)
            | (now.free != sent.free)
            | (now.pods != sent.pods)
            | (now.capacity != sent.capacity)
            | (now.flags != sent.flags)
        )
        changed = [row for row in np.flatnonzero(differs).tolist() if places.names[row]]
        boxes = np.flatnonzero((now.boxes != sent.boxes).any(axis=0)).tolist()
        rows = self._rows(places, now, changed)
        totals = now.boxes[:, boxes].T.tolist()
        return MapChange(
            revision=self.revision,
            nodes=list(rows.values()),
            domains=[
                DomainTotals(id=places.boxes[at].id, used=used, free=free, held=reserved)
                for at, (used, free, reserved) in zip(boxes, totals, strict=True)
            ],
        )

    def utilisation(self, most: int) -> dict[str, float]:
        """Return the used share, 0 to 1, of the `most` largest outermost domains, by value.

        Held places of pods that do not exist yet do not count as used. The resource is the first
        one besides cpu, memory and pods that any node offers, else cpu.
        """
        names = [each.name for each in self.resources()]
        special = (name for name in names if "/" in name)
        places = self.layout
        resource = next(special, "cpu")
        now = self._amounts(places, resource)
        in_use = now.boxes[0] - places.sums(self._to_come(resource))
        capacity, used = places.sums(now.capacity).tolist(), in_use.tolist()
        outermost = [at for at, box in enumerate(places.boxes) if box.parent < 0 and capacity[at]]
        largest = sorted(outermost, key=lambda at: -capacity[at])[:most]
        return {places.boxes[at].value: round(used[at] / capacity[at], 4) for at in largest}

    def forget(self, resources: set[str]) -> None:
        """Drop the resources that no stream follows."""
        for resource in self._sent.keys() - resources:
            del self._sent[resource]

    def largest(self, shape: str, key: str) -> Largest:
        """Return how many pods of the shape (`cpu=1,memory=2Gi`) fit into each domain of the key.

        It uses the scheduler's own filters, for a pod without tolerations, and leaves out places
        that are nominated for others. Raises RefusedError.
        """
        state, places = self._cluster.state, self.layout
        if key not in places.keys:
            raise RefusedError(404, f"{key[:253]} is not a topology key of the map.")
        made = state.shapes.intern(Requirements(parsed(shape)))
        with state.nodes.trial(), state.nominations.respected(("", "", ""), 0):
            slots = state.framework.slots(made).copy()
        room = places.sums(slots).tolist()
        return Largest(
            key=key,
            domains=[
                RoomInDomain(id=box.id, value=box.value, pods=room[at])
                for at, box in enumerate(places.boxes)
                if box.key == key
            ],
        )

    def _amounts(self, places: MapLayout, resource: str) -> _Amounts:
        nodes = self._cluster.state.nodes
        size = nodes.size
        index = nodes.resources.indices.get(resource)
        nothing = np.zeros(size, np.int64)
        offered = nothing if index is None else nodes.allocatable[index, :size]
        left = nothing if index is None else nodes.free[index, :size]
        itself = offered != BY_DEVICES  # there the resource is provided by devices
        capacity = np.where(itself, offered, 0)
        free = np.where(itself, left.clip(min=0), 0)
        used = np.where(itself, offered - left, 0)
        at_pods = nodes.resources.indices[PODS]
        pods = nodes.allocatable[at_pods, :size] - nodes.free[at_pods, :size]
        open_to = nodes.by_class(lambda each: not each.unschedulable)
        ready = nodes.by_class(_ready)
        # Capacity of a node that takes no pods is not free for a gang.
        boxes = np.vstack((places.sums(used), places.sums(np.where(open_to & ready, free, 0))))
        return _Amounts(capacity, used, free, pods, boxes, open_to + 2 * ready)

    def _held(self, places: MapLayout, resource: str) -> Ints:
        """Return per box the amount that is nominated or held for pods that will start."""
        nodes = self._cluster.state.nodes
        held = self._to_come(resource).copy()
        for nomination in self._cluster.state.nominations:
            for shape, there in nomination.places:
                each = 1 if resource == PODS else dict(shape.requirements.requests).get(resource, 0)
                for name, count in there if each else ():
                    row = nodes.row_of.get(name)
                    if row is not None:
                        held[row] += each * count
        return places.sums(held)

    def _to_come(self, resource: str) -> Ints:
        """Return per node (N,) the amount in held places of pods that do not exist yet."""
        nodes, expected = self._cluster.state.nodes, self._cluster.expected
        index = nodes.resources.indices.get(resource)
        if index is None or not expected:
            return np.zeros(nodes.size, np.int64)
        if self._held_room is None or self._held_room[0] != nodes.stamp:
            self._held_room = (nodes.stamp, held_capacity(self._cluster.state))
        found: Ints = self._held_room[1][index]
        return found

    def _rows(
        self, places: MapLayout, now: _Amounts, rows: range | list[int]
    ) -> dict[int, messages.Node]:
        chosen = np.fromiter(rows, np.int64, len(rows))
        columns = (now.capacity, now.used, now.free, now.pods, now.flags)
        values = zip(*(column[chosen].tolist() for column in columns), strict=True)
        return {
            row: Node(
                name=places.names[row],
                capacity=capacity,
                used=used,
                free=free,
                pods=pods,
                schedulable=bool(flags & 1),
                ready=bool(flags & 2),
            )
            for row, (capacity, used, free, pods, flags) in zip(rows, values, strict=True)
        }


def _ready(node_class: NodeClass) -> bool:
    """Return true if the taints of these nodes show that they are ready."""
    return all(taint.key not in _NOT_READY for taint in node_class.taints)


def unit_of(resource: str) -> Unit:
    """Return the unit of a resource's amounts."""
    if resource == "cpu":
        return "milli"
    return "bytes" if resource in _BYTES or resource.startswith(_HUGE_PAGES) else ""


def parsed(shape: str) -> tuple[tuple[str, int], ...]:
    """Parse `cpu=1,memory=2Gi` as requests of one pod. Raises RefusedError."""
    found: dict[str, int] = {}
    parts = [part.strip() for part in shape[: _LONGEST_SHAPE + 1].split(",")]
    if len(shape) > _LONGEST_SHAPE or len(parts) > MOST_IN_SHAPE:
        raise RefusedError(400, f"A shape must have at most {MOST_IN_SHAPE} resources.")
    for part in parts:
        name, equals, quantity = (text.strip() for text in part.partition("="))
        if not (name and equals and quantity) or name in found or name == PODS:
            raise RefusedError(
                400, "A shape must have the form cpu=1,memory=2Gi, with each resource once."
            )
        try:
            found[name] = amount(name, quantity)
        except QuantityError as error:
            raise RefusedError(400, f"{name}: {error}.") from error
        if found[name] < 0:
            raise RefusedError(400, f"{name}: must be greater than or equal to 0.")
    return tuple(sorted((name, value) for name, value in found.items() if value))
