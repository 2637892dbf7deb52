"""Marks: the straight runs of statements of production code that a test executes.

A mark is a call inserted before each run of statements of a function that is only entered at its
beginning: at the beginning of each block and after each compound statement. Its number in a file is
the line of the statement that follows it. That is finer than complete functions, so that few tests
run for each mutant, and much cheaper than a tracer of lines.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from tools.mutation.operators import Function, functions
from tools.mutation.project import Project

_NAME = "__mark__"  # in builtins; two underscores at its end keep it from being mangled

Mark = tuple[str, int]


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements directly below a statement, an exception handler or a case."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block:
            yield block
    for below in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield from _blocks(below)


def _runs(block: list[ast.stmt]) -> Iterator[tuple[int, ast.stmt]]:
    """Yield each statement of a block with the number of the mark before it."""
    mark = 0
    for statement in block:
        if not mark:
            mark = statement.lineno
        yield mark, statement
        if next(_blocks(statement), None):
            mark = 0


def mark_of(function: Function, line: int) -> int:
    """Return the number of the mark that is passed before a line of a function."""
    found, block = function.lineno, function.body
    while True:
        for mark, statement in _runs(block):
            if statement.lineno <= line <= (statement.end_lineno or 0):
                found, inner = mark, statement
                break
        else:
            return found
        for block in _blocks(inner):
            if block[0].lineno <= line <= (block[-1].end_lineno or 0):
                break
        else:
            return found


def marked(source: str, path: str, file: int) -> CodeType:
    """Compile a module with its marks. `file` is the number of the file."""
    tree = ast.parse(source)
    for function in functions(tree):
        _insert(function.body, file)
    return compile(tree, path, "exec", dont_inherit=True)


def _insert(block: list[ast.stmt], file: int) -> None:
    out: list[ast.stmt] = []
    last = 0
    for mark, statement in list(_runs(block)):
        # A docstring must stay the first statement, or the function has none.
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if mark != last and not docstring:
            call = ast.parse(f"{_NAME}(({file}, {mark}))").body[0]
            for node in ast.walk(call):
                ast.copy_location(node, statement)
            out.append(call)
            last = mark
        out.append(statement)
        for below in _blocks(statement):
            _insert(below, file)
    block[:] = out


class MarkingFinder(MetaPathFinder):
    """Import hook that loads a project's production modules with marks, until the process ends."""

    def __init__(self, project: Project) -> None:
        self.seen: set[tuple[int, int]] = set()
        self.files = list(project.files)
        self._numbers = {project.root / file: n for n, file in enumerate(self.files)}
        self._packages = {target.split("/")[0] for target in project.targets}

    def install(self) -> None:
        setattr(builtins, _NAME, self.seen.add)
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self._packages:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        number = self._numbers.get(Path(spec.origin).resolve()) if spec and spec.origin else None
        if spec is not None and spec.origin is not None and number is not None:
            spec.loader = _Loader(fullname, spec.origin, number)
        return spec


class _Loader(SourceFileLoader):
    """Loader that compiles the file with marks, and never reads or writes a cached .pyc."""

    def __init__(self, fullname: str, path: str, number: int) -> None:
        super().__init__(fullname, path)
        self._number = number

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        return marked(Path(path).read_text("utf-8"), path, self._number)
