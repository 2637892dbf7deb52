"""Where a pod's volumes let it go: claims, volumes, classes, and how many a node can attach.

The answers are those of kube-scheduler's VolumeBinding, VolumeZone, VolumeRestrictions and
NodeVolumeLimits. What claims get that wait for their first consumer is in `promises`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from scheduler.core.model import (
    ClaimInfo,
    ClaimKey,
    Expression,
    Requirements,
    StorageClassInfo,
    VolumeInfo,
)
from scheduler.core.node_table import Bools, Ints, NodeTable
from scheduler.core.plugins.volume_binding import AssumedVolumes
from scheduler.core.plugins.volume_matching import Volumes
from scheduler.core.plugins.volume_node_affinity import Reach
from scheduler.core.topology import Topologies

if TYPE_CHECKING:
    from scheduler.core.pod_selectors import PodSelectors
    from scheduler.core.shapes import Shape

UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
LOST: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
AFFINITY: Final = "node(s) didn't match PersistentVolume's node affinity"
ZONE: Final = "node(s) had no available volume zone"
LIMIT: Final = "node(s) exceed max volume count"
ONE_POD: Final = (
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)

CLAIM: Final = "persistentvolumeclaim "

_ZONE_LABELS: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_UNLIMITED: Final = 1 << 40

Codes = npt.NDArray[np.int16]


class Storage:
    """All that is known of volumes. Each change tells the columns that answers may differ now."""

    def __init__(self, nodes: NodeTable, topologies: Topologies, selectors: PodSelectors) -> None:
        self._nodes = nodes
        self._selectors = selectors
        self._reach = Reach(nodes, topologies)
        self._volumes = Volumes(
            nodes, lambda volume: np.flatnonzero(self._reach.nodes(volume.affinity))
        )
        self.claims: dict[ClaimKey, ClaimInfo] = {}
        self.classes: dict[str, StorageClassInfo] = {}
        self.limits: dict[str, Mapping[str, int]] = {}
        self.promises = AssumedVolumes(
            nodes,
            selectors,
            reach=self._reach,
            volumes=self._volumes,
            claims=self.claims,
            classes=self.classes,
        )

    @property
    def volumes(self) -> Mapping[str, VolumeInfo]:
        """By name."""
        return self._volumes.known

    def set_claim(self, claim: ClaimInfo) -> None:
        if claim.volume:
            self._volumes.take(claim.volume)
        self._drop(claim.key)
        self.claims[claim.key] = claim
        if claim.volume:
            self.promises.end(claim.key)
        self._nodes.touch()
        self.promises.heard(claim.key)

    def remove_claim(self, key: ClaimKey) -> None:
        self._drop(key)
        self.promises.end(key)
        self._nodes.touch()
        self.promises.heard(key)

    def _drop(self, key: ClaimKey) -> None:
        old = self.claims.pop(key, None)
        if old is not None and old.volume:
            self._volumes.give(old.volume)

    def set_volume(self, volume: VolumeInfo) -> None:
        before = self.volumes.get(volume.name)
        self._volumes.set(volume)
        self._nodes.touch()
        self._tell_claims(before, volume)

    def remove_volume(self, name: str) -> None:
        before = self.volumes.get(name)
        self._volumes.remove(name)
        self._nodes.touch()
        self._tell_claims(before)

    def _tell_claims(self, *volumes: VolumeInfo | None) -> None:
        for key in {volume.claim for volume in volumes if volume is not None}:
            if key is not None:
                self.promises.heard(key)

    def set_class(self, storage_class: StorageClassInfo) -> None:
        self.classes[storage_class.name] = storage_class
        self._nodes.touch()

    def remove_class(self, name: str) -> None:
        self.classes.pop(name, None)
        self._nodes.touch()

    def set_limits(self, node: str, limits: Mapping[str, int]) -> None:
        """How many volumes of each driver the node can attach; a driver not named has no limit."""
        self.limits[node] = limits
        self._nodes.touch()

    def remove_limits(self, node: str) -> None:
        self.limits.pop(node, None)
        self._nodes.touch()

    def unbound(self, requirements: Requirements) -> list[ClaimKey]:
        """Claims that have to be bound for the chosen node before a pod may run there."""
        claims = [self.claims.get(key) for key in requirements.claims]
        return [claim.key for claim in claims if claim is not None and not claim.volume]

    def one_at_a_time(self, shape: Shape) -> bool:
        """Whether a first pod shuts others out, or says where the rest may go, by its claims."""
        claims = (self.claims.get(key) for key in shape.requirements.claims)
        return any(
            claim is not None and (claim.one_pod or self.promises.open(claim)) for claim in claims
        )

    def start(self, shape: Shape, rows: Ints, room: Ints, count: int) -> int:
        """Where to begin if what the first pod's claims get there is to do for `count` pods.

        An index into `rows`, of which earlier ones are better; 0 where that makes no difference.
        """
        claims = [self.claims[key] for key in shape.requirements.claims]
        deciding = [claim for claim in claims if self.promises.open(claim)]
        if count == 1 or not deciding:
            return 0
        return self.promises.start(deciding, rows, room, count)

    def reaches(self, volume: str, row: int) -> bool:
        """Whether the node can use the volume."""
        return row in self._volumes.rows(volume)

    def rule_out(self, shape: Shape, codes: Codes) -> None:
        """Put the reason's code on every node (N,) that is not ruled out yet and is out for it."""
        claims: list[ClaimInfo] = []
        for key in shape.requirements.claims:
            claim = self.claims.get(key)
            flaw = f'{CLAIM}"{key[1]}" not found' if claim is None else ""
            if claim is not None:
                flaw = self._flaw(claim)
                claims.append(claim)
            if flaw:
                _put(shape, codes, np.ones(len(codes), np.bool_), flaw)
                return
        for claim in claims:
            if claim.volume:
                self._judge(shape, self.volumes[claim.volume], codes)
        self.promises.rule_out([claim for claim in claims if not claim.volume], shape, codes)
        self._attach(shape, claims, codes)

    def _flaw(self, claim: ClaimInfo) -> str:
        """Why no node at all will do for the claim."""
        name = claim.key[1]
        if claim.lost:
            return f'{CLAIM}"{name}" bound to non-existent persistentvolume'
        if claim.terminating:
            return f'{CLAIM}"{name}" is being deleted'
        match_id = self._selectors.claim(claim.key)
        if claim.one_pod and not self._nodes.match_counts.empty(match_id):
            return ONE_POD
        if claim.volume:
            return "" if claim.volume in self.volumes else LOST
        return "" if self.promises.waits(claim) else UNBOUND

    def _judge(self, shape: Shape, volume: VolumeInfo, codes: Codes) -> None:
        if volume.affinity is not None:
            reached = np.zeros(len(codes), np.bool_)
            reached[self._volumes.rows(volume.name)] = True
            _put(shape, codes, ~reached, AFFINITY)
        _put(shape, codes, self._other_zone(volume), ZONE)

    def _other_zone(self, volume: VolumeInfo) -> Bools:
        """Nodes (N,) with zone labels, but not the volume's."""
        zoned = np.zeros(self._nodes.size, np.bool_)
        wrong = np.zeros(self._nodes.size, np.bool_)
        for key in _ZONE_LABELS:
            zoned |= self._reach.labelled(key)
            if key in volume.labels:
                values = tuple(volume.labels[key].split("__"))
                wrong |= ~self._reach.meets(Expression(key, "In", values))
        out: Bools = wrong & zoned
        return out

    def _attach(self, shape: Shape, claims: list[ClaimInfo], codes: Codes) -> None:
        drivers = {claim.key: self._driver(claim) for claim in claims}
        for driver in sorted(set(drivers.values()) - {""}):
            limits = self._limit(driver)
            if limits is None:
                continue
            attached = self._attached(driver)
            for claim in claims:
                if drivers[claim.key] == driver:
                    more = np.ones(len(codes), np.int64)
                    more[self._users(claim.key)] = 0
                    attached += more
            _put(shape, codes, attached > limits, LIMIT)

    def _limit(self, driver: str) -> Ints | None:
        """Per node (N,) how many volumes of the driver it can attach; None: no node has a limit."""
        limits: Ints | None = None
        for node, of_node in self.limits.items():
            row = self._nodes.row_of.get(node)
            if driver in of_node and row is not None:
                if limits is None:
                    limits = np.full(self._nodes.size, _UNLIMITED, np.int64)
                limits[row] = of_node[driver]
        return limits

    def _attached(self, driver: str) -> Ints:
        """Per node (N,) how many volumes of the driver its pods use; shared ones count once."""
        attached = np.zeros(self._nodes.size, np.int64)
        for key in self._selectors.claims:
            claim = self.claims.get(key)
            if claim is not None and self._driver(claim) == driver:
                attached[self._users(key)] += 1
        return attached

    def _users(self, key: ClaimKey) -> Ints:
        return self._nodes.match_counts.rows(self._selectors.claim(key))

    def _driver(self, claim: ClaimInfo) -> str:
        if claim.volume:
            volume = self.volumes.get(claim.volume)
            return volume.driver if volume else ""
        storage_class = self.classes.get(claim.storage_class)
        return storage_class.provisioner if storage_class else ""


def _put(shape: Shape, codes: Codes, nodes: Bools, reason: str) -> None:
    codes[nodes & (codes == 0)] = shape.code(reason)
