"""ResourceSlices, DeviceClasses and ResourceClaims, and the devices in use on each node.

A device is in use as soon as an allocation of its claim is assumed or observed. It is free when the
claim's status no longer has an allocation, or the claim is deleted. Only claims hold devices: pods
do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from scheduler.core.devices.allowance import DeviceAllowance
from scheduler.core.devices.claim_consumers import ClaimConsumers
from scheduler.core.devices.excess import DeviceExcess
from scheduler.core.devices.extended_resources import ExtendedResources
from scheduler.core.devices.kinds import SelectorEvaluator, Watched
from scheduler.core.devices.layouts import FREE, DeviceLayout, DeviceView
from scheduler.core.devices.node_attributes import AttributeColumn, NodeAttributes
from scheduler.core.devices.node_devices import NodeDevices, admitted
from scheduler.core.devices.slices import DeviceSlices
from scheduler.core.devices.sole_use import HeldDevices, Masks
from scheduler.core.devices.sortings import Sorting, Sortings
from scheduler.core.devices.states import DeviceStates, UsageChange
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
from scheduler.core.values.model import (
    NEWEST_RELEASE,
    ClaimKey,
    Expression,
    NodeTerm,
    Release,
)

_ALL_FAILS_AT_FULL: Final[Release] = (1, 37)
_MOST_STATES: Final = 4096
"""Limit of states, plus twice the number of nodes; beyond it, all states are dropped."""

_MOST_GONE: Final = 4096
"""Limit of contents, plus twice the number of devices; beyond it, all contents are rebuilt."""

_NO_VIEW: Final = DeviceView.of((), lambda _scope: False)


def no_evaluator(expression: str, _driver: str, _device: object) -> str:
    """Return an error for each selector, where no CEL evaluator is available."""
    return f"CEL is not available to evaluate {expression}"


class DeviceTable:
    """Device objects and their use, updated by events.

    The open trial undoes `assume` and `set_states`. `freed` are the claims that are released in the
    open trial, in addition to those of pods that are freed in `held`. `of_groups` are claims that
    are reserved for groups, so that any number of pods can use them. Allocations have the form of
    the Kubernetes `release`. `version` changes with
    classes, `claims_version` with claims and assumed allocations, `slices_version` with slices.
    """

    def __init__(
        self,
        nodes: NodeTable,
        evaluate: SelectorEvaluator = no_evaluator,
        lives: Callable[[str], bool] = lambda _uid: True,
    ) -> None:
        """Create an empty table; `lives` is True if a pod with the UID exists and has not ended."""
        self.nodes = nodes
        self.consumers = ClaimConsumers(lives)
        self.classes: dict[str, DeviceClassInfo] = {}
        self.extended = ExtendedResources(nodes.resources)
        self.claims: dict[ClaimKey, DeviceClaimInfo] = {}
        self.assumed: dict[ClaimKey, Allocation] = {}
        self.release: Release = NEWEST_RELEASE
        self.allowance = DeviceAllowance()
        self.states = DeviceStates(self.allowance)
        self.sortings = Sortings(evaluate, self.allowance)
        self.attributes = NodeAttributes()
        self.version = 0
        self.claims_version = 0
        self.slices_version = 0
        self.slices = DeviceSlices(self.classes, evaluate, self._slice_changed)
        self._views = NodeDevices(nodes, self.slices, self.sortings, self._refreshed)
        self.groups = self._views.groups
        self._column: Ints = np.zeros(0, np.int64)
        self.use = DeviceUse(self.groups)
        self.excess = DeviceExcess(self.use, self.slices.pools)
        self.held = HeldDevices(self.consumers, self.use, self.assumed)
        self.freed: set[ClaimKey] = set()
        self.of_groups: set[ClaimKey] = set()
        self._stale_groups: dict[ViewGroup, None] = {}
        self._untidy = False
        self._pool_states: tuple[int, Counter[str]] = (-1, Counter())
        self._gaining: set[int] = set()
        self._all_gain = False

    # Events

    @property
    def gaining(self) -> bool:
        """True if `take_gaining` would return any rows."""
        return bool(self._gaining) or self._all_gain

    def take_gaining(self) -> Collection[int]:
        """Return the rows that may have got free devices since the last call."""
        # Only these nodes are checked for pending pods, instead of all nodes after each event.
        rows: Collection[int] = self.nodes.row_of.values() if self._all_gain else self._gaining
        self._gaining, self._all_gain = set(), False
        return rows

    def set_release(self, release: Release) -> None:
        """Decide as kube-scheduler of this release does. Must not be called inside a trial."""
        self.release = release
        self.states.all_with_room = release < _ALL_FAILS_AT_FULL
        self._clear_states()

    def set_class(self, info: DeviceClassInfo) -> None:
        before = self.classes.get(info.name)
        if before != info:
            self.extended.set_class(before, info)
            self.classes[info.name] = info
            # After the class is stored: taint rules of Kubernetes 1.34 evaluate its selectors.
            self.slices.class_changed(info.name)
            # Pods on any node may wait for the class. A removed class helps no pod.
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
            # The status has the allocation now, which may differ from the assumed one.
            self._put_assumed(info.key, None)
            self.consumers.confirm(info.key)
        self._hold(info.key)
        self._claims_changed()

    def remove_claim(self, key: ClaimKey) -> None:
        if self.claims.pop(key, None) is not None:
            self.of_groups.discard(key)
            self.consumers.forget(key)
            # A deleted claim holds nothing, whatever was assumed for it.
            self._put_assumed(key, None)
            self._hold(key)
            self._claims_changed()

    def node_changed(self, row: int) -> None:
        """Schedule a refresh of a row whose node was added, deleted or relabeled."""
        # Clusters without devices pay nothing for node events.
        if self.slices.written:
            self._views.mark_stale((row,))

    # Assumed allocations

    def keep(self, allocations: Mapping[ClaimKey, Allocation]) -> None:
        """Assume allocations that a trial found, for claims that have none."""
        for key, allocation in allocations.items():
            claim = self.claims.get(key)
            # Another scheduler may have allocated the claim since the decision.
            if claim is None or claim.allocation is None:
                self._put_assumed(key, allocation)

    def use_by(self, keys: Iterable[ClaimKey], uid: str) -> None:
        """Record that an assumed pod uses these claims.

        It takes an entry in the status of each claim. It is an assumed consumer only of those whose
        allocation is assumed.
        """
        for key in keys:
            if key in self.claims and key not in self.of_groups:
                self.consumers.join(key, uid)
                # After joining: if it took the last entry, cached results for others are wrong.
                self._count_entries(key)
            if key in self.assumed:
                self.consumers.assume(key, uid)

    def give_back(self, keys: Iterable[ClaimKey], uid: str) -> None:
        """Remove an assumed pod, and drop assumed allocations that no other pod uses."""
        for key in keys:
            # Before leaving: if the claim is full now, cached rejections are wrong afterwards.
            self._count_entries(key)
            self.consumers.leave(key, (uid,))
            if self.consumers.give_back(key, uid):
                self._put_assumed(key, None)

    def _count_entries(self, key: ClaimKey) -> None:
        """Invalidate what is cached of the claim's pods, if the claim has no free entry."""
        if self.consumers.is_full(key):
            self._claims_changed()

    def assume(self, key: ClaimKey, allocation: Allocation) -> None:
        """Assume an allocation in the open trial.

        The node's device state has its devices in use already.
        """
        self.nodes.undo_by(partial(self._set_assumed, key, self.assumed.get(key)))
        self._set_assumed(key, allocation)

    def allocation(self, key: ClaimKey) -> Allocation | None:
        """Return the claim's allocation, or the assumed one."""
        claim = self.claims.get(key)
        if claim is None or claim.allocation is None or self._is_freed(key):
            return self.assumed.get(key)
        return claim.allocation

    # Preemption

    def free(self, keys: Sequence[ClaimKey], *, again: bool = False) -> None:
        """Release the devices of claims in the open trial; with `again`, take them back.

        A released claim has no allocation. Raises PostponedError.
        """
        self.refresh()
        for key in keys if self.assumed else ():
            self._assume_freed(key, again=again)
        # Before the states change: the changes depend on all claims that are released then.
        self._set_freed(keys, freed=not again)
        self.nodes.undo_by(partial(self._set_freed, keys, freed=again))
        self._change_states(keys, again=again)

    def free_held(self, slots: Ints, rows: Ints, *, again: bool = False) -> None:
        """Release, or take back, the devices of all claims of pods of kind ALONE in these slots.

        `rows` has the nodes by slot. Raises PostponedError.
        """
        # Pods that are in the wanted condition already must not be counted twice.
        slots = slots[self.held.freed[slots] == again]
        self._set_held(slots, freed=not again)
        self.nodes.undo_by(partial(self._set_held, slots, freed=again))
        self._change_rows(*self.held.by_row(slots, rows), again=again)

    def _change_rows(self, rows: Ints, masks: Masks, *, again: bool) -> None:
        """Set the devices at `masks` of these rows free, or in use `again`."""
        before = self._column[rows]
        after = before.copy()
        # Rows with equal states and masks change together, in one step for all of them.
        order = np.lexsort((masks, before))
        numbers, parts = before[order], masks[order]
        differs = (numbers[1:] != numbers[:-1]) | (parts[1:] != parts[:-1])
        for equal in np.split(order, np.flatnonzero(differs) + 1) if len(order) else ():
            number, mask = int(before[equal[0]]), int(masks[equal[0]])
            change = UsageChange(taken=mask) if again else UsageChange(freed=mask)
            for layout, at in self._by_layout(rows, equal, number):
                after[at] = self.states.changed(layout, number, change)
        self.set_states(rows, after)

    def _by_layout(
        self, rows: Ints, at: Ints, number: int
    ) -> Iterator[tuple[DeviceLayout | None, Ints]]:
        """Yield the rows in one state, by index, with the layout that the trial's pods see."""
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
        """Drop the assumed allocation of a released claim, or restore it `again`."""
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
            # Evictions release equal devices on many equal nodes: one step serves them all.
            if of not in known:
                known[of] = self.states.changed(layout, number, change)
            after.append(known[of])
        self.set_states(rows, np.array(after, np.int64))

    def _layout_of(self, row: int, number: int) -> DeviceLayout | None:
        """Return the layout that the trial's pods in a row see, or None without such pods."""
        state = self.states.all[number]
        if not state.puts:
            return None
        sorting = self.sorting(state.watched)
        return sorting.layouts[int(sorting.column[row])]

    def clash(self, rows: Ints) -> Bools:
        """Return for each row whether claims took devices back that pods of the trial have."""
        # Each state is checked once: many rows have few states.
        numbers, at = np.unique(self._column[rows], return_inverse=True)
        clashes = [self.states.all[number].clash for number in numbers.tolist()]
        found: Bools = np.array(clashes, np.bool_)[at]
        return found

    # Rows

    def sorting(self, watched: Watched) -> Sorting:
        """Return the layouts for these selectors and constraints. Raises PostponedError."""
        self.refresh()
        return self.sortings.of(watched, self._views.seen, self.nodes.size)

    def states_of(self, rows: Ints | slice) -> Ints:
        """Return the number of each row's device state."""
        # Otherwise, stale rows could show the states of devices that their nodes no longer see.
        self.refresh()
        return self._column[rows]

    def set_states(self, rows: Ints, numbers: Ints) -> None:
        """Set the states of rows in the open trial."""
        self.nodes.undo_by(partial(self._restore, rows, self._column[rows].copy()))
        self._restore(rows, numbers)

    def view(self, row: int) -> DeviceView:
        self.refresh()
        group = self.groups.of(row)
        return _NO_VIEW if group is None else group.view

    def attribute(self, name: str) -> AttributeColumn | None:
        """Return an attribute of the nodes' devices; None if no node has one of that name."""
        # Names of attributes are qualified here, so a key without a domain is only a label.
        if not self.slices.written or "/" not in name:
            return None
        self.refresh()
        contents, size = self.sortings.contents, self.nodes.size
        return self.attributes.column(name, self._views.seen, contents, size)

    @property
    def attributes_version(self) -> int:
        """Version that changes with any node's value of an attribute in use."""
        if len(self.attributes):
            self.refresh()
        return self.attributes.version

    def pool_states(self) -> Mapping[str, int]:
        """Return the numbers of complete, incomplete and invalid pools that a node sees."""
        self.refresh()
        # Metrics read this regularly, and it visits the pools of all groups.
        if self._pool_states[0] != self.slices_version:
            worst: dict[PoolKey, str] = {}
            for group in self.groups.all():
                for pool in group.view.pools:
                    flaw = "incomplete" if pool.incomplete else "invalid" if pool.invalid else ""
                    # A pool may be complete for one node and not for another: its flaw counts.
                    worst[pool.key] = flaw or worst.get(pool.key, "complete")
            counts = Counter({"complete": 0, "incomplete": 0, "invalid": 0})
            counts.update(worst.values())
            self._pool_states = (self.slices_version, counts)
        return self._pool_states[1]

    def admitted(self, terms: tuple[NodeTerm, ...] | None) -> Bools:
        """Return the nodes (N,) that meet one of the terms, or all nodes if `terms` is None."""
        return admitted(self.nodes, terms)

    def reached(self, terms: tuple[NodeTerm, ...] | None, rows: Iterable[int]) -> bool:
        """Return True if the nodes in all these rows meet one of the terms."""
        match terms:
            case (NodeTerm((), (Expression("metadata.name", "In", (name,)),)),):  # the usual one
                return all(self.nodes.name_of(row) == name for row in rows)
        admitted = self.admitted(terms)
        return all(admitted[row] for row in rows)

    def refresh(self) -> None:
        """Refresh what changed since the last call. Whatever adds states calls this first."""
        for _ in self._views.refresh_stale() if self._views.stale else ():
            pass
        self._refresh_states()

    def catch_up(self) -> Iterator[None]:
        """Refresh in short steps, between which anything may change."""
        if self._views.stale:
            yield from self._views.refresh_stale()
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
        """Drop states that no node is in, if there are many. Must not be called inside a trial.

        Every event calls this, so it only checks after something was added or removed.
        """
        if not self._untidy:
            return
        self._untidy = False
        if len(self.states) > _MOST_STATES + 2 * self.nodes.size:
            self._clear_states()
        if len(self.sortings.contents) > _MOST_GONE + 2 * self.slices.devices:
            self.sortings.clear()
            self._views.contents_changed()

    def _clear_states(self) -> None:
        # All numbers change, also those of asks: `version` invalidates what is cached by them.
        self.states.clear()
        # Free, like state 0, until the stale groups get their states again.
        self._column[:] = 0
        self._stale_groups.update(dict.fromkeys(self.groups.all()))
        self.version += 1

    def _restore(self, rows: Ints, numbers: Ints) -> None:
        self._column[rows] = numbers
        self.nodes.touch_rows(rows)

    def _set_assumed(self, key: ClaimKey, allocation: Allocation | None) -> None:
        # Unlike `_put_assumed`, without `_hold`: in a trial, device states show the use.
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
        # Also after a removal: an invalid or ambiguous pool may be usable without the slice.
        rows = self._views.pool_changed(info)
        self._gaining |= rows
        self.excess.pool_changed(info.pool_key)
        self.slices_version += 1
        # Only these rows: cached room of all other nodes stays valid.
        self.nodes.touch_rows(np.array(sorted(rows), np.int64))

    def _refreshed(self, rows: list[int], views: Collection[DeviceView]) -> None:
        """Update what depends on the views of refreshed rows; `views` are the old and new ones."""
        self._grow()
        self.sortings.stale(set(rows))
        # Nodes without devices stay at this state; the others get theirs as stale groups.
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
        """Update the use of devices to the claim's current allocation."""
        before, now = self.use.held(key), self.allocation(key)
        changed = self.use.hold(key, now)
        for device in changed:
            self._used_otherwise(device)
        # Also nodes that only share counters with the device gain, hence all rows of its pool.
        for each in before if changed else ():
            self._gaining |= self.groups.rows_seeing(each.key[:2])

    def _used_otherwise(self, device: DeviceKey) -> None:
        for group in self.groups.seeing(device[:2]):
            self._stale_groups[group] = None
            self.nodes.touch_rows(group.array())
