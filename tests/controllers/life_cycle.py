"""What all random life cycles of owners share: the loop, the faults, and the end."""

import asyncio
from abc import abstractmethod
from collections.abc import Coroutine
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from kube.base.errors import ServerError, TooManyRequests
from tests.controllers.conftest import ControllerHarness

GROUPS = ("PodGroup", "CompositePodGroup")
MADE = ("Workload", *GROUPS)
# Longer than any backoff of the controllers.
_LONG = 120.0


class LifeCycle(RuleBasedStateMachine):
    """Users, other controllers and faults act; the controllers run in between."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.harness = self.run(self.new_harness())

    async def new_harness(self) -> ControllerHarness:
        return ControllerHarness()

    @abstractmethod
    def remove_all(self) -> None:
        """Remove all owners and pods."""

    def check_settled(self) -> None:
        """Check the objects once the controllers have nothing left to do."""

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    def do(self, act: Any) -> None:
        """Act inside the loop, because caches wake queues there."""

        async def inside() -> None:
            act()

        self.run(inside())

    @rule(data=st.data())
    def delete_something_generated(self, data: st.DataObject) -> None:
        there = [slot for slot in self.harness.api.objects if slot[0] in MADE]
        if there:
            slot = data.draw(st.sampled_from(sorted(there)))
            self.do(lambda: self.harness.api.remove(*slot))

    @rule()
    def events_are_late(self) -> None:
        self.do(self.harness.api.pause_events)

    @rule()
    def events_arrive(self) -> None:
        self.do(self.harness.api.resume_events)

    @rule(count=st.integers(1, 3))
    def requests_fail(self, count: int) -> None:
        errors = [ServerError(500, "InternalError", "no"), TooManyRequests(429, "TooMany", "no")]
        self.harness.api.fail(*[errors[index % 2] for index in range(count)])

    @rule(linger=st.booleans())
    def the_controller_is_killed(self, linger: bool) -> None:
        """Let another one take over.

        The first may continue to write for a moment, from stale caches.
        """
        self.run(self._replace(linger=linger))

    @rule()
    def the_controller_leads_again(self) -> None:
        """Let the controller lose and regain its lease."""
        self.run(self.harness.new_term())

    @rule(seconds=st.sampled_from([0.0, 1.0, 30.0]))
    def the_controllers_work(self, seconds: float) -> None:
        self.run(self.harness.settle(seconds=seconds))

    def teardown(self) -> None:
        try:
            self.do(self.harness.api.relist)
            self.settle()
            self.check_settled()
            self.do(self.remove_all)
            self.settle()
            assert self.harness.api.names(*MADE) == []
        finally:
            self.do(self.harness.close)
            self.runner.close()

    def settle(self) -> None:
        """Let the controllers work until they have nothing left to do."""
        self.run(self._settle())

    async def _settle(self) -> None:
        self.harness.api.recover()
        for _ in range(6):
            await self.harness.settle(seconds=_LONG)

    async def _replace(self, *, linger: bool) -> None:
        old, self.harness = self.harness, await self.new_harness()
        if linger:
            for part in old.parts:
                await part.resync()
            await old.settle()
        old.close()
        self.harness.api.share(old.api)
        self.harness.api.relist()
        for part in self.harness.parts:
            await part.resync()
