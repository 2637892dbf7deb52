"""Three etcd members and three API servers on loopback, behind a load balancer."""

import asyncio
import contextlib
import shutil
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.high_availability import members
from e2e.harness.high_availability.members import Member
from e2e.harness.support import kubeconfig, pki
from e2e.harness.support.forwarder import Forwarder
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import UNREACHABLE, answers

_PROBE_SECONDS = 1.0
_PROBE_TIMEOUT = 3.0
"""Seconds after which the load balancer gives no new connections to a server."""
_READY_SECONDS = 180.0


class ThreeServers(ControlPlane):
    """A control plane of three members; the other processes are as in `ControlPlane`.

    Its processes are "etcd-0" to "etcd-2" and "kube-apiserver-0" to "kube-apiserver-2". Clients
    reach the API servers by links, which forward to those that are ready: the kubeconfig by one
    that all share, and whoever shall be cut alone by `new_link`. Links run in the event loop that
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
        self._unready: set[int] = set()
        self._probes: list[asyncio.Task[None]] = []
        self._links: list[Forwarder] = [each.link for each in self.members]
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
        for probe in self._probes:
            probe.cancel()
        await asyncio.gather(*self._probes, return_exceptions=True)
        self._probes.clear()
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
        return member.apiserver not in self._unready

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
        """Replace the data of all etcd members by a snapshot, with all API servers stopped."""
        for member in self.members:
            self.kill(member.server)
            self.kill(member.etcd)
            shutil.rmtree(member.data)
            await asyncio.to_thread(shutil.copytree, folder / member.etcd, member.data)
        for member in self.members:
            self.processes[member.etcd].start()
        await self.start_apiserver()

    def rotate_authority(self) -> bytes:
        """Give all API servers a certificate of a new CA; return the PEM of the old and the new.

        They load it within a minute, and use it for new connections.
        """
        before = (self.certificates / "ca.crt").read_bytes()
        issued = pki.issue(self.folder / "next")
        for name in ("tls.key", "tls.crt", "ca.crt"):
            shutil.copyfile(self.folder / "next" / name, self.certificates / name)
        return before + issued.ca_pem

    def _new_link(self) -> Forwarder:
        ports = [member.apiserver for member in self.members]
        made = Forwarder(*ports, healthy=lambda port: port not in self._unready)
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
        self._probes = [asyncio.ensure_future(self._probe(each)) for each in self.members]

    async def _answers(self, member: Member) -> bool:
        return await answers(self._direct(member))

    def _direct(self, member: Member) -> Rest:
        """Return a client of one member's API server, without a link."""
        return Rest(replace(kubeconfig.read(self.kubeconfig), server=member.url))

    async def _probe(self, member: Member) -> None:
        """Record if the API server is ready, as the health checks of a load balancer do."""
        while True:
            if await self._says_ready(member):
                self._unready.discard(member.apiserver)
            else:
                self._unready.add(member.apiserver)
            await asyncio.sleep(_PROBE_SECONDS)

    async def _says_ready(self, member: Member) -> bool:
        with contextlib.suppress(*UNREACHABLE):
            async with self._direct(member) as rest:
                return (await rest.get("/readyz", timeout=_PROBE_TIMEOUT)).status == 200
        return False

    def _signal_etcd(self, number: signal.Signals) -> None:
        for member in self.members:
            self.send(member.etcd, number)
