"""Groups that version 0.2 named, of owners that run during the upgrade: they stay as they are."""

from copy import deepcopy
from typing import Any

import pytest

from api.constants import (
    ANNOTATION_GROUP_SCOPE,
    JOBSET_LABEL_UID,
    LABEL_COSCHEDULING,
    LABEL_REPLICA_KEY,
    LABEL_SUBSET,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    WORKLOAD,
)
from api.names import implicit_pod_group, subset_pod_group
from controllers.cache.objects import COSCHEDULINGS, PLUGINS_POD_GROUPS
from controllers.groups.implicit_groups import IDLE_SECONDS
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import PodBuilder, make_pod
from tests.support.owners import job_template, made_for, make_jobset

Json = dict[str, Any]
GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}
GROUPS = ("PodGroup", "CompositePodGroup")


def workload(name: str, template: str) -> Json:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}"}
    spec = {"podGroupTemplates": [{"name": template} | GANG]}
    return {"kind": "Workload", "metadata": metadata, "spec": spec}


def group_of_02(workload_name: str, template: str, key: str = "") -> Json:
    name = "-".join(part for part in (workload_name, template, key) if part)
    reference = {"workloadName": workload_name, "templateName": template}
    owner = {"apiVersion": WORKLOAD.api_version, "kind": "Workload", "controller": True}
    owner |= {"name": workload_name, "uid": f"uid-of-{workload_name}"}
    metadata = {"name": name, "namespace": "default", "ownerReferences": [owner]}
    metadata |= made_for(WORKLOAD, workload_name, f"uid-of-{workload_name}")
    spec = {"workloadRef": reference, "disruptionMode": {"single": {}}} | GANG
    return {"kind": "PodGroup", "metadata": metadata, "spec": spec}


def member(name: str, workload_name: str, template: str, key: str = "") -> PodBuilder:
    made = make_pod(name).label(LABEL_WORKLOAD, workload_name).label(LABEL_TEMPLATE, template)
    return made.label(LABEL_REPLICA_KEY, key) if key else made


def put(harness: ControllerHarness, *pods: PodBuilder) -> None:
    for pod in pods:
        harness.api.put(pod.build() | {"kind": "Pod"})


def members(harness: ControllerHarness, name: str) -> list[str]:
    group = harness.caches.pod_groups.get("default", name)
    assert group is not None
    return [pod.metadata.name for pod in harness.caches.members(group)]


FORMS = [
    pytest.param(("a", "b-c", ""), id="an ambiguous name"),
    pytest.param(("a-b", "c", ""), id="the other meaning of it"),
    pytest.param(("a", "b", "c"), id="with a replica key"),
    pytest.param(("a", "b", "0123456789"), id="with a key like a hash"),
    pytest.param(("a", "b", ""), id="a name that is the same today"),
    pytest.param(("a" * 60, "b" * 60, "c"), id="a long name"),
]


@pytest.mark.parametrize("form", FORMS)
async def test_a_running_gang_keeps_its_group(
    harness: ControllerHarness, form: tuple[str, str, str]
) -> None:
    there = group_of_02(*form)
    name = there["metadata"]["name"]
    harness.api.put(workload(form[0], form[1]))
    harness.api.put(there)
    put(harness, *(member(f"p{at}", *form).bound_to("n") for at in range(2)))
    for part in harness.parts:
        await part.resync()
    await harness.settle(seconds=10)

    put(harness, member("more", *form))  # a pod that is added, or replaces another one
    put(harness, make_pod("by-label").in_group(name))
    await harness.settle(seconds=10)

    assert [write for write in harness.api.writes if write[0] != "patch"] == []
    assert sorted(members(harness, name)) == ["by-label", "more", "p0", "p1"]
    assert harness.recorded.events == []


@pytest.mark.parametrize("form", FORMS[2:4])
async def test_after_its_last_pod_the_group_of_a_key_goes_and_the_next_has_the_new_name(
    harness: ControllerHarness, form: tuple[str, str, str]
) -> None:
    harness.api.put(workload(form[0], form[1]))
    harness.api.put(group_of_02(*form))
    put(harness, member("p", *form).bound_to("n"))
    await harness.settle()
    harness.api.remove("Pod", "default", "p")
    await harness.settle()
    await harness.settle(seconds=2 * IDLE_SECONDS)
    await harness.settle()
    assert harness.api.names(*GROUPS) == []

    put(harness, member("q", *form))
    await harness.settle()

    assert harness.api.names(*GROUPS) == [implicit_pod_group(*form)]
    assert members(harness, implicit_pod_group(*form)) == ["q"]


async def test_a_group_that_was_kept_back_by_another_starts(harness: ControllerHarness) -> None:
    """Workload `a` with template `b-c` has the group a-b-c, and `a-b` with `c` waited for it."""
    harness.api.put(workload("a", "b-c"))
    harness.api.put(workload("a-b", "c"))
    harness.api.put(group_of_02("a", "b-c"))
    put(harness, member("runs", "a", "b-c").bound_to("n"), member("waits", "a-b", "c"))
    await harness.settle()

    own = implicit_pod_group("a-b", "c")
    assert harness.api.names(*GROUPS) == ["a-b-c", own]
    assert (members(harness, "a-b-c"), members(harness, own)) == (["runs"], ["waits"])
    assert harness.recorded.events == []


