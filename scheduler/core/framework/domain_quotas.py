"""Quotas per domain: how many equal pods may be placed before their terms are evaluated again.

Plug-ins compute the quotas; the search places pods in waves that keep to them. kube-scheduler has
no counterpart: it evaluates affinity and spread terms again for each pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.core.nodes.node_table import Bools, Ints
from scheduler.core.topology.topology import Domains

PLENTY: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class DomainQuota:
    """How many more pods each domain may take: `most` (D + 1,), the last for nodes in no domain."""

    domains: Domains
    most: Ints


@dataclass(frozen=True, slots=True)
class Preference:
    """Pods that prefer to be together in one domain, or to be spread evenly over all domains.

    `present` (D,) is how many pods each domain has; None means that they prefer to be together.
    """

    domains: Domains
    present: Ints | None

    def quota(self, rows: Ints, room: Ints, count: int) -> DomainQuota | None:
        """The quota that fulfils it for the next `count` pods; None if it makes no difference."""
        if self.present is None:
            return gather(self.domains, rows, room, count)
        return level(self.domains, self.present, rows, room, count)

    def emptiest(self, rows: Ints) -> Bools | None:
        """Which rows (len(rows),) are in no domain or in one with the fewest pods.

        None for pods that prefer to be together.
        """
        if self.present is None:
            return None
        codes = self.domains.codes[rows]
        present = self.present[codes[codes >= 0]]
        least = int(present.min()) if len(present) else 0
        found: Bools = np.append(self.present, least)[codes] == least
        return found


@dataclass(frozen=True, slots=True)
class SkewLimit:
    """A spread constraint: no domain may exceed the one with fewest pods by more than `max_skew`.

    `present` (D,) is how many pods each domain has; `counting` (D,) marks the domains that are
    eligible for the minimum. `few` means fewer of these than minDomains; the minimum is then 0.
    """

    domains: Domains
    present: Ints
    counting: Bools
    max_skew: int
    few: bool = False

    @property
    def quota(self) -> DomainQuota:
        """How many more pods each domain may take if the others get none; 0 outside of domains."""
        most = self._least(self.present) + self.max_skew - self.present
        return DomainQuota(self.domains, np.append(most, 0))

    def level(self, rows: Ints, room: Ints, count: int) -> DomainQuota | None:
        """The function `level`, up to `max_skew` above the least that a full domain can have."""
        most = self._least(self.present + self.domains.sums(room, rows)) + self.max_skew
        return level(self.domains, self.present, rows, room, count, most=most)

    def kept(self, rows: Ints, counts: Ints) -> bool:
        """Whether the domains that gain pods keep the skew if `rows[i]` get `counts[i]` more."""
        more = self.domains.sums(counts, rows)
        after = self.present + more
        return bool((after[more > 0] <= self._least(after) + self.max_skew).all())

    def _least(self, present: Ints) -> int:
        if self.few:
            return 0
        return int(present[self.counting].min()) if self.counting.any() else PLENTY


@dataclass(frozen=True, slots=True)
class Quotas:
    """All quotas for the next pods of one shape: those that must hold, and the preferred ones.

    `single` means that they must be computed again after each pod. All nodes together may take
    `most`; None: any number.
    """

    domain_quotas: Sequence[DomainQuota]
    skew_limits: Sequence[SkewLimit]
    preferences: Sequence[Preference]
    single: bool
    most: int | None = None

    @classmethod
    def of(
        cls,
        domain_quotas: list[DomainQuota],
        skew_limits: list[SkewLimit],
        preferences: list[Preference],
        *,
        single: bool,
        most: int | None = None,
    ) -> Quotas:
        """Sort by size of domain, small ones first: large ones divide the room that those leave."""

        def size(quota: DomainQuota | SkewLimit | Preference) -> int:
            return -len(quota.domains.values)

        return cls(
            sorted(domain_quotas, key=size),
            sorted(skew_limits, key=size),
            sorted(preferences, key=size),
            single,
            most,
        )

    def share(self, rows: Ints, room: Ints, count: int) -> Ints:
        """How much of the room (len(rows),) to use for `count` pods at once, first rows first.

        The quotas must be computed again after these pods. Uses some of the room if there is any.
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

    def open_to_one(self, rows: Ints) -> Bools | None:
        """Of rows with room, those of which `share` uses the first for one pod: (len(rows),).

        None where that depends on the order of the rows.
        """
        if self.preferences:
            preference, *others = self.preferences
            if others or self.domain_quotas or self.skew_limits:
                return None
            return preference.emptiest(rows)
        found = np.ones(len(rows), bool)
        for quota in (*self.domain_quotas, *(limit.quota for limit in self.skew_limits)):
            found &= quota.most[quota.domains.codes[rows]] > 0
        return found

    def _level_all(self, rows: Ints, room: Ints, count: int) -> Ints | None:
        """Fill all domains to one level; None if that breaks a skew or gains nothing over steps."""
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
    """Put `count` pods on the first nodes, or as many as there is room for; (len(room),)."""
    before = np.cumsum(room) - room
    counts: Ints = np.clip(count - before, 0, room)
    return counts


def level(
    domains: Domains, present: Ints, rows: Ints, room: Ints, count: int, *, most: int = PLENTY
) -> DomainQuota | None:
    """A quota that fills the emptiest domains first; None if no domain has room.

    `room[i]` is the room on `rows[i]`. Domains are filled to the highest common level that needs at
    most `count` pods and is at most `most`; if no pod is needed for that level, to one above it.
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
    """A quota for one domain only: that of the first node, if it has room for `count` pods.

    Otherwise the domain with the least room that is enough, or else the one with the most room.
    None if the first node is in no domain.
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
    """Reduce the room (len(rows),) so that no domain exceeds its quota; first rows come first."""
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


def ceilings(domains: Domains, room: Ints, parts: Ints, size: int) -> Ints:
    """How many pods fit into each of the parts (size,) if a domain takes only one of a part.

    `room` (N,) is that of each node, `parts` (N,) the part that it is in, -1 for none. Nodes in no
    domain use all their room.
    """
    at = np.flatnonzero((room > 0) & (parts >= 0))
    codes, parts, room = domains.codes[at], parts[at], room[at]
    alone = codes < 0
    pairs = np.unique(parts[~alone] * (len(domains.values) + 1) + codes[~alone])
    found = np.bincount(pairs // (len(domains.values) + 1), minlength=size)
    found += np.bincount(parts[alone], room[alone], minlength=size).astype(np.int64)
    return found
