"""A builder of groups with slices, for the tests of the decision core."""

from collections.abc import Iterable, Sequence

from scheduler.core.groups.forest import Group
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.values.model import POD_GROUP, GroupSpec, Slicing, Topology
from tests.scheduler.state_builder import StateBuilder

INDEX = "batch.kubernetes.io/job-completion-index"


class SliceBuilder(StateBuilder):
    """Nodes with the labels `block` and `clique`, and a gang `g` with slices of each `clique`."""

    def cliques(self, *capacities: int, per_block: int = 0, nodes_of: int = 0) -> None:
        """Add the cliques c0, c1, ... with so many cores each, on nodes of `nodes_of` cores."""
        for number, cores in enumerate(capacities):
            labels = {"clique": f"c{number}"}
            if per_block:
                labels["block"] = f"b{number // per_block}"
            each = nodes_of or cores
            for node in range(-(-cores // each) if each else 0):
                left = min(each, cores - node * each)
                self.node(f"c{number}n{node}", left, labels=labels)

    def sliced(
        self,
        minimum: int,
        size: int,
        *,
        block: bool = False,
        prefer: bool = False,
        gang: bool = True,
        parent: str | None = None,
        name: str = "g",
        job_pods: int = 0,
        flaw: str = "",
    ) -> None:
        topology = Topology("block", preferred=prefer) if block or prefer else None
        slicing = Slicing(size, "clique", flaw, job_pods)
        workload = "w" if parent else None
        self.state.set_group(
            GroupSpec(
                (POD_GROUP, "ns", name), minimum, gang, parent, workload=workload,
                topology=topology, slicing=slicing,
            )
        )  # fmt: skip

    def indexed(
        self,
        indexes: Iterable[int],
        *,
        node: str = "",
        cpu: int = 1,
        phase: str = "",
        group: str = "g",
    ) -> None:
        for index in indexes:
            self.pod(
                group, cpu, name=f"{group}-{index}", node=node, phase=phase,
                labels={INDEX: str(index)},
            )  # fmt: skip

    @property
    def group(self) -> Group:
        return self.state.forest.groups[POD_GROUP, "ns", "g"]

    def cliques_of(self, placement: Placement | Refusal) -> dict[str, str]:
        """Return pod name -> clique."""
        return {pod: node.split("n")[0] for pod, node in self.where(placement).items()}

    def slices(
        self, size: int, budget: SearchBudget | None = None, *, group: str = "g"
    ) -> dict[int, set[str]]:
        """Place the gang. Return the cliques of each slice by its index."""
        found: dict[int, set[str]] = {}
        for pod, clique in self.cliques_of(self.place(group, budget=budget)).items():
            found.setdefault(int(pod.rpartition("-")[2]) // size, set()).add(clique)
        return found


def one_each(found: dict[int, set[str]]) -> Sequence[str]:
    """Return the clique of each slice, in order of the slices; fails if one is in several."""
    assert all(len(cliques) == 1 for cliques in found.values()), found
    return [next(iter(found[number])) for number in sorted(found)]
