"""Allocation of one node's devices to pods, as in kube-scheduler's structured allocator.

The search takes claims in the order of the pod's spec, then requests in order, then devices in
order; the first complete solution wins. For one pod that is kube-scheduler's solution, device by
device. Among equal devices the search tries only the first: the solution stays the same, and most
of the search is left out. Several pods are solved as one pod with all their claims. So the search
finds devices for all of them, if any combination exists within its limits.

The result depends on the arguments alone. The search ends after a number of steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.core.devices.capacities import has_remaining
from scheduler.core.devices.counters import CounterKey
from scheduler.core.devices.layouts import DeviceLayout, DeviceUsage, added
from scheduler.core.devices.masks import bits
from scheduler.core.devices.matching import Matches, matches
from scheduler.core.devices.requests import RequestOption, ResolvedAsk, ResolvedRequest
from scheduler.core.values.device_asks import MOST_RESULTS, Amounts

MOST_STEPS: Final = 2048
"""Limit of the devices that one search tries: some milliseconds."""

MOST_DEVICES: Final = 128
"""Limit of the devices that one search allocates, to one pod or to several."""

NO_SOLUTION: Final = "cannot allocate all claims"
INVALID_POOLS: Final = "invalid resource pools were encountered"
_BEST: Final = 8
"""Score of the first option of a firstAvailable list; one less for each option after it."""

PodAsks = tuple[ResolvedAsk, ...]
"""Asks of one pod, in the order of its spec."""


@dataclass(frozen=True, slots=True)
class Pick:
    """Device at a position for an option of a request. `claim` is the index of the pod's claim.

    `consumed` is the amount it takes of a shared device, None for a device that it has alone.
    """

    claim: int
    wanted: RequestOption
    position: int
    consumed: Amounts | None = None


@dataclass(frozen=True, slots=True)
class Solution:
    """Picks of each pod in order, and the usage with them.

    `score` rates the options of firstAvailable lists, higher is better. `steps` is the number of
    devices tried.
    """

    pods: tuple[tuple[Pick, ...], ...]
    usage: DeviceUsage
    steps: int
    score: int = 0


@dataclass(frozen=True, slots=True)
class DevicesRefused:
    """Reason why the devices do not suffice; `cut` means that the search ran out of steps."""

    reason: str
    steps: int = 0
    cut: bool = False


class _StopError(Exception):
    """End of a search: an error that is fatal for the node, or no steps left."""

    def __init__(self, reason: str, *, cut: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.cut = cut


def allocate(
    layout: DeviceLayout,
    usage: DeviceUsage,
    pods: Sequence[PodAsks],
    *,
    steps: int = MOST_STEPS,
    all_with_room: bool = False,
) -> Solution | DevicesRefused:
    """Return devices for all of the pods, or the reason why there are none.

    With `all_with_room`, `allocationMode: All` leaves out shared devices with too little capacity
    left, as kube-scheduler does before Kubernetes 1.37; since then, it fails at them.
    """
    search: _DeviceSearch | None = None
    try:
        search = _DeviceSearch(layout, usage, pods, steps, all_with_room=all_with_room)
        found = search.run()
    except _StopError as stop:
        return DevicesRefused(stop.reason, search.steps if search else 0, cut=stop.cut)
    if found:
        return search.solution()
    # As in kube-scheduler, an invalid pool is named only if the other devices do not suffice.
    return DevicesRefused(INVALID_POOLS if layout.invalid else NO_SOLUTION, search.steps)


@dataclass(slots=True)
class _Option:
    """Option with its matches. `devices` is only filled for `allocationMode: All`.

    `able` is the mask of positions that it can take, or whose selector fails.
    """

    wanted: RequestOption
    matches: Matches
    size: int
    devices: list[int]
    able: int

    @property
    def fails(self) -> bool:
        """True if the search may end in an error at this option."""
        all_alike = self.wanted.option.every and bool(self.wanted.constraints)
        return all_alike or bool(self.matches.errors)


@dataclass(slots=True)
class _Entry:
    """Request of a pod's claim, with its options."""

    pod: int
    claim: int
    options: list[_Option]
    listed: bool


