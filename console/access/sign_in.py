"""Viewers of a console in the cluster: users with a token of the cluster, in sessions.

Sessions are in memory only, by the hash of their secret: a restart ends all. A session's token is
sealed by the same secret. So the console can review it with a request of the browser, and at no
other time. The console reviews token and rights repeatedly during a session. The session ends when
the API server rejects the token, and when a user loses all rights.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec
import structlog

from console.access.manifests import resource_of
from console.access.refused_tokens import RefusedTokens
from console.access.reviews import Reviews, Right, User
from console.access.rights import AGAIN, FRESH, NOTHING, CachedReviews, Rights, RightsOfUsers
from console.access.sealed_token import seal, unseal
from console.base.protocols import Creation, RefusedError, Viewer
from kube.base.errors import KubeError

COOKIE: Final = "__Host-muster-console"
"""Name of the cookie. Its prefix makes browsers accept it by https only, for this host and all
paths."""

LASTS: Final = 3600.0
"""Seconds of a session; less if its token expires before."""

MOST_SESSIONS: Final = 1000
"""Sessions of all users. Further logins are rejected with status 503."""

MOST_OF_USER: Final = 8
"""Sessions of one user. A new one ends the oldest."""

LONGEST_TOKEN: Final = 16 * 1024
"""Characters of a token. A longer one is rejected."""

_BYTES: Final = 32
"""Bytes of randomness in a session's cookie."""

_AWAY: Final = "The API server does not respond: try again."
_NOT_TAKEN: Final = "The cluster does not accept this token."
_log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class _Session:
    """A session. `token` is sealed; `review_at` is the time of its next review.

    `reviewed` is false if the last review failed. `had` are the latest rights that were not empty,
    `judged` those that were checked for a loss.
    """

    name: str
    user: User
    expires: float
    token: bytes = field(repr=False)
    review_at: float
    reviewed: bool = True
    reviewing: asyncio.Task[bool] | None = None
    had: Rights = NOTHING
    judged: Rights = NOTHING


