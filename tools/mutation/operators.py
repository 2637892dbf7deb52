"""The one-line changes of a source file.

Code that no test should have to notice is left out: docstrings and other text, type annotations,
log calls, assertions, `__repr__` and `__str__`, and all code outside functions, which runs once at
import. Changes inside f-strings are left out, too: Python 3.11 reports wrong positions there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

Function = ast.FunctionDef | ast.AsyncFunctionDef

_Change = tuple[str, str]
"""A pattern, and its replacement."""

_COMPARISONS: dict[type[ast.cmpop], _Change] = {
    ast.Lt: (r"<", "<="),
    ast.LtE: (r"<=", "<"),
    ast.Gt: (r">", ">="),
    ast.GtE: (r">=", ">"),
    ast.Eq: (r"==", "!="),
    ast.NotEq: (r"!=", "=="),
    ast.In: (r"in\b", "not in"),
    ast.NotIn: (r"not\s+in\b", "in"),
    ast.Is: (r"is\b", "is not"),
    ast.IsNot: (r"is\s+not\b", "is"),
}
_ARITHMETIC: dict[type[ast.operator], _Change] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: (r"-", "+"),
    ast.Mult: (r"\*", "//"),
    ast.FloorDiv: (r"//", "*"),
    ast.Div: (r"/", "*"),
    ast.BitAnd: (r"&", "|"),
    ast.BitOr: (r"\|", "&"),
}
_UNARY: dict[type[ast.unaryop], bytes] = {ast.Not: rb"not\s+", ast.Invert: rb"~", ast.USub: rb"-"}
_CALLS = {"min": "max", "any": "all", "minimum": "maximum", "argmin": "argmax"}
_SWAPPED = _CALLS | {new: old for old, new in _CALLS.items()}
_LOGGERS = {"_log", "log", "_logger", "logger", "logging"}
_ONLY_SHOWN = {"__repr__", "__str__"}


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of text between two columns of one line."""

    line: int
    column: int
    end: int
    text: str
    operator: str

    def apply(self, line: str) -> str:
        return line[: self.column] + self.text + line[self.end :]


