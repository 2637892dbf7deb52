"""The leader is killed, stopped or disconnected at any step, with other faults: one table.

In the end gangs run completely or not at all, no pod was bound twice, no incomplete work remains,
and the old leader wrote nothing after its lease.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from api.constants import LABEL_POD_GROUP
from e2e.faults.leaders import trouble
from e2e.faults.leaders.gangs import GANGS, Stage, no_claims, none_reserved
from e2e.faults.leaders.pair import CUT_OFF, KILLED, STOPPED, Pair, Takeover
from e2e.flows.scheduling.gangs.bindings import Bindings
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.environment import Environment
from e2e.harness.muster import Muster
from e2e.harness.settled import settled
from kube.client.client import Client
from kube.client.resources import NODES


class Row(NamedTuple):
    """The flow, the step and the fault at which the leader is lost, and the other fault."""

    who: str
    step: str
    fault: str
    also: str = "nothing"


REFUSED, UNDELETED = "a binding elsewhere is refused", "deletions elsewhere fail"
ONE_SEAT, FROZEN = "one request at a time", "the other's watches are frozen"
MANAGEMENT = ("nothing", REFUSED, UNDELETED, ONE_SEAT, FROZEN)

SHORT = (Row("a gang", "before the last Binding", CUT_OFF),)


def _long() -> Iterator[Row]:
    """Yield each step with a kill and one other fault, and additional faults in rotation."""
    number = 0
    for who, gang in GANGS.items():
        for step in gang.steps:
            for fault in (KILLED, (STOPPED, CUT_OFF)[number // 2 % 2]):
                yield Row(who, step, fault, MANAGEMENT[number % len(MANAGEMENT)])
                number += 1


def _table() -> list[object]:
    rows = [*SHORT, *(row for row in _long() if row not in SHORT)]
    return [pytest.param(row, id=", ".join(row), marks=_marks(row)) for row in rows]


def _marks(row: Row) -> list[pytest.MarkDecorator]:
    since = GANGS[row.who].since
    marks = [pytest.mark.since(*since)] if since else []
    return marks if row in SHORT else [*marks, pytest.mark.long]


@pytest.fixture(scope="module")
def play(
    cluster: Cluster, running_muster: Muster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Row, Path, str], None]]:
    """A function that plays a row with the one pair of schedulers, in their event loop."""
    folder = tmp_path_factory.mktemp("pair")
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        client = runner.run(Client.connect(cluster.kubeconfig, user_agent="muster-e2e"))
        runner.run(stack.enter_async_context(client))
        running = Pair.running(running_muster, client, folder)
        pair = runner.run(stack.enter_async_context(running))

        def played(row: Row, folder: Path, server_kind: str) -> None:
            env = Environment(cluster, running_muster, client, f"flow-{secrets.token_hex(3)}")
            runner.run(_play(env, pair, row, folder, server_kind))

        yield played
        runner.run(stack.aclose())


@pytest.mark.parametrize("row", _table())
def test_gangs_are_whole_whatever_happens_to_the_leader(
    play: Callable[[Row, Path, str], None], tmp_path: Path, server_kind: str, row: Row
) -> None:
    play(row, tmp_path, server_kind)


async def _play(env: Environment, pair: Pair, row: Row, folder: Path, server_kind: str) -> None:
    gang = GANGS[row.who]
    await env.open()
    try:
        async with asyncio.timeout(300), pair.row(), AsyncExitStack() as stack:
            takeover = Takeover(pair, env.muster, gang.steps[row.step], row.fault)
            of_fault = folder / "fault"
            of_fault.mkdir()
            async with _wrong(env, pair, row.also, of_fault), Bindings.followed(env) as bindings:
                await gang.flow(Stage(env, takeover, stack, folder, server_kind))
                await takeover.over()
            await _judge(env, bindings)
            await settled(env, pair.other, pair.leader)
            await env.clear()
            if gang.since:
                await env.until("all claims to be deleted", partial(no_claims, env))
    finally:
        await env.close()


async def _judge(env: Environment, bindings: Bindings) -> None:
    """Check the invariants of all rows at the end."""
    await env.until("the Reservations to be gone", lambda: none_reserved(env))
    assert bindings.twice == []
    pods = await env.pods()
    begun = {_group(pod) for pod in pods if pod["spec"].get("nodeName")}
    waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
    assert [pod["metadata"]["name"] for pod in waiting if _group(pod) in begun] == []
    assert [pod["metadata"]["name"] for pod in waiting if _nominated(pod)] == []
    placed = Counter(pod["spec"]["nodeName"] for pod in pods if pod not in waiting)
    for node, count in placed.items():
        room = (await env.client.get(NODES, node))["status"]["allocatable"]["cpu"]
        assert count <= int(room)  # each requests one


def _group(pod: Any) -> str | None:
    found: str | None = pod["metadata"].get("labels", {}).get(LABEL_POD_GROUP)
    return found


def _nominated(pod: Any) -> bool:
    return bool(pod["status"].get("nominatedNodeName"))


@asynccontextmanager
async def _wrong(env: Environment, pair: Pair, fault: str, folder: Path) -> AsyncIterator[None]:
    """Add the other fault: in another tenant's namespace, or on the schedulers' connections."""
    if fault == FROZEN:
        pair.proxies[pair.other].freeze()
    if fault == ONE_SEAT:
        for proxy in pair.proxies.values():
            proxy.limit(1)
    if fault in (REFUSED, UNDELETED):
        async with trouble.other_namespace(env) as other:
            async with trouble.refused_bindings(other, folder) as refused:
                if fault == REFUSED:
                    await trouble.half_bound(other, refused)
                    yield
                else:
                    async with trouble.failing_deletions(other):
                        await trouble.half_bound(other, refused)
                        await trouble.being_taken_back(other)
                        yield
            # A gang that is deleted before that remains in the queue as paused.
            ended = partial(none_reserved, other)
            await other.until("the other gang to be bound or given up", ended)
    else:
        yield
    pair.restore()
