"""Stored results of measurements, and their tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median_low
from typing import Any

from tools.bench.end_to_end.cases import (
    AS_MUSTER,
    CASES,
    KUBE_SCHEDULER,
    MUSTER,
    RAW,
    WITH_NATIVE,
)
from tools.bench.report.rows import rows

FILE = Path(__file__).resolve().parents[1] / "results" / "e2e.json"


@dataclass(slots=True)
class Result:
    """One scheduler in one case. Seconds count from the time when its caches were in sync.

    `rate` is pods bound over the seconds until the last bind, including the wait for the first. If
    pods come in stages, the seconds are those from each stage's change to its last bind. `writes`
    are requests that change objects until then, by resource. `early` are those besides Bindings
    before the last bind of the gang that they are about. `memory` is the peak in MiB, `cpu` seconds
    until the last bind. Lags are seconds from a gang's last bind to its status, and from the last
    bind of all to the last event. `p50` and `p99` are seconds from the creation of a gang's last
    member to its last bind; for pods that come and go, from the last claim to the last bind.
    `evictions` are the victims that `ended`, per second until the last of them, `after_last` the
    seconds from there to the last bind. `runs` are the rates of all runs, in order; this is the
    middle one. `faults` are errors that a checker found afterwards in the devices, or in where the
    pods are.
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
    ended: int = 0
    evictions: float = 0.0
    after_last: float = 0.0
    runs: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def others(self) -> int:
        """Number of writes other than Bindings."""
        return sum(self.writes.values()) - self.writes.get("pods/binding", 0)


