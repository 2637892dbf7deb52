"""Stored results of one scheduler process by itself, and their tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from tools.bench.report import frame

FILE: Final = frame.RESULTS / "scale.json"


@dataclass(frozen=True, slots=True)
class Point:
    """One kind of load on so many nodes: microseconds of processor time for each pod.

    `taken_in` is the time until the queue has pod and group, without reading the event. `decided`
    is the time until the pod has a node and is assumed there, without sending a request.
    """

    load: str
    nodes: int
    taken_in: float
    decided: float

    @property
    def rate(self) -> float:
        """Pods a second if the process did nothing else."""
        return 1e6 / (self.taken_in + self.decided)


@dataclass(frozen=True, slots=True)
class Held:
    """MiB for so many nodes and running pods."""

    nodes: int
    pods: int
    mib: float


@dataclass(frozen=True, slots=True)
class Scale:
    """All results; `events` are microseconds by kind."""

    points: Sequence[Point]
    events: Mapping[str, float]
    held: Sequence[Held]


EMPTY: Final = Scale((), {}, ())


def load() -> Scale:
    """Return the last stored results."""
    if not FILE.is_file():
        return EMPTY
    kept = json.loads(FILE.read_text())
    return Scale(
        [Point(**each) for each in kept["points"]],
        kept["events"],
        [Held(**each) for each in kept["held"]],
    )


def keep(measured: Scale) -> None:
    FILE.write_text(json.dumps(asdict(measured), indent=1) + "\n")


def tables(measured: Scale) -> dict[str, str]:
    """Return Markdown by part of the page."""
    return {
        "decided": _decided(measured.points),
        "events": _events(measured.events),
        "held": _held(measured.held),
    }


def _decided(points: Sequence[Point]) -> str:
    """Return one line for each load, one column for each size of cluster."""
    sizes = sorted({it.nodes for it in points})
    by_load: dict[str, dict[int, Point]] = {}
    for it in points:
        by_load.setdefault(it.load, {})[it.nodes] = it
    lines = [
        ["load", *(f"{nodes:,} nodes" for nodes in sizes)],
        ["---", *("---:" for _ in sizes)],
        *([load, *(_cell(found.get(nodes)) for nodes in sizes)] for load, found in by_load.items()),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(it: Point | None) -> str:
    return f"{it.taken_in:.0f} + {it.decided:.0f} µs: {round(it.rate, -2):,.0f}/s" if it else ""


def _events(events: Mapping[str, float]) -> str:
    rows = "".join(f"| {name} | {each:.0f} µs |\n" for name, each in events.items())
    return "| event | each |\n|---|---:|\n" + rows


def _held(held: Sequence[Held]) -> str:
    rows = "".join(f"| {it.nodes:,} | {it.pods:,} | {it.mib:,.0f} MiB |\n" for it in held)
    return "| nodes | pods that run | held |\n|---:|---:|---:|\n" + rows
