"""The creation of certificates: a CA for ten years, a server certificate for one.

Everything here is a function of its arguments and of the system's random numbers; the caller passes
the time. All keys are ECDSA P-256, which take microseconds to create.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.material import Material, ServerNames

CLOCK_SKEW = timedelta(minutes=5)
"""The time by which certificates begin in the past, for clients whose clocks are behind ours."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The validity of certificates, and how long `ahead` of their end they are renewed.

    Renewal has an effect only if ca >= server > ahead > 0, as the configuration file requires.
    """

    ca: timedelta = timedelta(days=3650)
    server: timedelta = timedelta(days=365)
    ahead: timedelta = timedelta(days=90)


DEFAULT_LIFETIMES = Lifetimes()


def new_material(
    names: ServerNames, now: datetime, lifetimes: Lifetimes = DEFAULT_LIFETIMES
) -> Material:
    """Return a new CA and a server certificate for `names`, both from `now` (UTC) on."""
    ca_cert, ca_key = new_authority(now, lifetimes)
    bare = Material(ca_cert=ca_cert, ca_key=ca_key, server_cert=b"", server_key=b"")
    return renewed_server(bare, names, now, lifetimes)


def new_authority(now: datetime, lifetimes: Lifetimes = DEFAULT_LIFETIMES) -> tuple[bytes, bytes]:
    """Return the certificate and the key of a new CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # Two CAs may be trusted at once: their names must differ for chains to be unambiguous.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"muster-ca-{serial:040x}"[:42])])
    certificate = (
        x509.CertificateBuilder(subject_name=name, issuer_name=name, serial_number=serial)
        .public_key(key.public_key())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetimes.ca)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(ca=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), _pem(key)


def renewed_server(
    material: Material, names: ServerNames, now: datetime, lifetimes: Lifetimes = DEFAULT_LIFETIMES
) -> Material:
    """Return the same CA with a new server certificate for `names`, which never outlives the CA."""
    ca = x509.load_pem_x509_certificate(material.ca_cert)
    ca_key = serialization.load_pem_private_key(material.ca_key, password=None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey), "renewal.py refuses any other key"
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives = [x509.DNSName(name) for name in names.dns]
    addresses = [x509.IPAddress(ipaddress.ip_address(ip)) for ip in names.ips]
    certificate = (
        x509.CertificateBuilder()
        # The subject is only informative: clients check the alternative names.
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "muster-webhook")]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(min(now + lifetimes.server, ca.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([*alternatives, *addresses]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    server_cert = certificate.public_bytes(serialization.Encoding.PEM)
    return replace(material, server_cert=server_cert, server_key=_pem(key))


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
