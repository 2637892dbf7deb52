"""The Common Expression Language for webhook match conditions and schema rules.

This is the only module that uses the CEL library. An expression that the library cannot compile is
rejected when it is stored, never skipped in evaluation: `compile_expression` raises.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping
from typing import Any

from localcluster.base.errors import Cause
from localcluster.base.fielderrors import invalid


class CelError(Exception):
    """An expression cannot be compiled or evaluated; `detail` is the reason for a user."""

    def __init__(self, expression: str, detail: str) -> None:
        super().__init__(f"{detail} (expression: {expression})")
        self.expression = expression
        self.detail = detail


class CompileError(CelError):
    """The expression is rejected before it is stored."""


class EvaluationError(CelError):
    """The expression is valid, but failed on this input (a missing key, a wrong type)."""


class Expression:
    """A compiled expression over a fixed set of variables."""

    __slots__ = ("_program", "result", "text")

    def __init__(self, text: str, program: Any) -> None:
        self.text = text
        self._program = program
        self.result: str = program.return_type().name()

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Return the plain value; `values` are JSON values by variable name.

        Raises EvaluationError.
        """
        try:
            answer = self._program.eval(data=values)
            if answer.type().name() == "ERROR":
                raise EvaluationError(self.text, _go_words(str(answer.value())))
            return answer.plain_value()
        except (RuntimeError, TypeError, ValueError) as error:
            raise EvaluationError(self.text, _go_words(str(error))) from error


@functools.cache
def _library() -> Any:
    try:
        from cel_expr_python import cel
    except ImportError as error:
        raise CompileError("", "the CEL library is not installed: muster[cel]") from error
    return cel


def _list_sum(items: list[Any]) -> Any:
    return sum(items)


def _is_sorted(items: list[Any]) -> bool:
    return all(a <= b for a, b in itertools.pairwise(items))


def _contains_all(outer: list[Any], inner: list[Any]) -> bool:
    return all(item in outer for item in inner)


def _equivalent(one: list[Any], other: list[Any]) -> bool:
    return _contains_all(one, other) and _contains_all(other, one)


def _intersects(one: list[Any], other: list[Any]) -> bool:
    return any(item in other for item in one)


def _functions(cel: Any) -> list[Any]:
    """Return the functions of Kubernetes' CEL libraries that work on plain JSON values."""
    kinds = cel.Type
    items = kinds.List(kinds.DYN)

    def member(name: str, result: Any, implementation: Any) -> Any:
        overload = cel.Overload(f"list_{name}", result, [items], True, implementation)
        return cel.FunctionDecl(name, [overload])

    def on_sets(name: str, implementation: Any) -> Any:
        overload = cel.Overload(f"sets_{name}", kinds.BOOL, [items, items], False, implementation)
        return cel.FunctionDecl(f"sets.{name}", [overload])

    return [
        member("sum", kinds.DYN, _list_sum),
        member("min", kinds.DYN, min),
        member("max", kinds.DYN, max),
        member("isSorted", kinds.BOOL, _is_sorted),
        on_sets("contains", _contains_all),
        on_sets("equivalent", _equivalent),
        on_sets("intersects", _intersects),
    ]


def _extensions() -> list[Any]:
    from cel_expr_python.ext import (
        ext_bindings,
        ext_encoders,
        ext_math,
        ext_optional,
        ext_strings,
    )

    return [
        ext_optional.ExtOptional(),
        ext_strings.ExtStrings(),
        ext_math.ExtMath(),
        ext_encoders.ExtEncoders(),
        ext_bindings.ExtBindings(),
    ]


@functools.cache
def _environment(variables: tuple[str, ...]) -> Any:
    cel = _library()
    return cel.NewEnv(
        variables=dict.fromkeys(variables, cel.Type.DYN),
        extensions=_extensions(),
        functions=_functions(cel),
    )


_SIGNATURE = re.compile(r"(?:(?P<on>\S+)\.)?(?P<name>\w+)\((?P<arguments>\S*)\) (?P<result>\S+)")
_TYPES = {"any": "DYN", "bool": "BOOL", "int": "INT", "double": "DOUBLE", "string": "STRING"}


