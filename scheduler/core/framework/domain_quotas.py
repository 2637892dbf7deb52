"""Quotas of domains: numbers of equal pods to place before their terms are evaluated again.

Plugins compute the quotas; the search places pods in waves that respect them. kube-scheduler has
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
    """Limit of further pods for each domain: `most` (D + 1,), the last for nodes in no domain."""

    domains: Domains
    most: Ints


@dataclass(frozen=True, slots=True)
class Preference:
    """Preference of pods for one common domain, or for an even spread over all domains.

    `present` (D,) is the number of pods in each domain; None means that they prefer one domain.
    """

    domains: Domains
    present: Ints | None

    def quota(self, rows: Ints, capacity: Ints, count: int) -> DomainQuota | None:
        """Return the quota that fulfils it for the next `count` pods, or None without effect."""
        if self.present is None:
            return gather(self.domains, rows, capacity, count)
        return level(self.domains, self.present, rows, capacity, count)

    def emptiest(self, rows: Ints) -> Bools | None:
        """Return the rows (len(rows),) that are in no domain or in one with the fewest pods.

        Return None for pods that prefer to be together.
        """
        if self.present is None:
            return None
        codes = self.domains.codes[rows]
        present = self.present[codes[codes >= 0]]
        least = int(present.min()) if len(present) else 0
        # Code -1, no domain, reads the last entry and counts as emptiest.
        found: Bools = np.append(self.present, least)[codes] == least
        return found


@dataclass(frozen=True, slots=True)
class SkewLimit:
    """Spread constraint: no domain may exceed the one with the fewest pods by more than `max_skew`.

    `present` (D,) is the number of pods in each domain; `counting` (D,) marks the domains that are
    eligible for the minimum. `few` means fewer of these than minDomains; the minimum is then 0.
    """

    domains: Domains
    present: Ints
    counting: Bools
    max_skew: int
    few: bool = False

    @property
    def quota(self) -> DomainQuota:
        """Quota of each domain if the others get no pods; 0 outside of domains."""
        most = self._least(self.present) + self.max_skew - self.present
        return DomainQuota(self.domains, np.append(most, 0))

    def level(self, rows: Ints, capacity: Ints, count: int) -> DomainQuota | None:
        """Return the quota that fills domains to one level.

        The level is at most `max_skew` above the smallest number of pods in a full domain.
        """
        most = self._least(self.present + self.domains.sums(capacity, rows)) + self.max_skew
        return level(self.domains, self.present, rows, capacity, count, most=most)

    def kept(self, rows: Ints, counts: Ints) -> bool:
        """Return True if domains that get pods keep the skew with `counts[i]` more on `rows[i]`."""
        more = self.domains.sums(counts, rows)
        after = self.present + more
        return bool((after[more > 0] <= self._least(after) + self.max_skew).all())

    def _least(self, present: Ints) -> int:
        if self.few:
            return 0
        # Without an eligible domain there is no minimum, and no skew to violate.
        return int(present[self.counting].min()) if self.counting.any() else PLENTY


@dataclass(frozen=True, slots=True)
class Quotas:
    """Quotas for the next pods of one shape: required ones, and preferred ones.

    `single` means that they must be computed again after each pod. `most` limits the pods on all
    nodes together, None means no limit.
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
        """Create the quotas, small domains first: large ones divide the room that those leave."""

        def size(quota: DomainQuota | SkewLimit | Preference) -> int:
            return -len(quota.domains.values)

        return cls(
            sorted(domain_quotas, key=size),
            sorted(skew_limits, key=size),
            sorted(preferences, key=size),
            single,
            most,
        )

    def share(self, rows: Ints, capacity: Ints, count: int) -> Ints:
        """Return the room (len(rows),) to use for `count` pods at once, best rows first.

        The quotas must be computed again after these pods. At least one pod is placed if there is
        room.
        """
        for quota in self.domain_quotas:
            capacity = within(quota, rows, capacity)
        # After the domain quotas: levels are only right for the room that these leave.
        level_capacity = self._level_all(rows, capacity, count) if self.skew_limits else None
        if level_capacity is not None:
            return level_capacity
        for skew_limit in self.skew_limits:
            capacity = within(skew_limit.quota, rows, capacity)
        for preference in self.preferences:
            preferred = preference.quota(rows, capacity, count)
            capacity = capacity if preferred is None else within(preferred, rows, capacity)
        return first(capacity, count)

    def open_to_one(self, rows: Ints) -> Bools | None:
        """Return the rows with room (len(rows),) among which `share` uses the first for one pod.

        Return None if that depends on the order of the rows.
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

    def _level_all(self, rows: Ints, capacity: Ints, count: int) -> Ints | None:
        """Fill all domains to one level, or return None if that breaks a skew or gains nothing."""
        # Levels are computed for each constraint alone and may conflict, so the result is checked.
        # Steps of max_skew are always safe, but take more waves.
        careful, bold = capacity, capacity
        for skew_limit in self.skew_limits:
            careful = within(skew_limit.quota, rows, careful)
            quota = skew_limit.level(rows, capacity, count)
            bold = bold if quota is None else within(quota, rows, bold)
        bold = first(bold, count)
        if int(bold.sum()) <= min(count, int(careful.sum())):
            return None
        return bold if all(skew_limit.kept(rows, bold) for skew_limit in self.skew_limits) else None


def first(capacity: Ints, count: int) -> Ints:
    """Return the pods on each node, (len(room),), if `count` pods fill the first nodes."""
    before = np.cumsum(capacity) - capacity
    counts: Ints = np.clip(count - before, 0, capacity)
    return counts


def level(
    domains: Domains, present: Ints, rows: Ints, capacity: Ints, count: int, *, most: int = PLENTY
) -> DomainQuota | None:
    """Return a quota that fills the emptiest domains first, or None if no domain has room.

    `capacity[i]` is that of `rows[i]`. Domains are filled to the highest common level that needs at
    most `count` pods and is at most `most`. If that level needs no pod, they are filled to one
    above.
    """
    sums = domains.sums(capacity, rows)
    if not sums.any():
        return None

    def taken(height: int) -> int:
        return int(np.clip(height - present, 0, sums).sum())

    low = int(present[sums > 0].min())
    high = max(low, min(most, int((present + sums)[sums > 0].max())))
    # The number of pods grows with the level, so the level is found by bisection.
    if taken(high) > count:
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if taken(middle) <= count else (low, middle)
    else:
        low = high
    # At least one pod must be placed, or the search would make no progress.
    height = low if taken(low) else low + 1
    return DomainQuota(domains, np.append(np.clip(height - present, 0, None), PLENTY))


def gather(domains: Domains, rows: Ints, capacity: Ints, count: int) -> DomainQuota | None:
    """Return a quota for one domain only: that of the first node, if it has room for `count` pods.

    Otherwise it is the domain with the least room that is enough, or else the one with the most
    room. Return None if the first node is in no domain.
    """
    first = int(domains.codes[rows[0]])
    if first < 0:
        return None
    sums = domains.sums(capacity, rows)
    chosen = first
    # Best fit, so that larger domains remain for pods that need them.
    if sums[first] < count:
        enough = np.flatnonzero(sums >= count)
        chosen = int(enough[np.argmin(sums[enough])] if len(enough) else np.argmax(sums))
    most = np.zeros(len(sums) + 1, np.int64)
    most[chosen] = PLENTY
    return DomainQuota(domains, most)


def within(quota: DomainQuota, rows: Ints, capacity: Ints) -> Ints:
    """Return the room (len(rows),) reduced to the quotas of domains; best rows keep theirs."""
    codes = quota.domains.codes[rows]
    # Stable, so that within each domain the best rows remain first.
    order = np.argsort(codes, kind="stable")
    grouped, sizes = codes[order], capacity[order]
    before = np.cumsum(sizes) - sizes
    starts = np.flatnonzero(np.append(True, grouped[1:] != grouped[:-1]))
    lengths = np.diff(np.append(starts, len(grouped)))
    before -= np.repeat(before[starts], lengths)
    allowed = np.empty_like(capacity)
    allowed[order] = np.clip(quota.most[grouped] - before, 0, sizes)
    return allowed


def ceilings(domains: Domains, capacity: Ints, parts: Ints, size: int) -> Ints:
    """Return the pods that fit into each part (size,) if a domain takes only one pod of a part.

    `capacity` (N,) is the capacity of each node, `parts` (N,) the part that it is in, -1 for none.
    Nodes in no domain use all their room.
    """
    at = np.flatnonzero((capacity > 0) & (parts >= 0))
    codes, parts, capacity = domains.codes[at], parts[at], capacity[at]
    alone = codes < 0
    # A pair (part, domain) as one number: distinct pairs are the domains of each part.
    pairs = np.unique(parts[~alone] * (len(domains.values) + 1) + codes[~alone])
    found = np.bincount(pairs // (len(domains.values) + 1), minlength=size)
    found += np.bincount(parts[alone], capacity[alone], minlength=size).astype(np.int64)
    return found
