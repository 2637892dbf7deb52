"""Why a root waits, in numbers: the same arithmetic as the placement, read out instead of used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scheduler.core import advice, filters, ports
from scheduler.core.columns import PODS, Bools, Columns, Ints
from scheduler.core.fit import waves
from scheduler.core.placement import Refusal
from scheduler.core.shapes import Shape
from scheduler.core.shortage import BestDomain, Kind, Shortage
from scheduler.core.state import State
from scheduler.core.topology import around
from scheduler.core.values import GroupKey


@dataclass(frozen=True, slots=True)
class Blocker:
    """The one dominant reason. `counts` are nodes per reason; one node may have several.

    `impossible` means that it would not fit into the cluster if nothing else ran there.
    """

    summary: str
    kind: Kind
    at: GroupKey
    needed: int
    free: int
    counts: tuple[tuple[str, int], ...] = ()
    best_domain: BestDomain | None = None
    impossible: bool = False
    pods_fit: bool = False
    floor: bool = True


def explain(state: State, refusal: Refusal) -> Blocker:
    """The refusal for people. `pods_fit`: each pod alone would fit, only the group does not."""
    short = refusal.shortage
    if short.shape is None or short.kind != "capacity":
        summary = short.message or (
            f"needs {advice.count(short.needed, 'child group')} more, {short.free} could run:"
            " lower minGroupCount, or wait for the others"
        )
        return Blocker(summary, short.kind, short.at, short.needed, short.free, floor=short.floor)
    columns, shape = state.columns, short.shape
    counts = _with_as_many_as_fit(state, shape, short.needed)
    impossible = _impossible(state, short, shape)
    return Blocker(
        summary=advice.sentence(columns, shape, short, counts, impossible=impossible),
        kind=short.kind,
        at=short.at,
        needed=short.needed,
        free=short.free,
        counts=counts,
        best_domain=short.best,
        impossible=impossible,
        pods_fit=bool(shape.slots(columns).any()),
        floor=short.floor,
    )


def reasons(columns: Columns, shape: Shape) -> tuple[tuple[str, int], ...]:
    """Nodes per reason why they take no more pods of the shape, most nodes first.

    Of a node with room for some, what stops it from taking one beyond those counts.
    """
    found: Counter[str] = Counter()
    codes = shape.codes(columns)
    for code, count in enumerate(np.bincount(codes, minlength=len(shape.reasons))):
        if count and shape.reasons[code] not in ("", "no node"):
            found[shape.reasons[code]] += int(count)
    permitted = shape.permitted(columns)
    open_to = np.ones(columns.size, np.bool_)
    if shape.sees:
        open_to = shape.social(columns) == 0
    full = shape.room(columns, columns.free) <= 0
    for reason, mask in _lacking(columns, shape):
        found[reason] += int((mask & permitted & (open_to | full)).sum())
    if shape.sees:
        for code, count in enumerate(np.bincount(shape.social(columns)[permitted])):
            found[shape.reasons[code]] += int(count) if code else 0
    found = +found
    return tuple(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _lacking(columns: Columns, shape: Shape) -> Iterator[tuple[str, Bools]]:
    """Per reason the nodes (N,) that have no room for one pod more than they could take."""
    size = columns.size
    beyond = shape.room(columns, columns.free) + 1
    names = list(columns.resources)
    taken = np.zeros(size, np.bool_)
    for resource, amount in shape.demands:
        short = columns.free[resource, :size] < amount * beyond
        name = names[resource]
        if ports.is_port(name):
            taken |= short  # of several ports a node counts once
        else:
            yield filters.TOO_MANY_PODS if name == PODS else f"Insufficient {name}", short
    yield ports.REASON, taken


def _with_as_many_as_fit(state: State, shape: Shape, needed: int) -> tuple[tuple[str, int], ...]:
    """The reasons once as many pods are placed as can be: what they have against one more."""
    columns = state.columns
    if not shape.sociable:
        return reasons(columns, shape)
    with columns.trial():
        for rows, counts in waves(columns, shape, needed, None, "pack"):
            columns.take(rows, counts, shape.request, shape.marks.counted)
        return reasons(columns, shape)


def _impossible(state: State, short: Shortage, shape: Shape) -> bool:
    empty: Ints = shape.room(state.columns, state.columns.allocatable)
    if short.best is None:
        return shape.most(empty) < short.needed
    key = short.best.key
    domains = state.topologies.domains(key, around(state.forest.groups.get(short.at), key))
    sums = domains.sums(empty, None)
    # By far most often the first domain that is large enough will do.
    return not any(
        shape.most(np.where(domains.codes == code, empty, 0)) >= short.needed
        for code in np.argsort(-sums, kind="stable").tolist()
        if sums[code] >= short.needed
    )
