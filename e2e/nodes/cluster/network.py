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
MTU = 1450
"""The largest packet of a pod: a tunnel adds 50 bytes to it."""
_BRIDGE = "nodes"
_TUNNEL = "tunnel"
_HERE = "198.18.0.254/24"


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of a node: its own, the network of its pods, and its tunnel's in that."""

    node: str
    pods: str
    tunnel: str
    hardware: str
    """The hardware address of the tunnel."""

    @classmethod
    def of(cls, number: int) -> "Addresses":
        pods = f"198.18.{128 + number}.0"
        return cls(f"198.18.0.{number + 1}", f"{pods}/24", pods, f"02:00:00:00:00:{number:02x}")


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


def route(pid: int, own: Addresses, others: list[Addresses]) -> None:
    """Send packets to pods of other nodes through a VXLAN tunnel, as flannel does.

    So what a node itself sends to them has the tunnel's address. All else, such as Services, is
    routed to this machine. Nothing arrives here: kube-proxy changes the address, but only of what
    has a route.
    """
    gateway = _HERE.partition("/")[0]
    _ip(
        pid,
        f"route add default via {gateway}",
        f"link add {_TUNNEL} mtu {MTU} type vxlan id 1 local {own.node} dstport 8472 nolearning",
        f"link set {_TUNNEL} address {own.hardware} up",
        f"address add {own.tunnel}/32 dev {_TUNNEL}",
        *(
            f"neighbour add {it.tunnel} lladdr {it.hardware} dev {_TUNNEL} nud permanent"
            for it in others
        ),
        *(f"route add {it.pods} via {it.tunnel} dev {_TUNNEL} onlink" for it in others),
    )
    entries = (f"fdb append {it.hardware} dev {_TUNNEL} dst {it.node}" for it in others)
    _run(pid, "bridge", *entries)


def disconnect() -> None:
    """Delete the link of this machine, if it exists."""
    if is_connected():
        _ip(None, f"link delete {LINK}")


def is_connected() -> bool:
    return Path(f"/sys/class/net/{LINK}").exists()


def _ip(pid: int | None, *commands: str) -> None:
    """Run commands of `ip` in the network namespace of a process, or in that of this one."""
    _run(pid, "ip", *commands)


def _run(pid: int | None, program: str, *commands: str) -> None:
    inside = ["nsenter", f"--net=/proc/{pid}/ns/net"] if pid is not None else []
    done = subprocess.run(
        [*inside, program, "-batch", "-"],
        input="\n".join(commands),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{program}: {'; '.join(commands)}: {done.stderr}")
