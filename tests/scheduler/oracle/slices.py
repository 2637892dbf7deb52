"""Random gangs with slices, and the exact solver for them. It knows no code of the scheduler."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model


@dataclass(frozen=True, slots=True)
class SlicedPod:
    """A pod of `cpu` cores; `node` is -1 while it waits."""

    cpu: int
    node: int = -1


@dataclass(frozen=True, slots=True)
class SlicedInstance:
    """Nodes with free cores, a clique and a block each, and a gang that needs `minimum` slices.

    With `one_block`, all slices are in one block. `sibling` are the cores of the pods of a second
    gang of the same tree, which all have to be placed in one clique.
    """

    free: tuple[int, ...]
    cliques: tuple[int, ...]
    blocks: tuple[int, ...]
    slices: tuple[tuple[SlicedPod, ...], ...]
    minimum: int
    one_block: bool
    sibling: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return len(self.slices[0])

    @property
    def waits(self) -> bool:
        return any(pod.node < 0 for part in self.slices for pod in part)

    @property
    def needed(self) -> int:
        """Slices that have to be placed; with enough pods running, any slice is an extra."""
        running = sum(pod.node >= 0 for part in self.slices for pod in part)
        if running >= self.minimum * self.size:
            return 0 if self.sibling else 1
        complete = sum(all(pod.node >= 0 for pod in part) for part in self.slices)
        return self.minimum - complete


def draw(seed: int) -> SlicedInstance:
    """Draw up to 3 blocks, 6 cliques, 12 nodes, 5 slices of up to 4 pods, some of them running."""
    rng = random.Random(f"slices {seed}")
    places = [
        (block, clique)
        for block in range(rng.randint(1, 3))
        for clique in range(rng.randint(1, 3))
        for _ in range(rng.randint(1, 2))
    ]
    free = tuple(rng.randint(0, 6) for _ in places)
    cliques = tuple(block * 10 + clique for block, clique in places)
    blocks = tuple(block for block, _ in places)
    size, mixed = rng.randint(1, 4), rng.random() < 0.5
    one_block = rng.random() < 0.5
    home = rng.randrange(len(places))
    slices = tuple(
        _slice(rng, size, mixed=mixed, cliques=cliques, home=home) for _ in range(rng.randint(1, 5))
    )
    sibling = tuple(rng.randint(1, 2) for _ in range(rng.choice((0, 0, 1, 2))))
    minimum = rng.randint(1, len(slices))
    return SlicedInstance(free, cliques, blocks, slices, minimum, one_block, sibling)


def _slice(
    rng: random.Random, size: int, *, mixed: bool, cliques: Sequence[int], home: int
) -> tuple[SlicedPod, ...]:
    """Draw a slice whose running pods, if any, are in the clique of `home`."""
    there = [node for node, clique in enumerate(cliques) if clique == cliques[home]]
    runs = rng.choice((0.0, 0.0, 0.5, 1.0))
    return tuple(
        SlicedPod(
            rng.randint(1, 3) if mixed else 1, rng.choice(there) if rng.random() < runs else -1
        )
        for _ in range(size)
    )


def feasible(instance: SlicedInstance) -> bool:
    """Return True if so many slices, and the sibling, can be placed."""
    model = cp_model.CpModel()
    load: list[list[cp_model.LinearExpr]] = [[] for _ in instance.free]
    block = {it: model.new_bool_var("") for it in set(instance.blocks)}
    model.add(sum(block.values()) == 1)
    chosen = []
    for part in instance.slices:
        there = _part(model, instance, part, load, block)
        if any(pod.node < 0 for pod in part):
            chosen.append(there)
        else:
            model.add(there == 1)
    model.add(sum(chosen) >= instance.needed)
    if instance.sibling:
        sibling = tuple(SlicedPod(cpu) for cpu in instance.sibling)
        model.add(_part(model, instance, sibling, load, {}) == 1)
    for free, terms in zip(instance.free, load, strict=True):
        model.add(sum(terms) <= free)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


def _part(
    model: cp_model.CpModel,
    instance: SlicedInstance,
    part: Sequence[SlicedPod],
    load: list[list[cp_model.LinearExpr]],
    block: Mapping[int, cp_model.IntVar],
) -> cp_model.IntVar:
    """Return a variable that is 1 if all pods of the part are in one clique."""
    there = model.new_bool_var("")
    clique = {it: model.new_bool_var("") for it in set(instance.cliques)}
    model.add(sum(clique.values()) == 1)
    for pod in part:
        places = []
        for node, (here, of_block) in enumerate(
            zip(instance.cliques, instance.blocks, strict=True)
        ):
            on = model.new_bool_var("")
            model.add(on <= clique[here])
            if instance.one_block and block:
                model.add(on <= block[of_block])
            if pod.node >= 0:
                # It runs already, and takes nothing of what is free.
                model.add(on == (1 if node == pod.node else 0))
            else:
                load[node].append(pod.cpu * on)
            places.append(on)
        if pod.node < 0:
            model.add(sum(places) == there)
    return there
