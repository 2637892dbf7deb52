"""A state in which roots compete: priorities, units, budgets, and results of preemption."""

from collections.abc import Mapping
from dataclasses import replace

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.state.disruption_budgets import DisruptionBudget
from scheduler.core.state.search_memory import SearchMemory
from scheduler.core.values.model import (
    COMPOSITE_POD_GROUP,
    POD_GROUP,
    Expression,
    GroupKey,
    GroupSpec,
    PodInfo,
    PreemptionInfo,
    Requirements,
    Topology,
)
from tests.scheduler.state_builder import StateBuilder, requests


class PreemptionBuilder(StateBuilder):
    def group(
        self,
        name: str,
        minimum: int = 1,
        *,
        priority: int = 0,
        mode: str = "single",
        parent: str | None = None,
        composite: bool = False,
        topology: str | None = None,
        preferred: bool = False,
        preempts: bool = True,
        gang: bool = True,
    ) -> GroupKey:
        kind = COMPOSITE_POD_GROUP if composite else POD_GROUP
        spec = GroupSpec(
            (kind, "ns", name),
            minimum,
            gang,
            parent,
            priority,
            None,
            Topology(topology, preferred=preferred) if topology else None,
            "all" if mode == "all" else "single",
            preempts=preempts,
        )
        self.state.set_group(spec)
        return spec.key

    def runs(
        self,
        group: str | None,
        *nodes: str,
        cpu: int = 1,
        others: Mapping[str, int] | None = None,
        priority: int = 0,
        **labels: str,
    ) -> list[PodInfo]:
        """Add one running pod on each of the nodes."""
        requirements = Requirements(requests(cpu, **(others or {})))
        infos = []
        for node in nodes:
            self._serial += 1
            name = f"v{self._serial:05}"
            info = PodInfo(
                f"uid-{name}", "ns", name, requirements, node, group, priority,
                created=f"{self._serial:05}", phase="Running", started=float(self._serial),
                labels=labels,
            )  # fmt: skip
            self.state.set_pod(info)
            infos.append(info)
        return infos

    def waits(
        self,
        group: str | None,
        count: int = 1,
        *,
        cpu: int = 1,
        others: Mapping[str, int] | None = None,
        priority: int = 0,
        preempts: bool = True,
    ) -> list[PodInfo]:
        requirements = Requirements(requests(cpu, **(others or {})))
        infos = []
        for _ in range(count):
            self._serial += 1
            name = f"w{self._serial:05}"
            info = PodInfo(
                f"uid-{name}", "ns", name, requirements, "", group, priority,
                created=f"{self._serial:05}", preemption=PreemptionInfo(preempts=preempts),
            )  # fmt: skip
            self.state.set_pod(info)
            infos.append(info)
        return infos

    def budget(self, name: str, allowed: int, **labels: str) -> None:
        expressions = tuple(Expression(k, "In", (v,)) for k, v in labels.items())
        self.state.disruption_budgets.set(DisruptionBudget(("ns", name), expressions, allowed))

    def root(self, name: str) -> Group | Pod:
        for kind in (POD_GROUP, COMPOSITE_POD_GROUP):
            group = self.state.forest.groups.get((kind, "ns", name))
            if group is not None:
                return group
        return self.state.pods[f"uid-{name}"]

    def preempt(self, name: str, *, effort: SearchEffort | None = None) -> Plan | Refusal:
        root = self.root(name)
        refusal = place(self.state, root, SearchBudget())
        assert isinstance(refusal, Refusal), "nothing to preempt for"
        return preempt(self.state, root, refusal, SearchBudget(), effort)

    def victims(self, name: str) -> set[str]:
        """Return the names of the victims."""
        plan = self.preempt(name)
        assert isinstance(plan, Plan), plan
        return {pod.info.name for unit in plan.victims for pod in unit.pods.values()}

    def evict(self, plan: Plan) -> None:
        """Remove the victims."""
        for unit in plan.victims:
            for uid in list(unit.pods):
                self.state.remove_pod(uid)

    def leave(self, info: PodInfo) -> None:
        """Mark the pod as terminating."""
        self.state.set_pod(replace(info, terminating=True))

    def fits_without(
        self, name: str, units: list[str], *, memory: SearchMemory | None = None
    ) -> bool:
        """Return True if the root would be placed without these pods; restore the state.

        With a `memory` the search does all that a decision does, otherwise what a dry run does.
        """
        saved = [self.state.pods[uid].info for uid in units]
        for uid in units:
            self.state.remove_pod(uid)
        decision = place(self.state, self.root(name), SearchBudget(), memory=memory)
        for info in saved:
            self.state.set_pod(info)
        return isinstance(decision, Placement)
