"""Two candidates never have a valid fence at once, whatever happens to their requests."""

import asyncio
import random
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kube.base.errors import Unreachable
from kube.base.settings import LeaderElection
from kube.leader.election import Fence, LeaderElector
from tests.support.clock import FakeClock, settle
from tests.support.memory_api import MemoryApi

TIMES = LeaderElection(lease_seconds=15, renew_seconds=10, retry_seconds=2)
LOOK = 0.25
"""Seconds between two checks of the fences."""


class FaultyClient(MemoryApi):
    """One candidate's connection to the server.

    `trouble` is "" or the fault: the request is "lost", or its "answer" is; or the request arrives
    "late", after `delay` seconds.
    """

    def __init__(self, server: MemoryApi, clock: FakeClock) -> None:
        super().__init__(clock)
        self.join(server)
        self.trouble, self.delay = "", 0.0

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        trouble, delay, timeout = self.trouble, self.delay, options["timeout"]
        if trouble == "late":
            await self._clock.sleep(min(delay, timeout))
        answer = b"" if trouble == "lost" else await super().request(method, path, **options)
        if not trouble or (trouble == "late" and delay < timeout):
            return answer
        await self._clock.sleep(timeout if trouble != "late" else 0)
        raise Unreachable(method, path, trouble)

    async def watch_lines(
        self, path: str, params: Mapping[str, str], **options: Any
    ) -> AsyncGenerator[bytes, None]:
        """Deliver events late, too."""
        async for line in super().watch_lines(path, params, **options):
            await self._clock.sleep(self.delay if self.trouble else 0)
            yield line


@dataclass
class Candidate:
    client: FaultyClient
    elector: LeaderElector
    fences: list[Fence] = field(default_factory=list)

    async def work(self, fence: Fence) -> None:
        self.fences.append(fence)
        await asyncio.Event().wait()

    def leads(self) -> bool:
        return any(fence.valid() for fence in self.fences)


def candidate(name: str, server: MemoryApi, clock: FakeClock) -> Candidate:
    client = FaultyClient(server, clock)
    elector = LeaderElector(
        client, "muster", "ns", name, clock,
        times=TIMES, jitter=random.Random(name),
    )  # fmt: skip
    return Candidate(client, elector)


_STEPS = st.lists(
    st.tuples(
        st.sampled_from((0, 1)),
        st.sampled_from(("", "lost", "answer", "late")),
        st.floats(0.1, 12.0),
        st.floats(0.5, 30.0),
    ),
    min_size=1,
    max_size=12,
)


@given(_STEPS)
def test_two_candidates_never_lead_at_once_and_in_the_end_one_does(
    steps: list[tuple[int, str, float, float]],
) -> None:
    asyncio.run(_compete(steps))


async def _compete(steps: list[tuple[int, str, float, float]]) -> None:
    clock = FakeClock()
    server = MemoryApi(clock)
    both = [candidate(name, server, clock) for name in ("a", "b")]
    tasks = [asyncio.ensure_future(each.elector.run(each.work)) for each in both]
    try:
        for who, trouble, delay, seconds in steps:
            both[who].client.trouble, both[who].client.delay = trouble, delay
            await _pass(clock, both, seconds)
        for each in both:
            each.client.trouble = ""
        await _pass(clock, both, 2 * TIMES.lease_seconds + TIMES.renew_seconds)
        assert any(each.leads() for each in both)
    finally:
        for task in tasks:
            task.cancel()
        for each in both:
            each.client.trouble = ""
        await settle()
        await asyncio.wait(tasks)


async def _pass(clock: FakeClock, both: list[Candidate], seconds: float) -> None:
    for _ in range(round(seconds / LOOK)):
        await clock.advance(LOOK)
        assert sum(each.leads() for each in both) <= 1
