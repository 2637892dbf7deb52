"""Pods that terms about other pods select, and pods that use each volume.

Each set of selectors in use has a match count: the number of selected pods on each node. Each
anti-affinity term and each preferred term also has one, for the pods that declare it. A pod's
`PodMatches` name the counts that include it and the declared terms that select it; they are part of
its shape. A match count exists as long as a shape needs it. kube-scheduler computes such counts in
the PreFilter of InterPodAffinity and PodTopologySpread; here events update them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from scheduler.core.nodes.label_expressions import matches
from scheduler.core.nodes.match_counts import MatchCounts
from scheduler.core.values.model import (
    Attachment,
    ClaimKey,
    PodInfo,
    PodSelector,
    PodTerm,
    Requirements,
    VolumeUse,
    WeightedPodTerm,
)

Selectors = tuple[PodSelector, ...]
Declared = PodTerm | WeightedPodTerm | None
CountKey = tuple[Selectors, bool, Declared]

ANYWHERE: Final = ""
IS: Final = "is"
HAS: Final = "has"
WITHIN: Final = "within"

_MOST_TRAITS: Final = 1024
"""Limit of traits of a selector; beyond it, the selector is filed without its namespaces."""

Trait = tuple[str, str, str, str]
"""(namespace or ANYWHERE, kind, label, value); HAS has no value, WITHIN neither label nor value."""

ANY_POD: Final = (ANYWHERE, WITHIN, "", "")
"""Trait that all pods have."""

MOST_ALIKE: Final = 64
"""Limit of one namespace's match counts that are filed under one trait.

A pod with that trait is compared with all of them, so this bounds what each pod costs.
"""


@dataclass(frozen=True, slots=True)
class PodMatches:
    """Ids of the match counts about a pod; `counted` are those that count it.

    Those in `excluded_by` count the pods whose required anti-affinity selects it, those in
    `scored_by` the pods whose preferred affinity or anti-affinity does. All are sorted.
    """

    counted: tuple[int, ...] = ()
    excluded_by: tuple[int, ...] = ()
    scored_by: tuple[int, ...] = ()

    def and_of(self, match_count: MatchCount) -> PodMatches:
        """Return these matches with another match count, which must be the newest."""
        # Ids ascend, so appending the newest keeps them sorted.
        new = match_count.id
        return self._with(match_count, lambda ids: ids if new in ids else (*ids, new))

    def without(self, match_count: MatchCount) -> PodMatches:
        """Return these matches without one match count."""
        return self._with(match_count, lambda ids: tuple(n for n in ids if n != match_count.id))

    def _with(
        self, match_count: MatchCount, change: Callable[[tuple[int, ...]], tuple[int, ...]]
    ) -> PodMatches:
        if match_count.declared is None:
            return replace(self, counted=change(self.counted))
        if isinstance(match_count.declared, PodTerm):
            return replace(self, excluded_by=change(self.excluded_by))
        return replace(self, scored_by=change(self.scored_by))


NO_MATCHES: Final = PodMatches()


@dataclass(frozen=True, slots=True)
class MatchCount:
    """Definition of a count: the pods that all `selectors` select, or those that declare a term.

    `declared` is that term, with its selector in `selectors`; None if selected pods are counted.
    With `skip_terminating`, terminating pods are not selected.
    """

    id: int
    selectors: Selectors
    skip_terminating: bool = False
    declared: Declared = None

    @property
    def key(self) -> CountKey:
        return (self.selectors, self.skip_terminating, self.declared)

    def counts(self, pod: PodInfo, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        """Return True if the selectors select the pod, even if the count is of declaring pods."""
        if self.skip_terminating and pod.terminating:
            return False
        return all(selects(s, pod, namespaces) for s in self.selectors)


def selects(
    selector: PodSelector, pod: PodInfo, namespaces: Mapping[str, Mapping[str, str]]
) -> bool:
    """Return True if the selector selects the pod; `namespaces` has the namespaces' labels."""
    if selector.expressions is None:
        return False
    if not matches(selector.expressions, pod.labels):
        return False
    if pod.namespace in selector.namespaces:
        return True
    # A namespace may be unknown as long as its event has not arrived: then it has no labels.
    wanted, labels = selector.of_namespaces, namespaces.get(pod.namespace, {})
    return wanted is not None and matches(wanted, labels)


