"""The minimums of groups follow the life cycle of their Jobs and JobSets, with few writes."""

from typing import Any

import pytest

from api.constants import ANNOTATION_MIN_COUNT_BASIS
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import make_pod
from tests.support.owners import JobSetBuilder, job_template, make_job, make_jobset

Json = dict[str, Any]

SOON = 1.0
"""Seconds; the controller batches losses for half a second after the first."""


class Lives:
    """Actions of users, the Job controller and cleaners, on a harness with running controllers."""

    def __init__(self, harness: ControllerHarness) -> None:
        self.harness = harness
        self.api = harness.api

    async def job(self, parallelism: int, completions: int | None = None, **asks: str) -> None:
        made = make_job("t").asks(gang_mode="Gang", **asks).pods(parallelism, completions)
        self.harness.submit_job(made.build())
        await self.settle()

    async def jobset(self, builder: JobSetBuilder) -> Json:
        made = self.harness.submit_jobset(builder.build())
        await self.settle()
        return made

    def child(self, name: str, group: str, *, attempt: int = 0, **status: Any) -> None:
        """Create a Job of JobSet `a`, as its controller and admission leave it."""
        made = make_job(name).managed(group).of_jobset("a", "w", 0, "JobSet").build()
        meta = made["metadata"]
        meta["labels"]["jobset.sigs.k8s.io/restart-attempt"] = str(attempt)
        meta["uid"] = f"uid-of-{name}-{attempt}"
        meta["ownerReferences"] = [
            {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "name": "a",
                "uid": self.api.objects["JobSet", "default", "a"]["metadata"]["uid"],
                "controller": True,
            }
        ]
        self.api.put(made | {"kind": "Job", "status": status})

    def status(self, kind: str, name: str, **status: Any) -> None:
        self.api.put(self.api.objects[kind, "default", name] | {"status": status})

    def pods(self, count: int, group: str, *, job: str = "t", phase: str = "Running") -> list[str]:
        """Create more pods of the Job, and return their names."""
        uid = self.api.objects["Job", "default", job]["metadata"]["uid"]
        have = len(self.api.names("Pod"))
        names = [f"p{have + number}" for number in range(count)]
        for name in names:
            pod = make_pod(name).in_group(group).owned_by("Job", job, uid).build()
            self.api.put(pod | {"kind": "Pod", "status": {"phase": phase}})
        return names

    def end(self, names: list[str], phase: str = "Succeeded") -> None:
        for name in names:
            self.status("Pod", name, phase=phase)

    def remove(self, names: list[str]) -> None:
        for name in names:
            self.api.remove("Pod", "default", name)

    async def settle(self) -> None:
        await self.harness.settle()
        await self.harness.settle(seconds=SOON)

    def count(self, name: str, kind: str = "PodGroup") -> int:
        policy = self.api.objects[kind, "default", name]["spec"]["schedulingPolicy"]
        ((_, count),) = policy["gang"].items()
        return int(count)

    def template(self, name: str) -> int:
        (template,) = self.api.objects["Workload", "default", name]["spec"]["podGroupTemplates"]
        return int(template["schedulingPolicy"]["gang"]["minCount"])

    def groups(self) -> list[str]:
        return self.api.names("PodGroup", "CompositePodGroup")

    def set_by_hand(self, name: str, count: int) -> None:
        self.harness.change("PodGroup", name, schedulingPolicy={"gang": {"minCount": count}})


@pytest.fixture
def lives(harness: ControllerHarness) -> Lives:
    return Lives(harness)


DONE = [{"type": "Complete", "status": "True"}]


async def test_scaling_a_job_moves_its_minimum_and_success_does_not(lives: Lives) -> None:
    await lives.job(4, 8)
    pods = lives.pods(8, "pg-job-t")
    lives.api.sent.clear()

    lives.end(pods[:6])
    lives.status("Job", "t", succeeded=6)
    await lives.settle()
    assert lives.api.writes == []

    lives.remove(pods[:6])
    lives.harness.change("Job", "t", parallelism=6)
    await lives.settle()
    assert lives.count("pg-job-t") == 2
    notes = lives.api.objects["PodGroup", "default", "pg-job-t"]["metadata"]["annotations"]
    assert notes[ANNOTATION_MIN_COUNT_BASIS] == "size=6,asked=6,pods=2,minCount=2"
    assert lives.template("w-job-t") == 6


