"""Refused roots that are equal: one of them is decided, and its refusal holds for all.

Roots of one signature fit at the same moments, as long as none of them has nominated places. So
when capacity appears, only the first of them is made ready. Once it is placed, two more are, and so
on. As long as nothing happened that could help, a further one is refused without a search.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from scheduler.core.explain.explain import Blocker
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.batching import Signature
from scheduler.core.search.place import Refusal
from scheduler.core.values.model import GroupKey, PreemptionInfo

Rank = tuple[int, bool, str, str, str, str]

_FRESH: Final = 1.0
"""Seconds within which a refusal is not computed again merely because time has passed."""


@dataclass(frozen=True, slots=True)
class SharedRefusal:
    """A refusal that equal roots share, its blocker, and when and on which basis it was decided."""

    refusal: Refusal
    blocker: Blocker
    decided: tuple[float, object] = (0.0, None)

    def to_pod(self, pod: Pod) -> SharedRefusal:
        """Return the same for a pod, whose shape may differ where it does not matter."""
        refusal = self.refusal.of(pod.shape)
        return replace(self, refusal=refusal).to(pod.key)

    def to(self, key: GroupKey) -> SharedRefusal:
        """Return the same for another root, which was not searched for itself."""
        root, short, blocker = self.refusal.root, self.refusal.shortage, self.blocker
        if short.at == root:
            short = replace(short, at=key)
        if blocker.at == root:
            blocker = replace(blocker, at=key)
        # This root had no search of its own that could have run out of time.
        refusal = replace(self.refusal, root=key, shortage=short, timed_out=False)
        return replace(self, refusal=refusal, blocker=blocker)


@dataclass(frozen=True, slots=True)
class EqualKind:
    """The properties of equal roots: also whether they preempt, and after how many seconds.

    `defragments` is until when other roots may be moved for them.
    """

    signature: Signature
    preempts: bool
    delay: float
    defragments: float = 0.0

    @classmethod
    def of(cls, entity: Group | Pod, signature: Signature) -> EqualKind:
        source = entity.info.preemption if isinstance(entity, Pod) else entity.spec
        # Only groups with an object have a signature.
        if source is None:
            raise LookupError(entity.key)
        until = 0.0 if isinstance(source, PreemptionInfo) else source.defragment_until
        return cls(signature, source.preempts, source.delay, until)


@dataclass(slots=True)
class _Equals:
    """Refused roots of one kind and their refusal, `current` until something may have helped."""

    shared: SharedRefusal
    decided: float
    current: bool = True
    ranks: dict[GroupKey, Rank] = field(default_factory=dict)
    heap: list[tuple[Rank, GroupKey]] = field(default_factory=list)

    def add(self, key: GroupKey, rank: Rank) -> None:
        self.ranks[key] = rank
        heapq.heappush(self.heap, (rank, key))
        # Removed roots stay in the heap until they reach its top: it must not grow for ever.
        if len(self.heap) > 2 * len(self.ranks) + 64:
            self.heap = [(rank, key) for key, rank in self.ranks.items()]
            heapq.heapify(self.heap)

    def first(self) -> GroupKey | None:
        """Return the first root, which stays here."""
        while self.heap:
            rank, key = self.heap[0]
            if self.ranks.get(key) == rank:
                return key
            heapq.heappop(self.heap)
        return None


class EqualRefusals:
    """All refused roots that share a refusal with others."""

    def __init__(self) -> None:
        self._equals: dict[EqualKind, _Equals] = {}
        self._kinds: dict[GroupKey, EqualKind] = {}
        self._by_shape: dict[Shape, dict[EqualKind, _Equals]] = {}

    def __len__(self) -> int:
        return len(self._kinds)

    def __contains__(self, key: GroupKey) -> bool:
        return key in self._kinds

    def shapes(self) -> Iterator[Shape]:
        """Return the shapes of these roots."""
        return iter(self._by_shape)

    def known(self, kind: EqualKind) -> SharedRefusal | None:
        """Return the refusal of roots of this kind; None if it has to be computed."""
        equals = self._equals.get(kind)
        return equals.shared if equals is not None and equals.current else None

    def add(
        self,
        key: GroupKey,
        rank: Rank,
        kind: EqualKind,
        shared: SharedRefusal,
        decided: float | None,
    ) -> None:
        """Add a refused root; `decided` is when the refusal was computed, None if it was known.

        In both cases it is current for all of the kind.
        """
        self.discard(key)
        equals = self._equals.get(kind)
        if equals is None:
            equals = self._equals[kind] = _Equals(shared, decided or 0.0)
            self._by_shape.setdefault(kind.signature.shape, {})[kind] = equals
        equals.current = True
        if decided is not None:
            equals.shared, equals.decided = shared, decided
        equals.add(key, rank)
        self._kinds[key] = kind

    def discard(self, key: GroupKey) -> None:
        """Remove a root that is no longer refused, or has no equals."""
        kind = self._kinds.pop(key, None)
        if kind is None:
            return
        equals = self._equals[kind]
        del equals.ranks[key]
        if equals.ranks:
            return
        del self._equals[kind]
        by_kind = self._by_shape[kind.signature.shape]
        del by_kind[kind]
        if not by_kind:
            del self._by_shape[kind.signature.shape]

    def firsts(self, shape: Shape) -> list[tuple[GroupKey, EqualKind]]:
        """Return the first root of each kind with this shape."""
        found = []
        for kind, equals in self._by_shape.get(shape, {}).items():
            key = equals.first()
            if key is not None:
                found.append((key, kind))
        return found

    def first(self, kind: EqualKind) -> GroupKey | None:
        """Return the first root of this kind."""
        equals = self._equals.get(kind)
        return equals.first() if equals is not None else None

    def expire(self, kind: EqualKind) -> SharedRefusal | None:
        """Expire and return the refusal of the kind, if any: something may have helped."""
        equals = self._equals.get(kind)
        if equals is None:
            return None
        equals.current = False
        return equals.shared

    def expire_old(self, key: GroupKey, now: float) -> None:
        """Have the refusal of a root that is due computed again, unless it is a moment old."""
        kind = self._kinds.get(key)
        if kind is not None and self._equals[kind].decided <= now - _FRESH:
            self._equals[kind].current = False

    def expire_all(self) -> None:
        """Have all refusals computed again."""
        for equals in self._equals.values():
            equals.current = False
