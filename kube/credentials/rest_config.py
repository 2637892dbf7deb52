"""The data for connections to one API server, from any source."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final

from kube.base.errors import ConfigError

DEFAULT_NAMESPACE: Final = "default"

Authorization = Callable[[], Awaitable[str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestConfig:
    """The server and the credentials, like client-go's `rest.Config`.

    `authorization` returns the value of the header, or None for none. It renews expired credentials
    and should be called about once a minute, and `tls.renew` with it. `tls` is None for plain HTTP.
    `namespace` is that of the context, or of the pod we run in: the default of a command that names
    none.
    """

    server: str
    authorization: Authorization
    tls: Tls | None = None
    server_name: str | None = None
    proxy: str | None = None
    namespace: str = DEFAULT_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsMaterial:
    """The authorities to trust (by default the system's), and our own certificate: PEM."""

    authorities: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None
    verify: bool = True

    def context(self, server: str) -> ssl.SSLContext:
        """Return the context for connections to `server`, which errors name. Raises ConfigError."""
        try:
            context = ssl.create_default_context(cadata=_text(self.authorities))
            if self.certificate is not None:
                with _file(self.certificate + b"\n" + (self.key or b"")) as chain:
                    context.load_cert_chain(chain)
        except (OSError, ValueError) as error:
            raise ConfigError(f"certificates for {server}: {error}") from error
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class Tls:
    """The TLS context for one server, created again when the files that it comes from change.

    Certificate authorities and client certificates are rotated while a process runs. The context is
    a new one, not the old one with additions: an authority that left its file is trusted no longer.
    """

    def __init__(self, server: str, read: Callable[[], TlsMaterial]) -> None:
        """Read the files, if any, by `read`. Raises ConfigError, and what `read` raises."""
        self._server = server
        self._read = read
        self._material = read()
        self.context = self._material.context(server)
        """The context for new connections."""

    def renew(self) -> None:
        """Read the files again. If they are not usable (yet), the context stays as it is."""
        try:
            material = self._read()
            # A new context would end the reuse of all idle connections.
            if material == self._material:
                return
            self.context, self._material = material.context(self._server), material
        except (ConfigError, OSError, ValueError) as error:
            _log("TLS files not usable", server=self._server, error=str(error))
        else:
            _log("TLS files reloaded", server=self._server)


def _log(event: str, **about: str) -> None:
    """Log a warning; structlog is imported here, as most commands log nothing."""
    import structlog

    structlog.get_logger().warning(event, **about)


def _text(pem: bytes | None) -> str | None:
    """Return the text without characters that are not ASCII.

    Comments between certificates may have them, and OpenSSL rejects them. Raises ValueError if the
    text is empty: `ssl` would then trust the system's authorities.
    """
    if pem is None:
        return None
    text = pem.decode("ascii", "ignore").strip()
    if not text:
        raise ValueError("the file or data of the certificate authority is empty")
    return text


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[str]:
    """Write a file that only we may read: OpenSSL accepts a key from a file only."""
    handle, path = tempfile.mkstemp(prefix="muster-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        yield path
    finally:
        os.unlink(path)