@dataclass(slots=True)
class _Index:
    """Index of the match counts that may select a pod, so that not all of them are evaluated.

    Each match count is filed under one set of traits; a pod needs one of these traits to be
    selected. Match counts without such a set are filed under ANY_POD. `alike` is the number filed
    under a trait, by the namespace of the pods that they were created for.
    """

    by_trait: dict[Trait, dict[int, MatchCount]] = field(default_factory=dict)
    filed: dict[int, tuple[str, tuple[Trait, ...]]] = field(default_factory=dict)
    alike: Counter[tuple[str, Trait]] = field(default_factory=Counter)

    def crowded(self, selectors: Selectors, namespace: str) -> bool:
        """Return True if the namespace has too many match counts under the traits of this one."""
        return any(self.alike[namespace, t] >= MOST_ALIKE for t in self._place(selectors))

    def file(self, match_count: MatchCount, namespace: str) -> None:
        traits = self._place(match_count.selectors)
        self.filed[match_count.id] = (namespace, traits)
        for trait in traits:
            self.by_trait.setdefault(trait, {})[match_count.id] = match_count
            self.alike[namespace, trait] += 1

    def remove(self, match_count: MatchCount) -> None:
        namespace, traits = self.filed.pop(match_count.id)
        for trait in traits:
            del self.by_trait[trait][match_count.id]
            if not self.by_trait[trait]:
                del self.by_trait[trait]
            self.alike[namespace, trait] -= 1
            if not self.alike[namespace, trait]:
                del self.alike[namespace, trait]

    def about(self, pod: PodInfo) -> Iterator[MatchCount]:
        for trait in _traits(pod):
            yield from self.by_trait.get(trait, {}).values()

    def _place(self, selectors: Selectors) -> tuple[Trait, ...]:
        # The set with the fewest entries: filed under a label that all pods have, a match count
        # would be compared with every pod.
        return min(traits_needed(selectors), key=self._crowd, default=(ANY_POD,))

    def _crowd(self, traits: tuple[Trait, ...]) -> int:
        return sum(len(self.by_trait.get(trait, ())) for trait in traits)


class PodSelectors:
    """All match counts in use, and the labels of the namespaces."""

    def __init__(self, match_counts: MatchCounts) -> None:
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self._match_counts = match_counts
        self._known: dict[CountKey, MatchCount] = {}
        self._index = _Index()
        self._by_namespace = 0
        self._by_id: dict[int, MatchCount] = {}
        self._volumes: dict[VolumeUse, int] = {}
        self._volume_of: dict[int, VolumeUse] = {}
        self._users: Counter[CountKey | VolumeUse] = Counter()

    def __len__(self) -> int:
        return len(self._known) + len(self._volumes)

    @property
    def by_namespace(self) -> bool:
        """True if any selector depends on the labels of namespaces."""
        return self._by_namespace > 0

    def crowded(self, requirements: Requirements, namespace: str) -> bool:
        """Return True if the requirements need a new match count beyond the namespace's limit."""
        # Counts that exist cost nothing more, so a namespace at its limit may still use them.
        new = (key for key in _counts_needed(requirements) if key not in self._known)
        return any(self._index.crowded(selectors, namespace) for selectors, _, _ in new)

    def register(self, requirements: Requirements, namespace: str = "") -> list[MatchCount]:
        """Create the match counts that the requirements need. Return new ones, except volumes'.

        `namespace` is that of a pod with the requirements.
        """
        new: list[MatchCount] = []
        for volume in requirements.volumes:
            if volume not in self._volumes:
                # NodeVolumeLimits follows the users of volumes instead of counting them all.
                match_id = self._volumes[volume] = self._match_counts.new(watched=True)
                self._volume_of[match_id] = volume
        for key in _counts_needed(requirements):
            if key not in self._known:
                match_count = MatchCount(self._match_counts.new(), *key)
                self._known[key] = self._by_id[match_count.id] = match_count
                # Under the namespace of the pod that needs it, whose limit it counts against.
                self._index.file(match_count, namespace)
                self._by_namespace += _selects_by_namespace(match_count)
                new.append(match_count)
        return new

    def retain(self, requirements: Requirements) -> None:
        """Record that one more shape has these requirements."""
        self._users.update(_counts_needed(requirements))
        self._users.update(requirements.volumes)

    def needed_by_none_but(self, shapes: Iterable[Requirements]) -> list[MatchCount]:
        """Return the match counts that only these shapes need, with such requirements each."""
        own = Counter(key for requirements in shapes for key in _counts_needed(requirements))
        return [self._known[key] for key, users in own.items() if self._users[key] == users]

    def release(self, requirements: Requirements) -> list[MatchCount]:
        """Record that one shape fewer has them. Return the match counts that no shape needs now.

        Pods may still have these in their matches; `forget` ends them. Volumes' counts end
        immediately.
        """
        ended: list[MatchCount] = []
        for volume in requirements.volumes:
            if self._unused(volume):
                match_id = self._volumes.pop(volume)
                del self._volume_of[match_id]
                self._match_counts.end(match_id)
        for key in _counts_needed(requirements):
            if self._unused(key):
                match_count = self._known.pop(key)
                # New pods no longer find it, while the matches of others are changed one by one.
                self._index.remove(match_count)
                self._by_namespace -= _selects_by_namespace(match_count)
                ended.append(match_count)
        return ended

    def _unused(self, key: CountKey | VolumeUse) -> bool:
        """Remove one user, and return True if it was the last one."""
        self._users[key] -= 1
        if self._users[key]:
            return False
        del self._users[key]
        return True

    def forget(self, match_count: MatchCount) -> None:
        """End a match count that no pod has in its matches."""
        del self._by_id[match_count.id]
        self._match_counts.end(match_count.id)

    def match_id(
        self, selectors: Selectors, *, skip_terminating: bool = False, declared: Declared = None
    ) -> int:
        """Return the id of a registered match count."""
        return self._known[selectors, skip_terminating, declared].id

    @property
    def volumes(self) -> Iterable[VolumeUse]:
        """Claims and attachments that have a match count, because a known shape uses them."""
        return self._volumes

    def users(self, volume: VolumeUse) -> int:
        """Return the match id that counts the pods using the claim or attachment."""
        return self._volumes[volume]

    def use_of(self, match_id: int) -> VolumeUse | None:
        """Return the volume whose users the match id counts, or None if it counts other pods."""
        return self._volume_of.get(match_id)

    def claim_of(self, match_id: int) -> ClaimKey | None:
        """Return the claim whose users the match id counts, or None if it counts other pods."""
        volume = self._volume_of.get(match_id)
        return None if isinstance(volume, Attachment) else volume

    def any_pods(self, match_ids: Iterable[int]) -> bool:
        """Return True if one of these counts other pods than the users of a volume."""
        return any(match_id not in self._volume_of for match_id in match_ids)

    def declared(self, match_id: int) -> Declared:
        """Return the term whose declaring pods are counted, or None if selected pods are.

        The match id must not be a volume's.
        """
        return self._by_id[match_id].declared

    def matches(self, pod: PodInfo, wants: Requirements | None = None) -> PodMatches:
        """Return the match counts that include the pod, and the declared terms that select it.

        `wants` are the pod's requirements to consider, all if None.
        """
        # Without terms about other pods and without volumes, all pods share one object.
        if not self._known and not self._volumes:
            return NO_MATCHES
        wants = wants or pod.requirements
        counted = {self.match_id((t.selector,), declared=t) for t in wants.required_anti_affinity}
        counted.update(
            self.match_id((s.term.selector,), declared=s) for s in wants.preferred_affinity
        )
        # Declared terms and volumes are known by key: the index is about other pods' selectors.
        counted.update(self._volumes[volume] for volume in wants.volumes)
        excluded_by, scored_by = set[int](), set[int]()
        for match_count in self._index.about(pod):
            if match_count.counts(pod, self.namespaces):
                if match_count.declared is None:
                    counted.add(match_count.id)
                else:
                    (excluded_by if isinstance(match_count.declared, PodTerm) else scored_by).add(
                        match_count.id
                    )
        if not counted and not excluded_by and not scored_by:
            return NO_MATCHES
        return PodMatches(*(tuple(sorted(ids)) for ids in (counted, excluded_by, scored_by)))


