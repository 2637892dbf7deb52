"""Check for accesses to the scheduler's state after an `await` without `freeze.over()`.

A decision may give way in the middle, with its trial in the state. So a coroutine that has awaited
anything must await `Freeze.over` before it reads or writes the state or the queue
(docs/design/event-loop.md). The check follows each coroutine statement by statement. It knows the
plain methods of the class that touch the state. It knows which coroutines touch it before their
first `await`, so that they must not become tasks, and which coroutines end with the freeze over.

`python -m tools.checks.after_await FOLDER...` prints each access, and fails if there is any.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

STATE: Final = frozenset({"state", "_state", "queue", "_queue"})
"""Attributes with the input of decisions."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class _Class:
    """The methods of a class: `touching` ones, `opening` and `settled` coroutines."""

    methods: dict[str, Function]
    touching: set[str] = field(default_factory=set)
    opening: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, node: ast.ClassDef) -> "_Class":
        made = cls({it.name: it for it in node.body if isinstance(it, Function)})
        plain = {k: it for k, it in made.methods.items() if isinstance(it, ast.FunctionDef)}
        # Methods call each other, so the sets grow until a pass adds no name.
        before = -1
        while len(made.touching) != before:
            before = len(made.touching)
            made.touching |= {name for name, it in plain.items() if made._touches(it)}
        coroutines = {
            k: it for k, it in made.methods.items() if isinstance(it, ast.AsyncFunctionDef)
        }
        before = -1
        while len(made.settled) + len(made.opening) != before:
            before = len(made.settled) + len(made.opening)
            made.settled |= {k for k, it in coroutines.items() if _Flow(made).settles(it)}
            made.opening |= {k for k, it in coroutines.items() if made._opens(it)}
        return made

    def _opens(self, method: Function) -> bool:
        """Return true if the coroutine touches the state before its first `await`."""
        late, early = _Flow(self), _Flow(self)
        late.block(method.body, dirty=True)
        early.settles(method)
        return late.found != early.found

    def _touches(self, method: Function) -> bool:
        return any(_is_state(node) or self.calls(node, self.touching) for node in _own(method))

    def calls(self, node: ast.AST, names: Iterable[str]) -> bool:
        return _own_call(node) in names if isinstance(node, ast.Call) else False


