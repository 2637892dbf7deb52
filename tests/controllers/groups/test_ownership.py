"""Generated objects are deleted with their owner, for each kind, deletion and Workload.

The next owner of the name gets objects of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from api.constants import (
    ANNOTATION_GROUP_TEMPLATE,
    ANNOTATION_MADE_FOR,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATIONS_PARENT_COMPOSITE,
    COSCHEDULING,
    JOB,
    JOBSET,
    JOBSET_LABEL_UID,
    LABEL_COSCHEDULING,
    LABEL_SUBSET,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    WORKLOAD,
    KindName,
)
from api.names import subset_pod_group
from cli.cleanup.gc import find_orphans
from controllers.cache.objects import COSCHEDULINGS
from controllers.cleanup.orphans import COLLECTOR_SECONDS
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import make_pod
from tests.support.owners import job_template, make_job, make_jobset

Json = dict[str, Any]

POLICIES = ("Background", "Foreground", "Orphan")
GENERATED = ("Workload", "CompositePodGroup", "PodGroup")


def leaf(name: str) -> Json:
    return {"name": name, "schedulingPolicy": {"gang": {"minCount": 2}}}


def composite(name: str, **children: list[Json]) -> Json:
    return {"name": name, "schedulingPolicy": {"gang": {"minGroupCount": 1}}, **children}


def job() -> Json:
    return make_job("x").asks(gang_mode="Gang").pods(2).build()


def delegated_job() -> Json:
    made = make_job("x").pods(2).scheduler("muster-scheduler").build()
    made["metadata"]["annotations"] = {ANNOTATION_GROUP_TEMPLATE: "workers"}
    owner = {"apiVersion": "example.org/v1", "kind": "Trainer", "name": "run", "uid": "uid-of-run"}
    made["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    return made


def delegated_below_a_composite() -> Json:
    made = delegated_job()
    made["metadata"]["annotations"][ANNOTATIONS_PARENT_COMPOSITE[0]] = "above"
    return made


def jobset(mode: str) -> Json:
    template, own = job_template().pods(2), mode.removeprefix("own ")
    if own != mode:
        template = template.asks(gang_mode=own)
    made = make_jobset("x") if own != mode else make_jobset("x").asks(gang_mode=mode)
    return made.replicated_job("w", 2, template).build()


def coscheduling(*subsets: str) -> Json:
    said = [{"minMember": 1} | ({"name": it} if it else {}) for it in subsets]
    metadata = {"name": "x", "namespace": "default", "uid": "uid-of-x"}
    return {"metadata": metadata, "spec": {"subsets": said}}


def named_workload() -> Json:
    metadata = {"name": "x", "namespace": "default", "uid": "uid-of-x"}
    return {"metadata": metadata, "spec": {"podGroupTemplates": [leaf("t")]}}


@dataclass(frozen=True)
class Case:
    """An owner `x`, its user's Workload if any, and the groups it gets."""

    kind: KindName
    owner: Json
    groups: tuple[str, ...]
    templates: Json | None = None
    pods: tuple[tuple[str, str], ...] = ()
    """Labels of its pods, if Jobs do not create them."""

    @property
    def stored(self) -> str:
        return COSCHEDULINGS.full_name if self.kind == COSCHEDULING else self.kind.kind


GANG, REPLICATED = ("pg-x",), ("pg-x-w-0", "pg-x-w-1")
TREE = (*REPLICATED, "cpg-x", "cpg-x-w-7d059bf66a")
USERS_TREE = {
    "compositePodGroupTemplates": [
        composite(
            "cpg-x",
            compositePodGroupTemplates=[composite("cpg-w", podGroupTemplates=[leaf("pg-w")])],
        )
    ]
}

SUBSETS = {subset_pod_group("x", it): it for it in "ab"}

