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
from certs.material import Material
from certs.renewal import ends_at
from certs.stores import Store, StoreContendedError, ensure
from kube.backoff import Backoff
from kube.clock import Clock
from kube.errors import KubeError
from webhooks.metrics import CERTIFICATE_END
from webhooks.readiness import REGISTRATION, Readiness
from webhooks.registration import (
    RegistrationApi,
    RegistrationError,
    Target,
    load_manifests,
    register,
)
from webhooks.selfcheck import SelfCheckError, check

log = structlog.get_logger(__name__)

SETTLED_SECONDS = 30.0
"""Time between two rounds while all is right."""


@dataclass(slots=True)
class Upkeep:
    """What a round needs: the API server, how it reaches us, where certificates are kept."""

    client: RegistrationApi
    target: Target
    store: Store
    clock: Clock
    readiness: Readiness

    async def certificates(self) -> Material:
        """Certificates that are good now. Trouble with the store is waited out."""
        backoff = Backoff()
        while True:
            try:
                return await self._certificates()
            except (KubeError, StoreContendedError) as error:
                self.readiness.unmet(REGISTRATION, f"no certificates: {error}")
                await self.clock.sleep(backoff.next())

    async def run(
        self, context: ssl.SSLContext, serving: Material, address: tuple[str, int]
    ) -> None:
        """Round after round until cancelled; `context` serves `serving` at `address` now."""
        backoff = Backoff()
        while True:
            try:
                serving = await self.round(context, serving, address)
            except (RegistrationError, SelfCheckError) as error:
                self.readiness.unmet(REGISTRATION, str(error))
                await self.clock.sleep(backoff.next())
            except (KubeError, StoreContendedError) as error:
                self._without_answer(error)
                await self.clock.sleep(backoff.next())
            else:
                self.readiness.met(REGISTRATION)
                backoff.reset()
                await self.clock.sleep(SETTLED_SECONDS)

    async def round(
        self, context: ssl.SSLContext, serving: Material, address: tuple[str, int]
    ) -> Material:
        """One round; the certificates that are served after it.

        Raises KubeError, StoreContendedError, RegistrationError, SelfCheckError.
        """
        material = await self._certificates()
        manifests = await asyncio.to_thread(load_manifests)
        registered = await register(self.client, self.target, material.ca_bundle, manifests)
        if material != serving:
            # Trusted first, served second: the bundle holds the old CA as well.
            reload(context, material)
        await check(address, registered)
        return material

    async def _certificates(self) -> Material:
        material = await ensure(self.store, self.target.names, self.clock.now())
        for name, end in ends_at(material).items():
            CERTIFICATE_END.labels(name).set(end.timestamp())
        return material

    def _without_answer(self, error: Exception) -> None:
        """What was right stays so while the API server is away: reviews do not need it."""
        if self.readiness.holds(REGISTRATION):
            log.warning("registration not looked at", problem=str(error))
        else:
            self.readiness.unmet(REGISTRATION, str(error))
