"""Parser: from tokens to the syntax tree.

It distinguishes macros from calls, because arguments of macros are expressions, not values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.cel.errors import SelectorError
from scheduler.cel.lexer import KEYWORDS, RESERVED, Token, syntax_error, tokens
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
from scheduler.cel.values import LARGEST, MOST, UInt

DEEPEST: Final = 60
"""Depth to which brackets may be nested (250 in kube-scheduler). Deeper ones do not compile."""

NAMESPACES: Final = frozenset({"sets", "lists", "optional", "strings", "ip"})
"""Names before the dot that are part of a function's name."""

_MACROS: Final[Mapping[tuple[str, int], tuple[int, int]]] = {
    ("all", 2): (1, 1),
    ("exists", 2): (1, 1),
    ("exists_one", 2): (1, 1),
    ("existsOne", 2): (1, 1),
    ("map", 2): (1, 1),
    ("map", 3): (1, 2),
    ("filter", 2): (1, 1),
    ("all", 3): (2, 1),
    ("exists", 3): (2, 1),
    ("exists_one", 3): (2, 1),
    ("existsOne", 3): (2, 1),
    ("transformList", 3): (2, 1),
    ("transformList", 4): (2, 2),
    ("transformMap", 3): (2, 1),
    ("transformMap", 4): (2, 2),
    ("transformMapEntry", 3): (2, 1),
    ("transformMapEntry", 4): (2, 2),
    ("sortBy", 2): (1, 1),
    ("optMap", 2): (1, 1),
    ("optFlatMap", 2): (1, 1),
}
"""By name and number of arguments: how many of these are variables, and how many are bodies."""

