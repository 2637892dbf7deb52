"""Amounts that a request consumes of a device's capacities, by their request policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduler.core.values.device_asks import Amounts
from scheduler.core.values.devices import Capacity, CapacityPolicy


def consumption(offered: Iterable[Capacity], asked: Amounts) -> Amounts | None:
    """Return the amount that the request consumes of each capacity, or None if it does not fit.

    For a capacity that the request does not name, the amount is the policy's default, or else all
    of it.
    """
    wanted = dict(asked)
    taken: list[tuple[str, int]] = []
    for capacity in offered:
        amount = _amount(capacity, wanted.pop(capacity.name, None))
        if amount is None or amount > capacity.value:
            return None
        taken.append((capacity.name, amount))
    # The request names a capacity that the device does not have.
    return None if wanted else tuple(taken)


def has_remaining(offered: Iterable[Capacity], consumed: Mapping[str, int], more: Amounts) -> bool:
    """Return True if a device with `consumed` in use has `more` left of each capacity."""
    wanted = dict(more)
    return all(
        consumed.get(each.name, 0) + wanted.get(each.name, 0) <= each.value for each in offered
    )


def _amount(capacity: Capacity, asked: int | None) -> int | None:
    """Return the amount consumed of one capacity, or None if its policy forbids it."""
    policy = capacity.policy
    if asked is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return asked
    return _rounded(asked, policy)


def _rounded(asked: int, policy: CapacityPolicy) -> int | None:
    """Return the amount rounded up, or None if that exceeds what the policy allows."""
    if policy.values:
        return min((value for value in policy.values if value >= asked), default=None)
    amount = asked
    if policy.minimum is not None:
        amount = max(asked, policy.minimum)
        # Steps count from the minimum, not from zero, as in upstream's validRange.
        if policy.step:
            amount += -(amount - policy.minimum) % policy.step
    return None if policy.maximum is not None and amount > policy.maximum else amount
