"""Free loopback ports, each given to one caller only."""

import atexit
import random
import socket

# Below the range from which the kernel takes the local ports of outgoing connections: a server
# that is stopped and started again finds its port free.
_RANGE = range(20000, 32000)

# A TCP port is reserved by holding the UDP port of the same number until this interpreter ends:
# several control planes can be started at the same moment without a conflict.
_HELD: list[socket.socket] = []


def free(count: int) -> list[int]:
    """`count` different ports that nobody listens on. Raises OSError when none are left."""
    chosen: list[int] = []
    for port in random.sample(_RANGE, len(_RANGE)):
        if len(chosen) == count:
            return chosen
        if _reserve(port):
            chosen.append(port)
    raise OSError("no free loopback port")


def _reserve(port: int) -> bool:
    held = socket.socket(type=socket.SOCK_DGRAM)
    try:
        held.bind(("127.0.0.1", port))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        held.close()
        return False
    _HELD.append(held)
    return True


@atexit.register
def _release() -> None:
    for held in _HELD:
        held.close()
