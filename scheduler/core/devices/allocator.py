"""Allocates the devices of one node to pods, as kube-scheduler's structured allocator does.

Claims in the order of the pod's spec, requests in order, devices in order; the first full solution
wins. For one pod that is kube-scheduler's solution, device by device. Of devices that nothing tells
apart only the first is tried, which keeps that solution and leaves out most of the search. It goes
on as if several pods were one with all their claims, so pods that would take each other's devices
in turn are given other ones if there is any way to serve all.

What is found follows from the arguments alone. The search ends after a number of steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.core.devices.capacities import left
from scheduler.core.devices.counters import CounterKey
from scheduler.core.devices.layouts import Layout, Usage, added
from scheduler.core.devices.masks import bits
from scheduler.core.devices.matching import Matches, matches
from scheduler.core.devices.requests import ResolvedAsk, ResolvedRequest, Wanted
from scheduler.core.values.device_asks import MOST_RESULTS, Amounts

MOST_STEPS: Final = 2048
"""Devices that one search tries: some milliseconds."""

MOST_DEVICES: Final = 128
"""The most devices that one search allocates, to one pod or to several."""

NO_SOLUTION: Final = "cannot allocate all claims"
INVALID_POOLS: Final = "invalid resource pools were encountered"
_BEST: Final = 8
"""The score of the first option of a firstAvailable list; one less for each after it."""

PodAsks = tuple[ResolvedAsk, ...]
"""What one pod asks for, in the order of its spec."""


@dataclass(frozen=True, slots=True)
class Pick:
    """The device at a position, for an option of a request of the pod's `claim`, by its index.

    `consumed` is what it takes of a shared device; None of a device that it gets whole.
    """

    claim: int
    wanted: Wanted
    position: int
    consumed: Amounts | None = None


@dataclass(frozen=True, slots=True)
class Solution:
    """The picks of each pod in order, and what is in use then. `score`: lists, the more the better.

    `steps` is how many devices were tried.
    """

    pods: tuple[tuple[Pick, ...], ...]
    usage: Usage
    steps: int
    score: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """Why the devices do not suffice; `cut` means that the search ran out of steps."""

    reason: str
    steps: int = 0
    cut: bool = False


class _StopError(Exception):
    """Ends a search: an error that is fatal for the node, or no steps left."""

    def __init__(self, reason: str, *, cut: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.cut = cut


def allocate(
    layout: Layout,
    usage: Usage,
    pods: Sequence[PodAsks],
    *,
    steps: int = MOST_STEPS,
) -> Solution | Refused:
    """Devices for all of the pods, or why there are none."""
    search: _Search | None = None
    try:
        search = _Search(layout, usage, pods, steps)
        found = search.run()
    except _StopError as stop:
        return Refused(stop.reason, search.steps if search else 0, cut=stop.cut)
    if found:
        return search.solution()
    return Refused(INVALID_POOLS if layout.invalid else NO_SOLUTION, search.steps)


@dataclass(slots=True)
class _Option:
    """An option, what it matches, and for a request for all devices which these are."""

    wanted: Wanted
    matches: Matches
    size: int
    devices: list[int]
    able: int

    @property
    def fails(self) -> bool:
        """Whether the search may end in an error here."""
        all_alike = self.wanted.option.every and bool(self.wanted.constraints)
        return all_alike or bool(self.matches.errors)


@dataclass(slots=True)
class _Entry:
    """A request of a pod's claim, with its options."""

    pod: int
    claim: int
    options: list[_Option]
    listed: bool


