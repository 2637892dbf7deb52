"""What claims get that wait for their first consumer: decided by us, not bound yet.

An assumption is made when the first pod that uses the claim takes its place, be it on trial, and
kept until the last of them gives it up or the claim is bound; so no two claims get one volume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from scheduler.core.model import ClaimKey
from scheduler.core.node_table import NodeTable
from scheduler.core.plugins.volume_matching import VolumeIndex


@dataclass(frozen=True, slots=True)
class AssumedVolume:
    """What a claim is to be bound to: a volume by name, or empty one still to be made at `row`."""

    volume: str
    row: int


class AssumedVolumes:
    """By claim. `changed` is called with each claim whose assumption ended."""

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
        """In order."""
        return iter([(key, self._kept[key]) for key in sorted(self._kept)])

    def get(self, key: ClaimKey) -> AssumedVolume | None:
        """What the claim is to get."""
        return self._kept.get(key)

    def of(self, claims: Iterable[ClaimKey]) -> dict[ClaimKey, AssumedVolume]:
        """What those of the claims get for which something is assumed."""
        return {key: self._kept[key] for key in claims if key in self._kept}

    def keep(self, assumed: Mapping[ClaimKey, AssumedVolume]) -> None:
        """What was chosen on trial is to be so: before the pods take their places for good."""
        for key, volume in assumed.items():
            self._put(key, volume)

    def end(self, key: ClaimKey) -> None:
        """The claim is bound, or gone."""
        self._put(key, None)

    def forget_row(self, row: int) -> None:
        """The node is gone, and all that was to be there."""
        for key in [key for key, assumed in self._kept.items() if assumed.row == row]:
            self._put(key, None)

    def change(self, key: ClaimKey, assumed: AssumedVolume | None) -> None:
        """Assume this for the claim, or nothing; undone with the trial that it happens in."""
        before = self._kept.get(key)
        if before != assumed:
            self._nodes.undo_by(partial(self._put, key, before))
            self._put(key, assumed)

    def _put(self, key: ClaimKey, assumed: AssumedVolume | None) -> None:
        old = self._kept.pop(key, None)
        if assumed is not None:
            self._kept[key] = assumed
            if assumed.volume:
                self._index.take(assumed.volume)
        if old is not None:
            if old.volume:
                self._index.give(old.volume)
            if assumed is None:
                self._changed(key)
