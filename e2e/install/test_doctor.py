"""`muster doctor` on a healthy installation, and on one with a single fault."""

import asyncio
import json
import tarfile
from collections.abc import AsyncIterator, Callable, Container
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from api.constants import ANNOTATION_MIN_COUNT
from certs.authority import new_material
from certs.bundle import encoded
from certs.material import ServerNames
from e2e.harness import muster as processes
from e2e.harness.environment import Environment
from e2e.harness.objects import POD_GROUPS, Json, job, pod_group
from e2e.harness.support.command import muster
from kube.base.clock import rfc3339
from kube.client.meta import Json as Object
from kube.client.resources import CRDS, EVENTS, JOBS, LEASES, MUTATING_WEBHOOKS, Resource

pytestmark = pytest.mark.timeout(300)

ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
SYSTEM = processes.NAMESPACE


@dataclass(frozen=True, slots=True)
class Said:
    """The output of a run of the command, and its exit code."""

    code: int
    report: Json

    def of(self, *severities: str) -> list[Json]:
        wanted = severities or ("error", "warning")
        return [one for one in self.report["findings"] if one["severity"] in wanted]

    def lines(self) -> list[str]:
        """All findings as text."""
        return [
            f"{one['check']} {one['object']['kind']} {one['object']['name']}: {one['problem']}"
            for one in self.of()
        ]

    def checks(self, *severities: str) -> set[str]:
        return {one["check"] for one in self.of(*severities)}


async def ask_doctor(env: Environment, *more: str) -> Said:
    urls = [f"--health={env.muster.page(name, '')}" for name in processes.ALL]
    arguments = ["--json", f"--trial-namespace={env.name}", *urls, *more]
    code, out = await run(env, "doctor", *arguments, codes=(0, 1, 3))
    return Said(code, json.loads(out))


async def run(env: Environment, *arguments: str, codes: Container[int] = (0,)) -> tuple[int, str]:
    """Run a Muster command; return its exit code and output."""
    ended = await muster(env.cluster.kubeconfig, *arguments)
    assert ended.code in codes, ended
    assert not ended.errors
    return ended.code, ended.output


