"""Which gangs would have to move so that a pending group fits, what that costs, and what it gains.

The answer is the scheduler's own decision on the state as it is. Nothing changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from analysis.explain.explain import on_nodes
from api.wording import count
from scheduler.core.decide import decide
from scheduler.core.defragmentation.movable import MoveLimits, Mover
from scheduler.core.defragmentation.plan import NoMoves, defragment
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.search.place import Placement, SearchBudget
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey, plain_kind
from scheduler.preemption.messages import no_moves_text
from scheduler.snapshot.snapshot import queue_of

Verdict = Literal["runs", "fits", "moves", "no"]


class MovedGang(msgspec.Struct, rename="camel"):
    """A gang that would be moved: its ID (`NAMESPACE/KIND/NAME`), pods, and their next nodes.

    `ran_seconds` is what its pods have run, in all, `lost_seconds` the same since their last
    checkpoint; both are 0 if the time is not known, as in most snapshots.
    """

    id: str
    pods: int
    ran_seconds: int
    lost_seconds: int
    nodes: dict[str, int]


class Defragmented(msgspec.Struct, rename="camel"):
    """The answer for one root.

    `result` is `runs` if it does not wait for a decision, `fits` if nothing has to be moved,
    `moves` with the gangs that would be moved, or `no` with the reason as `sentence`. `nodes` has
    the number of its pods by node, `movable` is how many gangs may be moved at all.
    """

    id: str
    result: Verdict
    sentence: str = ""
    pods: int = 0
    nodes: dict[str, int] = {}
    moves: list[MovedGang] = []
    movable: int = 0


def answers_of(
    state: State,
    roots: Iterable[Group | Pod],
    budget: SearchBudget,
    limits: MoveLimits,
    *,
    effort: SearchEffort,
) -> list[Defragmented]:
    """Return what would be moved for each of these roots. Changes nothing."""
    waiting = set(queue_of(state).waiting())
    return [
        _answer_of(state, root, budget, limits, effort)
        if root.key in waiting
        else Defragmented(
            _id(root.key), "runs", "It is not pending, or not complete: see muster explain."
        )
        for root in roots
    ]


def _answer_of(
    state: State, root: Group | Pod, budget: SearchBudget, limits: MoveLimits, effort: SearchEffort
) -> Defragmented:
    name = _id(root.key)
    outcome = decide(state, root, budget)
    if isinstance(outcome, Placement):
        return Defragmented(name, "fits", "", len(outcome.pods), _nodes(state, outcome.rows))
    plan = defragment(state, root, outcome, lambda: budget, limits, effort=effort)
    if isinstance(plan, NoMoves):
        return Defragmented(name, "no", no_moves_text(plan), movable=plan.movable)
    moves = [_moved(state, mover, pairs) for mover, pairs in plan.moves.items()]
    rows = plan.placement.rows
    return Defragmented(
        name, "moves", "", len(rows), _nodes(state, rows), moves, movable=plan.movable
    )


def lines_of(answer: Defragmented) -> Iterator[str]:
    """Yield the lines of text."""
    namespace, kind, name = answer.id.split("/", 2)
    words = {
        "runs": "does not wait for capacity",
        "fits": "fits now, nothing has to be moved",
        "moves": f"fits after {count(len(answer.moves), 'move')}",
        "no": "is not helped by moves",
    }
    yield f"{kind} {namespace}/{name}: {words[answer.result]}"
    if answer.sentence:
        yield f"  {answer.sentence}"
    if answer.result == "no" and answer.movable:
        yield f"  {count(answer.movable, 'gang')} may be moved"
    if answer.nodes:
        yield f"  gain: {count(answer.pods, 'pod')} on {on_nodes(answer.nodes)}"
    for gang in answer.moves:
        yield f"  move {gang.id}: {count(gang.pods, 'pod')} to {on_nodes(gang.nodes)}"
        if gang.ran_seconds:
            lost, ran = gang.lost_seconds // 60, gang.ran_seconds // 60
            yield f"    cost: {lost} pod-minutes since the last checkpoint, of {ran} that it ran"


def _moved(state: State, mover: Mover, pairs: Iterable[tuple[Pod, int]]) -> MovedGang:
    nodes = _nodes(state, (row for _, row in pairs))
    return MovedGang(_id(mover.key), len(mover.pods), int(mover.ran), int(mover.lost), nodes)


def _nodes(state: State, rows: Iterable[int]) -> dict[str, int]:
    return dict(sorted(Counter(map(state.nodes.name_of, rows)).items()))


def _id(key: GroupKey) -> str:
    return f"{key[1]}/{plain_kind(key[0])}/{key[2]}"
