"""The console's listener in a separate process, with TLS, to measure its memory.

It prints its port. A client with the cookie of `SECRET` is logged in, as a tenant may be.
"""

import asyncio
import sys
from datetime import UTC, datetime
from typing import cast

from certs.authority import new_material
from certs.context import server_context
from certs.material import ServerNames
from console.access.guard import named
from console.access.local_key import LocalViewers
from console.base.protocols import Fit, WhatIf
from console.following.history import RecentHistory
from console.serving.server import Server
from console.serving.serving import LOOPBACK, listening, listening_socket
from console.serving.stream import Streams
from tests.console.browser import no_manifest
from tests.console.cluster_builder import Builder

NODES = 1000
NO_ANSWERS = cast("WhatIf", object())
"""A what-if without results: no test completes a question."""
NO_FIT = cast("Fit", object())
"""The same for `fit`."""


async def main() -> None:
    """Listen until killed."""
    cluster = Builder()
    cluster.racks(blocks=10, racks=10, nodes=NODES // 100)
    material = new_material(ServerNames.of_host(LOOPBACK), datetime.now(UTC))
    with listening_socket((LOOPBACK, 0)) as sock:
        port: int = sock.getsockname()[1]
        viewers = LocalViewers("admin", port)
        history = RecentHistory(cluster.following)
        streams = Streams(cluster.following, history)
        server = Server(
            cluster.following,
            viewers,
            streams,
            history,
            manifest=no_manifest,
            what_if=NO_ANSWERS,
            fit=NO_FIT,
        )
        application = server.application(named(f"{LOOPBACK}:{port}"))
        async with listening(application, sock, server_context(material)):
            sys.stdout.write(f"{viewers.key}\n{port}\n")
            sys.stdout.flush()
            await streams.run()


if __name__ == "__main__":
    asyncio.run(main())
