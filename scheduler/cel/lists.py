"""CEL functions of lists and sets: CEL's extensions, and Kubernetes' own."""

from __future__ import annotations

import functools
import itertools
from typing import Final

from scheduler.cel.errors import EvaluationError, no_overload
from scheduler.cel.evaluation import EvaluationFrame, Function, Functions
from scheduler.cel.operators import add, found_in, ordered
from scheduler.cel.times import Duration
from scheduler.cel.values import NONE, Maybe, UInt, Value, type_name


def _list(value: Value, function: str) -> list[Value]:
    if not isinstance(value, list):
        raise no_overload(f"{function}({type_name(value)})")
    return value


def _integer(value: Value, function: str) -> int:
    if type(value) is not int:
        raise no_overload(function)
    return value


def _slice(frame: EvaluationFrame, of: Value, start: Value, end: Value) -> Value:
    items = _list(of, "slice")
    first, last = _integer(start, "slice"), _integer(end, "slice")
    if first < 0 or last < 0:
        raise EvaluationError(f"cannot slice({first}, {last}), negative indexes not supported")
    if first > last:
        problem = "start index must be less than or equal to end index"
        raise EvaluationError(f"cannot slice({first}, {last}), {problem}")
    if last > len(items):
        raise EvaluationError(f"cannot slice({first}, {last}), list is length {len(items)}")
    frame.charge(10 + last - first)
    return items[first:last]


def _flatten(frame: EvaluationFrame, of: Value, levels: Value = 1) -> Value:
    if _integer(levels, "flatten") < 0:
        raise EvaluationError("level must be non-negative")
    return _flat(frame, _list(of, "flatten"), min(levels, 1000))


def _flat(frame: EvaluationFrame, items: list[Value], levels: int) -> list[Value]:
    made = items
    # An expression may ask for any number of levels; the loop ends when nothing is nested.
    while levels and any(isinstance(each, list) for each in made):
        frame.charge(10 + sum(len(each) if isinstance(each, list) else 1 for each in made))
        made = list(itertools.chain.from_iterable(e if isinstance(e, list) else (e,) for e in made))
        levels -= 1
    return made


def _range(frame: EvaluationFrame, count: Value) -> Value:
    number = _integer(count, "lists.range")
    # Before the list exists: a range of 10**12 is refused without taking its memory.
    frame.charge(11 + max(number, 0))
    return list(range(number))


def _reverse(frame: EvaluationFrame, of: Value) -> Value:
    items = _list(of, "reverse")
    frame.charge(10 + len(items))
    return items[::-1]


def _distinct(frame: EvaluationFrame, of: Value) -> Value:
    items = _list(of, "distinct")
    made: list[Value] = []
    # By comparison, not by hash: in CEL 1 == 1.0, and lists and maps are values, too.
    for item in items:
        if not found_in(frame, item, made):
            made.append(item)
    return made


def _sort(frame: EvaluationFrame, of: Value) -> Value:
    items = _list(of, "sort")
    return sorted_by(frame, items, items)


def sorted_by(frame: EvaluationFrame, items: list[Value], keys: list[Value]) -> list[Value]:
    """Return the items in the order of their keys, which have one type. Raises EvaluationError."""
    frame.charge(10 + len(items) * max(1, len(items).bit_length()))
    if len({type(key) for key in keys}) > 1:
        raise EvaluationError("list elements must have the same type")
    # Positions are sorted, not items: the keys decide, and each is computed once.
    places = sorted(range(len(items)), key=functools.cmp_to_key(_by(frame, keys)))
    return [items[place] for place in places]


def _by(frame: EvaluationFrame, keys: list[Value]) -> Function:
    # A NaN has no order and counts as equal to any number.
    return lambda one, other: ordered(frame, keys[one], keys[other], "sort") or 0


def _first(_: EvaluationFrame, of: Value) -> Value:
    items = _list(of, "first")
    return Maybe(items[0]) if items else NONE


def _last(_: EvaluationFrame, of: Value) -> Value:
    items = _list(of, "last")
    return Maybe(items[-1]) if items else NONE


def _is_sorted(frame: EvaluationFrame, of: Value) -> Value:
    items = _list(of, "isSorted")
    orders = [ordered(frame, one, other, "isSorted") for one, other in itertools.pairwise(items)]
    return all(each is not None and each <= 0 for each in orders)


def _sum(frame: EvaluationFrame, of: Value) -> Value:
    total: Value = None
    # Not Python's sum(): overflow is an error, and types may not be mixed.
    for item in _list(of, "sum"):
        frame.charge(1)
        if type(item) not in (int, UInt, float, Duration):
            raise no_overload("sum")
        total = item if total is None else add(frame, total, item)
    return 0 if total is None else total


def _extreme(name: str, wanted: int) -> Function:
    def find(frame: EvaluationFrame, of: Value) -> Value:
        items = _list(of, name)
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if ordered(frame, item, best, name) == wanted:
                best = item
        return best

    return find


def contains(frame: EvaluationFrame, outer: Value, inner: Value) -> Value:
    """Evaluate `sets.contains`."""
    large, small = _list(outer, "sets.contains"), _list(inner, "sets.contains")
    return all(found_in(frame, item, large) for item in small)


def _equivalent(frame: EvaluationFrame, one: Value, other: Value) -> Value:
    return contains(frame, one, other) and contains(frame, other, one)


def _intersects(frame: EvaluationFrame, one: Value, other: Value) -> Value:
    left, right = _list(one, "sets.intersects"), _list(other, "sets.intersects")
    return any(found_in(frame, item, left) for item in right)


FUNCTIONS: Final[Functions] = {
    ("slice", True): (3, 3, _slice),
    ("flatten", True): (1, 2, _flatten),
    ("lists.range", False): (1, 1, _range),
    ("reverse", True): (1, 1, _reverse),
    ("distinct", True): (1, 1, _distinct),
    ("sort", True): (1, 1, _sort),
    ("first", True): (1, 1, _first),
    ("last", True): (1, 1, _last),
    ("isSorted", True): (1, 1, _is_sorted),
    ("sum", True): (1, 1, _sum),
    ("min", True): (1, 1, _extreme("min", -1)),
    ("max", True): (1, 1, _extreme("max", 1)),
    ("sets.contains", False): (2, 2, contains),
    ("sets.equivalent", False): (2, 2, _equivalent),
    ("sets.intersects", False): (2, 2, _intersects),
}
