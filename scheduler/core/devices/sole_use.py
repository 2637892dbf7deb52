"""Which devices leave their claims with which pod, as columns: for preemption.

Most pods keep devices of their own node for themselves alone. What thousands of such pods give back
is worked out by node, without a look at each claim. Others are counted claim by claim.
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
"""All positions that `masks` can have."""


class HeldDevices:
    """Per slot of the table of units: `kinds` and `masks`.

    A pod of kind ALONE is the last consumer of all its claims, and these have nothing but the
    devices of `masks`, by position, of the pod's node. A pod of kind NONE has no claims. `freed`
    are the pods of kind ALONE whose claims have given their devices back in the open trial.
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
        """Look again at a pod whose claims changed; whether there was one. Not while any is freed.

        `slots` are those of all pods by UID, `rows` the nodes by slot (slots,).
        """
        if len(rows) > len(self.kinds):
            more = len(rows) - len(self.kinds)
            self.kinds = np.pad(self.kinds, (0, more))
            self.masks = np.pad(self.masks, (0, more))
            self.freed = np.pad(self.freed, (0, more))
        self._stale |= self._changed(slots)
        if not self._stale:
            return False
        uid = self._stale.pop()
        self.forget(uid)
        slot = slots.get(uid)
        if slot is not None:
            self._add(uid, slot, int(rows[slot]))
        return True

    def stale(self, uid: str) -> None:
        """The pod has come into the table, or to another node."""
        if self._consumers.claims_of(uid):
            self._consumers.changed.add(uid)

    def forget(self, uid: str) -> None:
        """The pod leaves its slot."""
        slot = self._slots.pop(uid, None)
        if slot is not None:
            self.kinds[slot] = NONE
            self.masks[slot] = 0

    def is_freed(self, key: ClaimKey) -> bool:
        """Whether the claim is one of those that `freed` pods have given back."""
        if not self._freed:
            return False
        slots = (self._slots.get(uid) for uid in self._consumers.of(key))
        return any(slot is not None and bool(self.freed[slot]) for slot in slots)

    def free(self, slots: Ints, *, freed: bool) -> None:
        """The claims of these pods have given their devices back, or took them again."""
        self.freed[slots] = freed
        self._freed += len(slots) if freed else -len(slots)

    def counts(self, slots: Ints, able: Masks, rows: Ints) -> Ints:
        """How many devices that are `able`, by row, the pods of these slots of kind ALONE have."""
        found: Ints = np.bitwise_count(self.masks[slots] & able[rows[slots]]).astype(np.int64)
        return found

    def by_row(self, slots: Ints, rows: Ints) -> tuple[Ints, Masks]:
        """The nodes on which pods of kind ALONE have devices, and which by position."""
        slots = slots[self.masks[slots] != 0]
        order = np.argsort(rows[slots], kind="stable")
        found, first = np.unique(rows[slots][order], return_index=True)
        if not len(found):
            return found, np.zeros(0, np.uint64)
        return found, np.bitwise_or.reduceat(self.masks[slots][order], first)

    def _changed(self, slots: Mapping[str, int]) -> set[str]:
        uids, keys = self._consumers.changed.take(), self._use.changed.take()
        if uids is None or keys is None:
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
        """The devices of the row that these claims keep for one pod; None if that is not all."""
        found = 0
        for key in keys:
            place = self._use.place(key)
            if place is None or self._consumers.living(key) != 1 or key in self._assumed:
                return None
            at, mask = place
            if mask and at != row:
                return None
            found |= mask
        return found if found.bit_length() <= _POSITIONS else None