CASES = {
    "Job": Case(JOB, job(), ("pg-job-x",)),
    "Job, user's Workload": Case(JOB, job(), ("pg-job-x",), {"podGroupTemplates": [leaf("t")]}),
    "delegated Job": Case(JOB, delegated_job(), ("pg-job-x",)),
    "delegated Job below": Case(JOB, delegated_below_a_composite(), ("pg-job-x",)),
    "JobSet Gang": Case(JOBSET, jobset("Gang"), GANG),
    "JobSet Gang, user's": Case(JOBSET, jobset("Gang"), GANG, {"podGroupTemplates": [leaf("t")]}),
    "JobSet Basic": Case(JOBSET, jobset("Basic"), GANG),
    "replicatedJob Gang": Case(JOBSET, jobset("own Gang"), ("pg-x-w-abdf7ac539",)),
    "replicatedJob Gang, user's": Case(
        JOBSET, jobset("own Gang"), ("pg-x-w-abdf7ac539",), {"podGroupTemplates": [leaf("pg-w")]}
    ),
    "ReplicatedGang": Case(JOBSET, jobset("own ReplicatedGang"), REPLICATED),
    "ReplicatedGang, user's": Case(
        JOBSET, jobset("own ReplicatedGang"), REPLICATED, {"podGroupTemplates": [leaf("pg-w")]}
    ),
    "Composite": Case(JOBSET, jobset("Composite"), TREE),
    "Composite, user's": Case(JOBSET, jobset("Composite"), TREE, USERS_TREE),
    "KEP-3370 group": Case(
        COSCHEDULING, coscheduling(""), ("x",), None, ((LABEL_COSCHEDULING, "x"),)
    ),
    "KEP-3370 group of subsets": Case(
        COSCHEDULING,
        coscheduling(*SUBSETS.values()),
        ("x", *SUBSETS),
        None,
        ((LABEL_COSCHEDULING, "x"),),
    ),
    "Workload that pods name": Case(
        WORKLOAD,
        named_workload(),
        ("x-t",),
        None,
        ((LABEL_WORKLOAD, "x"), (LABEL_TEMPLATE, "t")),
    ),
}