def middle(results: Sequence[Result]) -> Result:
    """Return the run with the median rate, of two the lower; for raw rates each one's median."""
    runs = sorted(it.rate for it in results)
    found = sorted(results, key=lambda it: it.rate)[(len(results) - 1) // 2]
    if found.subject not in (RAW, AS_MUSTER):
        return replace(found, runs=runs)
    names = found.rates
    rates = {name: median_low(it.rates[name] for it in results) for name in names}
    return replace(found, rates=rates, rate=max(rates.values()), runs=runs)


def load(path: Path = FILE) -> list[Result]:
    """Return the last stored results, in the order of the cases; none without a file."""
    if not path.is_file():
        return []
    return [Result(**kept) for kept in json.loads(path.read_text())]


def keep(new: Iterable[Result], path: Path = FILE) -> list[Result]:
    """Replace older results of the same cases; return all.

    Runs of Muster with faults measure nothing: they are left out, with a message.
    """
    cases, subjects = list(CASES), WITH_NATIVE
    found = {(old.case, old.subject): old for old in load(path)}
    for result in new:
        if result.subject.startswith(MUSTER) and result.faults:
            print(f"{result.case}: not kept, {len(result.faults)} faults")
            continue
        found[result.case, result.subject] = result
    order = sorted(
        found.values(), key=lambda it: (cases.index(it.case), subjects.index(it.subject))
    )
    path.parent.mkdir(exist_ok=True)
    path.write_text(rows(map(_said, order)))
    return order


def _said(result: Result) -> dict[str, Any]:
    """Return the fields with a value; faults were printed when they were found."""
    found = {name: value for name, value in asdict(result).items() if value}
    return {name: value for name, value in found.items() if name != "faults"}


_HEAD = (
    "case", "scheduler", "pods/s", "of raw", "first bind", "last bind", "bound",
    "writes besides Bindings, a gang", "status / events lag", "CPU seconds", "peak MiB",
)  # fmt: skip


def table(results: Sequence[Result]) -> str:
    """Return the results as Markdown."""
    limits = {it.case: it.rate for it in results if it.subject == RAW}
    rows = [_HEAD, ("---",) * len(_HEAD), *(_row(it, limits.get(it.case)) for it in results)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def suite(results: Sequence[Result]) -> str:
    """Return Markdown with the measured cases of scheduler_perf, compared to kube-scheduler."""
    by_case: dict[str, dict[str, Result]] = {}
    for it in results:
        if CASES[it.case].suite:
            by_case.setdefault(it.case, {})[it.subject] = it
    found = [(case, of) for case, of in by_case.items() if MUSTER in of]
    if not found:
        return ""
    rows = [_SUITE_HEAD, ("---",) * len(_SUITE_HEAD), *(_compared(*each) for each in found)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


_SUITE_HEAD = ("workload", KUBE_SCHEDULER, "Muster", "ratio", "of raw", "CPU seconds, of both")


def _compared(case: str, of: dict[str, Result]) -> tuple[str, ...]:
    ours, theirs, raw = of[MUSTER], of.get(KUBE_SCHEDULER), of.get(RAW, of.get(AS_MUSTER))
    spent = f"{_spent(ours):.1f}"
    share = f"{ours.rate / raw.rate:.2f} of {raw.rate:,.0f}" if raw is not None else ""
    if raw is not None and raw.subject == AS_MUSTER:
        share += ", as Muster writes"
    if theirs is None:
        return (CASES[case].title, "", _bound_rate(ours), "", share, spent)
    whole = ours.bound >= ours.pods and theirs.bound >= theirs.pods and theirs.rate
    ratio = f"{ours.rate / theirs.rate:.1f}" if whole else ""
    both = f"{_spent(theirs):.1f} / {spent}"
    return (CASES[case].title, _bound_rate(theirs), _bound_rate(ours), ratio, share, both)


def _bound_rate(it: Result) -> str:
    missing = "" if it.bound >= it.pods else f" ({it.bound:,} of {it.pods:,} bound)"
    return f"{it.rate:,.0f}{missing}"


def _spent(it: Result) -> float:
    """Return the seconds of the scheduler's own process."""
    return sum(it.cpu.get(name, 0.0) for name in (KUBE_SCHEDULER, f"{MUSTER} scheduler"))


def _row(it: Result, limit: float | None) -> tuple[str, ...]:
    case = CASES[it.case].title
    if it.subject in (RAW, AS_MUSTER):
        best = max(it.rates, key=lambda connections: it.rates[connections])
        notes = [f"{best} connections", *filter(None, (_spread(it),))]
        name = "raw writes" if CASES[it.case].claims else "raw Bindings"
        if it.evictions:
            name = "raw evictions"
        if CASES[it.case].staged:
            name = "raw changes and Bindings"
        share = "1"
        if it.subject == AS_MUSTER:
            name, share = "raw, as Muster writes", f"{it.rate / limit:.2f}" if limit else ""
        return (case, name, f"{it.rate:,.0f} ({'; '.join(notes)})", share, *("",) * 7)
    evicts = CASES[it.case].victims is not None
    share = f"{(it.evictions if evicts else it.rate) / limit:.2f}" if limit else ""
    spread = _spread(it)
    rate = f"{it.rate:,.0f}" + (f" ({spread})" if spread else "")
    whole = "all" if it.bound >= it.pods else f"{it.bound:,} of {it.pods:,}"
    last = f"{it.last:.2f} s"
    if it.p99:
        lot = "a gang" if it.gangs else "ten pods"
        last += f"; {lot}: P50 {it.p50 * 1000:,.0f} ms, P99 {it.p99 * 1000:,.0f} ms"
    if it.ended:
        last += (
            f"; {it.ended:,} victims, {it.evictions:,.0f} a second, {it.after_last:.2f} s before"
        )
    return (
        case, it.subject, rate, share, f"{it.first:.2f} s", last, whole,
        f"{it.early / it.gangs:.2f}" if it.gangs else f"{it.others / it.pods:.2f} a pod",
        f"{it.status_lag:.1f} s / {it.events_lag:.1f} s",
        _listed(it.cpu, ".1f"), _listed(it.memory, ",.0f"),
    )  # fmt: skip


def _spread(it: Result) -> str:
    if len(it.runs) < 2:
        return ""
    return f"{len(it.runs)} runs: {it.runs[0]:,.0f} to {it.runs[-1]:,.0f}"


def _listed(values: dict[str, float] | dict[str, int], form: str) -> str:
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())
