"""The capacity of a device, and the validation of its request policy."""

import itertools
from decimal import Decimal
from typing import Any

from localcluster.base.errors import Cause
from localcluster.base.fielderrors import forbidden, invalid, required
from localcluster.base.quantity import canonical, parse
from localcluster.builtin.devices.fields import distinct

Object = dict[str, Any]

MOST_VALUES = 10
LARGEST = Decimal(2**63 - 1)


def capacity_causes(capacity: Object, at: str, *, shared: bool) -> list[Cause]:
    """Return the errors of one capacity of a device, which several claims may share (`shared`)."""
    policy, at = capacity.get("requestPolicy"), f"{at}.requestPolicy"
    if policy is None:
        return []
    if not shared:
        return [forbidden(at, "allowMultipleAllocations must be true")]
    values, bounds, default = (
        policy.get(name) for name in ("validValues", "validRange", "default")
    )
    if values and bounds is not None:
        text = (
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" '
            "at the same time"
        )
        return [forbidden(at, text)]
    for name, said in (("validValues", values), ("validRange", bounds)):
        if (said or said == {}) and default is None:
            return [required(f"{at}.default", f"required when {name} is defined")]
    most = capacity.get("value", "0")
    if values:
        return _values(values, default, most, f"{at}.validValues")
    return _range(bounds, default, most, f"{at}.validRange") if bounds is not None else []


def _values(values: list[str], default: str, most: str, at: str) -> list[Cause]:
    causes = [
        invalid(f"{at}[{index}]", after, "values must be sorted in ascending order")
        for index, (before, after) in enumerate(itertools.pairwise(values), 1)
        if parse(before) > parse(after)
    ]

    def check(value: str, where: str) -> list[Cause]:
        if parse(value) <= parse(most):
            return []
        return [invalid(where, value, f"option is larger than capacity value: {most}")]

    causes += distinct(values, at, MOST_VALUES, check, lambda value: str(_whole(value)))
    looked_at = values if len(values) <= MOST_VALUES else ()
    if not any(parse(value) == parse(default) for value in looked_at):
        text = "default value is not valid according to the requestPolicy"
        causes.append(invalid(at, default, text))
    return causes


def _range(bounds: Object, default: str, most: str, at: str) -> list[Cause]:
    low, high, step = (bounds.get(name) for name in ("min", "max", "step"))
    if low is None:
        return [required(f"{at}.min", "required when validRange is defined")]
    found: list[tuple[bool, str, str, str]] = [
        (parse(low) > parse(most), "min", low, f"min is larger than capacity value: {most}"),
        (parse(default) < parse(low), "min", default, f"default is less than min: {low}"),
    ]
    if high is not None:
        found += [
            (parse(low) > parse(high), "max", low, f"min is larger than max: {high}"),
            (parse(high) > parse(most), "max", high, f"max is larger than capacity value: {most}"),
            (parse(default) > parse(high), "max", default, f"default is more than max: {high}"),
        ]
    causes = [invalid(f"{at}.{name}", value, text) for wrong, name, value, text in found if wrong]
    return causes + (_step(bounds, default, most, at) if step is not None else [])


def _step(bounds: Object, default: str, most: str, at: str) -> list[Cause]:
    low, step, where = bounds["min"], bounds["step"], f"{at}.step"
    if not _whole(step):  # the API server divides by it
        return [invalid(where, step, "must be greater than zero")]
    causes = []
    if parse(low) + parse(step) > parse(most):
        text = f"one step {_sum(low, step)} is larger than capacity value: {most}"
        causes.append(invalid(where, step, text))
    for value in (default, bounds.get("max")):
        if value is not None and (_whole(value) - _whole(low)) % _whole(step):
            text = f"value is not a multiple of a given step ({step}) from ({low})"
            causes.append(invalid(where, value, text))
    return causes


def _whole(value: str) -> int:
    """Return the number, rounded up if it has a fraction, and capped at the server's maximum."""
    return int(-(-max(-LARGEST, min(parse(value), LARGEST)) // 1))


def _sum(one: str, other: str) -> str:
    """Return the sum, in the format of the first operand."""
    total = min(parse(one) + parse(other), LARGEST)
    return canonical(f"{total / 1024}Ki" if one.endswith("i") else f"{total:f}")
