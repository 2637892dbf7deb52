"""Two schedulers, each behind a proxy: one leads until a fault, then the other takes over.

They serve one row after another. A killed leader is restarted as the standby. The second's clock is
five minutes ahead, so that clocks differ at each change of leaders.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from api.features import Feature
from e2e.harness.muster import NAMESPACE, SCHEDULER, WEBHOOK, Muster
from e2e.harness.support import shifted_clock
from e2e.harness.support.intercepting_proxy import InterceptingProxy, Rule
from e2e.harness.support.waiting import eventually
from kube.base.errors import NotFound
from kube.client.client import Client
from kube.client.resources import LEASES

NAMES = ("scheduler-first", "scheduler-second")
AHEAD = 300.0
GATES = {"featureGates": {str(Feature.EXPECTED_PODS): True}}
"""Configuration of both, and of the webhook, for held places."""

KILLED, STOPPED, CUT_OFF = FAULTS = ("killed", "stopped", "cut off")

_WITHIN = 90.0


@dataclass(frozen=True, slots=True)
class Step:
    """The `nth` request of a rule: not sent, or sent without a response.

    Without a rule the flow determines the step.
    """

    rule: Rule | None
    nth: int = 1
    sent: bool = False


def _nothing(_method: str, _path: str) -> bool:
    return False


class Pair:
    """Two schedulers: `leader` leads when a row begins, and `other` is the standby."""

    def __init__(self, muster: Muster, client: Client) -> None:
        self.leader, self.other = NAMES
        self.proxies: dict[str, InterceptingProxy] = {}
        self._muster = muster
        self._client = client

    @classmethod
    @asynccontextmanager
    async def running(cls, muster: Muster, client: Client, folder: Path) -> AsyncIterator["Pair"]:
        """Run the pair instead of the usual scheduler, with the permissions of its account."""
        pair = cls(muster, client)
        clock = shifted_clock.wrapper(folder / "clock", AHEAD)
        muster.kill(SCHEDULER)
        muster.configure(**GATES)
        await muster.restart(WEBHOOK)
        async with AsyncExitStack() as stack:
            for name, wrapper in zip(NAMES, ((), clock), strict=True):
                (folder / name).mkdir()
                proxy = InterceptingProxy(muster.kubeconfig(SCHEDULER), folder / name)
                pair.proxies[name] = await stack.enter_async_context(proxy.running())
                access, options = proxy.kubeconfig, ("--debug",)
                muster.add(name, SCHEDULER, access, arguments=options, wrapper=wrapper)
            try:
                yield pair
            finally:
                for name in NAMES:
                    muster.kill(name)
                muster.configure()
                muster.kill(WEBHOOK)
                await muster.start(WEBHOOK, SCHEDULER)

    @asynccontextmanager
    async def row(self) -> AsyncIterator[None]:
        """Ensure that both run and one leads, whatever the last row did.

        Restart both after a failure.
        """
        self.restore()
        if not any(map(self._muster.running, NAMES)):
            self._muster.launch(NAMES[0])
            await self.led()
        await self.start_missing()
        self.chosen(await self.led())
        try:
            yield
        except BaseException:
            for name in NAMES:
                self._muster.kill(name)
            raise

    def restore(self) -> None:
        """Forward all traffic of both again."""
        for proxy in self.proxies.values():
            proxy.restore()

    def chosen(self, leader: str) -> None:
        """Choose the leader that the row loses."""
        self.leader = leader
        (self.other,) = set(NAMES) - {leader}

    async def start_missing(self) -> None:
        """Start the killed process."""
        for name in NAMES:
            if not self._muster.running(name):
                self._muster.launch(name)
        await asyncio.gather(*(self._muster.ready(name, _WITHIN) for name in NAMES))

    async def led(self, *names: str) -> str:
        """Wait until one of these (default: both) leads, and return its name."""
        found = ""

        async def probe() -> bool:
            nonlocal found
            running = filter(self._muster.running, names or NAMES)
            holder = await self._holder()
            found = next((it for it in running if f"_{self._muster.pid(it)}_" in holder), "")
            return bool(found)

        await eventually(probe, f"{' or '.join(names or NAMES)} to lead", _WITHIN)
        return found

    async def _holder(self) -> str:
        try:
            lease = await self._client.get(LEASES, "muster-scheduler", NAMESPACE)
        except NotFound:  # no lease exists yet
            return ""
        return lease["spec"].get("holderIdentity") or ""


class Takeover:
    """One fault of the leader at one step of its work."""

    def __init__(self, pair: Pair, muster: Muster, step: Step, fault: str) -> None:
        self.step = step
        self._pair = pair
        self._muster = muster
        self._fault = fault
        self._proxy = pair.proxies[pair.leader]

    @asynccontextmanager
    async def during(self) -> AsyncIterator[None]:
        """Let the leader reach the step in the block.

        At its end it is lost, and the other leads.
        """
        step, pair = self.step, self._pair
        rule = step.rule or _nothing
        # A slow machine may lose its short lease, so the leader is whichever process reaches the
        # step.
        pauses = {
            name: proxy.pause_at(rule, nth=step.nth, sent=step.sent)
            for name, proxy in pair.proxies.items()
        }
        yield
        if step.rule is None:
            pair.chosen(await pair.led())
        else:
            there = {asyncio.ensure_future(it.reached.wait()): name for name, it in pauses.items()}
            first, _ = await asyncio.wait(there, timeout=_WITHIN, return_when="FIRST_COMPLETED")
            for waiting in there:
                waiting.cancel()
            assert first, "no scheduler came to the step"
            pair.chosen(there[first.pop()])
        self._proxy = pair.proxies[pair.leader]
        pair.proxies[pair.other].end(pauses[pair.other])
        self._inject()
        # Requests of a stopped process arrive later; those of a dead or disconnected one do not.
        pauses[pair.leader].release(drop=self._fault != STOPPED)
        await pair.led(pair.other)
        self._proxy.end(pauses[pair.leader])

    def _inject(self) -> None:
        leader = self._pair.leader
        if self._fault == KILLED:
            self._muster.kill(leader)
        elif self._fault == STOPPED:
            self._muster.send(leader, signal.SIGSTOP)
        else:
            self._proxy.cut()

    async def over(self) -> None:
        """Wait until the old leader is back, and check that it has decided nothing.

        A stop may fall between the check of the fence and the write of that request, which then
        arrives late: it is one at most, and the judge of the row covers its effect.
        """
        if self._fault == KILLED:
            await self._pair.start_missing()
            return
        before = len(self._proxy.sent)
        self._muster.send(self._pair.leader, signal.SIGCONT)
        self._proxy.heal()
        await eventually(lambda: self._asked(before), "the old leader to follow", _WITHIN)
        late = self._written(before)
        assert len(late) <= (self._fault == STOPPED), late

    async def _asked(self, since: int) -> bool:
        """Return True if the process has read the lease again, and so knows the new holder."""
        sent = self._proxy.sent[since:]
        return any("/leases/" in path and method == "GET" for method, path in sent)

    def _written(self, since: int) -> list[tuple[str, str]]:
        """Return the writes that require the lease; events and the lease itself do not."""
        return [
            (method, path)
            for method, path in self._proxy.sent[since:]
            if method != "GET" and "/leases" not in path and "/events" not in path
        ]
