"""TLS contexts from certificates in memory."""

from __future__ import annotations

import os
import ssl
import tempfile

from certs.material import CA_CERT, Material, MaterialError, Serving


def server_context(material: Material | Serving) -> ssl.SSLContext:
    """Return a server's context: TLS 1.2 or later, HTTP/1.1 by ALPN, these certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # An API server offers HTTP/2 first, and falls back to HTTP/1.1 when that is all we offer.
    context.set_alpn_protocols(["http/1.1"])
    reload(context, material)
    return context


def reload(context: ssl.SSLContext, material: Material | Serving) -> None:
    """Use these certificates from the next handshake on; open connections stay.

    Raises ssl.SSLError if key and certificate do not belong together.
    """
    # The ssl module reads certificates from files only. The folder is private to this
    # user and deleted before the next handshake.
    with tempfile.TemporaryDirectory(prefix="muster-tls-") as folder:
        path = os.path.join(folder, "server.pem")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(material.server_key + material.server_cert)
        context.load_cert_chain(path)


def client_context(ca_bundle: bytes) -> ssl.SSLContext:
    """Return a client's context that trusts this bundle (PEM) and nothing else.

    Raises MaterialError if the bundle has no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=ca_bundle.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        raise MaterialError(CA_CERT, "contains no certificate") from error
    return context