async def test_the_next_workload_of_the_name_waits_for_the_group_of_the_first(
    harness: ControllerHarness,
) -> None:
    there = group_of_02("a", "b-c")
    there["metadata"]["finalizers"] = ["scheduling.muster.dev/podgroup-protection"]
    harness.api.put(there)
    put(harness, member("runs", "a", "b-c").bound_to("n"))
    again = workload("a", "b-c")
    harness.api.put(again | {"metadata": again["metadata"] | {"uid": "uid-of-the-second"}})
    put(harness, member("waits", "a", "b-c"))
    await harness.settle()
    assert harness.api.names(*GROUPS) == ["a-b-c"]

    harness.api.remove("Pod", "default", "runs")
    await harness.settle(seconds=30)
    await harness.settle(seconds=30)

    own = implicit_pod_group("a", "b-c")
    assert harness.api.names(*GROUPS) == [own]
    assert members(harness, own) == ["waits"]


def rename(harness: ControllerHarness, name: str, earlier: str) -> None:
    """Let a PodGroup be as version 0.2 created it."""
    there = deepcopy(harness.api.objects["PodGroup", "default", name])
    harness.api.forget("PodGroup", "default", name)
    there["metadata"]["name"] = earlier
    del there["metadata"]["labels"][LABEL_SUBSET]
    harness.api.put(there)


@pytest.mark.parametrize(
    ("kind", "spec", "subsets"),
    [
        (COSCHEDULINGS, {"subsets": [{"name": "s", "minMember": 2}]}, ["s"]),
        (
            COSCHEDULINGS,
            {"subsets": [{"name": "ps", "minMember": 1}, {"name": "w-1", "minMember": 1}]},
            ["ps", "w-1"],
        ),
        (PLUGINS_POD_GROUPS, {"minMember": 2}, [""]),
    ],
)
async def test_a_running_gang_of_subsets_keeps_its_groups(
    harness: ControllerHarness, kind: Any, spec: Json, subsets: list[str]
) -> None:
    metadata = {"name": "g", "namespace": "default"}
    harness.api.put({"kind": kind.full_name, "metadata": metadata, "spec": spec})

    def of(subset: str, name: str) -> PodBuilder:
        made = make_pod(name).label(LABEL_COSCHEDULING, "g")
        return made.label(LABEL_SUBSET, subset) if subset else made

    put(harness, *(of(subset, f"p{at}").bound_to("n") for at, subset in enumerate(subsets)))
    await harness.settle()
    for subset in filter(None, subsets):
        rename(harness, subset_pod_group("g", subset), f"g-{subset}")
    before = harness.api.names(*GROUPS)
    harness.api.sent.clear()

    put(harness, *(of(subset, f"more{at}") for at, subset in enumerate(subsets)))
    for part in harness.parts:
        await part.resync()
    await harness.settle(seconds=10)

    assert [write for write in harness.api.writes if write[0] != "patch"] == []
    assert harness.api.names(*GROUPS) == before
    for at, subset in enumerate(subsets):
        name = f"g-{subset}" if subset else "g"
        assert members(harness, name) == [f"p{at}", f"more{at}"]


@pytest.mark.parametrize("mode", ["Gang", "ReplicatedGang", "Composite"])
async def test_a_jobset_keeps_the_names_that_admission_gave_it(
    harness: ControllerHarness, mode: str
) -> None:
    made = make_jobset("a-b")
    if mode == "Composite":
        made = made.asks(gang_mode=mode).replicated_job("c", 2, job_template().pods(2))
    else:
        made = made.replicated_job("c", 2, job_template().pods(2), mode=mode)
    jobset = harness.submit_jobset(made.build())
    annotations = jobset["spec"]["replicatedJobs"][0]["template"]["metadata"]["annotations"]
    assert annotations[ANNOTATION_GROUP_SCOPE].endswith("/Joined")
    annotations[ANNOTATION_GROUP_SCOPE] = annotations[ANNOTATION_GROUP_SCOPE].partition("/")[0]
    harness.api.put(jobset)
    await harness.settle()

    wanted = {"Gang": ["pg-a-b-c"], "ReplicatedGang": ["pg-a-b-c-0", "pg-a-b-c-1"]}
    wanted["Composite"] = ["cpg-a-b", "cpg-a-b-c", *wanted["ReplicatedGang"]]
    assert harness.api.names(*GROUPS) == wanted[mode]
    harness.api.sent.clear()
    await harness.new_term()
    await harness.settle(seconds=10)
    assert harness.api.writes == []


async def test_jobs_that_a_webhook_of_02_admitted_have_the_groups_of_their_jobset(
    harness: ControllerHarness,
) -> None:
    """During an upgrade, one replica of the webhook is of version 0.2."""
    made = make_jobset("a").replicated_job("b", 1, job_template().pods(2), mode="Gang").build()
    harness.submit_jobset(made)
    await harness.settle()
    (own,) = harness.api.names(*GROUPS)

    def of(uid: str, name: str, group: str) -> PodBuilder:
        return make_pod(name).managed(group).label(JOBSET_LABEL_UID, uid).bound_to("n")

    uid = made["metadata"]["uid"]
    put(harness, of(uid, "new", own), of(uid, "old", "pg-a-b"), of("other", "other", "pg-a-b"))
    put(harness, make_pod("by-label").in_group("pg-a-b"))

    assert sorted(members(harness, own)) == ["new", "old"]
    pods = harness.caches.pods
    found = {pod.metadata.name: [*harness.caches.groups_of(pod)] for pod in pods.values()}
    assert [it.metadata.name for it in found["old"]] == [own]
