"""Check for calls in the decision core whose result reports a shortage that no code reads.

A function of the core that takes slots, devices or volumes returns that there were too few: False,
or a Shortage. The check reports each statement that calls such a function and ignores the result.
It recognizes these functions by the verb that their names begin with.

`python -m tools.checks.unread_results FOLDER...` prints each of them, and fails if there is any.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

VERBS: Final = ("allocate", "decide", "fill", "minimums", "pack", "place", "put", "reserve", "take")
ANSWERS: Final = frozenset({"bool", "Shortage | None"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


def answering(sources: Mapping[str, ast.Module]) -> set[str]:
    """Return the functions and methods with such a result, wherever they are defined."""
    results = defaultdict[str, set[str]](set)
    for tree in sources.values():
        for node in ast.walk(tree):
            if isinstance(node, Function):
                results[node.name].add(ast.unparse(node.returns) if node.returns else "")
    # Calls are matched by name, so all functions of a name must have such a result.
    return {name for name, found in results.items() if _takes(name) and found <= ANSWERS}


def unread(tree: ast.Module, names: set[str]) -> Iterator[int]:
    """Yield the lines of statements that call one of these and ignore its result."""
    for holder in ast.walk(tree):
        own = names | (_methods(holder) if isinstance(holder, ast.ClassDef) else set())
        for node in ast.walk(holder) if isinstance(holder, ast.Module | ast.ClassDef) else ():
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                name, of_self = _called(node.value)
                if name in (own if of_self else names):
                    yield node.lineno


def _methods(node: ast.ClassDef) -> set[str]:
    """Return the methods of a class with such a result, even if others of their name have none."""
    return {
        it.name
        for it in node.body
        if isinstance(it, Function) and _takes(it.name) and it.returns
        if ast.unparse(it.returns) in ANSWERS
    }


def _takes(name: str) -> bool:
    return name.lstrip("_").split("_")[0] in VERBS


def _called(call: ast.Call) -> tuple[str, bool]:
    if isinstance(call.func, ast.Attribute):
        of_self = isinstance(call.func.value, ast.Name) and call.func.value.id == "self"
        return call.func.attr, of_self
    return (call.func.id, False) if isinstance(call.func, ast.Name) else ("", False)


def main(folders: Sequence[str]) -> int:
    paths = sorted(it for folder in folders for it in Path(folder).rglob("*.py"))
    sources = {str(path): ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    names = answering(sources)
    failed = False
    for path, tree in sources.items():
        for line in sorted({*unread(tree, names)}):
            failed = True
            sys.stderr.write(f"{path}:{line}: no code reads whether that sufficed\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
