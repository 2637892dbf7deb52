"""The import graph, read from the sources, including type-checking and local imports."""

import ast
import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "analysis", "api", "certs", "cli", "conformance", "console", "controllers", "e2e", "kube",
    "localcluster", "scheduler", "webhooks",
)  # fmt: skip

# Parsing only these takes a tenth of the time of complete files.
_IMPORT = re.compile(
    r"^\s*(import [\w.]+(?: as \w+)?(?=\s*(?:#|$))|from [\w.]+ import (?:\([^)]*\)|[^(\n]+))",
    re.MULTILINE,
)

Graph = Mapping[str, set[str]]


def modules(*packages: str) -> dict[str, Path]:
    """Return the modules of our packages by name, without their tests."""
    return {
        _name(path): path
        for package in packages
        for path in sorted((ROOT / package).rglob("*.py"))
        if "tests" not in path.relative_to(ROOT).parts
    }


def imports(*packages: str) -> dict[str, set[str]]:
    """Return for each module the modules of these packages that it imports directly."""
    known = modules(*packages)
    return {name: set(imported(path, known)) - {name} for name, path in known.items()}


def folders(*packages: str) -> dict[str, set[str]]:
    """Return for each folder of these packages the other folders from which it imports."""
    known = modules(*packages)
    of = {name: str(path.parent.relative_to(ROOT)) for name, path in known.items()}
    found: dict[str, set[str]] = {folder: set() for folder in of.values()}
    for name, others in imports(*packages).items():
        found[of[name]] |= {of[other] for other in others} - {of[name]}
    return found


def circle(graph: Graph) -> list[str]:
    """Return modules that import each other in a circle, the first repeated; empty if none do."""
    done: set[str] = set()
    for start in sorted(graph):
        path: list[str] = []
        ring = _search(graph, start, path, done)
        if ring:
            return ring
    return []


def _search(graph: Graph, module: str, path: list[str], done: set[str]) -> list[str]:
    if module in path:
        return [*path[path.index(module) :], module]
    if module in done:
        return []
    path.append(module)
    for other in sorted(graph[module]):
        ring = _search(graph, other, path, done)
        if ring:
            return ring
    path.pop()
    done.add(module)
    return []


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, known: Container[str]) -> Iterator[str]:
    """Yield the known modules that a file imports, even if no interpreter runs the import."""
    text = "\n".join(_IMPORT.findall(path.read_text(encoding="utf-8")))
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known:
                    yield inner
                elif node.module in known:
                    yield node.module
