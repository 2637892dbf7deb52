"""Gangs with slices compared with the exact solver: each that fits is placed, and in slices."""

from scheduler.core.groups.forest import Group
from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.state.search_memory import SearchMemory
from scheduler.core.values.model import Requirements
from tests.scheduler.core.slice_builder import INDEX, SliceBuilder
from tests.scheduler.oracle.slices import SlicedInstance, draw, feasible
from tests.scheduler.state_builder import requests


def _build(instance: SlicedInstance) -> SliceBuilder:
    builder = SliceBuilder()
    used = [0] * len(instance.free)
    for part in instance.slices:
        for pod in part:
            if pod.node >= 0:
                used[pod.node] += pod.cpu
    for node, free in enumerate(instance.free):
        labels = {"clique": f"c{instance.cliques[node]}", "block": f"b{instance.blocks[node]}"}
        builder.node(f"n{node}", free + used[node], labels=labels)
    size = len(instance.slices[0])
    parent = "root" if instance.sibling else None
    if parent:
        builder.gang("root", 2, composite=True, workload="w")
        builder.gang(
            "h", len(instance.sibling), parent="root", workload="w", rack=True, key="clique"
        )
        for cpu in instance.sibling:
            builder.pod("h", cpu)
    builder.sliced(instance.minimum * size, size, block=instance.one_block, parent=parent)
    for number, part in enumerate(instance.slices):
        for place_in, pod in enumerate(part):
            index = number * size + place_in
            builder.pod(
                "g", name=f"g-{index}", labels={INDEX: str(index)},
                requirements=Requirements(requests(pod.cpu)),
                node=f"n{pod.node}" if pod.node >= 0 else "",
            )  # fmt: skip
    return builder


def _decide(builder: SliceBuilder, root: Group) -> Placement | Refusal:
    """Decide until the search ends by itself, as the queue does."""
    memory = SearchMemory()
    for _ in range(50):
        found = place(builder.state, root, SearchBudget(), memory=memory)
        if isinstance(found, Placement) or not found.timed_out:
            break
    return found


def _check(instance: SlicedInstance, builder: SliceBuilder, placed: Placement) -> None:
    size, where = len(instance.slices[0]), builder.where(placed)
    standing = 0
    for number, part in enumerate(instance.slices):
        names = [f"g-{number * size + at}" for at in range(size)]
        nodes = [
            pod.node if pod.node >= 0 else int(where.get(name, "n-1")[1:])
            for name, pod in zip(names, part, strict=True)
        ]
        got = [name for name in names if name in where]
        lacks = [pod for pod in part if pod.node < 0]
        assert len(got) in (0, len(lacks)), f"slice {number} has some of its pods: {where}"
        cliques = {instance.cliques[node] for node in nodes if node >= 0}
        if got:
            assert len(cliques) == 1, f"slice {number} is in several domains: {where}"
            standing += 1
    assert standing >= instance.needed
    if instance.one_block:
        blocks = {
            instance.blocks[int(node[1:])] for pod, node in where.items() if pod.startswith("g")
        }
        assert len(blocks) <= 1


def test_a_gang_is_placed_if_and_only_if_its_slices_fit(long: bool) -> None:
    fits = 0
    count = 2_000 if long else 150
    for seed in range(count):
        instance = draw(seed)
        if not instance.waits:
            continue
        builder = _build(instance)
        group = builder.group
        found = _decide(builder, group.parent or group)
        can = feasible(instance)
        assert isinstance(found, Placement) is can, f"instance {seed}: {can}, {found}"
        if isinstance(found, Placement):
            _check(instance, builder, found)
        fits += can
    # Otherwise one answer would pass most of them.
    assert count // 4 < fits < count * 9 // 10, fits
