"""Compilation of the syntax tree to Python functions.

Each node becomes a function that takes the frame of one evaluation and returns the node's value. So
the tree is walked once, not for every device. A frame counts the cost of the evaluation in the
units of kube-scheduler: about one for each step, and for texts and lists one for each ten
characters or elements. Functions charge for a value before they create it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from scheduler.cel.entries import get, get_optional, has
from scheduler.cel.errors import (
    CostExceededError,
    EvaluationError,
    SelectorError,
    no_overload,
)
from scheduler.cel.patterns import Pattern
from scheduler.cel.syntax import (
    Call,
    Conditional,
    Index,
    ListOf,
    Literal,
    Logic,
    Macro,
    MapOf,
    Name,
    Node,
    Select,
)
from scheduler.cel.values import (
    TYPES,
    Maybe,
    Type,
    Value,
    key_of,
    same,
)

LARGEST_TREE: Final = 100
"""Depth to which operations may be nested. Deeper selectors do not compile: each level takes
several Python frames."""

MOST_PATTERNS: Final = 64
"""Number of regular expressions that one selector may contain. One with more does not compile."""


class EvaluationFrame:
    """The state of one evaluation: the values of variables, and the cost so far."""

    __slots__ = ("cost", "limit", "slots")

    def __init__(self, device: Value, slots: int, limit: int) -> None:
        self.slots: list[Value] = [None] * slots
        self.slots[0] = device
        self.cost = 0
        self.limit = limit

    def charge(self, cost: int) -> None:
        """Add the cost. Raises CostExceededError beyond the limit."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceededError


Evaluate = Callable[[EvaluationFrame], Value]

Function = Callable[..., Value]
"""A CEL function: takes the frame, then the arguments."""

Functions = Mapping[tuple[str, bool], tuple[int, int, Function]]
"""The functions by name and by whether they are members: fewest and most arguments, function."""


class VariableScope:
    """The variables that a part of the expression can name, by their slots in the frame."""

    def __init__(
        self, functions: Functions, macro: Callable[[Macro, VariableScope], Evaluate]
    ) -> None:
        """Start with the variable `device`. `macro` compiles a macro."""
        self.functions = functions
        self.macro = macro
        self.slots = 1
        self.depth = 0
        self.patterns = 0
        self._names = {"device": 0}

    def find(self, name: str) -> int | None:
        return self._names.get(name)

    def bind(self, names: tuple[str, ...], body: Callable[[], Evaluate]) -> Evaluate:
        """Return the result of `body`, which sees the names in new slots, the last of the scope."""
        # Names end with the body, slots do not: a Lazy runs in the middle of the body, and must not
        # overwrite the body's variables with those of its own macros.
        before = dict(self._names)
        for name in names:
            self._names[name] = self.slots
            self.slots += 1
        made = body()
        self._names = before
        return made


def build(node: Node, scope: VariableScope) -> Evaluate:
    """Return the function of a node. Raises SelectorError."""
    scope.depth += 1
    if scope.depth > LARGEST_TREE:
        raise SelectorError(f"more than {LARGEST_TREE} operations stand within each other")
    made = _BUILDERS[type(node)](node, scope)
    scope.depth -= 1
    return made


def _literal(node: Literal, _: VariableScope) -> Evaluate:
    value = node.value
    return lambda _: value


def _name(node: Name, scope: VariableScope) -> Evaluate:
    slot = scope.find(node.name)
    if slot is None:
        if node.name not in TYPES:
            raise _undeclared(node.name)
        kind = TYPES[node.name]
        return lambda _: kind

    def evaluate(frame: EvaluationFrame) -> Value:
        # Reading a variable allocates nothing, so the limit waits for the next charge().
        frame.cost += 1
        value = frame.slots[slot]
        return value(frame) if isinstance(value, Lazy) else value

    return evaluate


