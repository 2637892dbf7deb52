"""The exact solver: whether an instance has a solution at all, and the best choice of victims."""

from __future__ import annotations

from dataclasses import dataclass

from ortools.sat.python import cp_model

from tests.scheduler.instances import PREEMPTOR, Child, Instance

Literals = list[cp_model.IntVar]


@dataclass(frozen=True, slots=True)
class Best:
    """The lexicographic optimum of what a choice of victims costs."""

    violations: int
    priority: int
    units: int


class Exact:
    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.model = cp_model.CpModel()
        self.units = [
            (group.priority, pods)
            for group in instance.running
            for pods in ([group.pods] if group.whole else [(pod,) for pod in group.pods])
        ]
        self.gone = [self.model.new_bool_var(f"gone{i}") for i in range(len(self.units))]
        for (priority, _), gone in zip(self.units, self.gone, strict=True):
            if priority >= PREEMPTOR:
                self.model.add(gone == 0)
        self.load: list[list[tuple[int, cp_model.IntVar]]] = [[] for _ in instance.nodes]
        self._tree()
        self._capacity()

    def feasible(self) -> bool:
        """Whether there is any solution."""
        return self._solve() is not None

    def best(self) -> Best | None:
        """The cheapest victims: budgets exceeded, then highest priority, then units."""
        violations = self._violations()
        top = self.model.new_int_var(-1, PREEMPTOR, "top")
        for (priority, _), gone in zip(self.units, self.gone, strict=True):
            self.model.add(top >= priority).only_enforce_if(gone)
        found = []
        for goal in (violations, top, sum(self.gone)):
            self.model.minimize(goal)
            solver = self._solve()
            if solver is None:
                return None
            value = round(solver.objective_value)
            self.model.add(goal <= value)
            found.append(value)
        return Best(*found)

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

    def _tree(self) -> None:
        tree = self.instance.tree
        above = self._domains(tree.above)
        inside = self._domains(tree.key)
        stand = []
        for number, child in enumerate(tree.children):
            stands = self.model.new_bool_var(f"stands{number}")
            stand.append(stands)
            self._child(child, number, stands, [above, inside])
        self.model.add(sum(stand) >= tree.minimum)

    def _child(
        self,
        child: Child,
        number: int,
        stands: cp_model.IntVar,
        outer: list[dict[int, cp_model.IntVar] | None],
    ) -> None:
        confined = [*outer, self._domains(child.key)]
        for index, cpu in enumerate(child.sizes):
            places = []
            for node in range(len(self.instance.nodes)):
                here = self.model.new_bool_var(f"p{number}.{index}.{node}")
                for domains in confined:
                    if domains is not None:
                        if node in domains:
                            self.model.add_implication(here, domains[node])
                        else:
                            self.model.add(here == 0)
                self.load[node].append((cpu, here))
                places.append(here)
            self.model.add(sum(places) == 1).only_enforce_if(stands)
            self.model.add(sum(places) == 0).only_enforce_if(stands.negated())

    def _domains(self, key: str | None) -> dict[int, cp_model.IntVar] | None:
        """Per node whether it lies in the domain that is chosen; nodes without the label do not."""
        if key is None:
            return None
        chosen: dict[str, cp_model.IntVar] = {}
        by_node = {}
        for index, node in enumerate(self.instance.nodes):
            value = node.label(key)
            if value is not None:
                if value not in chosen:
                    chosen[value] = self.model.new_bool_var(f"{key}={value}")
                by_node[index] = chosen[value]
        self.model.add(sum(chosen.values()) <= 1)
        return by_node

    def _capacity(self) -> None:
        for index, node in enumerate(self.instance.nodes):
            used = sum(
                cpu * gone.negated()
                for (_, pods), gone in zip(self.units, self.gone, strict=True)
                for at, cpu, _ in pods
                if at == index
            )
            self.model.add(sum(cpu * here for cpu, here in self.load[index]) + used <= node.cpu)

    def _violations(self) -> cp_model.LinearExprT:
        total = []
        for app, allowed in self.instance.budgets.items():
            covered = sum(
                gone
                for (_, pods), gone in zip(self.units, self.gone, strict=True)
                for _, _, label in pods
                if label == app
            )
            over = self.model.new_int_var(0, 100, f"over {app}")
            self.model.add(over >= covered - allowed)
            total.append(over)
        return sum(total)
