"""The console as a Service of the cluster: users log in with a token, by https."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from console.access.guard import named
from console.access.reviews import Reviews
from console.access.rights import RightsOfUsers
from console.access.sign_in import TokenViewers
from console.serving.serving import Parts, Settings, listening, running
from console.state.state import ClusterState, LiveCluster
from kube.base.errors import ConfigError
from kube.client.client import Client

_LOOK_AGAIN: Final = 60.0
"""Seconds between two reads of the certificate's files."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Place:
    """The address of the console; `hosts` are the names that browsers use, with their ports.

    `tls` is a folder with `tls.crt` and `tls.key`, as the Secret of a certificate is mounted. None
    means plain HTTP for a proxy that ends TLS; then no other client may reach the address.
    """

    address: tuple[str, int]
    hosts: tuple[str, ...]
    tls: Path | None


@dataclass(frozen=True, slots=True)
class ServedConsole:
    """A running console, and the port on which it listens."""

    port: int
    cluster: LiveCluster
    tasks: tuple[asyncio.Task[None], ...]

    async def until(self, stop: asyncio.Event) -> None:
        """Wait for `stop`. Raises the error that ended its work before."""
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({stopped, *self.tasks}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        for task in self.tasks:
            if task.done():
                task.result()


@asynccontextmanager
async def in_cluster(
    client: Client, settings: Settings, place: Place
) -> AsyncIterator[ServedConsole]:
    """Serve the console to users of the cluster while the context lasts.

    Raises OSError if the address is in use, ConfigError if there is no usable certificate.
    """
    with listening_socket(place.address) as sock:
        port: int = sock.getsockname()[1]
        certificate = None if place.tls is None else Certificate(place.tls)
        parts = Parts(client, settings)
        reviews = Reviews(client)
        rights = RightsOfUsers(reviews, lambda: namespaces_of(parts.cluster), time.monotonic)
        own = (f"localhost:{port}", f"127.0.0.1:{port}")
        application = parts.application(TokenViewers(reviews, rights), named(*own, *place.hosts))
        tls = None if certificate is None else certificate.context
        async with (
            listening(application, sock, tls),
            running(parts.cluster, parts.streams) as tasks,
            renewing(certificate),
        ):
            try:
                yield ServedConsole(port, parts.cluster, tasks)
            finally:
                parts.streams.end()


def namespaces_of(cluster: ClusterState) -> set[str]:
    """Return namespaces with groups, or with waiting pods of Muster without a group."""
    state = cluster.state
    found = {key[1] for key in state.forest.groups}
    found.update(key[1] for key in state.singles)
    found.update(key[1] for key in state.unclaimed)
    return found


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
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"no certificate in {self._folder}: {error}") from error
        self._seen = found
        return True


@asynccontextmanager
async def renewing(
    certificate: Certificate | None, seconds: float = _LOOK_AGAIN
) -> AsyncIterator[None]:
    """Check the certificate's files periodically; a broken pair leaves the last good one in use."""
    task = asyncio.create_task(_renew(certificate, seconds)) if certificate is not None else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait({task})


async def _renew(certificate: Certificate, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            if certificate.renew():
                _log.info("certificate reloaded")
        except ConfigError as error:
            _log.error("failed to load the new certificate", error=str(error))


@contextlib.contextmanager
def listening_socket(address: tuple[str, int]) -> Iterator[socket.socket]:
    """Return a socket that is bound to the address. Raises OSError."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        yield sock
