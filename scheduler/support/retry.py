"""Repetition of requests that failed only because of the connection, while the lease is held."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Final

from kube.base.clock import Clock
from kube.base.errors import (
    STARTING,
    ConfigError,
    Forbidden,
    KubeError,
    LeaseLost,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from kube.concurrency.backoff import Backoff
from kube.leader.election import Fence

RETRIABLE: Final = (Unreachable, ServerError, TooManyRequests, Unauthorized, ConfigError, LeaseLost)
"""Errors that are not the fault of the request: the same request may succeed later."""


def backoff() -> Backoff:
    """Return the back-off between two attempts of one request: 0.1 s, doubling to 5 s."""
    return Backoff(first=0.1, limit=5.0)


async def retry(
    request: Callable[[], Awaitable[None]],
    fence: Fence,
    clock: Clock,
    *,
    on: tuple[type[KubeError], ...] = RETRIABLE,
    until: float = math.inf,
) -> bool:
    """Repeat the request while it raises one of `on`; raise other errors to the caller.

    From `until` (monotonic) on, all errors are raised, and a 403 once it was repeated for
    `STARTING` seconds. Returns False if the lease may have been lost before it succeeded.
    """
    waits, starts_until = backoff(), clock.monotonic() + STARTING
    while fence.valid():
        try:
            await request()
        except on as error:
            if clock.monotonic() >= until:
                raise
            # The server may be restarting: its first responses after that may be 403.
            starts_until = clock.monotonic() + STARTING
            await clock.sleep(waits.next(error))
        # A kube-apiserver that starts responds with 403 until it has read its roles.
        except Forbidden as error:
            if clock.monotonic() >= min(until, starts_until):
                raise
            await clock.sleep(waits.next(error))
        else:
            return True
    return False
