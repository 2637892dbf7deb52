"""Consumers of ResourceClaims: the pods that may use them, and the claims without a living one.

A claim keeps its devices until its status has no allocation. Kubernetes' resourceclaim controller
removes it some moments after the last pod ended. In between, the claim is about to be released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from scheduler.core.values.changed_keys import ChangedKeys
from scheduler.core.values.model import ClaimKey

MOST_CONSUMERS: Final = 256
"""Kubernetes' limit of entries in status.reservedFor of a claim."""


class ClaimConsumers:
    """Consumers of each claim by pod UID: those in `status.reservedFor`, and assumed ones.

    `returning` are the claims whose consumers are all deleted or ended. `changed` are the pods with
    a claim whose consumers changed, or whose number of living consumers did.
    """

    def __init__(self, lives: Callable[[str], bool]) -> None:
        """Create a table without claims; `lives` is True if a pod exists and has not ended."""
        self.returning: dict[ClaimKey, None] = {}
        self.changed: ChangedKeys[str] = ChangedKeys()
        self._lives = lives
        self._reserved: dict[ClaimKey, frozenset[str]] = {}
        self._elsewhere: set[ClaimKey] = set()
        self._assumed: dict[ClaimKey, set[str]] = {}
        self._joining: dict[ClaimKey, set[str]] = {}
        self._claims: dict[str, dict[ClaimKey, None]] = {}
        self._living: dict[ClaimKey, int] = {}

    def __len__(self) -> int:
        """Return the number of pods that use a claim."""
        return len(self._claims)

    def of(self, key: ClaimKey) -> frozenset[str]:
        """Return the pods that the claim is reserved for, or assumed to be reserved for."""
        return self._reserved.get(key, frozenset()).union(self._assumed.get(key, ()))

    def entries(self, key: ClaimKey) -> frozenset[str]:
        """Return the consumers and the assumed pods that the claim's status does not name yet."""
        joining = self._joining.get(key)
        return self.of(key).union(joining) if joining else self.of(key)

    def is_full(self, key: ClaimKey) -> bool:
        """Return True if the claim's status has, or will have, no free entry for another pod."""
        # The sum is at least the number of distinct pods, so a small sum decides without a set.
        parts = (self._reserved, self._assumed, self._joining)
        if sum(len(part.get(key, ())) for part in parts) < MOST_CONSUMERS:
            return False  # without creating a set: called for each pod
        return len(self.entries(key)) >= MOST_CONSUMERS

    def join(self, key: ClaimKey, uid: str) -> None:
        """Count an entry of the claim's status for an assumed pod, which it will name later."""
        self._joining.setdefault(key, set()).add(uid)

    def leave(self, key: ClaimKey, uids: Iterable[str]) -> None:
        """Stop counting entries for pods that are no longer assumed or that the status names."""
        joining = self._joining.get(key)
        if joining is not None:
            joining.difference_update(uids)
            if not joining:
                del self._joining[key]

    def claims_of(self, uid: str) -> Iterable[ClaimKey]:
        """Return the claims that the pod uses."""
        return self._claims.get(uid, ())

    def living(self, key: ClaimKey) -> int:
        """Return the number of consumers that must end before the claim is released."""
        return self._living.get(key, 0)

    def reserve(self, key: ClaimKey, uids: frozenset[str], *, elsewhere: bool = False) -> None:
        """Record the pods in the claim's status, and with `elsewhere` a consumer that is no pod."""
        self.leave(key, uids)
        # Most updates of a claim leave its consumers as they are.
        known = (self._reserved.get(key, frozenset()), key in self._elsewhere)
        if known == (uids, elsewhere):
            return
        before = self.of(key)
        self._reserved.pop(key, None)
        self._elsewhere.discard(key)
        if uids:
            self._reserved[key] = uids
        if elsewhere:
            self._elsewhere.add(key)
        self._changed(key, before)

    def assume(self, key: ClaimKey, uid: str) -> None:
        """Record that the pod is assumed to use the claim."""
        self._assumed.setdefault(key, set()).add(uid)
        self._claims.setdefault(uid, {})[key] = None
        self._count(key)

    def give_back(self, key: ClaimKey, uid: str) -> bool:
        """Remove an assumed consumer, and return True if no assumed one is left."""
        assumed = self._assumed.get(key)
        if assumed is None:
            return True
        before = self.of(key)
        assumed.discard(uid)
        if not assumed:
            del self._assumed[key]
        self._changed(key, before)
        return not assumed

    def confirm(self, key: ClaimKey) -> None:
        """Drop the assumed consumers, since the claim's status has its allocation now."""
        before = self.of(key)
        if self._assumed.pop(key, None) is not None:
            self._changed(key, before)

    def forget(self, key: ClaimKey) -> None:
        """Remove a deleted claim."""
        self._joining.pop(key, None)
        before = self.of(key)
        self._assumed.pop(key, None)
        self._reserved.pop(key, None)
        self._elsewhere.discard(key)
        self._changed(key, before)

    def pod_changed(self, uid: str) -> None:
        """Count living consumers again after the pod was added, ended or was deleted."""
        for key in self._claims.get(uid, ()):
            self._count(key)

    def _changed(self, key: ClaimKey, before: frozenset[str]) -> None:
        now = self.of(key)
        self.changed.update(before - now)
        for uid in before - now:
            claims = self._claims[uid]
            del claims[key]
            if not claims:
                del self._claims[uid]
        for uid in now - before:
            self._claims.setdefault(uid, {})[key] = None
        self._count(key)

    def _count(self, key: ClaimKey) -> None:
        consumers = self.of(key)
        self.changed.update(consumers)
        # A consumer that is no pod, such as a native PodGroup, never ends by a pod's end.
        living = sum(map(self._lives, consumers)) + (key in self._elsewhere)
        self._living.pop(key, None)
        self.returning.pop(key, None)
        if living:
            self._living[key] = living
        elif consumers:
            self.returning[key] = None
