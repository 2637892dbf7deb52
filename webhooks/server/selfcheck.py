"""A request to our own listener, as an API server would send it."""

from __future__ import annotations

import asyncio
import ssl

from certs.context import client_context
from certs.material import MaterialError
from webhooks.server.registration import Registered

REQUEST = "GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
SECONDS = 5.0
"""Seconds for the check of the served certificate."""


class SelfCheckError(Exception):
    """An API server could not call this webhook by its registration."""


async def check(address: tuple[str, int], registered: Registered) -> None:
    """Call the listener at `address` by the registered host, trusting only the registered CA.

    Raises SelfCheckError with the error that an API server would get.
    """
    try:
        context = client_context(registered.ca_bundle)
    except MaterialError as error:
        raise SelfCheckError(f"the registered caBundle {error.problem}") from error
    try:
        async with asyncio.timeout(SECONDS):
            status_line = await _first_line(address, registered.host, context)
    except ssl.SSLCertVerificationError as error:
        raise SelfCheckError(
            f"the certificate is not valid for {registered.host}: {error.verify_message}"
        ) from error
    except OSError as error:
        raise SelfCheckError(f"the webhook's own listener does not respond: {error!r}") from error
    if b" 200 " not in status_line:
        raise SelfCheckError(f"the webhook's own listener responded {status_line!r}")


async def _first_line(address: tuple[str, int], name: str, context: ssl.SSLContext) -> bytes:
    # It connects to the local address, but verifies the registered name, as an API server does.
    reader, writer = await asyncio.open_connection(*address, ssl=context, server_hostname=name)
    try:
        writer.write(REQUEST.format(host=name).encode())
        return await reader.readline()
    finally:
        writer.close()
