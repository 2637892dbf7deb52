"""6012-010: several owners in one tree: its root, its owners, and what is refused."""

import copy
from typing import Any

import pytest

from api import features
from api.constants import (
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_TREE,
    ANNOTATION_WAITING_FOR,
    COMPOSITE_POD_GROUP,
    MAX_TREE_OWNERS,
)
from api.features import Feature
from api.rules.validation import validate
from kube.base.errors import Forbidden
from tests.controllers.conftest import ControllerHarness
from tests.support.apps import admitted, deployment, stateful_set
from tests.support.builders import make_pod
from tests.support.lws import make_lws
from tests.support.owners import make_job, make_jobset

Json = dict[str, Any]

ROOT = ("CompositePodGroup", "default", "tree-serve")
WORKLOAD = ("Workload", "default", "tree-serve")
MADE = ("Workload", "CompositePodGroup", "PodGroup")


def put(harness: ControllerHarness, obj: Json, *, uid: str = "", namespace: str = "") -> str:
    """Store a StatefulSet or Deployment after admission; return the name of its group."""
    obj["metadata"] |= {"namespace": namespace or "default"}
    made = admitted(obj, request_uid=uid or obj["metadata"]["name"])
    harness.api.put(made)
    return str(made["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP])


def owner(name: str, tree: str = "serve=2", *, make: Any = stateful_set, **asks: str) -> Json:
    made: Json = make(name, gang_mode="Gang", tree=tree, **asks)
    return made


def of_class(obj: Json, name: str) -> Json:
    made = copy.deepcopy(obj)
    made["spec"]["template"]["spec"]["priorityClassName"] = name
    return made


def listed(harness: ControllerHarness) -> list[str]:
    found = harness.api.objects.get(ROOT, {"metadata": {}})
    return [it["name"] for it in found["metadata"].get("ownerReferences", [])]


def waiting_for(harness: ControllerHarness, kind: str, name: str) -> str:
    notes = harness.api.objects[kind, "default", name]["metadata"]["annotations"]
    return str(notes.get(ANNOTATION_WAITING_FOR, ""))


def events(harness: ControllerHarness, name: str) -> list[tuple[str, str]]:
    found = zip(harness.recorded.events, harness.recorded.messages, strict=True)
    return [(event[2], text) for event, text in found if event[1] == name]


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


def pods(harness: ControllerHarness, *names: str) -> None:
    """Start a pod of each StatefulSet."""
    for name in names:
        meta = harness.api.objects["StatefulSet", "default", name]["metadata"]
        pod = make_pod(f"{name}-0").managed(meta["annotations"][ANNOTATION_MANAGED_GROUP])
        made = pod.bound_to("n").build() | {"kind": "Pod", "status": {"phase": "Running"}}
        harness.api.put(made)


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


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        pytest.param(
            owner("prefill"),
            owner("decode", "serve=3"),
            "StatefulSet prefill has serve=2 and no PriorityClass, and this StatefulSet serve=3 and"
            " no PriorityClass",
            id="another minimum",
        ),
        pytest.param(
            of_class(owner("prefill"), "high"),
            of_class(owner("decode", make=deployment), "low"),
            "StatefulSet prefill has serve=2 and PriorityClass high, and this Deployment serve=2"
            " and PriorityClass low",
            id="another PriorityClass",
        ),
    ],
)
async def test_owners_of_one_tree_agree(
    harness: ControllerHarness, first: Json, second: Json, want: str
) -> None:
    put(harness, copy.deepcopy(first))
    await harness.settle()
    group = put(harness, copy.deepcopy(second))
    await harness.settle(seconds=60)

    assert listed(harness) == ["prefill"]
    said = waiting_for(harness, second["kind"], "decode")
    assert said.startswith(f"TreeDiffers: {want}: use the same for all owners of tree serve")
    assert [reason for reason, _ in events(harness, "decode")] == ["TreeDiffers"]

    harness.api.remove("StatefulSet", "default", "prefill")
    await harness.settle(seconds=60)
    assert listed(harness) == ["decode"]
    assert group in harness.api.names("PodGroup")


async def test_the_number_of_owners_is_bounded(harness: ControllerHarness) -> None:
    most = MAX_TREE_OWNERS
    for at in range(most + 3):
        put(harness, owner(f"o{at:03}"))
    await harness.settle(seconds=60)

    assert len(listed(harness)) == len(harness.api.names("PodGroup")) == most
    late = [f"o{at:03}" for at in range(most + 3) if f"o{at:03}" not in listed(harness)]
    for name in late:
        assert [reason for reason, _ in events(harness, name)] == ["TreeFull"]
    assert waiting_for(harness, "StatefulSet", late[0]).startswith(
        f"TreeFull: tree serve has {most} owners"
    )

    harness.api.sent.clear()
    harness.api.remove("StatefulSet", "default", listed(harness)[0])
    await harness.settle(seconds=60)
    assert len(listed(harness)) == most
    # The other late owners cost nothing.
    assert len([it for it in harness.api.writes if it[1] == "StatefulSet"]) == 1


