"""How many equal pods may be placed at once before terms about each other are asked again.

Quotas per domain, as arithmetic. Plug-ins give them; the search places pods in waves by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.core.node_table import Bools, Ints
from scheduler.core.topology import Domains

PLENTY: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class DomainQuota:
    """How many more pods each domain may take; the last entry of `most` is for nodes in none."""

    domains: Domains
    most: Ints


@dataclass(frozen=True, slots=True)
class Preference:
    """Pods that prefer to be together in a domain, or to be spread evenly over all of them.

    `present` (D,) are the pods each has; None where they prefer to be together.
    """

    domains: Domains
    present: Ints | None

    def quota(self, rows: Ints, room: Ints, count: int) -> DomainQuota | None:
        """What grants it for the next `count` pods; None where it makes no difference."""
        if self.present is None:
            return gather(self.domains, rows, room, count)
        return level(self.domains, self.present, rows, room, count)


@dataclass(frozen=True, slots=True)
class SkewLimit:
    """Domains of which none may have more than `max_skew` pods more than the one with fewest.

    `present` (D,) are the pods each has, `counting` (D,) marks those whose number bounds the
    others. `few`: there are fewer of these than are asked for, which is as if one more were empty.
    """

    domains: Domains
    present: Ints
    counting: Bools
    max_skew: int
    few: bool = False

    @property
    def quota(self) -> DomainQuota:
        """How many more each domain may take if the others get none."""
        most = self._least(self.present) + self.max_skew - self.present
        return DomainQuota(self.domains, np.append(most, 0))

    def level(self, rows: Ints, room: Ints, count: int) -> DomainQuota | None:
        """As `level`, no higher than the domain that can take fewest lets the others come."""
        most = self._least(self.present + self.domains.sums(room, rows)) + self.max_skew
        return level(self.domains, self.present, rows, room, count, most=most)

    def kept(self, rows: Ints, counts: Ints) -> bool:
        """Whether all is within the skew once `counts[i]` pods more are on `rows[i]`."""
        more = self.domains.sums(counts, rows)
        after = self.present + more
        return bool((after[more > 0] <= self._least(after) + self.max_skew).all())

    def _least(self, present: Ints) -> int:
        if self.few:
            return 0
        return int(present[self.counting].min()) if self.counting.any() else PLENTY


@dataclass(frozen=True, slots=True)
class Quotas:
    """All that bounds the next pods of one shape: what must hold, and what is only preferred.

    `single`: all has to be asked again after each pod.
    """

    domain_quotas: Sequence[DomainQuota]
    skew_limits: Sequence[SkewLimit]
    preferences: Sequence[Preference]
    single: bool

    @classmethod
    def of(
        cls,
        domain_quotas: list[DomainQuota],
        skew_limits: list[SkewLimit],
        preferences: list[Preference],
        *,
        single: bool,
    ) -> Quotas:
        """Small domains before large ones: a large one shares its room over what those leave."""

        def size(quota: DomainQuota | SkewLimit | Preference) -> int:
            return -len(quota.domains.values)

        return cls(
            sorted(domain_quotas, key=size),
            sorted(skew_limits, key=size),
            sorted(preferences, key=size),
            single,
        )

    def share(self, rows: Ints, room: Ints, count: int) -> Ints:
        """Of the room (len(rows),) what may be used for `count` pods at once, first nodes first.

        After as many all has to be asked again. Uses some of the room if there is any.
        """
        for quota in self.domain_quotas:
            room = within(quota, rows, room)
        level_room = self._level_all(rows, room, count) if self.skew_limits else None
        if level_room is not None:
            return level_room
        for skew_limit in self.skew_limits:
            room = within(skew_limit.quota, rows, room)
        for preference in self.preferences:
            preferred = preference.quota(rows, room, count)
            room = room if preferred is None else within(preferred, rows, room)
        return first(room, count)

    def _level_all(self, rows: Ints, room: Ints, count: int) -> Ints | None:
        """Many at once, to one level everywhere; None where step by step does as well."""
        careful, bold = room, room
        for skew_limit in self.skew_limits:
            careful = within(skew_limit.quota, rows, careful)
            quota = skew_limit.level(rows, room, count)
            bold = bold if quota is None else within(quota, rows, bold)
        bold = first(bold, count)
        if int(bold.sum()) <= min(count, int(careful.sum())):
            return None
        return bold if all(skew_limit.kept(rows, bold) for skew_limit in self.skew_limits) else None


def first(room: Ints, count: int) -> Ints:
    """`count` pods on the first nodes, or as many as there is room for."""
    before = np.cumsum(room) - room
    counts: Ints = np.clip(count - before, 0, room)
    return counts


def level(
    domains: Domains, present: Ints, rows: Ints, room: Ints, count: int, *, most: int = PLENTY
) -> DomainQuota | None:
    """A quota that fills the emptiest domains first; None where no node is in any.

    `room[i]` is what `rows[i]` has; domains come to one level, `most` at the highest, with at most
    `count` pods, or to one more than that level where these are too few to raise it.
    """
    sums = domains.sums(room, rows)
    if not sums.any():
        return None

    def taken(height: int) -> int:
        return int(np.clip(height - present, 0, sums).sum())

    low = int(present[sums > 0].min())
    high = max(low, min(most, int((present + sums)[sums > 0].max())))
    if taken(high) > count:
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if taken(middle) <= count else (low, middle)
    else:
        low = high
    height = low if taken(low) else low + 1
    return DomainQuota(domains, np.append(np.clip(height - present, 0, None), PLENTY))


def gather(domains: Domains, rows: Ints, room: Ints, count: int) -> DomainQuota | None:
    """A quota that keeps to one domain: the first node's if that has room for `count` pods.

    Else the smallest that has, or the one with most. None where the first node is in none.
    """
    first = int(domains.codes[rows[0]])
    if first < 0:
        return None
    sums = domains.sums(room, rows)
    chosen = first
    if sums[first] < count:
        enough = np.flatnonzero(sums >= count)
        chosen = int(enough[np.argmin(sums[enough])] if len(enough) else np.argmax(sums))
    most = np.zeros(len(sums) + 1, np.int64)
    most[chosen] = PLENTY
    return DomainQuota(domains, most)


def within(quota: DomainQuota, rows: Ints, room: Ints) -> Ints:
    """Room (len(rows),) so that no domain gets more than its quota, first nodes first."""
    codes = quota.domains.codes[rows]
    order = np.argsort(codes, kind="stable")
    grouped, sizes = codes[order], room[order]
    before = np.cumsum(sizes) - sizes
    starts = np.flatnonzero(np.append(True, grouped[1:] != grouped[:-1]))
    lengths = np.diff(np.append(starts, len(grouped)))
    before -= np.repeat(before[starts], lengths)
    allowed = np.empty_like(room)
    allowed[order] = np.clip(quota.most[grouped] - before, 0, sizes)
    return allowed


def ceiling(domains: Domains, room: Ints) -> int:
    """Pods that fit if no domain takes a second one, nodes (N,) in none as many as they can."""
    open_domains = np.unique(domains.codes[room > 0])
    return int((open_domains >= 0).sum() + room[domains.codes < 0].sum())
