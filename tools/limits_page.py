"""Generator of the page of limits: `python -m tools.limits_page FILE`.

It lists every tuned number of the product: numeric constants of a module, with the string below
the assignment (or a comment at it) as the explanation.
"""

import ast
import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = {
    "api": "The API: what admission accepts",
    "kube": "The client of the API server, and the frame of every process",
    "certs": "Certificates",
    "webhooks": "The webhook",
    "controllers": "The controllers",
    "scheduler": "The scheduler",
    "analysis": "explain, simulate, fit, what-if and the lab",
    "console": "The console",
    "cli": "The command",
}
"""Folders on the page, in its order."""

FIXED: Final = frozenset(
    {
        "analysis/simulate/documents.py:_LARGEST",
        "analysis/simulate/trainer.py:_PORT",
        "analysis/what_if/messages.py:WRONG",
        "api/constants.py:HIGHEST_USER_PRIORITY",
        "api/constants.py:LABEL_VALUE_LENGTH",
        "api/constants.py:OBJECT_NAME_LENGTH",
        "api/conversion/annotation.py:_MAX_INT32",
        "api/names.py:_HASH",
        "api/names.py:_HEAD",
        "cli/servers/console_service.py:PORT",
        "cli/uninstall/command.py:REFUSED",
        "console/views/why_not.py:_GIB",
        "kube/client/quantity.py:MAX_INT64",
        "scheduler/cel/lexer.py:_BYTE",
        "scheduler/cel/quantities.py:NANO",
        "scheduler/cel/quantities.py:_LARGEST",
        "scheduler/cel/times.py:SECOND",
        "scheduler/cel/times.py:_DAY",
        "scheduler/cel/times.py:_DIGITS",
        "scheduler/cel/times.py:_LARGEST",
        "scheduler/cel/times.py:_LAST",
        "scheduler/cel/values.py:LARGEST",
        "scheduler/cel/values.py:MOST",
        "scheduler/cel/versions.py:_MOST",
        "scheduler/core/devices/sole_use.py:ALONE",
        "scheduler/core/devices/sole_use.py:OTHERWISE",
        "scheduler/core/devices/sole_use.py:_POSITIONS",
        "scheduler/core/devices/states.py:PLENTY",
        "scheduler/core/framework/domain_quotas.py:PLENTY",
        "scheduler/core/framework/node_resources_fit.py:_SCALE",
        "scheduler/core/volumes/volume_table.py:UNLIMITED",
        "scheduler/core/framework/volume_binding.py:_PLENTY",
        "scheduler/core/preemption/necessary.py:_ROUNDED",
        "scheduler/core/values/device_asks.py:NANO",
        "scheduler/decoding/decode.py:FAR_AWAY",
        "scheduler/preemption/evictor.py:_LOWEST",
        "scheduler/snapshot/snapshot.py:FORMAT",
        "webhooks/server/intake.py:MIB",
    }
)
"""Numbers that are facts, not choices, as `path:NAME`: sentinels, units, and formats."""

HEAD: Final = """\
# Limits

For operators and contributors who look for a number: what it bounds, and what happens beyond it.
Generated from the code by `make generate`; do not edit.

These are constants. [Configuration](configuration.md) has the settings that you can change, the
[rules of the API](api-reference.md#rules) the limits of each field, and
[Scale](scale.md) how far one scheduler reaches.
"""


@dataclass(frozen=True, slots=True)
class Limit:
    """A tuned number. `text` is empty if it has no explanation."""

    path: str
    name: str
    value: float
    text: str

    @property
    def where(self) -> str:
        return f"{self.path}:{self.name}"


def page(root: Path = ROOT) -> str:
    """Return the complete page."""
    found = list(limits(root))
    parts = [HEAD]
    for package, of_package in groupby(found, key=lambda it: it.path.partition("/")[0]):
        rows = list(of_package)
        parts.append(
            f"\n## {PACKAGES[package]}\n\n"
            f'<details markdown="1">\n<summary><code>{package}/</code>: '
            f"{len(rows)} {'number' if len(rows) == 1 else 'numbers'}</summary>\n\n"
            "| constant | value | what it bounds, and what happens beyond it | where |\n"
            "|---|---:|---|---|\n"
        )
        parts += map(_row, rows)
        parts.append("\n</details>\n")
    return "".join(parts)


