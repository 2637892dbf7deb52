"""The trees as rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from cli.trees.text import GAP, LAST, PIPE, TEE
from cli.trees.tree import Branch

_COLUMNS: Final = ("NAMESPACE", "NAME", "STATUS", "PODS", "MINIMUM")


def flat(branches: Iterable[Branch]) -> Iterator[Branch]:
    """Yield every branch, each before those below it."""
    for branch in branches:
        yield branch
        yield from flat(branch.children)


def rows(branches: Iterable[Branch], *, wide: bool = False) -> Iterator[list[str]]:
    """Yield the columns, then a row for each branch, whose name shows what it is below."""
    yield [*_COLUMNS, *(("HELD", "NODES") if wide else ()), "MESSAGE"]
    for branch in branches:
        yield from _rows(branch, "", "", wide)


def _rows(branch: Branch, first: str, rest: str, wide: bool) -> Iterator[list[str]]:
    minimum = "" if branch.minimum is None else str(branch.minimum)
    name = f"{first}{branch.kind.lower()}/{branch.name}"
    row = [branch.namespace, name, branch.state, f"{branch.placed}/{branch.members}", minimum]
    if wide:
        nodes = "" if branch.children else ",".join(branch.nodes)
        row += [str(branch.held), nodes]
    yield [*row, branch.reason]
    for number, child in enumerate(branch.children, start=1):
        last = number == len(branch.children)
        first = rest + (LAST if last else TEE)
        yield from _rows(child, first, rest + (GAP if last else PIPE), wide)