@asynccontextmanager
async def changed(
    env: Environment, resource: Resource, name: str, change: Callable[[Object], None]
) -> AsyncIterator[None]:
    """Change an object for the duration of a block, then restore it."""
    before = await env.client.get(resource, name)
    broken = json.loads(json.dumps(before))
    change(broken)
    await env.client.replace(resource, broken)
    try:
        yield
    finally:
        found = await env.client.get(resource, name)
        before["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        await env.client.replace(resource, before)


async def stored(env: Environment) -> list[str]:
    return [one["metadata"]["name"] for one in (await env.client.list(POD_GROUPS))["items"]]


async def test_an_installation_in_order_has_no_errors_and_nothing_is_changed(
    env: Environment,
) -> None:
    await env.add_node(cpu=4)
    await env.create(JOBS, job("t", env.name))
    await env.scheduled("pg-job-t")
    groups = await stored(env)

    said = await ask_doctor(env)

    assert said.lines() == []
    assert said.code == 0
    assert {"versions", "parts", "leases", "access", "certificates", "health"} <= said.checks(
        "info"
    )
    assert await stored(env) == groups


@pytest.mark.long
async def test_a_ca_that_has_not_signed_the_webhooks_certificate(env: Environment) -> None:
    other = new_material(ServerNames.of_host("127.0.0.1"), datetime.now(UTC))

    def wrong(obj: Object) -> None:
        for webhook in obj["webhooks"]:
            webhook["clientConfig"]["caBundle"] = encoded(other.ca_bundle)

    # The webhook would correct that at once.
    with env.muster.paused(processes.WEBHOOK):
        async with changed(env, MUTATING_WEBHOOKS, "muster", wrong):
            said = await ask_doctor(env)

    problems = [one["problem"] for one in said.of("error") if one["check"] == "certificates"]
    assert any("different CAs" in one for one in problems)
    assert said.code == 3


@pytest.mark.long
async def test_a_webhook_that_does_not_answer(env: Environment) -> None:
    env.muster.kill(processes.WEBHOOK)

    said = await ask_doctor(env)
    await env.muster.start(processes.WEBHOOK)

    assert said.checks("error") == {"admission"}
    assert "health" in said.checks("warning")


@pytest.mark.long
async def test_a_leader_that_is_gone(env: Environment) -> None:
    env.muster.kill(processes.SCHEDULER)

    async def over() -> bool:
        said = await ask_doctor(env)
        found = [one for one in said.of("error") if one["check"] == "leases"]
        return [one["object"]["name"] for one in found] == ["muster-scheduler"]

    await env.until("the lease to be said to be stale", over)
    await env.muster.start(processes.SCHEDULER)


@pytest.mark.long
async def test_a_lease_that_is_not_there(env: Environment) -> None:
    env.muster.kill(processes.CONTROLLER)
    await env.client.delete(LEASES, "muster-controller", SYSTEM)

    said = await ask_doctor(env)
    await env.muster.start(processes.CONTROLLER)

    (found,) = [one for one in said.of("error") if one["check"] == "leases"]
    assert found["object"]["name"] == "muster-controller"
    assert "does not exist" in found["problem"]


@pytest.mark.long
async def test_a_role_that_lacks_a_verb(env: Environment) -> None:
    def less(obj: Object) -> None:
        for rule in obj["rules"]:
            if rule["resources"] == ["pods/binding"]:
                rule["verbs"] = ["get"]

    async with changed(env, ROLES, "muster-scheduler", less):
        said = await ask_doctor(env)

    (found,) = said.of()
    assert found["check"] == "access"
    assert found["object"]["name"] == "muster-scheduler"
    assert found["problem"] == "it cannot create pods/binding"


@pytest.mark.long
async def test_a_label_that_no_node_has(env: Environment) -> None:
    await env.add_node(cpu=1)
    group = pod_group("racked", 2)
    group["spec"]["schedulingConstraints"] = {"topology": [{"key": "example.com/rack"}]}
    await env.create(POD_GROUPS, group)

    said = await ask_doctor(env)

    (found,) = [one for one in said.of() if one["check"] == "topology"]
    assert found["object"] == {"kind": "PodGroup", "namespace": env.name, "name": "racked"}
    assert "no node has the label example.com/rack" in found["problem"]
    assert said.code == 1


@pytest.mark.long
async def test_an_annotation_that_is_misspelt(env: Environment) -> None:
    owner = job("t", env.name)
    owner["metadata"].setdefault("annotations", {})["scheduling.muster.dev/min-cuont"] = "2"
    owner["spec"]["suspend"] = True
    await env.create(JOBS, owner)

    said = await ask_doctor(env)

    (found,) = said.of()
    assert (found["check"], found["severity"]) == ("annotations", "warning")
    assert found["object"]["name"] == "t"
    assert found["action"] == f"use {ANNOTATION_MIN_COUNT}"
    assert said.code == 1


@pytest.mark.long
async def test_texts_that_would_move_a_cursor_are_escaped(env: Environment) -> None:
    """Anyone who may create events in a namespace controls text that an administrator sees."""
    event = {
        "metadata": {"name": "forged", "namespace": env.name},
        "involvedObject": {"kind": "Pod", "namespace": env.name, "name": "\x1b[2J"},
        "reason": "Quarantined",
        "message": "\x1b]0;title\x07\u202e",
        "lastTimestamp": rfc3339(env.client.server_clock.now()),
        "reportingComponent": "muster-scheduler",
    }
    await env.create(EVENTS, event)
    arguments = [f"--trial-namespace={env.name}"]

    try:
        _, out = await run(env, "doctor", *arguments, codes=(0, 1))
        _, report = await run(env, "doctor", "--json", *arguments, codes=(0, 1))
    finally:
        # Its namespace is deleted later, and the next flow on this cluster may ask doctor, too.
        await env.delete(EVENTS, "forged")

    assert "\\x1b]0;title" in out
    for text in (out, report):
        assert not {"\x1b", "\x07", "\u202e"} & set(text)


@pytest.mark.long
async def test_the_definitions_of_another_scheduler_are_named(env: Environment) -> None:
    names = {"plural": "workloads", "singular": "workload", "kind": "Workload"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    annotations = {"api-approved.kubernetes.io": "https://example.com"}
    crd = {
        "metadata": {"name": "workloads.kueue.x-k8s.io", "annotations": annotations},
        "spec": {
            "group": "kueue.x-k8s.io",
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1beta1", "served": True, "storage": True, "schema": schema}],
        },
    }
    await env.client.create(CRDS, {"apiVersion": CRDS.api_version, "kind": CRDS.kind, **crd})
    said = await ask_doctor(env)
    try:
        # kube-apiserver may drop watches as it gets a new kind, which the doctor reports.
        async with asyncio.timeout(env.timeout_seconds):
            while said.lines():
                said = await ask_doctor(env)
    finally:
        await env.client.delete(CRDS, "workloads.kueue.x-k8s.io")

    (found,) = [one for one in said.of("info") if one["check"] == "neighbours"]
    assert "Kueue is installed" in found["problem"]
    assert said.lines() == []


@pytest.mark.long
async def test_a_definition_that_is_missing_is_the_one_thing_that_is_wrong(
    env: Environment,
) -> None:
    name = "reservations.scheduling.muster.dev"
    before = await env.client.get(CRDS, name)
    env.muster.kill(processes.SCHEDULER)
    await env.client.delete(CRDS, name)
    await env.gone(CRDS, name)
    try:
        said = await ask_doctor(env)
    finally:
        kept = {
            key: before["metadata"][key]
            for key in ("name", "annotations")
            if key in before["metadata"]
        }
        made = {"apiVersion": CRDS.api_version, "kind": CRDS.kind, "spec": before["spec"]}
        await env.client.create(CRDS, made | {"metadata": kept})
        await env.muster.start(processes.SCHEDULER)

    found = [one for one in said.of("error") if one["check"] == "definitions"]
    assert [one["object"]["name"] for one in found] == [name]


@pytest.mark.long
async def test_a_support_bundle_of_what_runs(env: Environment, tmp_path: Path) -> None:
    owner = job("t", env.name)
    secret = f"planted-{env.name}"
    owner["metadata"].setdefault("annotations", {})["example.com/note"] = secret
    container = owner["spec"]["template"]["spec"]["containers"][0]
    container |= {"env": [{"name": "A", "value": secret}], "args": [secret]}
    await env.add_node(cpu=4)
    await env.create(JOBS, owner)
    await env.scheduled("pg-job-t")
    file = tmp_path / "support.tar.gz"
    urls = [f"--health={env.muster.page(name, '')}" for name in processes.ALL]

    await run(env, "support-bundle", str(file), f"--trial-namespace={env.name}", *urls)

    with tarfile.open(file) as archive:
        found = {one.name: archive.extractfile(one) for one in archive.getmembers()}
        texts = {name: part.read().decode() for name, part in found.items() if part}
    assert not [name for name, text in texts.items() if secret in text]
    assert any(name.startswith("muster-support/metrics/") for name in texts)
    (snapshot,) = [name for name in texts if "/snapshot/" in name]
    (tmp_path / "snapshot.json").write_text(texts[snapshot])
    groups = json.loads(texts["muster-support/objects/podgroups.scheduling.muster.dev.json"])
    assert "pg-job-t" in [one["metadata"]["name"] for one in groups["items"]]
    await run(env, "replay", str(tmp_path / "snapshot.json"))
