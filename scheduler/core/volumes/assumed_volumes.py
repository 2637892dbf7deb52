"""Volumes assumed for claims that wait for their first consumer: chosen, but not bound yet.

It corresponds to the assume cache of VolumeBinding. A volume is assumed as soon as the first pod
that uses the claim is reserved on a node, in a trial or not. The assumption ends when the last such
pod leaves or the claim is bound. So no two claims get the same volume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from scheduler.core.nodes.node_table import NodeTable
from scheduler.core.values.model import ClaimKey
from scheduler.core.volumes.volume_matching import VolumeIndex


@dataclass(frozen=True, slots=True)
class AssumedVolume:
    """Name of a claim's volume, or an empty string if one is provisioned for the node `row`."""

    volume: str
    row: int


class AssumedVolumes:
    """Assumed volumes by claim. `changed` is called with each claim that no longer has one."""

    def __init__(
        self, nodes: NodeTable, index: VolumeIndex, changed: Callable[[ClaimKey], None]
    ) -> None:
        self._nodes = nodes
        self._index = index
        self._changed = changed
        self._kept: dict[ClaimKey, AssumedVolume] = {}

    def __contains__(self, key: ClaimKey) -> bool:
        return key in self._kept

    def __iter__(self) -> Iterator[tuple[ClaimKey, AssumedVolume]]:
        """Iterate in the order of the claims' keys."""
        return iter([(key, self._kept[key]) for key in sorted(self._kept)])

    def get(self, key: ClaimKey) -> AssumedVolume | None:
        """Return the claim's assumed volume, or None."""
        return self._kept.get(key)

    def of(self, claims: Iterable[ClaimKey]) -> dict[ClaimKey, AssumedVolume]:
        """Return the assumed volumes of those claims that have one."""
        return {key: self._kept[key] for key in claims if key in self._kept}

    def keep(self, assumed: Mapping[ClaimKey, AssumedVolume]) -> None:
        """Assume the volumes chosen in a trial; call it before their pods are assumed."""
        for key, volume in assumed.items():
            self._put(key, volume)

    def end(self, key: ClaimKey) -> None:
        """Drop the assumption, because the claim is bound or deleted."""
        self._put(key, None)

    def forget_row(self, row: int) -> None:
        """Drop all assumptions for a deleted node."""
        for key in [key for key, assumed in self._kept.items() if assumed.row == row]:
            self._put(key, None)

    def change(self, key: ClaimKey, assumed: AssumedVolume | None) -> None:
        """Set the claim's assumed volume, or drop it if None; undone with the open trial."""
        before = self._kept.get(key)
        # Each undo entry is kept as long as the trial, so unchanged claims add none.
        if before != assumed:
            self._nodes.undo_by(partial(self._put, key, before))
            self._put(key, assumed)

    def _put(self, key: ClaimKey, assumed: AssumedVolume | None) -> None:
        old = self._kept.pop(key, None)
        if assumed is not None:
            self._kept[key] = assumed
            # Before `give`: the index must not offer and withdraw a volume that stays the same.
            if assumed.volume:
                self._index.take(assumed.volume)
        if old is not None:
            if old.volume:
                self._index.give(old.volume)
            if assumed is None:
                self._changed(key)
