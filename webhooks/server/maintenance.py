"""Keeps certificates and registration correct while the webhook serves.

A round is the same whether all is new, all is correct, or something broke: read the certificates
from the store, correct the registration, reload the listener, call it once as an API server would.
So a caBundle that someone changed is repaired, and certificates that another replica renewed are
used.
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
from kube.client.object_client import ObjectClient
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
"""The longest time between two rounds while all is correct."""

PROPAGATION_SECONDS = 1.0
"""How long API servers take at most until they use what was registered."""

ANNOUNCED_SECONDS = 60.0
"""How long a next CA is announced before it signs anything that is served. No API
server says which CA it trusts; with 90 days left, there is time."""

CONFIGURATION = "muster"
"""The name of both webhook configurations."""

_RETRIABLE = (KubeError, StoreContendedError, SourceError)


@dataclass(slots=True)
class Maintenance:
    """What a round needs: the API server, how it reaches us, where certificates come from.

    `scheduler_names` are those that the registration has to ask about.
    """

    client: ObjectClient
    target: Target
    source: Source
    clock: Clock
    readiness: Readiness
    announced_seconds: float = ANNOUNCED_SECONDS
    scheduler_names: SchedulerNames = USUAL
    _announced: tuple[bytes, float] = (b"", 0.0)  # the next CA, and since when it is registered
    _correct: bool = False  # whether the round before found nothing to correct

    async def certificates(self) -> Serving:
        """Certificates that are good now. Errors of their source are retried.

        The API server is asked before: its answer sets the clock. Without one the machine's time
        has to do until the next round.
        """
        backoff = Backoff()
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
        """Round after round until cancelled; `context` serves `serving` at `address` now."""
        backoff = Backoff()
        while True:
            try:
                serving = await self.round(context, serving, address)
            except (RegistrationError, SelfCheckError) as error:
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
        """One round; the certificates that are served after it.

        Raises KubeError, StoreContendedError, SourceError, RegistrationError, SelfCheckError.
        """
        wanted = await self._current()
        names = self.scheduler_names
        manifests = await asyncio.to_thread(load_manifests, names)
        registered = await register(self.client, self.target, wanted.ca_bundle, manifests, names)
        self._note(wanted, registered)
        if wanted != serving:
            # Its CA has been announced long enough, by this replica or by the one that signed.
            reload(context, wanted)
        await check(address, registered)
        return wanted

    async def _current(self) -> Serving:
        next_ca, since = self._announced
        known = next_ca and self.clock.monotonic() - since >= self.announced_seconds
        serving = await self.source.current(self.clock.now(), trusted=next_ca if known else b"")
        for name, end in ends_at(serving).items():
            CERTIFICATE_END.labels(name).set(end.timestamp())
        return serving

    def _note(self, serving: Serving, registered: Registered) -> None:
        """The wait starts again whenever someone removed the next CA from the registration."""
        if registered.corrected or self._announced[0] != serving.next_ca:
            self._announced = (serving.next_ca, self.clock.monotonic())
        self._correct = self._correct and not registered.corrected

    def _next_wait(self) -> float:
        """After a good round: the time until the next one.

        The registration counts from the second round in a row that found it correct: by then API
        servers use it, even if another replica wrote it just before the first.
        """
        if self._correct or self.readiness.holds(REGISTRATION):
            self.readiness.met(REGISTRATION)
            # Twice as often as a next CA must be announced, so that a replica that restarts or
            # lags behind never misses a step.
            return min(STEADY_SECONDS, self.announced_seconds / 2)
        self._correct = True
        self.readiness.unmet(REGISTRATION, "registered; API servers may not use it yet")
        return PROPAGATION_SECONDS

    def _unreachable(self, error: Exception) -> None:
        """Readiness is kept while the API server is unreachable: reviews do not need it."""
        if self.readiness.holds(REGISTRATION):
            log.warning("registration not checked", problem=str(error))
        else:
            self.readiness.unmet(REGISTRATION, str(error))
