"""A harness with preemption: victims end when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from api import features
from api.features import FeatureGates
from kube.errors import NotFound
from kube.meta import Json
from kube.patch import Operation, PatchBuilder
from kube.resources import PODS, Resource
from scheduler.config import Preemption
from scheduler.core.model import ClaimKey, GroupKey
from scheduler.cycle import Cycle
from scheduler.evictor import Evictor
from scheduler.preemptor import Preemptor
from tests.scheduler.harness import FakeApi, Harness
from tests.scheduler.preemption_builder import PreemptionBuilder

WRITERS = 4


@dataclass
class FakeEvictorApi(FakeApi):
    """A deleted pod is terminating until it `ends`; marks and nominations are kept.

    An answer takes `turns` turns of the event loop.
    """

    marked: list[str] = field(default_factory=list)
    nominated: dict[str, str] = field(default_factory=dict)
    leaving: list[str] = field(default_factory=list)
    quick: bool = False
    turns: int = 0
    marks: dict[str, Json] = field(default_factory=dict)
    graces: dict[str, int | None] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        await self._answer()
        meta: Json = {"uid": f"uid-{name}", "resourceVersion": "1", "generation": 1}
        if resource == PODS and self.info(name) is None:
            raise NotFound(404, "NotFound", name)
        conditions = [self.marks[name]] if name in self.marks else []
        return {"metadata": meta, "status": {"conditions": conditions}}

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        if resource != PODS:
            await super().delete(resource, name, namespace, uid=uid)
            return
        await self._answer()
        error = self.fail_delete(name)
        if error is not None:
            raise error
        self.deleted.append(name)
        self.graces[name] = grace_seconds
        self.order.append(f"delete {name}")
        info = self.info(name)
        assert info is not None
        self.builder.state.set_pod(replace(info, terminating=True))
        self.leaving.append(name)
        if self.quick:
            self.end()

    async def _answer(self) -> None:
        for _ in range(self.turns):
            await asyncio.sleep(0)

    def end(self) -> list[str]:
        """Everything that was asked to go is gone."""
        gone, self.leaving = self.leaving, []
        for name in gone:
            self.builder.state.remove_pod(f"uid-{name}")
            self.bound.pop(name, None)
        return gone

    async def patch(
        self,
        resource: Resource,
        name: str,
        ops: PatchBuilder | Sequence[Operation],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Json:
        await self._answer()
        for op in ops.ops if isinstance(ops, PatchBuilder) else ops:
            if op["path"] == "/status/nominatedNodeName":
                self.nominated[name] = op["value"]
                self.order.append(f"nominate {name}")
            if op["path"] == "/status/conditions" and isinstance(op["value"], list):
                said = {c["type"]: c for c in op["value"]}.get("DisruptionTarget")
                if said is not None:
                    self._mark(resource, name, said)
        return await super().patch(resource, name, ops, namespace, subresource=subresource)

    def _mark(self, resource: Resource, name: str, condition: Json) -> None:
        error = self.fail_patch(name)
        if error is not None:
            raise error
        info = self.info(name) if resource == PODS else None
        if info is not None:
            self.marks[name] = condition
            targeted = condition["status"] == "True"
            preemption = replace(info.preemption, targeted=targeted)
            self.builder.state.set_pod(replace(info, preemption=preemption))
        if condition["status"] == "True":
            self.marked.append(f"{resource.kind}/{name}")
            self.order.append(f"mark {resource.kind}/{name}")


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
        self.evictor_api = FakeEvictorApi(self.builder)
        # Statuses still go to the fake of the base: what they say may change while victims end.
        self.api = self.evictor_api
        self.binder._api = self.evictor_api
        self.evictor = Evictor(
            self.evictor_api,
            self.builder.state,
            self.group_events,
            self.activity,
            clock=self.clock,
            writers=writers,
            patience=60,
            on_change=self.changed.set,
        )
        self.preemptor = Preemptor(
            self.builder.state,
            self.queue,
            self.evictor,
            clock=self.clock,
            config=config or Preemption(),
            stepwise=self.stepwise,
            budget=self.budget,
            gates=gates,
        )
        self.cycle = Cycle(
            self.builder.state,
            self.queue,
            self.binder,
            self.reporter,
            clock=self.clock,
            stepwise=self.stepwise,
            budget=self.budget,
            preemptor=self.preemptor,
            held_places=self.held_places,
        )
        self.loop = self.loop_of(self.cycle)

    def build_state(self, claim_changed: Callable[[ClaimKey], None]) -> PreemptionBuilder:
        return PreemptionBuilder(claim_changed)

    def _parts(self) -> list[Coroutine[Any, Any, None]]:
        return [*super()._parts(), self.evictor.run(self.fence)]

    def owns(self, *keys: GroupKey) -> None:
        """The groups as the watch shows them, so that events reach them."""
        self.observe(*keys)

    def events_of(self, reason: str) -> list[tuple[str, Any]]:
        return [(who, message) for who, what, message in self.events.told if what == reason]
