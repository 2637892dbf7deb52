"""Any life cycle of Jobs and JobSets, with any faults, ends with exactly the right objects.

The model is the pure specification: `jobset_groups` and `job_groups` of the existing objects.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from api.constants import (
    ANNOTATION_MADE_FOR,
    ANNOTATION_STANDS_FOR,
    JOB_LABEL_UID,
    JOBSET_LABEL_UID,
    LABEL_MANAGED_BY,
    MANAGED_BY,
)
from api.features import USUAL, Feature, FeatureGates
from api.integration.common.minimum import NO_PODS
from api.integration.job.admission import job_groups, read_job
from api.integration.jobset.admission import jobset_expected, jobset_groups
from tests.controllers.conftest import ControllerHarness
from tests.controllers.life_cycle import MADE, LifeCycle
from tests.support.builders import make_pod
from tests.support.owners import job_template, make_job, make_jobset

Json = dict[str, Any]

LINGER = "test.muster.dev/terminating"
ACTIVE = ("", "Pending", "Running")
NAMES = st.sampled_from(["a", "b", "a-b"])
KINDS = st.sampled_from(["Job", "JobSet"])
COUNTS = st.integers(1, 4)


class JobLives(LifeCycle):
    """Jobs and JobSets."""

    def __init__(self) -> None:
        super().__init__()
        self.uids = 0
        self.pods = 0

    async def new_harness(self) -> ControllerHarness:
        return ControllerHarness(gates=FeatureGates(USUAL.on | {Feature.EXPECTED_PODS}))

    # What users do.

    @rule(name=NAMES, replicas=COUNTS, pods=COUNTS, suspended=st.booleans(), mode=st.sampled_from(
        ["Off", "Basic", "Gang", "Composite", "own Gang", "own ReplicatedGang"]),
        ordered=st.booleans())  # fmt: skip
    def create_jobset(
        self, name: str, mode: str, replicas: int, pods: int, suspended: bool, ordered: bool
    ) -> None:
        if ("JobSet", "default", name) in self.harness.api.objects:
            return
        template = job_template().pods(pods)
        made = make_jobset(name).suspended(suspended)
        if ordered:
            made = made.in_order().replicated_job("d")
        if mode.startswith("own "):
            template = template.asks(gang_mode=mode.removeprefix("own "))
        else:
            made = made.asks(gang_mode=mode)
        # Replicated job `b` of JobSet `a`, and JobSet `a-b`, need the same name.
        obj = self._new(made.replicated_job("b", replicas, template).build())
        self.do(lambda: self.harness.submit_jobset(obj))

    @rule(name=NAMES, parallelism=COUNTS, completions=st.none() | COUNTS, suspended=st.booleans())
    def create_job(
        self, name: str, parallelism: int, completions: int | None, suspended: bool
    ) -> None:
        if ("Job", "default", name) in self.harness.api.objects:
            return
        made = make_job(name).asks(gang_mode="Gang").pods(parallelism, completions)
        self.do(lambda: self.harness.submit_job(self._new(made.suspended(suspended).build())))

    @rule(name=NAMES, parallelism=COUNTS)
    def scale(self, name: str, parallelism: int) -> None:
        if self._living("Job", name):
            self.do(lambda: self.harness.change("Job", name, parallelism=parallelism))

    @rule(name=NAMES, replicas=COUNTS, pods=COUNTS)
    def scale_a_jobset(self, name: str, replicas: int, pods: int) -> None:
        """JobSet v0.11.0 rejects it; later versions may not."""
        if self._living("JobSet", name):
            *first, job = self._spec("JobSet", name)["replicatedJobs"]
            template = job["template"] | {"spec": job["template"]["spec"] | {"parallelism": pods}}
            scaled = [*first, job | {"replicas": replicas, "template": template}]
            self.do(lambda: self.harness.change("JobSet", name, replicatedJobs=scaled))

    @rule(kind=KINDS, name=NAMES, suspend=st.booleans())
    def suspend_or_resume(self, kind: str, name: str, suspend: bool) -> None:
        if self._living(kind, name):
            self.do(lambda: self.harness.change(kind, name, suspend=suspend))

    @rule(kind=KINDS, name=NAMES)
    def delete(self, kind: str, name: str) -> None:
        if self._living(kind, name):
            self.do(lambda: self.harness.api.remove(kind, "default", name))

    @rule(kind=KINDS, name=NAMES)
    def delete_and_orphan(self, kind: str, name: str) -> None:
        if self._living(kind, name):
            self.do(lambda: self.harness.api.orphan(kind, "default", name))

    # What other controllers do.

    @rule(kind=KINDS, name=NAMES)
    def pods_are_started(self, kind: str, name: str) -> None:
        """Start one in each group, as the Job controller would, also to replace failed ones."""
        if self._living(kind, name) and not self._spec(kind, name).get("suspend"):
            self.do(lambda: self._start_pods(kind, name))

    @rule(data=st.data(), phase=st.sampled_from(["Succeeded", "Failed", "gone"]))
    def end_a_pod(self, data: st.DataObject, phase: str) -> None:
        pods = self.harness.api.names("Pod")
        if not pods:
            return
        name = data.draw(st.sampled_from(pods))
        if phase == "gone":
            self.do(lambda: self._lose_pod(name))
            return
        pod = self.harness.api.objects["Pod", "default", name]
        self.do(lambda: self.harness.api.put(pod | {"status": {"phase": phase}}))

    @rule(name=NAMES)
    def a_jobset_restarts(self, name: str) -> None:
        """Recreate its Jobs; their pods fail."""
        if self._living("JobSet", name) and not self._spec("JobSet", name).get("suspend"):
            self.do(lambda: self._restart(name))

    @rule()
    def events_were_lost(self) -> None:
        self.do(self.harness.api.relist)

    # What must hold.

    @precondition(lambda self: not self.harness.api.client.holds_events)
    @rule()
    def settled_objects_are_those_of_the_specification(self) -> None:
        self.settle()
        self.check_settled()

    @invariant()
    def no_object_has_two_controllers(self) -> None:
        """Check that every object has at most one controller; an orphan has none."""
        for (kind, _, name), obj in self.harness.api.objects.items():
            if kind in MADE:
                owners = obj["metadata"].get("ownerReferences", [])
                assert sum(bool(it.get("controller")) for it in owners) <= 1, (kind, name)

    def _new(self, obj: Json) -> Json:
        self.uids += 1
        obj["metadata"]["uid"] = f"{obj['metadata']['uid']}-{self.uids}"
        return obj

    def _living(self, kind: str, name: str) -> bool:
        return ("deletionTimestamp" not in self._meta(kind, name)) and bool(self._meta(kind, name))

    def _meta(self, kind: str, name: str) -> Json:
        found: Json = self.harness.api.objects.get((kind, "default", name), {}).get("metadata", {})
        return found

    def _spec(self, kind: str, name: str) -> Json:
        spec: Json = self.harness.api.objects[kind, "default", name]["spec"]
        return spec

    def _start_pods(self, kind: str, name: str) -> None:
        api = self.harness.api
        for group in _specified(api.objects[kind, "default", name]):
            if group["kind"] != "PodGroup":
                continue
            in_group = group["metadata"]["name"]
            owner, there = self._meta(kind, name), self._meta("PodGroup", in_group)
            if "deletionTimestamp" in there and _maker_uid(there) == owner["uid"]:
                continue  # admission rejects it
            job = self._job_of(kind, name, in_group)["metadata"]
            self.pods += 1
            # As the Job controller does: labels outlast owner references.
            pod = make_pod(f"p{self.pods}").managed(in_group).label(JOB_LABEL_UID, job["uid"])
            if kind == "JobSet":
                pod = pod.label(JOBSET_LABEL_UID, owner["uid"])
            made = pod.owned_by("Job", job["name"], job["uid"]).build() | {"kind": "Pod"}
            made["metadata"]["finalizers"] = [LINGER]
            api.put(made)

    def _job_of(self, kind: str, name: str, group: str) -> Json:
        """Return the Job whose pods are in the group; create a JobSet's if needed."""
        api = self.harness.api
        owner: Json = api.objects[kind, "default", name]
        if kind == "Job":
            return owner
        job = f"{name}-of-{group}"
        if ("Job", "default", job) not in api.objects:
            made = make_job(job).managed(group).of_jobset(name, "b", 0, "JobSet").build()
            reference: Json = {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "name": name,
            }
            reference |= {"uid": owner["metadata"]["uid"], "controller": True}
            made["metadata"]["ownerReferences"] = [reference]
            made["metadata"]["labels"][JOBSET_LABEL_UID] = reference["uid"]
            api.put(self._new(made) | {"kind": "Job"})
        found: Json = api.objects["Job", "default", job]
        return found

    def _lose_pod(self, name: str) -> None:
        self.harness.api.remove("Pod", "default", name)
        self.harness.api.release("Pod", "default", name)

    def _restart(self, jobset: str) -> None:
        api, uid = self.harness.api, self._meta("JobSet", jobset)["uid"]
        for kind, _, name in list(api.objects):
            obj = api.objects.get((kind, "default", name))
            if kind == "Job" and obj and uid in _owner_uids(obj):
                for pod in api.names("Pod"):
                    if obj["metadata"]["uid"] in _owner_uids(api.objects["Pod", "default", pod]):
                        self._lose_pod(pod)
                api.remove(kind, "default", name)
        self._start_pods("JobSet", jobset)

    def remove_all(self) -> None:
        for kind in ("JobSet", "Job"):
            for name in self.harness.api.names(kind):
                self.harness.api.remove(kind, "default", name)
        for name in self.harness.api.names("Pod"):
            self._lose_pod(name)

    def check_settled(self) -> None:
        wanted: dict[tuple[str, str], Json] = {}
        maybe: set[tuple[str, str]] = set()
        for (kind, _, _), obj in self.harness.api.objects.items():
            if kind not in {"Job", "JobSet"}:
                continue
            slots = {(it["kind"], it["metadata"]["name"]): it for it in _specified(obj)}
            if obj["spec"].get("suspend"):
                maybe |= set(slots)  # the Workload is kept; groups while pods run
            elif not self._clashes(obj) and not self._waits_for_others(obj, set(slots)):
                wanted |= slots
            else:
                maybe |= set(slots)
        named = {
            (kind, name): (kind, obj["metadata"]["annotations"].get(ANNOTATION_STANDS_FOR, name))
            for (kind, _, name), obj in self.harness.api.objects.items()
            if kind in MADE
        }
        there = set(named.values())
        held = {named[slot] for slot in named if self._is_in_use(slot)}
        assert set(wanted) <= there, set(wanted) - there
        assert there <= set(wanted) | maybe | held, there - set(wanted) - maybe - held
        self._compare_expected(maybe | set(wanted))
        for (kind, name), obj in wanted.items():
            live = self.harness.api.objects[kind, "default", name]
            assert live["metadata"]["labels"][LABEL_MANAGED_BY] == MANAGED_BY
            if kind != "Workload" and "deletionTimestamp" not in live["metadata"]:
                assert live["spec"] == obj["spec"], (kind, name)

    def _compare_expected(self, owned: set[tuple[str, str]]) -> None:
        """Check that orphans and the groups of suspended owners expect no pods."""
        for (kind, _, name), obj in self.harness.api.objects.items():
            if kind == "PodGroup" and obj["spec"].get("expectedPods"):
                assert (kind, name) in owned, name
                owners = (it for it in self.harness.api.objects.values() if it["kind"] == "JobSet")
                made_for = _maker_uid(obj["metadata"])
                suspended = {it["metadata"]["uid"] for it in owners if it["spec"].get("suspend")}
                assert made_for not in suspended, name

    def _clashes(self, obj: Json) -> bool:
        """Return True if another object has a required name.

        That is reported, and the object kept.
        """
        return any(
            reason == "NameTaken" and name == obj["metadata"]["name"]
            for _, name, reason in self.harness.recorded.events
        )

    def _waits_for_others(self, owner: Json, slots: set[tuple[str, str]]) -> bool:
        """Return True if a namesake's orphans have the names, which their pods delay."""
        uid = owner["metadata"]["uid"]
        there = [self._meta(*slot) for slot in slots]
        return any("deletionTimestamp" in it or _maker_uid(it) != uid for it in there if it)

    def _is_in_use(self, slot: tuple[str, str]) -> bool:
        """Return True if pods, or Jobs that may create some, use what a deleted owner had."""
        made = _maker_uid(self._meta(*slot))
        groups = [
            obj["metadata"]["name"]
            for key, obj in self.harness.api.objects.items()
            if key[0] == "PodGroup" and _maker_uid(obj["metadata"]) == made
        ]
        return any(
            self._keeps(obj, group, made)
            for key, obj in self.harness.api.objects.items()
            if key[0] in {"Pod", "Job"}
            for group in groups
        )

    def _keeps(self, obj: Json, group: str, owner: str) -> bool:
        """Return True if a pod, or a Job's pods, are in the group created for the owner."""
        meta = obj["metadata"]
        if meta["annotations"].get("scheduling.muster.dev/managed-group") != group:
            return False
        if obj.get("status", {}).get("phase", "") not in ACTIVE:
            return False
        own = meta["uid"] if obj["kind"] == "Job" else ""
        labels = meta.get("labels", {})
        noted = {labels.get(JOBSET_LABEL_UID), labels.get(JOB_LABEL_UID)}
        return owner in {own, *noted, *_owner_uids(obj)}


def _specified(owner: Json) -> list[Json]:
    if owner["kind"] == "Job":
        return job_groups(owner)
    made = jobset_groups(owner)
    # No Job here has the name that its JobSet would give it, so none has started.
    expected = jobset_expected(owner, lambda _job, _group: (None, NO_PODS))
    for obj in made:
        if obj["metadata"]["name"] in expected and obj["kind"] == "PodGroup":
            obj["spec"]["expectedPods"] = expected[obj["metadata"]["name"]]
    return made


def _owner_uids(obj: Json) -> list[str]:
    return [it["uid"] for it in obj["metadata"].get("ownerReferences", [])]


def _maker_uid(meta: Json) -> str:
    uid: str = meta["annotations"][ANNOTATION_MADE_FOR].rpartition("/")[2]
    return uid


@pytest.mark.timeout(1200)
def test_any_life_converges() -> None:
    machine = settings(
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run = JobLives.TestCase
    run.settings = machine
    run("runTest").debug()


def test_the_model_reads_jobs_as_admission_marks_them() -> None:
    assert read_job(make_job("t").asks(gang_mode="Gang").managed("pg-job-t").build()).managed