class TokenViewers:
    """Sessions of users who logged in with a token."""

    cookie = COOKIE
    secure = True

    def __init__(
        self, reviews: Reviews, rights: RightsOfUsers, now: Callable[[], float] = time.time
    ) -> None:
        """Initialize without sessions; `now` is in seconds since 1970."""
        self._reviews = reviews
        self._rights = rights
        self._now = now
        self._sessions: dict[bytes, _Session] = {}
        self._names = itertools.count(1)
        self._refused = RefusedTokens(now)
        self._single_rights = CachedReviews(reviews, now)

    async def viewer(self, secret: str) -> Viewer | None:
        """Return the viewer of a session, with rights; None if it has ended or does not exist."""
        key = _hashed(secret)
        session = self._living(key)
        if session is None:
            return None
        if not await self._still_theirs(session, secret):
            _log.info("session ended: token not accepted", user=session.user.name)
            self._sessions.pop(key, None)
            return None
        rights = await self._rights.of(session.user) if session.reviewed else NOTHING
        if await self._lost_all(session, rights):
            _log.info("session ended: user lost access", user=session.user.name)
            self._sessions.pop(key, None)
        # It may have ended during the review of the rights.
        if self._living(key) is None:
            return None
        return Viewer(
            session.user.name,
            session.name,
            namespaces=rights.namespaces,
            nodes=rights.nodes,
            expires=session.expires,
        )

    async def may_get(self, secret: str, id_: str) -> bool:
        """Return true if the user may get the object: the console's account may get more."""
        session = self._living(_hashed(secret))
        namespace, kind, name = id_.split("/", 2)
        resource = resource_of(kind)
        if session is None or resource is None:
            return False
        right = Right(resource.plural, resource.group, namespace, "get", name)
        try:
            return await self._reviews.allows(session.user, right)
        except KubeError as error:
            _log.warning("failed to review access", error=str(error))
            return False

    async def may_create(self, secret: str, creation: Creation) -> bool:
        """Return true if the user may create the object. Raises RefusedError."""
        session = self._living(_hashed(secret))
        if session is None:
            return False
        right = Right(creation.resource, creation.group, creation.namespace, "create")
        try:
            return await self._single_rights.allows(session.user, right)
        except KubeError as error:
            _log.warning("failed to review access", error=str(error))
            raise RefusedError(503, _AWAY) from error

    async def log_in(self, token: str, peer: str = "") -> str:
        """Return the secret of a new session. Raises RefusedError.

        `peer` is the address of the client.
        """
        token = token.strip()
        # Counted before the review, so that many concurrent tokens cannot pass the limit.
        self._refused.count(peer)
        if not _well_formed(token):
            raise RefusedError(401, _NOT_TAKEN)
        try:
            user = await self._reviews.user(token)
        except KubeError as error:
            _log.warning("failed to review a token", error=str(error))
            # The failure says nothing about the token.
            self._refused.take_back(peer)
            raise RefusedError(503, _AWAY) from error
        if user is None:
            raise RefusedError(401, _NOT_TAKEN)
        self._refused.take_back(peer)
        return self._begin(user, token)

    def use_key(self, key: str) -> str | None:
        """Return None: this console has no one-time keys."""
        del key
        return None

    def log_out(self, secret: str) -> None:
        """End the session."""
        self._sessions.pop(_hashed(secret), None)

    def _begin(self, user: User, token: str) -> str:
        """Start a session. It may end the oldest of the same user, never one of another user."""
        now = self._now()
        self._sessions = {key: it for key, it in self._sessions.items() if it.expires > now}
        # Sessions are in the order of their start, so the oldest come first.
        own = [key for key, it in self._sessions.items() if it.user.name == user.name]
        for key in own[: max(0, len(own) - MOST_OF_USER + 1)]:
            del self._sessions[key]
        if len(self._sessions) >= MOST_SESSIONS:
            raise RefusedError(503, "Too many users are logged in: try again later.")
        secret = secrets.token_urlsafe(_BYTES)
        self._sessions[_hashed(secret)] = _Session(
            str(next(self._names)),
            user,
            min(now + LASTS, _end_of(token)),
            seal(token, secret),
            now + FRESH,
        )
        _log.info("session started", user=user.name)
        return secret

    async def _still_theirs(self, session: _Session, secret: str) -> bool:
        """Return true if the token is still the same user's; reviewed once a minute at most."""
        if self._now() < session.review_at:
            return True
        if session.reviewing is None:
            review = self._review(session, unseal(session.token, secret))
            session.reviewing = asyncio.create_task(review)
        # Several requests wait for one review. A client that disconnects must not cancel it for the
        # others.
        return await asyncio.shield(session.reviewing)

    async def _review(self, session: _Session, token: str) -> bool:
        """Review the token. While the API server does not respond, the session has no rights."""
        try:
            user = await self._reviews.user(token)
        except KubeError as error:
            _log.warning("failed to review a token", error=str(error))
            session.reviewed, session.review_at = False, self._now() + AGAIN
            return True
        finally:
            session.reviewing = None
        if user is None or user.name != session.user.name:
            return False
        # The groups may have changed since the login: rights follow the current ones.
        session.user = user
        session.reviewed, session.review_at = True, self._now() + FRESH
        return True

    async def _lost_all(self, session: _Session, rights: Rights) -> bool:
        """Return true if the user had rights and has none now; checked once per review."""
        if rights.any:
            session.had = rights.after(session.had)
        if rights is session.judged or rights.any or not (rights.known and session.had.any):
            return False
        session.judged = rights
        try:
            return await self._rights.lost(session.user, session.had)
        except KubeError as error:
            _log.warning("failed to review access", user=session.user.name, error=str(error))
            return False

    def _living(self, key: bytes) -> _Session | None:
        session = self._sessions.get(key)
        if session is not None and session.expires <= self._now():
            del self._sessions[key]
            return None
        return session


def _hashed(secret: str) -> bytes:
    """Return the key of a session. The lookup time of a hash reveals nothing of the secret."""
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def _well_formed(token: str) -> bool:
    return 0 < len(token) <= LONGEST_TOKEN and token.isascii() and token.isprintable()


class _Claims(msgspec.Struct):
    exp: float


def _end_of(token: str) -> float:
    """Return the expiry of an accepted token by its own claim, if it is a JWT; else infinity."""
    parts = token.split(".")
    if len(parts) != 3:
        return float("inf")
    payload = parts[1] + "=" * (-len(parts[1]) % 4)
    try:
        # The signature need not be checked: the API server has accepted the token.
        return msgspec.json.decode(base64.urlsafe_b64decode(payload), type=_Claims).exp
    except ValueError:
        return float("inf")
