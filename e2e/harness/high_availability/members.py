"""The members of a control plane: each has an etcd, and a kube-apiserver that uses that etcd."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from e2e.harness.controlplane import commands
from e2e.harness.controlplane.commands import Layout, Options
from e2e.harness.support import ports
from e2e.harness.support.forwarder import Forwarder

COUNT = 3
_HEARTBEAT_MS, _ELECTION_MS = 300, 3000
"""Three times the defaults of etcd: the members share this machine's processors."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member: its folder, its ports, and the link from its API server to its etcd."""

    number: int
    folder: Path
    etcd_client: int
    etcd_peer: int
    apiserver: int
    link: Forwarder

    @property
    def etcd(self) -> str:
        """The name of its etcd process."""
        return f"etcd-{self.number}"

    @property
    def server(self) -> str:
        """The name of its kube-apiserver process."""
        return f"kube-apiserver-{self.number}"

    @property
    def data(self) -> Path:
        """The folder of its etcd's data."""
        return self.folder / "etcd"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    @property
    def url(self) -> str:
        """The address of its API server, without the load balancer."""
        return f"https://127.0.0.1:{self.apiserver}"


def members(folder: Path) -> list[Member]:
    """Return the members of a control plane whose files are in `folder`."""
    made = []
    for number in range(COUNT):
        client, peer, apiserver = ports.free(3)
        own = folder / f"member-{number}"
        made.append(Member(number, own, client, peer, apiserver, Forwarder(client)))
    return made


def etcd(layout: Layout, member: Member, everyone: Sequence[Member]) -> list[str | Path]:
    """Return the command of a member's etcd."""
    own = replace(
        layout, folder=member.folder, etcd_client=member.etcd_client, etcd_peer=member.etcd_peer
    )
    cluster = ",".join(f"{each.etcd}=http://127.0.0.1:{each.etcd_peer}" for each in everyone)
    # Of an option that is given twice the last one counts.
    return [
        *commands.etcd(own),
        f"--name={member.etcd}",
        f"--initial-cluster={cluster}",
        f"--heartbeat-interval={_HEARTBEAT_MS}",
        f"--election-timeout={_ELECTION_MS}",
    ]


def apiserver(layout: Layout, options: Options, member: Member) -> list[str | Path]:
    """Return the command of a member's API server, which reaches its etcd through the link."""
    own = replace(layout, etcd_client=member.link.port, apiserver=member.apiserver)
    certificate, key = serving(layout.folder)
    return [
        *commands.apiserver(own, options),
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--audit-log-path={member.audit_log}",
        f"--apiserver-count={COUNT}",
    ]


def serving(folder: Path) -> tuple[Path, Path]:
    """Return the files of the API servers' certificate and key, which no other process uses."""
    return folder / "serving" / "tls.crt", folder / "serving" / "tls.key"
