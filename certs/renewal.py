"""The renewal of certificates: what is due at a given time, and its result.

| stored                                                      | renewed                          |
|-------------------------------------------------------------|----------------------------------|
| nothing, parts that are unreadable or do not belong         | everything, and nothing old is   |
| together, a CA that has ended or is not valid yet           | trusted                          |
| a CA that ends soon, and no next one                        | the next CA, trusted with it     |
| a next CA that all API servers are known to trust           | it takes over and signs; the old |
|                                                             | one stays trusted until it ends  |
| a server certificate that ends soon (and before its CA),    | the server certificate           |
| is not valid yet, lacks a name, or was not signed by the CA |                                  |
| a previous CA that has ended, or a next one that is damaged | it is dropped                    |
| or not valid yet                                            |                                  |
| anything else                                               | nothing                          |

Soon is 90 days unless `Lifetimes` states otherwise. A certificate that is not valid yet comes from
a process whose clock was ahead: API servers reject it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from certs.authority import (
    DEFAULT_LIFETIMES,
    Lifetimes,
    new_authority,
    new_material,
    renewed_server,
)
from certs.material import (
    CA_CERT,
    CA_KEY,
    NEXT_CA,
    NEXT_KEY,
    PREVIOUS_CA,
    SERVER_CERT,
    SERVER_KEY,
    Material,
    MaterialError,
    ServerNames,
    Serving,
)


class Renew(Enum):
    """The renewals, of which one is done at a time."""

    NOTHING = "nothing"
    SERVER = "a new server certificate"
    NEXT_AUTHORITY = "a next CA, which is trusted alongside the current one"
    USE_NEXT = "the next CA becomes the current one"
    FORGET_PREVIOUS = "the previous CA is no longer trusted"
    FORGET_NEXT = "an unusable next CA is deleted"
    EVERYTHING = "all certificates; the old CA is no longer trusted"


@dataclass(frozen=True, slots=True)
class DueRenewal:
    """The renewal that is due, and the reason ("" for none)."""

    renew: Renew
    why: str = ""


def needed(
    material: Material | None,
    names: ServerNames,
    now: datetime,
    lifetimes: Lifetimes = DEFAULT_LIFETIMES,
    *,
    trusted: bytes = b"",
) -> DueRenewal:
    """Return the first renewal at `now` (UTC) by which clients reach the server by all `names`.

    `trusted` is the certificate of the next CA once all clients are known to trust it.
    """
    if material is None:
        return DueRenewal(Renew.EVERYTHING, "there are no certificates yet")
    try:
        ca = _authority(CA_CERT, material.ca_cert, CA_KEY, material.ca_key)
    except MaterialError as error:
        return DueRenewal(Renew.EVERYTHING, str(error))
    end = ca.not_valid_after_utc
    if end <= now:
        return DueRenewal(Renew.EVERYTHING, f"the CA expired on {end:%Y-%m-%d}")
    if early := _too_early(ca, now):
        return DueRenewal(Renew.EVERYTHING, f"the CA {early}")
    return (
        # The CA first: a server certificate of a CA that is replaced next would be replaced again.
        _next_authority(material, end, now, lifetimes, trusted)
        or _server_need(material, ca, names, now, lifetimes)
        or _previous(material, now)
        or DueRenewal(Renew.NOTHING)
    )


def renewed(
    material: Material | None,
    need: DueRenewal,
    names: ServerNames,
    now: datetime,
    lifetimes: Lifetimes = DEFAULT_LIFETIMES,
) -> Material:
    """Return certificates that meet `need`; the same value if nothing is needed."""
    if material is None or need.renew is Renew.EVERYTHING:
        return new_material(names, now, lifetimes)
    match need.renew:
        case Renew.NEXT_AUTHORITY:
            cert, key = new_authority(now, lifetimes)
            return replace(material, next_ca=cert, next_key=key)
        case Renew.USE_NEXT:
            return renewed_server(_with_next_authority(material), names, now, lifetimes)
        case Renew.SERVER:
            return renewed_server(material, names, now, lifetimes)
        case Renew.FORGET_PREVIOUS:
            return replace(material, previous_ca=b"")
        case Renew.FORGET_NEXT:
            return replace(material, next_ca=b"", next_key=b"")
    return material


def ends_at(serving: Serving) -> dict[str, datetime]:
    """Return when the certificates end (UTC), by the keys "ca" and "server"."""
    return {
        "ca": _certificate(CA_CERT, serving.ca_cert).not_valid_after_utc,
        "server": _certificate(SERVER_CERT, serving.server_cert).not_valid_after_utc,
    }


def check_pair(serving: Serving) -> None:
    """Raise MaterialError unless all parts are readable and the key is the certificate's."""
    _certificate(CA_CERT, serving.ca_cert)
    server = _certificate(SERVER_CERT, serving.server_cert)
    if server.public_key() != _any_key(SERVER_KEY, serving.server_key).public_key():
        raise MaterialError(SERVER_KEY, "does not belong to the certificate")


