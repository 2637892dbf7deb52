"""The sources of a server's certificates: its own CA, or files that others maintain."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from certs.authority import DEFAULT_LIFETIMES, Lifetimes
from certs.material import CA_CERT, SERVER_CERT, SERVER_KEY, MaterialError, ServerNames, Serving
from certs.renewal import check_pair
from certs.stores import Store, ensure


class Source(Protocol):
    """A source of the certificates to serve now."""

    async def current(self, now: datetime, /, *, trusted: bytes = b"") -> Serving:
        """Return the certificates at `now` (UTC); `trusted` is a next CA that all clients trust.

        Raises SourceError, StoreContendedError, kube.base.errors; OSError for a folder.
        """


class SourceError(Exception):
    """Certificates that others maintain are missing or invalid."""


@dataclass(frozen=True, slots=True)
class OwnAuthority:
    """A CA of our own, in a store that all replicas share."""

    store: Store
    names: ServerNames
    lifetimes: Lifetimes = DEFAULT_LIFETIMES

    async def current(self, now: datetime, /, *, trusted: bytes = b"") -> Serving:
        """Return the stored certificates, renewed where necessary."""
        material = await ensure(self.store, self.names, now, self.lifetimes, trusted=trusted)
        return material.serving


@dataclass(frozen=True, slots=True)
class MountedFolder:
    """A Secret of cert-manager (`tls.crt`, `tls.key`, `ca.crt`), mounted as a folder.

    It is read each time and never written: cert-manager renews it.
    """

    folder: Path

    async def current(self, _now: datetime, /, *, trusted: bytes = b"") -> Serving:  # noqa: ARG002
        """Return the content of the files. Raises SourceError."""
        # A mounted folder may be slow; the event loop serves reviews meanwhile.
        serving = await asyncio.to_thread(self._read)
        try:
            check_pair(serving)
        except MaterialError as error:
            raise SourceError(f"{self.folder}/{error}") from error
        return serving

    def _read(self) -> Serving:
        files = {}
        for name in (CA_CERT, SERVER_CERT, SERVER_KEY):
            try:
                files[name] = (self.folder / name).read_bytes()
            except OSError as error:
                raise SourceError(f"{self.folder}/{name}: {error.strerror}") from error
        return Serving(
            files[CA_CERT], files[SERVER_CERT], files[SERVER_KEY], ca_bundle=files[CA_CERT]
        )
