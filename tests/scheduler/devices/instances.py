"""Random gangs with device claims on few nodes, and the exact solver's result for them."""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from ortools.sat.python import cp_model

from scheduler.core.values.device_asks import NANO, Ask, DeviceConstraint, DeviceOption
from scheduler.core.values.devices import Attribute, DeviceInfo
from tests.scheduler.devices.builders import (
    DRIVER,
    ask,
    device,
    different,
    evaluate,
    first_of,
    gpu,
    has,
    pool,
    same,
)
from tests.scheduler.devices.cluster import DeviceCluster

SIZES = ("small", "large")
CARD = "card"


@dataclass(frozen=True)
class Node:
    """A node; `memory` is the counter that its devices share, in units; None without one."""

    cpu: int
    devices: tuple[DeviceInfo, ...]
    memory: int | None


@dataclass(frozen=True)
class Instance:
    """All pods must run; each is (cpu, its asks)."""

    nodes: tuple[Node, ...]
    pods: tuple[tuple[int, Ask], ...]


def instance(seed: int, number: int) -> Instance:
    """Return the instance of the numbers. Devices are scarce in most of them."""
    rng = random.Random(seed * 10_000 + number)
    nodes = tuple(_node(rng) for _ in range(rng.randint(1, 4)))
    total = sum(len(node.devices) for node in nodes)
    shapes = [(rng.randint(1, 2), _ask(rng)) for _ in range(rng.choice((1, 1, 2, 3)))]
    pods: list[tuple[int, Ask]] = []
    wanted = max(1, total - rng.randint(0, 4))
    while sum(_size(each) for _, each in pods) < wanted and len(pods) < 12:
        pods.append(rng.choice(shapes))
    return Instance(nodes, tuple(pods))


def _node(rng: random.Random) -> Node:
    split = rng.random() < 0.25
    devices = tuple(
        device(
            f"d{at}",
            {"size": rng.choice(SIZES), "rail": rng.randint(0, 2)},
            uses={CARD: {"memory": rng.choice((1, 1, 2))}} if split else None,
        )
        for at in range(rng.randint(2, 6))
    )
    return Node(rng.randint(3, 8), devices, rng.randint(3, 6) if split else None)


def _ask(rng: random.Random) -> Ask:
    kind = rng.random()
    selector = [has("size", rng.choice(SIZES))] if rng.random() < 0.4 else []
    if kind < 0.3:
        return ask(gpu(rng.randint(1, 3), *selector))
    if kind < 0.55:
        return ask(gpu(2, *selector), constraints=[same("rail")])
    if kind < 0.7:
        return ask(gpu(2, *selector), constraints=[different("rail")])
    if kind < 0.85:
        large = gpu(1, has("size", "large"), name="large")
        return ask(first_of("one", large, gpu(2, has("size", "small"), name="two")))
    any_one = gpu(1, name="any")
    return ask(any_one, gpu(1, has("size", rng.choice(SIZES)), name="other"))


def _size(each: Ask) -> int:
    return sum(min(o.count for o in request.options) for request in each.requests)


def build(of: Instance) -> DeviceCluster:
    made = DeviceCluster()
    for number, node in enumerate(of.nodes):
        name = f"n{number}"
        made.node(name, node.cpu)
        parts = 1 if node.memory is None else 2
        made.slice(pool(*node.devices, pool=name, node=name, slices=parts))
        if node.memory is not None:
            shared = {CARD: {"memory": node.memory}}
            made.slice(pool(name=f"c{number}", pool=name, node=name, slices=2, counters=shared))
    made.gang("g", len(of.pods))
    for cpu, each in of.pods:
        made.asks("g", each, cpu=cpu)
    return made


class ExactSolver:
    """Decides by CP-SAT if there are nodes and devices for all pods."""

    def __init__(self, of: Instance) -> None:
        self._of = of
        self._model = cp_model.CpModel()
        self._bool = partial(self._model.new_bool_var, "")
        self._takers: defaultdict[tuple[int, int], list[cp_model.IntVar]] = defaultdict(list)
        self._cpu: defaultdict[int, list[cp_model.LinearExpr]] = defaultdict(list)
        for cpu, each in of.pods:
            self._pod(cpu, each)
        for number, node in enumerate(of.nodes):
            self._node(number, node)

    def feasible(self) -> bool:
        return self.solve() is not None

    def solve(self) -> cp_model.CpSolver | None:
        """Return the solver with its solution; None if there is none."""
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        status = solver.solve(self._model)
        assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE)
        return None if status == cp_model.INFEASIBLE else solver

    def _pod(self, cpu: int, each: Ask) -> None:
        here = [self._bool() for _ in self._of.nodes]
        self._model.add(sum(here) == 1)
        for number, place in enumerate(here):
            self._cpu[number].append(cpu * place)
        taken: list[tuple[DeviceOption, str, DeviceInfo, cp_model.IntVar]] = []
        for request in each.requests:
            chosen = [self._bool() for _ in request.options]
            self._model.add(sum(chosen) == 1)
            for option, choice in zip(request.options, chosen, strict=True):
                found = list(self._candidates(option, here))
                self._model.add(sum(var for _, var in found) == option.count * choice)
                taken += ((option, request.name, info, var) for info, var in found)
        for constraint in each.constraints:
            concerned = [
                (info, var)
                for option, name, info, var in taken
                if not constraint.requests or {option.name, name} & {*constraint.requests}
            ]
            self._constrain(constraint, concerned)

    def _candidates(
        self, option: DeviceOption, here: list[cp_model.IntVar]
    ) -> Iterator[tuple[DeviceInfo, cp_model.IntVar]]:
        for number, node in enumerate(self._of.nodes):
            for at, info in enumerate(node.devices):
                if all(evaluate(text, DRIVER, info) is True for text in option.selectors):
                    var = self._bool()
                    self._model.add(var <= here[number])
                    self._takers[number, at].append(var)
                    yield info, var

    def _constrain(
        self, constraint: DeviceConstraint, concerned: list[tuple[DeviceInfo, cp_model.IntVar]]
    ) -> None:
        name = constraint.attribute.rpartition("/")[2]
        by_value: defaultdict[Attribute, list[cp_model.IntVar]] = defaultdict(list)
        for info, var in concerned:
            by_value[dict(info.attributes)[name]].append(var)
        if constraint.distinct:
            for each in by_value.values():
                self._model.add(sum(each) <= 1)
            return
        values = {value: self._bool() for value in by_value}
        self._model.add(sum(values.values()) <= 1)
        for value, each in by_value.items():
            for var in each:
                self._model.add(var <= values[value])

    def _held(self, _number: int, _at: int) -> list[cp_model.LinearExprT]:
        """Return variables that are 1 if others keep the device."""
        return []

    def _node(self, number: int, node: Node) -> None:
        self._model.add(sum(self._cpu[number]) <= node.cpu)
        memory: list[cp_model.LinearExprT] = []
        for at, info in enumerate(node.devices):
            users = [*self._takers[number, at], *self._held(number, at)]
            self._model.add(sum(users) <= 1)
            memory += (amount // NANO * sum(users) for _, of in info.counters for _, amount in of)
        if node.memory is not None:
            self._model.add(sum(memory) <= node.memory)