def _with_next_authority(material: Material) -> Material:
    """Return the material with the next CA as the current one."""
    return replace(
        material,
        ca_cert=material.next_ca,
        ca_key=material.next_key,
        previous_ca=material.ca_cert,
        next_ca=b"",
        next_key=b"",
    )


def _next_authority(
    material: Material, end: datetime, now: datetime, lifetimes: Lifetimes, trusted: bytes
) -> DueRenewal | None:
    if not material.next_ca:
        if end - now > lifetimes.ahead:
            return None
        return DueRenewal(Renew.NEXT_AUTHORITY, f"the CA expires on {end:%Y-%m-%d}")
    try:
        found = _authority(NEXT_CA, material.next_ca, NEXT_KEY, material.next_key)
    except MaterialError as error:
        return DueRenewal(Renew.FORGET_NEXT, str(error))
    if early := _too_early(found, now):
        return DueRenewal(Renew.FORGET_NEXT, f"the next CA {early}")
    # Clients that do not trust it yet would reject what it signs.
    if material.next_ca != trusted:
        return None
    return DueRenewal(Renew.USE_NEXT, "the next CA is trusted")


def _server_need(
    material: Material,
    ca: x509.Certificate,
    names: ServerNames,
    now: datetime,
    lifetimes: Lifetimes,
) -> DueRenewal | None:
    try:
        server = _server(material, ca)
    except MaterialError as error:
        return DueRenewal(Renew.SERVER, str(error))
    end = server.not_valid_after_utc
    # A new one would not outlast the CA either: then the CA is what must be renewed.
    if end - now <= lifetimes.ahead and end < ca.not_valid_after_utc:
        return DueRenewal(Renew.SERVER, f"the server certificate expires on {end:%Y-%m-%d}")
    if early := _too_early(server, now):
        return DueRenewal(Renew.SERVER, f"the server certificate {early}")
    missing = names.missing_from(_names(server))
    if missing:
        return DueRenewal(Renew.SERVER, f"the server certificate lacks {', '.join(missing)}")
    return None


def _too_early(certificate: x509.Certificate, now: datetime) -> str:
    """Return a sentence that it is not valid yet; empty if it is valid."""
    begin = certificate.not_valid_before_utc
    return f"is not valid before {begin:%Y-%m-%dT%H:%MZ}" if begin > now else ""


def _previous(material: Material, now: datetime) -> DueRenewal | None:
    if not material.previous_ca:
        return None
    try:
        end = _certificate(PREVIOUS_CA, material.previous_ca).not_valid_after_utc
    except MaterialError as error:
        return DueRenewal(Renew.FORGET_PREVIOUS, str(error))
    if end > now:
        return None
    return DueRenewal(Renew.FORGET_PREVIOUS, f"the previous CA expired on {end:%Y-%m-%d}")


def _authority(entry: str, cert: bytes, key_entry: str, key_pem: bytes) -> x509.Certificate:
    """Return the certificate of a CA, if it is one and the key is its own."""
    ca = _certificate(entry, cert)
    if ca.public_key() != _key(key_entry, key_pem).public_key():
        raise MaterialError(key_entry, "does not belong to the certificate")
    try:
        basic = ca.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound as error:
        raise MaterialError(entry, "is not the certificate of a CA") from error
    if not basic.ca:
        raise MaterialError(entry, "is not the certificate of a CA")
    return ca


def _server(material: Material, ca: x509.Certificate) -> x509.Certificate:
    """Return the server certificate, if the CA signed it and the key is its own."""
    server = _certificate(SERVER_CERT, material.server_cert)
    if server.public_key() != _key(SERVER_KEY, material.server_key).public_key():
        raise MaterialError(SERVER_KEY, "does not belong to the certificate")
    try:
        server.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise MaterialError(SERVER_CERT, "was not signed by the CA") from error
    return server


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
    key = _any_key(entry, pem)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise MaterialError(entry, "is not an elliptic-curve key")
    return key


def _any_key(entry: str, pem: bytes) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise MaterialError(entry, "is not a PEM private key") from error
