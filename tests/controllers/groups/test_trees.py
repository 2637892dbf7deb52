"""6012-010: several owners in one tree: its root, its owners, and what happens to them."""

import copy
from typing import Any

import pytest

from api.rules.validation import validate
from tests.controllers.conftest import ControllerHarness
from tests.controllers.groups.tree_objects import (
    MADE,
    ROOT,
    WORKLOAD,
    events,
    listed,
    of_class,
    owner,
    pods,
    put,
    waiting_for,
)
from tests.support.apps import admitted, deployment, stateful_set
from tests.support.lws import make_lws
from tests.support.owners import make_job, make_jobset

Json = dict[str, Any]


async def test_the_groups_of_all_owners_are_below_one_root(harness: ControllerHarness) -> None:
    names = [put(harness, owner("prefill")), put(harness, owner("decode", make=deployment))]
    await harness.settle()

    assert harness.api.names(*MADE) == sorted([*names, "tree-serve", "tree-serve"])
    root = harness.api.objects[ROOT]
    assert root["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 2}}
    assert sorted(listed(harness)) == ["decode", "prefill"]
    for name in names:
        spec = harness.api.objects["PodGroup", "default", name]["spec"]
        assert spec["parentCompositePodGroupName"] == "tree-serve"
        assert spec["workloadRef"] == {"workloadName": "tree-serve", "templateName": "owner-gang"}
        assert spec["schedulingPolicy"] == {"gang": {"minCount": 4}}


async def test_all_that_is_created_obeys_the_rules(harness: ControllerHarness) -> None:
    put(harness, of_class(owner("prefill"), "high"))
    lws = make_lws("decode").replicas(2, 4).worker(priorityClassName="high").leader_ready()
    harness.submit_lws(lws.asks(gang_mode="Composite", tree="serve=2").build())
    await harness.settle()

    assert len(harness.api.names(*MADE)) == 10
    for (kind, _, _), obj in harness.api.objects.items():
        if kind in MADE:
            assert validate(kind, obj, None, "CREATE").causes == []
    templates = _templates(harness.api.objects[WORKLOAD]["spec"])
    for (kind, _, _), obj in harness.api.objects.items():
        if kind in ("CompositePodGroup", "PodGroup"):
            parent = obj["spec"].get("parentCompositePodGroupName")
            above = parent and harness.api.objects["CompositePodGroup", "default", parent]
            named = obj["spec"]["workloadRef"]["templateName"]
            assert templates[kind, named] == (
                above["spec"]["workloadRef"]["templateName"] if above else ""
            )


def _templates(holder: Json, above: str = "") -> dict[tuple[str, str], str]:
    """Return the template above each template."""
    found: dict[tuple[str, str], str] = {}
    for it in holder.get("podGroupTemplates", ()):
        found["PodGroup", it["name"]] = above
    for it in holder.get("compositePodGroupTemplates", ()):
        found["CompositePodGroup", it["name"]] = above
        found |= _templates(it, it["name"])
    return found


async def test_kinds_with_groups_of_their_own_are_one_child_each(
    harness: ControllerHarness,
) -> None:
    harness.submit_lws(make_lws("l").replicas(2, 4).asks(gang_mode="Gang", tree="serve=3").build())
    jobset = make_jobset("s").asks(gang_mode="Composite", tree="serve=3").replicated_job("w", 2)
    harness.submit_jobset(jobset.build())
    harness.submit_job(make_job("j").pods(2).asks(gang_mode="Gang", tree="serve=3").build())
    await harness.settle()

    children = [
        obj["metadata"]["name"]
        for obj in harness.api.objects.values()
        if obj.get("spec", {}).get("parentCompositePodGroupName") == "tree-serve"
    ]
    assert len(children) == 3
    assert sorted(listed(harness)) == ["j", "l", "s"]
    assert harness.api.names("Workload") == ["tree-serve"]
    # A set of mode Gang counts with the first of its replicas.
    policy = harness.api.objects["CompositePodGroup", "default", "cpg-lws-l"]["spec"]
    assert policy["schedulingPolicy"] == {"gang": {"minGroupCount": 1}}


async def test_an_owner_says_how_many_are_missing(harness: ControllerHarness) -> None:
    put(harness, owner("prefill", "serve=3"))
    await harness.settle(seconds=1)
    assert waiting_for(harness, "StatefulSet", "prefill") == ""
    await harness.settle(seconds=5)
    said = "waits for 2 more owners of tree serve: 1 of at least 3 exist"
    assert waiting_for(harness, "StatefulSet", "prefill") == said
    assert events(harness, "prefill") == [("FailedScheduling", said)]

    put(harness, owner("decode", "serve=3"))
    for _ in range(2):
        await harness.settle(seconds=60)
    said = "waits for 1 more owner of tree serve: 2 of at least 3 exist"
    assert waiting_for(harness, "StatefulSet", "prefill") == said
    assert waiting_for(harness, "StatefulSet", "decode") == said

    put(harness, owner("router", "serve=3", make=deployment))
    await harness.settle(seconds=60)
    assert waiting_for(harness, "StatefulSet", "prefill") == ""


async def test_an_owner_joins_a_tree_that_runs(harness: ControllerHarness) -> None:
    put(harness, owner("prefill"))
    put(harness, owner("decode"))
    await harness.settle()
    before = copy.deepcopy(harness.api.objects[ROOT])
    harness.api.sent.clear()
    group = put(harness, owner("more"))
    await harness.settle()

    assert harness.api.writes == [("patch", *ROOT[::2]), ("create", "PodGroup", group)]
    assert listed(harness)[-1] == "more"
    assert harness.api.objects[ROOT]["spec"] == before["spec"]


@pytest.mark.parametrize("order", [("prefill", "decode"), ("decode", "prefill")])
@pytest.mark.parametrize("how", ["remove", "orphan"])
async def test_all_is_deleted_with_the_last_owner(
    harness: ControllerHarness, order: tuple[str, str], how: str
) -> None:
    for name in order:
        put(harness, owner(name))
    await harness.settle()
    pods(harness, "prefill", "decode")
    for name in ("prefill", "decode"):
        getattr(harness.api, how)("StatefulSet", "default", name)
        await harness.settle(seconds=30)
    assert harness.api.names("CompositePodGroup") == ["tree-serve"], "its pods still end"

    for name in harness.api.names("Pod"):
        harness.api.remove("Pod", "default", name)
    await harness.settle(seconds=60)
    assert harness.api.names(*MADE) == []


async def test_what_runs_is_not_affected_by_the_others(harness: ControllerHarness) -> None:
    put(harness, owner("prefill"))
    group = put(harness, owner("decode"))
    await harness.settle()
    pods(harness, "prefill", "decode")
    uids = [
        harness.api.objects[it]["metadata"]["uid"] for it in (ROOT, ("PodGroup", "default", group))
    ]
    harness.api.remove("Pod", "default", "prefill-0")
    harness.api.remove("StatefulSet", "default", "prefill")
    await harness.settle(seconds=60)
    assert listed(harness) == ["decode"]

    again = put(harness, owner("prefill"), uid="again")
    harness.change("StatefulSet", "decode", replicas=0)
    await harness.settle(seconds=60)
    assert sorted(listed(harness)) == ["decode", "prefill"]
    assert harness.api.names("PodGroup") == sorted([group, again])
    now = [
        harness.api.objects[it]["metadata"]["uid"] for it in (ROOT, ("PodGroup", "default", group))
    ]
    assert now == uids


async def test_an_owner_leaves_with_its_gang_mode(harness: ControllerHarness) -> None:
    put(harness, owner("prefill"))
    put(harness, owner("decode"))
    await harness.settle()
    for name in ("decode", "prefill"):
        stored = harness.api.objects["StatefulSet", "default", name]
        plain = stateful_set(name)
        plain["metadata"] |= {"annotations": {}, "uid": stored["metadata"]["uid"]}
        harness.api.put(admitted(plain, stored))
        await harness.settle(seconds=60)
    assert harness.api.names(*MADE) == []


async def test_an_owner_that_left_needs_no_place_while_its_pods_end(
    harness: ControllerHarness,
) -> None:
    put(harness, owner("prefill"))
    put(harness, owner("decode"))
    await harness.settle()
    pods(harness, "decode")
    stored = harness.api.objects["StatefulSet", "default", "decode"]
    plain = stateful_set("decode")
    plain["metadata"] |= {"annotations": {}, "uid": stored["metadata"]["uid"]}
    harness.api.put(admitted(plain, stored))
    await harness.settle(seconds=60)
    assert listed(harness) == ["prefill"]
    assert len(harness.api.names("PodGroup")) == 2


async def test_what_is_deleted_by_hand_comes_again(harness: ControllerHarness) -> None:
    put(harness, owner("prefill"))
    await harness.settle()
    harness.api.remove(*WORKLOAD)
    await harness.settle(seconds=60)
    assert harness.api.names("Workload") == ["tree-serve"]

    harness.api.remove("StatefulSet", "default", "prefill")
    await harness.settle(seconds=60)
    assert harness.api.names(*MADE) == []


async def test_a_minimum_that_a_user_lowers_stays(harness: ControllerHarness) -> None:
    put(harness, owner("prefill", "serve=3"))
    await harness.settle()
    root = copy.deepcopy(harness.api.objects[ROOT])
    root["spec"]["schedulingPolicy"]["gang"]["minGroupCount"] = 1
    harness.api.put(root)
    put(harness, owner("decode", "serve=3"))
    await harness.settle(seconds=60)
    assert harness.api.objects[ROOT]["spec"] == root["spec"]
    assert waiting_for(harness, "StatefulSet", "decode") == ""


async def test_a_new_leader_deletes_a_root_that_lost_its_last_owner_meanwhile(
    harness: ControllerHarness,
) -> None:
    put(harness, owner("prefill"))
    await harness.settle()
    harness.change("StatefulSet", "prefill", replicas=0)
    await harness.settle()
    assert harness.api.names(*MADE) == ["tree-serve", "tree-serve"]
    harness._end_term()
    harness.api.orphan("StatefulSet", "default", "prefill")
    harness._begin_term()
    for part in harness.parts:
        await part.resync()
    await harness.settle()
    assert harness.api.names(*MADE) == []


async def test_owners_wait_for_a_root_that_a_user_deleted(harness: ControllerHarness) -> None:
    group = put(harness, owner("prefill"))
    await harness.settle()
    pods(harness, "prefill")
    harness.api.remove(*ROOT)
    await harness.settle()
    # What runs follows its owner as before.
    harness.change("StatefulSet", "prefill", replicas=2)
    put(harness, owner("decode"))
    for _ in range(3):
        await harness.settle(seconds=30)
    spec = harness.api.objects["PodGroup", "default", group]["spec"]
    assert spec["schedulingPolicy"] == {"gang": {"minCount": 2}}
    assert waiting_for(harness, "StatefulSet", "decode") == (
        "CompositePodGroup tree-serve is being deleted, and then Muster recreates it"
    )
    harness.api.remove("Pod", "default", "prefill-0")
    harness.api.remove("StatefulSet", "default", "prefill")
    await harness.settle()
    assert listed(harness) == ["decode"]
