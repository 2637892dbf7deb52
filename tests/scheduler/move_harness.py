"""A harness with defragmentation, in which the test ends and recreates moved pods."""

from collections.abc import Callable
from dataclasses import replace

from scheduler.app import PartOfATerm
from scheduler.core.values.model import POD_GROUP, ClaimKey, GroupKey, PodInfo
from scheduler.cycle.cycle import Cycle
from scheduler.cycle.parts import CycleParts
from scheduler.preemption.defragmenter import Defragmenter
from scheduler.support.config import Config, Defragmentation
from tests.scheduler.eviction_harness import EvictionHarness
from tests.scheduler.move_builder import MoveBuilder

ALWAYS = Defragmentation(mode="Always")
ON_REQUEST = Defragmentation(mode="OnRequest")


class MoveHarness(EvictionHarness):
    builder: MoveBuilder

    def __init__(self, config: Defragmentation = ALWAYS) -> None:
        super().__init__()
        self.defragmenter = Defragmenter(
            self.builder.state,
            self.queue,
            (self.preemptor, self.evictor),
            clock=self.server_clock,
            config=Config(defragmentation=config),
            stepwise=self.stepwise,
            budget=self.budget,
        )
        parts = CycleParts(
            self.binder,
            self.reporter,
            preemption=self.preemptor,
            defragmentation=self.defragmenter,
            start_limits=self.start_limits,
        )
        self.cycle = Cycle(
            self.builder.state,
            self.queue,
            parts,
            clock=self.server_clock,
            stepwise=self.stepwise,
            budget=self.budget,
        )
        self.loop = self.loop_of(self.cycle)

    def build_state(self, claim_changed: Callable[[ClaimKey], None]) -> MoveBuilder:
        return MoveBuilder(claim_changed)

    def parts_of_a_term(self) -> list[PartOfATerm]:
        return [*super().parts_of_a_term(), self.defragmenter]

    def split(self) -> None:
        """Add two racks of two nodes, half full each, and a gang that needs a complete rack.

        The gang `b` may be moved.
        """
        self.builder.nodes(4, cpu=2, rack_of=2)
        self.builder.group("a", 2)
        self.builder.run_pods("a", "n0", "n1")
        self.builder.movable("b", "n2", "n3")
        self.root("large")
        self.observe(*self.builder.state.forest.groups)

    def root(self, name: str) -> None:
        self.builder.group(name, 4, topology="rack")
        self.builder.waits(name, 4)

    def asks(self, name: str, seconds: float) -> None:
        """Ask to move gangs for the root for so long."""
        until = self.server_clock.now().timestamp() + seconds
        self.builder.change((POD_GROUP, "ns", name), defragment_until=until)

    async def pods_end(self) -> None:
        """Delete all terminating pods, and create them again as their controller does."""
        state = self.builder.state
        infos = {info.name: info for info in self._infos()}
        for name in self.evictor_api.end():
            state.set_pod(created_again(infos[name]))
        await self.settle()

    def where(self, group: str) -> list[str]:
        """Return the nodes of the pods of a group, sorted; empty for a pod without one."""
        return sorted(info.node for info in self._infos() if info.group == group)

    def nominated(self) -> set[GroupKey]:
        return {each.root for each in self.builder.state.nominations}

    def _infos(self) -> list[PodInfo]:
        return [pod.info for pod in self.builder.state.pods.values()]


def created_again(info: PodInfo) -> PodInfo:
    """Return the pod that a controller creates instead of this one."""
    return replace(
        info,
        uid=f"{info.uid}x",
        name=f"{info.name}x",
        node="",
        phase="Pending",
        terminating=False,
        started=0.0,
        preemption=replace(info.preemption, targeted=False),
    )
