"""examples/gitops: what GitOps tools apply repeatedly changes nothing after the first time."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness.support import manifests
from kube.client.client import Client
from localcluster.cluster import LocalCluster
from tests.support.dated_clock import DatedClock
from tests.webhooks.readiness import AwaitableReadiness
from tests.webhooks.server.test_by_service import SERVICE
from webhooks.app import WebhookConfig, run
from webhooks.server.registration import ServiceTarget
from webhooks.server.server import bound

Object = dict[str, Any]
Key = tuple[str, str]

ROOT = Path(__file__).resolve().parents[2]
TOOL = "gitops"
DEFINITION = "CustomResourceDefinition"
POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


def documents(path: str) -> dict[Key, Object]:
    found = yaml.safe_load_all((ROOT / "examples" / "gitops" / path).read_text())
    return {(it["kind"], it["metadata"]["name"]): it for it in found}


ARGO = documents("argocd/applications.yaml")
FLUX = documents("flux/muster.yaml")


def installed() -> list[Object]:
    """Return the objects in the order of both tools; the embedded server has no policies."""
    base = [it for it in manifests.load() if it["kind"] not in POLICIES]
    return sorted(base, key=lambda it: (it["kind"] != DEFINITION, it["kind"] != "Namespace"))


async def apply(client: Client, obj: Object) -> Object:
    """Apply an object on the server, without `force`: a conflict is an error."""
    path = f"{manifests.path_of(obj)}/{obj['metadata']['name']}"
    body = await client.request(
        "PATCH",
        path,
        body=json.dumps(obj).encode(),
        content_type="application/apply-patch+yaml",
        params={"fieldManager": TOOL},
    )
    stored: Object = json.loads(body)
    return stored


async def apply_all(client: Client) -> dict[Key, Object]:
    return {(obj["kind"], obj["metadata"]["name"]): await apply(client, obj) for obj in installed()}


@asynccontextmanager
async def webhook(cluster: LocalCluster, client: Client) -> AsyncIterator[None]:
    """A ready webhook behind its Service."""
    with bound("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
    cluster.services[SERVICE] = ("127.0.0.1", port)
    stop, readiness, clock = asyncio.Event(), AwaitableReadiness(), DatedClock()
    config = WebhookConfig(ServiceTarget(), host="127.0.0.1", port=port)
    task = asyncio.create_task(run(client, config, stop, readiness=readiness, clock=clock))
    await clock.sleeping()
    await clock.advance_to_next()
    await readiness.is_ready.wait()
    yield
    stop.set()
    await task


def others_fields(obj: Object) -> Iterator[str]:
    """Yield the paths of the fields that others than the tool own, but for the status."""
    for entry in obj["metadata"]["managedFields"]:
        if entry["manager"] != TOOL and entry.get("subresource") != "status":
            yield from leaves(entry["fieldsV1"], "")


def leaves(fields: Object, path: str) -> Iterator[str]:
    for name, below in fields.items():
        if name != ".":
            here = f"{path}[]" if name.startswith("k:") else f"{path}.{name.removeprefix('f:')}"
            yield from leaves(below, here) if below else [here]


async def test_the_second_time_nothing_changes_whatever_the_webhook_wrote() -> None:
    async with (
        LocalCluster(jobset=False) as cluster,
        await Client.connect(cluster.kubeconfig) as client,
    ):
        first = await apply_all(client)
        again = await apply_all(client)
        assert contents(again) == contents(first)
        async with webhook(cluster, client):
            live = await apply_all(client)
            last = await apply_all(client)

    assert contents(last) == contents(live)
    configuration = live["MutatingWebhookConfiguration", "muster"]["webhooks"]
    assert all(base64.b64decode(it["clientConfig"]["caBundle"]) for it in configuration)
    written = {
        (kind, ".data" if path.startswith(".data.") else path)
        for (kind, _), obj in live.items()
        for path in others_fields(obj)
    }
    assert written == ignored()


def contents(objects: dict[Key, Object]) -> dict[Key, Object]:
    """Return the objects without their status, which controllers of the cluster write meanwhile.

    An apply that changes anything changes the time of its entry in managedFields, too.
    """
    found = {}
    for key, obj in objects.items():
        meta = {it: value for it, value in obj["metadata"].items() if it != "resourceVersion"}
        entries = meta["managedFields"]
        meta["managedFields"] = [it for it in entries if it.get("subresource") != "status"]
        found[key] = {it: value for it, value in obj.items() if it != "status"} | {"metadata": meta}
    return found


def ignored() -> set[tuple[str, str]]:
    """Return kinds and paths that Argo CD ignores."""
    return {
        (rule["kind"], path.replace("/", "."))
        for application in ARGO.values()
        for rule in application["spec"]["ignoreDifferences"]
        for path in (*rule.get("jqPathExpressions", ()), *rule.get("jsonPointers", ()))
    }


def test_both_install_the_definitions_first() -> None:
    waves = {
        name: int(it["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"])
        for (_, name), it in ARGO.items()
    }
    assert waves == {"muster-crds": -1, "muster": 0}
    assert FLUX["Kustomization", "muster"]["spec"]["dependsOn"] == [{"name": "muster-crds"}]
    for crds in (ARGO["Application", "muster-crds"], FLUX["Kustomization", "muster-crds"]):
        spec = crds["spec"]
        path = spec.get("path") or spec["source"]["path"]
        assert {it["kind"] for it in manifests.load(ROOT / path)} == {DEFINITION}
        assert (spec.get("syncPolicy", {}).get("automated") or spec)["prune"] is False


@pytest.mark.parametrize("application", ARGO.values(), ids=lambda it: it["metadata"]["name"])
def test_argo_cd_leaves_what_it_ignores(application: Object) -> None:
    options = application["spec"]["syncPolicy"]["syncOptions"]

    assert {"ServerSideApply=true", "RespectIgnoreDifferences=true"} <= set(options)
    assert (ROOT / application["spec"]["source"]["path"]).is_dir()


def test_the_examples_are_of_this_version() -> None:
    version = yaml.safe_load((ROOT / "charts/muster/Chart.yaml").read_text())["appVersion"]

    assert FLUX["GitRepository", "muster"]["spec"]["ref"] == {"tag": f"v{version}"}
    assert FLUX["Kustomization", "muster"]["spec"]["images"][0]["newTag"] == version
    assert {it["spec"]["source"]["targetRevision"] for it in ARGO.values()} == {f"v{version}"}
