"""Addresses of the nodes, and the links between their network namespaces.

The bridge is in the namespace of the first node. This machine has one link to it, which ends with
that namespace. All addresses are of the network for benchmarks, which nothing else uses.
"""

import contextlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

LINK = "muster-nodes"
"""The link of this machine."""
SERVICES = "198.19.0.0/24"
API_SERVICE = "198.19.0.1"
PODS = "198.18.128.0/17"
_BRIDGE = "nodes"
_HERE = "198.18.0.254/24"


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of a node: its own, and the network of its pods."""

    node: str
    pods: str

    @classmethod
    def of(cls, number: int) -> "Addresses":
        return cls(f"198.18.0.{number + 1}", f"198.18.{128 + number}.0/24")


def connect_first(pid: int, own: Addresses) -> None:
    """Create the bridge in the namespace of the first node, and the link of this machine."""
    _ip(
        pid,
        "link set lo up",
        f"link add {_BRIDGE} type bridge",
        f"address add {own.node}/24 dev {_BRIDGE}",
        f"link set {_BRIDGE} up",
        f"link add here type veth peer name {LINK} netns {os.getpid()}",
        f"link set here master {_BRIDGE} up",
    )
    _ip(
        None,
        f"address add {_HERE} dev {LINK}",
        f"link set {LINK} up",
        f"route add {SERVICES} via {own.node}",
    )


def connect(pid: int, own: Addresses, first: int) -> None:
    """Connect the namespace of a node to the bridge of the first."""
    link = f"to-{own.node.rpartition('.')[2]}"
    with contextlib.suppress(RuntimeError):  # that of its last life may not be deleted yet
        _ip(first, f"link delete {link}")
    _ip(
        first,
        f"link add {link} type veth peer name eth0 netns {pid}",
        f"link set {link} master {_BRIDGE} up",
    )
    _ip(pid, "link set lo up", f"address add {own.node}/24 dev eth0", "link set eth0 up")


def route(pid: int, others: list[Addresses]) -> None:
    """Route the pods of other nodes, and all else, such as Services, to this machine.

    Nothing arrives here: kube-proxy changes the address, but only of what has a route.
    """
    gateway = _HERE.partition("/")[0]
    pods = (f"route add {other.pods} via {other.node}" for other in others)
    _ip(pid, f"route add default via {gateway}", *pods)


def disconnect() -> None:
    """Delete the link of this machine, if it exists."""
    if is_connected():
        _ip(None, f"link delete {LINK}")


def is_connected() -> bool:
    return Path(f"/sys/class/net/{LINK}").exists()


def _ip(pid: int | None, *commands: str) -> None:
    """Run commands of `ip` in the network namespace of a process, or in that of this one."""
    inside = ["nsenter", f"--net=/proc/{pid}/ns/net"] if pid is not None else []
    done = subprocess.run(
        [*inside, "ip", "-batch", "-"],
        input="\n".join(commands),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"ip: {'; '.join(commands)}: {done.stderr}")
