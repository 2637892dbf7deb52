"""Messages about missing devices: what the pod's claims request, and what the nodes have.

They never name the users of other devices, which may be other tenants. The cost is bounded,
whatever the claims request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler.core.devices.layouts import DeviceLayout, DeviceUsage
from scheduler.core.devices.masks import bits
from scheduler.core.devices.matching import matches
from scheduler.core.devices.requests import RequestOption, ResolvedAsk, ResolvedRequest
from scheduler.core.devices.results import is_local
from scheduler.core.framework.dynamic_resources import AskedClaim
from scheduler.core.framework.framework import Framework
from scheduler.core.pods.shapes import Shape
from scheduler.core.state.shortage import Shortage
from scheduler.core.values.device_asks import DeviceConstraint
from scheduler.core.values.devices import Allocation
from scheduler.core.values.model import ClaimKey
from scheduler.core.values.wording import count

_MOST_LOOKS: Final = 4096
"""Limit of comparisons of a request's option with one kind of node; beyond it, no message."""

_MOST_NAMED: Final = 2
"""Limit of selectors that a message names."""


@dataclass(frozen=True, slots=True)
class _Sort:
    """Kind of nodes: they have equal devices in equal use. `row` is one of them."""

    layout: DeviceLayout
    usage: DeviceUsage
    nodes: int
    row: int


@dataclass(slots=True)
class _Totals:
    """Numbers of devices on all nodes: free ones, and the others by the obstacle.

    `best` is the highest number of free devices on one node, `pods` the number of pods that the
    free devices serve.
    """

    free: int = 0
    best: int = 0
    pods: int = 0
    used: int = 0
    tainted: int = 0
    failing: int = 0
    error: str = ""
    unselected: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        parts = [
            f"{number} {what}"
            for number, what in (
                (self.used, "in use"),
                (self.tainted, "tainted"),
                *((n, f"not selected by {s}") for s, n in self.unselected.most_common(_MOST_NAMED)),
            )
            if number
        ]
        if self.failing:
            parts.append(f"{self.failing} with an error in {self.error}")
        return f" ({', '.join(parts)})" if parts else ""


