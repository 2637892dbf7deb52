"""A real control plane on loopback: started, disrupted and stopped by tests."""

import secrets
import shutil
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from e2e.harness.clusters.nodes import SimulatedNodes
from e2e.harness.controlplane import (
    build,
    commands,
    coscheduling,
    jobset,
    karpenter,
    lws,
    operators,
    trainer,
)
from e2e.harness.controlplane.commands import Layout, Options
from e2e.harness.controlplane.process import Process
from e2e.harness.support import kubeconfig, pki, ports
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import answers, healthy


class ControlPlane(SimulatedNodes):
    """etcd and kube-apiserver, and by `Options` controllers, KWOK, schedulers.

    Use it as an async context manager, or call `start` and `stop`. `folder` (temporary unless
    given) has its data, certificates and `kubeconfig`, and its logs unless `logs` is given.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        folder: Path | None = None,
        logs: Path | None = None,
    ) -> None:
        self.options = options or Options()
        self._temporary = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="muster-controlplane-"))
        self.logs = logs or self.folder / "logs"
        self._layout = Layout(self.folder, *ports.free(16))
        self.processes: dict[str, Process] = {}
        self._pki: pki.Pki | None = None

    @property
    def kubeconfig(self) -> Path:
        return self._layout.kubeconfig

    @property
    def audit_log(self) -> Path:
        return self._layout.audit_log

    @property
    def certificates(self) -> Path:
        """The folder of ca.crt, tls.crt and tls.key."""
        return self._layout.certificates

    @property
    def server(self) -> str:
        return self._layout.server

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start everything and wait until it serves. Raises BuildError, ProcessFailedError."""
        chosen = self.options
        workloads = chosen.lws or chosen.trainer or chosen.kuberay or chosen.mpi
        build.build(neighbours=chosen.karpenter or chosen.coscheduling, workloads=workloads)
        self._write_files()
        await self._start_servers()
        if self.options.controllers:
            self._run(
                "kube-controller-manager", commands.controller_manager(self._layout, self.options)
            )
        if self.options.scheduler:
            self.start_scheduler()
        if self.options.kwok:
            module = build.sources()["sigs.k8s.io/kwok"]
            self._run("kwok", commands.kwok(self._layout, module))
        await self._start_others()

    async def _start_servers(self) -> None:
        """Start etcd and kube-apiserver, and wait until it serves."""
        self._run("etcd", commands.etcd(self._layout))
        self._run("kube-apiserver", commands.apiserver(self._layout, self.options))
        await self._apiserver_ready()

    async def _start_others(self) -> None:
        chosen = self.options
        for wanted, start in (
            (chosen.jobset, self._start_jobset),
            (chosen.lws, self._start_lws),
            (chosen.karpenter, self._start_karpenter),
            (chosen.trainer, self._start_trainer),
            (chosen.kuberay, self._start_kuberay),
            (chosen.mpi, self._start_mpi),
            (chosen.coscheduling, self._start_coscheduling),
        ):
            if wanted:
                await start()

    async def stop(self) -> None:
        """Kill every process, and remove the folder unless it was given."""
        for process in reversed(list(self.processes.values())):
            process.kill()
        self.processes.clear()
        if self.options.trainer:
            shutil.rmtree(trainer.CERTIFICATES, ignore_errors=True)
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def client(self) -> Rest:
        """Return a raw HTTP client with the admin's token."""
        return Rest.open(self.kubeconfig)

    def kill(self, name: str) -> None:
        """Send SIGKILL to one process: "etcd", "kube-apiserver", "jobset", ..."""
        self.processes[name].kill()

    async def restart(self, name: str) -> None:
        """Start one process again after `kill`, on the same port with the same data."""
        self.processes[name].start()
        if name == "kube-apiserver":
            await self._apiserver_ready()
        if name == "jobset":
            await self._jobset_ready()
        if name == "lws":
            await self._lws_ready()
        if name == "karpenter":
            await self._karpenter_ready()
        if name == "trainer":
            await self._trainer_ready()

    def controller_manager_page(self, path: str) -> str:
        """Return the URL of one of the controller manager's own pages, `/metrics` for instance."""
        return f"https://127.0.0.1:{self._layout.controller_manager}{path}"

    def start_scheduler(self) -> str:
        """Start kube-scheduler.

        Return the URL that responds with 200 once its caches are synced.
        """
        self._run("kube-scheduler", commands.scheduler(self._layout, self.options))
        return f"https://127.0.0.1:{self._layout.scheduler}/readyz"

    async def stop_apiserver(self) -> None:
        self.kill("kube-apiserver")

    async def start_apiserver(self) -> None:
        await self.restart("kube-apiserver")

    async def kinds_installed(self) -> None:
        """Restart the controller manager, so that its garbage collector discovers the kinds."""
        if self.options.controllers:
            self.kill("kube-controller-manager")
            await self.restart("kube-controller-manager")

    async def leave_namespace(self, name: str) -> None:
        """Do nothing: the namespace ends with the control plane."""

    def _run(self, name: str, command: Sequence[str | Path]) -> None:
        process = Process(name, command, logs=self.logs)
        self.processes[name] = process
        process.start()

    def _write_files(self) -> None:
        self._pki = pki.issue(self._layout.certificates)
        (self._layout.certificates / "sa.key").write_bytes(pki.key_pem(pki.new_key()))
        token = secrets.token_hex(16)
        (self.folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
        kubeconfig.write(self.kubeconfig, server=self.server, ca_pem=self._pki.ca_pem, token=token)

    async def _apiserver_ready(self) -> None:
        await self.processes["kube-apiserver"].ready(self._serves, timeout=180)

    async def _serves(self) -> bool:
        # No other server has the certificate, so any response proves that ours is running.
        return await answers(self.client())

    async def _start_jobset(self) -> None:
        assert self._pki is not None
        module = build.sources()["sigs.k8s.io/jobset"]
        configuration = self.folder / "jobset.yaml"
        port = self._layout.jobset_webhook
        configuration.write_text(
            yaml.safe_dump(jobset.configuration(port=port, certificates=self._layout.certificates))
        )
        async with self.client() as rest:
            await jobset.apply_crd(rest, module, gang_config=self.options.gang_config)
            self._run("jobset", commands.jobset(self._layout, configuration))
            await self._jobset_ready()
            await jobset.register_webhooks(rest, module, port=port, ca_pem=self._pki.ca_pem)

    async def _jobset_ready(self) -> None:
        await self.processes["jobset"].ready(self._jobset_serves, timeout=180)

    async def _jobset_serves(self) -> bool:
        return await healthy(f"http://127.0.0.1:{self._layout.jobset_health}/readyz")

    async def _start_lws(self) -> None:
        assert self._pki is not None
        module = build.sources()["sigs.k8s.io/lws"]
        configuration = self.folder / "lws.yaml"
        configuration.write_text(yaml.safe_dump(lws.configuration(self._layout)))
        async with self.client() as rest:
            await lws.apply_crd(rest, module)
            self._run("lws", commands.lws(self._layout, configuration))
            await self._lws_ready()
            port = self._layout.lws_webhook
            await lws.register_webhooks(rest, module, port=port, ca_pem=self._pki.ca_pem)

    async def _lws_ready(self) -> None:
        await self.processes["lws"].ready(self._lws_serves, timeout=180)

    async def _lws_serves(self) -> bool:
        return await healthy(f"http://127.0.0.1:{self._layout.lws_health}/readyz")

    async def _start_karpenter(self) -> None:
        instance_types = karpenter.write_instance_types(self.folder)
        async with self.client() as rest:
            await karpenter.apply_crds(rest, build.sources()["sigs.k8s.io/karpenter"])
        self._run("karpenter", commands.karpenter(self._layout, instance_types))
        await self._karpenter_ready()

    async def _karpenter_ready(self) -> None:
        await self.processes["karpenter"].ready(self._karpenter_serves, timeout=180)

    async def _karpenter_serves(self) -> bool:
        return await healthy(f"http://127.0.0.1:{self._layout.karpenter_health}/readyz")

    async def _start_trainer(self) -> None:
        async with self.client() as rest:
            module = build.sources()[trainer.MODULE]
            await trainer.prepare(rest, module)
        trainer.write_certificates(self._layout.certificates)
        self._run("trainer", commands.trainer(self._layout))
        await self._trainer_ready()

    async def _start_kuberay(self) -> None:
        async with self.client() as rest:
            await operators.prepare_kuberay(rest, build.sources()[operators.KUBERAY_MODULE])
        self._run("kuberay", commands.kuberay(self._layout))
        health = f"http://127.0.0.1:{self._layout.kuberay_health}/readyz"
        await self.processes["kuberay"].ready(partial(healthy, health), timeout=180)

    async def _start_mpi(self) -> None:
        async with self.client() as rest:
            await operators.prepare_mpi(rest, build.sources()[operators.MPI_MODULE])
        self._run("mpi-operator", commands.mpi(self._layout))
        serves = partial(healthy, operators.MPI_HEALTH)
        await self.processes["mpi-operator"].ready(serves, timeout=180)

    async def _start_coscheduling(self) -> None:
        async with self.client() as rest:
            await coscheduling.apply_crds(rest, build.sources()[coscheduling.MODULE])
        controller = "coscheduling-controller"
        self._run("coscheduling-scheduler", commands.coscheduling_scheduler(self._layout))
        self._run(controller, commands.coscheduling_controller(self._layout))
        health = f"http://127.0.0.1:{self._layout.coscheduling_health}/readyz"
        await self.processes[controller].ready(partial(healthy, health), timeout=180)

    async def _trainer_ready(self) -> None:
        await self.processes["trainer"].ready(self._trainer_serves, timeout=180)

    async def _trainer_serves(self) -> bool:
        return await healthy(f"http://127.0.0.1:{self._layout.trainer_health}/readyz")
