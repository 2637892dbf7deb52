"""A certificate authority and a server certificate, created at each start."""

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DNS_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
LIFE = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """Paths of the server's key and certificate, and the CA certificate as PEM."""

    certificate: Path
    key: Path
    ca: bytes


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: str, key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFE)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def make(folder: Path, now: datetime, *, host: str = "127.0.0.1") -> ServerFiles:
    """Create a certificate for loopback and `host`; write `server.crt` and `server.key`."""
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = "localcluster-ca"
    ca = (
        _builder(ca_name, ca_key, now)
        .issuer_name(_name(ca_name))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), False)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    addresses = {ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")}
    addresses.add(ipaddress.ip_address(host))
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in DNS_NAMES]
    names += [x509.IPAddress(address) for address in sorted(addresses, key=str)]
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    certificate = (
        _builder("kube-apiserver", key, now)
        .issuer_name(_name(ca_name))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(authority, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    pem = serialization.Encoding.PEM
    return write(folder, certificate.public_bytes(pem), private, ca.public_bytes(pem).decode())


def write(folder: Path, certificate: bytes, key: bytes, ca: str) -> ServerFiles:
    """Write `server.crt` and `server.key` into a folder."""
    files = ServerFiles(folder / "server.crt", folder / "server.key", ca.encode())
    files.certificate.write_bytes(certificate)
    files.key.touch(mode=0o600)
    files.key.write_bytes(key)
    return files
