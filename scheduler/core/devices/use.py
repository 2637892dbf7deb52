"""Which claims hold which devices, and what follows for the nodes that see these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from scheduler.core.devices.layouts import Usage, View
from scheduler.core.devices.states import UsageChange
from scheduler.core.devices.viewers import ViewGroup, ViewGroups
from scheduler.core.values.changed_keys import Changes
from scheduler.core.values.device_asks import Amounts
from scheduler.core.values.devices import AllocatedDevice, Allocation, DeviceKey
from scheduler.core.values.model import ClaimKey

Taken = Amounts | None
"""What of a device is taken: amounts of one that is shared, None for the whole."""


_Place = tuple[int, int]
"""The row of the one node that sees the devices of a claim, and their positions as a mask."""


class DeviceUse:
    """`groups` are the nodes that see devices; call `moved` when these change.

    `changed` are the claims whose `place` may be another.
    """

    def __init__(self, groups: ViewGroups) -> None:
        self._groups = groups
        self._held: dict[ClaimKey, Allocation] = {}
        self._holders: dict[DeviceKey, dict[ClaimKey, list[Taken]]] = {}
        self._places: dict[ClaimKey, _Place | None] = {}
        self.changed: Changes[ClaimKey] = Changes()

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
        self._displace((key,))
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
            self._displace(self._holders.get(device, ()))
            self._use_otherwise(device)
        return changed

    def _use_otherwise(self, device: DeviceKey) -> None:
        """Bring what is known of usages up to date."""
        for group in self._groups.seeing(device[:2]):
            position = group.view.positions.get(device)
            if group.usage is not None and position is not None:
                whole, amounts = self._taken(device, ())
                used = group.usage.used & ~(1 << position) | whole << position
                group.usage = Usage(used, group.usage.shares)
                if amounts is not None or group.usage.shares:
                    group.usage = group.usage.with_shares({position: amounts})

    def moved(self, views: Iterable[View]) -> None:
        """Nodes see these devices, or do not see them any more."""
        for view in views:
            for device in view.keys:
                self._displace(self._holders.get(device, ()))

    def _displace(self, keys: Iterable[ClaimKey]) -> None:
        for key in keys:
            self._places.pop(key, None)
            self.changed.add(key)

    def usage(self, group: ViewGroup) -> Usage:
        """What is in use of the devices that a group of nodes sees."""
        if group.usage is None:
            used = 0
            shares: dict[int, Amounts] = {}
            for position, key in enumerate(group.view.keys):
                if key in self._holders:
                    whole, amounts = self._taken(key, ())
                    used |= whole << position
                    if amounts is not None:
                        shares[position] = amounts
            group.usage = Usage(used).with_shares(shares)
        return group.usage

    def place(self, key: ClaimKey) -> _Place | None:
        """The row of the one node that sees the claim's devices, and their mask, if all is plain.

        None if several nodes see one of them, or others have one as well, or a share of it.
        """
        if key not in self._places:
            self._places[key] = self._place(key)
        return self._places[key]

    def wide(self) -> bool:
        """Whether several nodes see one pool."""
        return bool(self._groups.wide_pools)

    def rows(self, key: ClaimKey) -> set[int]:
        """The rows of all nodes that see devices of the claim."""
        pools = {each.key[:2] for each in self.held(key)}
        return set().union(*map(self._groups.rows_seeing, pools))

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
        for group, change in self._of_groups(others, freed, again=again).items():
            for row in sorted(group.rows):
                alone = found.get(row)
                found[row] = change if alone is None else alone.joined(change)
        return found

    def _of_groups(
        self, devices: Iterable[DeviceKey], freed: Collection[ClaimKey], *, again: bool
    ) -> dict[ViewGroup, UsageChange]:
        """The same for devices that several nodes see, or several claims have."""
        found: dict[ViewGroup, UsageChange] = {}
        for device in sorted(devices):
            whole, amounts = self._taken(device, freed)
            differs = whole == again  # else somebody has it, or nobody, before and after
            for group in self._groups.seeing(device[:2]):
                position = group.view.positions.get(device)
                if position is not None:
                    bit = differs << position
                    change = UsageChange(
                        0 if again else bit, bit if again else 0, ((position, amounts),)
                    )
                    found[group] = found[group].joined(change) if group in found else change
        return found

    def _place(self, key: ClaimKey) -> _Place | None:
        row, mask = -1, 0
        for each in self.held(key):
            groups = self._groups.seeing(each.key[:2])
            if len(groups) > 1 or each.share is not None or len(self._holders[each.key]) > 1:
                return None
            for group in groups:
                position = group.view.positions.get(each.key)
                if len(group.rows) > 1:
                    return None
                if position is not None:
                    (at,) = group.rows
                    if row not in (-1, at):
                        return None
                    row = at
                    mask |= 1 << position
        return row, mask

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
