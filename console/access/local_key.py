"""Who looks on at a console that one user runs for themselves: whoever has the one-time key."""

from __future__ import annotations

import hmac
import secrets
from typing import Final

from console.base.protocols import RefusedError, Viewer

_BYTES: Final = 32
"""Bytes of randomness in a key."""


class LocalViewers:
    """One session, for the first who comes with the key; they see what the kubeconfig may read.

    Other users of the machine can reach a port of it, but do not know the key.
    """

    secure = False

    def __init__(self, user: str, port: int) -> None:
        """Cookies are for all ports of a host, so the cookie's name tells consoles apart."""
        self.cookie = f"muster-console-{port}"
        self.key = secrets.token_urlsafe(_BYTES)
        self._user = user
        self._secret = ""

    async def viewer(self, secret: str) -> Viewer | None:
        """Whose session this is."""
        if not self._secret or not _equal(secret, self._secret):
            return None
        return Viewer(self._user, session="local", local=True)

    async def may_get(self, secret: str, id_: str) -> bool:
        """The API server judges the kubeconfig itself."""
        del secret, id_
        return True

    async def log_in(self, token: str, peer: str = "") -> str:
        """No token is asked for here."""
        del token, peer
        raise RefusedError(401, "Open the address that `muster console` printed.")

    def use_key(self, key: str) -> str | None:
        """The secret of the session; the key is used up."""
        if self._secret or not _equal(key, self.key):
            return None
        self._secret = secrets.token_urlsafe(_BYTES)
        return self._secret

    def log_out(self, secret: str) -> None:
        """Nobody has a session any more; the command has to be run again."""
        if self._secret and _equal(secret, self._secret):
            self._secret = secrets.token_urlsafe(_BYTES)


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())