class Checker:
    """Compiler for expressions over typed variables and functions; it only type-checks them.

    A type is string, bool, int, double, any, `[T]` for a list, `{T}` for a map from strings, or a
    capitalized name for a custom type. A function is `name(types) type`, a method `type.name(types)
    type`.
    """

    def __init__(self, variables: Mapping[str, str], functions: str) -> None:
        """Declare the variables with their types, and functions line by line."""
        self._variables = variables
        self._functions = functions.split("\n")

    @functools.cached_property
    def _environment(self) -> Any:
        cel = _library()
        overloads: dict[str, list[Any]] = {}
        for number, line in enumerate(filter(None, self._functions)):
            name, overload = _overload(cel, line, number)
            overloads.setdefault(name, []).append(overload)
        return cel.NewEnv(
            variables={name: _type(cel, word) for name, word in self._variables.items()},
            extensions=_extensions(),
            functions=[cel.FunctionDecl(name, all_) for name, all_ in overloads.items()],
        )

    def compile(self, text: str) -> Expression:
        """Return the compiled expression, which must not be evaluated. Raises CompileError."""
        return _compiled(text, self._environment)


def _overload(cel: Any, line: str, number: int) -> tuple[str, Any]:
    found = _SIGNATURE.fullmatch(line)
    if found is None:
        raise ValueError(f"no function: {line!r}")
    on, name = found["on"], found["name"]
    words = [word for word in found["arguments"].split(",") if word]
    is_method = on is not None and (on[0] in "[{" or on[0].isupper() or on in _TYPES)
    if is_method:
        words.insert(0, on)
    elif on is not None:
        name = f"{on}.{name}"
    types = [_type(cel, word) for word in words]
    overload = cel.Overload(f"declared_{number}", _type(cel, found["result"]), types, is_method)
    return name, overload


def _type(cel: Any, word: str) -> Any:
    if word[0] == "[":
        return cel.Type.List(_type(cel, word[1:-1]))
    if word[0] == "{":
        return cel.Type.Map(cel.Type.STRING, _type(cel, word[1:-1]))
    known = _TYPES.get(word)
    return getattr(cel.Type, known) if known else cel.Type.AbstractType(f"kubernetes.{word}", [])


@functools.lru_cache(maxsize=4096)
def compile_expression(text: str, variables: tuple[str, ...]) -> Expression:
    """Compile `text` over dynamically typed `variables`. Raises CompileError."""
    return _compiled(text, _environment(variables))


def _compiled(text: str, environment: Any) -> Expression:
    try:
        return Expression(text, environment.compile(text))
    except RuntimeError as error:
        detail = re.sub(r"^INVALID_ARGUMENT: | \[INVALID_ARGUMENT\]$", "", str(error))
        raise CompileError(text, f"compilation failed: {detail}") from error


def compile_condition(text: str, variables: tuple[str, ...]) -> Expression:
    """Compile an expression whose static type must be bool. Raises CompileError."""
    expression = compile_expression(text, variables)
    if expression.result != "BOOL":
        kind = expression.result.lower()
        raise CompileError(text, f"must evaluate to bool but got {kind}")
    return expression


def mentions(text: str, variable: str) -> bool:
    """Return True if the expression reads `variable`, so that it fails to compile without it."""
    if not re.search(rf"\b{re.escape(variable)}\b", text):
        return False
    stripped = re.sub(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', '""', text)
    return re.search(rf"(?<![.\w]){re.escape(variable)}\b", stripped) is not None


_MISSING_KEY = re.compile(r'Key not found in map : "(?P<key>.*)"')
_OUT_OF_BOUNDS = re.compile(r"Index error: index=(?P<index>-?\d+) size=\d+")
_NO_OVERLOAD = re.compile(r"No matching overloads found")


def _go_words(message: str) -> str:
    """Return the API server's message for the most common errors."""
    if found := _MISSING_KEY.search(message):
        return f"no such key: {found['key']}"
    if found := _OUT_OF_BOUNDS.search(message):
        return f"index out of bounds: {found['index']}"
    if _NO_OVERLOAD.search(message):
        return "no such overload"
    return message


def refusal(path: str, error: CompileError) -> Cause:
    """Return the error for an expression at `path` that is rejected when its object is stored."""
    return invalid(path, error.expression, error.detail)
