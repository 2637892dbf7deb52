"""ResourceSlices with the taints of DeviceTaintRules, by pool and by node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from scheduler.core.devices.kinds import SelectorEvaluator
from scheduler.core.devices.taint_rules import DeviceTaintRule, DeviceTaintRules
from scheduler.core.values.devices import DeviceClassInfo, NodeScope, PoolKey, SliceInfo

_K = TypeVar("_K")
_V = TypeVar("_V")
_T = TypeVar("_T")


class DeviceSlices:
    """All slices: `written` as drivers wrote them, the other tables with the taints of rules.

    `pools` has the slices of each pool by name, `wide` those that are not for one node only.
    `devices` is the number of devices in all slices.
    """

    def __init__(
        self,
        classes: Mapping[str, DeviceClassInfo],
        evaluate: SelectorEvaluator,
        on_change: Callable[[SliceInfo], None],
    ) -> None:
        """Create an empty table; `on_change` is called after a slice or its taints changed."""
        self.written: dict[str, SliceInfo] = {}
        self.rules = DeviceTaintRules()
        self.pools: dict[PoolKey, dict[str, SliceInfo]] = {}
        self.wide: dict[str, SliceInfo] = {}
        self.devices = 0
        self._tainted: dict[str, SliceInfo] = {}
        self._local: dict[str, dict[str, SliceInfo]] = {}
        self._classes = classes
        self._evaluate = evaluate
        self._on_change = on_change

    def set(self, info: SliceInfo) -> None:
        self._forget(info.name)
        self.written[info.name] = info
        self._put(self._with_taints(info))

    def remove(self, name: str) -> None:
        self.written.pop(name, None)
        self._forget(name)

    def set_rule(self, rule: DeviceTaintRule) -> None:
        """Add or replace a rule. A slice that it does not change costs a comparison."""
        before = self.rules.all.get(rule.name)
        if before != rule:
            self.rules.set(rule)
            # The replaced rule may have tainted slices that the new one does not select.
            self._update_taints(rule if before is None else None)

    def remove_rule(self, name: str) -> None:
        rule = self.rules.remove(name)
        if rule is not None:
            self._update_taints(rule)

    def class_changed(self, name: str) -> None:
        """Apply rules again that name a class which was added, changed or removed."""
        if self.rules.name_class(name):
            self._update_taints()

    def of_node(self, name: str) -> Iterable[SliceInfo]:
        """Return the slices that are for this node only."""
        return self._local.get(name, {}).values()

    def of_pool(self, key: PoolKey) -> Iterable[SliceInfo]:
        return self.pools.get(key, {}).values()

    def _with_taints(self, info: SliceInfo) -> SliceInfo:
        return self.rules.applied(info, self._classes, self._evaluate)

    def _update_taints(self, rule: DeviceTaintRule | None = None) -> None:
        """Compute again the taints of slices that the rule may taint, or of all slices."""
        for name, info in self.written.items():
            if rule is None or rule.may_taint(info):
                tainted = self._with_taints(info)
                # Unchanged slices must not wake pods or invalidate the views of nodes.
                if tainted != self._tainted[name]:
                    self._forget(name)
                    self._put(tainted)

    def _put(self, info: SliceInfo) -> None:
        self._tainted[info.name] = info
        self.devices += len(info.devices)
        self.pools.setdefault(info.pool_key, {})[info.name] = info
        if info.scope is not None and info.scope.name:
            self._local.setdefault(info.scope.name, {})[info.name] = info
        else:
            self.wide[info.name] = info
        self._on_change(info)

    def _forget(self, name: str) -> None:
        old = self._tainted.pop(name, None)
        if old is None:
            return
        self.devices -= len(old.devices)
        self.wide.pop(name, None)
        if old.scope is not None and old.scope.name:
            _drop(self._local, old.scope.name, name)
        _drop(self.pools, old.pool_key, name)
        # The old slice as well as the new one: they may be for different nodes.
        self._on_change(old)


def scopes(info: SliceInfo) -> set[NodeScope]:
    """Return the scopes of a slice, or of its devices."""
    found = {info.scope} if info.scope else {device.scope for device in info.devices}
    return {scope for scope in found if scope is not None}


def _drop(table: dict[_K, dict[_V, _T]], key: _K, inner: _V) -> None:
    """Remove an entry, and its inner table if that is empty then."""
    of_key = table.get(key)
    if of_key is not None:
        of_key.pop(inner, None)
        if not of_key:
            del table[key]
