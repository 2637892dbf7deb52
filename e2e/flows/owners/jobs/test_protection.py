"""Finalizers of groups that users created: kept while needed, and always removed in the end."""

import pytest

from e2e.flows.owners.jobs.queries import names, wait_for_objects
from e2e.harness.environment import Environment
from e2e.harness.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    Json,
    pod,
    pod_group,
)
from kube.base.errors import Forbidden
from kube.client.resources import PODS


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


async def test_pods_that_run_hold_their_group_and_those_that_ended_do_not(env: Environment) -> None:
    await env.add_node(cpu=2)
    await env.create(POD_GROUPS, pod_group("g", 2))
    for name in ("p0", "p1"):
        made = pod(name, env.name, group="g")
        made["metadata"]["labels"]["one"] = name
        await env.create(PODS, made)
    await env.runs("", 2)

    await env.delete(POD_GROUPS, "g")
    await env.cluster.finish_pods(env.name, "one=p0")
    await env.runs("", 1)
    assert await names(env, POD_GROUPS) == ["g"]
    with pytest.raises(Forbidden):
        await env.create(PODS, pod("late", env.name, group="g"))

    await env.cluster.finish_pods(env.name, "one=p1")
    await wait_for_objects(env, POD_GROUPS)
    assert len(await env.pods()) == 2, "they ended, and are still there"


async def test_a_cycle_of_composites_and_its_descendants_are_deleted(env: Environment) -> None:
    for name, parent in (("a", "b"), ("b", "c"), ("c", "a"), ("below", "a")):
        await env.create(COMPOSITE_POD_GROUPS, composite(name, parent))
    await env.create(POD_GROUPS, child("leaf", "below"))

    for name in ("a", "b"):
        await env.delete(COMPOSITE_POD_GROUPS, name)
    await env.delete(COMPOSITE_POD_GROUPS, "below")
    assert await names(env, COMPOSITE_POD_GROUPS) == ["a", "b", "below", "c"]
    await env.delete(POD_GROUPS, "leaf")
    await wait_for_objects(env, POD_GROUPS)
    await env.delete(COMPOSITE_POD_GROUPS, "c")
    await wait_for_objects(env, COMPOSITE_POD_GROUPS)


async def test_a_child_of_a_missing_parent_is_deleted(env: Environment) -> None:
    await env.create(POD_GROUPS, child("leaf", "never"))
    await env.create(COMPOSITE_POD_GROUPS, composite("inner", "never"))

    await env.delete(POD_GROUPS, "leaf")
    await env.delete(COMPOSITE_POD_GROUPS, "inner")

    await env.empty()
    assert await names(env, WORKLOADS) == []
