"""What the server needs of others: who looks on, what-if and history. Each has a small protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from analysis.what_if.messages import WhatIfAnswer, WhatIfRequest
from console.base import messages


class RefusedError(Exception):
    """A request that is answered with a status and a message for the user."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody who looks on, and what they may see: rights as they are now.

    `namespaces` None means all. Without `nodes` neither nodes nor totals of them are shown.
    `session` tells sessions apart, and is no secret. `expires` is in seconds since 1970.
    """

    user: str
    session: str
    local: bool = False
    namespaces: frozenset[str] | None = None
    nodes: bool = True
    expires: float | None = None

    def sees(self, namespace: str) -> bool:
        """Whether objects of the namespace may be shown."""
        return self.namespaces is None or namespace in self.namespaces


class Viewers(Protocol):
    """Who has a session. The secret of a session is the value of a cookie."""

    @property
    def cookie(self) -> str:
        """The name of the cookie."""

    @property
    def secure(self) -> bool:
        """Whether the cookie is for https alone."""

    async def viewer(self, secret: str) -> Viewer | None:
        """Whose session this is; None if there is none, or it has ended."""

    async def may_get(self, secret: str, id_: str) -> bool:
        """Whether the object with this ID may be shown to them as it is."""

    async def log_in(self, token: str, peer: str = "") -> str:
        """The secret of a new session for a token of the cluster. Raises RefusedError.

        `peer` is the address that it came from.
        """

    def use_key(self, key: str) -> str | None:
        """The secret of a new session for a one-time key; None if the key is not good."""

    def log_out(self, secret: str) -> None:
        """End the session."""


class WhatIf(Protocol):
    """Tries manifests and changes on a copy of the cluster."""

    async def __call__(self, request: WhatIfRequest, viewer: Viewer) -> WhatIfAnswer:
        """What would happen, as far as the viewer may see it. Raises RefusedError."""


class History(Protocol):
    """What was, step by step; streams look for the latest step several times a second."""

    def follow(self) -> None:
        """Take in what the followed cluster says now; called several times a second."""

    def answer(self, hours: float, viewer: Viewer) -> messages.History:
        """The steps of the last hours."""

    def latest(self, viewer: Viewer) -> messages.HistoryStep | None:
        """The newest step that is complete; None before the first."""
