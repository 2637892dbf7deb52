"""Owners whose groups would have the same name: both start.

Admission gives new owners different names. Owners that an earlier version admitted together may
have one name in their pods: the group of the second stands for it.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from api.constants import ANNOTATION_GROUP_SCOPE, ANNOTATION_STANDS_FOR
from api.names import substitute_name
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import make_pod
from tests.support.owners import job_template, make_job, make_jobset

Json = dict[str, Any]
JOB_UID = "batch.kubernetes.io/controller-uid"
JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"
Submit = Callable[[ControllerHarness], Any]


def job(harness: ControllerHarness) -> None:
    made = make_job("sweep").asks(gang_mode="Gang").pods(2, 2).build()
    harness.submit_job(made | {"metadata": made["metadata"] | {"uid": "uid-of-job"}})


def jobset(harness: ControllerHarness) -> None:
    made = make_jobset("job-sweep").asks(gang_mode="Gang")
    made.replicated_job("w", 1, job_template().pods(3))
    submit(harness, made.build(), "uid-of-jobset")


def tree(harness: ControllerHarness) -> None:
    made = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 1, job_template())
    submit(harness, made.build(), "uid-of-tree")


def other_tree(harness: ControllerHarness) -> None:
    made = make_jobset("a-b").asks(gang_mode="Composite").replicated_job("c", 1, job_template())
    submit(harness, made.build(), "uid-of-other")


def submit(harness: ControllerHarness, obj: Json, uid: str) -> None:
    """Store a JobSet as version 0.2 admitted it: with the usual names."""
    stored = harness.submit_jobset(obj | {"metadata": obj["metadata"] | {"uid": uid}})
    for replicated_job in stored["spec"]["replicatedJobs"]:
        annotations = replicated_job["template"]["metadata"]["annotations"]
        annotations[ANNOTATION_GROUP_SCOPE] = annotations[ANNOTATION_GROUP_SCOPE].partition("/")[0]
    harness.api.put(stored)


def groups(harness: ControllerHarness) -> dict[tuple[str, str], Json]:
    return {
        (kind, name): obj
        for (kind, _, name), obj in harness.api.objects.items()
        if kind in ("PodGroup", "CompositePodGroup")
    }


async def test_new_owners_have_other_names_without_any_of_this(harness: ControllerHarness) -> None:
    """Their pods, and the claims that these share, have other names, too."""
    job(harness)
    for name, replicated_job, mode in (("a", "b", "Composite"), ("a-b", "c", "Composite")):
        made = make_jobset(name).asks(gang_mode=mode)
        harness.submit_jobset(made.replicated_job(replicated_job, 1, job_template()).build())
    made = make_jobset("job-sweep").asks(gang_mode="Gang")
    harness.submit_jobset(made.replicated_job("w", 1, job_template().pods(3)).build())
    await harness.settle()

    assert len(groups(harness)) == 2 + 2 * 3
    for obj in groups(harness).values():
        assert ANNOTATION_STANDS_FOR not in obj["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("first", "second", "uid"), [(job, jobset, "uid-of-jobset"), (jobset, job, "uid-of-job")]
)
async def test_the_second_has_a_group_that_stands_for_the_name(
    harness: ControllerHarness, first: Submit, second: Submit, uid: str
) -> None:
    first(harness)
    await harness.settle()
    second(harness)  # as an admission that knew no group of the first left it
    await harness.settle(seconds=1)

    own = substitute_name("pg-job-sweep", uid)
    assert {name for _, name in groups(harness)} == {"pg-job-sweep", own}
    notes = groups(harness)["PodGroup", own]["metadata"]["annotations"]
    assert notes[ANNOTATION_STANDS_FOR] == "pg-job-sweep"
    assert harness.recorded.events == []


async def test_a_cache_that_is_behind_makes_no_difference(harness: ControllerHarness) -> None:
    jobset(harness)
    await harness.settle()
    theirs = harness.api.objects["PodGroup", "default", "pg-job-sweep"]
    harness.caches.pod_groups.delete(("default", "pg-job-sweep"))
    job(harness)
    await harness.settle()
    assert len(groups(harness)) == 1
    harness.api.put(theirs)
    await harness.settle(seconds=10)

    assert {name for _, name in groups(harness)} == {
        "pg-job-sweep",
        substitute_name("pg-job-sweep", "uid-of-job"),
    }


async def test_pods_keep_the_group_of_their_own_owner(harness: ControllerHarness) -> None:
    job(harness)
    await harness.settle()
    jobset(harness)
    await harness.settle()
    own = substitute_name("pg-job-sweep", "uid-of-jobset")
    of_job = make_pod("j").managed("pg-job-sweep").label(JOB_UID, "uid-of-job").bound_to("n")
    of_set = make_pod("s").managed("pg-job-sweep").label(JOBSET_UID, "uid-of-jobset").bound_to("n")
    for pod in (of_job, of_set):
        harness.api.put(pod.build() | {"kind": "Pod"})

    found = {
        name: [pod.metadata.name for pod in harness.caches.members(group)]
        for name in ("pg-job-sweep", own)
        if (group := harness.caches.pod_groups.get("default", name)) is not None
    }
    assert found == {"pg-job-sweep": ["j"], own: ["s"]}


async def test_a_minimum_follows_the_pods_of_the_second(harness: ControllerHarness) -> None:
    jobset(harness)
    await harness.settle()
    job(harness)
    await harness.settle()
    own = substitute_name("pg-job-sweep", "uid-of-job")
    stored = harness.api.objects["Job", "default", "sweep"]
    harness.api.put(stored | {"status": {"succeeded": 1}})
    await harness.settle(seconds=5)

    gang = groups(harness)["PodGroup", own]["spec"]["schedulingPolicy"]["gang"]
    assert gang == {"minCount": 1}


async def test_a_tree_is_below_its_own_root(harness: ControllerHarness) -> None:
    """Composites cpg-a-b are of replicatedJob `b` of the first, and the root of the second."""
    tree(harness)
    await harness.settle()
    other_tree(harness)
    await harness.settle()

    own = substitute_name("cpg-a-b", "uid-of-other")
    made_by_other = {
        key: obj["spec"].get("parentCompositePodGroupName", "")
        for key, obj in groups(harness).items()
        if obj["metadata"]["annotations"]["scheduling.muster.dev/made-for"].endswith("uid-of-other")
    }
    assert made_by_other[("CompositePodGroup", own)] == ""
    parents = set(made_by_other.values()) - {""}
    assert parents <= {name for kind, name in made_by_other if kind == "CompositePodGroup"}
    assert own in parents


@pytest.mark.parametrize("order", [(job, jobset), (jobset, job)])
async def test_all_goes_with_its_owner(
    harness: ControllerHarness, order: tuple[Submit, Submit]
) -> None:
    for one in order:
        one(harness)
        await harness.settle()
    for kind, name in (("Job", "sweep"), ("JobSet", "job-sweep")):
        harness.api.remove(kind, "default", name)
        await harness.settle(seconds=60)
        await harness.settle(seconds=60)

    assert groups(harness) == {}


async def test_both_at_once(harness: ControllerHarness) -> None:
    """Admission sees the name as free for both, and one creation is rejected."""
    job(harness)
    jobset(harness)
    tasks = [asyncio.ensure_future(it.run()) for it in harness.controllers]
    for _ in range(30):
        await harness.clock.advance(1)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)

    assert len(groups(harness)) == 2
    makers = [obj["metadata"]["annotations"] for obj in groups(harness).values()]
    assert len({it["scheduling.muster.dev/made-for"] for it in makers}) == 2
    assert harness.recorded.events == []