class Lazy:
    """The value of cel.bind. It is evaluated at its first use, and only once."""

    __slots__ = ("_evaluate", "_failure", "_value")

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate: Evaluate | None = evaluate
        self._value: Value = None
        self._failure: EvaluationError | None = None

    def __call__(self, frame: EvaluationFrame) -> Value:
        if self._evaluate is not None:
            try:
                self._value = self._evaluate(frame)
            except EvaluationError as failure:
                self._failure = failure
            # A failure is kept, too: a later use raises it without a second evaluation.
            self._evaluate = None
        if self._failure is not None:
            raise self._failure
        return self._value


def _select(node: Select, scope: VariableScope) -> Evaluate:
    kind = _type_of(node)
    if kind is not None:
        return lambda _: kind
    target, name = build(node.target, scope), node.name
    if node.test:
        return lambda frame: has(target(frame), name)
    read = get_optional if node.optional else get

    def evaluate(frame: EvaluationFrame) -> Value:
        value = target(frame)
        frame.cost += 1
        if isinstance(value, list):
            raise no_overload()
        return read(value, name)

    return evaluate


def _type_of(node: Select) -> Type | None:
    """Return the type if the node is the name of one, such as google.protobuf.Duration."""
    outer = node.target
    if node.test or node.optional:
        return None
    if not (isinstance(outer, Select) and isinstance(outer.target, Name)):
        return None
    return TYPES.get(f"{outer.target.name}.{outer.name}.{node.name}")


def _index(node: Index, scope: VariableScope) -> Evaluate:
    target, key = build(node.target, scope), build(node.key, scope)
    read = get_optional if node.optional else get

    def evaluate(frame: EvaluationFrame) -> Value:
        value = target(frame)
        frame.cost += 1
        if isinstance(value, Maybe) and not value.present:
            # As in kube-scheduler, the key is not evaluated: it may fail or cost anything.
            return value
        return read(value, key(frame))

    return evaluate


def _call(node: Call, scope: VariableScope) -> Evaluate:
    # kube-scheduler looks up constants in a hash set: its cost and errors differ from a search's.
    if node.name == "in" and isinstance(node.arguments[1], ListOf):
        constants = _constants(node.arguments[1])
        if constants is not None:
            return _in_constants(build(node.arguments[0], scope), constants)
    if node.name in _WITH_PATTERN and len(node.arguments) > 1:
        node = _with_pattern(node, scope)
    arguments = tuple(build(each, scope) for each in node.arguments)
    # Functions get evaluated arguments; that of these is evaluated only if there is no value.
    if node.member and node.name in {"or", "orValue"} and len(arguments) == 2:
        return _or(arguments[0], arguments[1], unwrap=node.name == "orValue")
    found = scope.functions.get((node.name, node.member))
    if found is None:
        raise _undeclared(node.name)
    fewest, most, function = found
    if not fewest <= len(arguments) <= most:
        raise SelectorError(f"no overload of {node.name!r} has {len(arguments)} arguments")
    # Most operators have one or two arguments, for which no generator has to be unpacked.
    if len(arguments) == 1:
        only = arguments[0]
        return lambda frame: function(frame, only(frame))
    if len(arguments) == 2:
        one, other = arguments
        return lambda frame: function(frame, one(frame), other(frame))
    return lambda frame: function(frame, *(each(frame) for each in arguments))


_WITH_PATTERN: Final = frozenset({"matches", "find", "findAll"})


def _with_pattern(node: Call, scope: VariableScope) -> Call:
    """Return the call with its constant regular expression compiled. Raises SelectorError."""
    text, given, *rest = node.arguments
    if not isinstance(given, Literal) or not isinstance(given.value, str):
        return node
    scope.patterns += 1
    if scope.patterns > MOST_PATTERNS:
        raise SelectorError(f"more than {MOST_PATTERNS} regular expressions")
    try:
        return Call(node.name, (text, Literal(Pattern(given.value)), *rest), node.member)
    except EvaluationError as error:
        raise SelectorError(str(error)) from None


# The API server accepts these, so the message says whose gap it is.
_ELSEWHERE: Final = frozenset({"url", "isURL", "format"})


def _undeclared(name: str) -> SelectorError:
    advice = ""
    if name in _ELSEWHERE:
        advice = ": Muster does not evaluate URLs and formats"
    return SelectorError(f"undeclared reference to {name!r}{advice}")


