"""Claims that hold devices, and the usage of the nodes that see these devices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from scheduler.core.devices.layouts import DeviceUsage, DeviceView
from scheduler.core.devices.states import UsageChange
from scheduler.core.devices.viewers import ViewGroup, ViewGroups
from scheduler.core.values.changed_keys import ChangedKeys
from scheduler.core.values.device_asks import Amounts
from scheduler.core.values.devices import AllocatedDevice, Allocation, DeviceKey
from scheduler.core.values.model import ClaimKey

Taken = Amounts | None
"""Share of a device that a claim takes: amounts of a shared device, None for one it has alone."""


_Place = tuple[int, int]
"""Row of the only node that sees the devices of a claim, and the mask of their positions."""


class DeviceUse:
    """Claims that hold each device. Call `moved` when the nodes that see devices change.

    `groups` are the nodes that see devices. `changed` are the claims whose `place` may have
    changed.
    """

    def __init__(self, groups: ViewGroups) -> None:
        self._groups = groups
        self._held: dict[ClaimKey, Allocation] = {}
        self._holders: dict[DeviceKey, dict[ClaimKey, list[Taken]]] = {}
        self._places: dict[ClaimKey, _Place | None] = {}
        self.changed: ChangedKeys[ClaimKey] = ChangedKeys()

    def __len__(self) -> int:
        """Return the number of devices that claims hold."""
        return len(self._holders)

    def allocation(self, key: ClaimKey) -> Allocation | None:
        """Return the claim's allocation, without the changes of an open trial."""
        return self._held.get(key)

    def held(self, key: ClaimKey) -> tuple[AllocatedDevice, ...]:
        """Return the devices that the claim puts in use: those without adminAccess."""
        found = self._held.get(key)
        return tuple(each for each in found.devices if not each.admin) if found else ()

    def takers(self, device: DeviceKey) -> Mapping[ClaimKey, list[Taken]]:
        """Return the claims that hold the device, and their shares of it."""
        return self._holders.get(device, {})

    def hold(self, key: ClaimKey, now: Allocation | None) -> set[DeviceKey]:
        """Replace the claim's allocation, and return the devices whose use changed."""
        before = self._held.pop(key, None)
        if now is not None:
            self._held[key] = now
        # Most updates of a claim do not change its allocation.
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
            # Another claim has a place only if it has its device alone.
            self._displace(self._holders.get(device, ()))
            self._use_otherwise(device)
        return changed

    def _use_otherwise(self, device: DeviceKey) -> None:
        """Update the usages of the groups that see the device."""
        for group in self._groups.seeing(device[:2]):
            position = group.view.positions.get(device)
            # One position at a time: recomputing a group would visit all of its devices.
            if group.usage is not None and position is not None:
                whole, amounts = self._taken(device, ())
                used = group.usage.used & ~(1 << position) | whole << position
                group.usage = DeviceUsage(used, group.usage.shares)
                if amounts is not None or group.usage.shares:
                    group.usage = group.usage.with_shares({position: amounts})

    def moved(self, views: Iterable[DeviceView]) -> None:
        """Record that the nodes that see these devices changed."""
        for view in views:
            for device in view.keys:
                self._displace(self._holders.get(device, ()))

    def _displace(self, keys: Iterable[ClaimKey]) -> None:
        for key in keys:
            self._places.pop(key, None)
            self.changed.add(key)

    def usage(self, group: ViewGroup) -> DeviceUsage:
        """Return the usage of the devices that a group of nodes sees."""
        # On first use; later changes update single positions.
        if group.usage is None:
            used = 0
            shares: dict[int, Amounts] = {}
            for position, key in enumerate(group.view.keys):
                if key in self._holders:
                    whole, amounts = self._taken(key, ())
                    used |= whole << position
                    if amounts is not None:
                        shares[position] = amounts
            group.usage = DeviceUsage(used).with_shares(shares)
        return group.usage

    def place(self, key: ClaimKey) -> _Place | None:
        """Return the row of the only node that sees the claim's devices, and their mask.

        Return None if several nodes see one of them, if other claims hold one, or if one is shared.
        """
        if key not in self._places:
            self._places[key] = self._place(key)
        return self._places[key]

    def wide(self) -> bool:
        """Return True if several nodes see one pool."""
        return bool(self._groups.wide_pools)

    def rows(self, key: ClaimKey) -> set[int]:
        """Return the rows of all nodes that see devices of the claim."""
        pools = {each.key[:2] for each in self.held(key)}
        return set().union(*map(self._groups.rows_seeing, pools))

    def changes(
        self, keys: Iterable[ClaimKey], freed: Collection[ClaimKey], *, again: bool
    ) -> dict[int, UsageChange]:
        """Return the change of each row if the claims release their devices, or take them `again`.

        `freed` are all claims whose devices are released after the change.
        """
        masks: dict[int, int] = {}
        others: set[DeviceKey] = set()
        places = self._places
        for key in keys:
            # Preemption calls this for thousands of claims; most have a place and need no more.
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
        """Return the changes by group, for devices of several nodes or several claims."""
        found: dict[ViewGroup, UsageChange] = {}
        # Sorted, because the order of a set would make states depend on chance.
        for device in sorted(devices):
            whole, amounts = self._taken(device, freed)
            differs = whole == again  # else it is in use both before and after, or never
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
        """Return whether a claim has the device alone, and the sum of the shares of the others."""
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
