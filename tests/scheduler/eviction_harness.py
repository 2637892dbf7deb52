"""A harness with preemption, in which the test decides when victims end."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from msgspec import structs

from api import features
from api.features import FeatureGates
from kube.client.meta import Json
from kube.concurrency.freeze import Freeze
from scheduler.app import PartOfATerm
from scheduler.core.values.model import ClaimKey, GroupKey
from scheduler.cycle.cycle import Cycle
from scheduler.cycle.parts import CycleParts, NoHeldPlaces
from scheduler.preemption.evictor import Evictor
from scheduler.preemption.preemptor import Preemptor
from scheduler.support.config import Preemption
from tests.scheduler.harness import KINDS, Harness, SchedulerApi
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.scheduler.state_builder import StateBuilder
from tests.support.memory_api import Request

WRITERS = 4


class EvictorApi(SchedulerApi):
    """API server on which a deleted pod terminates until it `ends`.

    It keeps DisruptionTarget conditions and nominations. A response takes `turns` additional
    iterations of the event loop.
    """

    quick = False
    turns = 0
    finalizers = ("tests.muster.dev/ends",)

    def __init__(self, builder: StateBuilder) -> None:
        super().__init__(builder)
        self.marked: list[str] = []
        self.nominated: dict[str, str] = {}
        self.leaving: list[str] = []
        self.marks: dict[str, Json] = {}
        self.graces: dict[str, int | None] = {}
        self.order: list[str] = []

    async def before(self, request: Request) -> None:
        for _ in range(self.turns if request.verb != "create" else 0):
            await asyncio.sleep(0)
        await super().before(request)

    async def after(self, request: Request) -> None:
        await super().after(request)
        name, kind = request.name, KINDS.get(request.collection)
        if request.verb == "delete" and kind == "Pod":
            self.graces[name] = request.body.get("gracePeriodSeconds")
            self.order.append(f"delete {name}")
            self._leaves(name)
        for op in request.body if request.verb == "patch" else ():
            if op["path"] == "/status/nominatedNodeName":
                self.nominated[name] = op["value"]
                self.order.append(f"nominate {name}")
            if op["path"] == "/status/conditions" and isinstance(op["value"], list):
                said = {c["type"]: c for c in op["value"]}.get("DisruptionTarget")
                if said is not None:
                    self._mark(f"{kind}/{name}", name, said)

    def _leaves(self, name: str) -> None:
        info = self.info(name)
        assert info is not None
        self.builder.state.set_pod(replace(info, terminating=True))
        self.leaving.append(name)
        if self.quick:
            self.end()

    def end(self) -> list[str]:
        """Delete all terminating pods."""
        gone, self.leaving = self.leaving, []
        for name in gone:
            self.builder.state.remove_pod(f"uid-{name}")
            self.bound.pop(name, None)
        return gone

    def _mark(self, what: str, name: str, condition: Json) -> None:
        targeted = condition["status"] == "True"
        info = self.info(name) if what.startswith("Pod/") else None
        if info is not None:
            self.marks[name] = condition
            preemption = replace(info.preemption, targeted=targeted)
            self.builder.state.set_pod(replace(info, preemption=preemption))
        if targeted:
            self.marked.append(what)
            self.order.append(f"mark {what}")


class EvictionHarness(Harness):
    builder: PreemptionBuilder

    def __init__(
        self,
        *,
        config: Preemption | None = None,
        gates: FeatureGates = features.USUAL,
        writers: int = WRITERS,
    ) -> None:
        super().__init__()
        self.evictor_api = EvictorApi(self.builder)
        # Statuses still go to the server of the base: they may change while victims end.
        self.api = self.evictor_api
        self.binder._api = self.evictor_api
        self.evictor = Evictor(
            self.evictor_api,
            replace(self.shell, freeze=Freeze()),
            self.group_events,
            structs.replace(config or Preemption(), writers=writers),
        )
        self.preemptor = Preemptor(
            self.builder.state,
            self.queue,
            self.evictor,
            clock=self.server_clock,
            config=config or Preemption(),
            stepwise=self.stepwise,
            budget=self.budget,
            gates=gates,
        )
        self.cycle = Cycle(
            self.builder.state,
            self.queue,
            CycleParts(
                self.binder,
                self.reporter,
                preemption=self.preemptor,
                start_limits=self.start_limits,
                held_places=self.held_places or NoHeldPlaces(),
            ),
            clock=self.server_clock,
            stepwise=self.stepwise,
            budget=self.budget,
        )
        self.loop = self.loop_of(self.cycle)

    def build_state(self, claim_changed: Callable[[ClaimKey], None]) -> PreemptionBuilder:
        return PreemptionBuilder(claim_changed)

    def parts_of_a_term(self) -> list[PartOfATerm]:
        return [*super().parts_of_a_term(), self.evictor, self.preemptor]

    async def new_term(self) -> None:
        for part in self.parts_of_a_term():
            part.reset()
        await self.binder.recover(self.fence)
        self.evictor.resume()
        self.preemptor.restore()
        self.builder.state.reconsider_all()

    def _parts(self) -> list[Coroutine[Any, Any, None]]:
        return [*super()._parts(), self.evictor.run(self.fence)]

    def owns(self, *keys: GroupKey) -> None:
        """Add the group objects as the watch delivers them, so that events reach them."""
        self.observe(*keys)

    def events_of(self, reason: str) -> list[tuple[str, Any]]:
        return [(who, message) for who, what, message in self.events.told if what == reason]