def _constants(node: ListOf) -> list[Value] | None:
    """Return the elements if all are constants, else None."""
    values = [item.value for item, optional in node.items if isinstance(item, Literal)]
    return values if len(values) == len(node.items) else None


def _in_constants(value: Evaluate, constants: list[Value]) -> Evaluate:
    if not constants:
        # kube-scheduler does not evaluate the value here, so an error in it does not count.
        return lambda _: False

    def evaluate(frame: EvaluationFrame) -> bool:
        wanted = value(frame)
        # kube-scheduler fails for what its hash set cannot hash; lists and maps it can.
        if getattr(wanted, "__hash__", None) is None and not isinstance(wanted, (list, dict)):
            raise EvaluationError("a version cannot be looked up in a list of constants")
        frame.charge(1)
        return any(same(each, wanted) for each in constants)

    return evaluate


def _or(value: Evaluate, otherwise: Evaluate, *, unwrap: bool) -> Evaluate:
    def evaluate(frame: EvaluationFrame) -> Value:
        found = value(frame)
        if not isinstance(found, Maybe):
            # As in kube-scheduler, a value that is not optional counts as present.
            return found
        if not found.present:
            return otherwise(frame)
        return found.value if unwrap else found

    return evaluate


def _list(node: ListOf, scope: VariableScope) -> Evaluate:
    items = tuple((build(item, scope), optional) for item, optional in node.items)

    def evaluate(frame: EvaluationFrame) -> Value:
        # cel-go's base cost of a list; a map costs 30.
        frame.charge(10)
        made: list[Value] = []
        for item, optional in items:
            value = item(frame)
            if optional:
                _add_present(made, value)
            else:
                made.append(value)
        return made

    return evaluate


def _add_present(made: list[Value], value: Value) -> None:
    if not isinstance(value, Maybe):
        raise no_overload()
    if value.present:
        made.append(value.value)


def _map(node: MapOf, scope: VariableScope) -> Evaluate:
    entries = tuple((build(k, scope), build(v, scope), o) for k, v, o in node.entries)

    def evaluate(frame: EvaluationFrame) -> Value:
        frame.charge(30)
        made: dict[Value, Value] = {}
        for key, value, optional in entries:
            at, held = key_of(key(frame)), value(frame)
            if optional:
                if not isinstance(held, Maybe):
                    raise no_overload()
                if not held.present:
                    continue
                held = held.value
            made[at] = held
        return made

    return evaluate


def settled(every: bool, attempts: Iterable[Evaluate], frame: EvaluationFrame) -> bool:
    """Return `every`, or its opposite if one attempt decides so; that hides errors of others."""
    failure: EvaluationError | None = None
    for attempt in attempts:
        try:
            value = attempt(frame)
        except EvaluationError as error:
            # A later attempt may still decide. If none does, the first error is the result.
            failure = failure or error
            continue
        if value is (not every):
            return not every
        if value is not every:
            failure = failure or no_overload()
    if failure is not None:
        raise failure
    return every


def _logic(node: Logic, scope: VariableScope) -> Evaluate:
    terms = tuple(build(term, scope) for term in node.terms)
    every = node.every
    return lambda frame: settled(every, terms, frame)


def _conditional(node: Conditional, scope: VariableScope) -> Evaluate:
    condition = build(node.condition, scope)
    then, otherwise = build(node.then, scope), build(node.otherwise, scope)

    def evaluate(frame: EvaluationFrame) -> Value:
        value = condition(frame)
        if not isinstance(value, bool):
            raise no_overload()
        return then(frame) if value else otherwise(frame)

    return evaluate


def _macro(node: Macro, scope: VariableScope) -> Evaluate:
    return scope.macro(node, scope)


_BUILDERS: Final[Mapping[type, Callable[..., Evaluate]]] = {
    Literal: _literal,
    Name: _name,
    Select: _select,
    Index: _index,
    Call: _call,
    ListOf: _list,
    MapOf: _map,
    Logic: _logic,
    Conditional: _conditional,
    Macro: _macro,
}
