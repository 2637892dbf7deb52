"""Which pods the terms about other pods speak of, and which use which volume claim.

Each set of selectors in use has a tally of the pods that it selects, each anti-affinity term and
each preference one of the pods that carry it. A pod's `Marks` say which tallies count it and which
terms of others it has to heed; they are part of its shape, so equal pods still share one. A tally
lives as long as a shape that asks for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from scheduler.core.match_counts import Tallies
from scheduler.core.model import (
    ClaimKey,
    PodInfo,
    PodSelector,
    PodTerm,
    Requirements,
    SoftTerm,
)
from scheduler.core.plugins import node_affinity as filters

Selectors = tuple[PodSelector, ...]
Carried = PodTerm | SoftTerm | None
_Asked = tuple[Selectors, bool, Carried]

ANYWHERE: Final = ""
IS: Final = "is"
HAS: Final = "has"
LACKS: Final = "lacks"
WITHIN: Final = "within"
Trait = tuple[str, str, str, str]
"""A namespace or ANYWHERE, and IS (label, value), HAS or LACKS (label), or WITHIN, just there."""


@dataclass(frozen=True, slots=True)
class Marks:
    """`counted`: tallies of pods like this one.

    `shuns` are those of carriers that keep it away, `heeds` of carriers that like it near or far.
    """

    counted: tuple[int, ...] = ()
    shuns: tuple[int, ...] = ()
    heeds: tuple[int, ...] = ()

    def and_of(self, tally: Tally) -> Marks:
        """With one tally more that speaks of such pods, newer than all of these."""
        return self._with(tally, lambda numbers: (*numbers, tally.number))

    def without(self, tally: Tally) -> Marks:
        """With one tally less."""
        return self._with(tally, lambda numbers: tuple(n for n in numbers if n != tally.number))

    def _with(self, tally: Tally, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Marks:
        if tally.carried is None:
            return replace(self, counted=change(self.counted))
        if isinstance(tally.carried, PodTerm):
            return replace(self, shuns=change(self.shuns))
        return replace(self, heeds=change(self.heeds))


UNMARKED: Final = Marks()


@dataclass(frozen=True, slots=True)
class Tally:
    """What is counted: pods that all `selectors` select, or the carriers of a term about them.

    `living`: pods that are being deleted do not count.
    """

    number: int
    selectors: Selectors
    living: bool = False
    carried: Carried = None

    @property
    def asked(self) -> _Asked:
        return (self.selectors, self.living, self.carried)

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
    """Tallies by a trait that a pod needs for them to speak of it.

    Of several traits it is the one by which fewest are filed: a label that all pods have tells
    nothing apart.
    """

    by_trait: dict[Trait, dict[int, Tally]] = field(default_factory=dict)
    others: dict[int, Tally] = field(default_factory=dict)
    filed: dict[int, tuple[Trait, ...]] = field(default_factory=dict)
    lacked: dict[str, int] = field(default_factory=dict)

    def file(self, tally: Tally) -> None:
        traits = min(traits_needed(tally.selectors), key=self._crowd, default=())
        self.filed[tally.number] = traits
        for trait in traits:
            self.by_trait.setdefault(trait, {})[tally.number] = tally
            if trait[1] == LACKS:
                self.lacked[trait[2]] = self.lacked.get(trait[2], 0) + 1
        if not traits:
            self.others[tally.number] = tally

    def remove(self, tally: Tally) -> None:
        for trait in self.filed.pop(tally.number):
            del self.by_trait[trait][tally.number]
            if trait[1] == LACKS:
                self.lacked[trait[2]] -= 1
                if not self.lacked[trait[2]]:
                    del self.lacked[trait[2]]
            if not self.by_trait[trait]:
                del self.by_trait[trait]
        self.others.pop(tally.number, None)

    def about(self, pod: PodInfo) -> Iterator[Tally]:
        yield from self.others.values()
        for trait in _traits(pod, self.lacked):
            yield from self.by_trait.get(trait, {}).values()

    def _crowd(self, traits: tuple[Trait, ...]) -> int:
        return sum(len(self.by_trait.get(trait, ())) for trait in traits)


class Relations:
    """All tallies in use, and the labels of namespaces."""

    def __init__(self, tallies: Tallies) -> None:
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self._tallies = tallies
        self._known: dict[_Asked, Tally] = {}
        self._index = _Index()
        self._by_number: dict[int, Tally] = {}
        self._claims: dict[ClaimKey, int] = {}
        self._claim_of: dict[int, ClaimKey] = {}
        self._users: Counter[_Asked | ClaimKey] = Counter()

    def __len__(self) -> int:
        return len(self._known) + len(self._claims)

    @property
    def by_namespace(self) -> bool:
        """Whether any selector looks at the labels of namespaces."""
        return any(s.of_namespaces for tally in self._known.values() for s in tally.selectors)

    def register(self, requirements: Requirements) -> list[Tally]:
        """Have all that the requirements speak of counted; what is new, with nothing counted."""
        new: list[Tally] = []
        for claim in requirements.claims:
            if claim not in self._claims:
                number = self._claims[claim] = self._tallies.new()
                self._claim_of[number] = claim
        for asked in _asked(requirements):
            if asked not in self._known:
                tally = Tally(self._tallies.new(), *asked)
                self._known[asked] = self._by_number[tally.number] = tally
                self._index.file(tally)
                new.append(tally)
        return new

    def retain(self, requirements: Requirements) -> None:
        """One shape more has these requirements."""
        self._users.update(_asked(requirements))
        self._users.update(requirements.claims)

    def release(self, requirements: Requirements) -> list[Tally]:
        """One shape less has them; the tallies that nobody asks for any more.

        Pods may still have those among their marks: they end with `forget`.
        """
        ended: list[Tally] = []
        for claim in requirements.claims:
            if self._unused(claim):
                number = self._claims.pop(claim)
                del self._claim_of[number]
                self._tallies.end(number)
        for asked in _asked(requirements):
            if self._unused(asked):
                tally = self._known.pop(asked)
                self._index.remove(tally)
                ended.append(tally)
        return ended

    def _unused(self, asked: _Asked | ClaimKey) -> bool:
        """Take one user off; True if that was the last."""
        self._users[asked] -= 1
        if self._users[asked]:
            return False
        del self._users[asked]
        return True

    def forget(self, tally: Tally) -> None:
        """No pod has the tally among its marks any more."""
        del self._by_number[tally.number]
        self._tallies.end(tally.number)

    def tally(self, selectors: Selectors, *, living: bool = False, carried: Carried = None) -> int:
        """The number of a registered tally."""
        return self._known[selectors, living, carried].number

    @property
    def claims(self) -> Iterable[ClaimKey]:
        """Claims that some pod uses or has used."""
        return self._claims

    def claim(self, key: ClaimKey) -> int:
        """The tally of the pods that use a claim."""
        return self._claims[key]

    def claim_of(self, tally: int) -> ClaimKey | None:
        """The claim whose users the tally counts; None if it counts other pods."""
        return self._claim_of.get(tally)

    def carried(self, tally: int) -> Carried:
        """The term whose carriers the tally counts; None if it counts other pods."""
        return self._by_number[tally].carried

    def marks(self, pod: PodInfo) -> Marks:
        """What is counted, and who is shunned, where this pod is put."""
        if not self._known and not self._claims:
            return UNMARKED
        wants = pod.requirements
        counted = {self.tally((t.selector,), carried=t) for t in wants.away}
        counted.update(self.tally((s.term.selector,), carried=s) for s in wants.likes)
        counted.update(self._claims[claim] for claim in wants.claims)
        shuns, heeds = set[int](), set[int]()
        for tally in self._index.about(pod):
            if tally.speaks_of(pod, self.namespaces):
                if tally.carried is None:
                    counted.add(tally.number)
                else:
                    (shuns if isinstance(tally.carried, PodTerm) else heeds).add(tally.number)
        if not counted and not shuns and not heeds:
            return UNMARKED
        return Marks(*(tuple(sorted(numbers)) for numbers in (counted, shuns, heeds)))


def traits_needed(selectors: Selectors) -> list[tuple[Trait, ...]]:
    """Of each of these a pod needs one to be selected; empty: any pod may be.

    Labels that it must have; only where there are none labels that it must lack, and only where
    there are none of those either its namespace alone: nearly all pods have such traits.
    """
    having = [trait for selector in selectors for trait in _having(selector)]
    lacking = [trait for selector in selectors for trait in _lacking(selector)]
    within = [_there(s, ((WITHIN, "", ""),)) for s in selectors if s.of_namespaces is None]
    return having or lacking or within


def _having(selector: PodSelector) -> Iterator[tuple[Trait, ...]]:
    for expression in selector.expressions or ():
        if expression.operator == "In" and expression.values:
            yield _there(selector, [(IS, expression.key, value) for value in expression.values])
        elif expression.operator == "Exists":
            yield _there(selector, [(HAS, expression.key, "")])


def _lacking(selector: PodSelector) -> Iterator[tuple[Trait, ...]]:
    for expression in selector.expressions or ():
        if expression.operator == "DoesNotExist":
            yield _there(selector, [(LACKS, expression.key, "")])


def _there(selector: PodSelector, rules: Iterable[tuple[str, str, str]]) -> tuple[Trait, ...]:
    """Each rule in each namespace that the selector can mean, once."""
    spaces = selector.namespaces if selector.of_namespaces is None else (ANYWHERE,)
    return tuple(dict.fromkeys((space, *rule) for space in spaces for rule in rules))


def _traits(pod: PodInfo, lacked: Iterable[str]) -> Iterator[Trait]:
    """All traits of a pod; of labels that it lacks, those that matter."""
    for space in (pod.namespace, ANYWHERE):
        yield space, WITHIN, "", ""
        for key, value in pod.labels.items():
            yield space, IS, key, value
            yield space, HAS, key, ""
        for key in lacked:
            if key not in pod.labels:
                yield space, LACKS, key, ""


def _asked(wants: Requirements) -> Iterator[_Asked]:
    if wants.near:
        # Only a pod that meets every term is company.
        yield tuple(term.selector for term in wants.near), False, None
    for term in wants.away:
        yield (term.selector,), False, None
        yield (term.selector,), False, term
    for soft in wants.likes:
        yield (soft.term.selector,), False, None
        yield (soft.term.selector,), False, soft
    for spread in (*wants.spread, *wants.evenly):
        yield (spread.selector,), True, None
