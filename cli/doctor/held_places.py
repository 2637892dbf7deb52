"""Held places, for pods that do not exist yet, by namespace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from api.reading import dig, text
from api.wording import count
from cli.doctor.findings import About, Check, Finding
from cli.trees.tree import held_places
from kube.client.meta import Json

MOST_NAMED: Final = 5
"""Namespaces that are named: those with the most held places."""

_LIMITS: Final = (
    "to limit them, set podsPerNamespace, requestsPerNamespace and mostSeconds of scheduler.holding"
    " in the configuration"
)


@dataclass(slots=True)
class HeldPlaceCounts:
    """Held places and groups of each namespace, counted while the groups are read."""

    places: Counter[str] = field(default_factory=Counter)
    groups: Counter[str] = field(default_factory=Counter)

    def see(self, obj: Json) -> None:
        """Count one group."""
        if held := held_places(obj):
            namespace = text(dig(obj, "metadata", "namespace"))
            self.places[namespace] += held
            self.groups[namespace] += 1

    def findings(self) -> Iterator[Finding]:
        """Yield the namespaces with the most held places, and a total if there are more."""
        named = sorted(self.places, key=lambda it: (-self.places[it], it))[:MOST_NAMED]
        for namespace in named:
            problem = _holds(self.places[namespace], self.groups[namespace])
            yield Check("held-places", About("Namespace", namespace)).info(problem, _LIMITS)
        if len(self.places) > MOST_NAMED:
            problem = _holds(self.places.total(), self.groups.total())
            spread = f"{problem}, in {len(self.places)} namespaces in total"
            yield Check("held-places", About("Cluster", "all")).info(spread)


def _holds(places: int, groups: int) -> str:
    has = count(groups, "group") + (" has" if groups == 1 else " have")
    return f"{has} {count(places, 'held place')} for pods that do not exist yet"
