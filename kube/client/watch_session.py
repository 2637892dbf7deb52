"""The connections of watches, which may be silent for a minute at a time."""

import socket
from typing import Final

import aiohttp

from kube.client.open_sockets import OpenSockets
from kube.credentials.rest_config import RestConfig

READ_BUFFER: Final = 2 * 1024 * 1024
"""Bytes of a watch that are buffered before the server has to wait."""

_PROBES: Final = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds and number of probes: a watch whose peer vanished is lost after 35 seconds."""


def watch_session(config: RestConfig, sockets: OpenSockets) -> aiohttp.ClientSession:
    """Return a session with any number of connections to that server, on these sockets."""

    def probed_socket(info: aiohttp.AddrInfoType) -> socket.socket:
        """Return a socket whose peer is probed while it is silent."""
        made = sockets.create(info)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _PROBES.items():
            if hasattr(socket, name):  # macOS lacks the first
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return made

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, socket_factory=probed_socket),
        cookie_jar=aiohttp.DummyCookieJar(),
        # The environment's proxies and CA settings must not redirect or weaken this. Looking for
        # them also costs two thread-pool jobs a request.
        trust_env=False,
        read_bufsize=READ_BUFFER,
        proxy=config.proxy,
    )
