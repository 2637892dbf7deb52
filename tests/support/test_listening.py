"""A closed listener leaves nothing open, whatever its clients do."""

import asyncio
import contextlib
import socket
import ssl

from aiohttp import web

from localcluster.testing.listening import Listener
from tests.support.api_server import server_certificate

PATIENCE = 10.0


async def test_a_client_that_does_not_close_its_connection_is_not_waited_for() -> None:
    listener = await listening()
    client = await asyncio.to_thread(shake_hands, listener.port)
    await listener.close()
    with socket.socket(fileno=client.detach()) as raw:
        await asyncio.to_thread(read_to_the_end, raw)


async def test_a_client_in_the_middle_of_the_handshake_is_disconnected() -> None:
    listener = await listening()
    with socket.create_connection(("127.0.0.1", listener.port), PATIENCE) as raw:
        raw.send(b"\x16\x03\x01")
        (await asyncio.to_thread(shake_hands, listener.port)).close()  # so the first was accepted
        await listener.close()
        await asyncio.to_thread(read_to_the_end, raw)


async def listening() -> Listener:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server_certificate())
    listener = Listener(web.Application(), context)
    await listener.start()
    return listener


def shake_hands(port: int) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=server_certificate())
    raw = socket.create_connection(("127.0.0.1", port), PATIENCE)
    return context.wrap_socket(raw, server_hostname="127.0.0.1")


def read_to_the_end(raw: socket.socket) -> None:
    """Read until the end. Raises TimeoutError if the other side does not close."""
    raw.settimeout(PATIENCE)
    with contextlib.suppress(ConnectionResetError):
        while raw.recv(4096):
            pass
