"""How much work on devices a decision may do at once.

Anybody who may create a ResourceClaim can make finding devices as long as selectors and devices
allow. So a decision is cut short after some work, keeps what it found out, and is made anew later.
Where others wait, a namespace whose decisions did much work waits for four times as long as that
takes before it may do more: all of its roots together get a fifth of the scheduler, whatever they
ask for. Where nobody else waits it goes on, by shorter stretches, so that who comes has his turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kube.base.clock import Clock
from scheduler.cel.errors import PostponedError as SelectorPostponedError
from scheduler.cel.selectors import Selectors
from scheduler.core.devices.allowance import Allowance, PostponedError
from scheduler.support.metrics import DEVICE_WORK_POSTPONED

POSTPONED: Final = (PostponedError, SelectorPostponedError)
"""What a decision raises that has used up its allowance."""

_TRIED: Final = 20_000
"""Steps of the allocator and judgements of one decision."""

_COST: Final = 500_000
"""What the selectors of one decision may cost, in kube-scheduler's units."""

_TRIED_IN_DEBT: Final = 200
_COST_IN_DEBT: Final = 1_000
"""The same for a namespace that has to wait: enough for what is known already."""

_TRIED_ALONE: Final = 5_000
_COST_ALONE: Final = 125_000
"""The same where nobody else waits, who might come in the meantime."""

_REST: Final = 4.0
"""Seconds to wait for each second of work."""

_OF_A_STEP: Final = 10e-6
_OF_A_UNIT: Final = 0.5e-6
"""Seconds that a step, and a unit of cost, take about."""

_SHORT: Final = 0.005
"""Seconds of work that count for no namespace."""

_REMEMBERED: Final = 1000
"""Namespaces whose wait is remembered. With more, those whose wait is over are forgotten."""


class DeviceWork:
    """Gives each decision its allowance. Outside of `allowed` any work is done."""

    def __init__(self, allowance: Allowance, selectors: Selectors, clock: Clock) -> None:
        self._allowance = allowance
        self._selectors = selectors
        self._clock = clock
        self._rest_until: dict[str, float] = {}

    @contextmanager
    def allowed(self, namespace: str, *, alone: bool) -> Iterator[None]:
        """Inside, work for a root of the namespace may raise one of POSTPONED.

        `alone`: no root of another namespace is ready.
        """
        tried, most = _TRIED, _COST
        if self._rest_until.get(namespace, 0.0) > self._clock.monotonic():
            tried = _TRIED_ALONE if alone else _TRIED_IN_DEBT
            most = _COST_ALONE if alone else _COST_IN_DEBT
        self._allowance.allow(tried)
        self._selectors.allow(most)
        spent, cost = self._allowance.spent, self._selectors.cost
        try:
            yield
        finally:
            self._allowance.allow(None)
            self._selectors.allow(None)
            self._charge(
                namespace,
                (self._allowance.spent - spent) * _OF_A_STEP
                + (self._selectors.cost - cost) * _OF_A_UNIT,
                alone=alone,
            )

    def postponed(self, namespace: str, *, alone: bool) -> float:
        """A decision was cut short: when it may go on, on the monotonic clock."""
        DEVICE_WORK_POSTPONED.inc()
        soon = self._clock.monotonic() + _SHORT
        return soon if alone else max(self._rest_until.get(namespace, 0.0), soon)

    def _charge(self, namespace: str, seconds: float, *, alone: bool) -> None:
        if seconds <= _SHORT:
            return
        now = self._clock.monotonic()
        if len(self._rest_until) > _REMEMBERED:
            self._rest_until = {it: at for it, at in self._rest_until.items() if at > now}
        # What was done while nobody else waited is not paid for when somebody does.
        since = now if alone else max(self._rest_until.get(namespace, 0.0), now)
        self._rest_until[namespace] = since + _REST * seconds
