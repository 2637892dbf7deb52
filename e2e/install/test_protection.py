"""manifests/protection on a complete API server: accepted and effective."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness.clusters.protocol import Cluster
from e2e.harness.support import accounts, kubeconfig, manifests
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from e2e.kubernetes.apiserver.objects import Namespace

Object = dict[str, Any]

FOLDER = manifests.MANIFESTS / "protection"
PROTECTION = manifests.load(FOLDER)
QUOTAS: list[Object] = list(yaml.safe_load_all((FOLDER / "priority-quota.yaml").read_text()))
FLOW = [obj for obj in PROTECTION if obj["apiVersion"].startswith("flowcontrol.")]
LEVEL_HEADER = "X-Kubernetes-PF-PriorityLevel-UID"
STRICT = {"dryRun": "All", "fieldValidation": "Strict"}


@pytest.fixture(autouse=True)
def whole(server_kind: str) -> None:
    if server_kind == "local":
        pytest.skip("the embedded server serves none of these kinds")


@pytest.fixture
async def accounts_there(rest: Rest) -> None:
    kinds = {"Namespace", "ServiceAccount"}
    await manifests.create(rest, [obj for obj in manifests.load() if obj["kind"] in kinds])


@pytest.fixture
async def ns(rest: Rest) -> AsyncIterator[Namespace]:
    name = "protected"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    (await rest.post("/api/v1/namespaces", body)).expect(201)
    yield Namespace(name)
    await rest.delete(f"/api/v1/namespaces/{name}")


@pytest.mark.usefixtures("accounts_there")
@pytest.mark.parametrize(
    "obj", PROTECTION, ids=lambda obj: f"{obj['kind']} {obj['metadata']['name']}"
)
async def test_the_server_accepts_every_field(rest: Rest, obj: Object) -> None:
    (await rest.post(manifests.path_of(obj), obj, params=STRICT)).expect(201)


@pytest.mark.usefixtures("accounts_there")
async def test_muster_has_a_share_of_its_own_and_its_leases_another(
    rest: Rest, cluster: Cluster, tmp_path: Path
) -> None:
    levels = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
    await manifests.create(rest, FLOW)
    try:
        own, election = [
            (await rest.get(f"{levels}/{name}")).ok()["metadata"]["uid"]
            for name in ("muster", "leader-election")
        ]
        token = await accounts.token(rest, "muster-system", "muster-scheduler")
        kubeconfig.derive(cluster.kubeconfig, tmp_path / "config", token)
        async with Rest.open(tmp_path / "config") as scheduler:

            async def level(path: str) -> str | None:
                return (await scheduler.get(path)).headers.get(LEVEL_HEADER)

            async def settled() -> bool:
                return bool(await level("/api/v1/pods") == own)

            # Allowed or not: requests are classified before they are authorized.
            await eventually(settled, "requests to have Muster's own share", 60)
            leases = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases"
            assert await level(f"{leases}/muster-scheduler") == election
        assert (await rest.get("/api/v1/pods")).headers.get(LEVEL_HEADER) != own
    finally:
        for obj in reversed(FLOW):
            await rest.delete(f"{manifests.path_of(obj)}/{obj['metadata']['name']}")


async def test_a_quota_keeps_a_namespace_from_important_classes(rest: Rest, ns: Namespace) -> None:
    for quota in QUOTAS:
        (await rest.post(ns.core("resourcequotas"), quota)).expect(201)

    async def counted() -> bool:
        found = (await rest.get(ns.core("resourcequotas"))).ok()["items"]
        return all("used" in (quota.get("status") or {}) for quota in found)

    await eventually(counted, "the quotas to be in force", 60)
    refused = await rest.post(ns.core("pods"), pod("urgent", "system-node-critical"))

    assert refused.status == 403, refused.text
    assert "no-important-priorities" in refused.body["message"]
    (await rest.post(ns.core("pods"), pod("usual", ""))).expect(201)


def pod(name: str, priority_class: str) -> Object:
    spec: Object = {"containers": [{"name": "main", "image": "x"}]}
    if priority_class:
        spec["priorityClassName"] = priority_class
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
