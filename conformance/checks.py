"""The verdict: a pure function from a history to findings, each with its moment and its objects."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from msgspec import Struct

from conformance.values.history import (
    Awaited,
    Board,
    Event,
    Node,
    Pod,
    PodGone,
    PodSeen,
    Settled,
    replay,
)
from conformance.values.scenario import Gang, Pods, Scenario

MOST_BREAKS: Final = 2
"""Times that preemption may break one gang in a scenario; more is a loop."""

_TOGETHER_SECONDS: Final = 2.0
"""Seconds in which pods of a gang are evicted together."""


class Finding(Struct, frozen=True):
    """A rule that the scheduler broke, `at` seconds after the start of the scenario."""

    check: str
    at: float
    objects: Sequence[str]
    text: str

    def line(self) -> str:
        return f"{self.check} at {self.at:.1f} s: {self.text} ({', '.join(self.objects)})"


Groups = Mapping[str, Gang | Pods]
Check = Callable[[Sequence[Event], Scenario, float], Iterator[Finding]]


def judge(history: Sequence[Event], scenario: Scenario, grace: float) -> list[Finding]:
    """Return all findings in order of time; `grace` is how many seconds a gang may be half."""
    found = [each for check in CHECKS for each in check(history, scenario, grace)]
    return sorted(found, key=lambda finding: finding.at)


def never_half(history: Sequence[Event], scenario: Scenario, grace: float) -> Iterator[Finding]:
    """No gang has some placed pods and fewer than its minimum for longer than the grace.

    When nothing changes any more, there is no grace. Pods that the kit deleted count as placed
    until the gang has its minimum, or nothing, again: the scheduler did not take them.
    """
    for gang in _gangs(scenario):
        lost: set[str] = set()
        since: float | None = None
        reported = False
        for event, board in replay(history):
            placed = {pod.uid for pod in board.of(gang.name) if pod.placed}
            if isinstance(event, PodSeen | PodGone):
                lost = _lost(lost, placed, gang.least)
            elif event_uids := getattr(event, "uids", None):
                lost |= placed & set(event_uids)
            half = len(placed) > 0 and len(placed | lost) < gang.least
            half = half and gang.name not in board.removed
            since = event.at if half and since is None else since
            if since is None:
                continue
            # What ends the state may be the first event after the grace.
            late = event.at - since > grace
            if not reported and (late or (half and isinstance(event, Settled))):
                reported = True
                text = f"some pods are placed since {since:.1f} s, fewer than {gang.least}"
                yield Finding("half", event.at, [gang.name], text)
            if not half:
                since, reported = None, False


def _lost(lost: set[str], placed: set[str], least: int) -> set[str]:
    """Return the deleted pods that still excuse their gang."""
    if not placed:
        return set()
    return lost & placed if len(placed) >= least else lost


def never_over_capacity(
    history: Sequence[Event], scenario: Scenario, grace: float
) -> Iterator[Finding]:
    """No node has pods whose requests exceed what it can allocate; ending pods count."""
    over: set[str] = set()
    for event, board in replay(history):
        if not isinstance(event, PodSeen) or event.pod.node not in board.nodes:
            continue
        node = board.nodes[event.pod.node]
        excess = _excess(board, node)
        if excess and node.name not in over:
            yield Finding("capacity", event.at, [node.name, event.pod.name], "; ".join(excess))
        over = over | {node.name} if excess else over - {node.name}


def _excess(board: Board, node: Node) -> list[str]:
    used: Counter[str] = Counter()
    for pod in board.pods.values():
        if pod.node == node.name and not pod.finished:
            used.update(pod.requests)
    return [
        f"{amount} {name} are requested, {node.allocatable.get(name, 0)} allocatable"
        for name, amount in sorted(used.items())
        if amount > node.allocatable.get(name, Decimal(0))
    ]


def never_in_vain(history: Sequence[Event], scenario: Scenario, grace: float) -> Iterator[Finding]:
    """After an eviction something of a higher priority starts.

    The last pods of a gang may be seen to go after what they made room for has started.
    """
    groups = scenario.groups()
    starts = _starts(history, groups)
    useless: dict[str, list[tuple[float, str]]] = {}
    first: dict[str, float] = {}
    for at, pod in _evictions(history):
        if at - first.get(pod.gang, -_TOGETHER_SECONDS) >= _TOGETHER_SECONDS:
            first[pod.gang] = at
        since = at if isinstance(groups[pod.gang], Pods) else first[pod.gang]
        later = (
            groups[name].priority > pod.priority and max(times, default=0) > since
            for name, times in starts.items()
        )
        if not any(later):
            useless.setdefault(pod.gang, []).append((at, pod.name))
    for evictions in useless.values():
        text = "evicted, and nothing of a higher priority started after that"
        yield Finding("in-vain", evictions[0][0], [name for _, name in evictions], text)


def fewest_units(history: Sequence[Event], scenario: Scenario, grace: float) -> Iterator[Finding]:
    """Preemption breaks no more units than the scenario needs."""
    broken = _breaks(history, scenario.groups())
    most = scenario.expect.broken
    if len(broken) > most:
        text = f"preemption broke {len(broken)} units, and {most} are enough"
        yield Finding("units", broken[most][0], [unit for _, unit in broken], text)


def no_loop(history: Sequence[Event], scenario: Scenario, grace: float) -> Iterator[Finding]:
    """Preemption does not break the same gang again and again."""
    times: Counter[str] = Counter()
    for at, unit in _breaks(history, scenario.groups()):
        times[unit] += 1
        if times[unit] == MOST_BREAKS + 1:
            yield Finding("loop", at, [unit], f"preemption broke it {times[unit]} times")


def one_rack(history: Sequence[Event], scenario: Scenario, grace: float) -> Iterator[Finding]:
    """A gang that requires one rack runs in one rack."""
    for gang in _gangs(scenario):
        seen: set[str] = set()
        for event, board in replay(history):
            nodes = {pod.node for pod in board.of(gang.name) if pod.placed} & set(board.nodes)
            racks = {board.nodes[node].rack for node in nodes}
            if gang.one_rack and len(racks) > 1 and racks != seen:
                text = f"its pods are in the racks {', '.join(sorted(racks))}"
                yield Finding("rack", event.at, [gang.name], text)
            seen = racks


def true_status(history: Sequence[Event], scenario: Scenario, grace: float) -> Iterator[Finding]:
    """When nothing changes any more, statuses agree with what the pods show."""
    ever: set[str] = set()
    groups = scenario.groups()
    for event, board in replay(history):
        full = {name for name, each in groups.items() if board.placed(name) >= each.least}
        ever |= full
        if not isinstance(event, Settled):
            continue
        for name in sorted(set(groups) - board.removed):
            claim = event.claims.get(name)
            if claim is False and name in full:
                text = "its status does not report it as scheduled, but it has its minimum"
                yield Finding("status", event.at, [name], text)
            if claim and name not in ever:
                text = "its status reports it as scheduled, but it never had its minimum"
                yield Finding("status", event.at, [name], text)
            if silent := sorted(pod.name for pod in board.of(name) if not _is_true(pod)):
                text = "PodScheduled is missing, without a reason, or wrong"
                yield Finding("status", event.at, silent, text)


def _is_true(pod: Pod) -> bool:
    """Return False if the condition PodScheduled does not agree with the pod."""
    if pod.ending or pod.finished:
        return True
    if pod.placed:
        return pod.scheduled != "False"
    return pod.scheduled == "False" and bool(pod.reason) and bool(pod.message)


def progress(history: Sequence[Event], scenario: Scenario, grace: float) -> Iterator[Finding]:
    """Each state that the scenario waits for is reached in time."""
    for event, board in replay(history):
        if isinstance(event, Awaited) and not event.reached:
            groups = sorted(set(scenario.groups()) - board.removed)
            found = ", ".join(f"{name} {board.placed(name)}" for name in groups)
            yield Finding("progress", event.at, groups, f"not {event.wanted}: placed are {found}")


def in_order(history: Sequence[Event], scenario: Scenario, grace: float) -> Iterator[Finding]:
    """The gangs start in the order that the scenario states."""
    starts = _starts(history, scenario.groups())
    first = [(min(starts[name]), name) for name in scenario.expect.order if starts[name]]
    for (one_at, one), (other_at, other) in itertools.pairwise(first):
        if other_at < one_at:
            yield Finding("order", other_at, [other, one], f"{other} started before {one}")


CHECKS: Final[Sequence[Check]] = (
    never_half,
    never_over_capacity,
    never_in_vain,
    fewest_units,
    no_loop,
    one_rack,
    true_status,
    progress,
    in_order,
)


def _gangs(scenario: Scenario) -> list[Gang]:
    return [each for each in scenario.groups().values() if isinstance(each, Gang)]


def _starts(history: Sequence[Event], groups: Groups) -> dict[str, list[float]]:
    """Return when each group got a pod that gave it its minimum or more."""
    starts: dict[str, list[float]] = {name: [] for name in groups}
    before = dict.fromkeys(groups, 0)
    for event, board in replay(history):
        for name, group in groups.items():
            now = board.placed(name)
            if now > before[name] and now >= group.least:
                starts[name].append(event.at)
            before[name] = now
    return starts


def _evictions(history: Sequence[Event]) -> Iterator[tuple[float, Pod]]:
    """Yield placed pods of the kit whose deletion the kit did not request."""
    placed: dict[str, Pod] = {}
    for event, board in replay(history):
        match event:
            case PodSeen(_, pod) if pod.placed:
                placed[pod.uid] = pod
                continue
            case PodSeen(_, pod) if pod.ending:
                lost = placed.pop(pod.uid, None)
            case PodGone(_, uid):
                lost = placed.pop(uid, None)
            case _:
                continue
        if lost and lost.gang not in {"", *board.removed} and lost.uid not in board.deleted:
            yield event.at, lost


def _breaks(history: Sequence[Event], groups: Groups) -> list[tuple[float, str]]:
    """Return when preemption broke which unit; a gang counts again once it had its minimum."""
    starts = _starts(history, groups)
    last: dict[str, float] = {}
    found = []
    for at, pod in _evictions(history):
        if isinstance(groups[pod.gang], Pods):
            found.append((at, pod.name))
            continue
        before = last.get(pod.gang)
        if before is None or any(before < start <= at for start in starts[pod.gang]):
            found.append((at, pod.gang))
        last[pod.gang] = at
    return found
