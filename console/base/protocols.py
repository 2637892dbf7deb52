"""What the server depends on: the sessions of viewers, manifests and what-if."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from analysis.fit.messages import FitAnswer, FitRequest
from analysis.what_if.messages import WhatIfAnswer, WhatIfRequest

NO_NODES: Final = "You cannot list nodes, so the console does not show them."
"""Message for viewers who may not list nodes."""
WHAT_IF_BUSY: Final = "Another what-if question is running: try again in a moment."


class RefusedError(Exception):
    """A request that is rejected with a status and a message for the user."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Viewer:
    """A viewer, and what they may see: rights as they are now.

    `namespaces` None means all. Without `nodes` neither nodes nor totals of them are shown.
    `session` distinguishes sessions, and is not secret. `expires` is in seconds since 1970.
    """

    user: str
    session: str
    local: bool = False
    namespaces: frozenset[str] | None = None
    nodes: bool = True
    expires: float | None = None

    def sees(self, namespace: str) -> bool:
        """Return true if objects of the namespace may be shown."""
        return self.namespaces is None or namespace in self.namespaces


@dataclass(frozen=True, slots=True)
class Creation:
    """The creation of an object: its resource (plural), API group and namespace, empty for none."""

    resource: str
    group: str
    namespace: str


class Viewers(Protocol):
    """The sessions of viewers. The secret of a session is the value of a cookie."""

    @property
    def cookie(self) -> str:
        """The name of the cookie."""

    @property
    def secure(self) -> bool:
        """True if the cookie is for https only."""

    async def viewer(self, secret: str) -> Viewer | None:
        """Return the viewer of this session; None if there is none, or it has ended."""

    async def may_get(self, secret: str, id_: str) -> bool:
        """Return true if the complete object with this ID may be shown to the viewer."""

    async def may_create(self, secret: str, creation: Creation) -> bool:
        """Return true if the viewer may create the object. Raises RefusedError."""

    async def log_in(self, token: str, peer: str = "") -> str:
        """Return the secret of a new session for a token of the cluster. Raises RefusedError.

        `peer` is the address of the client.
        """

    def use_key(self, key: str) -> str | None:
        """Return the secret of a new session for a one-time key; None if the key is wrong."""

    def log_out(self, secret: str) -> None:
        """End the session."""


Manifest = Callable[[str], Awaitable[str]]
"""Reader of the YAML of an existing object by its ID; empty if the kind is not served."""

WhatIf = Callable[[WhatIfRequest, Viewer], Awaitable[WhatIfAnswer]]
"""Trial of manifests and changes on a copy of the cluster. Raises RefusedError."""

MayCreate = Callable[[Creation], Awaitable[bool]]
"""Whether the viewer may create an object. Raises RefusedError."""

Fit = Callable[[FitRequest, Viewer, MayCreate], Awaitable[FitAnswer]]
"""Decision on workloads that do not exist. Raises RefusedError."""
