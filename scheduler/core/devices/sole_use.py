"""Devices that a pod's eviction releases, as columns: for preemption.

Most pods have devices of their own node for themselves alone. What thousands of such pods release
is computed by node, without a visit to each claim. Other pods are counted claim by claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.core.devices.claim_consumers import ClaimConsumers
from scheduler.core.devices.use import DeviceUse
from scheduler.core.nodes.node_table import Bools, Ints
from scheduler.core.values.devices import Allocation
from scheduler.core.values.model import ClaimKey

Masks = NDArray[np.uint64]

NONE: Final = 0
ALONE: Final = 1
OTHERWISE: Final = 2
_POSITIONS: Final = 64
FIRST_POSITIONS: Final = (1 << _POSITIONS) - 1
"""Mask of all positions that `masks` can contain."""


class HeldDevices:
    """Sole-use devices of pods: `kinds` and `masks` for each slot of the table of units.

    A pod of kind ALONE is the last consumer of all its claims, and these hold nothing but the
    devices of `masks`, by position, of the pod's node. A pod of kind NONE has no claims, all others
    are of kind OTHERWISE. `freed` are the pods of kind ALONE whose claims are released in the open
    trial.
    """

    def __init__(
        self,
        consumers: ClaimConsumers,
        use: DeviceUse,
        assumed: Mapping[ClaimKey, Allocation],
    ) -> None:
        self.kinds: NDArray[np.int8] = np.zeros(0, np.int8)
        self.masks: Masks = np.zeros(0, np.uint64)
        self.freed: Bools = np.zeros(0, np.bool_)
        self._consumers = consumers
        self._use = use
        self._assumed = assumed
        self._freed = 0
        self._slots: dict[str, int] = {}
        self._stale: set[str] = set()

    def refresh_one(self, slots: Mapping[str, int], rows: Ints) -> bool:
        """Refresh one pod whose claims changed; return False if there is none.

        Must not be called while any pod is freed. `slots` has the slots of all pods by UID, `rows`
        the nodes by slot (slots,).
        """
        if len(rows) > len(self.kinds):
            more = len(rows) - len(self.kinds)
            self.kinds = np.pad(self.kinds, (0, more))
            self.masks = np.pad(self.masks, (0, more))
            self.freed = np.pad(self.freed, (0, more))
        self._stale |= self._changed(slots)
        if not self._stale:
            return False
        # One pod for each call, so that the caller can give way between two.
        uid = self._stale.pop()
        self.forget(uid)
        slot = slots.get(uid)
        if slot is not None:
            self._add(uid, slot, int(rows[slot]))
        return True

    def stale(self, uid: str) -> None:
        """Schedule a refresh of a pod that is new in the table or moved to another node."""
        # Most pods have no claims and cost nothing.
        if self._consumers.claims_of(uid):
            self._consumers.changed.add(uid)

    def forget(self, uid: str) -> None:
        """Clear the slot of a pod."""
        slot = self._slots.pop(uid, None)
        if slot is not None:
            self.kinds[slot] = NONE
            self.masks[slot] = 0

    def is_freed(self, key: ClaimKey) -> bool:
        """Return True if the claim belongs to a `freed` pod."""
        if not self._freed:
            return False
        slots = (self._slots.get(uid) for uid in self._consumers.of(key))
        return any(slot is not None and bool(self.freed[slot]) for slot in slots)

    def free(self, slots: Ints, *, freed: bool) -> None:
        """Record that the claims of these pods released their devices, or took them again."""
        self.freed[slots] = freed
        self._freed += len(slots) if freed else -len(slots)

    def counts(self, slots: Ints, able: Masks, rows: Ints) -> Ints:
        """Return the number of devices, of those `able` by row, that pods of kind ALONE have."""
        found: Ints = np.bitwise_count(self.masks[slots] & able[rows[slots]]).astype(np.int64)
        return found

    def by_row(self, slots: Ints, rows: Ints) -> tuple[Ints, Masks]:
        """Return the rows on which pods of kind ALONE have devices, and the masks of positions."""
        slots = slots[self.masks[slots] != 0]
        order = np.argsort(rows[slots], kind="stable")
        found, first = np.unique(rows[slots][order], return_index=True)
        if not len(found):
            return found, np.zeros(0, np.uint64)
        return found, np.bitwise_or.reduceat(self.masks[slots][order], first)

    def _changed(self, slots: Mapping[str, int]) -> set[str]:
        uids, keys = self._consumers.changed.take(), self._use.changed.take()
        if uids is None or keys is None:
            # Too many changes were recorded to keep them: all pods with claims are stale.
            return {*self._slots, *(uid for uid in slots if self._consumers.claims_of(uid))}
        return uids.union(*map(self._consumers.of, keys))

    def _add(self, uid: str, slot: int, row: int) -> None:
        keys = self._consumers.claims_of(uid)
        if keys:
            mask = self._alone(keys, row)
            self._slots[uid] = slot
            self.kinds[slot] = OTHERWISE if mask is None else ALONE
            self.masks[slot] = mask or 0

    def _alone(self, keys: Iterable[ClaimKey], row: int) -> int | None:
        """Return the mask of the row's devices that these claims hold for one pod.

        Return None if the claims hold anything else, have other consumers, or are only assumed.
        """
        found = 0
        for key in keys:
            place = self._use.place(key)
            # With another living consumer, the claim keeps its devices when this pod is evicted. An
            # assumed allocation may still change.
            if place is None or self._consumers.living(key) != 1 or key in self._assumed:
                return None
            at, mask = place
            if mask and at != row:
                return None
            found |= mask
        # A column of masks has 64 bits; pods with devices at later positions are counted by claim.
        return found if found.bit_length() <= _POSITIONS else None