async def test_succeeded_pods_that_are_deleted_are_waited_for_no_more(lives: Lives) -> None:
    await lives.job(4, 4)
    pods = lives.pods(4, "pg-job-t")
    lives.end(pods[:3])
    lives.status("Job", "t", succeeded=3)
    await lives.settle()
    lives.api.sent.clear()

    lives.remove(pods[:2])
    await lives.settle()
    assert lives.count("pg-job-t") == 2
    lives.remove(pods[2:3])
    await lives.settle()
    assert lives.count("pg-job-t") == 1
    assert lives.api.writes == [("patch", "PodGroup", "pg-job-t")] * 2


async def test_a_burst_of_losses_costs_one_write(lives: Lives) -> None:
    await lives.job(8, 16)
    pods = lives.pods(16, "pg-job-t")
    lives.end(pods[:15])
    lives.status("Job", "t", succeeded=15)
    await lives.settle()
    lives.api.sent.clear()

    for name in pods[:15]:
        lives.remove([name])
        await lives.harness.settle()
    await lives.settle()

    assert lives.api.writes == [("patch", "PodGroup", "pg-job-t")]
    assert lives.count("pg-job-t") == 1


async def test_a_pod_that_is_gone_before_the_status_counts_it(lives: Lives) -> None:
    await lives.job(4, 4)
    pods = lives.pods(4, "pg-job-t")
    lives.end(pods[:1])
    lives.remove(pods[:1])
    await lives.settle()
    assert lives.count("pg-job-t") == 4

    lives.status("Job", "t", succeeded=1)
    await lives.settle()
    assert lives.count("pg-job-t") == 3


async def test_an_index_given_up(lives: Lives) -> None:
    await lives.job(3, 3)
    pods = lives.pods(3, "pg-job-t")
    lives.end(pods[:2], "Failed")
    await lives.settle()
    assert lives.count("pg-job-t") == 3

    lives.status("Job", "t", failedIndexes="0")
    await lives.settle()
    assert lives.count("pg-job-t") == 2


async def test_a_minimum_changed_by_hand_is_kept_until_the_size_changes(lives: Lives) -> None:
    await lives.job(4)
    lives.set_by_hand("pg-job-t", 3)
    await lives.settle()
    await lives.harness.job.resync()
    await lives.settle()
    assert lives.count("pg-job-t") == 3

    lives.harness.change("Job", "t", parallelism=5)
    await lives.settle()
    assert lives.count("pg-job-t") == 5


async def test_a_note_changed_by_hand_is_put_right(lives: Lives) -> None:
    await lives.job(4)
    group = lives.api.objects["PodGroup", "default", "pg-job-t"]
    good = group["metadata"]["annotations"]
    forged = good | {ANNOTATION_MIN_COUNT_BASIS: "size=4,asked=4,pods=0,minCount=4"}
    lives.api.put(group | {"metadata": group["metadata"] | {"annotations": forged}})
    await lives.settle()

    group = lives.api.objects["PodGroup", "default", "pg-job-t"]
    assert group["metadata"]["annotations"] == good


async def test_a_job_of_parallelism_zero_has_no_group(lives: Lives) -> None:
    await lives.job(2)
    pods = lives.pods(2, "pg-job-t")
    lives.harness.change("Job", "t", parallelism=0)
    await lives.settle()
    assert lives.groups() == ["pg-job-t"], "pods use it"
    lives.remove(pods)
    await lives.settle()
    assert lives.groups() == []

    lives.harness.change("Job", "t", parallelism=3)
    await lives.settle()
    assert lives.count("pg-job-t") == 3