class _Search:
    """One depth-first search. What it has taken so far is undone on the way back."""

    def __init__(self, layout: Layout, usage: Usage, pods: Sequence[PodAsks], steps: int) -> None:
        self.layout = layout
        self.pods = pods
        self.steps = 0
        self._usage = usage
        self._most_steps = steps
        self._used = usage.used
        self._shares: dict[int, Amounts | None] = {}
        self._spent: Counter[CounterKey] = Counter()
        layout.ledger.turn_to(usage.used | usage.shared)
        self._entries = list(self._all_entries())
        self._picks: list[tuple[_Entry, Pick, Amounts | None]] = []
        self._by_claim: dict[tuple[int, int], int] = {}
        self._by_pod: dict[int, int] = {}
        self._results: Counter[tuple[int, int]] = Counter()
        self._values: dict[tuple[int, int, int], list[int]] = {}
        self._score = 0

    def run(self) -> bool:
        """Whether all requests can be met."""
        least = sum(min(o.size for o in entry.options) for entry in self._entries)
        if least > MOST_DEVICES:
            raise _StopError(f"its claims ask for {least} devices, {MOST_DEVICES} are the most")
        return not self._too_few() and self._go(0, 0, 0, None)

    def solution(self) -> Solution:
        """What the search has taken. What is taken for administration is not in use by that."""
        pods: list[list[Pick]] = [[] for _ in self.pods]
        usage = self._usage
        for entry, pick, _ in self._picks:
            pods[entry.pod].append(pick)
            if not pick.wanted.option.admin:
                usage = usage.take(pick.position, pick.consumed)
        return Solution(tuple(map(tuple, pods)), usage, self.steps, self._score)

    # What is asked for

    def _all_entries(self) -> list[_Entry]:
        found = []
        for pod, asks in enumerate(self.pods):
            for claim, ask in enumerate(asks):
                entries = [self._entry(pod, claim, request) for request in ask.requests]
                least = sum(min(o.size for o in entry.options) for entry in entries)
                if least > MOST_RESULTS:
                    raise _StopError(
                        f"number of requested devices {least} exceeds the claim limit of"
                        f" {MOST_RESULTS}"
                    )
                found += entries
        return found

    def _entry(self, pod: int, claim: int, request: ResolvedRequest) -> _Entry:
        options = [self._option(wanted) for wanted in request.options]
        return _Entry(pod, claim, options, request.listed)

    def _option(self, wanted: Wanted) -> _Option:
        option = wanted.option
        if option.every and self.layout.flaws:
            raise _StopError(
                f"request {option.name}: asks for all devices, but resource pool"
                f" {self.layout.flaws[0]}"
            )
        found = matches(self.layout, wanted)
        able = found.tolerated | found.failing
        if not option.every:
            return _Option(wanted, found, option.count, [], able)
        if found.errors:
            raise _StopError(found.errors[min(found.errors)])
        devices = [at for at in bits(found.selected) if self._has_left(at, found)]
        return _Option(wanted, found, max(1, len(devices)), devices, able)

    def _too_few(self) -> bool:
        """Whether devices are too few for the requests that have no choice; errors come first."""
        needed: Counter[int] = Counter()
        for entry in self._entries:
            if any(option.fails for option in entry.options):
                return False
            option = entry.options[0]
            wanted = option.wanted.option
            plain = not (entry.listed or wanted.every or wanted.admin)
            if plain and not option.able & self.layout.shared:
                needed[option.able] += option.size
        free = ~self._used
        return any(
            sum(count for part, count in needed.items() if not part & ~able)
            > (able & free).bit_count()
            for able in needed
        )

    # The search

    def _go(self, at: int, count: int, start: int, option: _Option | None) -> bool:
        """Meet the requests from index `at` on, of which `count` devices are there already.

        Its next device is looked for from position `start` on. `option` None: none is chosen yet.
        """
        while True:
            if at == len(self._entries):
                return True
            entry = self._entries[at]
            if option is None:
                if entry.listed:
                    return self._one_of(at, entry)
                option = entry.options[0]
            if count < option.size:
                break
            at, count, start, option = at + 1, 0, 0, None
        more = option.size - count
        results = self._results[entry.pod, entry.claim]
        if results + more > MOST_RESULTS or len(self._picks) + more > MOST_DEVICES:
            return False
        if option.wanted.option.every:
            return self._next_of_all(at, count, entry, option)
        return self._any(at, count, start, entry, option)

    def _one_of(self, at: int, entry: _Entry) -> bool:
        for option in entry.options:
            if self._go(at, 0, 0, option):
                self._score += _BEST - option.wanted.index
                return True
        return False

    def _next_of_all(self, at: int, count: int, entry: _Entry, option: _Option) -> bool:
        self._step()
        if count >= len(option.devices):
            return False
        position = option.devices[count]
        if self._closed(entry, option) >> position & 1:
            return False
        if not self._take(entry, option, position, must=True):
            return False
        if self._go(at, count + 1, 0, option):
            return True
        self._give_back()
        return False

    def _any(self, at: int, count: int, start: int, entry: _Entry, option: _Option) -> bool:
        free = option.able & ~self._closed(entry, option) & (-1 << start)
        # Of what cannot be taken only errors count, which end the search.
        free &= self._allowed(entry, option) | option.matches.failing
        while free:
            if free.bit_count() < option.size - count:
                free &= option.matches.failing  # too few, and all of them are looked at
                if not free:
                    break
            low = free & -free
            free ^= low
            position = low.bit_length() - 1
            error = option.matches.errors.get(position)
            if error is not None:
                raise _StopError(error)
            self._step()
            if self._take(entry, option, position):
                if self._go(at, count + 1, position + 1, option):
                    return True
                self._give_back()
            free &= ~self._alike(entry, position)
        return False

    def _allowed(self, entry: _Entry, option: _Option) -> int:
        """The positions that counters and constraints leave, by what is taken so far."""
        # A shared device is charged once, so those that somebody shares are not held back.
        allowed = ~(self.layout.ledger.blocked & ~self._usage.shared)
        for index in option.wanted.constraints:
            constraint = self.pods[entry.pod][entry.claim].constraints[index]
            values = self._values.get((entry.pod, entry.claim, index), ())
            if constraint.distinct or not values:
                for value in (0, *values):
                    allowed &= ~self.layout.with_value(constraint.attribute, value)
            else:
                allowed &= self.layout.with_value(constraint.attribute, values[0])
        return allowed

    def _step(self) -> None:
        if self.steps >= self._most_steps:
            raise _StopError(
                f"found no devices for its claims in {self._most_steps} steps", cut=True
            )
        self.steps += 1

    def _closed(self, entry: _Entry, option: _Option) -> int:
        """The positions that the request cannot take, because of who has them."""
        if option.wanted.option.admin:
            return self._by_claim.get((entry.pod, entry.claim), 0)
        return self._used | self._by_pod.get(entry.pod, 0)

    def _alike(self, entry: _Entry, position: int) -> int:
        """The positions that need not be tried where this one has failed, as a mask."""
        alike = self.layout.twins_of(position) & self._as_much_shared(position)
        for taken in (self._used, self._by_pod.get(entry.pod, 0)):
            alike &= taken if taken >> position & 1 else ~taken
        return alike

    def _as_much_shared(self, position: int) -> int:
        """The positions of which as much is taken by those that share them."""
        consumed = self._share(position)
        equal = dict(self._usage.shares).get(consumed, 0) if consumed is not None else None
        equal = ~self._usage.shared if equal is None else equal
        for at, other in self._shares.items():
            equal = equal | 1 << at if other == consumed else equal & ~(1 << at)
        return equal

    def _share(self, position: int) -> Amounts | None:
        """What is taken of a shared device; None if nobody has any of it."""
        if position in self._shares:
            return self._shares[position]
        return self._usage.share(position)

    def _has_left(self, position: int, found: Matches) -> bool:
        consumed = self._share(position)
        if consumed is None:
            return True  # compared with all of it already
        kind = self.layout.kinds[position]
        return left(kind.sample.capacity, dict(consumed), found.consumed[kind.index])

    # Taking a device, and giving it back

    def _take(self, entry: _Entry, option: _Option, position: int, *, must: bool = False) -> bool:
        """Take a device, if its capacity, counters, taints and constraints allow it."""
        if not self._has_left(position, option.matches):
            return False
        before = self._share(position)
        charges = before is None
        if charges and not self._charge(position):
            return False
        if not option.matches.tolerated >> position & 1 or not self._constrain(
            entry, option, position, must=must
        ):
            if charges:
                self._charge(position, -1)
            return False
        claim, mask = (entry.pod, entry.claim), 1 << position
        consumed: Amounts | None = None
        if self.layout.shared & mask:
            consumed = option.matches.consumed[self.layout.kinds[position].index]
            self._shares[position] = added(before, consumed)
        else:
            self._by_claim[claim] = self._by_claim.get(claim, 0) | mask
            self._by_pod[entry.pod] = self._by_pod.get(entry.pod, 0) | mask
            if not option.wanted.option.admin:
                self._used |= mask
        self._results[claim] += 1
        pick = Pick(entry.claim, option.wanted, position, consumed)
        self._picks.append((entry, pick, before))
        return True

    def _give_back(self) -> None:
        entry, pick, before = self._picks.pop()
        claim, mask = (entry.pod, entry.claim), 1 << pick.position
        self._results[claim] -= 1
        for constraint in pick.wanted.constraints:
            self._values[entry.pod, entry.claim, constraint].pop()
        if pick.consumed is not None:
            self._shares[pick.position] = before
            if before == self._usage.share(pick.position):
                del self._shares[pick.position]
            if before is None:
                self._charge(pick.position, -1)
            return
        self._by_claim[claim] &= ~mask
        self._by_pod[entry.pod] = self._mask_of(entry.pod)
        if not pick.wanted.option.admin:
            self._used &= ~mask
        self._charge(pick.position, -1)

    def _mask_of(self, pod: int) -> int:
        """The positions that the pod has; two of its claims may have one for administration."""
        mask = 0
        for claim in range(len(self.pods[pod])):
            mask |= self._by_claim.get((pod, claim), 0)
        return mask

    def _constrain(self, entry: _Entry, option: _Option, position: int, *, must: bool) -> bool:
        """Whether the device keeps all constraints; its values are noted then."""
        constraints = self.pods[entry.pod][entry.claim].constraints
        noted: list[list[int]] = []
        for index in option.wanted.constraints:
            constraint = constraints[index]
            values = self._values.setdefault((entry.pod, entry.claim, index), [])
            value = self.layout.values[constraint.attribute][position]
            kept = not values or (value in values) != constraint.distinct
            if not value or not kept:
                for each in noted:
                    each.pop()
                if must:
                    raise _StopError(
                        f"request {option.wanted.option.name}: cannot add all devices because a"
                        f" claim constraint on {constraint.attribute} would not be satisfied"
                    )
                return False
            values.append(value)
            noted.append(values)
        return True

    # Counters

    def _charge(self, position: int, sign: int = 1) -> bool:
        """Charge the device to its pool's counters, unless these do not suffice."""
        ledger = self.layout.ledger
        if sign > 0 and ledger.blocked >> position & 1:
            return False
        charges = list(ledger.charges(position))
        for key, amount in charges:
            self._spent[key] += sign * amount
        if sign > 0 and any(self._spent[key] > ledger.left.get(key, 0) for key, _ in charges):
            self._charge(position, -1)
            return False
        return True
