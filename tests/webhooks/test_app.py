"""The complete process against a scripted API server: from the start to ready, and shutdown."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import jsonpatch
import pytest
from structlog.testing import capture_logs

from api.constants import POD_GROUP
from kube.client.client import Client
from kube.client.resources import SECRETS
from tests.support.api_server import Answer, Reply, ScriptedServer, Seen, Stream, failure
from tests.support.dated_clock import DatedClock
from tests.webhooks.readiness import AwaitableReadiness
from tests.webhooks.review_requests import Read, encoded, pod_group, read, review_of
from webhooks.app import WebhookConfig, run
from webhooks.server.readiness import CACHES, CHECKS
from webhooks.server.registration import RESOURCES, ServiceTarget, Target, UrlTarget, load_manifests
from webhooks.server.server import bound

CLASS = {"metadata": {"name": "high", "uid": "u", "resourceVersion": "1"}, "value": 7}


class Cluster:
    """One PriorityClass, no groups, Secrets and webhook configurations; nothing else exists."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.may_be_listed = {kind: asyncio.Event() for kind in CACHES}
        for listed in self.may_be_listed.values():
            listed.set()

    async def answer(self, seen: Seen) -> Answer:
        if seen.query.get("watch"):
            return Stream()
        kind = seen.path.rpartition("/")[2]
        if seen.method == "GET" and kind in CACHES:
            await self.may_be_listed[kind].wait()
            items = [CLASS] if kind == "priorityclasses" else []
            return Reply({"metadata": {"resourceVersion": "1"}, "items": items})
        if seen.method == "POST":
            return self.store(seen.path, seen.body)
        if seen.path not in self.objects:
            return failure(404, "NotFound")
        if seen.method == "PATCH":
            self.objects[seen.path] = jsonpatch.apply_patch(self.objects[seen.path], seen.body)
        return Reply(self.objects[seen.path])

    def store(self, collection: str, obj: dict[str, Any]) -> Reply:
        obj["metadata"]["resourceVersion"] = "1"
        self.objects[f"{collection}/{obj['metadata']['name']}"] = obj
        return Reply(obj, 201)


@dataclass
class Hook:
    """A running webhook process."""

    cluster: Cluster
    readiness: AwaitableReadiness
    stop: asyncio.Event
    clock: DatedClock
    task: asyncio.Task[None]
    port: int
    session: aiohttp.ClientSession

    async def ready(self) -> None:
        """Run the second round of maintenance, which makes it ready."""
        await self.clock.sleeping()
        await self.clock.advance_to_next()
        await self.readiness.is_ready.wait()

    async def get(self, path: str) -> int:
        async with self.session.get(f"https://127.0.0.1:{self.port}{path}") as answer:
            return answer.status

    def post(
        self, path: str, review: dict[str, Any]
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self.session.post(
            f"https://127.0.0.1:{self.port}/{path}",
            data=encoded(review),
            headers={"Content-Type": "application/json"},
        )

    async def mutate(self, review: dict[str, Any]) -> Read:
        async with self.post("mutate/podgroups", review) as answer:
            return read(await answer.read(), review)


@asynccontextmanager
async def running(
    folder: Path, cluster: Cluster | None = None, target: Target | None = None, **config: Any
) -> AsyncIterator[Hook]:
    """Run the process, listening; stop it at the end if it was not stopped before."""
    cluster = cluster or Cluster()
    with bound("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
    readiness, stop, clock = AwaitableReadiness(), asyncio.Event(), DatedClock()
    settings = WebhookConfig(
        target or UrlTarget(f"https://127.0.0.1:{port}"),
        port=port,
        **{"host": "127.0.0.1"} | config,
    )
    async with ScriptedServer() as server, AsyncExitStack() as stack:
        server.handler = cluster.answer
        client = await stack.enter_async_context(await Client.connect(server.kubeconfig(folder)))
        # Readiness covers trusted certificates; here they need not be.
        session = await stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False), trust_env=False)
        )
        task = asyncio.create_task(run(client, settings, stop, readiness=readiness, clock=clock))
        await readiness.is_serving.wait()
        yield Hook(cluster, readiness, stop, clock, task, port, session)
        stop.set()
        await task


async def test_by_url_it_becomes_ready_by_itself_and_resolves_priority(tmp_path: Path) -> None:
    review = review_of(POD_GROUP, pod_group(priorityClassName="high"))

    async with running(tmp_path) as hook:
        await hook.ready()
        answer = await hook.mutate(review)
        code = await hook.get("/readyz")

    assert code == 200
    assert answer.result is not None
    assert answer.result["spec"]["priority"] == 7


