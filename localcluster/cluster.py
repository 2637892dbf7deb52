"""The embedded cluster: one process that behaves like a Kubernetes cluster."""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from localcluster import snapshot
from localcluster.admission.calling import Caller
from localcluster.admission.conversion import Converter
from localcluster.admission.routing import Routing
from localcluster.admission.webhooks import Webhooks
from localcluster.base import tls
from localcluster.base.auth import Tokens
from localcluster.base.clock import Clock, SystemClock
from localcluster.base.faults import FaultPlan
from localcluster.base.hooks import DeleteOptions, Part, User
from localcluster.base.resources import BUILT_IN, CRDS, Registry, ResourceInfo
from localcluster.base.store import Store
from localcluster.controllers.garbage_collector import GarbageCollector
from localcluster.controllers.in_process import InProcess
from localcluster.controllers.jobsets.admission import JobSetAdmission
from localcluster.controllers.manager import ControllerManager
from localcluster.controllers.namespaces import NamespaceController
from localcluster.controllers.nodes import Nodes
from localcluster.custom.crd import CustomResources
from localcluster.definitions.jobset import jobset_crd
from localcluster.http import serving
from localcluster.http.audit import AuditLog
from localcluster.http.discovery import Discovery
from localcluster.http.openapi import AllDocuments, OpenApi
from localcluster.http.server import Application
from localcluster.rbac.authorizer import MASTERS
from localcluster.rbac.owners import OwnerPermissions
from localcluster.registry.api import Api
from localcluster.registry.bootstrap import bootstrap, complete_roles

ADMIN = "kubernetes-admin"


