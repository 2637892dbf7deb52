"""Rotation of the CA and the certificate under load, and restarts of replicas, without errors."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from e2e.flows.admission.webhook.conftest import api_server
from e2e.flows.admission.webhook.load import Load
from e2e.flows.admission.webhook.replicas import NAMESPACE, SECRET, Replicas
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually

DAY = 86400.0


@pytest.fixture
def admin(server_kind: str) -> Iterator[Path]:
    """An API server for each test, so that the objects of the load end with it."""
    with api_server(server_kind) as kubeconfig:
        yield kubeconfig


def fast(period: float) -> dict[str, float]:
    """Return lifetimes with which a CA signs for about `period` seconds."""
    return {
        "caDays": 3 * period / DAY,
        "serverDays": 2.5 * period / DAY,
        "aheadDays": 2 * period / DAY,
        "announcedSeconds": period / 4,
    }


class Seen:
    """The different certificates that were served meanwhile."""

    def __init__(self) -> None:
        self.authorities: set[str] = set()
        self.servers: set[str] = set()

    async def look(self, replicas: Replicas, api: Rest) -> None:
        authority, server = await replicas.certificates(api)
        self.authorities.add(authority)
        self.servers.add(server)


@pytest.mark.long
async def test_the_ca_and_the_certificate_rotate_twice_under_load(
    server_kind: str, admin: Path, api: Rest, way: tuple[int, bool]
) -> None:
    count, by_service = way
    real = server_kind == "real"
    if real and not by_service:
        pytest.skip("the embedded cluster calls replicas by their URL")
    # kube-apiserver opens the storage of a CRD again for each new CA, which takes up to 20 s while
    # other suites keep the machine busy: meanwhile the old certificate must be valid.
    seconds, rate = (180.0, 50.0) if real else (60.0, 50.0)
    lives = fast(seconds / 3)
    replicas = Replicas(
        admin, count=count, certificates=lives, by_service=by_service, leaves_all=True
    )
    # The observer must not queue behind the load for a connection.
    async with replicas, Rest.open(admin) as aside:
        await replicas.start()
        load, seen = Load(api, rate), Seen()
        running = asyncio.create_task(load.run())
        ends = time.monotonic() + seconds
        # A slow machine rotates a little later; the rotation must only happen under load.
        while time.monotonic() < ends or (
            min(len(seen.authorities), len(seen.servers)) < 3 and time.monotonic() < ends + 60
        ):
            await seen.look(replicas, aside)
            await asyncio.sleep(0.1)
        load.stop()
        await running

        assert load.failures == [], replicas.log()
        assert load.made >= seconds, "at least some in each second"
        assert len(seen.authorities) >= 3
        assert len(seen.servers) >= 3


async def test_a_deleted_secret_is_filled_once_it_is_created_again(
    server_kind: str, admin: Path, api: Rest
) -> None:
    if server_kind != "real":
        pytest.skip("only kube-apiserver calls a Service")
    replicas = Replicas(admin, count=2, by_service=True, leaves_all=True)
    async with replicas:
        await replicas.start()
        before = await replicas.certificates(api)
        (await api.delete(SECRET)).ok()
        # A new replica has no certificates, and states the command of docs/operations.md.
        replicas.processes[0].kill()
        replicas.processes[0].start()
        await eventually(partial(_says, replicas, "create secret generic"), "the advice", 60)

        name, metadata = SECRET.rsplit("/", 1)[1], {"namespace": NAMESPACE}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **metadata}}
        (await api.post(SECRET.rsplit("/", 1)[0], body)).ok()

        await replicas.ready(0)
        assert await replicas.certificates(api) != before


async def _says(replicas: Replicas, text: str) -> bool:
    return text in replicas.log()


@pytest.mark.long
async def test_a_rolling_restart_of_two_replicas_refuses_no_request(
    admin: Path, api: Rest, way: tuple[int, bool]
) -> None:
    count, by_service = way
    if count < 2:
        pytest.skip("nobody answers while the only replica is away")
    # On a busy machine an API server takes seconds to see that an address is gone.
    replicas = Replicas(admin, count=count, drain=5.0, by_service=by_service, leaves_all=True)
    async with replicas:
        await replicas.start()
        load = Load(api, rate=100.0)
        running = asyncio.create_task(load.run())
        for _ in range(3):
            for number in range(2):
                await replicas.restart(number)
        load.stop()
        await running

        assert load.failures == [], replicas.log()
        assert load.made > 0
