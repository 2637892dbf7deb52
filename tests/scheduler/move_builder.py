"""A state with gangs that may be moved, and the results of defragmentation."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from scheduler.core.defragmentation.movable import MoveLimits
from scheduler.core.defragmentation.plan import MovePlan, NoMoves, defragment
from scheduler.core.search.place import Refusal, SearchBudget, place
from scheduler.core.values.model import ClaimKey, GroupKey, MembershipInfo, PodInfo
from scheduler.core.values.run_protection import RunProtection
from tests.scheduler.preemption_builder import PreemptionBuilder

NOW = 1_000_000.0


class MoveBuilder(PreemptionBuilder):
    def __init__(self, claim_changed: Callable[[ClaimKey], None] = lambda _key: None) -> None:
        super().__init__(claim_changed)
        self.state.units.protection = RunProtection(now=NOW, window=3600.0)

    def movable(
        self,
        name: str,
        *nodes: str,
        cpu: int = 1,
        priority: int = 0,
        mode: str = "single",
        topology: str | None = None,
        minimum: int | None = None,
        parent: str | None = None,
        **labels: str,
    ) -> list[PodInfo]:
        """Add a gang that runs, one pod on each of the nodes, and may be moved."""
        key = self.group(
            name, len(nodes) if minimum is None else minimum, priority=priority, mode=mode,
            topology=topology, parent=parent,
        )  # fmt: skip
        self.change(key, movable=None if parent else True)
        return self.run_pods(name, *nodes, cpu=cpu, priority=priority, **labels)

    def run_pods(
        self, group: str | None, *nodes: str, cpu: int = 1, priority: int = 0, **labels: str
    ) -> list[PodInfo]:
        """Add pods that run and that a controller would create again."""
        infos = self.runs(group, *nodes, cpu=cpu, others=None, priority=priority, **labels)
        made = [replace(it, membership=MembershipInfo(maker='Job "x"')) for it in infos]
        for info in made:
            self.state.set_pod(info)
        return made

    def change(self, key: GroupKey, **fields: object) -> None:
        """Change fields of the spec of a group."""
        spec = self.state.forest.groups[key].spec
        assert spec is not None
        self.state.set_group(replace(spec, **fields))  # type: ignore[arg-type]

    def defragment(
        self, name: str, limits: MoveLimits = MoveLimits(), budget: SearchBudget | None = None
    ) -> MovePlan | NoMoves:
        """Return the plan for a root, which must wait."""
        root = self.root(name)
        refusal = place(self.state, root, SearchBudget())
        assert isinstance(refusal, Refusal), "nothing to move for"
        return defragment(self.state, root, refusal, lambda: budget or SearchBudget(), limits)

    def moved(self, name: str, limits: MoveLimits = MoveLimits()) -> set[str]:
        """Return the names of the gangs that are moved."""
        plan = self.defragment(name, limits)
        assert isinstance(plan, MovePlan), plan
        return {mover.root.name for mover in plan.moves}

    def targets(self, plan: MovePlan) -> Mapping[str, str]:
        """Return the node of each pod of the plan, those of the root included, by name."""
        names = self.state.nodes.name_of
        placed = zip(plan.placement.pods, plan.placement.rows, strict=True)
        moved = (pair for pairs in plan.moves.values() for pair in pairs)
        return {pod.info.name: names(row) for pod, row in (*placed, *moved)}
