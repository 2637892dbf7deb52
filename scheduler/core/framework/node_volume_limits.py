"""NodeVolumeLimits: the limit of volumes of each CSI driver that a node can attach."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

import numpy as np

from scheduler.core.nodes.node_table import Ints, NodeTable
from scheduler.core.pods.pod_selectors import PodSelectors
from scheduler.core.pods.shapes import Codes, Shape
from scheduler.core.values.model import Attachment, VolumeUse
from scheduler.core.volumes.volume_table import UNLIMITED, VolumeTable

REASON: Final = "node(s) exceed max volume count"
MISSING_DRIVER: Final = " CSI driver is not installed on the node"
"""Suffix of the reason, behind the name of the driver."""

_NONE: Final[Ints] = np.zeros(0, np.int64)


class NodeVolumeLimits:
    """Filter for shapes with claims, or with disks of their own that a driver attaches."""

    def __init__(self, nodes: NodeTable, selectors: PodSelectors, volumes: VolumeTable) -> None:
        self._nodes = nodes
        self._selectors = selectors
        self._volumes = volumes
        self._attached = Attached(nodes, selectors, volumes)
        self._limits_key = (-1, -1, -1)
        self._by_driver: dict[str, Ints] = {}

    def rule_out(self, shape: Shape, codes: Codes) -> None:
        """Write the reason's code for each node (N,) that cannot attach one more pod's volumes."""
        drivers = {volume: _driver(self._volumes, volume) for volume in shape.volumes}
        for driver in sorted(set(drivers.values()) - {""}):
            limits = self._limits(driver)
            if limits is None:
                continue
            if driver in self._volumes.required_drivers:
                # As kube-scheduler since 1.37, also for a volume that is attached to the node.
                shape.rule_out(codes, limits < 0, f"{driver}{MISSING_DRIVER}")
            more = np.zeros(len(codes), np.int64)
            for volume, of_volume in drivers.items():
                if of_volume == driver:
                    more += 1
                    # A volume that a pod on the node uses already is attached there.
                    more[self._users(volume)] -= 1
            # A node beyond its limit takes pods that add no volume.
            beyond = self._attached.of(driver) + more > limits
            shape.rule_out(codes, beyond & (more > 0), REASON)

    def remaining_volumes(self, driver: str, rows: Ints) -> int:
        """Return the most volumes of the driver that any of the rows (n,) can still attach."""
        limits = self._limits(driver)
        if limits is None:
            return UNLIMITED
        return int((limits[rows] - self._attached.of(driver)[rows]).max(initial=0))

    def new_by_driver(self, shape: Shape) -> Counter[str]:
        """Return for each driver the number of the shape's volumes that no pod on any node uses."""
        counts, users = self._nodes.match_counts, self._selectors.users
        # A volume in use may be attached to the node in question, and would not count there.
        unused = (v for v in shape.volumes if counts.empty(users(v)))
        return Counter(_driver(self._volumes, volume) for volume in unused)

    def limited(self, shape: Shape) -> bool:
        """Return True if a node has a limit for a driver of the shape's volumes."""
        drivers = {_driver(self._volumes, volume) for volume in shape.volumes}
        return any(self._limits(driver) is not None for driver in drivers)

    def _limits(self, driver: str) -> Ints | None:
        """Return the driver's limit of volumes on each node (N,), or None if no node has one.

        It is -1 on a node without a driver that it must have.
        """
        key = (self._volumes.limits_version, self._nodes.generation, self._nodes.size)
        if key != self._limits_key:
            self._limits_key = key
            self._by_driver = self._all_limits()
        return self._by_driver.get(driver)

    def _all_limits(self) -> dict[str, Ints]:
        size, required = self._nodes.size, self._volumes.required_drivers
        found: dict[str, Ints] = {driver: np.full(size, -1, np.int64) for driver in required}
        # A CSINode may come before its Node.
        for node, of_node in self._volumes.limits.items():
            row = self._nodes.row_of.get(node)
            for driver, most in of_node.items() if row is not None else ():
                if driver not in found:
                    if most == UNLIMITED:
                        continue
                    found[driver] = np.full(size, UNLIMITED, np.int64)
                found[driver][row] = most
        return found

    def _users(self, volume: VolumeUse) -> Ints:
        """Return the rows on which pods use the volume."""
        return self._nodes.match_counts.rows(self._selectors.users(volume))