def limits(root: Path = ROOT) -> Iterator[Limit]:
    """Yield the tuned numbers of all packages, in the order of the page."""
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            yield from (it for it in of_source(name, path.read_text("utf-8")) if tuned(it))


def tuned(limit: Limit) -> bool:
    """Return whether the number is a choice rather than a fact."""
    return limit.value > 0 and limit.where not in FIXED


def of_source(path: str, source: str) -> Iterator[Limit]:
    """Yield the numeric constants of one module."""
    lines = source.splitlines()
    body = ast.parse(source).body
    for index, statement in enumerate(body):
        found = _constant(statement)
        if found is not None:
            name, value = found
            yield Limit(path, name, value, _explanation(body, index, lines))


def _constant(statement: ast.stmt) -> tuple[str, float] | None:
    """Return name and value if the statement assigns a number to a constant."""
    target: ast.expr
    if isinstance(statement, ast.AnnAssign):
        target, value = statement.target, statement.value
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
    else:
        return None
    if value is None or not isinstance(target, ast.Name) or not target.id.isupper():
        return None
    number = _number(value)
    return None if number is None else (target.id, number)


_ARITHMETIC: Final[dict[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Mult: operator.mul,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Pow: operator.pow,
    ast.LShift: lambda left, right: int(left) << int(right),
}


def _number(node: ast.expr) -> float | None:
    """Return the value of a literal, or of arithmetic with literals."""
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        return None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _number(node.operand)
        return None if number is None else -number
    if not isinstance(node, ast.BinOp) or type(node.op) not in _ARITHMETIC:
        return None
    left, right = _number(node.left), _number(node.right)
    return None if left is None or right is None else _ARITHMETIC[type(node.op)](left, right)


def _explanation(body: list[ast.stmt], index: int, lines: list[str]) -> str:
    """Return the string below the constant, or else the comment at it."""
    statement = body[index]
    end = statement.end_lineno or 0
    if index + 1 < len(body) and body[index + 1].lineno == end + 1:
        text = _string(body[index + 1])
        if text:
            return " ".join(text.split())
    _, _, behind = lines[end - 1].partition("  # ")
    return behind.strip() or _comment_above(lines, statement.lineno - 1)


def _comment_above(lines: list[str], end: int) -> str:
    """Return the comment that ends right before this line."""
    begin = end
    while begin and lines[begin - 1].startswith("# "):
        begin -= 1
    return " ".join(line[2:].strip() for line in lines[begin:end])


def _string(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return value if isinstance(value, str) else ""
    return ""


_UNITS: Final = {"second": " s", "byte": " B", "character": " characters"}
_BINARY: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def shown(limit: Limit) -> str:
    """Return the value with its unit, as the name or the explanation gives it."""
    unit = _unit(limit)
    value = limit.value
    if unit == " B":
        for name, size in _BINARY:
            if value >= size and not value % size:
                return f"{value // size:,.0f} {name}"
    if isinstance(value, int) and value > 1 << 40 and not value & (value - 1):
        return f"2^{value.bit_length() - 1}{unit}"
    plain = f"{value:,}" if isinstance(value, int) else f"{value:,g}"
    return plain + unit


def _unit(limit: Limit) -> str:
    """Return the unit that the name ends with, or that the explanation begins with."""
    words = limit.name.lower()
    if "per_second" in words:
        return " /s"
    first = limit.text.partition(".")[0].lower().split()
    for word, unit in _UNITS.items():
        if f"{word}s" in words or f"{word}s" in first[:1]:
            return unit
    return ""


def _row(limit: Limit) -> str:
    cells = (f"`{limit.name.lstrip('_')}`", shown(limit), limit.text, f"`{limit.path}`")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