# From the weakest operators to those that bind most tightly.
_BINARY: Final[tuple[tuple[str, ...], ...]] = (
    ("<", "<=", ">=", ">", "==", "!=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)


def parse(text: str) -> Node:
    """Return the tree of the expression. Raises SelectorError."""
    parser = _Parser(tokens(text))
    tree = parser.expression()
    parser.end()
    return tree


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._at = 0
        self._depth = 0

    def end(self) -> None:
        if self._next.kind != "end":
            raise self._unexpected()

    def expression(self) -> Node:
        # Every bracket and every `? :` leads here, so this bounds the parser's own recursion.
        self._depth += 1
        if self._depth > DEEPEST:
            raise SelectorError(f"nested more than {DEEPEST} levels deep")
        condition = self._logic(every=False)
        if self._take("?"):
            then = self._logic(every=False)
            self._expect(":")
            condition = Conditional(condition, then, self.expression())
        self._depth -= 1
        return condition

    def _logic(self, *, every: bool) -> Node:
        terms = [self._term(every=every)]
        while self._take("&&" if every else "||"):
            terms.append(self._term(every=every))
        # One node for a chain of terms: nested pairs would reach the depth limit after 100 terms.
        return terms[0] if len(terms) == 1 else Logic(every, tuple(terms))

    def _term(self, *, every: bool) -> Node:
        return self._binary(0) if every else self._logic(every=True)

    def _binary(self, level: int) -> Node:
        if level == len(_BINARY):
            return self._unary()
        left = self._binary(level + 1)
        while self._next.kind in {"mark", "name"} and self._next.value in _BINARY[level]:
            operator = str(self._advance().value)
            left = Call(operator, (left, self._binary(level + 1)))
        return left

    def _unary(self) -> Node:
        marks = 0
        mark = self._next.value
        if self._next.kind != "mark" or mark not in ("!", "-"):
            return self._member()
        while self._take(str(mark)):
            marks += 1
        # The smallest int has no positive counterpart, so sign and digits form one literal.
        if mark == "-" and self._next.kind in {"int", "float"}:
            number = self._number(self._advance(), negative=True)
            target = self._after(Literal(number))
            marks -= 1
        else:
            target = self._member()
        # Pairs cancel out, so 9,000 signs stay below the depth limit. The last pair stays: it
        # checks the type of its operand.
        for _ in range(marks if marks < 2 else 2 - marks % 2):
            target = Call("!" if mark == "!" else "negate", (target,))
        return target

    def _member(self) -> Node:
        return self._after(self._primary())

    def _after(self, target: Node) -> Node:
        # A loop instead of recursion: a chain of fields may be as long as the selector.
        while True:
            if self._take("."):
                target = self._dotted(target)
            elif self._take("["):
                optional = self._take("?")
                target = Index(target, self.expression(), optional)
                self._expect("]")
            else:
                return target

    def _dotted(self, target: Node) -> Node:
        optional = self._take("?")
        token = self._advance()
        if token.kind != "name" or token.value in KEYWORDS:
            raise syntax_error(token.at, f"a name is expected after the dot, not {token}")
        name = str(token.value)
        if optional or not self._take("("):
            return Select(target, name, optional)
        arguments = self._arguments(")")
        # `sets.contains(a, b)` is a function with a dot in its name, not a member of a variable.
        if isinstance(target, Name):
            if (target.name, name) == ("cel", "bind"):
                return self._bind(token, arguments)
            if target.name in NAMESPACES:
                return Call(f"{target.name}.{name}", tuple(arguments))
        return self._macro(token, target, arguments)

    def _macro(self, token: Token, target: Node, arguments: list[Node]) -> Node:
        name = str(token.value)
        counts = _MACROS.get((name, len(arguments)))
        if counts is None:
            return Call(name, (target, *arguments), member=True)
        variables = tuple(self._variable(token, each) for each in arguments[: counts[0]])
        return Macro(name, target, variables, tuple(arguments[counts[0] :]))

    def _bind(self, token: Token, arguments: list[Node]) -> Node:
        if len(arguments) != 3:
            raise syntax_error(token.at, "cel.bind has a name, a value and an expression")
        return Macro("bind", arguments[1], (self._variable(token, arguments[0]),), (arguments[2],))

    def _variable(self, token: Token, node: Node) -> str:
        if not isinstance(node, Name):
            raise syntax_error(token.at, f"the variable of {token} must be a simple name")
        return node.name

    def _primary(self) -> Node:
        token = self._advance()
        if token.kind == "mark":
            return self._bracketed(token)
        if token.kind == "name":
            return self._named(token)
        if token.kind in {"text", "bytes"}:
            return Literal(token.value)
        if token.kind in {"int", "uint", "float"}:
            return Literal(self._number(token))
        raise self._unexpected(token)

    def _bracketed(self, token: Token) -> Node:
        if token.value == "(":
            inner = self.expression()
            self._expect(")")
            return inner
        if token.value == "[":
            return self._list()
        if token.value == "{":
            return self._map()
        if token.value == "." and self._next.kind == "name":
            return self._named(self._advance())
        raise self._unexpected(token)

    def _named(self, token: Token) -> Node:
        name = str(token.value)
        if name in {"true", "false", "null"}:
            return Literal({"true": True, "false": False}.get(name))
        if name in RESERVED:
            raise syntax_error(token.at, f"{name!r} is a reserved word")
        if name in KEYWORDS:
            raise self._unexpected(token)
        if not self._take("("):
            return Name(name)
        arguments = self._arguments(")")
        # has() is a macro: it asks for a field, so its argument is not evaluated.
        if name != "has":
            return Call(name, tuple(arguments))
        if len(arguments) == 1 and isinstance(asked := arguments[0], Select) and not asked.optional:
            return Select(asked.target, asked.name, test=True)
        raise syntax_error(token.at, "has() needs a field, as in has(a.b)")

    def _arguments(self, closing: str) -> list[Node]:
        arguments: list[Node] = []
        if self._take(closing):
            return arguments
        arguments.append(self.expression())
        while self._take(","):
            arguments.append(self.expression())
        self._expect(closing)
        return arguments

    def _list(self) -> Node:
        items: list[tuple[Node, bool]] = []
        while not self._take("]"):
            # CEL's grammar allows `[,]`.
            if not items and self._take(","):
                self._expect("]")
                break
            optional = self._take("?")
            items.append((self.expression(), optional))
            if not self._take(","):
                self._expect("]")
                break
        return ListOf(tuple(items))

    def _map(self) -> Node:
        entries: list[tuple[Node, Node, bool]] = []
        while not self._take("}"):
            optional = self._take("?")
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression(), optional))
            if not self._take(","):
                self._expect("}")
                break
        return MapOf(tuple(entries))

    @staticmethod
    def _number(token: Token, *, negative: bool = False) -> object:
        text = str(token.value)
        if token.kind == "float":
            return -float(text) if negative else float(text)
        digits = text.rstrip("uU")
        value = int(digits, 16 if digits.startswith("0x") else 10)
        value = -value if negative else value
        if token.kind == "uint":
            if value > MOST:
                raise syntax_error(token.at, f"{text} is beyond the largest uint")
            return UInt(value)
        if not -LARGEST - 1 <= value <= LARGEST:
            raise syntax_error(token.at, f"{text} is beyond the largest int")
        return value

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _advance(self) -> Token:
        token = self._next
        if token.kind != "end":
            self._at += 1
        return token

    def _take(self, mark: str) -> bool:
        if self._next.kind == "mark" and self._next.value == mark:
            self._at += 1
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise syntax_error(self._next.at, f"{mark!r} is expected, not {self._next}")

    def _unexpected(self, token: Token | None = None) -> SelectorError:
        token = token or self._next
        return syntax_error(token.at, f"{token} is not expected here")
