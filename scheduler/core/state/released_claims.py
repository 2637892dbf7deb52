"""ResourceClaims whose pods are removed from their nodes in a dry run, and their devices.

A claim releases its devices once no other living pod may use it. A claim with a consumer that is
not a pod never releases them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from scheduler.core.devices.table import DeviceTable
from scheduler.core.values.model import ClaimKey


class ReleasedClaims:
    """Counts, in the open trial, of the removed consumers of each claim."""

    def __init__(self, devices: DeviceTable) -> None:
        self._devices = devices
        self._released: dict[ClaimKey, int] = {}

    def release(self, uids: Iterable[str], sign: int) -> None:
        """Remove these pods from their claims, in the open trial; -1 restores them."""
        devices = self._devices
        claims_of, living = devices.consumers.claims_of, devices.consumers.living
        keys: list[ClaimKey] = []
        shared: list[ClaimKey] = []
        for uid in uids:
            for key in claims_of(uid):
                # The last consumer needs no count: the claim is free without it.
                (keys if living(key) == 1 else shared).append(key)
        if shared:
            self._count(shared, sign)
            # The counts are not in the node table, so the trial does not restore them by itself.
            devices.nodes.undo_by(partial(self._count, shared, -sign))
            free = sign > 0
            keys += (
                key
                # A claim that several of these pods share is freed or taken back once.
                for key in dict.fromkeys(shared)
                if (self._released.get(key, 0) >= living(key)) == free
            )
        self._free(keys, again=sign < 0)

    def release_returning(self) -> None:
        """Release the devices of claims whose pods are deleted already, in the open trial."""
        self._free(self._devices.consumers.returning, again=False)

    def _free(self, keys: Iterable[ClaimKey], *, again: bool) -> None:
        freed = self._devices.freed
        # Releases overlap: a claim without pods may have been freed already.
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
