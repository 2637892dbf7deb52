"""The leader is killed or stopped at each point of its work, while something else is wrong as well.

An important gang evicts another and is bound, or a gang is bound in part and taken back. In the
end gangs are whole or not there at all, whatever happens in another tenant's namespace, and nothing
is left.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from api.constants import ANNOTATION_SCHEDULE_TIMEOUT
from e2e.faults import trouble
from e2e.muster import NAMESPACE, SCHEDULER
from e2e.scheduling.bindings import Bindings
from e2e.scheduling.test_leaders import FIRST, SECOND, none_reserved
from e2e.suite.environment import Environment
from e2e.suite.groups import leaf, members
from e2e.suite.objects import pod
from e2e.support import shifted_clock
from e2e.support.intercepting_proxy import InterceptingProxy, Pause, Rule
from kube.errors import NotFound
from kube.resources import LEASES, PODS

SIZE = 4
AHEAD = 300.0
"""Seconds by which the second scheduler's clock is ahead."""


def _of(method: str, *parts: str) -> Rule:
    return lambda m, path: m == method and all(part in path for part in parts)


@dataclass(frozen=True, slots=True)
class Point:
    """Held at the `nth` request of the rule: not sent, or sent and not answered."""

    rule: Rule
    nth: int = 1
    sent: bool = False


