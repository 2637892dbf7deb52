"""The webhook registered by URL on a whole API server: what users see, and who is not touched."""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from prometheus_client import REGISTRY

from api.constants import COMPOSITE_POD_GROUP, POD_GROUP
from e2e.clusters.protocol import Cluster
from kube.client import Client
from kube.errors import ApiError, NotFound
from kube.meta import RawObject, decode_raw
from kube.patch import PatchBuilder
from kube.reflector import Reflector
from kube.resources import (
    CRDS,
    JOBS,
    JOBSETS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from webhooks.app import WebhookConfig, run
from webhooks.readiness import Readiness
from webhooks.registration import UrlTarget
from webhooks.server import bound

pytestmark = pytest.mark.asyncio(loop_scope="module")

CRD_FOLDER = Path(__file__).resolve().parents[2] / "manifests" / "crd"
GROUPS = Resource(*POD_GROUP)
COMPOSITES = Resource(*COMPOSITE_POD_GROUP)
MODE = "scheduling.muster.dev/gang-mode"
LABEL = "scheduling.muster.dev/pod-group"
NS = f"admission-{uuid.uuid4().hex[:6]}"


class Watched(Readiness):
    """Readiness that can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ready = asyncio.Event()

    def met(self, check: str) -> None:
        super().met(check)
        if self.ready:
            self.is_ready.set()


@dataclass
class Hook:
    """The API server with the webhook, which can be taken away."""

    client: Client
    target: UrlTarget
    port: int
    stop: asyncio.Event
    task: asyncio.Task[None] | None = None

    async def up(self) -> None:
        readiness = Watched()
        self.stop = asyncio.Event()
        config = WebhookConfig(self.target, host="127.0.0.1", port=self.port)
        self.task = asyncio.create_task(run(self.client, config, self.stop, readiness=readiness))
        await readiness.is_ready.wait()

    async def down(self) -> None:
        self.stop.set()
        if self.task is not None:
            await self.task
            self.task = None

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Without the webhook, its registration left in place."""
        await self.down()
        try:
            yield
        finally:
            await self.up()


class Following:
    """All objects of one resource, and a way to wait for what they come to."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def upsert(self, obj: RawObject) -> None:
        self.objects[obj.metadata.key] = obj.raw
        self._tell()

    def delete(self, key: tuple[str, str]) -> None:
        self.objects.pop(key, None)
        self._tell()

    async def until(self, holds: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        async with self._changed:
            await self._changed.wait_for(lambda: holds(list(self.objects.values())))
        return list(self.objects.values())

    def _tell(self) -> None:
        async def tell() -> None:
            async with self._changed:
                self._changed.notify_all()

        task = asyncio.ensure_future(tell())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@asynccontextmanager
async def following(client: Client, resource: Resource) -> AsyncIterator[Following]:
    sink = Following()
    task = asyncio.create_task(
        Reflector(client, resource, sink, decode=decode_raw, namespace=NS).run()
    )
    yield sink
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hook(cluster: Cluster) -> AsyncIterator[Hook]:
    """Our kinds and the webhook, both gone again at the end."""
    with bound("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
    async with await Client.connect(cluster.kubeconfig) as client:
        hook = Hook(client, UrlTarget(f"https://127.0.0.1:{port}"), port, asyncio.Event())
        await client.create(NAMESPACES, {"metadata": {"name": NS}})
        async with crds(client):
            await hook.up()
            yield hook
            await hook.down()
            await client.delete(NAMESPACES, NS)
            await release(client)
            for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
                await client.delete(resource, "muster")


@asynccontextmanager
async def crds(client: Client) -> AsyncIterator[None]:
    """Our kinds, served; those that were there before stay."""
    made = []
    for path in sorted(CRD_FOLDER.glob("*.yaml")):
        crd = yaml.safe_load(path.read_text())
        try:
            await client.get(CRDS, crd["metadata"]["name"])
        except NotFound:
            await client.create(CRDS, crd)
            made.append(crd["metadata"]["name"])
    for resource in (GROUPS, COMPOSITES):
        while True:
            with suppress(NotFound):
                await client.list(resource, NS)
                break
            await asyncio.sleep(0.05)  # nothing tells when a new path is served
    yield
    for name in made:
        await client.delete(CRDS, name)


async def release(client: Client) -> None:
    """Take off the finalizers, which a controller of ours would otherwise see to."""
    for resource in (GROUPS, COMPOSITES):
        for obj in (await client.list(resource, NS))["items"]:
            if obj["metadata"].get("finalizers"):
                patch = PatchBuilder().remove("/metadata/finalizers")
                await client.patch(resource, obj["metadata"]["name"], patch, NS)


def group(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}} | spec,
    }


def pod_template() -> dict[str, Any]:
    return {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}


def job(name: str, mode: str | None = None) -> dict[str, Any]:
    annotations = {MODE: mode} if mode else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"parallelism": 2, "completions": 2, "template": pod_template()},
    }


def jobset(name: str, mode: str | None = None) -> dict[str, Any]:
    template = {"spec": {"completionMode": "Indexed"} | job("x")["spec"]}
    return {
        "apiVersion": JOBSETS.api_version,
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": {MODE: mode} if mode else {}},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": template}]},
    }


def reviews() -> float:
    """How many reviews have come."""
    return sum(
        sample.value
        for metric in REGISTRY.collect()
        if metric.name == "muster_webhook_reviews"
        for sample in metric.samples
        if sample.name.endswith("_total")
    )


def faults(error: ApiError) -> set[tuple[str, str]]:
    return {(cause.field, cause.reason) for cause in error.causes}


async def test_a_group_is_completed(hook: Hook) -> None:
    made = await hook.client.create(
        GROUPS, group("complete", priorityClassName="system-node-critical"), NS
    )

    assert made["metadata"]["finalizers"] == ["scheduling.muster.dev/podgroup-protection"]
    assert made["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": 4}},
        "disruptionMode": {"single": {}},
        "priorityClassName": "system-node-critical",
        "priority": 2_000_001_000,
        "preemptionPolicy": "PreemptLowerPriority",
    }


async def test_an_unknown_priority_class_is_forbidden_until_it_is_made(hook: Hook) -> None:
    name = "admission-late"
    with pytest.raises(ApiError) as refused:
        await hook.client.create(GROUPS, group("late", priorityClassName=name), NS)
    await hook.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 77})
    made = None
    async with asyncio.timeout(10):
        while made is None:
            # The webhook's own watch sees the class in its own time.
            with suppress(ApiError):
                made = await hook.client.create(GROUPS, group("late", priorityClassName=name), NS)
    await hook.client.delete(PRIORITY_CLASSES, name)

    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
    assert faults(refused.value) == {("spec.priorityClassName", "FieldValueForbidden")}
    assert made["spec"]["priority"] == 77


async def test_all_faults_of_a_group_come_in_one_answer(hook: Hook) -> None:
    wrong = group(
        "wrong",
        schedulingPolicy={"gang": {"minCount": 0}},
        schedulingConstraints={"topology": [{"key": "a b"}]},
        parentCompositePodGroupName="Bad_Name",
    )

    with pytest.raises(ApiError) as refused:
        await hook.client.create(GROUPS, wrong, NS)

    assert (refused.value.status, refused.value.reason) == (422, "Invalid")
    assert faults(refused.value) == {
        ("spec.schedulingPolicy.gang.minCount", "FieldValueInvalid"),
        ("spec.schedulingConstraints.topology[0].key", "FieldValueInvalid"),
        ("spec.parentCompositePodGroupName", "FieldValueInvalid"),
        ("spec.workloadRef", "FieldValueRequired"),
    }


async def test_a_spec_is_immutable_and_its_finalizers_are_not(hook: Hook) -> None:
    await hook.client.create(GROUPS, group("fixed"), NS)
    with pytest.raises(ApiError) as refused:
        await hook.client.patch(GROUPS, "fixed", PatchBuilder().add("/spec/priority", 5), NS)
    before = reviews()
    await hook.client.patch(GROUPS, "fixed", PatchBuilder().remove("/metadata/finalizers"), NS)

    assert faults(refused.value) == {("spec.priority", "FieldValueInvalid")}
    assert reviews() == before


async def test_a_parent_that_is_being_deleted_takes_no_children(hook: Hook) -> None:
    reference = {"workloadName": "w", "templateName": "t"}
    parent = {
        "apiVersion": COMPOSITES.api_version,
        "kind": "CompositePodGroup",
        "metadata": {"name": "leaving"},
        "spec": {
            "workloadRef": reference,
            "schedulingPolicy": {"gang": {"minGroupCount": 1}},
        },
    }
    child = group("child", workloadRef=reference, parentCompositePodGroupName="leaving")
    await hook.client.create(COMPOSITES, parent, NS)
    await hook.client.delete(COMPOSITES, "leaving", NS)
    refused: ApiError | None = None
    async with asyncio.timeout(10):
        while refused is None:
            try:
                await hook.client.create(GROUPS, child, NS, dry_run=True)
            except ApiError as error:
                refused = error
    # Nothing takes the finalizer off here but us.
    patch = PatchBuilder().remove("/metadata/finalizers")
    await hook.client.patch(COMPOSITES, "leaving", patch, NS)

    assert refused.status == 403
    assert faults(refused) == {("spec.parentCompositePodGroupName", "FieldValueForbidden")}


async def test_a_job_is_marked_and_replacing_it_by_its_manifest_changes_nothing(
    hook: Hook,
) -> None:
    made = await hook.client.create(JOBS, job("alone", "Gang"), NS)
    manifest = copy.deepcopy(made)
    template = manifest["spec"]["template"]
    del template["metadata"]["labels"][LABEL]
    del manifest["metadata"]["annotations"]["scheduling.muster.dev/managed-group"]
    template["spec"]["schedulerName"] = "default-scheduler"
    manifest["metadata"].pop("resourceVersion")

    again = await hook.client.replace(JOBS, manifest)

    for found in (made, again):
        assert found["metadata"]["annotations"]["scheduling.muster.dev/managed-group"] == (
            "pg-job-alone"
        )
        assert found["spec"]["template"]["metadata"]["labels"][LABEL] == "pg-job-alone"
        assert found["spec"]["template"]["spec"]["schedulerName"] == "muster-scheduler"


async def test_the_jobs_of_a_jobset_name_one_group(hook: Hook) -> None:
    async with following(hook.client, JOBS) as jobs:
        made = await hook.client.create(JOBSETS, jobset("training", "Gang"), NS)
        found = await jobs.until(
            lambda all_: sum(one["metadata"]["name"].startswith("training-") for one in all_) == 2
        )
    # Client-side apply replaces the whole list by the manifest's.
    replicated = copy.deepcopy(made["spec"]["replicatedJobs"])
    for entry in replicated:
        entry["template"].pop("metadata")  # nothing but our mark is there
    patch = PatchBuilder().replace("/spec/replicatedJobs", replicated)
    again = await hook.client.patch(JOBSETS, "training", patch, NS)

    templates = [
        one["spec"]["template"] for one in found if one["metadata"]["name"].startswith("training-")
    ]
    assert {template["metadata"]["labels"][LABEL] for template in templates} == {"pg-training"}
    assert {template["spec"]["schedulerName"] for template in templates} == {"muster-scheduler"}
    assert again["spec"] == made["spec"]


async def test_all_faults_of_a_jobset_come_in_one_answer_with_their_paths(hook: Hook) -> None:
    wrong = jobset("wrong", "Gangg")
    wrong["spec"]["replicatedJobs"][0]["template"]["metadata"] = {
        "annotations": {"scheduling.muster.dev/min-count": "0", MODE: "Gang"}
    }

    with pytest.raises(ApiError) as refused:
        await hook.client.create(JOBSETS, wrong, NS)

    holder = "spec.replicatedJobs[0].template.metadata.annotations"
    assert faults(refused.value) == {
        (f"metadata.annotations[{MODE}]", "FieldValueNotSupported"),
        (f"{holder}[scheduling.muster.dev/min-count]", "FieldValueInvalid"),
    }


async def test_who_does_not_ask_never_reaches_us(hook: Hook) -> None:
    before = reviews()
    async with following(hook.client, JOBS) as jobs:
        await hook.client.create(JOBS, job("plain"), NS)
        await hook.client.create(JOBSETS, jobset("plainset"), NS)
        await hook.client.create(PODS, {"metadata": {"name": "plain"}} | pod_template(), NS)
        await jobs.until(
            lambda all_: sum(one["metadata"]["name"].startswith("plainset-") for one in all_) == 2
        )
    await hook.client.patch(JOBS, "plain", PatchBuilder().add("/metadata/labels/more", "yes"), NS)

    assert reviews() == before


async def test_without_the_webhook_only_those_who_ask_are_held_up(hook: Hook) -> None:
    await hook.client.create(GROUPS, group("stuck"), NS)

    async with hook.away():
        await hook.client.create(JOBS, job("untouched"), NS)
        await hook.client.create(JOBSETS, jobset("untouched"), NS)
        await hook.client.create(PODS, {"metadata": {"name": "untouched"}} | pod_template(), NS)
        with pytest.raises(ApiError) as refused:
            await hook.client.create(JOBS, job("asking", "Gang"), NS)
        patch = PatchBuilder().remove("/metadata/finalizers")
        await hook.client.patch(GROUPS, "stuck", patch, NS)
        await hook.client.delete(GROUPS, "stuck", NS)

    assert refused.value.status == 500
    assert "jobs.mutate.scheduling.muster.dev" in refused.value.message
