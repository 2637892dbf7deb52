"""ResourceSlices, DeviceClasses and ResourceClaims, and which devices of each node are in use.

A device is in use from the time at which an allocation of its claim is assumed or seen, until the
claim's status says that it is not, or the claim is gone. Only claims hold devices: pods do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import numpy as np

from scheduler.core.claim_consumers import ClaimConsumers
from scheduler.core.device_excess import DeviceExcess
from scheduler.core.device_use import DeviceUse
from scheduler.core.device_viewers import ViewGroup, ViewGroups
from scheduler.core.devices.allowance import Allowance
from scheduler.core.devices.contents import Seen
from scheduler.core.devices.kinds import Judge, Watched
from scheduler.core.devices.layouts import FREE, Layout, View
from scheduler.core.devices.model import (
    Allocation,
    DeviceClaimInfo,
    DeviceClassInfo,
    DeviceKey,
    NodeScope,
    PoolKey,
    SliceInfo,
)
from scheduler.core.devices.pools import gather
from scheduler.core.devices.sortings import Sorting, Sortings
from scheduler.core.devices.states import DeviceStates, UsageChange
from scheduler.core.devices.taint_rules import DeviceTaintRule, DeviceTaintRules
from scheduler.core.extended_resources import ExtendedResources
from scheduler.core.held_devices import HeldDevices, Masks
from scheduler.core.model import ClaimKey, Expression, Term
from scheduler.core.node_attributes import AttributeColumn, NodeAttributes
from scheduler.core.node_table import Bools, Ints, NodeTable
from scheduler.core.plugins.node_affinity import meets

_MOST_STATES: Final = 4096
"""States are forgotten when there are more than this plus twice the number of nodes."""

_MOST_GONE: Final = 4096
"""Devices that are gone are forgotten when there are more of them than this, and most are gone."""

_K = TypeVar("_K")
_V = TypeVar("_V")
_T = TypeVar("_T")

_LOOKED_AT: Final = 16
"""Rows of which one step finds out what they see: about a millisecond, with eight devices each."""

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
        self.slices: dict[str, SliceInfo] = {}
        self.taint_rules = DeviceTaintRules()
        self.assumed: dict[ClaimKey, Allocation] = {}
        self.allowance = Allowance()
        self.states = DeviceStates(self.allowance)
        self.sortings = Sortings(judge, self.allowance)
        self.attributes = NodeAttributes()
        self.version = 0
        self.claims_version = 0
        self.slices_version = 0
        self.groups = ViewGroups()
        self._column: Ints = np.zeros(0, np.int64)
        self._tainted: dict[str, SliceInfo] = {}
        self._pools: dict[PoolKey, dict[str, SliceInfo]] = {}
        self._local: dict[str, dict[str, SliceInfo]] = {}
        self._wide: dict[str, SliceInfo] = {}
        self.use = DeviceUse(self.groups)
        self.excess = DeviceExcess(self.use, self._pools)
        self.held = HeldDevices(self.consumers, self.use, self.assumed)
        self.freed: set[ClaimKey] = set()
        self._stale_views: set[int] = set()
        self._stale_version = 0
        self._stale_groups: dict[ViewGroup, None] = {}
        self._common: dict[tuple[NodeScope, ...], ViewGroup | None] = {}
        self._seen: dict[int, Seen] = {}
        self._devices = 0
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
        self._forget_slice(info.name)
        self.slices[info.name] = info
        self._put_slice(self._with_taints(info))

    def remove_slice(self, name: str) -> None:
        self.slices.pop(name, None)
        self._forget_slice(name)

    def set_taint_rule(self, rule: DeviceTaintRule) -> None:
        """Add or replace a DeviceTaintRule; slices that it does not change cost a comparison."""
        before = self.taint_rules.all.get(rule.name)
        if before != rule:
            self.taint_rules.set(rule)
            self._taint_again(rule if before is None else None)

    def remove_taint_rule(self, name: str) -> None:
        rule = self.taint_rules.remove(name)
        if rule is not None:
            self._taint_again(rule)

    def _class_changed(self, name: str) -> None:
        if self.taint_rules.name_class(name):
            self._taint_again()

    def _with_taints(self, info: SliceInfo) -> SliceInfo:
        return self.taint_rules.applied(info, self.classes, self.sortings.judge)

    def _taint_again(self, rule: DeviceTaintRule | None = None) -> None:
        """A rule came or went: the slices that it may taint, all if None, have other taints now."""
        for name, info in self.slices.items():
            if rule is None or rule.may_taint(info):
                tainted = self._with_taints(info)
                if tainted != self._tainted[name]:
                    self._forget_slice(name)
                    self._put_slice(tainted)

    def _put_slice(self, info: SliceInfo) -> None:
        self._tainted[info.name] = info
        self._devices += len(info.devices)
        self._pools.setdefault(info.pool_key, {})[info.name] = info
        if info.scope is not None and info.scope.name:
            self._local.setdefault(info.scope.name, {})[info.name] = info
        else:
            self._wide[info.name] = info
        self._pool_changed(info)

    def set_class(self, info: DeviceClassInfo) -> None:
        before = self.classes.get(info.name)
        if before != info:
            self.extended.set_class(before, info)
            self.classes[info.name] = info
            self._class_changed(info.name)
            self._all_gain = True
            self.version += 1
            self.nodes.touch()

    def remove_class(self, name: str) -> None:
        before = self.classes.pop(name, None)
        if before is not None:
            self.extended.set_class(before, None)
            self._class_changed(name)
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
        if self.slices:
            self._make_stale((row,))

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
        return self.sortings.of(watched, self._seen, self.nodes.size)

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
        if not self.slices or "/" not in name:
            return None
        self.refresh()
        return self.attributes.column(name, self._seen, self.sortings.contents, self.nodes.size)

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
        if terms is None:
            return np.ones(self.nodes.size, np.bool_)
        some = np.zeros(self.nodes.size, np.bool_)
        for term in terms:
            some |= meets(term, self.nodes)
        return some

    def reached(self, terms: tuple[Term, ...] | None, rows: Iterable[int]) -> bool:
        """Whether the nodes in all these rows meet one of the terms."""
        match terms:
            case (Term((), (Expression("metadata.name", "In", (name,)),)),):  # as most do
                return all(self.nodes.name_of(row) == name for row in rows)
        admitted = self.admitted(terms)
        return all(admitted[row] for row in rows)

    def refresh(self) -> None:
        """Look again at what changed since the last call. All that adds states calls this first."""
        for _ in self._look_again() if self._stale_views else ():
            pass
        self._refresh_states()

    def catch_up(self) -> Iterator[None]:
        """The same in short steps, between which anything may change."""
        if self._stale_views:
            yield from self._look_again()
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
        if len(self.sortings.contents) > _MOST_GONE + 2 * self._devices:
            self.sortings.clear()
            self._common.clear()
            self._make_stale(self.groups.rows())

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

    def _forget_slice(self, name: str) -> None:
        old = self._tainted.pop(name, None)
        if old is None:
            return
        self._untidy = True
        self._devices -= len(old.devices)
        self._wide.pop(name, None)
        if old.scope is not None and old.scope.name:
            _drop(self._local, old.scope.name, name)
        _drop(self._pools, old.pool_key, name)
        self._pool_changed(old)

    def _pool_changed(self, info: SliceInfo) -> None:
        """All nodes that see the pool, or may see it now, look at it again."""
        rows = self.groups.rows_seeing(info.pool_key)
        for each in (info, *self._pools.get(info.pool_key, {}).values()):
            for scope in _scopes(each):
                rows.update(self._in_scope(scope))
            if each.scope is None or not each.scope.name:
                self._common.clear()
        self._make_stale(rows)
        self._gaining |= rows
        self.excess.pool_changed(info.pool_key)
        self.slices_version += 1
        self.nodes.touch_rows(np.array(sorted(rows), np.int64))

    def _in_scope(self, scope: NodeScope) -> Iterable[int]:
        """The rows of the nodes of a scope."""
        if scope.name:
            row = self.nodes.row_of.get(scope.name)
            return () if row is None else (row,)
        within = self.admitted(None if scope.everywhere else scope.terms or ())
        found: list[int] = np.flatnonzero(within).tolist()
        return found

    def _make_stale(self, rows: Iterable[int]) -> None:
        """What these nodes see may be something else now."""
        self._stale_views.update(rows)
        self._stale_version += 1

    def _look_again(self) -> Iterator[None]:
        """Find out what nodes see now, a few at a time."""
        while self._stale_views:
            yield from self._look_through(sorted(self._stale_views))

    def _look_through(self, left: list[int]) -> Iterator[None]:
        """The same until something changes in between."""
        self._grow()
        reach, version = self._reach(self._stale_views), self._stale_version
        for first in range(0, len(left), _LOOKED_AT):
            if version != self._stale_version:
                return
            rows = left[first : first + _LOOKED_AT]
            self._look_at(rows, reach)
            self._stale_views.difference_update(rows)
            yield

    def _reach(self, rows: set[int]) -> dict[int, list[NodeScope]]:
        """Within which scopes of slices for several nodes these rows are."""
        reach: dict[int, list[NodeScope]] = {}
        scopes = dict.fromkeys(scope for each in self._wide.values() for scope in _scopes(each))
        for scope in scopes:
            for row in rows.intersection(self._in_scope(scope)):
                reach.setdefault(row, []).append(scope)
        return reach

    def _look_at(self, rows: list[int], reach: Mapping[int, list[NodeScope]]) -> None:
        self.sortings.stale(set(rows))
        moved = dict.fromkeys(map(self.groups.of, rows))
        self._column[rows] = self.states.of(FREE)
        for row in rows:
            group = self._group_of(row, tuple(reach.get(row, ())))
            self.groups.put(row, group)
            self._seen.pop(row, None)
            if group is not None:
                self._seen[row] = group.seen
                self._stale_groups[group] = None
                moved[group] = None
        self.use.moved(group.view for group in moved if group is not None)
        self.attributes.rows_changed(rows, self._seen, self.sortings.contents, self.nodes.size)

    def _group_of(self, row: int, reach: tuple[NodeScope, ...]) -> ViewGroup | None:
        """The group of a row that is within these scopes of slices for several nodes."""
        node = self.nodes.infos[row]
        if node is None:
            return None
        own = self._local.get(node.name)
        if own:
            return self._new_group(own.values(), reach)
        if reach not in self._common:
            self._common[reach] = self._new_group((), reach)
        return self._common[reach]

    def _new_group(
        self, own: Iterable[SliceInfo], reach: tuple[NodeScope, ...]
    ) -> ViewGroup | None:
        within = set(reach)
        wide = (each for each in self._wide.values() if within and within & _scopes(each))
        seen = {each.name: each for each in (*own, *wide) if each.devices}
        for key in {each.pool_key for each in seen.values()}:
            seen.update((n, each) for n, each in self._pools[key].items() if each.counters)
        if not seen:
            return None
        pools = gather(seen.values(), lambda key: self._pools[key].values())
        view = View.of(pools, within.__contains__)
        return ViewGroup(view, self.sortings.contents.seen(view))

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


def _scopes(info: SliceInfo) -> set[NodeScope]:
    """The scopes of a slice, or of its devices."""
    scopes = {info.scope} if info.scope else {device.scope for device in info.devices}
    return {scope for scope in scopes if scope is not None}


def _drop(table: dict[_K, dict[_V, _T]], key: _K, inner: _V) -> None:
    """Remove an entry, and the inner table with its last one."""
    of_key = table.get(key)
    if of_key is not None:
        of_key.pop(inner, None)
        if not of_key:
            del table[key]
