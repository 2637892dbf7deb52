"""The webhook's certificates and keys as values, and their stored form."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

CA_CERT = "ca.crt"
CA_KEY = "ca.key"
SERVER_CERT = "tls.crt"
SERVER_KEY = "tls.key"
PREVIOUS_CA = "ca-previous.crt"
NEXT_CA = "ca-next.crt"
NEXT_KEY = "ca-next.key"

REQUIRED = (CA_CERT, CA_KEY, SERVER_CERT, SERVER_KEY)
OPTIONAL = (PREVIOUS_CA, NEXT_CA, NEXT_KEY)


class MaterialError(ValueError):
    """The error of stored data that is no set of certificates; `entry` names the invalid part."""

    def __init__(self, entry: str, problem: str) -> None:
        super().__init__(f"{entry}: {problem}")
        self.entry = entry
        self.problem = problem


@dataclass(frozen=True, slots=True)
class ServerNames:
    """The names by which clients reach the server: DNS names and IP addresses."""

    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()

    @classmethod
    def of_host(cls, host: str) -> Self:
        """Return the names of a server reached by one host: an address stays an address."""
        try:
            return cls(ips=(str(ipaddress.ip_address(host.strip("[]"))),))
        except ValueError:
            return cls(dns=(host,))

    @classmethod
    def of_service(cls, name: str, namespace: str) -> Self:
        """Return the names of a Service; API servers call `<name>.<namespace>.svc`."""
        base = f"{name}.{namespace}"
        return cls(dns=(f"{base}.svc", f"{base}.svc.cluster.local", base, name))

    def missing_from(self, other: Self) -> tuple[str, ...]:
        """Return the names that `other` does not have."""
        held = {*other.dns, *other.ips}
        return tuple(name for name in (*self.dns, *self.ips) if name not in held)


@dataclass(frozen=True, slots=True)
class Serving:
    """The certificate of a server, and what its clients are configured to trust (all PEM).

    `next_ca` is part of the bundle already, but no certificate that it signed is served yet.
    """

    ca_cert: bytes
    server_cert: bytes
    server_key: bytes = field(repr=False)
    ca_bundle: bytes
    next_ca: bytes = b""


@dataclass(frozen=True, slots=True)
class Material:
    """One CA and one server certificate with their keys, all PEM.

    `previous_ca` is the certificate of the CA before this one: clients trust both until it ends.
    `next_ca` is the one that comes: clients learn to trust it before anything that it signed is
    served. Keys are never part of `repr`, so that no log line can contain one.
    """

    ca_cert: bytes
    ca_key: bytes = field(repr=False)
    server_cert: bytes
    server_key: bytes = field(repr=False)
    previous_ca: bytes = b""
    next_ca: bytes = b""
    next_key: bytes = field(default=b"", repr=False)

    @property
    def ca_bundle(self) -> bytes:
        """The bundle that clients are configured to trust, oldest first.

        In that order the bundle is the same before and after the next CA takes over.
        """
        return self.previous_ca + self.ca_cert + self.next_ca

    @property
    def serving(self) -> Serving:
        """The part that a server and its clients need."""
        return Serving(
            self.ca_cert, self.server_cert, self.server_key, self.ca_bundle, self.next_ca
        )

    def to_files(self) -> dict[str, bytes]:
        """Return PEM by file name (also the key in a Secret); empty parts are left out."""
        files = {
            CA_CERT: self.ca_cert,
            CA_KEY: self.ca_key,
            SERVER_CERT: self.server_cert,
            SERVER_KEY: self.server_key,
            PREVIOUS_CA: self.previous_ca,
            NEXT_CA: self.next_ca,
            NEXT_KEY: self.next_key,
        }
        return {name: pem for name, pem in files.items() if pem}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Self:
        """Return the value of these files. Raises MaterialError, which names a missing part."""
        for name in REQUIRED:
            if not files.get(name):
                raise MaterialError(name, "is missing or empty")
        return cls(*(files.get(name, b"") for name in (*REQUIRED, *OPTIONAL)))

    def to_secret_data(self) -> dict[str, str]:
        """Return `data` of a Secret: base64 of each file."""
        return {name: base64.b64encode(pem).decode() for name, pem in self.to_files().items()}

    @classmethod
    def from_secret_data(cls, data: Mapping[str, str]) -> Self:
        """Return the value of a Secret's data. Raises MaterialError: missing or not base64."""
        return cls.from_files({name: _decoded(name, text) for name, text in data.items()})


def _decoded(name: str, text: str) -> bytes:
    try:
        # Without validation, characters outside of the alphabet are skipped: damage would go
        # unnoticed.
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise MaterialError(name, "is not base64") from error
