"""DeviceTaintRules: taints that administrators put on devices, in addition to the drivers' taints.

The rules are kube-scheduler's: one without a selector, or with an empty one, is for all devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from scheduler.core.devices.kinds import SelectorEvaluator, verdict
from scheduler.core.values.devices import DeviceClassInfo, DeviceInfo, DeviceTaint, SliceInfo

_Place = tuple[str | None, str | None]
"""(driver, pool name); None means any."""


@dataclass(frozen=True, slots=True)
class DeviceTaintRule:
    """Taint for all devices that meet every criterion that is not None.

    `device_class` and `selectors` (CEL) exist in Kubernetes 1.34 and earlier. A device does not
    meet them if a selector fails on it or the class does not exist.
    """

    name: str
    taint: DeviceTaint
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class: str | None = None
    selectors: tuple[str, ...] = ()

    def may_taint(self, info: SliceInfo) -> bool:
        """Return True if the slice is of the rule's driver and pool."""
        return self.driver in (None, info.driver) and self.pool in (None, info.pool)


class DeviceTaintRules:
    """All rules by driver and pool, so that a slice costs no more than its own rules."""

    def __init__(self) -> None:
        self.all: dict[str, DeviceTaintRule] = {}
        self._by_place: dict[_Place, dict[str, DeviceTaintRule]] = {}

    def set(self, rule: DeviceTaintRule) -> None:
        # A changed rule may be for another driver or pool.
        self.remove(rule.name)
        self.all[rule.name] = rule
        self._by_place.setdefault((rule.driver, rule.pool), {})[rule.name] = rule

    def remove(self, name: str) -> DeviceTaintRule | None:
        """Remove a rule and return it, or None if it does not exist."""
        rule = self.all.pop(name, None)
        if rule is not None:
            place = (rule.driver, rule.pool)
            del self._by_place[place][name]
            if not self._by_place[place]:
                del self._by_place[place]
        return rule

    def name_class(self, name: str) -> bool:
        """Return True if a rule is for devices of the class."""
        return any(rule.device_class == name for rule in self.all.values())

    def applied(
        self, info: SliceInfo, classes: Mapping[str, DeviceClassInfo], evaluate: SelectorEvaluator
    ) -> SliceInfo:
        """Return the slice with the taints of all rules, or the same object if no rule applies."""
        rules = list(self._of(info))
        if not rules:
            return info
        chains = [(rule, _chain(rule, classes)) for rule in rules]
        devices = tuple(_tainted(info.driver, each, chains, evaluate) for each in info.devices)
        return info if devices == info.devices else replace(info, devices=devices)

    def _of(self, info: SliceInfo) -> Iterator[DeviceTaintRule]:
        for driver in (None, info.driver):
            for pool in (None, info.pool):
                yield from self._by_place.get((driver, pool), {}).values()


def _chain(rule: DeviceTaintRule, classes: Mapping[str, DeviceClassInfo]) -> tuple[str, ...] | None:
    """Return the selectors of the rule's devices, or None if their class does not exist."""
    if rule.device_class is None:
        return rule.selectors
    of_class = classes.get(rule.device_class)
    return None if of_class is None else (*of_class.selectors, *rule.selectors)


def _tainted(
    driver: str,
    device: DeviceInfo,
    chains: list[tuple[DeviceTaintRule, tuple[str, ...] | None]],
    evaluate: SelectorEvaluator,
) -> DeviceInfo:
    """Return the device with the taints of the rules that it does not have yet."""
    taints = dict.fromkeys(device.taints)
    for rule, chain in chains:
        # A taint that the driver has set already stays when the rule is removed.
        if chain is None or rule.device not in (None, device.name) or rule.taint in taints:
            continue
        if verdict(chain, driver, device, evaluate) is True:
            taints[rule.taint] = None
    # Sorted, so that the order in which rules arrive does not create another kind.
    added = sorted(taints.keys() - set(device.taints), key=lambda it: (it.key, it.value, it.effect))
    return replace(device, taints=(*device.taints, *added)) if added else device
