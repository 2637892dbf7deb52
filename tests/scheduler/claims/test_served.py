"""Devices are watched if ResourceClaims are served, from the start or later."""

import asyncio
from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs

from api.features import USUAL, Feature, FeatureGates
from kube.base.errors import Forbidden, KubeError, NotFound, Unreachable
from kube.client import discovery
from kube.client.client import Client
from kube.client.resources import RESOURCE_CLAIM_TEMPLATES, Resource
from scheduler.core.state.state import State
from scheduler.decoding.objects import decode_pod
from scheduler.decoding.pod_claims import NOT_SERVED
from scheduler.watch import informers as informers_module
from scheduler.watch.informers import SchedulerInformers

NO_CLAIM = 'could not find ResourceClaim "ns/common". Create it, or correct the name.'

RULES = ["v1", "v1beta2", "v1alpha3"]
"""The versions of DeviceTaintRules, the preferred one first."""


class Answers:
    """An API server that fails lists with these errors in sequence, and then returns empty ones.

    None is a response without an error. It has the version 1.37.
    """

    def __init__(self, *errors: KubeError | None) -> None:
        self.errors = list(errors)

    async def request(self, _method: str, path: str, **_more: Any) -> bytes:
        if path == "/version":
            return b'{"major": "1", "minor": "37+"}'
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        return b"{}"


class Follower:
    """A reflector whose list is there at once."""

    def __init__(self, resource: Resource | None = None) -> None:
        self.resource = resource
        self.synced = asyncio.Event()

    async def run(self) -> None:
        self.synced.set()
        await asyncio.Event().wait()


def of(*errors: KubeError | None, gates: FeatureGates = USUAL) -> SchedulerInformers:
    client = cast("Client", Answers(*errors))
    informers = SchedulerInformers(client, State(), gates=gates)
    informers.device_reflectors = cast("Any", (Follower(), Follower(), Follower()))
    assert [each.resource.version for each in informers.taint_rule_reflectors] == RULES
    rules = [Follower(each.resource) for each in informers.taint_rule_reflectors]
    informers.taint_rule_reflectors = cast("Any", tuple(rules))
    pod = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {
            "schedulerName": "muster-scheduler",
            "resourceClaims": [{"name": "x", "resourceClaimName": "common"}],
        },
    }
    informers.pods.upsert(decode_pod(msgspec.json.encode(pod)))
    return informers


def said(informers: SchedulerInformers) -> tuple[str, ...]:
    info = informers.state.pods["u"].info
    return (*info.requirements.unsupported, info.unclaimed)


async def known(informers: SchedulerInformers) -> asyncio.Task[None]:
    task = asyncio.ensure_future(informers.run_devices())
    await asyncio.wait_for(informers.devices_known.wait(), 10)
    return task


async def test_decisions_follow_the_release_of_the_api_server() -> None:
    informers = of(NotFound(404, "NotFound", "no such kind"))
    informers.state.set_release((1, 30))
    task = await known(informers)

    assert informers.state.release == (1, 37)
    task.cancel()


async def test_an_upgrade_is_noticed_where_no_rules_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(_informers: SchedulerInformers, _group: asyncio.TaskGroup) -> bool:
        return False

    monkeypatch.setattr(discovery, "PROBE_SECONDS", 0.0)
    monkeypatch.setattr(SchedulerInformers, "_watch_taint_rules", never)
    informers = of()
    task = await known(informers)
    informers.state.set_release((1, 30))
    changed = asyncio.Event()
    informers.on_change = changed.set
    await asyncio.wait_for(changed.wait(), 10)

    assert informers.state.release == (1, 37)
    task.cancel()


