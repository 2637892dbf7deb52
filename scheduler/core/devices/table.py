"""ResourceSlices, DeviceClasses and ResourceClaims, and which devices of each node are in use.

A device is in use from the time at which an allocation of its claim is assumed or seen, until the
claim's status says that it is not, or the claim is gone. Only claims hold devices: pods do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from scheduler.core.devices.allowance import Allowance
from scheduler.core.devices.claim_consumers import ClaimConsumers
from scheduler.core.devices.excess import DeviceExcess
from scheduler.core.devices.extended_resources import ExtendedResources
from scheduler.core.devices.kinds import Judge, Watched
from scheduler.core.devices.layouts import FREE, Layout, View
from scheduler.core.devices.node_attributes import AttributeColumn, NodeAttributes
from scheduler.core.devices.node_devices import NodeDevices, admitted
from scheduler.core.devices.slices import DeviceSlices
from scheduler.core.devices.sole_use import HeldDevices, Masks
from scheduler.core.devices.sortings import Sorting, Sortings
from scheduler.core.devices.states import DeviceStates, UsageChange
from scheduler.core.devices.taint_rules import DeviceTaintRule, DeviceTaintRules
from scheduler.core.devices.use import DeviceUse
from scheduler.core.devices.viewers import ViewGroup
from scheduler.core.nodes.node_table import Bools, Ints, NodeTable
from scheduler.core.values.devices import (
    Allocation,
    DeviceClaimInfo,
    DeviceClassInfo,
    DeviceKey,
    PoolKey,
    SliceInfo,
)
from scheduler.core.values.model import ClaimKey, Expression, Term

_MOST_STATES: Final = 4096
"""States are forgotten when there are more than this plus twice the number of nodes."""

_MOST_GONE: Final = 4096
"""Devices that are gone are forgotten when there are more of them than this, and most are gone."""

_NO_VIEW: Final = View.of((), lambda _scope: False)


def no_judge(expression: str, _driver: str, _device: object) -> str:
    """Stands for the judge where there is none: no selector can be evaluated."""
    return f"CEL is not available to evaluate {expression}"


class DeviceTable:
    """Updated by events; `assume` and `set_states` are undone with the open trial.

    `freed` are the claims that have given their devices back in the open trial, besides those of
    pods that `held` has as such.
    `version` changes with classes, `claims_version` with claims and assumed allocations,
    `slices_version` with slices.
    """

    def __init__(
        self,
        nodes: NodeTable,
        judge: Judge = no_judge,
        lives: Callable[[str], bool] = lambda _uid: True,
    ) -> None:
        """`lives` says of a UID whether such a pod is there and has not ended."""
        self.nodes = nodes
        self.consumers = ClaimConsumers(lives)
        self.classes: dict[str, DeviceClassInfo] = {}
        self.extended = ExtendedResources(nodes.resources)
        self.claims: dict[ClaimKey, DeviceClaimInfo] = {}
        self.assumed: dict[ClaimKey, Allocation] = {}
        self.allowance = Allowance()
        self.states = DeviceStates(self.allowance)
        self.sortings = Sortings(judge, self.allowance)
        self.attributes = NodeAttributes()
        self.version = 0
        self.claims_version = 0
        self.slices_version = 0
        self.slices = DeviceSlices(self.classes, judge, self._slice_changed)
        self._views = NodeDevices(nodes, self.slices, self.sortings, self._looked_at)
        self.groups = self._views.groups
        self._column: Ints = np.zeros(0, np.int64)
        self.use = DeviceUse(self.groups)
        self.excess = DeviceExcess(self.use, self.slices.pools)
        self.held = HeldDevices(self.consumers, self.use, self.assumed)
        self.freed: set[ClaimKey] = set()
        self._stale_groups: dict[ViewGroup, None] = {}
        self._untidy = False
        self._pool_states: tuple[int, Counter[str]] = (-1, Counter())
        self._gaining: set[int] = set()
        self._all_gain = False

    # Events

    @property
    def gaining(self) -> bool:
        """Whether `take_gaining` has anything to tell."""
        return bool(self._gaining) or self._all_gain

    def take_gaining(self) -> Collection[int]:
        """The rows on which there may be devices since the last call that there were not before."""
        rows: Collection[int] = self.nodes.row_of.values() if self._all_gain else self._gaining
        self._gaining, self._all_gain = set(), False
        return rows

    def set_slice(self, info: SliceInfo) -> None:
        self.slices.set(info)

    def remove_slice(self, name: str) -> None:
        self.slices.remove(name)

    def set_taint_rule(self, rule: DeviceTaintRule) -> None:
        """Add or replace a DeviceTaintRule; slices that it does not change cost a comparison."""
        self.slices.set_rule(rule)

    def remove_taint_rule(self, name: str) -> None:
        self.slices.remove_rule(name)

    @property
    def taint_rules(self) -> DeviceTaintRules:
        return self.slices.rules

    def set_class(self, info: DeviceClassInfo) -> None:
        before = self.classes.get(info.name)
        if before != info:
            self.extended.set_class(before, info)
            self.classes[info.name] = info
            self.slices.class_changed(info.name)
            self._all_gain = True
            self.version += 1
            self.nodes.touch()

    def remove_class(self, name: str) -> None:
        before = self.classes.pop(name, None)
        if before is not None:
            self.extended.set_class(before, None)
            self.slices.class_changed(name)
            self.version += 1
            self.nodes.touch()

    def set_claim(self, info: DeviceClaimInfo) -> None:
        self.claims[info.key] = info
        self.consumers.reserve(info.key, info.reserved, elsewhere=info.reserved_elsewhere)
        if info.allocation is not None:
            self._put_assumed(info.key, None)
            self.consumers.confirm(info.key)
        self._hold(info.key)
        self._claims_changed()

    def remove_claim(self, key: ClaimKey) -> None:
        if self.claims.pop(key, None) is not None:
            self.consumers.forget(key)
            self._put_assumed(key, None)
            self._hold(key)
            self._claims_changed()

    def node_changed(self, row: int) -> None:
        """The node of the row is new, gone, or has other labels."""
        if self.slices.written:
            self._views.make_stale((row,))

    # Assumed allocations

    def keep(self, allocations: Mapping[ClaimKey, Allocation]) -> None:
        """Assume allocations that a trial found, for claims that have none."""
        for key, allocation in allocations.items():
            claim = self.claims.get(key)
            if claim is None or claim.allocation is None:
                self._put_assumed(key, allocation)

    def use_by(self, keys: Iterable[ClaimKey], uid: str) -> None:
        """Note that an assumed pod uses these claims, as far as their allocation is assumed.

        It takes an entry of each, also of those that are allocated.
        """
        for key in keys:
            if key in self.claims:
                self.consumers.join(key, uid)
                self._count_entries(key)
            if key in self.assumed:
                self.consumers.assume(key, uid)

    def give_back(self, keys: Iterable[ClaimKey], uid: str) -> None:
        """The pod is not assumed any more: allocations that nobody else uses are dropped."""
        for key in keys:
            self._count_entries(key)
            self.consumers.leave(key, (uid,))
            if self.consumers.give_back(key, uid):
                self._put_assumed(key, None)

    def _count_entries(self, key: ClaimKey) -> None:
        """What is known of pods that name the claim does not hold, if it is full."""
        if self.consumers.is_full(key):
            self._claims_changed()

    def assume(self, key: ClaimKey, allocation: Allocation) -> None:
        """Assume an allocation in the open trial. Its devices are in use by the pod's state."""
        self.nodes.undo_by(partial(self._set_assumed, key, self.assumed.get(key)))
        self._set_assumed(key, allocation)

    def allocation(self, key: ClaimKey) -> Allocation | None:
        """What the claim has, or is assumed to have."""
        claim = self.claims.get(key)
        if claim is None or claim.allocation is None or self._is_freed(key):
            return self.assumed.get(key)
        return claim.allocation

    # Preemption

    def free(self, keys: Sequence[ClaimKey], *, again: bool = False) -> None:
        """Let claims give back what they have, in the open trial; `again`: take it once more.

        While they have not, they have no allocation. Raises PostponedError.
        """
        self.refresh()
        for key in keys if self.assumed else ():
            self._assume_freed(key, again=again)
        self._set_freed(keys, freed=not again)
        self.nodes.undo_by(partial(self._set_freed, keys, freed=again))
        self._change_states(keys, again=again)

    def free_held(self, slots: Ints, rows: Ints, *, again: bool = False) -> None:
        """The same for all claims of the pods of these slots, which are of the kind ALONE.

        `rows` are the nodes by slot. Raises PostponedError.
        """
        slots = slots[self.held.freed[slots] == again]
        self._set_held(slots, freed=not again)
        self.nodes.undo_by(partial(self._set_held, slots, freed=again))
        self._change_rows(*self.held.by_row(slots, rows), again=again)

    def _change_rows(self, rows: Ints, masks: Masks, *, again: bool) -> None:
        """Let devices of rows be free, or in use `again`; `masks` are their positions."""
        before = self._column[rows]
        after = before.copy()
        order = np.lexsort((masks, before))
        numbers, parts = before[order], masks[order]
        differs = (numbers[1:] != numbers[:-1]) | (parts[1:] != parts[:-1])
        for equal in np.split(order, np.flatnonzero(differs) + 1) if len(order) else ():
            number, mask = int(before[equal[0]]), int(masks[equal[0]])
            change = UsageChange(taken=mask) if again else UsageChange(freed=mask)
            for layout, at in self._by_layout(rows, equal, number):
                after[at] = self.states.changed(layout, number, change)
        self.set_states(rows, after)

    def _by_layout(self, rows: Ints, at: Ints, number: int) -> Iterator[tuple[Layout | None, Ints]]:
        """Rows in one state, by index, with the layout as the trial's pods there see it."""
        if not self.states.all[number].puts:
            yield None, at
            return
        column = self.sorting(self.states.all[number].watched).column[rows[at]]
        for index in np.unique(column):
            same = at[column == index]
            yield self._layout_of(int(rows[same[0]]), number), same

    def _is_freed(self, key: ClaimKey) -> bool:
        return key in self.freed or self.held.is_freed(key)

    def _set_held(self, slots: Ints, *, freed: bool) -> None:
        self.held.free(slots, freed=freed)
        self._claims_changed()

    def _assume_freed(self, key: ClaimKey, *, again: bool) -> None:
        """What is assumed of a claim ends, and comes back with its devices."""
        before, now = self.assumed.get(key), self.use.allocation(key) if again else None
        claim = self.claims.get(key)
        if before is not now and not (claim and claim.allocation):
            self.nodes.undo_by(partial(self._set_assumed, key, before))
            self._set_assumed(key, now)

    def _change_states(self, keys: Sequence[ClaimKey], *, again: bool) -> None:
        changes = self.use.changes(keys, self.freed, again=again)
        rows = np.array(list(changes), np.int64)
        if not len(rows):
            return
        after: list[int] = []
        known: dict[tuple[int, int, UsageChange], int] = {}
        numbers = self._column[rows].tolist()
        for (row, change), number in zip(changes.items(), numbers, strict=True):
            layout = self._layout_of(row, number)
            of = (layout.index if layout else -1, number, change)
            if of not in known:
                known[of] = self.states.changed(layout, number, change)
            after.append(known[of])
        self.set_states(rows, np.array(after, np.int64))

    def _layout_of(self, row: int, number: int) -> Layout | None:
        """The layout of a row as the pods that the trial put there see it; None without pods."""
        state = self.states.all[number]
        if not state.puts:
            return None
        sorting = self.sorting(state.watched)
        return sorting.layouts[int(sorting.column[row])]

    def clash(self, rows: Ints) -> Bools:
        """Per row whether claims took devices again that the trial has given to pods."""
        numbers, at = np.unique(self._column[rows], return_inverse=True)
        clashes = [self.states.all[number].clash for number in numbers.tolist()]
        found: Bools = np.array(clashes, np.bool_)[at]
        return found

    # Rows

    def sorting(self, watched: Watched) -> Sorting:
        """The layouts where these tell devices apart. Raises PostponedError, as the judge does."""
        self.refresh()
        return self.sortings.of(watched, self._views.seen, self.nodes.size)

    def states_of(self, rows: Ints | slice) -> Ints:
        """The number of each row's device state."""
        self.refresh()
        return self._column[rows]

    def set_states(self, rows: Ints, numbers: Ints) -> None:
        """Give rows other states, in the open trial."""
        self.nodes.undo_by(partial(self._restore, rows, self._column[rows].copy()))
        self._restore(rows, numbers)

    def view(self, row: int) -> View:
        self.refresh()
        group = self.groups.of(row)
        return _NO_VIEW if group is None else group.view

    def attribute(self, name: str) -> AttributeColumn | None:
        """What the nodes' devices say of an attribute, which nodes need not have.

        None if no node has it, or the name is not qualified.
        """
        if not self.slices.written or "/" not in name:
            return None
        self.refresh()
        contents, size = self.sortings.contents, self.nodes.size
        return self.attributes.column(name, self._views.seen, contents, size)

    @property
    def attributes_version(self) -> int:
        """Changes when an attribute that was asked for is another on a node."""
        if len(self.attributes):
            self.refresh()
        return self.attributes.version

    def pool_states(self) -> Mapping[str, int]:
        """How many pools that some node sees are complete, incomplete and invalid."""
        self.refresh()
        if self._pool_states[0] != self.slices_version:
            worst: dict[PoolKey, str] = {}
            for group in self.groups.all():
                for pool in group.view.pools:
                    flaw = "incomplete" if pool.incomplete else "invalid" if pool.invalid else ""
                    worst[pool.key] = flaw or worst.get(pool.key, "complete")
            counts = Counter({"complete": 0, "incomplete": 0, "invalid": 0})
            counts.update(worst.values())
            self._pool_states = (self.slices_version, counts)
        return self._pool_states[1]

    def admitted(self, terms: tuple[Term, ...] | None) -> Bools:
        """Nodes (N,) that meet one of the terms; all if `terms` is None."""
        return admitted(self.nodes, terms)

    def reached(self, terms: tuple[Term, ...] | None, rows: Iterable[int]) -> bool:
        """Whether the nodes in all these rows meet one of the terms."""
        match terms:
            case (Term((), (Expression("metadata.name", "In", (name,)),)),):  # as most do
                return all(self.nodes.name_of(row) == name for row in rows)
        admitted = self.admitted(terms)
        return all(admitted[row] for row in rows)

    def refresh(self) -> None:
        """Look again at what changed since the last call. All that adds states calls this first."""
        for _ in self._views.look_again() if self._views.stale else ():
            pass
        self._refresh_states()

    def catch_up(self) -> Iterator[None]:
        """The same in short steps, between which anything may change."""
        if self._views.stale:
            yield from self._views.look_again()
        self._refresh_states()

    def _refresh_states(self) -> None:
        self._untidy = True
        self._grow()
        for group in self._stale_groups:
            if group.rows:
                self._column[group.array()] = self.states.of(self.use.usage(group))
        self._stale_groups.clear()

    def _grow(self) -> None:
        size = self.nodes.size
        if size > len(self._column):
            self._column = np.pad(self._column, (0, max(64, size, len(self._column))))

    def tidy(self) -> None:
        """Forget states that no node is in, if there are many. Not inside a trial.

        Called after every event, so it looks only if something was added or removed.
        """
        if not self._untidy:
            return
        self._untidy = False
        if len(self.states) > _MOST_STATES + 2 * self.nodes.size:
            # The numbers are others from now on, also those of what pods ask for.
            self.states.clear()
            self._column[:] = 0
            self._stale_groups.update(dict.fromkeys(self.groups.all()))
            self.version += 1
        if len(self.sortings.contents) > _MOST_GONE + 2 * self.slices.devices:
            self.sortings.clear()
            self._views.contents_changed()

    def _restore(self, rows: Ints, numbers: Ints) -> None:
        self._column[rows] = numbers
        self.nodes.touch_rows(rows)

    def _set_assumed(self, key: ClaimKey, allocation: Allocation | None) -> None:
        self.assumed.pop(key, None)
        if allocation is not None:
            self.assumed[key] = allocation
        self._claims_changed()

    def _set_freed(self, keys: Iterable[ClaimKey], *, freed: bool) -> None:
        if freed:
            self.freed.update(keys)
        else:
            self.freed.difference_update(keys)
        self._claims_changed()

    def _claims_changed(self) -> None:
        self.claims_version += 1
        self.nodes.touch()

    # Views

    def _slice_changed(self, info: SliceInfo) -> None:
        self._untidy = True
        rows = self._views.pool_changed(info)
        self._gaining |= rows
        self.excess.pool_changed(info.pool_key)
        self.slices_version += 1
        self.nodes.touch_rows(np.array(sorted(rows), np.int64))

    def _looked_at(self, rows: list[int], views: Collection[View]) -> None:
        """What the nodes in these rows see was found out: they had or have these views."""
        self._grow()
        self.sortings.stale(set(rows))
        self._column[rows] = self.states.of(FREE)
        groups = (self.groups.of(row) for row in rows)
        self._stale_groups.update((group, None) for group in groups if group is not None)
        self.use.moved(views)
        contents = self.sortings.contents
        self.attributes.rows_changed(rows, self._views.seen, contents, self.nodes.size)

    # Use

    def _put_assumed(self, key: ClaimKey, allocation: Allocation | None) -> None:
        before = self.assumed.pop(key, None)
        if allocation is not None:
            self.assumed[key] = allocation
        if before is not allocation:
            self._hold(key)
            self._claims_changed()

    def _hold(self, key: ClaimKey) -> None:
        """Let the claim hold what it has now, and nothing else."""
        before, now = self.use.held(key), self.allocation(key)
        changed = self.use.hold(key, now)
        for device in changed:
            self._used_otherwise(device)
        for each in before if changed else ():
            self._gaining |= self.groups.rows_seeing(each.key[:2])

    def _used_otherwise(self, device: DeviceKey) -> None:
        for group in self.groups.seeing(device[:2]):
            self._stale_groups[group] = None
            self.nodes.touch_rows(group.array())
