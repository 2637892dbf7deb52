"""The claims whose pods are taken off their nodes in a dry run: they give their devices back.

A claim does once no other living pod may use it. Whoever is no pod keeps it for good.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from scheduler.core.devices.table import DeviceTable
from scheduler.core.values.model import ClaimKey


class ReleasedClaims:
    """Counts, in the open trial, how many consumers of each claim were taken off their nodes."""

    def __init__(self, devices: DeviceTable) -> None:
        self._devices = devices
        self._released: dict[ClaimKey, int] = {}

    def release(self, uids: Iterable[str], sign: int) -> None:
        """Take these pods off their claims, in the open trial; -1 puts them back."""
        devices = self._devices
        claims_of, living = devices.consumers.claims_of, devices.consumers.living
        keys: list[ClaimKey] = []
        shared: list[ClaimKey] = []
        for uid in uids:
            for key in claims_of(uid):
                (keys if living(key) == 1 else shared).append(key)
        if shared:
            self._count(shared, sign)
            devices.nodes.undo_by(partial(self._count, shared, -sign))
            free = sign > 0
            keys += (
                key
                for key in dict.fromkeys(shared)
                if (self._released.get(key, 0) >= living(key)) == free
            )
        self._free(keys, again=sign < 0)

    def release_returning(self) -> None:
        """Let the claims whose pods are gone already give their devices back, in the open trial."""
        self._free(self._devices.consumers.returning, again=False)

    def _free(self, keys: Iterable[ClaimKey], *, again: bool) -> None:
        freed = self._devices.freed
        changing = [key for key in keys if (key in freed) == again]
        if changing:
            self._devices.free(changing, again=again)

    def _count(self, keys: Iterable[ClaimKey], sign: int) -> None:
        for key in keys:
            count = self._released.get(key, 0) + sign
            if count:
                self._released[key] = count
            else:
                self._released.pop(key, None)