POINTS = {
    "mark": Point(_of("PATCH", "/pods/low-", "/status"), nth=SIZE // 2),
    "delete": Point(_of("DELETE", "/pods/low-"), nth=SIZE // 2),
    "Reservation": Point(_of("POST", "/reservations"), sent=True),
    "bind": Point(_of("POST", "/pods/high-", "/binding"), nth=SIZE // 2),
    "take-back": Point(_of("DELETE", "/pods/high-"), nth=SIZE // 2),
}
FAULTS = ("killed", "stopped")
BESIDE = ("deletions fail", "a binding is refused", "one seat", "clocks differ")

_SHORT = {
    ("delete", "stopped", "clocks differ"),
    ("Reservation", "killed", "one seat"),
    ("bind", "stopped", "a binding is refused"),
    ("take-back", "killed", "deletions fail"),
}


def _cases() -> list[object]:
    return [
        pytest.param(
            point, fault, beside, id=f"{fault} at {point}, {beside}",
            marks=[] if (point, fault, beside) in _SHORT else pytest.mark.long,
        )
        for point in POINTS for fault in FAULTS for beside in BESIDE
    ]  # fmt: skip


@pytest.mark.parametrize(("point", "fault", "beside"), _cases())
async def test_gangs_are_whole_whatever_else_is_wrong(
    env: Environment, important: str, tmp_path: Path, server_kind: str,
    point: str, fault: str, beside: str,
) -> None:  # fmt: skip
    await env.add_node(cpu=SIZE)
    flow = _taken_back if point == "take-back" else _preempted
    async with (
        _one_seat(env, server_kind, beside) as seats,
        _schedulers(env, tmp_path, beside, seats) as proxy,
        _trouble_beside(env, tmp_path / "beside", beside),
        Bindings.followed(env) as bindings,
    ):
        await flow(env, important, tmp_path / "own", Injection(env, proxy, POINTS[point], fault))
        await env.until("the Reservations to be gone", lambda: _none_reserved_here(env, beside))
        if fault == "stopped":
            env.muster.send(FIRST, signal.SIGCONT)
        assert bindings.twice == []


class Injection:
    """The fault, once the leader has come to the point: `arm` before, then await `happened`."""

    def __init__(
        self, env: Environment, proxy: InterceptingProxy, point: Point, fault: str
    ) -> None:
        self._env = env
        self._proxy = proxy
        self._point = point
        self._fault = fault
        self._stop: Pause | None = None

    def arm(self) -> None:
        point = self._point
        self._stop = self._proxy.pause_at(point.rule, nth=point.nth, sent=point.sent)

    async def happened(self) -> None:
        """Until the leader was killed or stopped there, and the second leads."""
        env, stop = self._env, self._stop
        assert stop is not None
        async with asyncio.timeout(env.timeout_seconds):
            await stop.reached.wait()
        if self._fault == "killed":
            env.muster.kill(FIRST)
        else:
            env.muster.send(FIRST, signal.SIGSTOP)
        # What a stopped process has sent arrives; what a dead one has, does not.
        stop.release(drop=self._fault == "killed")
        await env.until("the second to lead", lambda: _leads(env, SECOND))


async def _preempted(env: Environment, important: str, _folder: Path, injection: Injection) -> None:
    """An important gang evicts another, and runs."""
    await leaf(env, "low", SIZE, mode="all")
    await env.runs(members("low"), SIZE)
    injection.arm()
    await leaf(env, "high", SIZE, priority_class=important,
               of_pod={"priorityClassName": important})  # fmt: skip
    await injection.happened()

    await env.runs(members("high"), SIZE)
    await env.scheduled("high")
    assert await env.pods(members("low")) == []


async def _taken_back(
    env: Environment, _important: str, folder: Path, injection: Injection
) -> None:
    """One pod of a gang cannot be bound: the others are taken back; later it runs whole."""
    async with trouble.refused_bindings(env, folder) as refused:
        refused.add(f"high-{SIZE - 1}")
        injection.arm()
        await leaf(env, "high", SIZE, annotations={ANNOTATION_SCHEDULE_TIMEOUT: trouble.TIMEOUT})
        await injection.happened()

        await env.has_pods(members("high"), 1)
        assert await env.bound(members("high")) == 0
        refused.clear()
    for index in range(SIZE - 1):
        await env.create(PODS, pod(f"high-again-{index}", env.name, group="high"))
    await env.runs(members("high"), SIZE)


async def _leads(env: Environment, name: str) -> bool:
    try:
        lease = await env.client.get(LEASES, "muster-scheduler", NAMESPACE)
    except NotFound:
        return False
    return f"_{env.muster.pid(name)}_" in (lease["spec"].get("holderIdentity") or "")


async def _none_reserved_here(env: Environment, beside: str) -> bool:
    """The Reservation of what cannot be taken back stays until it can."""
    return beside == "deletions fail" or await none_reserved(env)


@asynccontextmanager
async def _one_seat(env: Environment, server_kind: str, beside: str) -> AsyncIterator[int | None]:
    """By priority and fairness; the embedded server has none, so there the proxies do it."""
    if beside != "one seat":
        yield None
    elif server_kind == "local":
        yield 1
    else:
        async with trouble.one_seat(env, f"muster-{SCHEDULER}"):
            yield None


@asynccontextmanager
async def _schedulers(
    env: Environment, folder: Path, beside: str, seats: int | None
) -> AsyncIterator[InterceptingProxy]:
    """Two schedulers with the rights of their account, each behind a proxy; the first leads."""
    muster = env.muster
    muster.kill(SCHEDULER)
    access = muster.kubeconfig(SCHEDULER)
    clock = shifted_clock.wrapper(folder / "clock", AHEAD) if beside == "clocks differ" else []
    async with AsyncExitStack() as stack:
        made = {}
        for name in (FIRST, SECOND):
            own = folder / name
            own.mkdir()
            proxy = InterceptingProxy(access, own, seats=seats)
            made[name] = await stack.enter_async_context(proxy.running())
            wrapper = clock if name == SECOND else []
            muster.add(name, SCHEDULER, proxy.kubeconfig, wrapper=wrapper)
        try:
            await muster.start(FIRST)
            await env.until("the first to lead", lambda: _leads(env, FIRST))
            await muster.start(SECOND)
            yield made[FIRST]
        finally:
            muster.kill(FIRST)
            muster.kill(SECOND)
            await muster.start(SCHEDULER)


@asynccontextmanager
async def _trouble_beside(env: Environment, folder: Path, beside: str) -> AsyncIterator[None]:
    """What is wrong in another tenant's namespace, if that is it."""
    if beside not in ("deletions fail", "a binding is refused"):
        yield
        return
    async with (
        trouble.namespace_beside(env) as other,
        trouble.refused_bindings(other, folder) as refused,
    ):
        if beside == "a binding is refused":
            await trouble.half_bound(other, refused)
            yield
            return
        async with trouble.failing_deletions(other):
            await trouble.half_bound(other, refused)
            await trouble.being_taken_back(other)
            yield
