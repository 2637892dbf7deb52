"""Devices of a layout that an option of a request can take, regardless of use."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.core.devices.capacities import consumption
from scheduler.core.devices.kinds import DeviceKind
from scheduler.core.devices.layouts import DeviceLayout
from scheduler.core.devices.masks import bits
from scheduler.core.devices.requests import RequestOption
from scheduler.core.values.device_asks import Amounts, DeviceToleration
from scheduler.core.values.devices import DeviceTaint

_BLOCKING = frozenset({"NoSchedule", "NoExecute"})
_MOST_KNOWN = 1024
"""Limit of cached results for each layout."""


@dataclass(slots=True)
class Matches:
    """Matching positions by bit mask.

    `selected` are large enough and selected by all selectors; `tolerated` are those of them whose
    taints are tolerated. `errors` has the errors of selectors by position; such positions are in no
    mask. `consumed` is the amount that a request takes of each capacity, by the kind's index.
    """

    selected: int = 0
    tolerated: int = 0
    errors: dict[int, str] = field(default_factory=dict)
    consumed: dict[int, Amounts] = field(default_factory=dict)

    @property
    def failing(self) -> int:
        """Mask of the positions with an error."""
        return sum(1 << at for at in self.errors)


def matches(layout: DeviceLayout, wanted: RequestOption) -> Matches:
    """Return the devices that match; computed once for each layout."""
    known = layout.matches.get(wanted.matching_key)
    if known is None:
        if len(layout.matches) >= _MOST_KNOWN:
            layout.matches.clear()
        known = layout.matches[wanted.matching_key] = _matches(layout, wanted)
    found: Matches = known
    return found


def _matches(layout: DeviceLayout, wanted: RequestOption) -> Matches:
    found = Matches()
    # One evaluation for each kind: a node has many devices, but few kinds.
    by_kind: dict[int, tuple[bool, bool, str]] = {}
    for at in bits(layout.visible):
        kind = layout.kinds[at]
        answer = by_kind.get(kind.index)
        if answer is None:
            answer = by_kind[kind.index] = _evaluate_kind(found, kind, wanted)
        selected, tolerated, error = answer
        if error:
            found.errors[at] = error
        elif selected:
            found.selected |= 1 << at
            found.tolerated |= tolerated << at
    return found


def _evaluate_kind(
    found: Matches, kind: DeviceKind, wanted: RequestOption
) -> tuple[bool, bool, str]:
    """Return whether devices of the kind are selected, whether tolerated, and an error's text."""
    verdict = kind.verdicts[wanted.chain]
    if not verdict:
        return False, False, ""
    # The error names the selector's owner, which differs between requests with equal expressions.
    if isinstance(verdict, tuple):
        return False, False, f"{wanted.selectors[verdict[0]].source}: {verdict[1]}"
    consumed = consumption(kind.sample.capacity, wanted.option.capacity)
    if consumed is None:
        return False, False, ""
    found.consumed[kind.index] = consumed
    tolerations = wanted.option.tolerations
    return True, all(_tolerated(taint, tolerations) for taint in kind.sample.taints), ""


def _tolerated(taint: DeviceTaint, tolerations: tuple[DeviceToleration, ...]) -> bool:
    # Upstream ignores the effect None and effects that it does not know.
    return taint.effect not in _BLOCKING or any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value
