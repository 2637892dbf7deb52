"""Viewers of a console that one user runs for themselves: the holder of the one-time key."""

from __future__ import annotations

import hmac
import secrets
from typing import Final

from console.base.protocols import Creation, RefusedError, Viewer

_BYTES: Final = 32
"""Bytes of randomness in a key."""


class LocalViewers:
    """One session, for the first client with the key. It sees what the kubeconfig may read.

    Other users of the machine can reach its port, but do not know the key.
    """

    secure = False

    def __init__(self, user: str, port: int) -> None:
        """Name the cookie after the port: cookies apply to all ports of a host."""
        self.cookie = f"muster-console-{port}"
        self.key = secrets.token_urlsafe(_BYTES)
        self._user = user
        self._secret = ""

    async def viewer(self, secret: str) -> Viewer | None:
        """Return the viewer of this session."""
        if not self._secret or not _equal(secret, self._secret):
            return None
        return Viewer(self._user, session="local", local=True)

    async def may_get(self, secret: str, id_: str) -> bool:
        """Allow the request: the API server checks the rights of the kubeconfig itself."""
        del secret, id_
        return True

    async def may_create(self, secret: str, creation: Creation) -> bool:
        """Allow the question: a local console shows one user what their kubeconfig may read."""
        del secret, creation
        return True

    async def log_in(self, token: str, peer: str = "") -> str:
        """Reject the login: a local console accepts no token."""
        del token, peer
        raise RefusedError(401, "Open the address that `muster console` printed.")

    def use_key(self, key: str) -> str | None:
        """Return the secret of the session and use up the key."""
        if self._secret or not _equal(key, self.key):
            return None
        self._secret = secrets.token_urlsafe(_BYTES)
        return self._secret

    def log_out(self, secret: str) -> None:
        """End the session; a new one needs another run of the command."""
        if self._secret and _equal(secret, self._secret):
            # The old secret becomes invalid. It must not become empty: the key could be used again.
            self._secret = secrets.token_urlsafe(_BYTES)


def _equal(given: str, wanted: str) -> bool:
    # In constant time: the response time must not show how much of a guess is right.
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())
