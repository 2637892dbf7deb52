"""Devices are watched where ResourceClaims are served, from the start or later."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs

from api.features import USUAL, Feature, FeatureGates
from kube.client import Client
from kube.errors import Forbidden, KubeError, NotFound, Unreachable
from scheduler.core.state import State
from scheduler.watch import informers as informers_module
from scheduler.watch.informers import Informers
from scheduler.watch.objects import decode_pod
from scheduler.watch.pod_claims import NOT_SERVED


class Answers:
    """An API server that answers lists with these errors in turn, and then with nothing."""

    def __init__(self, *errors: KubeError) -> None:
        self.errors = list(errors)

    async def request(self, _method: str, path: str, **_more: Any) -> bytes:
        if self.errors:
            raise self.errors.pop(0)
        return b"{}"


class Follower:
    """A reflector whose list is there at once."""

    def __init__(self) -> None:
        self.synced = asyncio.Event()

    async def run(self) -> None:
        self.synced.set()
        await asyncio.Event().wait()


def of(*errors: KubeError, gates: FeatureGates = USUAL) -> Informers:
    client = cast("Client", Answers(*errors))
    informers = Informers(client, State(), gates=gates)
    informers.device_reflectors = cast("Any", (Follower(), Follower(), Follower()))
    pod = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {
            "schedulerName": "muster-scheduler",
            "resourceClaims": [{"name": "x", "resourceClaimName": "common"}],
        },
    }
    informers.pods.upsert(decode_pod(msgspec.json.encode(pod)))
    return informers


def said(informers: Informers) -> tuple[str, ...]:
    info = informers.state.pods["u"].info
    return (*info.requirements.unsupported, info.unclaimed)


async def known(informers: Informers) -> asyncio.Task[None]:
    task = asyncio.ensure_future(informers.run_devices())
    await asyncio.wait_for(informers.devices_known.wait(), 10)
    return task


@pytest.mark.parametrize("at", range(3))
async def test_pods_with_claims_are_refused_where_a_kind_is_not_served(at: int) -> None:
    served = [Unreachable("GET", "/", "reset")] if at == 2 else []
    informers = of(*served[:at], NotFound(404, "NotFound", "no such kind"))
    task = await known(informers)

    assert said(informers) == (NOT_SERVED, "")
    assert informers.watched == informers.reflectors
    task.cancel()


async def test_a_right_that_is_lacking_is_told_and_stops_nothing() -> None:
    informers = of(Forbidden(403, "Forbidden", "no"))
    with capture_logs() as logs:
        task = await known(informers)

    assert said(informers) == (NOT_SERVED, "")
    assert [log["log_level"] for log in logs] == ["error"]
    task.cancel()


async def test_what_is_served_is_followed() -> None:
    informers = of()
    task = await known(informers)

    assert said(informers) == ('could not find ResourceClaim "ns/common"',)
    assert informers.watched == (*informers.reflectors, *informers.device_reflectors)
    task.cancel()


async def test_what_is_served_later_is_followed_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informers_module, "_PROBE_SECONDS", 0.0)
    informers = of(NotFound(404, "NotFound", "no such kind"))
    task = await known(informers)
    changed = asyncio.Event()
    informers.on_change = changed.set
    await asyncio.wait_for(changed.wait(), 10)

    assert said(informers) == ('could not find ResourceClaim "ns/common"',)
    task.cancel()


async def test_where_claims_are_refused_nothing_is_followed() -> None:
    informers = of(gates=USUAL.without(Feature.DEVICE_CLAIMS))
    task = await known(informers)

    assert said(informers) == ("resourceClaims (feature gate DeviceClaims is off)", "")
    assert informers.watched == informers.reflectors
    task.cancel()