class _DeviceSearch:
    """One depth-first search. It undoes its picks as it backtracks."""

    def __init__(
        self,
        layout: DeviceLayout,
        usage: DeviceUsage,
        pods: Sequence[PodAsks],
        steps: int,
        *,
        all_with_room: bool,
    ) -> None:
        self.layout = layout
        self.pods = pods
        self.steps = 0
        self._all_with_room = all_with_room
        self._usage = usage
        self._most_steps = steps
        self._used = usage.used
        # Only positions that this search changes: the usage may have thousands of shared devices.
        self._shares: dict[int, Amounts | None] = {}
        self._spent: Counter[CounterKey] = Counter()
        # The ledger belongs to the layout, and may still be at the usage of another search.
        layout.ledger.turn_to(usage.used | usage.shared)
        self._entries = list(self._all_entries())
        self._picks: list[tuple[_Entry, Pick, Amounts | None]] = []
        # These two masks include picks with adminAccess, `_used` does not.
        self._by_claim: dict[tuple[int, int], int] = {}
        self._by_pod: dict[int, int] = {}
        self._results: Counter[tuple[int, int]] = Counter()
        self._values: dict[tuple[int, int, int], list[int]] = {}
        self._score = 0

    def run(self) -> bool:
        """Return True if all requests can be met."""
        least = sum(min(o.size for o in entry.options) for entry in self._entries)
        # The search recurses for each device: the limit keeps the recursion within Python's stack.
        if least > MOST_DEVICES:
            raise _StopError(f"its claims ask for {least} devices, {MOST_DEVICES} are the most")
        # The exhaustive search could use all its steps to find out that devices are too few.
        return not self._too_few() and self._go(0, 0, 0, None)

    def solution(self) -> Solution:
        """Return the picks of the search. adminAccess does not put a device in use."""
        pods: list[list[Pick]] = [[] for _ in self.pods]
        usage = self._usage
        for entry, pick, _ in self._picks:
            pods[entry.pod].append(pick)
            if not pick.wanted.option.admin:
                usage = usage.take(pick.position, pick.consumed)
        return Solution(tuple(map(tuple, pods)), usage, self.steps, self._score)

    # Requests of the pods

    def _all_entries(self) -> list[_Entry]:
        found = []
        for pod, asks in enumerate(self.pods):
            for claim, ask in enumerate(asks):
                entries = [self._entry(pod, claim, request) for request in ask.requests]
                least = sum(min(o.size for o in entry.options) for entry in entries)
                # Checked for each node, since `All` takes a different number of devices on each.
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

    def _option(self, wanted: RequestOption) -> _Option:
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
            # A request for all devices inspects each of them, so the first error ends the search.
            raise _StopError(found.errors[min(found.errors)])
        # A tainted or used device stays in the list: `All` then fails at it.
        devices = list(bits(found.selected))
        if self._all_with_room:
            devices = [at for at in devices if self._has_remaining(at, found)]
        # At least one, so that a request for all devices fails if none matches.
        return _Option(wanted, found, max(1, len(devices)), devices, able)

    def _too_few(self) -> bool:
        """Return True if devices are too few for the requests that have no alternative."""
        needed: Counter[int] = Counter()
        for entry in self._entries:
            # kube-scheduler has no such shortcut: its search would end in the error first.
            if any(option.fails for option in entry.options):
                return False
            option = entry.options[0]
            wanted = option.wanted.option
            plain = not (entry.listed or wanted.every or wanted.admin)
            if plain and not option.able & self.layout.shared:
                needed[option.able] += option.size
        # Requests whose devices are a subset of another's compete with it, so their counts add up.
        free = ~self._used
        return any(
            sum(count for part, count in needed.items() if not part & ~able)
            > (able & free).bit_count()
            for able in needed
        )

    # The search

    def _go(self, at: int, count: int, start: int, option: _Option | None) -> bool:
        """Meet the requests from index `at` on; `count` devices of the first are picked already.

        Its next device is searched from position `start` on. `option` is None before one is chosen.
        """
        # A loop over requests that are met: only devices add a level of recursion.
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
        # As in kube-scheduler, an alternative beyond the limits is skipped and the next one tried.
        results = self._results[entry.pod, entry.claim]
        if results + more > MOST_RESULTS or len(self._picks) + more > MOST_DEVICES:
            return False
        if option.wanted.option.every:
            # There is no choice among devices: each that matches has to be taken.
            return self._next_of_all(at, count, entry, option)
        return self._any(at, count, start, entry, option)

    def _one_of(self, at: int, entry: _Entry) -> bool:
        for option in entry.options:
            if self._go(at, 0, 0, option):
                # Only after success, so that failed options leave no trace in the score.
                self._score += _BEST - option.wanted.index
                return True
        return False

    def _next_of_all(self, at: int, count: int, entry: _Entry, option: _Option) -> bool:
        self._step()
        if count >= len(option.devices):
            return False
        position = option.devices[count]
        # `All` fails as soon as one device is in use: no combination of others would meet it.
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
        # Devices whose selector fails stay in, although they cannot be taken: kube-scheduler's
        # search inspects them in order and ends in the error.
        free &= self._allowed(entry, option) | option.matches.failing
        while free:
            if free.bit_count() < option.size - count:
                free &= option.matches.failing  # too few; only an error can follow
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
                # Combinations of one request are tried in the order of devices only, not permuted.
                if self._go(at, count + 1, position + 1, option):
                    return True
                self._give_back()
            # Equal devices would fail in the same way.
            free &= ~self._alike(entry, position)
        return False

    def _allowed(self, entry: _Entry, option: _Option) -> int:
        """Return the mask of positions that counters and constraints permit after the picks."""
        # A shared device is charged once, so counters do not block one that is in use already.
        allowed = ~(self.layout.ledger.blocked & ~self._usage.shared)
        for index in option.wanted.constraints:
            constraint = self.pods[entry.pod][entry.claim].constraints[index]
            values = self._values.get((entry.pod, entry.claim, index), ())
            if constraint.distinct or not values:
                # Value 0 stands for a device without the attribute, which no constraint accepts.
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
        """Return the mask of positions that the request cannot take, because they are in use."""
        # adminAccess ignores all use, but does not take a device twice for one claim.
        if option.wanted.option.admin:
            return self._by_claim.get((entry.pod, entry.claim), 0)
        # As in kube-scheduler, a device that the pod picked with adminAccess is closed to its later
        # normal requests.
        return self._used | self._by_pod.get(entry.pod, 0)

    def _alike(self, entry: _Entry, position: int) -> int:
        """Return the mask of positions that fail like this one and need no attempt."""
        alike = self.layout.twins_of(position) & self._as_much_shared(position)
        # With adminAccess, free devices and devices in use are both candidates, but are not equal.
        for taken in (self._used, self._by_pod.get(entry.pod, 0)):
            alike &= taken if taken >> position & 1 else ~taken
        return alike

    def _as_much_shared(self, position: int) -> int:
        """Return the mask of positions of which the same amounts are consumed."""
        consumed = self._share(position)
        equal = dict(self._usage.shares).get(consumed, 0) if consumed is not None else None
        equal = ~self._usage.shared if equal is None else equal
        # The usage is that before the search: correct the positions that the search has changed.
        for at, other in self._shares.items():
            equal = equal | 1 << at if other == consumed else equal & ~(1 << at)
        return equal

    def _share(self, position: int) -> Amounts | None:
        """Return the amounts consumed of a shared device, or None if it is not in use."""
        if position in self._shares:
            return self._shares[position]
        return self._usage.share(position)

    def _has_remaining(self, position: int, found: Matches) -> bool:
        consumed = self._share(position)
        if consumed is None:
            return True  # matching has compared it with the full capacity
        kind = self.layout.kinds[position]
        return has_remaining(kind.sample.capacity, dict(consumed), found.consumed[kind.index])

    # Picks

    def _take(self, entry: _Entry, option: _Option, position: int, *, must: bool = False) -> bool:
        """Pick a device; return False if capacity, counters, taints or constraints forbid it.

        With `must`, a violated constraint ends the search.
        """
        fits = self._has_remaining(position, option.matches)
        if not fits and not must:
            return False
        before = self._share(position)
        # A shared device draws on its counters once, with its first consumer.
        charges = before is None
        if charges and not self._charge(position):
            return False
        allowed = option.matches.tolerated >> position & 1 and self._constrain(
            entry, option, position, must=must
        )
        if allowed and not fits:
            # As in kube-scheduler, after the constraints: their violation is an error.
            self._withdraw(entry, option.wanted)
        if not (allowed and fits):
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
        self._withdraw(entry, pick.wanted)
        if pick.consumed is not None:
            self._shares[pick.position] = before
            # Back at the usage's amounts: only changes stay in the dictionary.
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
        """Return the mask of positions that the pod has picked."""
        # Rebuilt from the claims: with adminAccess, two claims of the pod may have the same device.
        mask = 0
        for claim in range(len(self.pods[pod])):
            mask |= self._by_claim.get((pod, claim), 0)
        return mask

    def _constrain(self, entry: _Entry, option: _Option, position: int, *, must: bool) -> bool:
        """Return True if the device meets all constraints, and record its values then."""
        constraints = self.pods[entry.pod][entry.claim].constraints
        noted: list[list[int]] = []
        for index in option.wanted.constraints:
            constraint = constraints[index]
            values = self._values.setdefault((entry.pod, entry.claim, index), [])
            value = self.layout.values[constraint.attribute][position]
            kept = not values or (value in values) != constraint.distinct
            if not value or not kept:
                # A later constraint failed, so the values recorded for earlier ones are withdrawn.
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

    def _withdraw(self, entry: _Entry, wanted: RequestOption) -> None:
        """Withdraw the values that the last pick recorded for its constraints."""
        for constraint in wanted.constraints:
            self._values[entry.pod, entry.claim, constraint].pop()

    # Counters

    def _charge(self, position: int, sign: int = 1) -> bool:
        """Charge the device to its pool's counters; return False if these do not suffice."""
        ledger = self.layout.ledger
        if sign > 0 and ledger.blocked >> position & 1:
            return False
        # The ledger has the usage before the search, `_spent` the picks of the search.
        charges = list(ledger.charges(position))
        # All counters before the check, so that the device is charged to all of them or none.
        for key, amount in charges:
            self._spent[key] += sign * amount
        if sign > 0 and any(self._spent[key] > ledger.left.get(key, 0) for key, _ in charges):
            self._charge(position, -1)
            return False
        return True