async def test_a_user_s_template_is_lowered_alike(lives: Lives) -> None:
    reference = {"apiGroup": "batch", "kind": "Job", "name": "t"}
    template = {"name": "mine", "schedulingPolicy": {"gang": {"minCount": 3}}}
    spec = {"controllerRef": reference, "podGroupTemplates": [template]}
    meta = {"name": "w", "namespace": "default"}
    lives.api.put({"kind": "Workload", "metadata": meta, "spec": spec})
    await lives.job(4, 4)
    assert lives.count("pg-job-t") == 3
    pods = lives.pods(4, "pg-job-t")
    lives.end(pods[:2])
    lives.status("Job", "t", succeeded=2)
    lives.remove(pods[:2])
    await lives.settle()
    assert lives.count("pg-job-t") == 2

    less = template | {"schedulingPolicy": {"gang": {"minCount": 1}}}
    lives.harness.change("Workload", "w", podGroupTemplates=[less])
    await lives.settle()
    assert lives.count("pg-job-t") == 1


WIDE = make_jobset("a").asks(gang_mode="Gang").replicated_job("w", 2, job_template().pods(2, 2))


async def test_a_jobset_s_job_that_is_done_and_cleaned_up(lives: Lives) -> None:
    jobset = await lives.jobset(WIDE)
    for index in range(2):
        lives.child(f"a-w-{index}", "pg-a")
    first = lives.pods(2, "pg-a", job="a-w-0")
    second = lives.pods(2, "pg-a", job="a-w-1")
    lives.end(first)
    lives.child("a-w-0", "pg-a", succeeded=2, conditions=DONE)
    await lives.settle()
    assert lives.count("pg-a") == 4
    lives.remove(first)
    await lives.settle()
    assert lives.count("pg-a") == 2

    # A restart brings all of them back.
    lives.remove(second)
    lives.api.put(jobset | {"status": {"restarts": 1}})
    await lives.harness.settle()
    assert lives.count("pg-a") == 4


async def test_a_jobset_s_job_that_is_done_after_its_pods_went(lives: Lives) -> None:
    await lives.jobset(WIDE)
    lives.child("a-w-0", "pg-a")
    lives.child("a-w-1", "pg-a")
    pods = lives.pods(2, "pg-a", job="a-w-0")
    lives.remove(pods)
    await lives.settle()
    assert lives.count("pg-a") == 4

    lives.child("a-w-0", "pg-a", succeeded=2, conditions=DONE)
    await lives.settle()
    assert lives.count("pg-a") == 2
    lives.api.remove("Job", "default", "a-w-0")
    await lives.settle()
    assert lives.count("pg-a") == 4, "it is made again"


@pytest.mark.parametrize("state", ["failed", "an earlier attempt's"])
async def test_a_jobset_s_job_that_starts_anew(lives: Lives, state: str) -> None:
    jobset = await lives.jobset(WIDE)
    failed = [{"type": "Failed", "status": "True"}]
    if state == "failed":
        lives.child("a-w-0", "pg-a", succeeded=1, conditions=failed)
    else:
        lives.child("a-w-0", "pg-a", succeeded=2, conditions=DONE)
        lives.api.put(jobset | {"status": {"restarts": 1}})
    await lives.harness.jobset.resync()
    await lives.settle()

    assert lives.count("pg-a") == 4


COMPOSITE = (
    make_jobset("a")
    .asks(gang_mode="Composite")
    .replicated_job("v", 1, job_template().pods(2, 2))
    .replicated_job("w", 2, job_template().pods(2, 2))
)


async def test_a_composite_s_job_that_is_done_and_cleaned_up(lives: Lives) -> None:
    await lives.jobset(COMPOSITE)
    assert lives.count("cpg-a", "CompositePodGroup") == 2
    for job in ("v-0", "w-0"):
        lives.child(f"a-{job}", f"pg-a-{job}", succeeded=2, conditions=DONE)
    pods = lives.pods(2, "pg-a-v-0", job="a-v-0", phase="Succeeded")
    pods += lives.pods(2, "pg-a-w-0", job="a-w-0", phase="Succeeded")
    await lives.settle()
    assert len(lives.groups()) == 6

    lives.remove(pods)
    await lives.settle()

    assert lives.groups() == ["cpg-a", "cpg-a-w-28a83eb478", "pg-a-w-1"]
    assert lives.count("cpg-a", "CompositePodGroup") == 1
    assert lives.count("cpg-a-w-28a83eb478", "CompositePodGroup") == 1


