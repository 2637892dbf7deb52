"""The control plane of three itself: members and links are lost and come back."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from e2e.harness.controlplane.commands import Options
from e2e.harness.high_availability.servers import ThreeServers
from e2e.harness.support import forwarder
from e2e.harness.support.forwarder import Direction
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import UNREACHABLE, eventually

_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_LOST = (*UNREACHABLE, AssertionError)

pytestmark = pytest.mark.long


@pytest.fixture
async def servers(server_kind: str) -> AsyncIterator[ThreeServers]:
    """The servers alone, without controllers."""
    if server_kind != "real":
        pytest.skip("only the real control plane has members")
    async with ThreeServers(Options(controllers=False, kwok=False, jobset=False)) as made:
        yield made


async def test_what_it_says_is_lost_is_lost(servers: ThreeServers, tmp_path: Path) -> None:
    first, second, third = servers.members
    await _writes(servers, "all")

    # A member of each kind, not of the same: two of three API servers and etcd members remain.
    servers.kill(first.server)
    servers.kill(second.etcd)
    await eventually(lambda: _unready(servers, 2), "two servers to be unready", 60)
    await _writes(servers, "one-server")
    servers.processes[second.etcd].start()
    await servers.restart(first.server)

    servers.send(second.etcd, signal.SIGSTOP)
    servers.send(third.etcd, signal.SIGSTOP)
    with pytest.raises(_LOST):
        await _write(servers, "no-quorum")
    servers.send(second.etcd, signal.SIGCONT)
    servers.send(third.etcd, signal.SIGCONT)
    await _writes(servers, "quorum")

    await servers.snapshot(tmp_path / "snapshot")
    await _writes(servers, "later")
    await servers.restore(tmp_path / "snapshot")
    await servers.start_restored()
    async with servers.client() as rest:
        assert (await rest.get(f"{_CONFIG_MAPS}/quorum")).status == 200
        assert (await rest.get(f"{_CONFIG_MAPS}/later")).status == 404


async def test_a_link_is_cut_alone(servers: ThreeServers, tmp_path: Path) -> None:
    link = await servers.new_link()
    own = forwarder.redirect(servers.kubeconfig, tmp_path / "kubeconfig", link.port)
    async with Rest.open(own) as rest:
        (await rest.get(_CONFIG_MAPS)).ok()
        for directions in (tuple(Direction), (Direction.REQUESTS,), (Direction.RESPONSES,)):
            link.freeze(directions=directions)
            name = f"lost-{len(directions)}-{directions[0].value}"
            with pytest.raises(TimeoutError):
                await rest.post(_CONFIG_MAPS, {"metadata": {"name": name}}, timeout=1)
            arrived = Direction.REQUESTS not in directions
            await _writes(servers, f"others-{name}")
            link.thaw()
            await asyncio.sleep(0)
            (await rest.get(_CONFIG_MAPS)).ok()
            # What the client gave up arrived before the cut, or never.
            assert (await rest.get(f"{_CONFIG_MAPS}/{name}")).status == (200 if arrived else 404)


async def _writes(servers: ThreeServers, name: str) -> None:
    """Create an object, with as many attempts as a client makes during a change of members."""

    async def probe() -> bool:
        try:
            await _write(servers, name)
        except (aiohttp.ClientError, OSError, TimeoutError, AssertionError):
            return False
        return True

    await eventually(probe, f"{name} to be written", 90)


async def _write(servers: ThreeServers, name: str) -> None:
    async with servers.client() as rest:
        answer = await rest.post(_CONFIG_MAPS, {"metadata": {"name": name}}, timeout=5)
        assert answer.status in (201, 409), answer.text


async def _unready(servers: ThreeServers, count: int) -> bool:
    return sum(not servers.is_ready(member) for member in servers.members) == count
