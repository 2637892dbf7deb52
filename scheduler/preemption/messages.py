"""Messages of preemption, which never name objects of another namespace to a tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from api.constants import SCHEDULER_COMPONENT
from scheduler.core.defragmentation.plan import MovePlan, NoMoves, Why
from scheduler.core.groups.forest import Pod
from scheduler.core.state.units import Unit
from scheduler.core.values.model import GroupKey, plain_kind
from scheduler.core.values.wording import count

MOVED: Final = f"{SCHEDULER_COMPONENT}: moved for "
"""The beginning of the message on pods that are moved."""

_NO_MOVES: Final[Mapping[Why, str]] = {
    "unsuited": "it does not wait for capacity alone, or may not preempt",
    "leaving": "pods that terminate already leave enough",
    "nothing": "no gang may be moved for it",
    "short": "it would not fit without all gangs that may be moved either",
    "returns": "the gangs that would have to be moved would not all fit again",
    "limit": "the search ended at its limit",
    "terms": "the affinity or spread of gangs that may be moved cannot be simulated",
}


def no_moves_text(none: NoMoves) -> str:
    """Return why no gangs are moved for a root, as a sentence."""
    return f"No gangs are moved: {_NO_MOVES[none.why]}."


def moves_text(plan: MovePlan) -> str:
    """Return what is moved for a root, as a sentence for its namespace."""
    own = sorted(mover.root.name for mover in plan.moves if mover.key[1] == plan.root[1])
    others = len(plan.moves) - len(own)
    names = [*own[:5], *([count(others, "gang") + " of other namespaces"] if others else [])]
    gangs, pods = count(len(plan.moves), "gang"), count(plan.pods, "pod")
    return f"It waits for {gangs} ({pods}) to be moved: {', '.join(names)}."


def moved_text(root: GroupKey, priority: int, namespace: str) -> str:
    """Return for whom a gang is moved, as its namespace may know it."""
    return f"{MOVED}{preemptor_text(root, priority, namespace)}"


def victims_text(units: Sequence[Unit], namespace: str, *, most: int = 3) -> str:
    """Return the victims as the preemptor's namespace may know them: number of pods, and units.

    Units of the namespace are named, `most` of them. Others are counted by kind, with the highest
    priority.
    """
    pods = [pod for unit in units for pod in unit.pods.values()]
    own = [unit.name for unit in units if unit.key[1] == namespace]
    parts = own[:most]
    if len(own) > most:
        parts.append(f"{len(own) - most} more")
    others = [unit for unit in units if unit.key[1] != namespace]
    if others:
        kinds = Counter(plain_kind(unit.key[0]) for unit in others)
        counted = " and ".join(count(number, kind) for kind, number in sorted(kinds.items()))
        highest = max(unit.priority for unit in others)
        parts.append(f"{counted} of other namespaces, of priority {highest} at most")
    return f"{_phrase(pods)} of lower priority ({', '.join(parts)})"


def single_victims(units: Sequence[Unit]) -> Counter[GroupKey]:
    """Return the number of single pods that are victims, by their group."""
    single = (pod for unit in units if unit.group is None for pod in unit.pods.values())
    return Counter(pod.group.key for pod in single if pod.group and not pod.info.expected)


def unit_size(unit: Unit) -> str:
    """Return how many pods the unit has, and how many held places for expected pods."""
    return _phrase(unit.pods.values())


def _phrase(pods: Collection[Pod]) -> str:
    held = sum(pod.info.expected for pod in pods)
    return places_text(len(pods) - held, held)


def places_text(pods: int, held: int) -> str:
    """Return the numbers of pods and of held places; one that is 0 is left out."""
    both = ((pods, "pod"), (held, "held place"))
    return " and ".join(count(number, noun) for number, noun in both if number)


def preemptor_text(root: GroupKey, priority: int, namespace: str) -> str:
    """Return the preemptor as a victim's namespace may know it."""
    kind, (_, own, name) = plain_kind(root[0]), root
    if own == namespace:
        return f"{kind} {own}/{name} of priority {priority}"
    return f"a {kind} of another namespace, of priority {priority}"
