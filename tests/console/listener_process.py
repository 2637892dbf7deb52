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
from console.base.protocols import WhatIf
from console.serving.server import app
from console.serving.serving import LOOPBACK, closing_socket, listening
from console.serving.stream import Streams
from tests.console.cluster_builder import Builder

NODES = 1000
NO_ANSWERS = cast("WhatIf", object())
"""A what-if without results: no test completes a question."""


async def main() -> None:
    """Listen until killed."""
    cluster = Builder()
    cluster.racks(blocks=10, racks=10, nodes=NODES // 100)
    material = new_material(ServerNames.of_host(LOOPBACK), datetime.now(UTC))
    with closing_socket(0) as sock:
        port: int = sock.getsockname()[1]
        viewers = LocalViewers("admin", port)
        streams = Streams(cluster.following)
        application = app(
            cluster.following,
            viewers,
            streams,
            hosts=named(f"{LOOPBACK}:{port}"),
            what_if=NO_ANSWERS,
        )
        async with listening(application, sock, server_context(material)):
            sys.stdout.write(f"{viewers.key}\n{port}\n")
            sys.stdout.flush()
            await streams.run()


if __name__ == "__main__":
    asyncio.run(main())
