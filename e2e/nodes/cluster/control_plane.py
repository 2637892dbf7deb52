"""etcd and the servers of Kubernetes, in the network namespace of the first node.

They are the binaries of `e2e.harness.controlplane`, as processes: what Muster sees of them is the
same as with static pods, and nothing else has to be built. The API server reaches webhooks as it
does elsewhere: by their Service, which kube-proxy of that node routes.
"""

import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from e2e.harness.controlplane.places import BIN
from e2e.harness.controlplane.process import Process
from e2e.harness.support import kubeconfig, pki
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import answers
from e2e.nodes.cluster.network import API_SERVICE, SERVICES, Addresses

_ADMIN = "admin"
_CONTROLLERS = "kube-controller-manager"
_KUBELET_CLIENT = "kubelet-client"


class ControlPlane:
    """The servers of one cluster; `folder` gets their data, certificates and logs."""

    def __init__(self, folder: Path, own: Addresses) -> None:
        self._folder = folder
        self._own = own
        self._server = f"https://{own.node}:6443"
        self._processes: list[Process] = []
        self._tokens: dict[str, tuple[str, str]] = {}
        self._pki = pki.issue(
            folder / "pki",
            addresses=(own.node, API_SERVICE),
            clients={_KUBELET_CLIENT: "system:masters"},
        )
        (folder / "pki" / "sa.key").write_bytes(pki.key_pem(pki.new_key()))
        self.kubeconfig = self.access(_ADMIN, "system:masters")

    @property
    def authority(self) -> Path:
        return self._pki.ca

    def access(self, user: str, group: str) -> Path:
        """Return a kubeconfig for a user of this group; only before `start`."""
        token = secrets.token_hex(16)
        self._tokens[user] = (token, group)
        path = self._folder / f"{user.replace(':', '-')}.kubeconfig"
        authority = self._pki.ca_pem
        return kubeconfig.write(path, server=self._server, ca_pem=authority, token=token)

    async def start(self, network: str) -> None:
        """Start all servers in a network namespace, and wait for the API server."""
        lines = [f'{token},{user},{user},"{group}"' for user, (token, group) in self._users()]
        (self._folder / "tokens.csv").write_text("\n".join(lines))
        inside = ["nsenter", f"--net={network}"]
        self._run("etcd", [*inside, *self._etcd()])
        apiserver = self._run("kube-apiserver", [*inside, *self._apiserver()])
        await apiserver.ready(partial(answers, Rest.open(self.kubeconfig)), timeout=180)
        self._run(_CONTROLLERS, [*inside, *self._controller_manager()])
        self._run("kube-scheduler", [*inside, *self._scheduler()])

    def stop(self) -> None:
        """Kill all servers."""
        for process in reversed(self._processes):
            process.kill()

    def _users(self) -> list[tuple[str, tuple[str, str]]]:
        return sorted(self._tokens.items())

    def _run(self, name: str, command: Sequence[str | Path]) -> Process:
        process = Process(name, command, logs=self._folder / "logs")
        self._processes.append(process)
        process.start()
        return process

    def _etcd(self) -> list[str | Path]:
        client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
        return [
            BIN / "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _apiserver(self) -> list[str | Path]:
        keys = self._folder / "pki"
        return [
            BIN / "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={self._own.node}",
            "--secure-port=6443",
            f"--cert-dir={self._folder / 'apiserver'}",
            f"--tls-cert-file={self._pki.certificate}",
            f"--tls-private-key-file={self._pki.key}",
            f"--client-ca-file={self._pki.ca}",
            f"--kubelet-client-certificate={keys / f'{_KUBELET_CLIENT}.crt'}",
            f"--kubelet-client-key={keys / f'{_KUBELET_CLIENT}.key'}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys / 'sa.key'}",
            f"--service-account-signing-key-file={keys / 'sa.key'}",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--service-cluster-ip-range={SERVICES}",
            "--allow-privileged=true",
        ]

    def _controller_manager(self) -> list[str | Path]:
        keys = self._folder / "pki"
        return [
            BIN / _CONTROLLERS,
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={keys / 'sa.key'}",
            f"--root-ca-file={self._pki.ca}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            f"--cert-dir={self._folder / 'controller-manager'}",
        ]

    def _scheduler(self) -> list[str | Path]:
        return [
            BIN / "kube-scheduler",
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            f"--cert-dir={self._folder / 'scheduler'}",
        ]