@pytest.mark.parametrize("kind", ["CompositePodGroup", "Workload"])
async def test_an_object_of_a_user_is_never_changed(harness: ControllerHarness, kind: str) -> None:
    made = harness.api.put(
        {
            "apiVersion": "scheduling.muster.dev/v1alpha3",
            "kind": kind,
            "metadata": {"name": "tree-serve", "namespace": "default"},
            "spec": {},
        }
    )
    group = put(harness, owner("prefill"))
    await harness.settle(seconds=60)
    assert harness.api.objects[kind, "default", "tree-serve"] == made
    assert waiting_for(harness, "StatefulSet", "prefill").startswith(
        f"NameTaken: {kind} tree-serve exists and is not that of tree serve"
    )
    assert harness.api.names("PodGroup") == []

    harness.api.remove(kind, "default", "tree-serve")
    await harness.settle(seconds=60)
    assert harness.api.names("PodGroup") == [group]


async def test_trees_of_two_namespaces_do_not_meet(harness: ControllerHarness) -> None:
    put(harness, owner("prefill"))
    put(harness, owner("prefill", "serve=3"), namespace="other", uid="other")
    await harness.settle(seconds=60)

    assert listed(harness) == ["prefill"]
    other = harness.api.objects["CompositePodGroup", "other", "tree-serve"]
    assert other["spec"]["schedulingPolicy"]["gang"]["minGroupCount"] == 3


async def test_a_long_name_is_hashed(harness: ControllerHarness) -> None:
    name = ".".join(["a" * 60] * 4)
    put(harness, owner("prefill", f"{name}=2"))
    await harness.settle()
    (root,) = harness.api.names("CompositePodGroup")
    assert len(root) == 63


async def test_a_rejection_reaches_the_owners_and_is_tried_again(
    harness: ControllerHarness,
) -> None:
    error = Forbidden(403, "Forbidden", "exceeded quota")
    harness.api.fail(error)
    group = put(harness, owner("prefill"))
    await harness.settle()
    assert waiting_for(harness, "StatefulSet", "prefill").startswith(
        "GroupNotMade: failed to create CompositePodGroup tree-serve: exceeded quota"
    )
    harness.api.recover()
    await harness.settle(seconds=60)
    assert harness.api.names("PodGroup") == [group]


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


async def test_without_the_gate_nothing_starts_alone() -> None:
    harness = ControllerHarness(gates=features.USUAL.without(Feature.COMPOSITE_POD_GROUP))
    put(harness, owner("prefill"))
    await harness.settle(seconds=60)
    assert harness.api.names(*MADE) == []
    assert waiting_for(harness, "StatefulSet", "prefill").startswith(
        "FeatureGateOff: feature gate CompositePodGroup is off"
    )
    harness.close()


async def test_a_users_workload_has_no_effect(harness: ControllerHarness) -> None:
    jobset = make_jobset("s").asks(gang_mode="Gang", tree="serve=1").replicated_job("w", 2)
    harness.api.put(
        {
            "apiVersion": "scheduling.muster.dev/v1alpha3",
            "kind": "Workload",
            "metadata": {"name": "mine", "namespace": "default"},
            "spec": {
                "controllerRef": {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "s"}
            },
        }
    )
    harness.submit_jobset(jobset.build())
    await harness.settle()
    assert ("WorkloadIgnored", "Workload mine has no effect: a tree has a Workload of its own") in (
        events(harness, "s")
    )


@pytest.mark.parametrize("value", ["", "serve", "serve=", "serve=0", "=2", "a/b=2", "serve=65"])
async def test_an_owner_with_another_value_does_not_start_alone(
    harness: ControllerHarness, value: str
) -> None:
    made = admitted(owner("prefill"))
    made["metadata"]["annotations"][ANNOTATION_TREE] = value
    harness.api.put(made)
    await harness.settle(seconds=60)
    assert harness.api.names(*MADE) == []
    assert waiting_for(harness, "StatefulSet", "prefill").startswith(
        f"GroupNotMade: annotation {ANNOTATION_TREE}: must be NAME=MINIMUM"
    )


async def test_a_stale_list_neither_grows_beyond_the_limit_nor_loses_an_owner(
    harness: ControllerHarness,
) -> None:
    put(harness, owner("o000"))
    await harness.settle()
    harness.api.client.hold_events(COMPOSITE_POD_GROUP)
    for at in range(1, MAX_TREE_OWNERS + 3):
        put(harness, owner(f"o{at:03}"))
        await harness.settle()
    # The cache lacks what the first of them wrote.
    assert len(listed(harness)) == 2
    harness.api.remove("StatefulSet", "default", "o000")
    await harness.settle()
    assert ROOT in harness.api.objects
    harness.api.resume_events()
    for _ in range(3):
        await harness.settle(seconds=10)
    assert len(listed(harness)) == MAX_TREE_OWNERS
    assert len(set(listed(harness))) == MAX_TREE_OWNERS


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


async def test_a_rejected_change_of_the_list_is_tried_again(harness: ControllerHarness) -> None:
    put(harness, owner("prefill"))
    put(harness, owner("decode"))
    await harness.settle()
    pods(harness, "decode")
    harness.api.fail(Forbidden(403, "Forbidden", "no"))
    stored = harness.api.objects["StatefulSet", "default", "decode"]
    plain = stateful_set("decode")
    plain["metadata"] |= {"annotations": {}, "uid": stored["metadata"]["uid"]}
    harness.api.put(admitted(plain, stored))
    await harness.settle()
    assert sorted(listed(harness)) == ["decode", "prefill"]
    harness.api.recover()
    await harness.settle(seconds=60)
    assert listed(harness) == ["prefill"]
