"""Finalizers of groups that users made: held by who needs them, and never for ever."""

import pytest

from e2e.controllers.questions import have, names
from e2e.suite.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    Json,
    pod,
    pod_group,
)
from e2e.suite.stage import Stage
from kube.errors import Forbidden
from kube.resources import PODS


def composite(name: str, parent: str) -> Json:
    spec = {
        "workloadRef": {"workloadName": "none", "templateName": name},
        "schedulingPolicy": {"basic": {}},
        "parentCompositePodGroupName": parent,
    }
    kind = {"apiVersion": COMPOSITE_POD_GROUPS.api_version, "kind": COMPOSITE_POD_GROUPS.kind}
    return kind | {"metadata": {"name": name}, "spec": spec}


def child(name: str, parent: str) -> Json:
    made = pod_group(name, 1)
    made["spec"] |= {
        "workloadRef": {"workloadName": "none", "templateName": name},
        "parentCompositePodGroupName": parent,
    }
    return made


async def test_pods_that_run_hold_their_group_and_those_that_ended_do_not(stage: Stage) -> None:
    await stage.add_node(cpu=2)
    await stage.create(POD_GROUPS, pod_group("g", 2))
    for name in ("p0", "p1"):
        made = pod(name, stage.name, group="g")
        made["metadata"]["labels"]["one"] = name
        await stage.create(PODS, made)
    await stage.runs_whole("", 2)

    await stage.delete(POD_GROUPS, "g")
    await stage.cluster.finish_pods(stage.name, "one=p0")
    await stage.runs_whole("", 1)
    assert await names(stage, POD_GROUPS) == ["g"]
    with pytest.raises(Forbidden):
        await stage.create(PODS, pod("late", stage.name, group="g"))

    await stage.cluster.finish_pods(stage.name, "one=p1")
    await have(stage, POD_GROUPS)
    assert len(await stage.pods()) == 2, "they ended, and are still there"


async def test_a_ring_of_composites_and_what_hangs_below_it_goes(stage: Stage) -> None:
    for name, parent in (("a", "b"), ("b", "c"), ("c", "a"), ("below", "a")):
        await stage.create(COMPOSITE_POD_GROUPS, composite(name, parent))
    await stage.create(POD_GROUPS, child("leaf", "below"))

    for name in ("a", "b"):
        await stage.delete(COMPOSITE_POD_GROUPS, name)
    await stage.delete(COMPOSITE_POD_GROUPS, "below")
    assert await names(stage, COMPOSITE_POD_GROUPS) == ["a", "b", "below", "c"]
    await stage.delete(POD_GROUPS, "leaf")
    await have(stage, POD_GROUPS)
    await stage.delete(COMPOSITE_POD_GROUPS, "c")
    await have(stage, COMPOSITE_POD_GROUPS)


async def test_a_child_of_a_parent_that_never_was_goes(stage: Stage) -> None:
    await stage.create(POD_GROUPS, child("leaf", "never"))
    await stage.create(COMPOSITE_POD_GROUPS, composite("inner", "never"))

    await stage.delete(POD_GROUPS, "leaf")
    await stage.delete(COMPOSITE_POD_GROUPS, "inner")

    await stage.empty()
    assert await names(stage, WORKLOADS) == []
