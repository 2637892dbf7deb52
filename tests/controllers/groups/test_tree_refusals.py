"""6012-010: owners that cannot be in a tree, its limits, and rejections by the API server."""

import copy
from typing import Any

import pytest

from api import features
from api.constants import (
    ANNOTATION_TREE,
    COMPOSITE_POD_GROUP,
    MAX_TREE_OWNERS,
)
from api.features import Feature
from kube.base.errors import Forbidden
from tests.controllers.conftest import ControllerHarness
from tests.controllers.groups.tree_objects import (
    MADE,
    ROOT,
    events,
    listed,
    of_class,
    owner,
    pods,
    put,
    waiting_for,
)
from tests.support.apps import admitted, deployment, stateful_set
from tests.support.owners import make_jobset

Json = dict[str, Any]


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
