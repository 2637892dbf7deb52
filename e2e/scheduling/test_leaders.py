"""The leader is killed, stopped or cut off at each step of binding a gang; another waits.

In the end the gang runs whole, no pod was bound twice, no Reservation is left, and the old leader
wrote nothing after its lease.
"""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from api.constants import RESERVATION
from e2e.muster import NAMESPACE, SCHEDULER
from e2e.scheduling.pods import Bindings
from e2e.suite.objects import job, of_job, resource
from e2e.suite.stage import Stage
from e2e.support.gate import Gate, Rule
from kube.resources import JOBS, LEASES

SIZE = 8
FIRST, SECOND = "scheduler-first", "scheduler-second"
RESERVATIONS = resource(RESERVATION)


def _writes(method: str, end: str) -> Rule:
    return lambda m, path: m == method and end in path


STORE, ERASE = _writes("POST", "/reservations"), _writes("DELETE", "/reservations/")
BIND = _writes("POST", "/binding")


@dataclass(frozen=True, slots=True)
class Step:
    """Stopped at the `nth` request of the rule: not sent, or sent and not answered."""

    rule: Rule
    nth: int = 1
    sent: bool = False


STEPS = {
    "before the Reservation is stored": Step(STORE),
    "when the Reservation is stored": Step(STORE, sent=True),
    "before the first Binding": Step(BIND),
    "in the middle of the Bindings": Step(BIND, nth=SIZE // 2),
    "before the last Binding": Step(BIND, nth=SIZE),
    "when the last Binding is stored": Step(BIND, nth=SIZE, sent=True),
    "before the Reservation is deleted": Step(ERASE),
}
_SHORT = {
    ("killed", "when the Reservation is stored"),
    ("killed", "in the middle of the Bindings"),
    ("killed", "before the Reservation is deleted"),
    ("stopped", "in the middle of the Bindings"),
    ("cut off", "before the last Binding"),
}


def _cases() -> list[object]:
    return [
        pytest.param(
            fault, step, id=f"{fault} {step}",
            marks=[] if (fault, step) in _SHORT else pytest.mark.long,
        )
        for fault in ("killed", "stopped", "cut off")
        for step in STEPS
    ]  # fmt: skip


@pytest.mark.parametrize(("fault", "step"), _cases())
async def test_a_gang_is_whole_whatever_becomes_of_the_leader(
    stage: Stage, tmp_path: Path, fault: str, step: str
) -> None:
    for _ in range(2):
        await stage.add_node(cpu=SIZE)
    stop_at = STEPS[step]
    async with two_schedulers(stage, tmp_path) as gate, Bindings.followed(stage) as bindings:
        stop = gate.stop_at(stop_at.rule, nth=stop_at.nth, sent=stop_at.sent)
        await stage.create(JOBS, job("gang", stage.name, pods=SIZE))
        await stop.reached.wait()

        harm(stage, gate, fault)
        # What a stopped process has sent arrives; what a dead or lost one has, does not.
        stop.release(drop=fault != "stopped")

        await stage.until("the second to lead", lambda: leads(stage, SECOND))
        await stage.runs_whole(of_job("gang"), SIZE)
        await stage.scheduled("pg-job-gang")
        await stage.until("the Reservations to be gone", lambda: none_reserved(stage))
        if fault != "killed":
            before = len(gate.sent)
            heal(stage, gate, fault)
            await stage.until("the first to follow again", lambda: asked(gate, before))
            assert writes(gate, before) == []
        assert bindings.twice == []
        assert len(bindings.nodes) == SIZE


def harm(stage: Stage, gate: Gate, fault: str) -> None:
    if fault == "killed":
        stage.muster.kill(FIRST)
    elif fault == "stopped":
        stage.muster.send(FIRST, signal.SIGSTOP)
    else:
        gate.cut()


def heal(stage: Stage, gate: Gate, fault: str) -> None:
    if fault == "stopped":
        stage.muster.send(FIRST, signal.SIGCONT)
    else:
        gate.heal()


def writes(gate: Gate, since: int) -> list[tuple[str, str]]:
    """What may only be written under the lease; events and the lease itself are free."""
    return [
        (method, path)
        for method, path in gate.sent[since:]
        if method != "GET" and "/leases" not in path and "/events" not in path
    ]


async def asked(gate: Gate, since: int) -> bool:
    """Whether the process has looked at the lease again, so that it knows it is another's."""
    return any("/leases/" in path and method == "GET" for method, path in gate.sent[since:])


async def leads(stage: Stage, name: str) -> bool:
    lease = await stage.client.get(LEASES, "muster-scheduler", NAMESPACE)
    holder: str = lease["spec"].get("holderIdentity") or ""
    return f"_{stage.muster.pid(name)}_" in holder


async def none_reserved(stage: Stage) -> bool:
    return not (await stage.client.list(RESERVATIONS))["items"]


@asynccontextmanager
async def two_schedulers(stage: Stage, folder: Path) -> AsyncIterator[Gate]:
    """The first leads, through a gate; the second waits. Afterwards the usual one is back."""
    muster = stage.muster
    muster.kill(SCHEDULER)
    async with Gate(stage.cluster.kubeconfig, folder).running() as gate:
        muster.add(FIRST, SCHEDULER, gate.kubeconfig)
        muster.add(SECOND, SCHEDULER, stage.cluster.kubeconfig)
        try:
            await muster.start(FIRST)
            await stage.until("the first to lead", lambda: leads(stage, FIRST))
            await muster.start(SECOND)
            yield gate
        finally:
            muster.kill(FIRST)
            muster.kill(SECOND)
            await muster.start(SCHEDULER)
