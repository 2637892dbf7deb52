"""Idle connections that clients open to the ports of Muster's processes."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from e2e.harness.environment import Environment
from e2e.harness.muster import SCHEDULER, WEBHOOK
from e2e.harness.objects import job, of_job
from e2e.harness.support.waiting import healthy
from kube.client.resources import JOBS, VALIDATING_WEBHOOKS

pytestmark = pytest.mark.timeout(600)

ASKED = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def idle(
    host: str, port: int, count: int, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Open that many connections in sequence, with one request each if there is TLS."""
    held = []
    for _ in range(count):
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(10):
                reader, writer = await asyncio.open_connection(host, port, ssl=tls)
                held.append(writer)
                if tls is not None:
                    writer.write(ASKED)
                    await reader.readline()
    yield
    for writer in held:
        writer.transport.abort()


async def test_jobs_are_admitted_beside_idle_connections_to_the_webhook(env: Environment) -> None:
    registered = await env.client.get(VALIDATING_WEBHOOKS, "muster")
    host, _, port = registered["webhooks"][0]["clientConfig"]["url"].split("/")[2].rpartition(":")
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    await env.add_node(cpu=8)

    async with idle(host, int(port), 400, trusting):
        await env.create(JOBS, job("a", env.name))
        await env.runs(of_job("a"), 4)
        assert await healthy(env.muster.page(WEBHOOK, "/readyz"))


@pytest.mark.long
async def test_pods_are_bound_beside_idle_connections_to_the_health_port(env: Environment) -> None:
    """The test opens more connections than the initial file limit of container runtimes."""
    muster = env.muster
    muster.kill(SCHEDULER)
    few_files = ["prlimit", "--nofile=1024:4096"]
    muster.add("limited", SCHEDULER, muster.kubeconfig(SCHEDULER), wrapper=few_files)
    await muster.start("limited")
    await env.add_node(cpu=8)
    host, _, port = muster.page("limited", "").removeprefix("http://").rpartition(":")

    async with idle(host, int(port), 1100):
        await env.create(JOBS, job("a", env.name))
        await env.runs(of_job("a"), 4)
        assert await healthy(muster.page("limited", "/healthz"))

    muster.kill("limited")
    await muster.start(SCHEDULER)
