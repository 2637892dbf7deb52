"""Three replicas of each process of Muster, each with a link, a token and a clock of its own."""

import base64
import json
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from e2e.harness.high_availability.health import Health
from e2e.harness.high_availability.members import COUNT
from e2e.harness.high_availability.servers import ThreeServers
from e2e.harness.muster import ALL, CONFIG, CONTROLLER, NAMESPACE, SCHEDULER, WEBHOOK, Muster
from e2e.harness.support import accounts, kubeconfig, ports, shifted_clock
from e2e.harness.support.forwarder import BOTH, Direction, Forwarder
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import healthy

_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/muster-"


def names(process: str) -> tuple[str, ...]:
    """Return the names of the replicas of a process: "scheduler-0" and so on."""
    return tuple(f"{process}-{number}" for number in range(COUNT))


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica: its link to the API servers, and the folder of its credentials and its clock.

    `port` is a webhook's own port, to which the Service forwards.
    """

    name: str
    folder: Path
    link: Forwarder
    port: int | None = None

    @property
    def process(self) -> str:
        return self.name.partition("-")[0]

    @property
    def token(self) -> Path:
        return self.folder / "token"

    @property
    def authority(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def credential(self) -> str:
        """The identifier of its token in the audit log."""
        payload = self.token.read_text().split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return f"JTI={claims['jti']}"

    def step_clock(self, seconds: float) -> None:
        """Set how far its wall clock is ahead of the machine's."""
        shifted_clock.step(self.folder / "clock", seconds)


class Replicas:
    """The replicas on a control plane of three, by name; `muster` runs their processes.

    API servers reach the webhook's replicas through `service`.
    """

    def __init__(self, servers: ThreeServers, muster: Muster, folder: Path) -> None:
        self._servers = servers
        self._muster = muster
        self._folder = folder
        self.credentials: dict[str, str] = {}
        """The replica of each token that was created, by the identifier in the audit log."""
        self._all: dict[str, Replica] = {}
        webhooks = dict(zip(ports.free(COUNT), names(WEBHOOK), strict=True))
        self._health = Health(
            {port: partial(self._serves, name) for port, name in webhooks.items()}
        )
        self.service = Forwarder(*webhooks, healthy=self._health)
        self._ports = {name: port for port, name in webhooks.items()}

    def __getitem__(self, name: str) -> Replica:
        return self._all[name]

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._all.values())

    async def start(self) -> None:
        """Start all replicas of the installed Muster. Raises ProcessFailedError."""
        await self.service.start()
        async with Rest.open(self._servers.kubeconfig) as rest:
            for process in ALL:
                for name in names(process):
                    self._all[name] = await self._add(rest, name)
        # The first webhook creates the certificates that all of them use.
        await self._muster.start(names(WEBHOOK)[0])
        await self._muster.start(*names(WEBHOOK)[1:])
        self._health.start()
        await self._muster.start(*names(SCHEDULER), *names(CONTROLLER))

    async def stop(self) -> None:
        """End the Service; `muster` ends the processes."""
        await self._health.stop()
        await self.service.stop()

    async def renew_token(self, rest: Rest, name: str) -> None:
        """Give a replica a new token."""
        made = self._all[name]
        made.token.write_text(await accounts.token(rest, NAMESPACE, f"muster-{made.process}"))
        self.credentials[made.credential] = name

    async def leader(self, rest: Rest, process: str) -> str | None:
        """Return the replica that has the lease of its process; None if none has."""
        lease = await rest.get(f"{_LEASE}{process}", timeout=5)
        holder = (lease.ok()["spec"].get("holderIdentity") or "") if lease.status != 404 else ""
        running = filter(self._muster.running, names(process))
        return next((it for it in running if f"_{self._muster.pid(it)}_" in holder), None)

    def cut(
        self, name: str, *servers: int, directions: Sequence[Direction] = BOTH
    ) -> Callable[[], None]:
        """Cut a replica from all API servers or from those with these ports; return the reverse.

        A webhook is also cut from their calls, unless it is cut from some only.
        """
        replica = self._all[name]
        links = [(replica.link, servers)]
        if replica.port is not None and not servers:
            links.append((self.service, (replica.port,)))
        for link, targets in links:
            link.freeze(*targets, directions=directions)

        def heal() -> None:
            for link, targets in links:
                link.thaw(*targets)

        return heal

    def fill_disk(self, name: str) -> Callable[[], None]:
        """Let a replica's log grow no more, as on a full disk; return the reverse."""
        size = (self._muster.logs / f"{name}.log").stat().st_size
        pid, limit = self._muster.pid(name), resource.RLIMIT_FSIZE
        before = resource.prlimit(pid, limit)
        resource.prlimit(pid, limit, (size, before[1]))

        def heal() -> None:
            if self._muster.running(name) and self._muster.pid(name) == pid:
                resource.prlimit(pid, limit, before)

        return heal

    async def _add(self, rest: Rest, name: str) -> Replica:
        folder = self._folder / name
        folder.mkdir(parents=True)
        link = await self._servers.new_link()
        made = self._all[name] = Replica(name, folder, link, self._ports.get(name))
        made.authority.write_bytes(self._servers.authority)
        await self.renew_token(rest, name)
        server = f"https://127.0.0.1:{link.port}"
        access = kubeconfig.write_with_files(
            folder / "kubeconfig", server=server, authority=made.authority, token=made.token
        )
        clock = shifted_clock.wrapper(folder / "clock", 0)
        arguments = self._arguments(made)
        self._muster.add(name, made.process, access, arguments=arguments, wrapper=clock)
        return made

    def _arguments(self, made: Replica) -> list[str]:
        if made.process == SCHEDULER:
            return ["--debug"]
        if made.port is None:
            return []
        where = {"host": "127.0.0.1", "port": made.port}
        webhook = {**where, "certDir": str(self._folder / "webhook-certificates")}
        config: Mapping[str, object] = {**CONFIG, "webhook": webhook}
        file = made.folder / "muster.yaml"
        file.write_text(yaml.safe_dump(config))
        return ["--url", f"https://127.0.0.1:{self.service.port}", "--config", str(file)]

    async def _serves(self, name: str) -> bool:
        return name in self._all and await healthy(self._muster.page(name, "/readyz"))
