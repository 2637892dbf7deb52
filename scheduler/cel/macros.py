"""CEL macros: expressions that are evaluated for each element of a list or map."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from scheduler.cel.errors import EvaluationError, no_overload
from scheduler.cel.evaluation import Evaluate, EvaluationFrame, Lazy, VariableScope, build, settled
from scheduler.cel.lists import sorted_by
from scheduler.cel.syntax import Macro
from scheduler.cel.values import NONE, Maybe, Value, key_of, type_name

Step = Callable[[EvaluationFrame], Iterator[None]]


def build_macro(node: Macro, scope: VariableScope) -> Evaluate:
    """Return the function of a macro. Raises SelectorError."""
    # Outside the scope of the macro's variables: the target cannot name them.
    target = build(node.target, scope)
    bodies: list[Evaluate] = []
    first = scope.slots

    def make() -> Evaluate:
        bodies.extend(build(body, scope) for body in node.bodies)
        return bodies[-1]

    scope.bind(node.variables, make)
    if node.name == "bind":
        return _bind(target, first, bodies[0])
    if node.name in {"optMap", "optFlatMap"}:
        return _map_optional(target, first, bodies[0], flat=node.name == "optFlatMap")
    walk = _pairs(first) if len(node.variables) == 2 else _elements(first)
    # With two bodies, as in map(x, condition, value), the first one is a filter.
    condition = bodies[0] if len(bodies) == 2 else None
    return _MACROS[node.name](target, walk, condition, bodies[-1])


Walk = Callable[[EvaluationFrame, Value], Iterator[Value]]
"""Sets the variables to each element and yields the value that `filter` keeps."""


def _elements(slot: int) -> Walk:
    def walk(frame: EvaluationFrame, over: Value) -> Iterator[Value]:
        for element in _sequence(over):
            frame.charge(1)
            frame.slots[slot] = element
            yield element

    return walk


def _sequence(over: Value) -> list[Value]:
    if not isinstance(over, (list, dict)):
        raise EvaluationError(f"got a {type_name(over)}, expected a list or a map")
    return list(over)


def _pairs(slot: int) -> Walk:
    def walk(frame: EvaluationFrame, over: Value) -> Iterator[Value]:
        sequence = _sequence(over)
        pairs = over.items() if isinstance(over, dict) else enumerate(sequence)
        for key, value in pairs:
            frame.charge(1)
            frame.slots[slot], frame.slots[slot + 1] = key, value
            yield key

    return walk


def _quantified(every: bool) -> Callable[..., Evaluate]:
    def make(target: Evaluate, walk: Walk, _: Evaluate | None, body: Evaluate) -> Evaluate:
        def attempts(frame: EvaluationFrame) -> Iterator[Evaluate]:
            for _ in walk(frame, target(frame)):
                frame.charge(1)
                # settled() evaluates one body before it takes the next: the slot has its element.
                yield body

        return lambda frame: settled(every, attempts(frame), frame)

    return make


def _holds(condition: Evaluate | None, frame: EvaluationFrame) -> bool:
    if condition is None:
        return True
    value = condition(frame)
    if not isinstance(value, bool):
        raise no_overload()
    return value


def _exists_one(target: Evaluate, walk: Walk, _: Evaluate | None, body: Evaluate) -> Evaluate:
    # Unlike all and exists, exists_one does not ignore errors: the number has to be exact.
    return lambda frame: sum(_holds(body, frame) for _ in walk(frame, target(frame))) == 1


def _filter(target: Evaluate, walk: Walk, _: Evaluate | None, body: Evaluate) -> Evaluate:
    def evaluate(frame: EvaluationFrame) -> Value:
        frame.charge(10)
        return _kept(frame, (each for each in walk(frame, target(frame)) if _holds(body, frame)))

    return evaluate


def _kept(frame: EvaluationFrame, values: Iterator[Value]) -> list[Value]:
    """Return the values as a list. To append one costs as much as a list of one, as upstream."""
    made: list[Value] = []
    for value in values:
        frame.charge(11)
        made.append(value)
    return made


def _to_list(target: Evaluate, walk: Walk, condition: Evaluate | None, body: Evaluate) -> Evaluate:
    def evaluate(frame: EvaluationFrame) -> Value:
        frame.charge(10)
        over = target(frame)
        return _kept(frame, (body(frame) for _ in walk(frame, over) if _holds(condition, frame)))

    return evaluate


def _to_map(target: Evaluate, walk: Walk, condition: Evaluate | None, body: Evaluate) -> Evaluate:
    def evaluate(frame: EvaluationFrame) -> Value:
        frame.charge(30)
        made: dict[Value, Value] = {}
        for key in walk(frame, target(frame)):
            if _holds(condition, frame):
                _insert(made, key, body(frame))
        return made

    return evaluate


def _to_entries(
    target: Evaluate, walk: Walk, condition: Evaluate | None, body: Evaluate
) -> Evaluate:
    def evaluate(frame: EvaluationFrame) -> Value:
        frame.charge(30)
        made: dict[Value, Value] = {}
        for _ in walk(frame, target(frame)):
            if _holds(condition, frame):
                entries = body(frame)
                if not isinstance(entries, dict):
                    raise no_overload()
                for key, value in entries.items():
                    _insert(made, key, value)
        return made

    return evaluate


def _insert(made: dict[Value, Value], key: Value, value: Value) -> None:
    # CEL defines a repeated key as an error, where Python's dict would overwrite it.
    if key_of(key) in made:
        raise EvaluationError(f"insert failed: key {key} already exists")
    made[key] = value


def _sort_by(target: Evaluate, walk: Walk, _: Evaluate | None, body: Evaluate) -> Evaluate:
    def evaluate(frame: EvaluationFrame) -> Value:
        over = target(frame)
        if not isinstance(over, list):
            raise no_overload("sortBy")
        keys = _kept(frame, (body(frame) for _ in walk(frame, over)))
        return sorted_by(frame, over, keys)

    return evaluate


def _bind(value: Evaluate, slot: int, body: Evaluate) -> Evaluate:
    def evaluate(frame: EvaluationFrame) -> Value:
        # cel.bind evaluates its value only where the body uses it; an unused one costs nothing and
        # cannot fail.
        frame.slots[slot] = Lazy(value)
        return body(frame)

    return evaluate


def _map_optional(target: Evaluate, slot: int, body: Evaluate, *, flat: bool) -> Evaluate:
    def evaluate(frame: EvaluationFrame) -> Value:
        found = target(frame)
        frame.charge(1)
        if not isinstance(found, Maybe):
            raise no_overload()
        if not found.present:
            return NONE
        frame.slots[slot] = found.value
        value = body(frame)
        if not flat:
            return Maybe(value)
        if not isinstance(value, Maybe):
            raise no_overload()
        return value

    return evaluate


_MACROS: Final[dict[str, Callable[..., Evaluate]]] = {
    "all": _quantified(every=True),
    "exists": _quantified(every=False),
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "map": _to_list,
    "filter": _filter,
    "transformList": _to_list,
    "transformMap": _to_map,
    "transformMapEntry": _to_entries,
    "sortBy": _sort_by,
}
