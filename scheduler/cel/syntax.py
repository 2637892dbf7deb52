"""Syntax tree of a CEL expression."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: object


@dataclass(frozen=True, slots=True)
class Name:
    """A variable or a type."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """`target.name`; `target.?name` if `optional`; `has(target.name)` if `test`."""

    target: Node
    name: str
    optional: bool = False
    test: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """`target[key]`; `target[?key]` if `optional`."""

    target: Node
    key: Node
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """`name(arguments)`; if `member`, the first argument is the operand before the dot."""

    name: str
    arguments: tuple[Node, ...]
    member: bool = False


@dataclass(frozen=True, slots=True)
class ListOf:
    """`[items]`. An item whose flag is set is omitted if it is an empty optional."""

    items: tuple[tuple[Node, bool], ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    """`{key: value}`. An entry whose flag is set is omitted if its value is an empty optional."""

    entries: tuple[tuple[Node, Node, bool], ...]


@dataclass(frozen=True, slots=True)
class Logic:
    """`&&` of all terms if `every`, else `||`."""

    every: bool
    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Conditional:
    """`condition ? then : otherwise`."""

    condition: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True, slots=True)
class Macro:
    """`target.name(variables, bodies)`: the bodies are evaluated for each element."""

    name: str
    target: Node
    variables: tuple[str, ...]
    bodies: tuple[Node, ...]


Node = Literal | Name | Select | Index | Call | ListOf | MapOf | Logic | Conditional | Macro
