"""Explanation of a refusal: the blocker, with numbers that are computed as for a placement."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.explain import advice
from scheduler.core.explain.empty_nodes import domains_of, excess
from scheduler.core.pods.never_fits import is_only_missing
from scheduler.core.pods.shapes import Shape
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
    """The main reason why a root waits. `counts` are nodes by reason; a node may have several.

    `summary` has all sentences for users. `nodes` is the first of them if capacity is missing:
    kube-scheduler's sentence, which pods show. `impossible` is True if the group does not fit on
    empty nodes either. `devices` and `volumes` are True if its pods request some.
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
    volumes: bool = False
    nodes: str = ""

    @property
    def significant(self) -> tuple[object, ...]:
        """The fields whose changes are reported at once. Free capacity changes all the time."""
        return (self.kind, self.at, self.needed, self.impossible)


def explain(state: State, refusal: Refusal) -> Blocker:
    """Return the blocker of a refusal, as `status.blocker` shows it to users."""
    short = refusal.shortage
    shape, at, needed, free = short.shape, short.at, short.needed, short.free
    framework = state.framework
    if shape is None or short.kind != "capacity":
        counts: tuple[tuple[str, int], ...] = ()
        nodes, summary = "", short.message or _children(needed, free)
        if short.part:
            summary = f"{short.part[0].upper()}{short.part[1:]}: {summary}"
        if shape is not None and is_only_missing(shape, framework.nodes):
            counts = reasons(framework, shape)
            nodes = advice.available(len(framework.nodes.row_of), counts)
            summary = f"{nodes} {summary}"
        return Blocker(
            summary, short.kind, at, needed, free, counts, minimum=short.minimum, nodes=nodes
        )
    # The search counts itself if reasons depend on volumes assumed in its trial, which is over.
    counts = short.counts or _with_as_many_as_fit(state, shape, short)
    missing = excess(state, short, shape)
    impossible = missing is not None
    rejected = framework.rejects(shape)
    nodes = advice.available(len(framework.nodes.row_of), counts, rejected)
    sentences = [nodes, advice.need(short)]
    if framework.nodes.row_of:
        reason = rejected or (counts[0][0] if counts else "")
        group = state.forest.groups.get(short.at)
        # Counts are sorted: the reason of the most nodes is the one to change.
        sentences.append(
            advice.change(framework, shape, short, reason, group=group, missing=missing)
        )
    else:
        sentences.append("Add nodes.")
    # An impossible root is refused whatever the rest of the search finds.
    if refusal.timed_out and refusal.tried and not impossible:
        tried = count(refusal.tried, "candidate placement")
        sentences.append(f"The search continues: {tried} tried so far.")
    if short.best is not None and (mixed := _domains(state, short, short.best.key).mixed):
        sentences.append(f'Of the domains of "{short.best.key}", {without_domain(mixed)}.')
    return Blocker(
        summary=" ".join(filter(None, sentences)),
        kind=short.kind,
        at=at,
        needed=needed,
        free=free,
        counts=counts,
        best_domain=short.best,
        impossible=impossible,
        minimum=short.minimum,
        devices=bool(shape.requirements.asks),
        volumes=bool(shape.requirements.claims or shape.requirements.disks),
        nodes=nodes,
    )


def _children(needed: int, free: int) -> str:
    return (
        f"The group needs {count(needed, 'more child group')}; {free} can start."
        " Lower minGroupCount, or wait for the others."
    )


def _with_as_many_as_fit(
    state: State, shape: Shape, short: Shortage
) -> tuple[tuple[str, int], ...]:
    """Return the reasons against one more pod after as many needed pods as fit are placed."""
    framework, region = state.framework, None
    # Placed pods change what the filters report for the next one only if the pods interact. Without
    # the trial, the message for a group whose pods must be apart would name cpu.
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
    return domains_of(state, state.forest.groups.get(short.at), key)
