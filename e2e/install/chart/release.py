"""A release in a cluster with simulated nodes: the pod of its hook runs as a local process.

The process has the arguments, the configuration and the account of the chart.
`e2e.harness.deployments` runs the Deployments.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

import yaml

from e2e.harness.support import accounts, kubeconfig
from e2e.harness.support.binaries import binary
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from e2e.install.chart.helm import CHART, NAMESPACE, RELEASE, Object, environment

DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CONFIGS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
HOOK = "app.kubernetes.io/name=muster-uninstall"

_MUSTER = (sys.executable, "-m", "cli")


class Release:
    """`helm` on one cluster."""

    def __init__(self, admin: Path, rest: Rest) -> None:
        self._admin = admin
        self._rest = rest
        self._folder = Path(tempfile.mkdtemp(prefix="muster-chart-"))

    async def install(self, values: Object, *, fails: bool = False) -> str:
        """Run `helm upgrade --install` and return its output."""
        file = self._folder / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        options = ("--install", "--create-namespace", f"--values={file}")
        return await self._helm("upgrade", RELEASE, str(CHART), *options, fails=fails)

    async def keep(self) -> None:
        """Run `helm rollback` to the last revision, because a rejected removal remains pending."""
        said = json.loads(await self._helm("history", RELEASE, "--output=json", fails=False))
        await self._helm("rollback", RELEASE, str(said[-1]["revision"]), fails=False)

    async def installed(self) -> bool:
        """Return True if `helm list` shows the release, in any state."""
        listed = json.loads(await self._helm("list", "--all", "--output=json", fails=False))
        return RELEASE in {one["name"] for one in listed}

    async def uninstall(self, *, fails: bool = False) -> str:
        """Run `helm uninstall`, and its hook as its Job specifies; return the output of both."""
        helm_says, hook_says = await asyncio.gather(
            self._helm("uninstall", RELEASE, "--timeout=180s", fails=fails), self._hook()
        )
        return f"{helm_says}\n{hook_says}"

    async def helm(self, *arguments: str) -> str:
        """Run another command, as users do."""
        return await self._helm(*arguments, fails=False)

    async def remove(self) -> str:
        """Run `helm uninstall` where the cluster runs the pod of its hook; return its output."""
        return await self._helm("uninstall", RELEASE, "--wait", "--timeout=300s", fails=False)

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

    async def _command(self, spec: Object) -> list[str]:
        """Return the command of a pod's container."""
        account = spec["serviceAccountName"]
        access = self._folder / f"{account}.kubeconfig"
        token = await accounts.token(self._rest, NAMESPACE, account)
        kubeconfig.derive(self._admin, access, token)
        (name,) = (it["configMap"]["name"] for it in spec["volumes"] if "configMap" in it)
        held = (await self._rest.get(f"{CONFIGS}/{name}")).ok()
        file = self._folder / f"{account}.yaml"
        file.write_text(held["data"]["muster.yaml"])
        here = {"--config=/etc/muster/muster.yaml": f"--config={file}"}
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
