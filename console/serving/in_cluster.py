"""The console as a Service of the cluster: users log in with a token, by https."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from console.access.guard import named
from console.access.reviews import Reviews
from console.access.rights import RightsOfUsers
from console.access.sign_in import TokenViewers
from console.serving.serving import Console, listening_socket
from console.state.state import ClusterState, Settings
from kube.base.errors import ConfigError
from kube.client.client import Client

_LOOK_AGAIN: Final = 60.0
"""Seconds between two reads of the certificate's files."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ConsoleAddress:
    """The address of the console; `hosts` are the names that browsers use, with their ports.

    `tls` is a folder with `tls.crt` and `tls.key`, as the Secret of a certificate is mounted. None
    means plain HTTP for a proxy that ends TLS; then no other client may reach the address.
    """

    address: tuple[str, int]
    hosts: tuple[str, ...]
    tls: Path | None


@asynccontextmanager
async def in_cluster(
    client: Client, settings: Settings, place: ConsoleAddress
) -> AsyncIterator[Console]:
    """Serve the console to users of the cluster while the context lasts.

    Raises OSError if the address is in use, ConfigError if there is no usable certificate.
    """
    with listening_socket(place.address) as sock:
        certificate = None if place.tls is None else Certificate(place.tls)
        console = Console(client, settings, sock)
        reviews = Reviews(client)
        rights = RightsOfUsers(reviews, lambda: namespaces_of(console.cluster), time.monotonic)
        viewers = TokenViewers(reviews, rights)
        hosts = named(f"localhost:{console.port}", f"127.0.0.1:{console.port}", *place.hosts)
        tls = None if certificate is None else certificate.context
        more = () if certificate is None else (certificate.follow,)
        async with console.serving(viewers, hosts, tls, *more):
            yield console


def namespaces_of(cluster: ClusterState) -> set[str]:
    """Return namespaces with groups, or with waiting pods of Muster without a group."""
    state = cluster.state
    return {key[1] for key in (*state.forest.groups, *state.singles, *state.held)}


class Certificate:
    """A certificate in files that others renew; `context` has it for new connections."""

    def __init__(self, folder: Path) -> None:
        """Read the files. Raises ConfigError if they are missing, or do not match."""
        self._folder = folder
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._seen = b""
        self.renew()

    def renew(self) -> bool:
        """Load the files if they changed. Raises ConfigError."""
        chain, key = self._folder / "tls.crt", self._folder / "tls.key"
        try:
            found = chain.read_bytes() + key.read_bytes()
            if found == self._seen:
                return False
            # Loaded into a separate context first: a pair that does not match would leave the
            # served context with half of it.
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(chain, key)
            self.context.load_cert_chain(chain, key)
        except OSError as error:
            raise ConfigError(f"no certificate in {self._folder}: {error}") from error
        self._seen = found
        return True

    async def follow(self) -> None:
        """Load new files until cancelled; a broken pair leaves the last good one in use."""
        while True:
            await asyncio.sleep(_LOOK_AGAIN)
            try:
                if self.renew():
                    _log.info("certificate reloaded")
            except ConfigError as error:
                _log.error("failed to load the new certificate", error=str(error))
