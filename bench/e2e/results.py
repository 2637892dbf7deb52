"""What is kept of a measurement, and the table of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.e2e.cases import CASES, KUBE_SCHEDULER, MUSTER, RAW

FILE = Path(__file__).resolve().parents[1] / "results" / "e2e.json"


@dataclass(slots=True)
class Result:
    """One scheduler in one case. Seconds count from the moment its caches were in sync.

    `rate` is pods bound over the seconds until the last bind, waiting for the first included.
    `writes` are requests that change something until then, by resource; `early` are those besides
    Bindings that came before the last bind of the gang that they are about. `memory` is the peak in
    MiB, `cpu` seconds until the last bind. Lags are seconds from a gang's last bind to its
    status, and from the last bind of all to the last event. `p50` and `p99` are seconds from the
    creation of a gang's last member to its last bind.
    """

    case: str
    subject: str
    nodes: int
    pods: int
    gangs: int = 0
    bound: int = 0
    rate: float = 0.0
    rates: dict[str, float] = field(default_factory=dict)
    start_seconds: float = 0.0
    first: float = 0.0
    last: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    writes: dict[str, int] = field(default_factory=dict)
    early: int = 0
    statuses: int = 0
    status_lag: float = 0.0
    events: int = 0
    events_lag: float = 0.0
    arrival_rate: float = 0.0
    p50: float = 0.0
    p99: float = 0.0

    @property
    def others(self) -> int:
        """Writes that were no Bindings."""
        return sum(self.writes.values()) - self.writes.get("pods/binding", 0)


def load(path: Path = FILE) -> list[Result]:
    """What was measured last, in the order of the cases; nothing if there is no file."""
    if not path.is_file():
        return []
    return [Result(**kept) for kept in json.loads(path.read_text())]


def keep(new: Iterable[Result], path: Path = FILE) -> list[Result]:
    """Put them in the place of older ones of the same cases; answers all."""
    cases, subjects = list(CASES), [RAW, KUBE_SCHEDULER, MUSTER]
    found = {(old.case, old.subject): old for old in load(path)}
    found |= {(result.case, result.subject): result for result in new}
    order = sorted(
        found.values(), key=lambda it: (cases.index(it.case), subjects.index(it.subject))
    )
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps([asdict(it) for it in order], indent=1) + "\n")
    return order


_HEAD = (
    "case", "scheduler", "pods/s", "of raw", "first bind", "last bind", "bound",
    "writes besides Bindings, a gang", "status / events lag", "CPU seconds", "peak MiB",
)  # fmt: skip


def table(results: Sequence[Result]) -> str:
    """Markdown."""
    limits = {it.case: it.rate for it in results if it.subject == RAW}
    rows = [_HEAD, ("---",) * len(_HEAD), *(_row(it, limits.get(it.case)) for it in results)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(it: Result, limit: float | None) -> tuple[str, ...]:
    case = CASES[it.case].title
    if it.subject == RAW:
        best = max(it.rates, key=lambda connections: it.rates[connections])
        note = f"{it.rate:,.0f} ({best} connections)"
        return (case, "raw Bindings", note, "1", *("",) * 7)
    share = f"{it.rate / limit:.2f}" if limit else ""
    whole = "all" if it.bound >= it.pods else f"{it.bound:,} of {it.pods:,}"
    last = f"{it.last:.2f} s"
    if it.p99:
        last += f"; a gang: P50 {it.p50 * 1000:,.0f} ms, P99 {it.p99 * 1000:,.0f} ms"
    return (
        case, it.subject, f"{it.rate:,.0f}", share, f"{it.first:.2f} s", last, whole,
        f"{it.early / it.gangs:.2f}" if it.gangs else f"{it.others / it.pods:.2f} a pod",
        f"{it.status_lag:.1f} s / {it.events_lag:.1f} s",
        _listed(it.cpu, ".1f"), _listed(it.memory, ",.0f"),
    )  # fmt: skip


def _listed(values: dict[str, float] | dict[str, int], form: str) -> str:
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())
