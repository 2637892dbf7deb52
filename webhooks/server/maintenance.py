"""The loop that keeps certificates and registration correct while the webhook serves.

Each round does the same, whatever has changed: read the certificates from the store, correct the
registration, reload the listener, and call it as an API server would. So it restores a caBundle
that someone changed, and uses certificates that another replica renewed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass

import structlog

from api.scheduler_names import USUAL, SchedulerNames
from certs.context import reload
from certs.material import Serving
from certs.renewal import ends_at
from certs.sources import Source, SourceError
from certs.stores import StoreContendedError
from kube.base.clock import Clock
from kube.base.errors import KubeError
from kube.client.client import Client
from kube.client.resources import VALIDATING_WEBHOOKS
from kube.concurrency.backoff import Backoff
from webhooks.reviews.metrics import CERTIFICATE_END
from webhooks.server.readiness import REGISTRATION, Readiness
from webhooks.server.registration import (
    Registered,
    RegistrationError,
    Target,
    load_manifests,
    register,
)
from webhooks.server.selfcheck import SelfCheckError, check

log = structlog.get_logger(__name__)

STEADY_SECONDS = 30.0
"""Seconds between two rounds while all is correct, at most."""

PROPAGATION_SECONDS = 1.0
"""Seconds until API servers use a new registration, at most."""

ANNOUNCED_SECONDS = 60.0
"""Seconds for which a next CA is announced before it signs a served certificate.

No API server reports which CA it trusts. With 90 days left, there is time.
"""

CONFIGURATION = "muster"
"""The name of both webhook configurations."""

_RETRIABLE = (KubeError, StoreContendedError, SourceError)


@dataclass(slots=True)
class Maintenance:
    """The inputs of a round: API server, target of its calls, and source of the certificates.

    `scheduler_names` are those that the registered match conditions must list.
    """

    client: Client
    target: Target
    source: Source
    clock: Clock
    readiness: Readiness
    announced_seconds: float = ANNOUNCED_SECONDS
    scheduler_names: SchedulerNames = USUAL
    # The next CA, and the time since which it is registered.
    _announced: tuple[bytes, float] = (b"", 0.0)
    # True if the previous round found nothing to correct.
    _correct: bool = False

    async def certificates(self) -> Serving:
        """Return valid certificates; retry after errors of their source."""
        backoff = Backoff()
        # The response of the API server sets the clock, by which certificates must be valid.
        # Without one the machine's time has to do until the next round.
        with contextlib.suppress(KubeError):
            await self.client.get(VALIDATING_WEBHOOKS, CONFIGURATION)
        while True:
            try:
                return await self._current()
            except _RETRIABLE as error:
                self.readiness.unmet(REGISTRATION, f"no certificates: {error}")
                await self.clock.sleep(backoff.next(error))

    async def run(
        self, context: ssl.SSLContext, serving: Serving, address: tuple[str, int]
    ) -> None:
        """Run rounds until cancelled; `context` serves `serving` at `address` now."""
        backoff = Backoff()
        while True:
            try:
                serving = await self.round(context, serving, address)
            except (RegistrationError, SelfCheckError) as error:
                # API servers cannot call this process by what is registered, so it is not ready.
                self._correct = False
                self.readiness.unmet(REGISTRATION, str(error))
                await self.clock.sleep(backoff.next(error))
            except _RETRIABLE as error:
                self._unreachable(error)
                await self.clock.sleep(backoff.next(error))
            else:
                backoff.reset()
                await self.clock.sleep(self._next_wait())

    async def round(
        self, context: ssl.SSLContext, serving: Serving, address: tuple[str, int]
    ) -> Serving:
        """Run one round, and return the certificates that are served after it.

        Raises KubeError, StoreContendedError, SourceError, RegistrationError, SelfCheckError.
        """
        wanted = await self._current()
        names = self.scheduler_names
        # A thread: parsing the manifests would block reviews.
        manifests = await asyncio.to_thread(load_manifests, names)
        registered = await register(self.client, self.target, wanted.ca_bundle, manifests, names)
        self._note(wanted, registered)
        if wanted != serving:
            # The new CA has been announced long enough, by this replica or by the one that signed.
            reload(context, wanted)
        # After the reload, so that readiness means a full TLS call with what is registered.
        await check(address, registered)
        return wanted

    async def _current(self) -> Serving:
        next_ca, since = self._announced
        known = next_ca and self.clock.monotonic() - since >= self.announced_seconds
        # Only a CA that all API servers trust by now may sign.
        serving = await self.source.current(self.clock.now(), trusted=next_ca if known else b"")
        for name, end in ends_at(serving).items():
            CERTIFICATE_END.labels(name).set(end.timestamp())
        return serving

    def _note(self, serving: Serving, registered: Registered) -> None:
        """Record what is registered."""
        # The wait starts again if someone removed the next CA from the registration.
        if registered.corrected or self._announced[0] != serving.next_ca:
            self._announced = (serving.next_ca, self.clock.monotonic())
        self._correct = self._correct and not registered.corrected

    def _next_wait(self) -> float:
        """Return the seconds until the next round after a good one."""
        # The registration counts from the second round in a row that finds it correct: by then API
        # servers use it, even if another replica wrote it just before the first.
        if self._correct or self.readiness.holds(REGISTRATION):
            self.readiness.met(REGISTRATION)
            # Twice within the announcement, so that a replica that restarts or lags never misses a
            # step.
            return min(STEADY_SECONDS, self.announced_seconds / 2)
        self._correct = True
        self.readiness.unmet(
            REGISTRATION,
            "webhooks are registered, but API servers may not use the registration yet",
        )
        return PROPAGATION_SECONDS

    def _unreachable(self, error: Exception) -> None:
        """Handle an unreachable API server."""
        # A ready replica stays ready: its reviews do not need the API server.
        if self.readiness.holds(REGISTRATION):
            log.warning("failed to check the registration", error=str(error))
        else:
            self.readiness.unmet(REGISTRATION, str(error))
