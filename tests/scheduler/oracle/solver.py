"""The exact solver: the feasibility of an instance, and the best choice of victims."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from ortools.sat.python import cp_model

from tests.scheduler.oracle.instances import PREEMPTOR, Amounts, Instance, Tree

Domain = dict[int, cp_model.IntVar]
"""For each node with the label, a variable that is 1 if its value is the chosen one."""


@dataclass(frozen=True, slots=True, order=True)
class Optimum:
    """The lexicographic optimum of the cost of victims."""

    violations: int
    priority: int
    units: int
    priorities: int
    pods: int


class ExactSolver:
    """One CP-SAT model of the nodes, the tree and its possible victims.

    Groups that do not count may have pods in it too: they use capacity, so they improve no result.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.model = cp_model.CpModel()
        self.load: list[list[list[cp_model.LinearExpr]]] = [
            [[] for _ in node.allocatable] for node in instance.nodes
        ]
        self.units = [
            (group.priority, pods)
            for group in instance.running
            for pods in ([group.pods] if group.whole else [(pod,) for pod in group.pods])
        ]
        self.gone = [self.model.new_bool_var(f"gone{i}") for i in range(len(self.units))]
        self._running()
        self.model.add(self._stands(instance.tree, [], []) == 1)
        self._capacity()

    def feasible(self) -> bool:
        """Return True if there is any solution."""
        return self._solve() is not None

    def optimum(self) -> Optimum | None:
        """Return the cheapest victims, by the fields of the result in their order."""
        violations = self._violations()
        top = self.model.new_int_var(-1, PREEMPTOR, "top")
        for (priority, _), gone in zip(self.units, self.gone, strict=True):
            self.model.add(top >= priority).only_enforce_if(gone)
        priorities = sum(p * gone for (p, _), gone in zip(self.units, self.gone, strict=True))
        pods = sum(len(pods) * gone for (_, pods), gone in zip(self.units, self.gone, strict=True))
        found = []
        for goal in (violations, top, sum(self.gone), priorities, pods):
            self.model.minimize(goal)
            solver = self._solve()
            if solver is None:
                return None
            value = round(solver.objective_value)
            self.model.add(goal <= value)
            found.append(value)
        return Optimum(*found)

    def _solve(self) -> cp_model.CpSolver | None:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        status = solver.solve(self.model)
        if status == cp_model.INFEASIBLE:
            return None
        if status != cp_model.OPTIMAL:
            raise AssertionError(solver.status_name(status))
        return solver

    def _running(self) -> None:
        """Model the resources of pods that are not evicted."""
        for (priority, pods), gone in zip(self.units, self.gone, strict=True):
            if priority >= PREEMPTOR:
                self.model.add(gone == 0)
            for pod in pods:
                self._take(pod.node, pod.requests, gone.negated())

    def _stands(self, tree: Tree, above: Sequence[Domain], outer: Sequence[str]) -> cp_model.IntVar:
        """Return a variable that is 1 if the minimum is met, within the chosen domains.

        These are the domains chosen for the tree itself and above it.
        """
        stands = self.model.new_bool_var(f"{tree.name} stands")
        domains = [*above, *self._domain(tree, outer)]
        keys = [*outer, tree.key] if tree.key else outer
        if tree.children:
            counted = [self._stands(child, domains, keys) for child in tree.children]
        else:
            by_size = [
                self._places(size, count, domains)
                for size, count in sorted(Counter(tree.pods).items())
            ]
            counted = [here for places in by_size for here in places]
            self._rule(tree, by_size)
        self.model.add(sum(counted) >= tree.minimum).only_enforce_if(stands)
        return stands

    def _domain(self, tree: Tree, outer: Sequence[str]) -> Iterator[Domain]:
        """Yield the domain of its pods, if one is required.

        A domain is inside one of each key above, even if that key is only preferred: the path of
        values decides, and a missing outer value counts as a separate one.
        """
        if tree.key is None or tree.preferred:
            return
        chosen: dict[str, cp_model.IntVar] = {}
        by_node = {}
        for index, node in enumerate(self.instance.nodes):
            if tree.key in node.labels:
                value = "/".join(node.labels.get(key, "") for key in (*outer, tree.key))
                if value not in chosen:
                    chosen[value] = self.model.new_bool_var(f"{tree.name} in {tree.key}={value}")
                by_node[index] = chosen[value]
        self.model.add(sum(chosen.values()) <= 1)
        yield by_node

    def _places(
        self, size: Amounts, count: int, domains: Sequence[Domain]
    ) -> list[cp_model.IntVar]:
        """Return the number of these equal pods on each node."""
        places = []
        for node in range(len(self.instance.nodes)):
            here = self.model.new_int_var(0, count, "")
            for domain in domains:
                self.model.add(here <= count * domain.get(node, 0))
            self._take(node, size, here)
            places.append(here)
        self.model.add(sum(places) <= count)
        return places

    def _rule(self, leaf: Tree, by_size: Sequence[Sequence[cp_model.IntVar]]) -> None:
        """Keep the leaf's pods apart, or spread them over all values of the label."""
        for node in range(len(self.instance.nodes)) if leaf.apart else ():
            self.model.add(sum(places[node] for places in by_size) <= 1)
        if leaf.spread is not None:
            values = [node.labels[leaf.spread] for node in self.instance.nodes]
            for most, least in permutations(set(values), 2):
                self.model.add(
                    _within(most, values, by_size) <= _within(least, values, by_size) + 1
                )

    def _take(self, node: int, size: Amounts, times: cp_model.LinearExpr) -> None:
        for terms, amount in zip(self.load[node], size, strict=True):
            terms.append(amount * times)

    def _capacity(self) -> None:
        for node, load in zip(self.instance.nodes, self.load, strict=True):
            for amount, terms in zip(node.allocatable, load, strict=True):
                self.model.add(sum(terms) <= amount)

    def _violations(self) -> cp_model.LinearExprT:
        total = []
        for app, allowed in self.instance.budgets.items():
            covered = sum(
                gone
                for (_, pods), gone in zip(self.units, self.gone, strict=True)
                for pod in pods
                if pod.app == app
            )
            over = self.model.new_int_var(0, 100, f"over {app}")
            self.model.add(over >= covered - allowed)
            total.append(over)
        return sum(total)


def _within(
    value: str, values: Sequence[str], by_size: Sequence[Sequence[cp_model.IntVar]]
) -> cp_model.LinearExprT:
    """Return the number of pods on the nodes with this value of the label."""
    return sum(
        here
        for places in by_size
        for node, here in zip(values, places, strict=True)
        if node == value
    )