def functions(tree: ast.Module) -> Iterator[Function]:
    """Yield functions and methods that are not inside another function."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, Function):
            yield node
        elif isinstance(node, ast.ClassDef | ast.If | ast.Try):
            waiting.extend(ast.iter_child_nodes(node))


def edits(source: str) -> list[Edit]:
    """Return all possible changes of a file."""
    found = _Edits(source)
    for function in functions(ast.parse(source)):
        if function.name not in _ONLY_SHOWN:
            found.returns.append(_may_be_none(function))
            for statement in function.body:
                found.visit(statement)
    return found.edits


def _may_be_none(function: Function) -> bool:
    """True if the annotation of the returned value allows None."""
    text = ast.unparse(function.returns) if function.returns else ""
    # Arguments of a generic do not count: `list[None]` is never None.
    return bool(re.search(r"\b(None|Optional|Any|object)\b", re.sub(r"\[.*\]", "", text)))


class _Edits(ast.NodeVisitor):
    """The changes of each node of a tree."""

    def __init__(self, source: str) -> None:
        # Positions of ast count bytes; Edit counts characters.
        self._lines = [line.encode() for line in source.split("\n")]
        self.edits: list[Edit] = []
        self.returns: list[bool] = []
        self._in_condition = 0

    def _add(self, line: int, start: int, end: int, text: str, operator: str) -> None:
        raw = self._lines[line - 1]
        column, until = len(raw[:start].decode()), len(raw[:end].decode())
        self.edits.append(Edit(line, column, until, text, operator))

    def _replace(self, node: ast.expr | ast.stmt, text: str, operator: str) -> None:
        if node.lineno == node.end_lineno and node.end_col_offset is not None:
            self._add(node.lineno, node.col_offset, node.end_col_offset, text, operator)

    def _between(self, left: ast.expr, right: ast.expr, change: _Change, operator: str) -> None:
        """Change the operator between two operands."""
        for line in range(left.end_lineno or 0, right.lineno + 1):
            raw = self._lines[line - 1]
            start = left.end_col_offset or 0 if line == left.end_lineno else 0
            end = right.col_offset if line == right.lineno else len(raw)
            # A comment between the operands may contain the operator, too.
            if found := re.search(change[0].encode(), raw[start:end].split(b"#")[0]):
                self._add(line, start + found.start(), start + found.end(), change[1], operator)
                return

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = pairwise([node.left, *node.comparators])
        for (left, right), kind in zip(operands, node.ops, strict=True):
            self._between(left, right, _COMPARISONS[type(kind)], "comparison")
        self._visit_condition(node.left, *node.comparators)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        change = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in pairwise(node.values):
            self._between(left, right, change, "and/or")
        self._visit_condition(*node.values)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in _ARITHMETIC and not (_text(node.left) or _text(node.right)):
            self._between(node.left, node.right, _ARITHMETIC[type(node.op)], "arithmetic")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        raw = self._lines[node.lineno - 1][node.col_offset :]
        if found := re.match(_UNARY.get(type(node.op), b"(?!)"), raw):
            start = node.col_offset
            self._add(node.lineno, start, start + found.end(), "", "not removed")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value), "True/False")
        elif isinstance(node.value, int) and self._in_condition:
            other = 0 if node.value == 1 else node.value + 1
            self._replace(node, str(other), "number in a condition")

    def visit_Call(self, node: ast.Call) -> None:
        name = _name(node.func)
        if name in _SWAPPED and node.func.end_col_offset is not None:
            end = node.func.end_col_offset
            line = node.func.end_lineno or node.lineno
            self._add(line, end - len(name), end, _SWAPPED[name], "min/max, any/all")
        if name in {"sorted", "sort"} and not any(k.arg == "reverse" for k in node.keywords):
            self._reverse(node)
        self._keys(node)
        if name in {"isinstance", "issubclass", "cast"}:  # types in it are not arithmetic
            self.visit(node.args[name == "cast"])
        elif not _is_log(node):
            self.generic_visit(node)

    def _reverse(self, node: ast.Call) -> None:
        line, end = node.end_lineno or node.lineno, (node.end_col_offset or 1) - 1
        before = self._lines[line - 1][:end].rstrip()
        if before and not before.endswith(b","):
            text = "reverse=True" if before.endswith(b"(") else ", reverse=True"
            self._add(line, end, end, text, "order reversed")

    def _keys(self, node: ast.Call) -> None:
        before = [*node.args, *(keyword.value for keyword in node.keywords)]
        for keyword in node.keywords:
            earlier = [part for part in before if part.end_lineno == keyword.lineno]
            ends = [p.end_col_offset or 0 for p in earlier if p.col_offset < keyword.col_offset]
            same_line = keyword.lineno == keyword.end_lineno
            if keyword.arg == "key" and ends and same_line and keyword.end_col_offset:
                self._add(keyword.lineno, max(ends), keyword.end_col_offset, "", "key removed")

    def visit_Expr(self, node: ast.Expr) -> None:
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(value, ast.Call) and not _is_log(value):
            self._replace(node, "pass", "call deleted")
        if not isinstance(value, ast.Constant):
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._replace(node, "pass", "augmented assignment deleted")
        if type(node.op) in _ARITHMETIC and not _text(node.value):
            self._between(node.target, node.value, _ARITHMETIC[type(node.op)], "arithmetic")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        none = isinstance(node.value, ast.Constant) and node.value.value is None
        if node.value is not None and not none and self.returns[-1]:
            self._replace(node, "return None", "None returned")
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace(node, "break", "continue/break")

    def visit_Break(self, node: ast.Break) -> None:
        self._replace(node, "continue", "continue/break")

    def visit_If(self, node: ast.If | ast.While | ast.IfExp) -> None:
        self._visit_condition(node.test)
        rest = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.body + node.orelse
        for part in rest:
            self.visit(part)

    visit_While = visit_IfExp = visit_If

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.visit(node.iter)
        for test in node.ifs:
            self._visit_condition(test)

    def _visit_condition(self, *nodes: ast.expr) -> None:
        self._in_condition += 1
        for node in nodes:
            self.visit(node)
        self._in_condition -= 1

    def visit_FunctionDef(self, node: Function) -> None:
        if node.name not in _ONLY_SHOWN:
            self.returns.append(_may_be_none(node))
            for part in (*node.args.defaults, *node.args.kw_defaults, *node.body):
                if part is not None:
                    self.visit(part)
            self.returns.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave out assertions, which state invariants."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave out texts."""


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _is_log(node: ast.Call) -> bool:
    while isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
        node = node.func.value  # _log.bind(...).info(...)
    owner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    return _name(owner) in _LOGGERS
