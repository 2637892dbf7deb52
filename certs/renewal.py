"""What must be renewed at a given time, and the renewed certificates.

| what is there                                              | what is made                    |
|------------------------------------------------------------|---------------------------------|
| nothing, or parts that cannot be read or do not belong     | all, and nothing old is trusted |
| a CA that ends within 90 days                              | all, the old CA trusted beside  |
| a server certificate that ends within 90 days, lacks a     | the server certificate          |
| name, or was not signed by the CA                          |                                 |
| anything else                                              | nothing                         |
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs.authority import new_material, renewed_server
from certs.material import (
    CA_CERT,
    CA_KEY,
    SERVER_CERT,
    SERVER_KEY,
    Material,
    MaterialError,
    ServerNames,
)

AHEAD = timedelta(days=90)
"""Certificates are renewed this long before they end."""


class Renew(Enum):
    """How much must be made anew."""

    NOTHING = "nothing"
    SERVER = "server certificate"
    AUTHORITY = "CA and server certificate"
    EVERYTHING = "everything, the old CA is not trusted"


@dataclass(frozen=True, slots=True)
class Need:
    """What to renew, and why in words ("" for nothing)."""

    renew: Renew
    why: str = ""


def needed(material: Material | None, names: ServerNames, now: datetime) -> Need:
    """What must be renewed at `now` (UTC) so that clients reach the server by all `names`."""
    if material is None:
        return Need(Renew.EVERYTHING, "there are no certificates yet")
    try:
        ca = _authority(material)
    except MaterialError as error:
        return Need(Renew.EVERYTHING, str(error))
    if ca.not_valid_after_utc - now <= AHEAD:
        return Need(Renew.AUTHORITY, f"the CA ends at {ca.not_valid_after_utc:%Y-%m-%d}")
    try:
        problem = _server_problem(_server(material, ca), names, now)
    except MaterialError as error:
        problem = str(error)
    return Need(Renew.SERVER, problem) if problem else Need(Renew.NOTHING)


def renewed(material: Material | None, need: Need, names: ServerNames, now: datetime) -> Material:
    """Certificates in which `need` is met; the very same value when there is none."""
    if material is None or need.renew is Renew.EVERYTHING:
        return new_material(names, now)
    if need.renew is Renew.AUTHORITY:
        return new_material(names, now, previous_ca=material.ca_cert)
    if need.renew is Renew.SERVER:
        return renewed_server(material, names, now)
    return material


def ends_at(material: Material) -> dict[str, datetime]:
    """When the certificates end (UTC), by what they are: "ca" and "server"."""
    return {
        "ca": _certificate(CA_CERT, material.ca_cert).not_valid_after_utc,
        "server": _certificate(SERVER_CERT, material.server_cert).not_valid_after_utc,
    }


def _authority(material: Material) -> x509.Certificate:
    """The CA certificate, if it is one and its key is the one beside it."""
    ca = _certificate(CA_CERT, material.ca_cert)
    key = _key(CA_KEY, material.ca_key)
    if ca.public_key() != key.public_key():
        raise MaterialError(CA_KEY, "does not belong to the certificate")
    try:
        basic = ca.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound as error:
        raise MaterialError(CA_CERT, "is not the certificate of a CA") from error
    if not basic.ca:
        raise MaterialError(CA_CERT, "is not the certificate of a CA")
    return ca


def _server(material: Material, ca: x509.Certificate) -> x509.Certificate:
    """The server certificate, if the CA signed it and its key is the one beside it."""
    server = _certificate(SERVER_CERT, material.server_cert)
    if server.public_key() != _key(SERVER_KEY, material.server_key).public_key():
        raise MaterialError(SERVER_KEY, "does not belong to the certificate")
    try:
        server.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise MaterialError(SERVER_CERT, "was not signed by the CA") from error
    return server


def _server_problem(server: x509.Certificate, names: ServerNames, now: datetime) -> str:
    if server.not_valid_after_utc - now <= AHEAD:
        return f"the server certificate ends at {server.not_valid_after_utc:%Y-%m-%d}"
    missing = names.missing_from(_names(server))
    return f"the server certificate lacks {', '.join(missing)}" if missing else ""


def _names(server: x509.Certificate) -> ServerNames:
    try:
        found = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ServerNames()
    return ServerNames(
        dns=tuple(found.get_values_for_type(x509.DNSName)),
        ips=tuple(str(ip) for ip in found.get_values_for_type(x509.IPAddress)),
    )


def _certificate(entry: str, pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise MaterialError(entry, "is not a PEM certificate") from error


def _key(entry: str, pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise MaterialError(entry, "is not a PEM private key") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise MaterialError(entry, "is not an elliptic-curve key")
    return key
