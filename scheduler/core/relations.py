"""Which pods the hard terms about other pods speak of, and which use which volume claim.

Each set of selectors in use has a tally of the pods that it selects, each anti-affinity term one
of the pods that carry it. A pod's `Marks` say which tallies count it and which terms of others it
has to keep away from; they are part of its shape, so equal pods still share one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.core import filters
from scheduler.core.tallies import Tallies
from scheduler.core.values import ClaimKey, Expression, PodInfo, PodSelector, PodTerm, Requirements

Selectors = tuple[PodSelector, ...]
_Slot = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Marks:
    """`counted`: tallies of pods like this one; `shuns`: carriers of terms that speak of it."""

    counted: tuple[int, ...] = ()
    shuns: tuple[int, ...] = ()

    def and_of(self, tally: Tally) -> Marks:
        """With one tally more that speaks of such pods, newer than all of these."""
        if tally.carried is None:
            return Marks((*self.counted, tally.number), self.shuns)
        return Marks(self.counted, (*self.shuns, tally.number))


UNMARKED: Final = Marks()


@dataclass(frozen=True, slots=True)
class Tally:
    """What is counted: pods that all `selectors` select, or the carriers of a term about them.

    `living`: pods that are being deleted do not count.
    """

    number: int
    selectors: Selectors
    living: bool = False
    carried: PodTerm | None = None

    def speaks_of(self, pod: PodInfo, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        """True if the selectors select the pod."""
        if self.living and pod.terminating:
            return False
        return all(selects(s, pod, namespaces) for s in self.selectors)


def selects(
    selector: PodSelector, pod: PodInfo, namespaces: Mapping[str, Mapping[str, str]]
) -> bool:
    """One selector against one pod; `namespaces` are the labels of those that are known."""
    if selector.expressions is None:
        return False
    if not all(filters.meets(e, pod.labels.get(e.key)) for e in selector.expressions):
        return False
    if pod.namespace in selector.namespaces:
        return True
    wanted, labels = selector.of_namespaces, namespaces.get(pod.namespace, {})
    return wanted is not None and all(filters.meets(e, labels.get(e.key)) for e in wanted)


@dataclass(slots=True)
class _Index:
    """Tallies by the label that a pod needs for them to speak of it."""

    by_label: dict[_Slot, list[Tally]] = field(default_factory=dict)
    others: list[Tally] = field(default_factory=list)

    def file(self, tally: Tally) -> None:
        slots = labels_needed(tally.selectors)
        for slot in slots or ():
            self.by_label.setdefault(slot, []).append(tally)
        if slots is None:
            self.others.append(tally)

    def about(self, labels: Mapping[str, str]) -> Iterator[Tally]:
        yield from self.others
        for key, value in labels.items():
            yield from self.by_label.get((key, value), ())
            yield from self.by_label.get((key, None), ())


class Relations:
    """All tallies in use, and the labels of namespaces."""

    def __init__(self, tallies: Tallies) -> None:
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self._tallies = tallies
        self._known: dict[tuple[Selectors, bool, PodTerm | None], Tally] = {}
        self._index = _Index()
        self._carried: dict[int, PodTerm] = {}
        self._claims: dict[ClaimKey, int] = {}

    @property
    def by_namespace(self) -> bool:
        """Whether any selector looks at the labels of namespaces."""
        return any(s.of_namespaces for tally in self._known.values() for s in tally.selectors)

    def register(self, requirements: Requirements) -> list[Tally]:
        """Have all that the requirements speak of counted; what is new, with nothing counted."""
        new: list[Tally] = []
        for claim in requirements.claims:
            if claim not in self._claims:
                self._claims[claim] = self._tallies.new()
        for selectors, living, carried in _asked(requirements):
            if (selectors, living, carried) not in self._known:
                tally = Tally(self._tallies.new(), selectors, living, carried)
                self._known[selectors, living, carried] = tally
                self._index.file(tally)
                if carried is not None:
                    self._carried[tally.number] = carried
                new.append(tally)
        return new

    def tally(
        self, selectors: Selectors, *, living: bool = False, carried: PodTerm | None = None
    ) -> int:
        """The number of a registered tally."""
        return self._known[selectors, living, carried].number

    @property
    def claims(self) -> Iterable[ClaimKey]:
        """Claims that some pod uses or has used."""
        return self._claims

    def claim(self, key: ClaimKey) -> int:
        """The tally of the pods that use a claim."""
        return self._claims[key]

    def carried(self, tally: int) -> PodTerm:
        """The term whose carriers the tally counts."""
        return self._carried[tally]

    def marks(self, pod: PodInfo) -> Marks:
        """What is counted, and who is shunned, where this pod is put."""
        if not self._known and not self._claims:
            return UNMARKED
        own = {self.tally((t.selector,), carried=t) for t in pod.requirements.away}
        own.update(self._claims[claim] for claim in pod.requirements.claims)
        counted, shuns = own, set[int]()
        for tally in self._index.about(pod.labels):
            if tally.speaks_of(pod, self.namespaces):
                (counted if tally.carried is None else shuns).add(tally.number)
        if not counted and not shuns:
            return UNMARKED
        return Marks(tuple(sorted(counted)), tuple(sorted(shuns)))


def labels_needed(selectors: Selectors) -> tuple[_Slot, ...] | None:
    """A pod needs one of these labels, None for any value, to be selected; None: no such rule."""
    for expression in _expressions(selectors):
        if expression.operator == "In":
            return tuple((expression.key, value) for value in expression.values)
    for expression in _expressions(selectors):
        if expression.operator == "Exists":
            return ((expression.key, None),)
    return None


def _expressions(selectors: Selectors) -> Iterator[Expression]:
    for selector in selectors:
        yield from selector.expressions or ()


def _asked(wants: Requirements) -> Iterable[tuple[Selectors, bool, PodTerm | None]]:
    if wants.near:
        # Only a pod that meets every term is company.
        yield tuple(term.selector for term in wants.near), False, None
    for term in wants.away:
        yield (term.selector,), False, None
        yield (term.selector,), False, term
    for spread in wants.spread:
        yield (spread.selector,), True, None
