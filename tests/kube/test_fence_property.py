"""Whatever happens to two candidates' requests, never do both hold a valid fence."""

from __future__ import annotations

import asyncio
import json
import random
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from kube.client import Client
from kube.election import Fence, LeaderElector
from kube.errors import AlreadyExists, Conflict, NotFound, Unreachable
from tests.support.clock import FakeClock, settle

LEASE, RENEW, RETRY = 15.0, 10.0, 2.0
LOOK = 0.25
"""Seconds between two looks at the fences."""


@dataclass
class Leases:
    """One lease with optimistic locking."""

    stored: dict[str, Any] | None = None
    version: int = 0

    def answer(self, method: str, body: bytes | None) -> bytes:
        if method == "GET":
            if self.stored is None:
                raise NotFound(404, "NotFound", "lease")
            return json.dumps(self.stored).encode()
        record = json.loads(body or b"")
        if method == "POST" and self.stored is not None:
            raise AlreadyExists(409, "AlreadyExists", "lease")
        if method == "PUT" and record["metadata"]["resourceVersion"] != str(self.version):
            raise Conflict(409, "Conflict", "lease")
        self.version += 1
        self.stored = deepcopy(record)
        self.stored["metadata"]["resourceVersion"] = str(self.version)
        return json.dumps(self.stored).encode()


@dataclass
class FaultyClient:
    """One candidate's way to the server.

    `trouble` is "" or what goes wrong: the request is "lost", or its "answer" is; or the request
    arrives "late", after `delay` seconds.
    """

    leases: Leases
    clock: FakeClock
    trouble: str = ""
    delay: float = 0.0

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, timeout: float, urgent: bool
    ) -> bytes:
        trouble, delay = self.trouble, self.delay
        if trouble == "late":
            await self.clock.sleep(min(delay, timeout))
            answer = self.leases.answer(method, body)
            if delay < timeout:
                return answer
        elif trouble == "answer":
            self.leases.answer(method, body)
        if trouble:
            await self.clock.sleep(timeout if trouble != "late" else 0)
            raise Unreachable(method, path, trouble)
        return self.leases.answer(method, body)


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


def candidate(name: str, leases: Leases, clock: FakeClock) -> Candidate:
    client = FaultyClient(leases, clock)
    elector = LeaderElector(
        cast("Client", client), "muster", "ns", name, clock,
        lease=LEASE, renew=RENEW, retry=RETRY, jitter=random.Random(name),
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
    clock, leases = FakeClock(), Leases()
    both = [candidate(name, leases, clock) for name in ("a", "b")]
    tasks = [asyncio.ensure_future(each.elector.run(each.work)) for each in both]
    try:
        for who, trouble, delay, seconds in steps:
            both[who].client.trouble, both[who].client.delay = trouble, delay
            await _pass(clock, both, seconds)
        for each in both:
            each.client.trouble = ""
        await _pass(clock, both, 2 * LEASE + RENEW)
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
