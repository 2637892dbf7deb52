"""CEL operators and type conversions."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Final

from scheduler.cel.errors import EvaluationError, no_overload
from scheduler.cel.evaluation import EvaluationFrame, Function, Functions
from scheduler.cel.quantities import Quantity
from scheduler.cel.times import SECOND, Duration, Timestamp
from scheduler.cel.values import (
    LARGEST,
    MOST,
    TYPES,
    Maybe,
    Type,
    UInt,
    Value,
    equal,
    is_key,
    order,
    same,
    size_of,
    type_name,
)
from scheduler.cel.versions import Version


def tenths(length: int) -> int:
    """Return the cost of reading so many characters or elements: one for each ten."""
    return -(-length // 10)


def checked_integer(value: int, like: Value) -> Value:
    """Return the result of a calculation. Raises EvaluationError if it exceeds 64 bits."""
    if type(like) is UInt:
        if not 0 <= value <= MOST:
            raise EvaluationError("unsigned integer overflow")
        return UInt(value)
    if not -LARGEST - 1 <= value <= LARGEST:
        raise EvaluationError("integer overflow")
    return value


def add(frame: EvaluationFrame, one: Value, other: Value) -> Value:
    """Evaluate `one + other`."""
    kind = type(one)
    if kind is not type(other) or kind is Duration:
        return _add_duration(frame, one, other)
    if kind in (str, bytes, list):
        frame.charge(max(1, tenths(len(one) + len(other))))
        return one + other
    frame.charge(1)
    if kind is float:
        return one + other
    if kind in (int, UInt):
        return checked_integer(int(one) + int(other), one)
    raise no_overload("_+_")


def _add_duration(frame: EvaluationFrame, one: Value, other: Value) -> Value:
    frame.charge(1)
    if not isinstance(other, Duration):
        one, other = other, one
    if not isinstance(other, Duration) or not isinstance(one, (Duration, Timestamp)):
        raise no_overload("_+_")
    return replace(one, nanos=one.nanos + other.nanos)


def _same_numbers(frame: EvaluationFrame, one: Value, other: Value, *, floats: bool = True) -> type:
    frame.charge(1)
    kind = type(one)
    if kind is not type(other) or kind not in (int, UInt, float) or (kind is float and not floats):
        raise no_overload()
    return kind


def _subtract(frame: EvaluationFrame, one: Value, other: Value) -> Value:
    if isinstance(one, (Duration, Timestamp)):
        return _subtract_times(frame, one, other)
    if _same_numbers(frame, one, other) is float:
        return one - other
    return checked_integer(int(one) - int(other), one)


def _subtract_times(frame: EvaluationFrame, one: Duration | Timestamp, other: Value) -> Value:
    frame.charge(1)
    if isinstance(one, Timestamp) and isinstance(other, Timestamp):
        return Duration(one.nanos - other.nanos)
    if not isinstance(other, Duration):
        raise no_overload("_-_")
    # As in cel-go, the opposite of the smallest duration overflows.
    by = other.nanos if isinstance(one, Duration) else -Duration(-other.nanos).nanos
    return replace(one, nanos=one.nanos - by)


def _multiply(frame: EvaluationFrame, one: Value, other: Value) -> Value:
    if _same_numbers(frame, one, other) is float:
        return one * other
    return checked_integer(int(one) * int(other), one)


def _divide(frame: EvaluationFrame, one: Value, other: Value) -> Value:
    if _same_numbers(frame, one, other) is float:
        return _divide_floats(one, other)
    if other == 0:
        raise EvaluationError("division by zero")
    # CEL truncates towards zero, Python rounds down.
    quotient = abs(one) // abs(other)
    return checked_integer(quotient if (one < 0) == (other < 0) else -quotient, one)


def _divide_floats(one: float, other: float) -> float:
    # IEEE 754 defines the division by zero, Python raises an error for it.
    if other:
        return one / other
    if one == 0 or math.isnan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1.0, other)


def _modulus(frame: EvaluationFrame, one: Value, other: Value) -> Value:
    _same_numbers(frame, one, other, floats=False)
    if other == 0:
        raise EvaluationError("modulus by zero")
    # CEL's remainder has the sign of the dividend, Python's that of the divisor.
    rest = abs(one) % abs(other)
    return checked_integer(-rest if one < 0 else rest, one)


def _negate(frame: EvaluationFrame, value: Value) -> Value:
    frame.charge(1)
    if type(value) is float:
        return -value
    if isinstance(value, Duration):
        return Duration(-value.nanos)
    # A uint has no negative, and type() also excludes a bool, which is an int in Python.
    if type(value) is not int:
        raise no_overload()
    return checked_integer(-value, value)


def _not(frame: EvaluationFrame, value: Value) -> Value:
    frame.charge(1)
    if not isinstance(value, bool):
        raise no_overload()
    return not value


def _charge_pair(frame: EvaluationFrame, one: Value, other: Value) -> None:
    """Charge for a comparison of two values before it is made.

    A list or map costs more than upstream charges, because the comparison may read all of it.
    """
    if isinstance(one, (list, dict, Maybe)):
        frame.charge(_weight(one, frame.limit - frame.cost + 1))
    elif isinstance(one, (str, bytes)):
        frame.charge(max(1, tenths(min(len(one), size_of(other)))))
    else:
        frame.charge(1)


def _weight(value: Value, most: int) -> int:
    """Return the number of values in it, up to `most`. A shared value counts at each use."""
    # A list of its own instead of recursion: values may be nested deeper than Python's stack
    # allows. `most` bounds the walk of a tree that doubles with each level.
    total, waiting = 0, [value]
    while waiting and total < most:
        each = waiting.pop()
        total += 1
        if isinstance(each, Maybe):
            waiting.extend([each.value] if each.present else ())
        elif isinstance(each, (list, dict)):
            total += tenths(len(each))
            waiting.extend(each.values() if isinstance(each, dict) else each)
        elif isinstance(each, (str, bytes)):
            total += tenths(len(each))
    return total


def found_in(frame: EvaluationFrame, item: Value, items: list[Value]) -> bool:
    """True if one of the items is equal to `item`."""
    for each in items:
        _charge_pair(frame, each, item)
        if same(each, item):
            return True
    return False


def ordered(frame: EvaluationFrame, one: Value, other: Value, function: str = "") -> int | None:
    """Return -1, 0 or 1, or None for a NaN. Raises EvaluationError for values without order."""
    _charge_pair(frame, one, other)
    return order(one, other, function)


def _equals(frame: EvaluationFrame, one: Value, other: Value) -> Value:
    _charge_pair(frame, one, other)
    return equal(one, other)


def _differs(frame: EvaluationFrame, one: Value, other: Value) -> Value:
    _charge_pair(frame, one, other)
    # As in kube-scheduler: values that `==` cannot compare differ, so `!=` has no error.
    return not same(one, other)


def _ordered(*wanted: int) -> Function:
    def compare(frame: EvaluationFrame, one: Value, other: Value) -> Value:
        return ordered(frame, one, other) in wanted

    return compare


def _in(frame: EvaluationFrame, item: Value, items: Value) -> Value:
    if isinstance(items, dict):
        frame.charge(1)
        if isinstance(item, Version):
            raise EvaluationError("a version cannot be looked up in a map")
        # A value that cannot be a key is not in the map; only get() raises an error for it.
        return is_key(item) and item in items
    if not isinstance(items, list):
        raise no_overload()
    return found_in(frame, item, items)


def _size(frame: EvaluationFrame, value: Value) -> Value:
    frame.charge(1)
    if not isinstance(value, (str, bytes, list, dict)):
        raise no_overload("size")
    return len(value)


# The limit of digits keeps int() cheap; 64 bits need 20.
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,40}")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# The texts that Go's strconv.ParseBool accepts.
_WORDS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def _cannot(value: Value, wanted: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{type_name(value)}' to '{wanted}'")


def _int(frame: EvaluationFrame, value: Value) -> Value:
    frame.charge(1)
    if type(value) is float:
        # Both bounds are excluded, as in cel-go: 2**63 - 1 has no double of its own.
        if math.isnan(value) or not -(2.0**63) < value < 2.0**63:
            raise EvaluationError("integer overflow")
        return int(value)
    if type(value) in (int, UInt):
        return checked_integer(int(value), 0)
    if type(value) is str and _DECIMAL.fullmatch(value):
        return checked_integer(int(value), 0)
    if isinstance(value, Duration):
        return value.nanos
    if isinstance(value, Timestamp):
        return value.nanos // SECOND
    raise _cannot(value, "int")


def _uint(frame: EvaluationFrame, value: Value) -> Value:
    frame.charge(1)
    if type(value) is float:
        if math.isnan(value) or not -1.0 < value < 2.0**64:
            raise EvaluationError("unsigned integer overflow")
        return UInt(int(value))
    if type(value) in (int, UInt):
        return checked_integer(int(value), UInt(0))
    if type(value) is str and _DECIMAL.fullmatch(value) and value[0].isdigit():
        return checked_integer(int(value), UInt(0))
    raise _cannot(value, "uint")


def _double(frame: EvaluationFrame, value: Value) -> Value:
    frame.charge(1)
    if type(value) in (int, UInt, float):
        return float(value)
    if type(value) is str and len(value) <= 64 and _FLOAT.fullmatch(value):
        return float(value)
    raise _cannot(value, "double")


def _string(frame: EvaluationFrame, value: Value) -> Value:
    frame.charge(max(1, tenths(size_of(value))))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if type(value) is float:
        return _decimal(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
    if isinstance(value, (Duration, Timestamp)) or type_name(value) in {"net.IP", "net.CIDR"}:
        return str(value)
    raise _cannot(value, "string")


def _decimal(value: float) -> str:
    if not math.isfinite(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    # Python writes 1.0 where CEL writes 1.
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def _bool(frame: EvaluationFrame, value: Value) -> Value:
    frame.charge(1)
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    raise _cannot(value, "bool")


def _bytes(frame: EvaluationFrame, value: Value) -> Value:
    frame.charge(max(1, tenths(size_of(value))))
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise _cannot(value, "bytes")


def _type(frame: EvaluationFrame, value: Value) -> Value:
    frame.charge(1)
    # Types without a name in expressions, such as Quantity, still compare by type().
    return TYPES.get(type_name(value)) or Type(type_name(value))


# dyn() changes types for a type checker, which the API server has run.
def _dyn(frame: EvaluationFrame, value: Value) -> Value:
    frame.charge(1)
    return value


def _of_non_zero(frame: EvaluationFrame, value: Value) -> Value:
    frame.charge(1)
    empty = value is None or (not isinstance(value, Quantity) and not value)
    return Maybe(value, present=not empty)


def _maybe(value: Value) -> Maybe:
    if not isinstance(value, Maybe):
        raise no_overload()
    return value


def _has_value(frame: EvaluationFrame, value: Value) -> Value:
    frame.charge(1)
    return _maybe(value).present


def _value(frame: EvaluationFrame, value: Value) -> Value:
    frame.charge(1)
    return _maybe(value).value


def _unwrap(frame: EvaluationFrame, values: Value) -> Value:
    if not isinstance(values, list):
        raise no_overload("optional.unwrap")
    frame.charge(10 + len(values))
    return [each.value for each in map(_maybe, values) if each.present]


FUNCTIONS: Final[Functions] = {
    ("+", False): (2, 2, add),
    ("-", False): (2, 2, _subtract),
    ("*", False): (2, 2, _multiply),
    ("/", False): (2, 2, _divide),
    ("%", False): (2, 2, _modulus),
    ("negate", False): (1, 1, _negate),
    ("!", False): (1, 1, _not),
    ("==", False): (2, 2, _equals),
    ("!=", False): (2, 2, _differs),
    ("<", False): (2, 2, _ordered(-1)),
    ("<=", False): (2, 2, _ordered(-1, 0)),
    (">", False): (2, 2, _ordered(1)),
    (">=", False): (2, 2, _ordered(0, 1)),
    ("in", False): (2, 2, _in),
    ("size", False): (1, 1, _size),
    ("size", True): (1, 1, _size),
    ("int", False): (1, 1, _int),
    ("uint", False): (1, 1, _uint),
    ("double", False): (1, 1, _double),
    ("string", False): (1, 1, _string),
    ("bool", False): (1, 1, _bool),
    ("bytes", False): (1, 1, _bytes),
    ("type", False): (1, 1, _type),
    ("dyn", False): (1, 1, _dyn),
    ("optional.of", False): (1, 1, lambda _, value: Maybe(value)),
    ("optional.ofNonZeroValue", False): (1, 1, _of_non_zero),
    ("optional.none", False): (0, 0, lambda _: Maybe(present=False)),
    ("optional.unwrap", False): (1, 1, _unwrap),
    ("unwrapOpt", True): (1, 1, _unwrap),
    ("hasValue", True): (1, 1, _has_value),
    ("value", True): (1, 1, _value),
}
