"""Three etcd members and three API servers on loopback, behind a load balancer."""

import asyncio
import contextlib
import shutil
import signal
import ssl
from dataclasses import replace
from functools import partial
from pathlib import Path

from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.high_availability import members
from e2e.harness.high_availability.health import Health
from e2e.harness.high_availability.members import Member
from e2e.harness.support import kubeconfig, pki
from e2e.harness.support.forwarder import Forwarder
from e2e.harness.support.pki import Pki
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import UNREACHABLE, answers

_PROBE_TIMEOUT = 3.0
"""Seconds after which the load balancer gives no new connections to a server."""
_READY_SECONDS = 180.0


class ThreeServers(ControlPlane):
    """A control plane of three members; the other processes are as in `ControlPlane`.

    Its processes are "etcd-0" to "etcd-2" and "kube-apiserver-0" to "kube-apiserver-2". Clients
    reach the API servers by links, which forward to those that are ready: the kubeconfig by one
    that all share, and a client that is cut alone by `new_link`. Links run in the event loop that
    called `start`.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        folder: Path | None = None,
        logs: Path | None = None,
    ) -> None:
        super().__init__(options, folder=folder, logs=logs)
        self.members = members.members(self.folder)
        self._health = Health(
            {each.apiserver: partial(self._says_ready, each) for each in self.members}
        )
        self._links: list[Forwarder] = [each.link for each in self.members]
        self._authorities: list[Pki] = []
        self.balancer = self._new_link()
        self._layout = replace(self._layout, apiserver=self.balancer.port)

    @property
    def audit_log(self) -> Path:
        """The audit log of the first API server; each member has its own."""
        return self.members[0].audit_log

    async def new_link(self) -> Forwarder:
        """Start a link to the API servers for one client; it ends with the control plane."""
        made = self._new_link()
        await made.start()
        return made

    async def stop(self) -> None:
        await self._health.stop()
        await super().stop()
        await asyncio.gather(*(link.stop() for link in self._links))

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process, SIGSTOP and SIGCONT for instance."""
        self.processes[name].send(number)

    async def restart(self, name: str) -> None:
        """Start one process again after `kill`, on the same port with the same data."""
        for member in self.members:
            if name == member.server:
                self.processes[name].start()
                await self.ready(member)
                return
        await super().restart(name)

    async def ready(self, member: Member) -> None:
        """Wait until a member's API server serves. Raises ProcessFailedError."""
        serves = partial(self._answers, member)
        await self.processes[member.server].ready(serves, timeout=_READY_SECONDS)

    def is_ready(self, member: Member) -> bool:
        """Return True if the load balancer gives new connections to the member's API server."""
        return self._health(member.apiserver)

    async def stop_apiserver(self) -> None:
        for member in self.members:
            self.kill(member.server)

    async def start_apiserver(self) -> None:
        await asyncio.gather(*(self.restart(member.server) for member in self.members))

    async def snapshot(self, folder: Path) -> None:
        """Copy the data of all etcd members to `folder`, as of one moment.

        They stand still meanwhile, so that each copy is as after a power loss.
        """
        shutil.rmtree(folder, ignore_errors=True)
        self._signal_etcd(signal.SIGSTOP)
        try:
            for member in self.members:
                await asyncio.to_thread(shutil.copytree, member.data, folder / member.etcd)
        finally:
            self._signal_etcd(signal.SIGCONT)

    async def restore(self, folder: Path) -> None:
        """Replace the data of all etcd members by a snapshot. They are stopped afterwards."""
        for member in self.members:
            self.kill(member.server)
            self.kill(member.etcd)
            shutil.rmtree(member.data)
            await asyncio.to_thread(shutil.copytree, folder / member.etcd, member.data)

    async def start_restored(self) -> None:
        """Start the etcd members and the API servers again after `restore`."""
        for member in self.members:
            self.processes[member.etcd].start()
        await self.start_apiserver()

    @property
    def authority(self) -> bytes:
        """The PEM of the CA of the API servers' certificate."""
        return self._authorities[0].ca_pem

    @property
    def authorities(self) -> bytes:
        """The PEM of that CA and of the next one."""
        return b"".join(each.ca_pem for each in self._authorities)

    def rotate_authority(self) -> None:
        """Give all API servers the certificate of the next CA, and make the current one the next.

        They load it within a minute, and use it for new connections. The kubeconfig trusts both.
        """
        self._authorities.reverse()
        self._serve_certificate()

    async def uses_authority(self, member: Member) -> bool:
        """Return True if a member's API server has the certificate of the current CA."""
        context = ssl.create_default_context(cadata=self.authority.decode())
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT):
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", member.apiserver, ssl=context
                )
        except (OSError, TimeoutError):
            return False
        writer.transport.abort()
        return True

    def _new_link(self) -> Forwarder:
        ports = [member.apiserver for member in self.members]
        made = Forwarder(*ports, healthy=self._health)
        self._links.append(made)
        return made

    async def _start_servers(self) -> None:
        await asyncio.gather(*(link.start() for link in self._links))
        for member in self.members:
            member.folder.mkdir(parents=True)
            self._run(member.etcd, members.etcd(self._layout, member, self.members))
        for member in self.members:
            command = members.apiserver(self._layout, self.options, member)
            self._run(member.server, command)
        await asyncio.gather(*map(self.ready, self.members))
        self._health.start()

    def _write_files(self) -> None:
        super()._write_files()
        folders = (self.folder / "authority-0", self.folder / "authority-1")
        self._authorities = [pki.issue(folder) for folder in folders]
        self._serve_certificate()
        access = kubeconfig.read(self.kubeconfig)
        assert access.token is not None
        kubeconfig.write(
            self.kubeconfig, server=self.server, ca_pem=self.authorities, token=access.token
        )

    def _serve_certificate(self) -> None:
        """Copy the certificate and the key to where the API servers read them."""
        now = self._authorities[0]
        certificate, key = members.serving(self.folder)
        certificate.parent.mkdir(exist_ok=True)
        shutil.copyfile(now.key, key)
        shutil.copyfile(now.certificate, certificate)

    async def _answers(self, member: Member) -> bool:
        return await answers(self._direct(member))

    def _direct(self, member: Member) -> Rest:
        """Return a client of one member's API server, without a link."""
        return Rest(replace(kubeconfig.read(self.kubeconfig), server=member.url))

    async def _says_ready(self, member: Member) -> bool:
        with contextlib.suppress(*UNREACHABLE):
            async with self._direct(member) as rest:
                return (await rest.get("/readyz", timeout=_PROBE_TIMEOUT)).status == 200
        return False

    def _signal_etcd(self, number: signal.Signals) -> None:
        for member in self.members:
            self.send(member.etcd, number)
