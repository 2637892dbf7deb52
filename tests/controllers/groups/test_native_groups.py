"""Owners with groups of Kubernetes' own: created, corrected, deleted, kept, and never mixed."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonpatch
import pytest

from api.constants import (
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_NOT_NATIVE,
    ANNOTATION_WAITING_FOR,
    EVENT_NOT_NATIVE,
    LABEL_POD_GROUP,
    NATIVE_POD_GROUP,
)
from api.integration.common.native import GroupsApi, NativeApi
from api.integration.common.owner_kind import Review
from api.integration.kinds import OWNER_KINDS
from controllers.cache.objects import NATIVE_POD_GROUPS
from kube.base.errors import Forbidden
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import make_pod
from tests.support.owners import job_template, make_job, make_jobset

Json = dict[str, Any]

KIND = NATIVE_POD_GROUP.full_name
NATIVE = NativeApi(GroupsApi.NATIVE, served=True, kept=frozenset({"schedulingConstraints"}))
AUTO = replace(NATIVE, setting=GroupsApi.AUTO)


class Native(ControllerHarness):
    """The controllers where native groups are served."""

    def __init__(self, groups_api: GroupsApi = GroupsApi.NATIVE) -> None:
        super().__init__(groups_api=groups_api)
        self.caches.native = True
        self.caches.serve(NATIVE_POD_GROUPS)

    def submit(self, kind: str, obj: Json, native: NativeApi = NATIVE) -> Json:
        """Store an owner after admission."""
        review = Review("CREATE", uid=f"{kind}/{len(self.api.sent)}", native=native)
        patch = OWNER_KINDS[kind].admit(obj, review).patch
        return self.api.put(jsonpatch.apply_patch(obj, patch) | {"kind": kind})

    def pods(self, owner: Json, count: int) -> None:
        """Store pods of a Job as its controller creates them."""
        name = owner["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP]
        for at in range(count):
            pod = make_pod(f"p{at}").in_group(name).build()
            pod["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = owner["metadata"][
                "uid"
            ]
            pod["metadata"]["ownerReferences"] = [_reference(owner)]
            pod["spec"] |= {
                "schedulerName": "muster-scheduler",
                "schedulingGroup": {"podGroupName": name},
            }
            self.api.put(pod | {"kind": "Pod"})

    @property
    def groups(self) -> list[Json]:
        return [it for (kind, _, _), it in self.api.objects.items() if kind == KIND]

    @property
    def own(self) -> list[str]:
        kinds = ("PodGroup", "CompositePodGroup", "Workload")
        return sorted(name for kind, _, name in self.api.objects if kind in kinds)

    def note(self, kind: str, key: str = ANNOTATION_WAITING_FOR) -> str:
        notes = self.api.objects[kind, "default", "a"]["metadata"].get("annotations", {})
        return str(notes.get(key, ""))


def _reference(owner: Json) -> Json:
    meta = owner["metadata"]
    return {
        "apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"],
        "controller": True,
    }  # fmt: skip


def _gang() -> Any:
    return make_job("a").asks(gang_mode="Gang").pods(3)


@pytest.fixture
def native() -> Iterator[Native]:
    harness = Native()
    yield harness
    harness.close()


async def test_a_job_gets_one_native_group_and_nothing_else(native: Native) -> None:
    job = native.submit("Job", _gang().build())
    await native.settle()

    (group,) = native.groups
    assert native.api.writes == [("create", KIND, group["metadata"]["name"])]
    assert group["metadata"]["name"] == job["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP]
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    assert "workloadRef" not in group["spec"]
    await native.settle(seconds=60)
    assert len(native.api.writes) == 1


async def test_min_count_follows_the_job_by_a_patch_of_that_field(native: Native) -> None:
    job = native.submit("Job", _gang().pods(3, 3).build())
    await native.settle()
    native.pods(job, 1)
    done = native.api.objects["Job", "default", "a"]
    native.api.put(done | {"status": {"succeeded": 2}})
    await native.settle(seconds=5)

    (group,) = native.groups
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 1}}
    assert [verb for verb, kind, _ in native.api.writes if kind == KIND] == ["create", "patch"]


async def test_a_group_goes_with_the_pods_of_a_suspended_job_and_comes_again(
    native: Native,
) -> None:
    job = native.submit("Job", _gang().build())
    await native.settle()
    native.pods(job, 2)
    (group,) = native.groups
    native.change("Job", "a", suspend=True)
    await native.settle()
    assert native.groups == [group]

    for at in range(2):
        native.api.remove("Pod", "default", f"p{at}")
    await native.settle()
    assert native.groups == []
    native.change("Job", "a", suspend=False)
    await native.settle(seconds=10)
    assert [it["metadata"]["name"] for it in native.groups] == [group["metadata"]["name"]]


async def test_a_jobset_gets_a_native_group_for_each_of_its_jobs(native: Native) -> None:
    template = job_template().pods(2).asks(gang_mode="ReplicatedGang")
    native.submit("JobSet", make_jobset("a").replicated_job("w", 2, template).build())
    await native.settle()

    assert [it["metadata"]["name"].rpartition("-")[0] for it in native.groups] == [
        "pg-a-w-0", "pg-a-w-1",
    ]  # fmt: skip
    assert native.own == []


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
async def test_kinds_of_one_group_get_it_natively(native: Native, kind: str) -> None:
    spec = {"replicas": 2, "podManagementPolicy": "Parallel", "template": {"spec": {}}}
    meta = {"name": "a", "namespace": "default", "uid": "u"}
    meta["annotations"] = {"scheduling.muster.dev/gang-mode": "Gang"}  # type: ignore[assignment]
    native.submit(kind, {"metadata": meta, "spec": spec})
    await native.settle()

    (group,) = native.groups
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
    native.change(kind, "a", replicas=0)
    await native.settle()
    assert (native.groups, native.own) == ([], [])


async def test_a_group_of_that_name_that_is_not_the_owners_is_left_alone(native: Native) -> None:
    job = native.submit("Job", _gang().build())
    name = job["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP]
    spec: Json = {"schedulingPolicy": {"basic": {}}}
    theirs = {"kind": KIND, "metadata": {"name": name, "namespace": "default"}, "spec": spec}
    native.api.put(theirs)
    await native.settle()

    assert [it["spec"] for it in native.groups] == [spec]
    assert f"PodGroup {name} exists and was not created for this Job" in native.note("Job")


async def test_a_missing_right_is_reported_and_other_owners_get_their_groups(
    native: Native,
) -> None:
    denied = Forbidden(403, "Forbidden", "podgroups.scheduling.k8s.io is forbidden: cannot create")

    async def refuse(_request: Any) -> None:
        raise denied

    native.api.client.on(refuse, "create", of=NATIVE_POD_GROUPS, fails=True)
    native.submit("Job", _gang().build())
    native.submit("Job", make_job("b").asks(gang_mode="Gang").build(), NativeApi())
    await native.settle()

    assert "podgroups.scheduling.k8s.io is forbidden: cannot create" in native.note("Job")
    assert native.own == ["pg-job-b", "w-job-b"]
    native.api.recover()
    await native.settle(seconds=30)
    assert len(native.groups) == 1


async def test_groups_that_may_not_be_listed_are_waited_for(native: Native) -> None:
    native.caches.unlisted[NATIVE_POD_GROUPS] = Forbidden(403, "Forbidden", "cannot list")
    native.submit("Job", _gang().build())
    await native.settle()
    await native.settle(seconds=3)
    assert native.note("Job").startswith("failed to list native PodGroups: ")

    native.caches.unlisted.clear()
    await native.settle(seconds=20)
    assert len(native.groups) == 1


async def test_with_native_an_owner_waits_for_the_api_and_with_auto_it_falls_back() -> None:
    strict = Native()
    strict.caches.native = False
    strict.submit("Job", _gang().build())
    await strict.settle()
    await strict.settle(seconds=3)
    assert strict.note("Job") == (
        "groups.api is native, and the API server does not serve "
        "podgroups.scheduling.k8s.io/v1beta1"
    )
    assert (strict.own, strict.groups) == ([], [])
    strict.caches.native = True
    await strict.settle(seconds=20)
    assert len(strict.groups) == 1
    strict.close()

    lenient = Native(GroupsApi.AUTO)
    lenient.caches.native = False
    job = lenient.submit("Job", _gang().build(), AUTO)
    await lenient.settle()
    assert job["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP] in lenient.own
    assert lenient.recorded.events == [("Job", "a", EVENT_NOT_NATIVE)]
    lenient.close()


@pytest.mark.parametrize(
    ("setting", "made"),
    [(GroupsApi.NATIVE, False), (GroupsApi.AUTO, True), (GroupsApi.MUSTER, True)],
)
async def test_an_owner_that_cannot_have_them_waits_only_with_native(
    setting: GroupsApi, made: bool
) -> None:
    """It was created with that setting: a later one lets it start."""
    harness = Native(setting)
    tree = make_jobset("a").asks(gang_mode="Composite").replicated_job("w", 1)
    harness.submit("JobSet", tree.build())
    await harness.settle()

    reason = harness.note("JobSet", ANNOTATION_NOT_NATIVE)
    assert bool(harness.own) is made
    assert harness.groups == []
    assert harness.recorded.events == [("JobSet", "a", EVENT_NOT_NATIVE)]
    assert reason in harness.recorded.messages[0]
    harness.close()


@pytest.mark.parametrize("setting", list(GroupsApi))
async def test_an_owner_keeps_the_api_that_it_has(setting: GroupsApi) -> None:
    harness = Native(setting)
    harness.submit("Job", _gang().build(), NATIVE)
    harness.submit("Job", make_job("b").asks(gang_mode="Gang").build(), NativeApi())
    await harness.settle()

    assert [it["metadata"]["name"].rpartition("-")[0] for it in harness.groups] == ["pg-job-a"]
    assert harness.own == ["pg-job-b", "w-job-b"]
    harness.close()


async def test_a_native_group_without_its_job_is_deleted_once_its_pods_ended(
    native: Native,
) -> None:
    job = native.submit("Job", _gang().build())
    await native.settle()
    native.pods(job, 1)
    (group,) = native.groups
    pod = native.api.objects["Pod", "default", "p0"]
    # As after a deletion with `orphan`.
    for one in (group | {"kind": KIND}, pod | {"kind": "Pod"}):
        one["metadata"]["ownerReferences"] = []
        native.api.put(one)
    native.api.remove("Job", "default", "a")
    await native.settle(seconds=60)
    assert len(native.groups) == 1

    native.api.remove("Pod", "default", "p0")
    await native.settle(seconds=60)
    assert native.groups == []


async def test_pods_of_muster_and_of_native_groups_of_one_name_are_counted_apart(
    native: Native,
) -> None:
    job = native.submit("Job", _gang().build())
    await native.settle()
    (group,) = native.groups
    name = group["metadata"]["name"]
    labelled = make_pod("other").in_group(name).build()
    assert labelled["metadata"]["labels"][LABEL_POD_GROUP] == name
    native.api.put(labelled | {"kind": "Pod"})
    native.pods(job, 2)

    found = native.caches.native_groups.get("default", name)
    assert found is not None
    assert [it.metadata.name for it in native.caches.members(found)] == ["p0", "p1"]
    assert native.caches.member_counts.total(found.member_key) == 2


async def test_a_workload_that_comes_later_has_no_effect_and_is_reported(native: Native) -> None:
    native.submit("Job", _gang().build())
    await native.settle()
    reference = {"apiGroup": "batch", "kind": "Job", "name": "a"}
    meta = {"name": "mine", "namespace": "default"}
    native.api.put({"kind": "Workload", "metadata": meta, "spec": {"controllerRef": reference}})
    await native.settle()

    assert len(native.groups) == 1
    assert native.recorded.messages[0].startswith(
        "Workload mine has no effect: it was created after the native groups that Muster created"
    )


async def test_what_the_condition_says_is_what_the_owner_waits_for(native: Native) -> None:
    native.submit("Job", _gang().build())
    await native.settle()
    (group,) = native.groups
    condition = {
        "type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient cpu.",
    }  # fmt: skip
    native.api.put(group | {"kind": KIND, "status": {"conditions": [condition]}})
    await native.settle(seconds=1)
    await native.settle(seconds=3)
    assert native.note("Job").endswith("0/1 nodes are available: 1 Insufficient cpu.")
