"""Each situation has the outcome that Kubernetes' tests expect, or one that differs on purpose.

All selected ones are played in the first test's setup, some at a time: most of a play is waiting.
"""

import asyncio
import secrets
from collections.abc import Iterable, Iterator, Mapping

import pytest

from api.constants import SCHEDULER_NAME
from e2e.flows.native.control_plane import GATES, both_schedulers
from e2e.harness.controlplane.commands import DEVICES, QUOTA_AND_VOLUMES
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.environment import Environment
from e2e.harness.muster import Muster
from e2e.kubernetes.upstream.situations import page
from e2e.kubernetes.upstream.situations.model import Situation
from e2e.kubernetes.upstream.situations.objects import priority_class
from e2e.kubernetes.upstream.situations.play import play
from e2e.kubernetes.upstream.situations.subjects import SUBJECTS
from kube.base.errors import KubeError
from kube.client.client import Client
from kube.client.resources import PRIORITY_CLASSES

SCHEDULERS = ("default-scheduler", SCHEDULER_NAME)
PRIORITIES = (5, 10, 20, 50, 100, 200, 500)
AT_ONCE = 8
"""Situations that are played at a time."""

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.since("1.37", "Kubernetes serves these versions of its groups since 1.37"),
]
CASES = [
    pytest.param(situation, scheduler, id=f"{situation.name}, {scheduler}")
    for situations in SUBJECTS.values()
    for situation in situations
    for scheduler in SCHEDULERS
]
Key = tuple[str, str]
"""The name of a situation, and of a scheduler."""


@pytest.fixture(scope="module")
def schedulers(server_kind: str) -> Iterator[tuple[ControlPlane, Muster]]:
    """A control plane with native groups, kube-scheduler and Muster."""
    gates = (*GATES, "DRAWorkloadResourceClaims")
    with both_schedulers(server_kind, gates, (*DEVICES, *QUOTA_AND_VOLUMES)) as both:
        yield both


@pytest.fixture(scope="module")
def results(
    schedulers: tuple[ControlPlane, Muster], request: pytest.FixtureRequest
) -> Mapping[Key, str]:
    """The results of all selected plays: what was wrong, or "" """
    calls = (item.callspec.params for item in request.session.items if hasattr(item, "callspec"))
    selected = [(each["situation"], each["scheduler"]) for each in calls if "situation" in each]
    return asyncio.run(_play_all(*schedulers, selected))


async def _play_all(
    cluster: ControlPlane, muster: Muster, selected: Iterable[tuple[Situation, str]]
) -> dict[Key, str]:
    found: dict[Key, str] = {}
    places = asyncio.Semaphore(AT_ONCE)

    async def one(situation: Situation, scheduler: str) -> None:
        env = Environment(cluster, muster, client, f"situation-{secrets.token_hex(3)}")
        # On a busy machine a scheduler may do nothing for more than a minute.
        env.timeout_seconds = 300
        async with places:
            found[situation.name, scheduler] = await _result(situation, scheduler, env)

    async with await Client.connect(cluster.kubeconfig, user_agent="muster-e2e") as client:
        for value in PRIORITIES:
            for never in (False, True):
                await client.create(PRIORITY_CLASSES, priority_class(value, never=never))
        await asyncio.gather(*(one(*each) for each in selected))
    return found


async def _result(situation: Situation, scheduler: str, env: Environment) -> str:
    try:
        await env.open()
        try:
            await play(situation, scheduler, env)
        finally:
            await env.close()
    except (AssertionError, TimeoutError, KubeError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("situation", "scheduler"), CASES)
def test_a_situation_has_its_outcome(
    situation: Situation, scheduler: str, results: Mapping[Key, str]
) -> None:
    wrong = results[situation.name, scheduler]
    assert not wrong, wrong


def test_a_run_of_all_writes_the_page(results: Mapping[Key, str], record: bool) -> None:
    """It does so with `--record` only, and only if each situation had its outcome."""
    assert not any(results.values())
    if record:
        assert len(results) == len(CASES)
        page.write()
