"""Kueue's controller outside the cluster: its CRDs, configuration and webhooks, of its module."""

import asyncio
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from e2e.harness.controlplane import loopback
from e2e.harness.controlplane.build import sources
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.controlplane.process import Process
from e2e.harness.support import definitions, ports
from e2e.harness.support.binaries import binary
from e2e.harness.support.waiting import healthy

_MODULE = "sigs.k8s.io/kueue"
_COMPONENTS = Path("config/components")
_METRICS_CERTIFICATES = "kueue/metrics/certs"
"""The folder below /etc from which it reads certificates; it cannot be configured."""
_VERSION = "kueue.x-k8s.io/v1beta2"
_CLASSES = f"/apis/{_VERSION}/workloadpriorityclasses"
CLASSES = {"high": 1000, "low": 10}
"""The WorkloadPriorityClasses, with their values."""
FRAMEWORKS = ("batch/job", "jobset.x-k8s.io/jobset")
"""The kinds that it manages."""


@contextmanager
def running(cluster: ControlPlane, folder: Path, **config: Any) -> Iterator[Process]:
    """Run it until the end of the block; `config` has further fields of its configuration.

    Its objects have one version here, v1beta2, so that no conversion is needed.
    """
    webhook, health = ports.free(2)
    file = folder / "kueue.yaml"
    file.write_text(yaml.safe_dump(_configuration(cluster.certificates, webhook, health, config)))
    arguments = (f"--kubeconfig={cluster.kubeconfig}", f"--config={file}")
    command: list[str | Path] = [
        binary("kueue"),
        *arguments,
        "--feature-gates=VisibilityOnDemand=false",
    ]
    process = Process(
        "kueue", _with_certificates(cluster.certificates, folder, command), logs=folder
    )
    try:
        asyncio.run(_start(cluster, process, webhook, health))
        yield process
    finally:
        process.kill()


def _configuration(
    certificates: Path, webhook: int, health: int, more: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": webhook, "certDir": str(certificates)},
        "clientConnection": {"qps": 1000, "burst": 2000},
        "integrations": {"frameworks": list(FRAMEWORKS)},
        **more,
    }


def _with_certificates(certificates: Path, folder: Path, command: list[str | Path]) -> list[str]:
    """Return a command that runs this one with an /etc of its own.

    The machine's /etc stays as it is. Mounts need root, in a user namespace if nowhere else.
    """
    own = folder / "etc"
    place = own / _METRICS_CERTIFICATES
    place.mkdir(parents=True, exist_ok=True)
    for name in ("tls.crt", "tls.key"):
        (place / name).write_bytes((certificates / name).read_bytes())
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    run = shlex.join(map(str, command))
    script = f"mount --bind {shlex.quote(str(own))} /etc && exec {run}"
    return ["unshare", *user, "--mount", "sh", "-c", script]


async def _start(cluster: ControlPlane, process: Process, webhook: int, health: int) -> None:
    module = sources()[_MODULE]
    crds = (module / _COMPONENTS / "crd" / "bases").glob("*.yaml")
    async with cluster.client() as rest:
        await definitions.apply_files(rest, *sorted(crds))
        process.start()
        ready = partial(healthy, f"http://127.0.0.1:{health}/readyz")
        await process.ready(ready, timeout=180)
        manifest = (module / _COMPONENTS / "webhook" / "manifests.yaml").read_text()
        authority = (cluster.certificates / "ca.crt").read_bytes()
        target = loopback.Target("kueue", "kueue.x-k8s.io/managed", webhook, authority)
        await loopback.register(rest, manifest, target)
        for name, value in CLASSES.items():
            body = {"apiVersion": _VERSION, "kind": "WorkloadPriorityClass", "value": value}
            (await rest.post(_CLASSES, {**body, "metadata": {"name": name}})).expect(201)
