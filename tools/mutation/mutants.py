"""Mutants: drawn at random from a seed, or read from the results of an earlier run."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from tools.mutation.marks import Mark, mark_of
from tools.mutation.operators import Edit, edits, functions
from tools.mutation.project import Project

# A target with little code still gets enough mutants for a statement about it: with 15, half of
# them caught, the share is known to some 25 %.
LEAST = 15

CodeKey = tuple[str, int]
"""A function of a file: its qualified name and its first line."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one line. `line` counts from 1; `before` and `after` are complete lines."""

    file: str
    line: int
    column: int
    before: str
    after: str
    operator: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}:{self.column} {self.operator}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A mutant with the code object of its function, and the mark that tests pass before it."""

    mutant: Mutant
    key: CodeKey
    code: CodeType
    mark: Mark


class InvalidMutantError(Exception):
    """A change that is impossible: not Python, or not a change of one function's code."""


def prepare(project: Project, mutant: Mutant) -> Prepared:
    """Compile a mutant. Raises InvalidMutantError."""
    source = project.read(mutant.file)
    lines = source.split("\n")
    lines[mutant.line - 1] = mutant.after
    path = str(project.root / mutant.file)
    try:
        tree = ast.parse("\n".join(lines))
        new = _codes(compile(tree, path, "exec", dont_inherit=True))
    except SyntaxError as error:
        raise InvalidMutantError(str(error)) from None
    old = _codes(compile(source, path, "exec", dont_inherit=True))
    for function in functions(ast.parse(source)):
        if function.lineno <= mutant.line <= (function.end_lineno or 0):
            first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
            key = next((k for k in old if k[1] == first and k[0].endswith(function.name)), None)
            # With other closure variables the new code object does not fit the existing function.
            if key is None or key not in new or old[key].co_freevars != new[key].co_freevars:
                raise InvalidMutantError("other closure variables")
            if old[key] == new[key]:
                raise InvalidMutantError("no change of the function's code")
            mark = (mutant.file, mark_of(function, mutant.line))
            return Prepared(mutant, key, new[key], mark)
    raise InvalidMutantError("in no function")


def _codes(module: CodeType) -> dict[CodeKey, CodeType]:
    """Return the code objects of the functions that are not inside another function."""
    found, waiting = {}, [module]
    while waiting:
        for const in waiting.pop().co_consts:
            if isinstance(const, CodeType):
                if const.co_flags & 0x2:  # CO_NEWLOCALS: a function, not the body of a class
                    found[const.co_qualname, const.co_firstlineno] = const
                else:
                    waiting.append(const)
    return found


def draw(project: Project, count: int, seed: int, only: str | None = None) -> list[Prepared]:
    """Draw mutants at random: for each target by its lines of code, at most one for each line."""
    chosen = random.Random(seed)
    files = defaultdict(list)
    size: dict[str, int] = defaultdict(int)
    for file, target in project.files.items():
        if only is None or file == only or file.startswith(only.rstrip("/") + "/"):
            files[target].append(file)
            size[target] += len(project.read(file).splitlines())
    found: list[Prepared] = []
    for target, wanted in shares(size, count).items():
        found += _of_target(project, files[target], wanted, chosen)
    return found


def shares(size: Mapping[str, int], count: int) -> dict[str, int]:
    """Return the number of mutants for each target: by its size, and at least LEAST."""
    least = min(LEAST, count // len(size)) if size else 0
    rest = count - least * len(size)
    found = {target: least + rest * size[target] // sum(size.values()) for target in size}
    # The largest targets get the mutants that the division left over.
    for target in sorted(size, key=size.__getitem__, reverse=True):
        if sum(found.values()) < count:
            found[target] += 1
    return found


def _of_target(
    project: Project, files: Iterable[str], wanted: int, chosen: random.Random
) -> Iterator[Prepared]:
    lines: dict[tuple[str, int], list[Edit]] = defaultdict(list)
    for file in files:
        for edit in edits(project.read(file)):
            lines[file, edit.line].append(edit)
    places = list(lines)
    chosen.shuffle(places)
    for file, line in places:
        if not wanted:
            return
        edit = chosen.choice(lines[file, line])
        before = project.read(file).split("\n")[line - 1]
        mutant = Mutant(file, line, edit.column, before, edit.apply(before), edit.operator)
        try:
            yield prepare(project, mutant)
        except InvalidMutantError:
            continue
        wanted -= 1


def find_again(project: Project, row: Mapping[str, Any]) -> Prepared:
    """Find a mutant of an earlier run: the line nearest to its old one that reads as it did.

    Raises InvalidMutantError if no line does.
    """
    file, old = row["file"], row.get("line", 0)
    if file not in project.files:
        raise InvalidMutantError(f"there is no {file}")
    lines = project.read(file).split("\n")
    same = [at for at, line in enumerate(lines, 1) if line == row["before"]]
    if not same:
        raise InvalidMutantError(f"no line of {file} reads {row['before'].strip()}")
    line = min(same, key=lambda at: abs(at - old))
    column, operator = row.get("column", 0), row.get("operator", "by hand")
    return prepare(project, Mutant(file, line, column, row["before"], row["after"], operator))