class Life:
    """The successive owners of the case."""

    def __init__(self, harness: ControllerHarness, case: Case) -> None:
        self.harness = harness
        self.api = harness.api
        self.case = case
        if case.templates is not None:
            self._users_workload(case.kind, "x", case.templates)
        if ANNOTATION_GROUP_TEMPLATE in case.owner["metadata"].get("annotations", {}):
            trainer = KindName("example.org", "v1", "trainers", "Trainer")
            self._users_workload(trainer, "run", {"podGroupTemplates": [leaf("workers")]})

    def _users_workload(self, kind: KindName, name: str, templates: Json) -> None:
        reference = {"apiGroup": kind.group, "kind": kind.kind, "name": name}
        self.api.put(
            {
                "kind": "Workload",
                "metadata": {"name": "mine", "namespace": "default"},
                "spec": {"controllerRef": reference} | templates,
            }
        )

    async def submit(self, uid: str) -> None:
        """Create an owner with its Jobs, and their pods, which run once they have groups."""
        obj = self.case.owner | {"metadata": self.case.owner["metadata"] | {"uid": uid}}
        if self.case.kind == JOB:
            self._start(self.harness.submit_job(obj), uid)
        elif self.case.kind == JOBSET:
            self._submit_jobset(obj, uid)
        else:
            self.api.put(obj | {"kind": self.case.stored})
            for group in self.case.groups[-2:]:
                self._start_named(group, uid)
        await self.harness.settle()

    def _submit_jobset(self, obj: Json, uid: str) -> None:
        self.harness.submit_jobset(obj)
        leaves = [it for it in self.case.groups if it.startswith("pg-")]
        for index in range(2):
            group = leaves[index % len(leaves)]
            job = make_job(f"x-w-{index}").managed(group).of_jobset("x", "w", index, "JobSet")
            made = job.build()
            if ("Job", "default", f"x-w-{index}") in self.api.objects:
                return  # an orphaned one has the name
            made["metadata"]["uid"] = f"job-{index}-of-{uid}"
            made["metadata"]["labels"][JOBSET_LABEL_UID] = uid
            owner: Json = {"apiVersion": JOBSET.api_version, "kind": "JobSet"}
            owner |= {"name": "x", "uid": uid, "controller": True, "blockOwnerDeletion": True}
            made["metadata"]["ownerReferences"] = [owner]
            self._start(self.api.put(made | {"kind": "Job"}), uid)

    def _start(self, job: Json, uid: str) -> None:
        meta, group = job["metadata"], job["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP]
        made = make_pod(f"of-{meta['uid']}").managed(group).bound_to("n")
        if JOBSET_LABEL_UID in meta.get("labels", {}):
            made = made.label(JOBSET_LABEL_UID, uid)
        made = made.owned_by("Job", meta["name"], meta["uid"])
        pod = made.phase("Running").build() | {"kind": "Pod"}
        pod["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = True
        self.api.put(pod)

    def _start_named(self, group: str, uid: str) -> None:
        """Create pods that know only a name: those of the second wait for an existing group."""
        made = make_pod(f"{group}-of-{uid}").phase("Pending")
        made = made.bound_to("n").phase("Running") if uid == "first" else made
        if group in SUBSETS:
            made = made.label(LABEL_SUBSET, SUBSETS[group])
        for key, value in self.case.pods:
            made = made.label(key, value)
        self.api.put(made.build() | {"kind": "Pod"})

    async def delete(self, policy: str) -> None:
        act = {
            "Background": self.api.remove,
            "Foreground": self.api.foreground,
            "Orphan": self.api.orphan,
        }
        act[policy](self.case.stored, "default", "x")
        await self.harness.settle()

    async def end_pods(self, uid: str) -> None:
        """Delete the pods with the Jobs that would create more."""
        for kind, namespace, name in list(self.api.objects):
            obj = self.api.objects.get((kind, namespace, name))
            is_job = kind == "Job" and name != "x" and obj and uid in obj["metadata"]["uid"]
            if obj and (is_job or (kind == "Pod" and uid in name)):
                self.api.remove(kind, namespace, name)
        await self.harness.settle()

    def made_for(self, uid: str) -> set[str]:
        """Return the groups that were created for the owner."""
        return {
            obj["metadata"]["name"] for obj in self._generated(uid) if obj["kind"] != "Workload"
        }

    def _generated(self, uid: str) -> Iterator[Json]:
        for (kind, _, _), obj in self.api.objects.items():
            noted = obj["metadata"].get("annotations", {}).get(ANNOTATION_MADE_FOR, "")
            if kind in GENERATED and noted.endswith(f"/{uid}"):
                yield obj

    def orphans(self) -> list[str]:
        found = find_orphans(self.harness.caches, datetime(2026, 1, 1, tzinfo=UTC))
        return [it.name for it in found]


@pytest.fixture(params=CASES)
def life(request: pytest.FixtureRequest, harness: ControllerHarness) -> Life:
    return Life(harness, CASES[request.param])


@pytest.mark.parametrize("policy", POLICIES)
async def test_what_was_made_for_an_owner_goes_with_it(life: Life, policy: str) -> None:
    groups = set(life.case.groups)
    await life.submit("first")
    assert life.made_for("first") == groups
    before = life.api.objects.get(("Workload", "default", "mine"))

    await life.delete(policy)
    if policy == "Orphan":
        assert life.made_for("first") == groups, "its pods run on"
    assert life.orphans() == []
    await life.end_pods("first")
    assert life.orphans() == []
    await life.harness.settle(seconds=COLLECTOR_SECONDS)

    assert list(life._generated("first")) == []
    assert life.api.objects.get(("Workload", "default", "mine")) == before


@pytest.mark.parametrize("policy", POLICIES)
async def test_the_next_of_the_name_gets_its_own(life: Life, policy: str) -> None:
    await life.submit("first")

    await life.delete(policy)
    await life.submit("second")
    assert not (life.made_for("first") and life.made_for("second") - life.made_for("first"))
    await life.end_pods("first")
    await life.harness.settle(seconds=COLLECTOR_SECONDS)

    assert list(life._generated("first")) == []
    assert life.made_for("second") == set(life.case.groups)
    assert life.orphans() == []
