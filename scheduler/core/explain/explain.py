"""Why a root waits, in numbers, computed as for a placement; like a FailedScheduling message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scheduler.core.explain import advice
from scheduler.core.groups.forest import topology_keys_around
from scheduler.core.pods.shapes import Shape, demands_of
from scheduler.core.search.node_selection import waves
from scheduler.core.search.place import Refusal
from scheduler.core.search.reasons import reasons
from scheduler.core.state.shortage import BestDomain, Kind, Shortage
from scheduler.core.state.state import State
from scheduler.core.topology.topology import Domains
from scheduler.core.values.model import GroupKey
from scheduler.core.values.wording import count, without_domain

__all__ = ["Blocker", "explain", "reasons"]


@dataclass(frozen=True, slots=True)
class Blocker:
    """The main reason of a refusal. `counts` are nodes per reason; a node may have several.

    `impossible` means that it would not fit even if the cluster were empty. `devices` means that
    pods ask for some.
    """

    summary: str
    kind: Kind
    at: GroupKey
    needed: int
    free: int
    counts: tuple[tuple[str, int], ...] = ()
    best_domain: BestDomain | None = None
    impossible: bool = False
    minimum: bool = True
    devices: bool = False

    @property
    def significant(self) -> tuple[object, ...]:
        """What is worth telling all groups and pods of a tree; free places change all the time."""
        return (self.kind, self.at, self.needed, self.impossible)


def explain(state: State, refusal: Refusal) -> Blocker:
    """The blocker of a refusal, as `status.blocker` shows it to users."""
    short = refusal.shortage
    if short.shape is None or short.kind != "capacity":
        summary = short.message or (
            f"needs {count(short.needed, 'child group')} more, {short.free} could run:"
            " lower minGroupCount, or wait for the others"
        )
        return Blocker(
            summary, short.kind, short.at, short.needed, short.free, minimum=short.minimum
        )
    framework, shape = state.framework, short.shape
    counts = short.counts or _with_as_many_as_fit(state, shape, short)
    impossible = _impossible(state, short, shape)
    summary = advice.sentence(framework, shape, short, counts, impossible=impossible)
    if refusal.timed_out and refusal.tried and not impossible:
        summary += f"; still searching: {count(refusal.tried, 'candidate placement')} tried"
    if short.best is not None and (mixed := _domains(state, short, short.best.key).mixed):
        summary += f'; of the domains of "{short.best.key}", {without_domain(mixed)}'
    return Blocker(
        summary=summary,
        kind=short.kind,
        at=short.at,
        needed=short.needed,
        free=short.free,
        counts=counts,
        best_domain=short.best,
        impossible=impossible,
        minimum=short.minimum,
        devices=bool(shape.requirements.asks),
    )


def _with_as_many_as_fit(
    state: State, shape: Shape, short: Shortage
) -> tuple[tuple[str, int], ...]:
    """The reasons against one more pod, once as many of the needed pods as fit are placed."""
    framework, region = state.framework, None
    if not shape.self_interacting:
        return reasons(framework, shape)
    if short.best is not None:
        domains = _domains(state, short, short.best.key)
        if short.best.value in domains.values:
            region = domains.rows(domains.values.index(short.best.value), None)
    with state.nodes.trial():
        for rows, counts in waves(framework, shape, short.needed, region, "pack"):
            framework.occupy(shape, rows, counts)
        return reasons(framework, shape)


def _domains(state: State, short: Shortage, key: str) -> Domains:
    return state.topologies.of_groups(
        key, topology_keys_around(state.forest.groups.get(short.at), key)
    )


def _impossible(state: State, short: Shortage, shape: Shape) -> bool:
    framework = state.framework
    domains = None if short.best is None else _domains(state, short, short.best.key)
    most = framework.most(shape, framework.empty_room(shape), domains)
    enough = most >= short.needed
    for resource, amount in _needed_at_once(state, short).items():
        allocatable = state.nodes.allocatable[resource, : state.nodes.size]
        total = [allocatable.sum()] if domains is None else domains.sums(allocatable, None)
        enough &= np.asarray(total) >= amount
    return not enough.any()


def _needed_at_once(state: State, short: Shortage) -> Mapping[int, int]:
    """How much of each resource all waiting pods of the group ask for, if it needs all of them."""
    group = state.forest.groups.get(short.at)
    if group is None or not short.minimum or group.available > (group.minimum or 0):
        return {}
    return demands_of({shape: len(pods) for shape, pods in group.pending.items()})
