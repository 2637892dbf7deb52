"""Output as kubectl prints it: tables without borders and colours, JSON, YAML, or names."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final

import msgspec
import typer
import yaml

from analysis.explain.plain_text import clean
from api.constants import KINDS, RESERVATION, TRAIN_JOB
from api.integration.kinds import CREATOR_KINDS, OWNER_KINDS
from kube.client.client import Client

PLUGIN: Final = "kubectl muster"
"""The name of the program when kubectl runs it."""


class Output(enum.StrEnum):
    """A format of `--output`."""

    JSON = "json"
    YAML = "yaml"
    WIDE = "wide"
    NAME = "name"


OutputOption = Annotated[
    Output | None, typer.Option("--output", "-o", help="format; wide adds columns to a table")
]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="all namespaces, whatever the context names")
]

_GROUPS: Final = {
    it.kind: it.group
    for it in (
        *(*KINDS, RESERVATION, TRAIN_JOB),
        *(it.kind for it in OWNER_KINDS.values()),
        *CREATOR_KINDS,
    )
}


def is_plugin(ctx: typer.Context) -> bool:
    """Return true if kubectl runs the program: then kubectl's defaults apply."""
    return ctx.find_root().info_name == PLUGIN


def scope(ctx: typer.Context, client: Client, named: str | None, *, everywhere: bool) -> str | None:
    """Return the namespace of a command, None for all.

    Without options it is all, and that of the context if kubectl runs the program.
    """
    if everywhere:
        return None
    return named or (client.namespace if is_plugin(ctx) else None)


def print_structured(output: Output | None, content: Any, names: Iterable[str]) -> bool:
    """Print the content as JSON or YAML, or only the names; return false for another format."""
    plain = msgspec.to_builtins(content)
    match output:
        case Output.JSON:
            typer.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
        case Output.YAML:
            typer.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), nl=False)
        case Output.NAME:
            for name in names:
                typer.echo(clean(name))
        case _:
            return False
    return True


def full_name(kind: str, name: str) -> str:
    """Return `podgroup.scheduling.muster.dev/pg-a`, which every command of kubectl accepts."""
    group = _GROUPS.get(kind, "")
    return f"{kind.lower()}{f'.{group}' if group else ''}/{name}"


def print_table(
    rows: Sequence[Sequence[str]], empty: str = "", widths: Sequence[int] = ()
) -> list[int]:
    """Print a table, whose first row has the columns, and return the widths of its columns.

    Print the text for an `empty` table on standard error. `widths` are those of rows above it.
    """
    if len(rows) <= 1 and empty:
        typer.echo(empty, err=True)
        return list(widths)
    cells = [[clean(cell) or "<none>" for cell in row] for row in rows]
    lengths = ([len(cell) for cell in row] for row in cells)
    found = [max(column) for column in zip(*lengths, *filter(None, [widths]), strict=True)]
    for row in cells:
        padded = (cell.ljust(width) for cell, width in zip(row, found, strict=True))
        typer.echo("   ".join(padded).rstrip())
    return found
