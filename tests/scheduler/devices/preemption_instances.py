"""Random clusters whose devices are mostly in use, and the lowest priority to evict."""

import random
from dataclasses import dataclass, replace

from ortools.sat.python import cp_model

from scheduler.core.values.device_asks import Ask
from tests.scheduler.devices.builders import pool
from tests.scheduler.devices.instances import CARD, ExactSolver, Instance, instance
from tests.scheduler.devices.preemption import DevicePreemption

PRIORITY = 9
"""The gang's priority; some pods have a higher one."""

_PRIORITIES = (0, 1, 2, PRIORITY + 1)


@dataclass(frozen=True)
class Running:
    """A pod on a node; `group` names those evicted together, empty for none."""

    node: int
    priority: int
    cpu: int
    group: str = ""


@dataclass(frozen=True)
class Claim:
    """Devices of a node by index, and the running pods that use them, by index."""

    node: int
    devices: tuple[int, ...]
    pods: tuple[int, ...]


@dataclass(frozen=True)
class Occupied:
    """The pending gang, and the running pods."""

    wanted: Instance
    running: tuple[Running, ...]
    claims: tuple[Claim, ...]


def occupied(seed: int, number: int) -> Occupied:
    """Return the instance of the numbers."""
    rng = random.Random(seed * 10_000 + number)
    wanted = instance(seed, number)
    # The counters of a card remain with running pods, so none is partitioned here.
    nodes = [replace(node, memory=node.memory and 100) for node in wanted.nodes]
    pods = wanted.pods[: rng.randint(1, max(1, len(wanted.pods) // 2))]
    running: list[Running] = []
    claims: list[Claim] = []
    for at, node in enumerate(nodes):
        free = list(range(len(node.devices)))
        rng.shuffle(free)
        room = node.cpu
        while room and rng.random() < 0.85:
            cpu = rng.randint(1, min(2, room))
            room -= cpu
            group = f"low{rng.randint(0, 1)}" if rng.random() < 0.2 else ""
            priority = 1 if group else rng.choice(_PRIORITIES)
            running.append(Running(at, priority, cpu, group))
            taken = tuple(free.pop() for _ in range(min(len(free), rng.randint(0, 3))))
            users = [len(running) - 1]
            if rng.random() < 0.3:
                users += [i for i, r in enumerate(running[:-1]) if r.node == at][-1:]
            if taken:
                claims.append(Claim(at, taken, tuple(users)))
    return Occupied(Instance(tuple(nodes), pods), tuple(running), tuple(claims))


def build(of: Occupied) -> DevicePreemption:
    made = DevicePreemption()
    for number, node in enumerate(of.wanted.nodes):
        name = f"n{number}"
        made.node(name, node.cpu)
        parts = 1 if node.memory is None else 2
        made.slice(pool(*node.devices, pool=name, node=name, slices=parts))
        if node.memory is not None:
            shared = {CARD: {"memory": node.memory}}
            made.slice(pool(name=f"c{number}", pool=name, node=name, slices=2, counters=shared))
    for group in sorted({each.group for each in of.running if each.group}):
        made.group(group, 1, priority=1, mode="all")
    pods = [
        made.holds(f"n{r.node}", group=r.group or None, priority=r.priority, cpu=r.cpu)
        for r in of.running
    ]
    for at, claim in enumerate(of.claims):
        key = made.allocated(f"c{at}", f"n{claim.node}", *(f"d{d}" for d in claim.devices))
        made.reserve(key, *(pods[user] for user in claim.pods))
    made.group("g", len(of.wanted.pods), priority=PRIORITY)
    for cpu, each in of.wanted.pods:
        made.asks("g", each, cpu=cpu, priority=PRIORITY)
    return made


class ExactEviction(ExactSolver):
    """Finds by CP-SAT the lowest possible maximum priority of victims; None if impossible."""

    def __init__(self, of: Occupied) -> None:
        self._occupied = of
        self._stays: list[cp_model.IntVar] = []
        self._kept: dict[tuple[int, int], cp_model.IntVar] = {}
        super().__init__(of.wanted)

    def least(self) -> int | None:
        """Return that priority; -1 if no victim is needed."""
        solver = self.solve()
        return None if solver is None else round(solver.objective_value)

    def _pod(self, cpu: int, each: Ask) -> None:
        if not self._stays:
            self._run()
        super()._pod(cpu, each)

    def _run(self) -> None:
        """Model the running pods: kept or evicted, groups as one, and claims with their pods."""
        model, highest = self._model, self._model.new_int_var(-1, PRIORITY - 1, "")
        together: dict[str, cp_model.IntVar] = {}
        for at, each in enumerate(self._occupied.running):
            stays = together.setdefault(each.group or str(at), self._bool())
            self._stays.append(stays)
            self._cpu[each.node].append(each.cpu * stays)
            if each.priority >= PRIORITY:
                model.add(stays == 1)
            else:
                model.add(highest >= each.priority).only_enforce_if(stays.Not())
        for claim in self._occupied.claims:
            kept = self._bool()
            model.add_max_equality(kept, [self._stays[pod] for pod in claim.pods])
            self._kept |= {(claim.node, device): kept for device in claim.devices}
        model.minimize(highest)

    def _held(self, number: int, at: int) -> list[cp_model.LinearExprT]:
        kept = self._kept.get((number, at))
        return [] if kept is None else [kept]
