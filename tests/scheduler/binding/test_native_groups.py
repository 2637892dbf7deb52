"""Reservations and victims of Kubernetes' own groups."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from api.constants import NATIVE_COMPOSITE_POD_GROUP, NATIVE_POD_GROUP
from scheduler.core.values.model import GroupSpec, PodInfo
from scheduler.decoding.objects import decode_group
from scheduler.support.kinds import NATIVE_GROUPS
from tests.scheduler.binding.test_recovery import lead, left_behind
from tests.scheduler.eviction_harness import EvictionHarness
from tests.scheduler.harness import Harness
from tests.scheduler.preemption.test_evictor import preemptor

LEAF, ROOT = NATIVE_POD_GROUP.full_kind, NATIVE_COMPOSITE_POD_GROUP.full_kind
KINDS = {"native": (LEAF, ROOT), "Muster's": ("PodGroup", "CompositePodGroup")}


def member(harness: Harness, kind: str, group: str, **more: Any) -> PodInfo:
    info = harness.builder.pod(None, scheduler="muster-scheduler", **more)
    harness.builder.state.remove_pod(info.uid)
    info = replace(info, group=group, group_kind=kind)
    harness.builder.state.set_pod(info)
    return info


async def test_a_whole_gang_whose_group_is_not_read_yet_is_not_deleted() -> None:
    """The role may not allow to read native groups, or the API server lists them late."""
    harness = Harness(timeout=5)
    harness.builder.nodes(2, cpu=1)
    pods = [member(harness, LEAF, "g", node=f"n{at}") for at in range(2)]
    left_behind(harness, *((pod, f"n{at}") for at, pod in enumerate(pods)), age=60)
    body = harness.api.reservations["old-1"]
    (intent,) = body["spec"]["intents"]
    body["spec"]["intents"] = [intent.replace('"PodGroup"', f'"{LEAF}"')]
    harness.api.reservations["old-1"] = body

    await lead(harness, seconds=10, unsettled="the group is not known")

    assert harness.api.deleted == []


@pytest.mark.parametrize("api", KINDS)
async def test_a_further_child_of_a_running_tree_is_stored_before_it_is_bound(api: str) -> None:
    harness = Harness()
    harness.builder.nodes(4, cpu=1)
    leaf, root = KINDS[api]
    shared, state = api == "native", harness.builder.state
    state.set_group(GroupSpec((root, "ns", "root"), 1, shared=shared))
    for name, minimum in (("a", 1), ("b", 3)):
        state.set_group(GroupSpec((leaf, "ns", name), minimum, parent="root", shared=shared))
    member(harness, leaf, "a", node="n0")
    for _ in range(3):
        member(harness, leaf, "b")

    async with harness.leading():
        await harness.settle(1)

    assert len(harness.api.bound) == 3
    assert [line for line in harness.api.log if line.startswith("store")]


@pytest.mark.parametrize("ours", [False, True])
async def test_victims_of_kube_scheduler_are_marked_on_pods_alone(*, ours: bool) -> None:
    """Muster writes to no group without a pod of its own."""
    harness = EvictionHarness()
    harness.builder.nodes(2, cpu=1)
    key = (LEAF, "ns", "theirs")
    state = harness.builder.state
    state.set_group(GroupSpec(key, 2, shared=True, disruption="all", priority=0))
    meta = {"name": "theirs", "uid": "uid-theirs", "generation": 0}
    stored = harness.status_api.put(NATIVE_GROUPS[LEAF], {"metadata": meta, "spec": {}}, "ns")
    harness.observed[key] = decode_group(msgspec.json.encode(stored))
    for info in harness.builder.runs(None, "n0", "n1"):
        state.remove_pod(info.uid)
        scheduler = "muster-scheduler" if ours else ""
        state.set_pod(
            replace(info, group="theirs", group_kind=LEAF, ours=ours, scheduler=scheduler)
        )
    preemptor(harness, 1)

    async with harness.leading():
        await harness.settle()

    assert len(harness.evictor_api.deleted) == 2
    marked = [name for name in harness.evictor_api.marked if name.endswith("/theirs")]
    assert bool(marked) is ours