class _Flow:
    """Analysis of one function; `found` are the lines that touch the state too early."""

    def __init__(self, of: _Class) -> None:
        self._of = of
        self.found: set[int] = set()
        self._exits: list[bool] = []
        self._awaited: set[int] = set()

    def settles(self, method: Function) -> bool:
        """Return true if the state may be touched after every exit of the method."""
        left = self.block(method.body, dirty=False)
        return not any(self._exits) and not left

    def block(self, body: Sequence[ast.stmt], *, dirty: bool | None) -> bool | None:
        """Return true if something was awaited since the freeze was over; None after the end."""
        for statement in body:
            if dirty is None:
                return None
            dirty = self._statement(statement, dirty)
        return dirty

    def _statement(self, node: ast.stmt, dirty: bool) -> bool | None:
        match node:
            case ast.AsyncFunctionDef():
                # It runs as a task, which starts when the loop has turned.
                self.block(node.body, dirty=True)
                return dirty
            case ast.FunctionDef() | ast.ClassDef():
                return dirty
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                dirty = self._expressions(node, dirty)
                if isinstance(node, ast.Return):
                    self._exits.append(dirty)
                return None
            case ast.If():
                return self._if(node, dirty)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(node, dirty)
            case ast.With() | ast.AsyncWith():
                return self._with(node, dirty)
            case ast.Try():
                return self._try(node, dirty)
            case ast.Match():
                dirty = self._expressions(node.subject, dirty)
                ends = [dirty, *(self.block(it.body, dirty=dirty) for it in node.cases)]
                return any(ends)
        return self._expressions(node, dirty)

    def _if(self, node: ast.If, dirty: bool) -> bool | None:
        dirty = self._expressions(node.test, dirty)
        one = self.block(node.body, dirty=dirty)
        if _asks_freeze(node.test):
            return False
        return _either(one, self.block(node.orelse, dirty=dirty))

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, dirty: bool) -> bool | None:
        head = node.test if isinstance(node, ast.While) else node.iter
        dirty = self._expressions(head, dirty) or isinstance(node, ast.AsyncFor)
        # A second pass, with what the first one left behind.
        after = self.block(node.body, dirty=dirty)
        again = dirty or bool(after) or any(self._awaits(it) for it in node.body)
        if isinstance(node, ast.While) or again != dirty:
            self._expressions(head, again)
            self.block(node.body, dirty=again)
        endless = isinstance(node, ast.While) and _is_true(node.test)
        left = self.block(node.orelse, dirty=again)
        return again if endless else left

    def _awaits(self, node: ast.stmt) -> bool:
        """Return true if a pass may end early after an `await`, by `continue`."""
        inside = list(ast.walk(node))
        return any(isinstance(it, ast.Continue) for it in inside) and any(
            isinstance(it, ast.Await) and not self._is_over(it) for it in inside
        )

    def _with(self, node: ast.With | ast.AsyncWith, dirty: bool) -> bool | None:
        for item in node.items:
            dirty = self._expressions(item.context_expr, dirty)
        if any(_is_freeze(item.context_expr) for item in node.items):
            return dirty  # it holds the freeze itself
        after = self.block(node.body, dirty=dirty or isinstance(node, ast.AsyncWith))
        return after if after is None else after or isinstance(node, ast.AsyncWith)

    def _try(self, node: ast.Try, dirty: bool) -> bool | None:
        after = self.block(node.body, dirty=dirty)
        # An exception may be raised after any `await` of the body.
        awaits = any(isinstance(it, ast.Await) for each in node.body for it in ast.walk(each))
        ends = self.block(node.orelse, dirty=after)
        for handler in node.handlers:
            ends = _either(ends, self.block(handler.body, dirty=dirty or awaits))
        if node.finalbody:
            last = self.block(node.finalbody, dirty=bool(ends) or awaits or dirty)
            ends = None if ends is None or last is None else last
        return ends

    def _expressions(self, node: ast.AST, dirty: bool) -> bool:
        """Visit the node's expressions in the order of evaluation."""
        if isinstance(node, ast.Lambda):
            # A caller runs it later: a coroutine that it creates starts at that time.
            if self._of.calls(node.body, self._of.opening):
                self.found.add(node.lineno)
            return dirty
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return dirty
        if isinstance(node, ast.Await):
            self._awaited.add(id(node.value))
        for child in ast.iter_child_nodes(node):
            dirty = self._expressions(child, dirty)
        if isinstance(node, ast.Await):
            return not self._is_over(node)
        touches = _uses_state(node) or self._of.calls(node, self._of.touching)
        if dirty and touches and isinstance(node, ast.expr):
            self.found.add(node.lineno)
        # A call that is not awaited here runs later, as a task.
        late = dirty or id(node) not in self._awaited
        if late and isinstance(node, ast.Call) and self._of.calls(node, self._of.opening):
            self.found.add(node.lineno)
        return dirty

    def _is_over(self, node: ast.Await) -> bool:
        call = node.value
        if not isinstance(call, ast.Call):
            return False
        over = isinstance(call.func, ast.Attribute) and call.func.attr == "over"
        return over or self._of.calls(call, self._of.settled)


def _own(method: Function) -> Iterator[ast.AST]:
    for statement in method.body:
        yield from ast.walk(statement)


def _own_call(node: ast.Call) -> str:
    """Return the name of the method of `self` that is called."""
    func = node.func
    own = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name)
    if own and isinstance(func, ast.Attribute) and ast.unparse(func.value) == "self":
        return func.attr
    return ""


def _is_state(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in STATE


def _uses_state(node: ast.AST) -> bool:
    """Return true if the node is the state, or calls a method of it; its arguments come before."""
    return _is_state(node) or (
        isinstance(node, ast.Call) and any(map(_is_state, ast.walk(node.func)))
    )


def _is_freeze(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in {"freeze", "_freeze"}


def _asks_freeze(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "is_active"


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and bool(node.value)


def _either(one: bool | None, other: bool | None) -> bool | None:
    return other if one is None else one if other is None else one or other


def accesses(source: str) -> list[int]:
    """Return a module's lines that touch the state after an `await`, without `freeze.over()`."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef):
            continue
        of = _Class.of(node)
        for method in of.methods.values():
            # Plain methods do not await, but create coroutines for later.
            flow = _Flow(of)
            flow.settles(method)
            found |= flow.found
    return sorted(found)


def main(folders: Sequence[str]) -> int:
    failed = False
    for path in sorted(it for folder in folders for it in Path(folder).rglob("*.py")):
        for line in accesses(path.read_text(encoding="utf-8")):
            failed = True
            sys.stderr.write(
                f"{path}:{line}: touches the state after an await; await freeze.over() before it"
                " (docs/design/event-loop.md)\n"
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
