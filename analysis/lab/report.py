"""Results as a table for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from analysis.lab.amounts import text_of_amount, text_of_seconds
from analysis.lab.results import Resource, Result, Waits

_Row = tuple[str, Callable[[Result], str]]


def to_json(results: Sequence[Result]) -> bytes:
    """Return all results as JSON, indented, with a line break at the end."""
    return msgspec.json.format(msgspec.json.encode({"results": results}), indent=1) + b"\n"


def table_cells(results: Sequence[Result]) -> list[list[str]]:
    """Return rows of cells: a header with the variants, then a label and their values."""
    rows = [["", *(result.variant for result in results)]]
    rows += [[label, *(value(result) for result in results)] for label, value in _rows(results)]
    return rows


def table(results: Sequence[Result]) -> list[str]:
    """Return the lines of a table with one column for each variant."""
    rows = table_cells(results)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_line(row, widths) for row in rows]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    label, *values = row
    cells = [value.rjust(width) for value, width in zip(values, widths[1:], strict=True)]
    return "  ".join([label.ljust(widths[0]), *cells]).rstrip()


def _rows(results: Sequence[Result]) -> Iterator[_Row]:
    first = results[0]
    names = [resource.name for resource in first.resources]
    yield from _PLAIN
    yield from ((f"{name} used", _share_of(name, "used")) for name in names)
    # For these rows the busiest resource suffices; the JSON has all.
    busiest = max(first.resources, key=lambda each: each.used).name
    yield f"{busiest} held by jobs that do not run", _share_of(busiest, "idle_partial")
    yield f"{busiest} lost by eviction", _share_of(busiest, "lost")
    for size in first.wait_by_size:
        yield f"wait P90, {size} pods", _p90_of(lambda each: each.wait_by_size, size)
    if len(first.wait_by_priority) > 1:
        for level in first.wait_by_priority:
            label = f"wait P90, priority {level}"
            yield label, _p90_of(lambda each: each.wait_by_priority, level)
    for key in first.fragmentation.largest:
        yield f"largest gang in one {key.rpartition('/')[2]}, mean", _largest(key)


def _share_of(name: str, field: str) -> Callable[[Result], str]:
    return lambda each: percent(getattr(_of(each, name), field))


def _p90_of(classes: Callable[[Result], dict[str, Waits]], name: str) -> Callable[[Result], str]:
    return lambda each: _p90(classes(each).get(name))


def _largest(key: str) -> Callable[[Result], str]:
    return lambda each: f"{each.fragmentation.largest.get(key, 0):.1f}"


_PLAIN: Final[tuple[_Row, ...]] = (
    ("nodes", lambda each: str(each.nodes)),
    ("jobs finished", lambda each: f"{each.finished} of {each.jobs}"),
    ("total time", lambda each: text_of_seconds(each.end)),
    ("wait, mean", lambda each: text_of_seconds(each.wait.mean)),
    ("wait, median", lambda each: text_of_seconds(each.wait.median)),
    ("wait, P90", lambda each: text_of_seconds(each.wait.p90)),
    ("wait, P99", lambda each: text_of_seconds(each.wait.p99)),
    ("first pod until complete, P90", lambda each: text_of_seconds(each.to_whole.p90)),
    ("jobs with a topology in one domain", lambda each: percent(each.confined)),
    ("jobs evicted", lambda each: str(each.evicted_jobs)),
    ("jobs given up and retried", lambda each: str(each.given_up)),
    ("free but fragmented", lambda each: percent(each.fragmentation.share)),
)


def percent(share: float) -> str:
    """Format a share of 1 in percent, with one decimal."""
    return f"{share * 100:.1f} %"


def reference_text(result: Result) -> str:
    """Return the sentence about the pod with which fragmentation is measured."""
    wanted = result.fragmentation.reference.items()
    requests = ", ".join(f"{name} {text_of_amount(name, amount)}" for name, amount in wanted)
    return f"Fragmentation is measured with pods that request {requests}."


def _of(result: Result, name: str) -> Resource:
    return next(resource for resource in result.resources if resource.name == name)


def _p90(waits: Waits | None) -> str:
    return "" if waits is None else text_of_seconds(waits.p90)
