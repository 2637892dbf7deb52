"""What a request takes of a device's capacities, by the policies of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduler.core.values.device_asks import Amounts
from scheduler.core.values.devices import Capacity, CapacityPolicy


def consumption(offered: Iterable[Capacity], asked: Amounts) -> Amounts | None:
    """What the request takes of each capacity; None if such a device cannot meet it.

    A capacity for which nothing is asked is taken by its default, or whole.
    """
    wanted = dict(asked)
    taken: list[tuple[str, int]] = []
    for capacity in offered:
        amount = _amount(capacity, wanted.pop(capacity.name, None))
        if amount is None or amount > capacity.value:
            return None
        taken.append((capacity.name, amount))
    return None if wanted else tuple(taken)


def left(offered: Iterable[Capacity], consumed: Mapping[str, int], more: Amounts) -> bool:
    """Whether the device has so much left, where that much of it is consumed."""
    wanted = dict(more)
    return all(
        consumed.get(each.name, 0) + wanted.get(each.name, 0) <= each.value for each in offered
    )


def _amount(capacity: Capacity, asked: int | None) -> int | None:
    """What is taken of one capacity; None if its policy forbids that."""
    policy = capacity.policy
    if asked is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return asked
    return _rounded(asked, policy)


def _rounded(asked: int, policy: CapacityPolicy) -> int | None:
    """The amount rounded up; None if that is more than the policy allows."""
    if policy.values:
        return min((value for value in policy.values if value >= asked), default=None)
    amount = asked
    if policy.minimum is not None:
        amount = max(asked, policy.minimum)
        if policy.step:
            amount += -(amount - policy.minimum) % policy.step
    return None if policy.maximum is not None and amount > policy.maximum else amount