class AttachableVolumes:
    """Number of further volumes of each driver that one of some rows can attach.

    It is computed once for many shapes, and is only valid until something changes.
    """

    def __init__(self, limits: NodeVolumeLimits, rows: Ints) -> None:
        self._limits = limits
        self._rows = rows
        self._left: dict[str, int] = {}

    def suffice(self, shape: Shape) -> bool:
        """Return True if each driver has a row for the shape's volumes, maybe not the same row."""
        return all(
            self._of(driver) >= more for driver, more in self._limits.new_by_driver(shape).items()
        )

    def _of(self, driver: str) -> int:
        if driver not in self._left:
            self._left[driver] = self._limits.remaining_volumes(driver, self._rows)
        return self._left[driver]


class _Counted(NamedTuple):
    """Counted users of a volume; `volume` is the one that their claim is bound to."""

    driver: str
    rows: Ints
    volume: str


class Attached:
    """Number of volumes of each driver that each node (N,) has to attach; a shared one counts once.

    Only changes since the last call are counted: there may be a volume for each pod.
    """

    def __init__(self, nodes: NodeTable, selectors: PodSelectors, volumes: VolumeTable) -> None:
        self._nodes = nodes
        self._selectors = selectors
        self._volumes = volumes
        self._by_driver: dict[str, Ints] = {}
        self._counted: dict[int, _Counted] = {}
        self._bound_to: dict[str, set[int]] = {}

    def of(self, driver: str) -> Ints:
        """Return the numbers of one driver; callers must not write to them."""
        self._catch_up()
        return self._numbers(driver)[: self._nodes.size]

    def _numbers(self, driver: str) -> Ints:
        counts = self._by_driver.get(driver, _NONE)
        if len(counts) < self._nodes.size:
            # Twice the size, so that new nodes do not copy the array each time.
            counts = np.pad(counts, (0, 2 * self._nodes.size - len(counts)))
            self._by_driver[driver] = counts
        return counts

    def _catch_up(self) -> None:
        counts, news = self._nodes.match_counts, self._volumes.news
        moved, claims, volumes = counts.moved.take(), news.claims.take(), news.volumes.take()
        # Too many changes to track them: count everything that is or may be in use.
        if moved is None or claims is None or volumes is None:
            concerned = counts.watched.union(self._counted)
        else:
            known, users = self._selectors.volumes, self._selectors.users
            concerned = moved.union(users(claim) for claim in claims if claim in known)
            concerned = concerned.union(*(self._bound_to.get(name, ()) for name in volumes))
        for match_id in concerned:
            self._count(match_id)

    def _count(self, match_id: int) -> None:
        """Replace what is counted of one volume by its current users."""
        before = self._counted.pop(match_id, None)
        if before is not None:
            self._numbers(before.driver)[before.rows] -= 1
            self._bound_to[before.volume].discard(match_id)
            if not self._bound_to[before.volume]:
                del self._bound_to[before.volume]
        use = self._selectors.use_of(match_id)
        rows = self._nodes.match_counts.rows(match_id) if use is not None else _NONE
        if use is None or not len(rows):
            return
        claim = None if isinstance(use, Attachment) else self._volumes.claims.get(use)
        volume = "" if claim is None else claim.volume
        now = _Counted(_driver(self._volumes, use), rows, volume)
        self._numbers(now.driver)[rows] += 1
        self._counted[match_id] = now
        self._bound_to.setdefault(volume, set()).add(match_id)


def _driver(volumes: VolumeTable, volume: VolumeUse) -> str:
    """Return the CSI driver that attaches the volume, or an empty string if unknown."""
    if isinstance(volume, Attachment):
        return volume.driver
    claim = volumes.claims.get(volume)
    return "" if claim is None else volumes.driver(claim)
