"""Claims that wait for their first consumer: which volume each is to get, and on which nodes.

A promise is made when the first pod that uses the claim takes its place, be it on trial, and kept
until the last of them gives it up or the claim is bound; so no two claims are promised one volume.
As in kube-scheduler a pod's claims choose one after another, the smallest first, and what finds no
volume is made by the provisioner of its class, if it has one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from scheduler.core.model import ClaimInfo, ClaimKey, StorageClassInfo
from scheduler.core.node_table import Bools, Ints, NodeTable
from scheduler.core.plugins.volume_matching import Volumes
from scheduler.core.plugins.volume_node_affinity import Reach

if TYPE_CHECKING:
    from scheduler.core.pod_selectors import PodSelectors
    from scheduler.core.shapes import Shape

NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"

_LEFT: Final = " is left"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_PLENTY: Final = 1 << 40
_UNITS: Final = (("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))

Codes = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class AssumedVolume:
    """What a claim is to be bound to: a volume by name, or empty one still to be made at `row`."""

    volume: str
    row: int


class AssumedVolumes:
    """All promises. `claims` and `classes` are those that are known, by key and by name.

    `heard` is called with each claim of which something is new: it, its volume, or its promise.
    """

    def __init__(
        self,
        nodes: NodeTable,
        selectors: PodSelectors,
        *,
        reach: Reach,
        volumes: Volumes,
        claims: Mapping[ClaimKey, ClaimInfo],
        classes: Mapping[str, StorageClassInfo],
    ) -> None:
        self._nodes = nodes
        self._selectors = selectors
        self._reach = reach
        self._volumes = volumes
        self._claims = claims
        self._classes = classes
        self.heard: Callable[[ClaimKey], None] = lambda _key: None
        self._kept: dict[ClaimKey, AssumedVolume] = {}
        nodes.seated = self.seat

    def __iter__(self) -> Iterator[tuple[ClaimKey, AssumedVolume]]:
        """In order."""
        return iter([(key, self._kept[key]) for key in sorted(self._kept)])

    def get(self, key: ClaimKey) -> AssumedVolume | None:
        """What the claim was promised."""
        return self._kept.get(key)

    def of(self, claims: Iterable[ClaimKey]) -> dict[ClaimKey, AssumedVolume]:
        """The promises to those of the claims that have one."""
        return {key: self._kept[key] for key in claims if key in self._kept}

    def keep(self, promises: Mapping[ClaimKey, AssumedVolume]) -> None:
        """What was chosen on trial is to be so: before the pods take their places for good."""
        for key, promise in promises.items():
            self._put(key, promise)

    def end(self, key: ClaimKey) -> None:
        """The claim is bound, or gone."""
        self._put(key, None)

    def forget_row(self, row: int) -> None:
        """The node is gone, and all that was to be there."""
        for key in [key for key, promise in self._kept.items() if promise.row == row]:
            self._put(key, None)

    def seat(self, match_ids: tuple[int, ...], row: int, more: bool) -> None:
        """Pods that these tallies count came to the node, or went: promise, or give up."""
        undecided: list[ClaimInfo] = []
        for match_id in match_ids:
            key = self._selectors.claim_of(match_id)
            claim = None if key is None else self._claims.get(key)
            if claim is None:
                continue
            if self._nodes.match_counts.empty(match_id):
                self._change(claim.key, None)
            elif more and self.open(claim):
                undecided.append(claim)
        for claim in sorted(undecided, key=_by_size):
            self._change(claim.key, AssumedVolume(self._choose(claim, row), row))

    def waits(self, claim: ClaimInfo) -> bool:
        """Whether it waits for its first consumer. What names a volume waits only for that."""
        storage_class = self._classes.get(claim.storage_class)
        waits = storage_class is not None and storage_class.waits
        return waits and not claim.volume and not claim.requested_volume

    def open(self, claim: ClaimInfo) -> bool:
        """Whether it waits and nothing was promised yet: its next pod decides for all others."""
        return self.waits(claim) and claim.key not in self._kept

    def start(self, claims: list[ClaimInfo], rows: Ints, room: Ints, count: int) -> int:
        """The first of the rows from which so many pods with these claims find room; else 0."""
        alone = np.flatnonzero(room >= count)
        if len(alone):
            return int(alone[0])
        seen = set[tuple[str, ...]]()
        for index, row in enumerate(rows.tolist()):
            names = self._choices(claims, row)
            if "" in names or names in seen:
                continue
            seen.add(names)
            reached = [np.isin(rows, self._volumes.rows(name)) for name in names]
            if int(room[np.logical_and.reduce(reached)].sum()) >= count:
                return index
        return 0

    def rule_out(self, claims: Iterable[ClaimInfo], shape: Shape, codes: Codes) -> None:
        """Put a reason's code on each node (N,) on which one of a pod's claims gets no volume."""
        undecided: list[ClaimInfo] = []
        for claim in sorted(claims, key=_by_size):
            promise = self._kept.get(claim.key)
            if promise is None and not claim.selected_node:
                undecided.append(claim)
                continue
            if promise is not None:
                able = self._at(promise)
            else:
                able = self._provisionable(claim) & self._named(claim.selected_node)
            codes[~able & (codes == 0)] = shape.code(NO_VOLUME)
        before = Counter[str]()
        close = np.zeros(len(codes), np.bool_)
        for claim in undecided:
            makes, free = self._provisionable(claim), self._free(claim)
            none = (free == 0) & ~makes
            if none.any():
                codes[none & (codes == 0)] = shape.code(self._nothing_left(claim))
            # Those before it may have taken all that this claim could get.
            close |= (free <= before[claim.storage_class]) & (free > 0) & ~makes
            before[claim.storage_class] += 1
        for row in np.flatnonzero(close & (codes == 0)).tolist():
            failed = self._short(undecided, row)
            if failed is not None:
                codes[row] = shape.code(self._nothing_left(failed))

    def _free(self, claim: ClaimInfo) -> Ints:
        """Per node (N,) the volumes that there are for the claim; one meant for it bars others."""
        meant = self._volumes.meant_for(claim)
        if not meant:
            return self._volumes.free(claim)
        free = np.zeros(self._nodes.size, np.int64)
        free[self._volumes.rows(meant)] = _PLENTY
        return free

    def _short(self, claims: list[ClaimInfo], row: int) -> ClaimInfo | None:
        """The first of the claims that gets none on the node."""
        for claim, name in zip(claims, self._choices(claims, row), strict=True):
            if not name and not self._provisionable(claim)[row]:
                return claim
        return None

    def _choices(self, claims: list[ClaimInfo], row: int) -> tuple[str, ...]:
        """What the claims get on the node, choosing one after another."""
        names: list[str] = []
        for claim in claims:
            names.append(self._choose(claim, row, names))
        return tuple(names)

    def _choose(self, claim: ClaimInfo, row: int, without: Collection[str] = ()) -> str:
        """The volume that the claim gets on the node, or nothing: one has to be made."""
        if claim.selected_node:
            return ""
        meant = self._volumes.meant_for(claim)
        if meant:
            return meant if row in self._volumes.rows(meant) else ""
        return self._volumes.best(claim, row, without)

    def _change(self, key: ClaimKey, promise: AssumedVolume | None) -> None:
        """Like _put, and undone with the trial that it happens in."""
        before = self._kept.get(key)
        if before != promise:
            self._nodes.undo_by(partial(self._put, key, before))
            self._put(key, promise)

    def _put(self, key: ClaimKey, promise: AssumedVolume | None) -> None:
        old = self._kept.pop(key, None)
        if promise is not None:
            self._kept[key] = promise
            if promise.volume:
                self._volumes.take(promise.volume)
        if old is not None:
            if old.volume:
                self._volumes.give(old.volume)
            if promise is None:
                self.heard(key)

    def _nothing_left(self, claim: ClaimInfo) -> str:
        """Why a node has no volume for it. Where one could be made elsewhere, as upstream says."""
        if self._makes(claim):
            return NO_VOLUME
        chosen = " that its selector selects" if claim.selector is not None else ""
        modes = "".join(f"{mode} " for mode in claim.access)
        size = _bytes(claim.size)
        return f"no {modes}volume of class {claim.storage_class} with >= {size}{chosen}{_LEFT}"

    def _makes(self, claim: ClaimInfo) -> bool:
        return self._classes[claim.storage_class].provisioner not in ("", _NO_PROVISIONER)

    def _provisionable(self, claim: ClaimInfo) -> Bools:
        """Nodes (N,) on which the claim's class can make a volume."""
        if not self._makes(claim):
            return np.zeros(self._nodes.size, np.bool_)
        return self._reach.nodes(self._classes[claim.storage_class].topologies or None)

    def _at(self, promise: AssumedVolume) -> Bools:
        """Nodes (N,) where a claim can be used to which this was promised."""
        able = np.zeros(self._nodes.size, np.bool_)
        able[self._volumes.rows(promise.volume) if promise.volume else promise.row] = True
        return able

    def _named(self, node: str) -> Bools:
        named = np.zeros(self._nodes.size, np.bool_)
        row = self._nodes.row_of.get(node)
        if row is not None:
            named[row] = True
        return named


def is_short(reason: str) -> bool:
    """Whether a class without provisioner has too few volumes."""
    return reason.endswith(_LEFT)


def _by_size(claim: ClaimInfo) -> tuple[int, ClaimKey]:
    return (claim.size, claim.key)


def _bytes(size: int) -> str:
    """Such as 10Gi, in the largest unit in which it comes out even."""
    for unit, bits in _UNITS:
        if size and not size % (1 << bits):
            return f"{size >> bits}{unit}"
    return str(size)
