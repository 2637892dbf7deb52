"""Free loopback ports, each given to one caller only."""

import atexit
import random
import socket

# Below the kernel's range of local ports for outgoing connections, so that a server that is stopped
# and restarted finds its port free.
_RANGE = range(20000, 32000)

# A TCP port is reserved by binding the UDP port of the same number until this interpreter ends, so
# several control planes can be started at the same moment without a conflict.
_HELD: list[socket.socket] = []


def free(count: int) -> list[int]:
    """Return `count` different unused ports. Raises OSError if there are not enough."""
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
