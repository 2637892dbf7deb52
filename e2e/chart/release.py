"""A release in a cluster whose nodes only pretend: what its pods would run is run here.

The processes have the arguments, the configuration and the accounts that the chart gave them, and
so has the hook of the removal.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from e2e.chart.helm import CHART, NAMESPACE, RELEASE, Object, environment
from e2e.controlplane.process import Process
from e2e.support import accounts, kubeconfig, ports
from e2e.support.binaries import binary
from e2e.support.rest import Rest
from e2e.support.waiting import eventually, healthy
from e2e.webhook.balancer import Backend
from e2e.webhook.endpoint_slices import EndpointSlices

DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CONFIGS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
HOOK = "app.kubernetes.io/name=muster-uninstall"
PROCESSES = ("webhook", "controller", "scheduler")

_MUSTER = (sys.executable, "-m", "cli")


class Release:
    """`helm` on one cluster. Use it as an async context manager: its processes end with it."""

    def __init__(self, admin: Path, rest: Rest) -> None:
        self._admin = admin
        self._rest = rest
        self._folder = Path(tempfile.mkdtemp(prefix="muster-chart-"))
        self._processes: list[Process] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.kill()

    async def install(self, values: Object, *, fails: bool = False) -> str:
        """`helm upgrade --install`: what it says."""
        file = self._folder / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        options = ("--install", "--create-namespace", f"--values={file}")
        return await self._helm("upgrade", RELEASE, str(CHART), *options, fails=fails)

    async def keep(self) -> None:
        """`helm rollback` to the last revision, as a removal that was refused stays begun."""
        said = json.loads(await self._helm("history", RELEASE, "--output=json", fails=False))
        await self._helm("rollback", RELEASE, str(said[-1]["revision"]), fails=False)

    async def uninstall(self, *, fails: bool = False) -> str:
        """`helm uninstall`, whose hook is run as its Job says: what both say."""
        helm_says, hook_says = await asyncio.gather(
            self._helm("uninstall", RELEASE, "--timeout=180s", fails=fails), self._hook()
        )
        return f"{helm_says}\n{hook_says}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The three processes run, and API servers reach the webhook by its Service."""
        port, *health = ports.free(1 + len(PROCESSES))
        backend = Backend(port, f"http://127.0.0.1:{health[0]}/readyz")
        async with EndpointSlices(self._admin, NAMESPACE, "muster-webhook", [backend]):
            for name, own in zip(PROCESSES, health, strict=True):
                deployment = (await self._rest.get(f"{DEPLOYMENTS}/muster-{name}")).ok()
                command = await self._command(deployment["spec"]["template"]["spec"], port, own)
                process = Process(name, command, logs=self._folder / "logs")
                self._processes.append(process)
                process.start()
            for process, own in zip(self._processes, health, strict=True):
                url = f"http://127.0.0.1:{own}/readyz"
                await process.ready(lambda url=url: healthy(url), timeout=120)  # type: ignore[misc]
            await eventually(lambda: _is_ready(backend), "the webhook to be called", 60)
            yield

    def kill(self) -> None:
        """As the processes end when their Deployments go."""
        for process in self._processes:
            process.kill()
        self._processes.clear()

    async def _helm(self, *arguments: str, fails: bool) -> str:
        options = (f"--kubeconfig={self._admin}", f"--namespace={NAMESPACE}")
        code, said = await _output(str(binary("helm")), *arguments, *options, home=self._folder)
        assert (code != 0) == fails, said
        return said

    async def _hook(self) -> str:
        pod: Object = {}

        async def made() -> bool:
            nonlocal pod
            found = (await self._rest.get(PODS, params={"labelSelector": HOOK})).ok()["items"]
            pod = next((it for it in found if it["status"]["phase"] == "Pending"), {})
            return bool(pod)

        await eventually(made, "the hook's pod", 120)
        command = await self._command(pod["spec"])
        code, said = await _output(*command, home=self._folder)
        path = f"{PODS}/{pod['metadata']['name']}/status"
        phase = "Failed" if code else "Succeeded"
        (await self._rest.patch(path, {"status": {"phase": phase}})).ok()
        return said

    async def _command(self, spec: Object, port: int = 0, health: int = 0) -> list[str]:
        """What a pod's container would run; on one machine ports have to differ."""
        account = spec["serviceAccountName"]
        access = self._folder / f"{account}.kubeconfig"
        token = await accounts.token(self._rest, NAMESPACE, account)
        kubeconfig.derive(self._admin, access, token)
        (name,) = (it["configMap"]["name"] for it in spec["volumes"] if "configMap" in it)
        held = (await self._rest.get(f"{CONFIGS}/{name}")).ok()
        config: dict[str, Any] = yaml.safe_load(held["data"]["muster.yaml"])
        if port:
            config["webhook"] = config.get("webhook", {}) | {"port": port}
        file = self._folder / f"{account}.yaml"
        file.write_text(yaml.safe_dump(config))
        here = {
            "--config=/etc/muster/muster.yaml": f"--config={file}",
            "--health=0.0.0.0:8080": f"--health=127.0.0.1:{health}",
        }
        arguments = [here.get(it, it) for it in spec["containers"][0]["args"]]
        return [*_MUSTER, *arguments, f"--kubeconfig={access}"]


async def _output(*command: str, home: Path) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment(home),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def _is_ready(backend: Backend) -> bool:
    return backend.ready
