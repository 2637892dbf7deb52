"""The budget of work on devices in one decision.

A user who may create a ResourceClaim can make the search for devices as long as selectors and
devices allow. So a decision is cut short after some work, keeps what it found out, and is repeated
later. Where others wait, a namespace whose decisions did much work waits for four times as long as
that took before it may do more: all of its roots together get a fifth of the scheduler, whatever
they request. Without others it goes on in shorter stretches, so that a newcomer is decided soon.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kube.base.clock import Clock
from scheduler.cel.errors import CostExhaustedError as SelectorPostponedError
from scheduler.cel.selectors import Selectors
from scheduler.core.devices.allowance import AllowanceExhaustedError, DeviceAllowance
from scheduler.support.metrics import DEVICE_WORK_POSTPONED

POSTPONED: Final = (AllowanceExhaustedError, SelectorPostponedError)
"""The errors of a decision that has used up its allowance."""

_TRIED: Final = 20_000
"""Steps of the allocator, and evaluations of selectors, in one decision."""

_COST: Final = 500_000
"""Cost of the selectors of one decision, in kube-scheduler's units."""

# Enough to repeat what earlier decisions have found out.
_TRIED_IN_DEBT: Final = 200
"""Steps and evaluations in one decision of a namespace that has to wait."""

_COST_IN_DEBT: Final = 1_000
"""Cost of the selectors of one decision of a namespace that has to wait."""

# Another namespace may come in the meantime.
_TRIED_ALONE: Final = 5_000
"""Steps and evaluations in one decision if no other namespace waits."""

_COST_ALONE: Final = 125_000
"""Cost of the selectors of one decision if no other namespace waits."""

_REST: Final = 4.0
"""Seconds to wait for each second of work."""

_OF_A_STEP: Final = 10e-6
"""Seconds that a step of the allocator takes on average."""

_OF_A_UNIT: Final = 0.5e-6
"""Seconds that a unit of cost takes on average."""

_SHORT: Final = 0.005
"""Seconds of work that count for no namespace."""

_REMEMBERED: Final = 1000
"""Namespaces whose wait is remembered. Beyond it, those whose wait is over are forgotten."""


class DeviceWork:
    """The allowance of each decision. Outside of `allowed` the work is not limited."""

    def __init__(self, allowance: DeviceAllowance, selectors: Selectors, clock: Clock) -> None:
        self._allowance = allowance
        self._selectors = selectors
        self._clock = clock
        self._rest_until: dict[str, float] = {}

    @contextmanager
    def allowed(self, namespace: str, *, alone: bool) -> Iterator[None]:
        """Limit the work in the block for the namespace; it may raise one of POSTPONED.

        `alone` is true if no root of another namespace is ready.
        """
        tried, most = _TRIED, _COST
        # A namespace that has to wait is not shut out: what is known already takes few steps.
        if self._rest_until.get(namespace, 0.0) > self._clock.monotonic():
            tried = _TRIED_ALONE if alone else _TRIED_IN_DEBT
            most = _COST_ALONE if alone else _COST_IN_DEBT
        self._allowance.most = self._allowance.spent + tried
        self._selectors.allowance = most
        spent, cost = self._allowance.spent, self._selectors.cost
        try:
            yield
        finally:
            self._allowance.most = self._selectors.allowance = None
            steps, units = self._allowance.spent - spent, self._selectors.cost - cost
            self._charge(namespace, steps * _OF_A_STEP + units * _OF_A_UNIT, alone=alone)

    def postponed(self, namespace: str, *, alone: bool) -> float:
        """Return when a decision that was cut short may go on, on the monotonic clock."""
        DEVICE_WORK_POSTPONED.inc()
        soon = self._clock.monotonic() + _SHORT
        return soon if alone else max(self._rest_until.get(namespace, 0.0), soon)

    def _charge(self, namespace: str, seconds: float, *, alone: bool) -> None:
        if seconds <= _SHORT:
            return
        now = self._clock.monotonic()
        if len(self._rest_until) > _REMEMBERED:
            self._rest_until = {it: at for it, at in self._rest_until.items() if at > now}
        # Work that was done while no other namespace waited is not charged once one does.
        since = now if alone else max(self._rest_until.get(namespace, 0.0), now)
        self._rest_until[namespace] = since + _REST * seconds