async def test_its_log_names_the_address_it_is_bound_to_and_what_it_waits_for(
    tmp_path: Path,
) -> None:
    with capture_logs() as logs:
        async with running(tmp_path, host="0.0.0.0") as hook:
            await hook.ready()

    (listens,) = [line for line in logs if line["event"] == "webhook is listening"]
    assert listens["address"] == f"0.0.0.0:{hook.port}"
    passed = [line for line in logs if line["event"] == "readiness check passed"]
    assert {line["check"] for line in passed} == set(CHECKS)
    assert all("ready" not in line and line["check"] not in line["waiting_for"] for line in passed)
    assert passed[-1]["waiting_for"] == []
    ready = [line["event"] for line in logs].index("webhook is ready")
    assert logs[ready - 1] == passed[-1]


async def test_by_service_the_secret_is_made_and_the_ca_announced(tmp_path: Path) -> None:
    cluster = Cluster()
    for manifest in load_manifests():
        cluster.store(RESOURCES[manifest["kind"]].path(), manifest)

    async with running(tmp_path, cluster, ServiceTarget()) as hook:
        await hook.ready()

    secret = cluster.objects[SECRETS.path("muster-system", "muster-webhook-certificates")]
    bundles = {
        webhook["clientConfig"]["caBundle"]
        for obj in cluster.objects.values()
        for webhook in obj.get("webhooks", ())
    }
    assert bundles == {secret["data"]["ca.crt"]}


@pytest.mark.parametrize("kind", CACHES)
async def test_it_is_not_ready_before_its_caches_are_filled(tmp_path: Path, kind: str) -> None:
    cluster = Cluster()
    cluster.may_be_listed[kind].clear()

    async with running(tmp_path, cluster) as hook:
        for _ in range(2):
            await hook.clock.sleeping()  # between two rounds: no other work is pending
            await hook.clock.advance_to_next()
        await hook.clock.sleeping()
        before = hook.readiness.problems
        cluster.may_be_listed[kind].set()
        await hook.readiness.is_ready.wait()

    assert set(before) == {kind}


@pytest.mark.parametrize("kind", CACHES)
@pytest.mark.parametrize("asked", ["high", ""], ids=["by name", "the default of the cluster"])
async def test_no_review_is_answered_as_if_nothing_existed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, asked: str
) -> None:
    """By URL an API server also calls a process that is not ready."""
    monkeypatch.setitem(CLASS, "globalDefault", True)
    review = review_of(POD_GROUP, pod_group(**({"priorityClassName": asked} if asked else {})))
    cluster = Cluster()
    cluster.may_be_listed[kind].clear()
    async with running(tmp_path, cluster) as hook:
        async with hook.post("mutate/podgroups", review) as early:
            status = await early.json()
        cluster.may_be_listed[kind].set()
        await hook.ready()
        answer = await hook.mutate(review)

    assert (early.status, early.headers["Retry-After"]) == (503, "1")
    assert (status["kind"], status["reason"]) == ("Status", "ServiceUnavailable")
    assert kind in status["message"]
    assert answer.result is not None
    assert answer.result["spec"]["priority"] == 7


async def test_conversions_do_not_wait_for_the_caches(tmp_path: Path) -> None:
    """The lists of the caches may need them."""
    request = {"uid": "u", "desiredAPIVersion": "scheduling.muster.dev/v1alpha2", "objects": []}
    review = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": request,
    }
    cluster = Cluster()
    cluster.may_be_listed["podgroups"].clear()
    async with running(tmp_path, cluster) as hook:
        async with hook.post("convert", review) as answer:
            assert answer.status == 200
        cluster.may_be_listed["podgroups"].set()


async def test_while_draining_it_is_not_ready_and_still_answers(tmp_path: Path) -> None:
    async with running(tmp_path, drain_seconds=5.0) as hook:
        await hook.ready()
        await hook.clock.sleeping()
        hook.stop.set()
        await hook.clock.sleeping(2)
        code = await hook.get("/readyz")
        answer = await hook.mutate(review_of(POD_GROUP, pod_group()))
        await hook.clock.advance(5)
        await hook.task

        with pytest.raises(aiohttp.ClientConnectorError):
            await hook.get("/healthz")

    assert code == 503
    assert answer.allowed


async def test_certificates_in_a_folder_outlive_the_process(tmp_path: Path) -> None:
    folder = tmp_path / "certs"

    for _ in range(2):
        async with running(tmp_path, cert_dir=folder) as hook:
            await hook.ready()
            made = (folder / "ca.crt").read_bytes()

    assert (folder / "ca.crt").read_bytes() == made


async def test_a_taken_port_is_an_error_at_once(tmp_path: Path) -> None:
    with bound("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        config = WebhookConfig(UrlTarget("https://127.0.0.1:1"), host="127.0.0.1", port=port)
        async with (
            ScriptedServer() as server,
            await Client.connect(server.kubeconfig(tmp_path)) as client,
        ):
            with pytest.raises(OSError, match="in use"):
                await run(client, config, asyncio.Event())
