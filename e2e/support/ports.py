"""Free loopback ports."""

import random
import socket

# Below the range from which the kernel takes the local ports of outgoing connections: a server
# that is stopped and started again finds its port free.
_RANGE = range(20000, 32000)


def free(count: int) -> list[int]:
    """`count` different ports that nobody listens on now. Raises OSError when none are left."""
    chosen: list[int] = []
    for port in random.sample(_RANGE, len(_RANGE)):
        if _is_free(port):
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise OSError("no free loopback port")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
