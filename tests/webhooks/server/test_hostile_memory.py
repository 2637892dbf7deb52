"""Clients of the port: the process stays within the memory limit of the manifests."""

import asyncio
import contextlib
import gc
import json
import ssl
import warnings
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.constants import POD_GROUP
from tests.webhooks.listener_process import served
from tests.webhooks.review_requests import encoded, pod_group, review_of
from tests.webhooks.server.test_hostile_clients import REVIEW, Client, answer, dialled, head
from tools.testing.effort import selected
from webhooks.server.connections import CONNECTIONS
from webhooks.server.routes import BODY_LIMIT, CONVERSION_LIMIT

MIB = 1024 * 1024
TLS = ssl.create_default_context()  # the server's process creates its certificate
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
MANIFEST = Path(__file__).parents[3] / "manifests/base/webhook.yaml"

Address = tuple[str, int]
Attack = Callable[[Address], Awaitable[None]]


def memory_limit() -> int:
    """Return the memory limit of the container in the manifests, in bytes."""
    [container] = yaml.safe_load(MANIFEST.read_text())["spec"]["template"]["spec"]["containers"]
    return int(container["resources"]["limits"]["memory"].removesuffix("Mi")) * MIB


def peak_of(pid: int) -> int:
    """Return the peak resident memory of a process since the last reset."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


async def send(address: Address, start: bytes, piece: bytes, count: int) -> None:
    """Send for as long as the server accepts data."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(20):
            _, writer = await dialled(address, TLS)
            writer.write(start)
            for _ in range(count):
                writer.write(piece)
                await writer.drain()
            writer.close()


async def long_heads(address: Address) -> None:
    async with asyncio.TaskGroup() as group:
        for start, piece in (
            (b"GET /healthz HTTP/1.1\r\nX: ", b"a" * MIB),
            (b"GET /healthz HTTP/1.1\r\n", b"x-a: bcdefgh\r\n" * (MIB // 14)),
            (b"GET /", b"a" * MIB),
        ):
            group.create_task(send(address, start, piece, 60))


async def pipelines(address: Address) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 7000
    async with asyncio.TaskGroup() as group:
        for _ in range(32):
            group.create_task(send(address, b"", request, 4))


async def bodies_without_an_end(address: Address) -> None:
    """Send bodies without their last byte."""
    held: list[Client] = []
    for at in range(40):
        path, size = (("/mutate/podgroups", BODY_LIMIT), ("/convert", CONVERSION_LIMIT))[at % 2]
        reader, writer = await dialled(address, TLS)
        held.append((reader, writer))
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(5):
                writer.write(head(path, size) + b" " * (size - 1))
                await writer.drain()
    for _, writer in held:
        writer.close()


async def dense_bodies(address: Address) -> None:
    """Send the largest bodies of JSON with the highest memory use for its size."""
    async with asyncio.TaskGroup() as group:
        for path, size in (("/mutate/podgroups", BODY_LIMIT), ("/convert", CONVERSION_LIMIT)):
            for form in (b"{},", b'{"":1},', b"[],", b'"\xc3\xa9",'):
                for share in (1, 3, 8):
                    body = dense(path, form, size // share)
                    group.create_task(asked(address, path, body))


async def asked(address: Address, path: str, body: bytes) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        await answer(address, path, body, TLS)


def dense(path: str, form: bytes, size: int) -> bytes:
    group = pod_group(filled="HERE")
    review: dict[str, Any] = review_of(POD_GROUP, group)
    if path == "/convert":
        version = "scheduling.muster.dev/v1alpha2"
        review = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": version, "objects": [group]},
        }
    before, after = encoded(review).split(b'"HERE"')
    filled = form * ((size - len(before) - len(after) - 2) // len(form))
    return before + b"[" + filled.rstrip(b",") + b"]" + after


async def many_connections(address: Address) -> None:
    """Open more connections than the limit, each with a large response that it does not read."""
    group = pod_group()
    group["metadata"]["annotations"] = {"padding": "x" * 100_000}
    wanted = {"uid": "u", "desiredAPIVersion": "scheduling.muster.dev/v1alpha2"}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    body = json.dumps({**kind, "request": {**wanted, "objects": [group] * 10}}).encode()
    held: list[Client] = []
    for _ in range(CONNECTIONS + 20):
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(5):
                reader, writer = await dialled(address, TLS)
                held.append((reader, writer))
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                writer.write(head("/convert", len(body)) + body)
                await writer.drain()
    for _, writer in held:
        writer.transport.abort()


def forget_peak_of(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


@pytest.fixture(scope="module")
def listener() -> Iterator[tuple[Address, int]]:
    """The address and PID of one process for all attacks, so that leaks add up."""
    with served() as found:
        yield found


ATTACKS = (long_heads, pipelines, bodies_without_an_end, dense_bodies, many_connections)
SHORT = ("dense_bodies",)


@pytest.mark.parametrize("attack", selected({it.__name__: it for it in ATTACKS}, SHORT))
def test_the_memory_is_bounded_and_reviews_are_answered(
    attack: Attack, listener: tuple[Address, int]
) -> None:
    address, pid = listener

    async def attacked(address: Address) -> int:
        begun = asyncio.ensure_future(attack(address))
        await asyncio.sleep(0)
        codes = []
        while not begun.done():
            async with asyncio.timeout(60):
                code, _ = await answer(address, "/mutate/podgroups", REVIEW, TLS)
            codes.append(code)
            await asyncio.wait({begun}, timeout=0.5)
        await begun
        return max(codes)

    forget_peak_of(pid)
    with warnings.catch_warnings():
        # A connection that the server drops leaves a transport that no code has closed.
        warnings.simplefilter("ignore", ResourceWarning)
        worst = asyncio.run(attacked(address))
        gc.collect()
        peak = peak_of(pid)

    assert worst == 200
    assert peak < memory_limit(), f"{peak / MIB:.0f} MiB"