@pytest.mark.parametrize("mode", ["Gang", "Composite", "own Gang", "own ReplicatedGang"])
@pytest.mark.parametrize("size", [(0, 2), (2, 0)])
async def test_a_replicated_job_without_pods(
    lives: Lives, mode: str, size: tuple[int, int]
) -> None:
    own = mode.removeprefix("own ") if mode.startswith("own ") else ""
    builder = make_jobset("a")
    if not own:
        builder.asks(gang_mode=mode)
    for name, (replicas, pods) in {"v": size, "w": (1, 2)}.items():
        builder.replicated_job(name, replicas, job_template().pods(pods, pods), mode=own)
    await lives.jobset(builder)

    expected = {
        "Gang": {"pg-a": 2},
        "Composite": {"pg-a-w-0": 2, "cpg-a": 1, "cpg-a-w-28a83eb478": 1},
        "own Gang": {"pg-a-w-0a7be96f2b": 2},
        "own ReplicatedGang": {"pg-a-w-0": 2},
    }[mode]
    kinds = {"c": "CompositePodGroup", "p": "PodGroup"}
    assert {name: lives.count(name, kinds[name[0]]) for name in lives.groups()} == expected


@pytest.mark.parametrize("mode", ["Gang", "Composite"])
async def test_a_jobset_without_any_pods_gets_nothing(lives: Lives, mode: str) -> None:
    builder = make_jobset("a").asks(gang_mode=mode)
    await lives.jobset(builder.replicated_job("w", 0, job_template().pods(2, 2)))

    assert lives.api.writes == []


async def test_a_delegated_job_follows_its_template(lives: Lives) -> None:
    template = {"name": "x", "schedulingPolicy": {"gang": {"minCount": 2}}}
    reference = {"apiGroup": "example.com", "kind": "Thing", "name": "o"}
    spec = {"controllerRef": reference, "podGroupTemplates": [template]}
    meta = {"name": "w", "namespace": "default"}
    lives.api.put({"kind": "Workload", "metadata": meta, "spec": spec})
    job = make_job("t").managed("pg-job-t").pods(3, 3).build()
    job["metadata"]["annotations"]["scheduling.k8s.io/group-template-name"] = "x"
    owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "o", "uid": "u"}
    job["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    lives.api.put(job | {"kind": "Job"})
    await lives.settle()
    assert lives.count("pg-job-t") == 2

    more = template | {"schedulingPolicy": {"gang": {"minCount": 3}}}
    lives.harness.change("Workload", "w", podGroupTemplates=[more])
    await lives.harness.settle()
    assert lives.count("pg-job-t") == 3

    lives.harness.change("Job", "t", parallelism=0)
    await lives.settle()
    assert lives.groups() == []


async def test_status_that_says_nothing_new_queues_nobody(lives: Lives) -> None:
    jobset = await lives.jobset(WIDE)
    lives.child("a-w-0", "pg-a")
    lives.child("a-w-1", "pg-a")
    for index in range(2):
        lives.pods(2, "pg-a", job=f"a-w-{index}")
    await lives.settle()

    lives.api.put(jobset | {"status": {"replicatedJobsStatus": [{"name": "w", "ready": 1}]}})
    lives.child("a-w-0", "pg-a", succeeded=1, active=1)
    await lives.harness.clock.advance(SOON)

    assert len(lives.harness.jobset.controller.queue) == 0


async def test_counts_of_members_forget_what_is_gone(lives: Lives) -> None:
    await lives.job(2)
    names = lives.pods(2, "pg-job-t")
    lives.end(names)
    lives.remove(names)

    counts = lives.harness.caches.member_counts
    assert counts.total(("default", "pg-job-t")) == 0
    assert not counts._total
    assert not counts._of_jobs
