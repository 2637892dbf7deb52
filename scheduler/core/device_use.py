"""Which claims hold which devices, and what follows for the nodes that see these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from scheduler.core.devices.asks import Amounts
from scheduler.core.devices.layouts import Usage, View
from scheduler.core.devices.model import AllocatedDevice, Allocation, DeviceKey, PoolKey
from scheduler.core.devices.states import UsageChange
from scheduler.core.model import ClaimKey

Taken = Amounts | None
"""What of a device is taken: amounts of one that is shared, None for the whole."""


_Place = tuple[int, int]
"""The row of the one node that sees the devices of a claim, and their positions as a mask."""


class DeviceUse:
    """`rows_of` are the nodes that see a pool; call `moved` when they or `views` change."""

    def __init__(self, rows_of: Mapping[PoolKey, set[int]], views: Mapping[int, View]) -> None:
        self._rows_of = rows_of
        self._views = views
        self._held: dict[ClaimKey, Allocation] = {}
        self._holders: dict[DeviceKey, dict[ClaimKey, list[Taken]]] = {}
        self._places: dict[ClaimKey, _Place | None] = {}

    def __len__(self) -> int:
        """How many devices somebody has."""
        return len(self._holders)

    def allocation(self, key: ClaimKey) -> Allocation | None:
        """What the claim has, outside of a trial."""
        return self._held.get(key)

    def held(self, key: ClaimKey) -> tuple[AllocatedDevice, ...]:
        """The devices that the claim keeps others from."""
        found = self._held.get(key)
        return tuple(each for each in found.devices if not each.admin) if found else ()

    def takers(self, device: DeviceKey) -> Mapping[ClaimKey, list[Taken]]:
        """The claims that have the device, and what of it."""
        return self._holders.get(device, {})

    def hold(self, key: ClaimKey, now: Allocation | None) -> set[DeviceKey]:
        """Let the claim hold this and nothing else; the devices for which that makes a change."""
        before = self._held.pop(key, None)
        if now is not None:
            self._held[key] = now
        if before == now:
            return set()
        self._places.pop(key, None)
        changed: set[DeviceKey] = set()
        for each in before.devices if before else ():
            holders = self._holders.get(each.key, {})
            if holders.pop(key, None) is not None:
                changed.add(each.key)
                if not holders:
                    del self._holders[each.key]
        for each in self.held(key):
            taken = None if each.share is None else each.consumed
            self._holders.setdefault(each.key, {}).setdefault(key, []).append(taken)
            changed.add(each.key)
        for device in changed:
            for other in self._holders.get(device, ()):
                self._places.pop(other, None)
        return changed

    def moved(self) -> None:
        """Nodes see other devices."""
        self._places.clear()

    def usage(self, view: View) -> Usage:
        """What is in use of the devices of a view."""
        used = 0
        shares: dict[int, Amounts] = {}
        for position, key in enumerate(view.keys):
            if key in self._holders:
                whole, amounts = self._taken(key, ())
                used |= whole << position
                if amounts is not None:
                    shares[position] = amounts
        return Usage(used).with_shares(shares)

    def place(self, key: ClaimKey) -> _Place | None:
        """The row of the one node that sees the claim's devices, and their mask, if all is plain.

        None if several nodes see one of them, or others have one as well, or a share of it.
        """
        if key not in self._places:
            self._places[key] = self._place(key)
        return self._places[key]

    def wide(self) -> bool:
        """Whether several nodes see one pool."""
        return any(len(rows) > 1 for rows in self._rows_of.values())

    def rows(self, key: ClaimKey) -> set[int]:
        """The rows of all nodes that see devices of the claim."""
        pools = {each.key[:2] for each in self.held(key)}
        return set().union(*(self._rows_of.get(pool, ()) for pool in pools))

    def changes(
        self, keys: Iterable[ClaimKey], freed: Collection[ClaimKey], *, again: bool
    ) -> dict[int, UsageChange]:
        """What changes by row if the claims give back what they have, or take it `again`.

        `freed` are all claims that have given theirs back then.
        """
        masks: dict[int, int] = {}
        others: set[DeviceKey] = set()
        places = self._places
        for key in keys:
            place = places[key] if key in places else self.place(key)
            if place is None:
                others.update(each.key for each in self.held(key))
            else:
                row, mask = place
                masks[row] = masks.get(row, 0) | mask
        found = {
            row: UsageChange(taken=mask) if again else UsageChange(freed=mask)
            for row, mask in masks.items()
            if mask
        }
        for device in sorted(others):
            whole, amounts = self._taken(device, freed)
            differs = whole == again  # else somebody has it, or nobody, before and after
            for row in sorted(self._rows_of.get(device[:2], ())):
                position = self._views[row].positions.get(device)
                if position is not None:
                    change = found.get(row, UsageChange())
                    bit = differs << position
                    found[row] = UsageChange(
                        change.freed | (0 if again else bit),
                        change.taken | (bit if again else 0),
                        (*change.shares, (position, amounts)),
                    )
        return found

    def _place(self, key: ClaimKey) -> _Place | None:
        rows: set[int] = set()
        mask = 0
        for each in self.held(key):
            seen_by = self._rows_of.get(each.key[:2], ())
            if len(seen_by) > 1 or each.share is not None or len(self._holders[each.key]) > 1:
                return None
            for row in seen_by:
                position = self._views[row].positions.get(each.key)
                if position is not None:
                    rows.add(row)
                    mask |= 1 << position
        if len(rows) > 1:
            return None
        return next(iter(rows), -1), mask

    def _taken(
        self, device: DeviceKey, without: Collection[ClaimKey]
    ) -> tuple[bool, Amounts | None]:
        """Whether somebody has the device, and how much of it those have that share it."""
        whole = False
        sums: dict[str, int] | None = None
        for key, taken in self._holders.get(device, {}).items():
            for amounts in taken if key not in without else ():
                if amounts is None:
                    whole = True
                    continue
                sums = {} if sums is None else sums
                for name, amount in amounts:
                    sums[name] = sums.get(name, 0) + amount
        return whole, None if sums is None else tuple(sorted(sums.items()))