class DeviceAdvice:
    """Advice about the devices that pods of one shape lack."""

    def __init__(self, framework: Framework, shape: Shape, short: Shortage) -> None:
        self._devices = framework.plugins.dynamic_resources
        self._needed = short.needed
        self._asked = self._devices.asked(shape)
        self._undecided = self._devices.undecided(shape)
        self._slots = framework.slots(shape)
        self._wide = self._devices.wide()
        self._looks = 0
        # Nodes of one kind are compared once, however many there are.
        permitted = np.flatnonzero(framework.permitted(shape))
        equal = list(self._devices.equal_rows(shape, permitted))
        self._sorts = [
            _Sort(layout, usage, len(rows), int(rows[0])) for layout, usage, rows in equal
        ]
        self._rows, self._nodes = permitted, len(permitted)
        if shape.requirements.extended and equal:
            # The other nodes offer the resource by a device plugin: pods there need no devices.
            asking = np.concatenate([rows for _, _, rows in equal])
            self._nodes = len(asking)
            self._needed -= int(self._slots[np.setdiff1d(permitted, asking)].sum())

    def message(self) -> str:
        """Return the message about the first shortage; empty if there is none or it is unknown."""
        for text in self._texts():
            # The comparisons were not complete, so the numbers may be wrong.
            if self._looks > _MOST_LOOKS:
                return ""
            if text:
                return text
        return ""

    def _texts(self) -> Iterator[str]:
        """Yield a text for each request, constraint and shared claim; empty if devices suffice."""
        for number, each in enumerate(self._asked):
            claim = self._claim(each, number)
            for request in each.ask.requests:
                text = self._request(request, shared=each.key is not None)
                name = request.options[0].option.name
                resource = each.resources.get(name)
                what = f"resource {resource}" if resource else f"request {name}{claim}"
                yield f"{what} {text}" if text else ""
            for constraint in each.ask.constraints:
                text = self._constraint(each.ask, constraint)
                yield f"constraint on {constraint.attribute}{claim} {text}" if text else ""
        # After the requests and constraints: one that is short alone explains more.
        yield self._together()
        yield from map(self._place, self._undecided)

    def _place(self, key: ClaimKey) -> str:
        """Return how many pods fit on the best nodes for a shared claim; empty if all fit."""
        best = max(
            (
                int(self._slots[same].max() if is_local(allocation) else self._reached(allocation))
                for allocation, same, _ in self._devices.choices(key, self._rows)
            ),
            default=0,
        )
        if best >= self._needed:
            return ""
        return (
            f"ResourceClaim {key[1]} keeps all of its pods on the nodes that can use its devices,"
            f" and the best of these have capacity for {best} of {self._needed}"
        )

    def _reached(self, allocation: Allocation) -> int:
        """Return the number of pods that fit on the nodes that can use the allocation."""
        return int(self._slots[self._devices.admitted(allocation)].sum())

    def _claim(self, asked: AskedClaim, number: int) -> str:
        """Return the words that name the claim; empty if the pod has no other claim of its own."""
        if asked.key is not None:
            return f" of ResourceClaim {asked.key[1]}"
        return f" of claim {number + 1}" if len(self._asked) > 1 else ""

    def _request(self, request: ResolvedRequest, *, shared: bool) -> str:
        """Return what the first option of the request lacks; empty if any option fits."""
        texts = []
        for wanted in request.options:
            text = (
                self._all(wanted) if wanted.option.every else self._counted(wanted, shared=shared)
            )
            if not text:
                return ""
            texts.append(text)
        if len(texts) == 1:
            return texts[0]
        verb = "does" if len(texts) == 2 else "do"
        return f"{texts[0]}; its {count(len(texts) - 1, 'other alternative')} {verb} not fit either"

    def _counted(self, wanted: RequestOption, *, shared: bool) -> str:
        """Return what a request for a number of devices lacks on one node, or for all pods."""
        option, totals = wanted.option, self._totals(wanted)
        # Devices that several nodes see would count once for each of them.
        why = "" if self._wide else str(totals)
        of = f"needs {count(option.count, 'device')} of class {option.device_class}"
        if totals.best < option.count:
            return f"{of}; {self._best(totals.best)}{why}"
        # All pods of a shared claim use the same devices, so these are not needed for each pod.
        if totals.pods < self._needed and not (shared or self._wide):
            each = f" for each of {count(self._needed, 'pod')}"
            return f"{of}{each}; {totals.free} free on {count(self._nodes, 'node')}{why}"
        return ""

    def _all(self, wanted: RequestOption) -> str:
        """Return why no node can give all matching devices to a request with allocationMode All."""
        none = some = tainted = 0
        # One matching device that is in use or tainted is enough for such a request to fail.
        for each in self._node_kinds():
            found = matches(each.layout, wanted)
            if not found.selected:
                none += each.nodes
            elif found.selected & ~found.tolerated:
                tainted += each.nodes
            elif found.selected & each.usage.used and not wanted.option.admin:
                some += each.nodes
            else:
                return ""
        return (
            f"needs all devices of class {wanted.option.device_class}; of"
            f" {count(self._nodes, 'node')}, {none} have none, {some} have some in use, {tainted}"
            " have tainted ones"
        )

    def _totals(self, wanted: RequestOption) -> _Totals:
        totals = _Totals()
        for each in self._node_kinds():
            found = matches(each.layout, wanted)
            used = 0 if wanted.option.admin else each.usage.used
            free = (found.tolerated & ~used).bit_count()
            totals.best = max(totals.best, free)
            totals.free += free * each.nodes
            # A shared device may serve several pods. It counts as enough for all of them, so that
            # the message reports no shortage that may not exist.
            plenty = found.tolerated & ~used & each.layout.shared
            totals.pods += self._needed if plenty else free // wanted.option.count * each.nodes
            totals.used += (found.tolerated & used).bit_count() * each.nodes
            totals.tainted += (found.selected & ~found.tolerated).bit_count() * each.nodes
            totals.failing += len(found.errors) * each.nodes
            # One example: errors of the same expression on other devices say no more.
            if found.errors and not totals.error:
                position = min(found.errors)
                name = self._devices.device_name(each.row, position)
                totals.error = f"{found.errors[position]}, such as device {name}"
            others = each.layout.visible & ~found.selected & ~found.failing
            for source in self._deselected(each.layout, wanted, bits(others)):
                totals.unselected[source] += each.nodes
        return totals

    def _deselected(
        self, layout: DeviceLayout, wanted: RequestOption, others: Iterable[int]
    ) -> Iterator[str]:
        """Yield the selector or the capacity that rejects the device at each position."""
        known: dict[int, str] = {}
        for position in others:
            kind = layout.kinds[position]
            # Devices of a kind have equal verdicts, so one evaluation serves all of them.
            if kind.index not in known:
                known[kind.index] = self._devices.deselecting(kind, wanted)
            yield known[kind.index] or f"the capacity of request {wanted.option.name}"

    def _constraint(self, ask: ResolvedAsk, constraint: DeviceConstraint) -> str:
        """Return what a constraint lacks; empty if some node may have devices that satisfy it."""
        index = ask.constraints.index(constraint)
        # With alternatives, the allocator decides which requests the constraint is about.
        concerned = [
            request.options[0]
            for request in ask.requests
            if len(request.options) == 1 and index in request.options[0].constraints
        ]
        if not concerned or any(wanted.option.every for wanted in concerned):
            return ""
        needed, best = sum(wanted.option.count for wanted in concerned), 0
        for each in self._node_kinds():
            free = 0
            for wanted in concerned:
                free |= matches(each.layout, wanted).tolerated & ~each.usage.used
            values = Counter(each.layout.values[constraint.attribute][at] for at in bits(free))
            # 0 is no value: a device without the attribute never satisfies a constraint.
            del values[0]
            best = max(
                best, len(values) if constraint.distinct else max(values.values(), default=0)
            )
        if best >= needed:
            return ""
        how = "different values" if constraint.distinct else "one value"
        return f"needs {count(needed, 'device')} with {how}; {self._best(best)}"

    def _together(self) -> str:
        """Return what all requests together lack; empty if some node may have enough devices."""
        wanted = [
            request.options[0]
            for each in self._asked
            for request in each.ask.requests
            if len(request.options) == 1
        ]
        if len(wanted) < 2 or any(w.option.every or w.option.admin for w in wanted):
            return ""
        needed = sum(each.option.count for each in wanted)
        best = 0
        for each in self._node_kinds():
            free = 0
            for one in wanted:
                free |= matches(each.layout, one).tolerated & ~each.usage.used
            # A shared device may serve several requests.
            if free & each.layout.shared:
                return ""
            best = max(best, free.bit_count())
        if best >= needed:
            return ""
        return f"its requests need {needed} devices together; {self._best(best)}"

    def _node_kinds(self) -> Iterable[_Sort]:
        """Return the kinds of nodes, or none once the limit of comparisons is reached."""
        self._looks += len(self._sorts)
        return self._sorts if self._looks <= _MOST_LOOKS else ()

    def _best(self, free: int) -> str:
        return f"{free} free on the best of {count(self._nodes, 'node')}"
