"""What a user may see of a cluster, as the API server says; kept for a minute."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog

from api.constants import POD_GROUP
from console.access.reviews import Right, User
from kube.base.errors import KubeError

FRESH: Final = 60.0
"""Seconds after which rights are asked for again, when somebody looks."""

MOST_NAMESPACES: Final = 500
"""That are asked about for one user; others, by name, are not shown."""

MOST_USERS: Final = 1000
AGAIN: Final = 5.0
"""Seconds until rights that could not be asked for are asked for again."""

_WHAT: Final = (("pods", ""), ("podgroups", POD_GROUP.group))
"""Resources and their API groups: a viewer sees what they may list all of."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Rights:
    """Of one user; `namespaces` None means all. `known` is false where they could not be asked."""

    namespaces: frozenset[str] | None = frozenset()
    nodes: bool = False
    known: bool = True

    @property
    def any(self) -> bool:
        """Whether there is anything that the user may see."""
        return self.nodes or self.namespaces is None or bool(self.namespaces)

    def after(self, before: Rights) -> Rights:
        """These, with the namespaces of rights that came before: they may have nothing to show."""
        if self.namespaces is None or before.namespaces is None:
            return self
        together = self.namespaces | before.namespaces
        return self if len(together) > MOST_NAMESPACES else replace(self, namespaces=together)


NOTHING: Final = Rights(known=False)


class Asked(Protocol):
    """What answers for the API server."""

    async def allows(self, user: User, right: Right) -> bool:
        """Whether the user has the right. Raises KubeError."""


@dataclass(slots=True)
class _Known:
    rights: Rights
    at: float


class RightsOfUsers:
    """Rights by user. What cannot be asked is not allowed."""

    def __init__(
        self,
        reviews: Asked,
        namespaces: Callable[[], Iterable[str]],
        now: Callable[[], float],
    ) -> None:
        """`namespaces` are those with anything to show; `now` is in seconds, of any origin."""
        self._reviews = reviews
        self._namespaces = namespaces
        self._now = now
        self._known: OrderedDict[User, _Known] = OrderedDict()
        self._asking: dict[User, asyncio.Task[Rights]] = {}

    async def of(self, user: User) -> Rights:
        """The rights as they are, or were up to a minute ago."""
        known = self._known.get(user)
        if known is not None and self._now() - known.at < FRESH:
            return known.rights
        task = self._asking.get(user)
        if task is None:
            task = self._asking[user] = asyncio.create_task(self._ask(user))
            task.add_done_callback(lambda _: self._asking.pop(user, None))
        # Who asks and then leaves does not end the question of others.
        return await asyncio.shield(task)

    async def lost(self, user: User, had: Rights) -> bool:
        """Whether the user, who may see nothing that is there, has none of these rights any more.

        Namespaces with nothing to show are not asked about otherwise, so the last workload that
        ends must not look like a right that was taken away. Raises KubeError.
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
            at = self._now() - FRESH + AGAIN
        else:
            at = self._now()
        self._known[user] = _Known(rights, at)
        self._known.move_to_end(user)
        if len(self._known) > MOST_USERS:
            self._known.popitem(last=False)
        return rights

    async def _asked(self, user: User) -> Rights:
        nodes = await self._reviews.allows(user, Right("nodes"))
        if await self._lists(user, ""):
            return Rights(None, nodes)
        wanted = sorted({each for each in self._namespaces() if each})
        if len(wanted) > MOST_NAMESPACES:
            _log.warning("some namespaces are not shown", user=user.name, namespaces=len(wanted))
            wanted = wanted[:MOST_NAMESPACES]
        answers = await asyncio.gather(*(self._lists(user, each) for each in wanted))
        seen = (each for each, allowed in zip(wanted, answers, strict=True) if allowed)
        return Rights(frozenset(seen), nodes)

    async def _lists(self, user: User, namespace: str) -> bool:
        for resource, group in _WHAT:
            if not await self._reviews.allows(user, Right(resource, group, namespace)):
                return False
        return True
