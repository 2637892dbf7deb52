"""A builder of small clusters for the tests of the decision core.

`StateBuilder()` starts empty; each method adds one thing and returns its name or object.
"""

from collections.abc import Callable, Mapping

from scheduler.core.devices.kinds import SelectorEvaluator
from scheduler.core.devices.table import no_evaluator
from scheduler.core.groups.forest import Pod
from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.state.nominations import Nomination
from scheduler.core.state.state import State
from scheduler.core.values.model import (
    COMPOSITE_POD_GROUP,
    POD_GROUP,
    ClaimKey,
    GroupKey,
    GroupSpec,
    GroupTerm,
    MembershipInfo,
    NodeInfo,
    PodInfo,
    Requirements,
    Taint,
    Topology,
)

GIB = 1 << 30


def requests(cpu: int = 1, **others: int) -> tuple[tuple[str, int], ...]:
    """Return requests in whole cores, and other resources in their own unit."""
    amounts = {"cpu": cpu * 1000, **others}
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))


class StateBuilder:
    def __init__(
        self,
        claim_changed: Callable[[ClaimKey], None] = lambda _key: None,
        evaluate: SelectorEvaluator = no_evaluator,
    ) -> None:
        self.state = State(claim_changed, evaluate)
        self._serial = 0

    def node(
        self,
        name: str,
        cpu: int = 4,
        *,
        pods: int = 110,
        labels: Mapping[str, str] | None = None,
        taints: tuple[Taint, ...] = (),
        unschedulable: bool = False,
        **others: int,
    ) -> NodeInfo:
        allocatable = {"cpu": cpu * 1000, "memory": 64 * GIB, "pods": pods, **others}
        node = NodeInfo(name, allocatable, labels or {}, taints, unschedulable)
        self.state.set_node(node)
        return node

    def nodes(self, count: int, cpu: int = 4, *, rack_of: int = 0) -> None:
        """Add nodes n0, n1, ...; with `rack_of`, that many of them in each rack."""
        for index in range(count):
            labels = {"rack": f"r{index // rack_of:03}"} if rack_of else {}
            self.node(f"n{index}", cpu, labels=labels)

    def gang(
        self,
        name: str,
        minimum: int | None = 1,
        *,
        parent: str | None = None,
        rack: bool = False,
        prefer_rack: bool = False,
        gang: bool = True,
        priority: int | None = None,
        composite: bool = False,
        key: str = "rack",
        workload: str | None = None,
        disruption: str = "single",
        created: str = "",
    ) -> GroupKey:
        kind = COMPOSITE_POD_GROUP if composite else POD_GROUP
        topology = Topology(key, preferred=prefer_rack) if rack or prefer_rack else None
        spec = GroupSpec(
            (kind, "ns", name), minimum, gang, parent, priority, workload, topology,
            "all" if disruption == "all" else "single", created,
        )  # fmt: skip
        self.state.set_group(spec)
        return spec.key

    def composite(self, name: str, minimum: int, *, parent: str | None = None) -> GroupKey:
        return self.gang(name, minimum, parent=parent, composite=True)

    def pod(
        self,
        group: str | None = None,
        cpu: int = 1,
        *,
        name: str = "",
        node: str = "",
        phase: str = "",
        requirements: Requirements | None = None,
        priority: int = 0,
        ours: bool = True,
        gated: bool = False,
        held: bool = False,
        terminating: bool = False,
        labels: Mapping[str, str] | None = None,
        namespace: str = "ns",
        scheduler: str = "",
        group_affinity: tuple[GroupTerm, ...] = (),
        device_claims: tuple[ClaimKey, ...] = (),
    ) -> PodInfo:
        self._serial += 1
        name = name or f"p{self._serial:05}"
        info = PodInfo(
            uid=f"uid-{name}",
            namespace=namespace,
            name=name,
            requirements=requirements or Requirements(requests(cpu)),
            node=node,
            group=group,
            priority=priority,
            created=f"{self._serial:05}",
            phase=phase or ("Running" if node else "Pending"),
            ours=ours,
            gated=gated,
            terminating=terminating,
            labels=labels or {},
            scheduler=scheduler,
            group_affinity=group_affinity,
            device_claims=device_claims,
            membership=MembershipInfo(held=held),
        )
        self.state.set_pod(info)
        return info

    def pods(self, group: str | None, count: int, cpu: int = 1) -> list[PodInfo]:
        return [self.pod(group, cpu) for _ in range(count)]

    def place(
        self, name: str, *, composite: bool = False, budget: SearchBudget | None = None
    ) -> Placement | Refusal:
        kind = COMPOSITE_POD_GROUP if composite else POD_GROUP
        group = self.state.forest.groups[kind, "ns", name]
        return place(self.state, group, budget or SearchBudget())

    def place_single(self, info: PodInfo) -> Placement | Refusal:
        return place(self.state, self.single(info), SearchBudget())

    def single(self, info: PodInfo) -> Pod:
        return self.state.pods[info.uid]

    def nominate(self, pod: Pod, node: str, count: int = 1) -> None:
        """Nominate slots on a node for a pending pod, replacing its other nominations."""
        places = ((pod.shape, ((node, count),)),)
        self.state.nominations.set(Nomination(pod.key, pod.priority, places))

    def run(self, placement: Placement | Refusal) -> None:
        """Assume the decided pods, as the cycle does."""
        assert isinstance(placement, Placement), placement
        self.state.assume(placement.pods, placement.rows, placement.volumes, placement.devices)

    def where(self, placement: Placement | Refusal) -> dict[str, str]:
        """Return pod name -> node name."""
        assert isinstance(placement, Placement), placement
        names = self.state.nodes.name_of
        return {
            p.info.name: names(row) for p, row in zip(placement.pods, placement.rows, strict=True)
        }
