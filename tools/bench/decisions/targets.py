"""Targets and reached values, from the stored results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tools.bench.end_to_end.cases import AS_MUSTER, CASES, KUBE_SCHEDULER, MUSTER, RAW
from tools.bench.end_to_end.results import Result
from tools.bench.report.frame import Measured
from tools.bench.report.waiting_results import Phase

SHARE = 0.75
AS_MUSTER_SHARE = 0.9
"""Share of the raw rate with Muster's account, watches and Reservations."""
FIRST_BIND = 1.0
OTHER_WRITES = 0.3
LAG = 5.0
MAIN = ("plain", "gangs-3", "gangs-1000", "racks")
"""The cases that must reach a share of the raw Binding rate."""

CLAIMS_SHARES = {
    "claims-plain": 0.7,
    "claims-gangs-3": 0.65,
    "claims-gangs-1000": 0.7,
    "claims-racks": 0.65,
    "claims-network": 0.7,
}
"""Shares of the raw rate of the same writes, for pods with claims."""
CLAIMS_FIRST_BIND = {"claims-plain": 1.0, "claims-gangs-3": 1.5, "claims-racks": 1.5}
CLAIMS_AHEAD = 3.0
"""Factor over kube-scheduler's rate, or of its time until half of the pods that come and go run."""

SUITE_AHEAD = {"perf-basic": 3.5, "perf-affinity": 10.0, "perf-spreading": 10.0}
"""Factors over kube-scheduler's rate in the cases of scheduler_perf. With plain pods the API server
is the limit."""
SUITE_AHEAD_ELSE = 5.0

WAITING_WRITES = 10.0
"""Writes for a gang of four that comes to a full cluster: its status, an event, and both for each
of its pods."""
WAITING_TOLD = 10.0
WAITING_PEAK = 2_500
WAITING_RENEWED = 40.0
"""Writes a second about all waiting gangs while nodes and other pods come and go: 20 about groups
and 20 about pods, however many wait (`scheduler.status.number_writes`)."""
WAITING_TOLD_BUSY = 5.0
"""Seconds until the pods of a gang are Unschedulable, while others are bound all the time."""

Row = tuple[str, str, str, str]