class LocalCluster:
    """An embedded cluster: start it, use `kubeconfig` with any client, stop it.

    Also an async context manager. `api` is the server without HTTP, `nodes` the simulated kubelets,
    `faults` the injected faults, `tokens` the known users. `services` maps webhook Services
    (namespace, name) to stand-in addresses (host, port); other Services resolve by their
    EndpointSlices.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        history: int = 20_000,
        bookmark_every: float = 10.0,
        grace_cap: float = 0.05,
        jobset: bool = True,
        jobset_scaling: bool = False,
        audit_log: Path | None = None,
        saved: Path | None = None,
    ) -> None:
        """Create an empty cluster; nothing runs yet.

        `history` is the number of events of each kind that a watch can resume over.
        `bookmark_every` and `grace_cap` (the longest that a deleted pod takes to stop) are in
        seconds. `jobset` installs JobSet; `jobset_scaling` lets JobSets change their sizes, which
        JobSet v0.11.0 rejects. `audit_log` is a file that gets a line for each request. `saved` is
        a file that the cluster loads at the start, if it exists, and writes when it stops.
        """
        self.clock = clock or SystemClock()
        self.faults = FaultPlan()
        self.tokens = Tokens()
        self.services: dict[tuple[str, str], tuple[str, int]] = {}
        self.url = ""
        self.ca = b""
        self._kubeconfig: Path | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._listener: serving.Listener | None = None
        self._has_jobset = jobset
        self._saved = saved
        self._server: snapshot.Certificate | None = None
        store, registry = Store(history=history), Registry(BUILT_IN)
        custom = CustomResources(store, registry, self.clock)
        routing = Routing(store, self.services)
        converter = Converter(store, Caller(routing), custom.trim)
        self.api = Api(
            store=store,
            registry=registry,
            clock=self.clock,
            schemas=custom,
            tokens=self.tokens,
            converter=converter,
            bookmark_every=bookmark_every,
        )
        custom.attach(self._delete)
        self.api.admission.append(custom.hold)
        self.api.admission.append(OwnerPermissions(self.api.authorizer, registry))
        webhooks = Webhooks(store, registry, routing, converter)
        if jobset:
            self.api.admission.append(JobSetAdmission(scaling=jobset_scaling))
        self.api.admission.append(webhooks)
        manager = ControllerManager(
            InProcess(self.api), self.clock, grace_cap=grace_cap, jobset_scaling=jobset_scaling
        )
        self._parts: list[Part] = [
            custom,
            webhooks,
            GarbageCollector(self.api),
            NamespaceController(self.api),
            manager,
        ]
        self.manager = manager
        documents = AllDocuments(Discovery(registry), OpenApi(registry, custom))
        self._audit = AuditLog(audit_log) if audit_log else None
        self._application = Application(self.api, documents, self.faults, self._audit)

    @property
    def nodes(self) -> Nodes:
        """The simulated kubelets."""
        return self.manager.nodes

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig. Raises RuntimeError before the start."""
        if self._kubeconfig is None:
            raise RuntimeError("the cluster has not been started")
        return self._kubeconfig

    async def start(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        kubeconfig: Path | None = None,
        token_files: Iterable[Path] = (),
    ) -> None:
        """Start the cluster.

        When this returns, all parts run and the port (0: any) accepts requests. Writes the
        kubeconfig to the given path, or into a folder that is deleted with the cluster. Raises
        OSError if the port is in use.
        """
        try:
            await self._start(host, port, token_files)
        except BaseException:
            await self.stop()
            raise
        self._kubeconfig = kubeconfig or self._path / "kubeconfig"
        self.write_kubeconfig(self._kubeconfig, ADMIN, [MASTERS])

    async def _start(self, host: str, port: int, token_files: Iterable[Path]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="localcluster-")
        earlier = snapshot.load(self._saved) if self._saved else None
        files = self._certificate(host, earlier)
        self.ca = files.ca
        for path in token_files:
            self.tokens.load(path)
        if earlier is not None:
            earlier.restore(self.api.store, self.tokens)
            await complete_roles(self.api)
        else:
            await bootstrap(self.api)
            if self._has_jobset:
                await self.api.create(CRDS, jobset_crd())
        for part in self._parts:
            await part.start()
        self._listener = serving.Listener(self._application, files)
        bound = await self._listener.start(host, port)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"https://{shown}:{bound}"

    def _certificate(self, host: str, earlier: snapshot.Snapshot | None) -> tls.ServerFiles:
        now = self.clock.now()
        files = earlier.files(self._path, host, now) if earlier else None
        if earlier is not None and files is not None:
            self._server = earlier.server
            return files
        files = tls.make(self._path, now, host=host)
        certificate, key = files.certificate.read_text(), files.key.read_text()
        self._server = snapshot.Certificate(host, now, certificate, key, files.ca.decode())
        return files

    @property
    def _path(self) -> Path:
        if self._folder is None:
            raise RuntimeError("the cluster has not been started")
        return Path(self._folder.name)

    def write_kubeconfig(self, path: Path, user: str, groups: Iterable[str] = ()) -> None:
        """Create a token for a user and write a kubeconfig with it."""
        text = serving.kubeconfig(self.url, self.ca, self.tokens.add(user, groups))
        serving.write_private(path, text)

    def expire_history(self) -> None:
        """Drop the history: running watches and requests for older revisions get 410."""
        self.api.expire()

    async def stop(self) -> None:
        """Stop all parts; raises the errors that they failed with."""
        self.api.close_watches()
        if self._listener is not None:
            await self._listener.stop()
        for part in reversed(self._parts):
            await part.stop()
        await self.api.converter.close()
        if self._saved is not None and self._server is not None and self.url:
            snapshot.save(self._saved, self.api.store, self.tokens, self._server)
        if self._audit is not None:
            self._audit.close()
        if self._folder is not None:
            self._folder.cleanup()

    async def __aenter__(self) -> Self:
        """Start the cluster on any free port."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the cluster."""
        await self.stop()

    async def _delete(self, info: ResourceInfo, name: str, namespace: str) -> None:
        user = User("system:apiserver", (MASTERS,))
        await self.api.remove(info, name, namespace, user=user, options=DeleteOptions())
