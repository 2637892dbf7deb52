"""Which pods may use which ResourceClaims, and which claims have lost the last of them.

A claim keeps its devices until its status says otherwise, which is some moments after its last pod
is gone. From then on it is about to be given back: Kubernetes' own controller does that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from scheduler.core.values.changed_keys import Changes
from scheduler.core.values.model import ClaimKey

MOST_CONSUMERS: Final = 256
"""The most entries in status.reservedFor of a claim."""


class ClaimConsumers:
    """Pods are known by their UIDs: those in `status.reservedFor`, and assumed ones.

    `returning` are the claims that have consumers, all of which are gone or have ended. `changed`
    are the pods with a claim that has others, or others that live.
    """

    def __init__(self, lives: Callable[[str], bool]) -> None:
        """`lives` says whether the pod is there and has not ended."""
        self.returning: dict[ClaimKey, None] = {}
        self.changed: Changes[str] = Changes()
        self._lives = lives
        self._reserved: dict[ClaimKey, frozenset[str]] = {}
        self._elsewhere: set[ClaimKey] = set()
        self._assumed: dict[ClaimKey, set[str]] = {}
        self._joining: dict[ClaimKey, set[str]] = {}
        self._claims: dict[str, dict[ClaimKey, None]] = {}
        self._living: dict[ClaimKey, int] = {}

    def __len__(self) -> int:
        """How many pods use some claim."""
        return len(self._claims)

    def of(self, key: ClaimKey) -> frozenset[str]:
        """The pods that the claim is reserved for, or assumed to be."""
        return self._reserved.get(key, frozenset()).union(self._assumed.get(key, ()))

    def entries(self, key: ClaimKey) -> frozenset[str]:
        """The same with the assumed pods that the claim's status does not name yet."""
        joining = self._joining.get(key)
        return self.of(key).union(joining) if joining else self.of(key)

    def is_full(self, key: ClaimKey) -> bool:
        """Whether the status of the claim has, or will have, no room for another pod."""
        parts = (self._reserved, self._assumed, self._joining)
        if sum(len(part.get(key, ())) for part in parts) < MOST_CONSUMERS:
            return False  # without making a set, as this is asked for each pod
        return len(self.entries(key)) >= MOST_CONSUMERS

    def join(self, key: ClaimKey, uid: str) -> None:
        """An assumed pod takes an entry of the claim's status, which names it some time later."""
        self._joining.setdefault(key, set()).add(uid)

    def leave(self, key: ClaimKey, uids: Iterable[str]) -> None:
        """These pods are not assumed any more, or are named by now."""
        joining = self._joining.get(key)
        if joining is not None:
            joining.difference_update(uids)
            if not joining:
                del self._joining[key]

    def claims_of(self, uid: str) -> Iterable[ClaimKey]:
        """The claims that the pod uses."""
        return self._claims.get(uid, ())

    def living(self, key: ClaimKey) -> int:
        """How many consumers have to go before the claim is given back."""
        return self._living.get(key, 0)

    def reserve(self, key: ClaimKey, uids: frozenset[str], *, elsewhere: bool = False) -> None:
        """The claim's status names these pods; `elsewhere`: and somebody who is no pod."""
        self.leave(key, uids)
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
        """The pod is assumed to use the claim."""
        self._assumed.setdefault(key, set()).add(uid)
        self._claims.setdefault(uid, {})[key] = None
        self._count(key)

    def give_back(self, key: ClaimKey, uid: str) -> bool:
        """The pod is not assumed to use the claim any more; whether none is left that is."""
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
        """Only what the claim's status says counts from now on."""
        before = self.of(key)
        if self._assumed.pop(key, None) is not None:
            self._changed(key, before)

    def forget(self, key: ClaimKey) -> None:
        """The claim is gone."""
        self._joining.pop(key, None)
        before = self.of(key)
        self._assumed.pop(key, None)
        self._reserved.pop(key, None)
        self._elsewhere.discard(key)
        self._changed(key, before)

    def pod_changed(self, uid: str) -> None:
        """The pod came, ended or is gone."""
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
        living = sum(map(self._lives, consumers)) + (key in self._elsewhere)
        self._living.pop(key, None)
        self.returning.pop(key, None)
        if living:
            self._living[key] = living
        elif consumers:
            self.returning[key] = None
