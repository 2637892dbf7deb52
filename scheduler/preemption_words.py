"""What preemption says to people: it never names another namespace's objects to a tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scheduler.core.model import GroupKey
from scheduler.core.preemption.units import Unit


def victims_text(units: Sequence[Unit], namespace: str, *, most: int = 3) -> str:
    """The victims as the preemptor's namespace may know them: how many pods, and in which units.

    Units of the namespace are named, `most` of them; others are counted by kind, with the highest
    priority.
    """
    pods = sum(len(unit.pods) for unit in units)
    own = [unit.name for unit in units if unit.key[1] == namespace]
    parts = own[:most]
    if len(own) > most:
        parts.append(f"{len(own) - most} more")
    others = [unit for unit in units if unit.key[1] != namespace]
    if others:
        kinds = Counter(unit.key[0] for unit in others)
        counted = " and ".join(_count(number, kind) for kind, number in sorted(kinds.items()))
        highest = max(unit.priority for unit in others)
        parts.append(f"{counted} of other namespaces, of priority {highest} at most")
    return f"{_count(pods, 'pod')} of lower priority ({', '.join(parts)})"


def preemptor_text(root: GroupKey, priority: int, namespace: str) -> str:
    """The preemptor as a victim's namespace may know it."""
    kind, own, name = root
    if own == namespace:
        return f"{kind} {own}/{name} of priority {priority}"
    return f"a {kind} of another namespace, of priority {priority}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