def table(
    results: Sequence[Result], decisions: Iterable[Measured], phases: Sequence[Phase] = ()
) -> str:
    """Return Markdown with one line for each target; those without a measurement are left out."""
    found = {(it.case, it.subject): it for it in results}
    rows: list[Row] = [("wanted", "", "reached", ""), ("---",) * 4]
    for case in CASES:
        if (ours := found.get((case, MUSTER))) is not None:
            rows += _of_case(ours, found)
    rows += [
        (f"{it.title} {it.of}", f"< {it.limit:g}", f"{it.median:.3g}", _kept(it.kept))
        for it in decisions
    ]
    rows += [_row_of(*each) for each in _waiting(phases)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def waiting(phases: Sequence[Phase]) -> str:
    """Return Markdown with the targets for waiting gangs."""
    rows: list[Row] = [("wanted", "", "reached", ""), ("---",) * 4]
    rows += [_row_of(*each) for each in _waiting(phases)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def waiting_kept(phases: Sequence[Phase]) -> bool:
    """Return true if all of these targets are reached."""
    return all(reached <= most for _, most, reached, _ in _waiting(phases))


def _waiting(phases: Sequence[Phase]) -> Iterator[tuple[str, float, float, str]]:
    """Yield each target's title, its limit, the reached value, and the unit."""
    for phase in phases:
        title = f"{phase.waiting:,} gangs wait, {phase.title}"
        if phase.kind == "come":
            yield f"{title}: writes a gang", WAITING_WRITES, phase.each, ""
            yield f"{title}: writes in a second", WAITING_PEAK, phase.peak, ""
            yield f"{title}: last pod is told", WAITING_TOLD, phase.told or 0.0, " s"
        elif phase.kind == "busy":
            yield f"{title}: its last pod is told", WAITING_TOLD_BUSY, phase.told or 0.0, " s"
        else:
            most = 0.0 if phase.kind == "quiet" else WAITING_RENEWED
            yield f"{title}: writes a second about them", most, phase.each_second, ""


def _row_of(wanted: str, most: float, reached: float, unit: str) -> Row:
    return (wanted, f"<= {most:,g}{unit}", f"{reached:,.4g}{unit}", _kept(reached <= most))


def _of_case(ours: Result, found: Mapping[tuple[str, str], Result]) -> list[Row]:
    case = CASES[ours.case]
    title = case.title
    raw, peer = found.get((ours.case, RAW)), found.get((ours.case, KUBE_SCHEDULER))
    if case.claims is not None:
        return _with_claims(ours, raw, peer)
    rows: list[Row] = []
    if ours.case in MAIN and raw is not None:
        share = ours.rate / raw.rate
        rows.append((f"{title}: of the raw Binding rate", f">= {SHARE}", f"{share:.2f}",
                     _kept(share >= SHARE)))  # fmt: skip
        rows += _of_own_writes(ours, found)
        rows.append((f"{title}: first bind", f"< {FIRST_BIND:g} s", f"{ours.first:.2f} s",
                     _kept(ours.first < FIRST_BIND)))  # fmt: skip
    if peer is not None and (case.workload is not None or case.victims is not None):
        rows.append(_ahead_by(ours, peer, _raw_requests(ours, found)))
    elif peer is not None:
        rows.append(_ahead(ours, peer))
    if ours.gangs and not case.evicts:
        # Not for evictions: victims are marked and deleted, with an event each.
        early = ours.early / ours.gangs
        kept = _kept(early <= OTHER_WRITES)
        row = (f"{title}: writes besides Bindings, a gang", f"<= {OTHER_WRITES}", f"{early:.2f}")
        rows.append((*row, kept))
    if ours.gangs:
        lag = max(ours.status_lag, ours.events_lag)
        whole = ours.statuses >= ours.gangs
        rows.append((f"{title}: status and events follow", f"< {LAG:g} s", f"{lag:.1f} s",
                     _kept(lag < LAG and whole)))  # fmt: skip
    return rows


def _ahead(ours: Result, peer: Result) -> Row:
    ahead = (ours.bound, ours.rate) > (peer.bound, peer.rate)
    if ours.p99 and peer.p99:
        wanted, reached = f"P99 < {peer.p99:.2f} s", f"{ours.p99:.2f} s"
        ahead = ours.bound >= peer.bound and ours.p99 < peer.p99
    else:
        wanted, reached = f"> {peer.rate:,.0f} pods/s", f"{ours.rate:,.0f} pods/s"
    return (f"{CASES[ours.case].title}: ahead of kube-scheduler", wanted, reached, _kept(ahead))


def _ahead_by(ours: Result, peer: Result, raw: float | None) -> Row:
    """Return the factor over kube-scheduler's rate; if it is missed, also that of raw requests."""
    least = SUITE_AHEAD.get(ours.case, SUITE_AHEAD_ELSE)
    ahead = _times(ours.rate, peer)
    reached = f"{ahead:.1f} x"
    if ahead < least and raw is not None:
        reached += f"; the raw requests {_times(raw, peer):.1f} x"
    title = f"{CASES[ours.case].title}: kube-scheduler's rate"
    return (title, f">= {least:g} x", reached, _kept(ahead >= least and ours.bound >= peer.bound))


def _raw_requests(ours: Result, found: Mapping[tuple[str, str], Result]) -> float | None:
    """Return the pods a second that requests alone reach, each after its victims, if any.

    The raw rate of evictions is for these alone. The rate of plain pods adds the time of Bindings.
    """
    raw = found.get((ours.case, RAW), found.get((ours.case, AS_MUSTER)))
    if raw is None or not raw.evictions:
        return raw.rate if raw is not None else None
    victims, plain = CASES[ours.case].victims, found.get(("plain", AS_MUSTER))
    if victims is None or plain is None:
        return None
    return 1 / (victims.fewest / raw.evictions + 1 / plain.rate)


def _times(rate: float, peer: Result) -> float:
    return rate / peer.rate if peer.rate else math.inf


def _of_own_writes(ours: Result, found: Mapping[tuple[str, str], Result]) -> list[Row]:
    own = found.get((ours.case, AS_MUSTER))
    if own is None:
        return []
    share = ours.rate / own.rate
    title = f"{CASES[ours.case].title}: of the raw rate as Muster writes"
    return [(title, f">= {AS_MUSTER_SHARE}", f"{share:.2f}", _kept(share >= AS_MUSTER_SHARE))]


def _with_claims(ours: Result, raw: Result | None, peer: Result | None) -> list[Row]:
    title, rows = CASES[ours.case].title, list[Row]()
    least = CLAIMS_SHARES.get(ours.case)
    if least is not None and raw is not None:
        share = ours.rate / raw.rate
        row = (f"{title}: of the raw rate of these writes", f">= {least}", f"{share:.2f}")
        rows.append((*row, _kept(share >= least)))
    first = CLAIMS_FIRST_BIND.get(ours.case)
    if first is not None:
        row = (f"{title}: first bind", f"< {first:g} s", f"{ours.first:.2f} s")
        rows.append((*row, _kept(ours.first < first)))
    if peer is None:
        return rows
    if ours.p50 and peer.p50:
        ahead, what = peer.p50 / ours.p50, "as soon as with kube-scheduler"
    else:
        ahead, what = _times(ours.rate, peer), "kube-scheduler's rate"
    row = (f"{title}: {what}", f">= {CLAIMS_AHEAD:g} x", f"{ahead:.2f} x")
    rows.append((*row, _kept(ahead >= CLAIMS_AHEAD)))
    return rows


def _kept(kept: bool) -> str:
    return "kept" if kept else "**missed**"
