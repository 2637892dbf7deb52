"""The chart with a real cert-manager: it issues, injects and renews, and no request fails."""

import asyncio
import base64
import hashlib
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from e2e.flows.admission.webhook.conftest import NAMESPACE as TEAM
from e2e.flows.admission.webhook.load import Load
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.controlplane.build import sources
from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.controlplane.process import Process
from e2e.harness.deployments import Deployments
from e2e.harness.endpoint_slices import SLICES
from e2e.harness.running import started
from e2e.harness.support import definitions
from e2e.harness.support.binaries import binary
from e2e.harness.support.rest import MERGE_PATCH, Rest
from e2e.harness.support.waiting import eventually
from e2e.install.chart.helm import NAMESPACE, Object
from e2e.install.chart.release import Release
from e2e.install.chart.test_release import bundles

MODULE = "github.com/cert-manager/cert-manager"
VALUES: Object = {"certificates": {"provider": "cert-manager"}}
CERTIFICATE = f"/apis/cert-manager.io/v1/namespaces/{NAMESPACE}/certificates/muster-webhook"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/muster-webhook-tls"
SHORT: Object = {"spec": {"duration": "4m", "renewBefore": "3m30s"}}
"""A renewal every 30 s; the processes check their files as often."""
RATE = 20.0

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def cluster(server_kind: str) -> Iterator[Cluster]:
    """A separate cluster: cert-manager writes cluster-scoped configurations and CRDs."""
    if server_kind != "real":
        pytest.skip("cert-manager runs beside a real control plane: run with --cluster=real")
    for name in ("helm", "cert-manager"):
        binary(name)
    made = ControlPlane(Options(routes_services=True))
    with started(made):
        yield made


@pytest.fixture
async def cert_manager(cluster: Cluster, rest: Rest, tmp_path: Path) -> AsyncIterator[Process]:
    crds = sources()[MODULE] / "deploy" / "crds"
    await definitions.apply_files(rest, *sorted(crds.glob("*.yaml")))
    access = f"--kubeconfig={cluster.kubeconfig}"
    process = Process("cert-manager", [binary("cert-manager"), access], logs=tmp_path)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        print(process.log.read_text()[-5000:])


async def test_certificates_are_issued_injected_and_renewed_under_load(
    cluster: Cluster, rest: Rest, cert_manager: Process
) -> None:
    (await rest.post("/api/v1/namespaces", {"metadata": {"name": TEAM}})).expect(201)
    release = Release(cluster.kubeconfig, rest)
    await release.install(VALUES)
    await cluster.kinds_installed()
    async with Deployments(cluster) as deployments:
        try:
            await deployments.rolled_out()
            await injected(rest)
            served = await is_renewed(rest, set())
            load = Load(rest, RATE)
            running = asyncio.create_task(load.run())
            (await rest.patch(CERTIFICATE, SHORT, MERGE_PATCH)).ok()
            for _ in range(3):
                served |= await is_renewed(rest, served)
            load.stop()
            await running
            assert load.failures == []
            assert load.made > 30, "at least one in each second"
            await injected(rest)
            assert "Muster is stopped" in await release.uninstall()
        finally:
            print(deployments.logs())
    assert cert_manager.running


async def injected(rest: Rest) -> None:
    """Wait until API servers have exactly the certificate's CA."""

    async def same() -> bool:
        ca = (await rest.get(SECRET)).ok()["data"]["ca.crt"]
        return await bundles(rest) == {ca}

    await eventually(same, "the CA to be in the registration and the CRDs", 60)


async def is_renewed(rest: Rest, before: set[str]) -> set[str]:
    """Wait until the webhook serves another certificate, that of the Secret, and return it."""
    found = ""

    async def other() -> bool:
        nonlocal found
        found = await fingerprint(rest)
        held = base64.b64decode((await rest.get(SECRET)).ok()["data"]["tls.crt"]).decode()
        kept = hashlib.sha256(ssl.PEM_cert_to_DER_cert(held)).hexdigest()
        return found not in before and found == kept

    await eventually(other, "another certificate to be served", 180)
    return {found}


async def fingerprint(rest: Rest) -> str:
    """Return the fingerprint of the certificate of the one process behind the Service."""
    (one,) = (await rest.get(SLICES.format(namespace=NAMESPACE))).ok()["items"]
    address, port = one["endpoints"][0]["addresses"][0], one["ports"][0]["port"]
    shown = await asyncio.to_thread(ssl.get_server_certificate, (address, port))
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(shown)).hexdigest()
