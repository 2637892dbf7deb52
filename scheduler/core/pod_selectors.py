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

from scheduler.core.match_counts import MatchCounts
from scheduler.core.model import (
    ClaimKey,
    PodInfo,
    PodSelector,
    PodTerm,
    Requirements,
    WeightedPodTerm,
)
from scheduler.core.plugins import node_affinity as filters

Selectors = tuple[PodSelector, ...]
Carried = PodTerm | WeightedPodTerm | None
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
    excluded_by: tuple[int, ...] = ()
    scored_by: tuple[int, ...] = ()

    def and_of(self, match_id: MatchCount) -> Marks:
        """With one tally more that speaks of such pods, newer than all of these."""
        return self._with(match_id, lambda numbers: (*numbers, match_id.number))

    def without(self, match_id: MatchCount) -> Marks:
        """With one tally less."""
        return self._with(
            match_id, lambda numbers: tuple(n for n in numbers if n != match_id.number)
        )

    def _with(
        self, match_id: MatchCount, change: Callable[[tuple[int, ...]], tuple[int, ...]]
    ) -> Marks:
        if match_id.carried is None:
            return replace(self, counted=change(self.counted))
        if isinstance(match_id.carried, PodTerm):
            return replace(self, excluded_by=change(self.excluded_by))
        return replace(self, scored_by=change(self.scored_by))


UNMARKED: Final = Marks()


@dataclass(frozen=True, slots=True)
class MatchCount:
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

    by_trait: dict[Trait, dict[int, MatchCount]] = field(default_factory=dict)
    others: dict[int, MatchCount] = field(default_factory=dict)
    filed: dict[int, tuple[Trait, ...]] = field(default_factory=dict)
    lacked: dict[str, int] = field(default_factory=dict)

    def file(self, match_id: MatchCount) -> None:
        traits = min(traits_needed(match_id.selectors), key=self._crowd, default=())
        self.filed[match_id.number] = traits
        for trait in traits:
            self.by_trait.setdefault(trait, {})[match_id.number] = match_id
            if trait[1] == LACKS:
                self.lacked[trait[2]] = self.lacked.get(trait[2], 0) + 1
        if not traits:
            self.others[match_id.number] = match_id

    def remove(self, match_id: MatchCount) -> None:
        for trait in self.filed.pop(match_id.number):
            del self.by_trait[trait][match_id.number]
            if trait[1] == LACKS:
                self.lacked[trait[2]] -= 1
                if not self.lacked[trait[2]]:
                    del self.lacked[trait[2]]
            if not self.by_trait[trait]:
                del self.by_trait[trait]
        self.others.pop(match_id.number, None)

    def about(self, pod: PodInfo) -> Iterator[MatchCount]:
        yield from self.others.values()
        for trait in _traits(pod, self.lacked):
            yield from self.by_trait.get(trait, {}).values()

    def _crowd(self, traits: tuple[Trait, ...]) -> int:
        return sum(len(self.by_trait.get(trait, ())) for trait in traits)


class PodSelectors:
    """All tallies in use, and the labels of namespaces."""

    def __init__(self, match_ids: MatchCounts) -> None:
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self._tallies = match_ids
        self._known: dict[_Asked, MatchCount] = {}
        self._index = _Index()
        self._by_number: dict[int, MatchCount] = {}
        self._claims: dict[ClaimKey, int] = {}
        self._claim_of: dict[int, ClaimKey] = {}
        self._users: Counter[_Asked | ClaimKey] = Counter()

    def __len__(self) -> int:
        return len(self._known) + len(self._claims)

    @property
    def by_namespace(self) -> bool:
        """Whether any selector looks at the labels of namespaces."""
        return any(s.of_namespaces for match_id in self._known.values() for s in match_id.selectors)

    def register(self, requirements: Requirements) -> list[MatchCount]:
        """Have all that the requirements speak of counted; what is new, with nothing counted."""
        new: list[MatchCount] = []
        for claim in requirements.claims:
            if claim not in self._claims:
                number = self._claims[claim] = self._tallies.new()
                self._claim_of[number] = claim
        for asked in _asked(requirements):
            if asked not in self._known:
                match_id = MatchCount(self._tallies.new(), *asked)
                self._known[asked] = self._by_number[match_id.number] = match_id
                self._index.file(match_id)
                new.append(match_id)
        return new

    def retain(self, requirements: Requirements) -> None:
        """One shape more has these requirements."""
        self._users.update(_asked(requirements))
        self._users.update(requirements.claims)

    def release(self, requirements: Requirements) -> list[MatchCount]:
        """One shape less has them; the tallies that nobody asks for any more.

        Pods may still have those among their marks: they end with `forget`.
        """
        ended: list[MatchCount] = []
        for claim in requirements.claims:
            if self._unused(claim):
                number = self._claims.pop(claim)
                del self._claim_of[number]
                self._tallies.end(number)
        for asked in _asked(requirements):
            if self._unused(asked):
                match_id = self._known.pop(asked)
                self._index.remove(match_id)
                ended.append(match_id)
        return ended

    def _unused(self, asked: _Asked | ClaimKey) -> bool:
        """Take one user off; True if that was the last."""
        self._users[asked] -= 1
        if self._users[asked]:
            return False
        del self._users[asked]
        return True

    def forget(self, match_id: MatchCount) -> None:
        """No pod has the tally among its marks any more."""
        del self._by_number[match_id.number]
        self._tallies.end(match_id.number)

    def match_id(
        self, selectors: Selectors, *, living: bool = False, carried: Carried = None
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

    def claim_of(self, match_id: int) -> ClaimKey | None:
        """The claim whose users the tally counts; None if it counts other pods."""
        return self._claim_of.get(match_id)

    def carried(self, match_id: int) -> Carried:
        """The term whose carriers the tally counts; None if it counts other pods."""
        return self._by_number[match_id].carried

    def marks(self, pod: PodInfo) -> Marks:
        """What is counted, and who is shunned, where this pod is put."""
        if not self._known and not self._claims:
            return UNMARKED
        wants = pod.requirements
        counted = {self.match_id((t.selector,), carried=t) for t in wants.required_anti_affinity}
        counted.update(
            self.match_id((s.term.selector,), carried=s) for s in wants.preferred_affinity
        )
        counted.update(self._claims[claim] for claim in wants.claims)
        excluded_by, scored_by = set[int](), set[int]()
        for match_id in self._index.about(pod):
            if match_id.speaks_of(pod, self.namespaces):
                if match_id.carried is None:
                    counted.add(match_id.number)
                else:
                    (excluded_by if isinstance(match_id.carried, PodTerm) else scored_by).add(
                        match_id.number
                    )
        if not counted and not excluded_by and not scored_by:
            return UNMARKED
        return Marks(*(tuple(sorted(numbers)) for numbers in (counted, excluded_by, scored_by)))


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
    if wants.required_affinity:
        # Only a pod that meets every term is company.
        yield tuple(term.selector for term in wants.required_affinity), False, None
    for term in wants.required_anti_affinity:
        yield (term.selector,), False, None
        yield (term.selector,), False, term
    for soft in wants.preferred_affinity:
        yield (soft.term.selector,), False, None
        yield (soft.term.selector,), False, soft
    for spread in (*wants.spread, *wants.preferred_spread):
        yield (spread.selector,), True, None