def traits_needed(selectors: Selectors) -> list[tuple[Trait, ...]]:
    """Return sets of traits such that a selected pod has at least one trait of each set.

    The traits are about labels that a pod must have, or else about its namespace. Without any set,
    every pod may be selected.
    """
    # Labels first: all pods of a namespace would share its trait.
    having = [trait for selector in selectors for trait in _having(selector)]
    within = [_there(s, ((WITHIN, "", ""),)) for s in selectors if s.of_namespaces is None]
    return having or within


def _having(selector: PodSelector) -> Iterator[tuple[Trait, ...]]:
    for expression in selector.expressions or ():
        # NotIn and DoesNotExist also select pods without the label, so no trait leads to these.
        if expression.operator == "In" and expression.values:
            yield _there(selector, [(IS, expression.key, value) for value in expression.values])
        elif expression.operator == "Exists":
            yield _there(selector, [(HAS, expression.key, "")])


def _there(selector: PodSelector, rules: Iterable[tuple[str, str, str]]) -> tuple[Trait, ...]:
    """Return the rules as traits in each namespace of the selector, without duplicates."""
    spaces = selector.namespaces if selector.of_namespaces is None else (ANYWHERE,)
    rules = list(rules)
    # Namespaces times values could be hundreds of thousands of entries for one selector.
    if len(spaces) * len(rules) > _MOST_TRAITS:
        spaces = (ANYWHERE,)
    return tuple(dict.fromkeys((space, *rule) for space in spaces for rule in rules))


def _traits(pod: PodInfo) -> Iterator[Trait]:
    """Yield all traits of a pod."""
    for space in (pod.namespace, ANYWHERE):
        yield space, WITHIN, "", ""
        for key, value in pod.labels.items():
            yield space, IS, key, value
            yield space, HAS, key, ""


def _selects_by_namespace(match_count: MatchCount) -> bool:
    # An empty selector selects all namespaces, whatever their labels are.
    return any(selector.of_namespaces for selector in match_count.selectors)


def _counts_needed(wants: Requirements) -> Iterator[CountKey]:
    if wants.required_affinity:
        # As upstream, only a pod that matches every term counts as a peer.
        yield tuple(term.selector for term in wants.required_affinity), False, None
    for term in wants.required_anti_affinity:
        yield (term.selector,), False, None
        yield (term.selector,), False, term
    for soft in wants.preferred_affinity:
        yield (soft.term.selector,), False, None
        yield (soft.term.selector,), False, soft
    for spread in (*wants.spread, *wants.preferred_spread):
        yield (spread.selector,), True, None
