"""What is renewed when, and that what is made is good."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from certs.authority import CA_VALID, SERVER_VALID, new_material
from certs.material import Material, MaterialError, ServerNames
from certs.renewal import AHEAD, Renew, ends_at, needed, renewed

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMES = ServerNames.of_service("muster-webhook", "muster-system")
GOOD = new_material(NAMES, NOW)
OTHER = new_material(NAMES, NOW)
SECOND = timedelta(seconds=1)


def bare(material: Material, *, server: bool) -> Material:
    """The same keys, one certificate made anew without any extension."""
    ca_key = serialization.load_pem_private_key(material.ca_key, None)
    server_key = serialization.load_pem_private_key(material.server_key, None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    assert isinstance(server_key, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(material.ca_cert).subject
    certificate = (
        x509.CertificateBuilder(issuer, issuer, serial_number=1)
        .public_key(server_key.public_key() if server else ca_key.public_key())
        .not_valid_before(NOW)
        .not_valid_after(NOW + SERVER_VALID)
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
            SERVER_VALID - AHEAD - SECOND,
            Renew.NOTHING,
            "",
            id="a server certificate is left alone until 90 days before its end",
        ),
        pytest.param(
            GOOD,
            SERVER_VALID - AHEAD,
            Renew.SERVER,
            "server certificate ends at 2027-03-01",
            id="a server certificate is renewed 90 days before its end",
        ),
        pytest.param(
            GOOD,
            SERVER_VALID + SECOND,
            Renew.SERVER,
            "ends at",
            id="an expired server certificate is renewed by the CA that is there",
        ),
        pytest.param(
            GOOD,
            CA_VALID - AHEAD,
            Renew.AUTHORITY,
            "the CA ends at 2036-02-27",
            id="a CA is renewed 90 days before its end",
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

    assert needed(made, NAMES, NOW + after).renew is Renew.NOTHING
    assert (made == material) is (want is Renew.NOTHING)


def test_a_name_that_is_new_needs_a_new_server_certificate_only() -> None:
    more = ServerNames(dns=(*NAMES.dns, "muster.example.org"), ips=("127.0.0.1", "::1"))

    need = needed(GOOD, more, NOW)
    made = renewed(GOOD, need, more, NOW)

    assert need.renew is Renew.SERVER
    assert need.why == "the server certificate lacks muster.example.org, 127.0.0.1, ::1"
    assert made.ca_bundle == GOOD.ca_bundle
    assert needed(made, more, NOW).renew is Renew.NOTHING


def test_a_renewed_ca_is_trusted_beside_the_old_one_and_damage_is_not() -> None:
    late = NOW + CA_VALID - AHEAD

    kept = renewed(GOOD, needed(GOOD, NAMES, late), NAMES, late)
    bad = replace(GOOD, ca_key=b"no")
    fresh = renewed(bad, needed(bad, NAMES, NOW), NAMES, NOW)

    assert x509.load_pem_x509_certificates(kept.ca_bundle) == [
        x509.load_pem_x509_certificate(kept.ca_cert),
        x509.load_pem_x509_certificate(GOOD.ca_cert),
    ]
    assert len(x509.load_pem_x509_certificates(fresh.ca_bundle)) == 1


def test_certificates_last_as_long_as_they_should_and_a_server_never_outlives_its_ca() -> None:
    near = NOW + CA_VALID - AHEAD - SECOND
    last = renewed(GOOD, needed(GOOD, NAMES, near), NAMES, near)

    assert ends_at(GOOD) == {"ca": NOW + CA_VALID, "server": NOW + SERVER_VALID}
    assert ends_at(last)["server"] == ends_at(GOOD)["ca"]


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
    material = replace(GOOD, previous_ca=OTHER.ca_cert)

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
    assert "PRIVATE" not in repr(GOOD)
