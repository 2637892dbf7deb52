"""The leader is killed, stopped or cut off at each step of binding a gang; another waits.

In the end the gang runs whole, no pod was bound twice, no Reservation is left, and the old leader
wrote nothing after its lease.
"""

import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from api.constants import RESERVATION
from e2e.muster import NAMESPACE, SCHEDULER
from e2e.scheduling.bindings import Bindings
from e2e.suite.environment import Environment
from e2e.suite.objects import job, of_job, resource
from e2e.support.intercepting_proxy import InterceptingProxy, Rule
from kube.errors import NotFound
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
async def test_a_gang_is_whole_whatever_happens_to_the_leader(
    env: Environment, tmp_path: Path, fault: str, step: str
) -> None:
    for _ in range(2):
        await env.add_node(cpu=SIZE)
    pause_at = STEPS[step]
    async with two_schedulers(env, tmp_path) as proxy, Bindings.followed(env) as bindings:
        stop = proxy.pause_at(pause_at.rule, nth=pause_at.nth, sent=pause_at.sent)
        await env.create(JOBS, job("gang", env.name, pods=SIZE))
        await stop.reached.wait()

        inject_fault(env, proxy, fault)
        # What a stopped process has sent arrives; what a dead or lost one has, does not.
        stop.release(drop=fault != "stopped")

        await env.until("the second to lead", lambda: leads(env, SECOND))
        await env.runs(of_job("gang"), SIZE)
        await env.scheduled("pg-job-gang")
        await env.until("the Reservations to be gone", lambda: none_reserved(env))
        if fault != "killed":
            before = len(proxy.sent)
            end_fault(env, proxy, fault)
            await env.until("the first to follow again", lambda: asked(proxy, before))
            assert writes(proxy, before) == []
        assert bindings.twice == []
        assert len(bindings.nodes) == SIZE


async def test_a_new_leader_whose_watches_were_frozen_knows_what_happened_meanwhile(
    env: Environment, tmp_path: Path
) -> None:
    await env.add_node(cpu=SIZE)
    async with two_schedulers(env, tmp_path, leader=SECOND) as proxy:
        proxy.freeze()
        await env.create(JOBS, job("meanwhile", env.name, pods=SIZE))
        await env.runs(of_job("meanwhile"), SIZE)
        await env.add_node(cpu=SIZE)
        env.muster.kill(SECOND)
        await env.create(JOBS, job("later", env.name, pods=SIZE))

        await env.until("the other to lead", lambda: leads(env, FIRST))
        await env.runs(of_job("later"), SIZE)

    found = await env.pods(of_job("meanwhile")) + await env.pods(of_job("later"))
    assert Counter(Counter(pod["spec"]["nodeName"] for pod in found).values()) == {SIZE: 2}


def inject_fault(env: Environment, proxy: InterceptingProxy, fault: str) -> None:
    if fault == "killed":
        env.muster.kill(FIRST)
    elif fault == "stopped":
        env.muster.send(FIRST, signal.SIGSTOP)
    else:
        proxy.cut()


def end_fault(env: Environment, proxy: InterceptingProxy, fault: str) -> None:
    if fault == "stopped":
        env.muster.send(FIRST, signal.SIGCONT)
    else:
        proxy.heal()


def writes(proxy: InterceptingProxy, since: int) -> list[tuple[str, str]]:
    """What may only be written under the lease; events and the lease itself are free."""
    return [
        (method, path)
        for method, path in proxy.sent[since:]
        if method != "GET" and "/leases" not in path and "/events" not in path
    ]


async def asked(proxy: InterceptingProxy, since: int) -> bool:
    """Whether the process has looked at the lease again, so that it knows it is another's."""
    return any("/leases/" in path and method == "GET" for method, path in proxy.sent[since:])


async def leads(env: Environment, name: str) -> bool:
    try:
        lease = await env.client.get(LEASES, "muster-scheduler", NAMESPACE)
    except NotFound:  # nobody has led yet
        return False
    holder: str = lease["spec"].get("holderIdentity") or ""
    return f"_{env.muster.pid(name)}_" in holder


async def none_reserved(env: Environment) -> bool:
    return not (await env.client.list(RESERVATIONS))["items"]


@asynccontextmanager
async def two_schedulers(
    env: Environment, folder: Path, *, leader: str = FIRST
) -> AsyncIterator[InterceptingProxy]:
    """One leads, the other waits; the first uses a proxy. Afterwards the usual one is back."""
    muster = env.muster
    muster.kill(SCHEDULER)
    async with InterceptingProxy(env.cluster.kubeconfig, folder).running() as proxy:
        muster.add(FIRST, SCHEDULER, proxy.kubeconfig)
        muster.add(SECOND, SCHEDULER, env.cluster.kubeconfig)
        try:
            await muster.start(leader)
            await env.until(f"{leader} to lead", lambda: leads(env, leader))
            await muster.start(SECOND if leader == FIRST else FIRST)
            yield proxy
        finally:
            muster.kill(FIRST)
            muster.kill(SECOND)
            await muster.start(SCHEDULER)
