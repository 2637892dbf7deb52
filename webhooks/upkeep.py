"""Keeping certificates and registration right while the webhook serves.

A round is the same whether all is new, all is right, or something broke: certificates from the
store, the registration made to trust them, the listener given them, one call to it as an API
server would make. So a caBundle that someone changed is repaired, and certificates that another
replica renewed are taken up.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

import structlog

from certs.context import reload
from certs.material import Serving
from certs.renewal import ends_at
from certs.sources import Source, SourceError
from certs.stores import StoreContendedError
from kube.backoff import Backoff
from kube.clock import Clock
from kube.errors import KubeError
from webhooks.metrics import CERTIFICATE_END
from webhooks.readiness import REGISTRATION, Readiness
from webhooks.registration import (
    Registered,
    RegistrationApi,
    RegistrationError,
    Target,
    load_manifests,
    register,
)
from webhooks.selfcheck import SelfCheckError, check

log = structlog.get_logger(__name__)

SETTLED_SECONDS = 30.0
"""Time between two rounds while all is right, at most."""

SEEN_SECONDS = 1.0
"""How long API servers take, with room to spare, until they use what was registered."""

ANNOUNCED_SECONDS = 60.0
"""How long a next CA is announced before it signs anything that is served. Nobody can ask an API
server which CA it trusts by now; with 90 days left, there is no hurry."""

_TROUBLE = (KubeError, StoreContendedError, SourceError)


@dataclass(slots=True)
class Upkeep:
    """What a round needs: the API server, how it reaches us, where certificates come from."""

    client: RegistrationApi
    target: Target
    source: Source
    clock: Clock
    readiness: Readiness
    announced_seconds: float = ANNOUNCED_SECONDS
    _told: tuple[bytes, float] = (b"", 0.0)  # the next CA, and since when it is registered
    _right: bool = False  # whether the round before found nothing to correct

    async def certificates(self) -> Serving:
        """Certificates that are good now. Trouble with their source is waited out."""
        backoff = Backoff()
        while True:
            try:
                return await self._current()
            except _TROUBLE as error:
                self.readiness.unmet(REGISTRATION, f"no certificates: {error}")
                await self.clock.sleep(backoff.next())

    async def run(
        self, context: ssl.SSLContext, serving: Serving, address: tuple[str, int]
    ) -> None:
        """Round after round until cancelled; `context` serves `serving` at `address` now."""
        backoff = Backoff()
        while True:
            try:
                serving = await self.round(context, serving, address)
            except (RegistrationError, SelfCheckError) as error:
                self._right = False
                self.readiness.unmet(REGISTRATION, str(error))
                await self.clock.sleep(backoff.next())
            except _TROUBLE as error:
                self._without_answer(error)
                await self.clock.sleep(backoff.next())
            else:
                backoff.reset()
                await self.clock.sleep(self._settled())

    async def round(
        self, context: ssl.SSLContext, serving: Serving, address: tuple[str, int]
    ) -> Serving:
        """One round; the certificates that are served after it.

        Raises KubeError, StoreContendedError, SourceError, RegistrationError, SelfCheckError.
        """
        wanted = await self._current()
        manifests = await asyncio.to_thread(load_manifests)
        registered = await register(self.client, self.target, wanted.ca_bundle, manifests)
        self._note(wanted, registered)
        if wanted != serving:
            # Its CA has been announced long enough, by this replica or by the one that signed.
            reload(context, wanted)
        await check(address, registered)
        return wanted

    async def _current(self) -> Serving:
        next_ca, since = self._told
        known = next_ca and self.clock.monotonic() - since >= self.announced_seconds
        serving = await self.source.current(self.clock.now(), trusted=next_ca if known else b"")
        for name, end in ends_at(serving).items():
            CERTIFICATE_END.labels(name).set(end.timestamp())
        return serving

    def _note(self, serving: Serving, registered: Registered) -> None:
        """The wait begins anew whenever someone had taken the next CA out of what is registered."""
        if registered.corrected or self._told[0] != serving.next_ca:
            self._told = (serving.next_ca, self.clock.monotonic())
        self._right = self._right and not registered.corrected

    def _settled(self) -> float:
        """After a good round: the time until the next one.

        What is registered counts from the second round in a row that found it right: by then API
        servers use it, also if another replica wrote it just before the first.
        """
        if self._right or self.readiness.holds(REGISTRATION):
            self.readiness.met(REGISTRATION)
            # Twice as often as a next CA must be announced, so that a replica that restarts or
            # lags behind never misses a step.
            return min(SETTLED_SECONDS, self.announced_seconds / 2)
        self._right = True
        self.readiness.unmet(REGISTRATION, "registered; API servers may not use it yet")
        return SEEN_SECONDS

    def _without_answer(self, error: Exception) -> None:
        """What was right stays so while the API server is away: reviews do not need it."""
        if self.readiness.holds(REGISTRATION):
            log.warning("registration not looked at", problem=str(error))
        else:
            self.readiness.unmet(REGISTRATION, str(error))
