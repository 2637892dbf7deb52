"""The times of renewal, and the validity of new certificates."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from certs.authority import (
    CLOCK_SKEW,
    DEFAULT_LIFETIMES,
    new_authority,
    new_material,
    renewed_server,
)
from certs.material import Material, MaterialError, ServerNames
from certs.renewal import Renew, ends_at, needed, renewed

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMES = ServerNames.of_service("muster-webhook", "muster-system")
GOOD = new_material(NAMES, NOW)
OTHER = new_material(NAMES, NOW)
LATER = new_material(NAMES, NOW + timedelta(hours=2))
WITH_NEXT = replace(GOOD, next_ca=OTHER.ca_cert, next_key=OTHER.ca_key)
SECOND = timedelta(seconds=1)


def bare(material: Material, *, server: bool) -> Material:
    """Return the same keys with one certificate recreated without extensions."""
    ca_key = serialization.load_pem_private_key(material.ca_key, None)
    server_key = serialization.load_pem_private_key(material.server_key, None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    assert isinstance(server_key, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(material.ca_cert).subject
    certificate = (
        x509.CertificateBuilder(issuer, issuer, serial_number=1)
        .public_key(server_key.public_key() if server else ca_key.public_key())
        .not_valid_before(NOW)
        .not_valid_after(NOW + DEFAULT_LIFETIMES.server)
        .sign(ca_key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    if server:
        return replace(material, server_cert=certificate)
    return replace(material, ca_cert=certificate)


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


@pytest.mark.parametrize(
    ("material", "after", "want", "why"),
    [
        pytest.param(
            None, timedelta(), Renew.EVERYTHING, "no certificates yet", id="nothing is there"
        ),
        pytest.param(GOOD, timedelta(), Renew.NOTHING, "", id="new certificates are left alone"),
        pytest.param(
            GOOD,
            DEFAULT_LIFETIMES.server - DEFAULT_LIFETIMES.ahead - SECOND,
            Renew.NOTHING,
            "",
            id="a server certificate is left alone until 90 days before its end",
        ),
        pytest.param(
            GOOD,
            DEFAULT_LIFETIMES.server - DEFAULT_LIFETIMES.ahead,
            Renew.SERVER,
            "server certificate expires on 2027-03-01",
            id="a server certificate is renewed 90 days before its end",
        ),
        pytest.param(
            GOOD,
            DEFAULT_LIFETIMES.server + SECOND,
            Renew.SERVER,
            "expires on",
            id="an expired server certificate is renewed by the CA that is there",
        ),
        pytest.param(
            GOOD,
            DEFAULT_LIFETIMES.ca - DEFAULT_LIFETIMES.ahead,
            Renew.NEXT_AUTHORITY,
            "the CA expires on 2036-02-27",
            id="a CA gets its successor 90 days before its end",
        ),
        pytest.param(
            GOOD,
            DEFAULT_LIFETIMES.ca - DEFAULT_LIFETIMES.ahead - SECOND,
            Renew.SERVER,
            "server certificate expires on",
            id="a CA is left alone until then",
        ),
        pytest.param(
            GOOD,
            DEFAULT_LIFETIMES.ca,
            Renew.EVERYTHING,
            "the CA expired on 2036-02-27",
            id="a CA that has ended is not overlapped with",
        ),
        pytest.param(
            GOOD,
            -CLOCK_SKEW,
            Renew.NOTHING,
            "",
            id="a process whose clock is a little behind leaves certificates alone",
        ),
        pytest.param(
            GOOD,
            -CLOCK_SKEW - SECOND,
            Renew.EVERYTHING,
            "the CA is not valid before 2026-03-01T11:55Z",
            id="a CA that is not valid yet is not trusted",
        ),
        pytest.param(
            renewed_server(GOOD, NAMES, NOW + timedelta(hours=2)),
            timedelta(),
            Renew.SERVER,
            "the server certificate is not valid before 2026-03-01T13:55Z",
            id="a server certificate that is not valid yet is replaced",
        ),
        pytest.param(
            replace(GOOD, next_ca=LATER.ca_cert, next_key=LATER.ca_key),
            timedelta(),
            Renew.FORGET_NEXT,
            "the next CA is not valid before 2026-03-01T13:55Z",
            id="a next CA that is not valid yet is dropped",
        ),
        pytest.param(
            WITH_NEXT, timedelta(), Renew.NOTHING, "", id="a next CA waits until it is trusted"
        ),
        pytest.param(
            replace(WITH_NEXT, next_key=GOOD.ca_key),
            timedelta(),
            Renew.FORGET_NEXT,
            "ca-next.key: does not belong",
            id="a next CA whose key is another's is dropped",
        ),
        pytest.param(
            replace(WITH_NEXT, next_ca=GOOD.server_cert, next_key=GOOD.server_key),
            timedelta(),
            Renew.FORGET_NEXT,
            "ca-next.crt: is not the certificate of a CA",
            id="a next CA that is none is dropped",
        ),
        pytest.param(
            replace(GOOD, previous_ca=new_authority(NOW - DEFAULT_LIFETIMES.ca)[0]),
            timedelta(),
            Renew.FORGET_PREVIOUS,
            "the previous CA expired on 2026-03-01",
            id="a previous CA is forgotten when it has ended",
        ),
        pytest.param(
            replace(GOOD, previous_ca=OTHER.ca_cert),
            timedelta(),
            Renew.NOTHING,
            "",
            id="a previous CA stays trusted until then",
        ),
        pytest.param(
            replace(GOOD, previous_ca=b"no"),
            timedelta(),
            Renew.FORGET_PREVIOUS,
            "ca-previous.crt: is not a PEM certificate",
            id="a damaged previous CA is forgotten",
        ),
        pytest.param(
            replace(GOOD, server_cert=OTHER.server_cert, server_key=OTHER.server_key),
            timedelta(),
            Renew.SERVER,
            "tls.crt: was not signed by the CA",
            id="a server certificate of another CA is replaced",
        ),
        pytest.param(
            replace(GOOD, server_key=OTHER.server_key),
            timedelta(),
            Renew.SERVER,
            "tls.key: does not belong to the certificate",
            id="a server key of another certificate is replaced",
        ),
        pytest.param(
            replace(GOOD, server_cert=b"no"),
            timedelta(),
            Renew.SERVER,
            "tls.crt: is not a PEM certificate",
            id="an unreadable server certificate is replaced",
        ),
        pytest.param(
            replace(GOOD, ca_key=OTHER.ca_key),
            timedelta(),
            Renew.EVERYTHING,
            "ca.key: does not belong to the certificate",
            id="a CA whose key is another's is not trusted",
        ),
        pytest.param(
            replace(GOOD, ca_cert=GOOD.server_cert, ca_key=GOOD.server_key),
            timedelta(),
            Renew.EVERYTHING,
            "ca.crt: is not the certificate of a CA",
            id="a certificate that is no CA is not trusted",
        ),
        pytest.param(
            bare(GOOD, server=False),
            timedelta(),
            Renew.EVERYTHING,
            "ca.crt: is not the certificate of a CA",
            id="a certificate that does not say that it is a CA is not trusted",
        ),
        pytest.param(
            bare(GOOD, server=True),
            timedelta(),
            Renew.SERVER,
            "lacks muster-webhook.muster-system.svc",
            id="a server certificate without any name is replaced",
        ),
        pytest.param(
            replace(GOOD, ca_key=b"no"),
            timedelta(),
            Renew.EVERYTHING,
            "ca.key: is not a PEM private key",
            id="an unreadable CA key makes everything new",
        ),
        pytest.param(
            replace(GOOD, ca_key=pem(rsa.generate_private_key(65537, 2048))),
            timedelta(),
            Renew.EVERYTHING,
            "ca.key: is not an elliptic-curve key",
            id="a CA key of another kind makes everything new",
        ),
    ],
)
def test_what_is_needed_and_that_renewing_meets_it(
    material: Material | None, after: timedelta, want: Renew, why: str
) -> None:
    need = needed(material, NAMES, NOW + after)

    assert need.renew is want
    assert why in need.why

    made = renewed(material, need, NAMES, NOW + after)

    assert needed(made, NAMES, NOW + after).renew is not want or want is Renew.NOTHING
    assert (made == material) is (want is Renew.NOTHING)


def test_a_name_that_is_new_needs_a_new_server_certificate_only() -> None:
    more = ServerNames(dns=(*NAMES.dns, "muster.example.org"), ips=("127.0.0.1", "::1"))

    need = needed(GOOD, more, NOW)
    made = renewed(GOOD, need, more, NOW)

    assert need.renew is Renew.SERVER
    assert need.why == "the server certificate lacks muster.example.org, 127.0.0.1, ::1"
    assert made.ca_bundle == GOOD.ca_bundle
    assert needed(made, more, NOW).renew is Renew.NOTHING


def certificates(bundle: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(bundle)


def test_a_rotation_never_serves_what_clients_were_not_told_to_trust_before() -> None:
    late = NOW + DEFAULT_LIFETIMES.ca - DEFAULT_LIFETIMES.ahead
    fresh = renewed_server(GOOD, NAMES, late)

    announced = renewed(fresh, needed(fresh, NAMES, late), NAMES, late)
    waiting = needed(announced, NAMES, late, trusted=b"another")
    taking = needed(announced, NAMES, late, trusted=announced.next_ca)
    done = renewed(announced, taking, NAMES, late)

    assert certificates(announced.ca_bundle) == certificates(GOOD.ca_cert + announced.next_ca)
    assert (announced.server_cert, announced.ca_cert) == (fresh.server_cert, fresh.ca_cert)
    assert waiting.renew is Renew.NOTHING
    assert taking.renew is Renew.USE_NEXT
    assert (done.ca_cert, done.ca_key) == (announced.next_ca, announced.next_key)
    assert done.ca_bundle == announced.ca_bundle
    assert done.next_ca == done.next_key == b""
    certificates(done.server_cert)[0].verify_directly_issued_by(certificates(done.ca_cert)[0])
    assert needed(done, NAMES, late).renew is Renew.NOTHING


def test_what_was_damaged_is_not_trusted_beside_what_is_new() -> None:
    bad = replace(GOOD, ca_key=b"no")

    fresh = renewed(bad, needed(bad, NAMES, NOW), NAMES, NOW)

    assert certificates(fresh.ca_bundle) == certificates(fresh.ca_cert)


def test_certificates_last_as_long_as_they_should_and_a_server_never_outlives_its_ca() -> None:
    soon = NOW + DEFAULT_LIFETIMES.ca - DEFAULT_LIFETIMES.ahead - SECOND
    last = renewed(GOOD, needed(GOOD, NAMES, soon), NAMES, soon)

    assert ends_at(GOOD.serving) == {
        "ca": NOW + DEFAULT_LIFETIMES.ca,
        "server": NOW + DEFAULT_LIFETIMES.server,
    }
    assert ends_at(last.serving)["server"] == ends_at(GOOD.serving)["ca"]


def test_the_ca_says_that_it_is_one_and_the_server_that_it_is_none() -> None:
    ca = x509.load_pem_x509_certificate(GOOD.ca_cert)
    server = x509.load_pem_x509_certificate(GOOD.server_cert)

    basic = ca.extensions.get_extension_for_class(x509.BasicConstraints)
    assert basic.critical
    assert basic.value.ca
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert ca.subject != x509.load_pem_x509_certificate(OTHER.ca_cert).subject


@pytest.mark.parametrize(
    ("host", "want"),
    [
        pytest.param("127.0.0.1", ServerNames(ips=("127.0.0.1",)), id="an IPv4 address"),
        pytest.param("[::1]", ServerNames(ips=("::1",)), id="a bracketed IPv6 address"),
        pytest.param("hooks.example", ServerNames(dns=("hooks.example",)), id="a DNS name"),
    ],
)
def test_names_of_a_host(host: str, want: ServerNames) -> None:
    assert ServerNames.of_host(host) == want


def test_material_written_as_secret_data_reads_back_the_same() -> None:
    material = replace(WITH_NEXT, previous_ca=OTHER.ca_cert)

    assert Material.from_secret_data(material.to_secret_data()) == material
    assert Material.from_secret_data(GOOD.to_secret_data()) == GOOD


@pytest.mark.parametrize(
    ("change", "entry"),
    [
        pytest.param({"tls.key": None}, "tls.key", id="an entry is missing"),
        pytest.param({"ca.crt": ""}, "ca.crt", id="an entry is empty"),
        pytest.param({"ca.key": "%%%"}, "ca.key", id="an entry is not base64"),
    ],
)
def test_secret_data_that_is_no_material_names_the_entry(
    change: dict[str, str | None], entry: str
) -> None:
    data = {k: v for k, v in {**GOOD.to_secret_data(), **change}.items() if v is not None}

    with pytest.raises(MaterialError) as caught:
        Material.from_secret_data(data)

    assert caught.value.entry == entry


def test_no_key_shows_in_a_representation() -> None:
    assert "PRIVATE" not in repr(WITH_NEXT)
    assert "PRIVATE" not in repr(WITH_NEXT.serving)