@pytest.mark.parametrize("at", range(3))
async def test_pods_with_claims_are_refused_where_a_kind_is_not_served(at: int) -> None:
    served = [Unreachable("GET", "/", "reset")] if at == 2 else []
    informers = of(*served[:at], NotFound(404, "NotFound", "no such kind"))
    task = await known(informers)

    assert said(informers) == (NOT_SERVED, "")
    assert informers.watched == informers.reflectors
    task.cancel()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat a 403 as final at once, unless a test overrides it."""
    monkeypatch.setattr(discovery, "STARTING", 0.0)
    for module in (discovery, informers_module):
        monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)


@pytest.mark.parametrize("times", [1, 3])
async def test_the_403_of_an_api_server_that_starts_refuses_no_pod(
    monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr(discovery, "STARTING", 60.0)
    informers = of(*[Forbidden(403, "Forbidden", "no")] * times)
    task = await known(informers)

    assert said(informers) == (NO_CLAIM,)
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

    assert said(informers) == (NO_CLAIM,)
    assert informers.watched == (*informers.reflectors, *informers.device_reflectors)
    task.cancel()


async def test_what_is_served_later_is_followed_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "PROBE_SECONDS", 0.0)
    informers = of(NotFound(404, "NotFound", "no such kind"))
    task = await known(informers)
    changed = asyncio.Event()
    informers.on_change = changed.set
    await asyncio.wait_for(changed.wait(), 10)

    assert said(informers) == (NO_CLAIM,)
    task.cancel()


@pytest.mark.parametrize("errors", [(), (Forbidden(403, "Forbidden", "no"),)])
async def test_templates_are_followed_where_pods_are_expected(
    monkeypatch: pytest.MonkeyPatch, errors: tuple[KubeError, ...]
) -> None:
    """The watch starts at once, or after the missing permission, which is reported, is granted."""
    monkeypatch.setattr(discovery, "PROBE_SECONDS", 0.0)
    # Three kinds and the rules are requested before them.
    informers = of(*[None] * 4, *errors, gates=FeatureGates.of({"ExpectedPods": True}))
    informers.template_reflector = cast("Any", Follower(RESOURCE_CLAIM_TEMPLATES))
    expected, changed = informers.expected, asyncio.Event()
    assert expected is not None

    def note() -> None:
        if expected.claims.templates_known:
            changed.set()

    informers.on_change = note
    with capture_logs() as logs:
        task = await known(informers)
        await asyncio.wait_for(changed.wait(), 10)
    assert [log["event"] for log in logs] == ["no device is held for expected pods"] * len(errors)
    assert informers.template_reflector in informers.device_reflectors
    task.cancel()


async def test_where_claims_are_refused_nothing_is_followed() -> None:
    informers = of(gates=USUAL.without(Feature.DEVICE_CLAIMS))
    task = await known(informers)

    assert said(informers) == ("resourceClaims (feature gate DeviceClaims is off)", "")
    assert informers.watched == informers.reflectors
    task.cancel()


NOT_FOUND = NotFound(404, "NotFound", "no such kind")
DEVICES = (None, None, None)  # classes, slices, claims


@pytest.mark.parametrize(
    ("errors", "version"),
    [
        pytest.param((), "v1", id="the newest"),
        pytest.param((NOT_FOUND,), "v1beta2", id="an older one, where the newest is not served"),
        pytest.param((NOT_FOUND, NOT_FOUND), "v1alpha3", id="the oldest"),
        pytest.param((Unreachable("GET", "/", "reset"),), "v1", id="asked again"),
    ],
)
async def test_device_taint_rules_are_followed_in_one_version(
    errors: tuple[KubeError, ...], version: str
) -> None:
    informers = of(*DEVICES, *errors)
    task = await known(informers)

    *_, rules = informers.watched
    assert rules.resource.kind == "DeviceTaintRule"
    assert rules.resource.version == version
    assert rules.synced.is_set()
    assert len(informers.device_reflectors) == 4
    task.cancel()


@pytest.mark.parametrize(
    ("error", "said_so"),
    [
        pytest.param(NOT_FOUND, [], id="not served"),
        pytest.param(Forbidden(403, "Forbidden", "no"), 3 * ["error"], id="not allowed"),
    ],
)
async def test_pods_with_claims_do_not_wait_for_device_taint_rules(
    error: KubeError, said_so: list[str]
) -> None:
    informers = of(*DEVICES, error, error, error)
    with capture_logs() as logs:
        task = await known(informers)

    assert said(informers) == (NO_CLAIM,)
    assert len(informers.device_reflectors) == 3
    assert [log["log_level"] for log in logs] == said_so
    task.cancel()


async def test_device_taint_rules_that_are_served_later_are_followed_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(discovery, "PROBE_SECONDS", 0.0)
    informers = of(*DEVICES, NOT_FOUND, NOT_FOUND, NOT_FOUND)
    rules = informers.taint_rule_reflectors[0]
    task = await known(informers)
    await asyncio.wait_for(rules.synced.wait(), 10)

    task.cancel()
