"""Rights of users in the cluster, as the API server grants them; cached for a minute."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

import structlog

from api.constants import POD_GROUP
from console.access.reviews import Reviews, Right, User
from kube.base.errors import KubeError

FRESH: Final = 60.0
"""Seconds after which rights are reviewed again, with the next request of the user."""

MOST_NAMESPACES: Final = 500
"""Namespaces that are reviewed for one user. Further ones, by name, are not shown."""

MOST_USERS: Final = 1000
"""Users whose rights are cached. The least recently reviewed are dropped first."""

MOST_REVIEWS: Final = 4096
"""Single rights that are cached. The least recently reviewed are dropped first."""

AGAIN: Final = 5.0
"""Seconds until a failed review of rights is repeated."""

_WHAT: Final = (("pods", ""), ("podgroups", POD_GROUP.group))
"""Resources and their API groups that a viewer must be allowed to list."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Rights:
    """Rights of one user; `namespaces` None means all. `known` is false if the review failed."""

    namespaces: frozenset[str] | None = frozenset()
    nodes: bool = False
    known: bool = True

    @property
    def any(self) -> bool:
        """True if the user may see any object."""
        return self.nodes or self.namespaces is None or bool(self.namespaces)

    def after(self, before: Rights) -> Rights:
        """Return these rights, with the namespaces of earlier rights, which may be empty now."""
        if self.namespaces is None or before.namespaces is None:
            return self
        together = self.namespaces | before.namespaces
        return self if len(together) > MOST_NAMESPACES else replace(self, namespaces=together)


NOTHING: Final = Rights(known=False)


@dataclass(slots=True)
class _KnownRights:
    rights: Rights
    at: float


class CachedReviews:
    """Single rights of users, cached for a minute."""

    def __init__(self, reviews: Reviews, now: Callable[[], float]) -> None:
        """Start empty; `now` is in seconds."""
        self._reviews = reviews
        self._now = now
        self._known: OrderedDict[tuple[User, Right], tuple[bool, float]] = OrderedDict()

    async def allows(self, user: User, right: Right) -> bool:
        """Return true if the user has the right, or had it a minute ago. Raises KubeError."""
        allowed, at = self._known.get((user, right), (False, -FRESH))
        if self._now() - at < FRESH:
            return allowed
        allowed = await self._reviews.allows(user, right)
        self._known[user, right] = allowed, self._now()
        self._known.move_to_end((user, right))
        if len(self._known) > MOST_REVIEWS:
            self._known.popitem(last=False)
        return allowed


class RightsOfUsers:
    """Rights by user. A right that cannot be reviewed is not granted."""

    def __init__(
        self,
        reviews: Reviews,
        namespaces: Callable[[], Iterable[str]],
        now: Callable[[], float],
    ) -> None:
        """Start empty. `namespaces` are those with workloads; `now` is in seconds."""
        self._reviews = reviews
        self._namespaces = namespaces
        self._now = now
        self._known: OrderedDict[User, _KnownRights] = OrderedDict()
        self._asking: dict[User, asyncio.Task[Rights]] = {}

    async def of(self, user: User) -> Rights:
        """Return the rights, at most a minute old."""
        known = self._known.get(user)
        if known is not None and self._now() - known.at < FRESH:
            return known.rights
        task = self._asking.get(user)
        if task is None:
            task = self._asking[user] = asyncio.create_task(self._ask(user))
            task.add_done_callback(lambda _: self._asking.pop(user, None))
        # Several requests wait for one review. A client that disconnects must not cancel it for the
        # others.
        return await asyncio.shield(task)

    async def lost(self, user: User, had: Rights) -> bool:
        """Return true if a user who sees no workload has lost all these rights.

        Namespaces without workloads are not reviewed otherwise. So the end of the last workload
        must not look like a lost right. Raises KubeError.
        """
        for each in sorted(had.namespaces or ()):
            if await self._lists(user, each):
                return False
        return True

    async def _ask(self, user: User) -> Rights:
        try:
            rights = await self._asked(user)
        except KubeError as error:
            _log.warning("failed to review access", user=user.name, error=str(error))
            rights = NOTHING
            # A failure counts for a short time only, but long enough not to repeat it with every
            # request.
            at = self._now() - FRESH + AGAIN
        else:
            at = self._now()
        self._known[user] = _KnownRights(rights, at)
        self._known.move_to_end(user)
        if len(self._known) > MOST_USERS:
            self._known.popitem(last=False)
        return rights

    async def _asked(self, user: User) -> Rights:
        nodes = await self._reviews.allows(user, Right("nodes"))
        # First for all namespaces at once: most administrators need no further review.
        if await self._lists(user, ""):
            return Rights(None, nodes)
        wanted = sorted({each for each in self._namespaces() if each})
        if len(wanted) > MOST_NAMESPACES:
            _log.warning("some namespaces are not shown", user=user.name, namespaces=len(wanted))
            wanted = wanted[:MOST_NAMESPACES]
        results = await asyncio.gather(*(self._lists(user, each) for each in wanted))
        seen = (each for each, allowed in zip(wanted, results, strict=True) if allowed)
        return Rights(frozenset(seen), nodes)

    async def _lists(self, user: User, namespace: str) -> bool:
        for resource, group in _WHAT:
            if not await self._reviews.allows(user, Right(resource, group, namespace)):
                return False
        return True
