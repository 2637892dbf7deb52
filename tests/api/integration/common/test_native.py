"""The API of a new owner's groups, by kind: what is native, what is not, and the reason."""

from dataclasses import replace
from typing import Any

import jsonpatch
import pytest

from api.constants import (
    ANNOTATION_GROUPS_API,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_NOT_NATIVE,
    GROUP,
)
from api.integration.common.native import (
    Choice,
    GroupsApi,
    NativeApi,
    group_in_field,
    native_form,
)
from api.integration.common.owner_kind import Review
from api.integration.common.workloads import OwnerName, Workloads
from api.integration.job.admission import job_groups
from api.integration.jobset.admission import group_of_jobset_job, jobset_groups
from api.integration.kinds import OWNER_KINDS
from api.priority import PriorityClass
from tests.support.lws import make_lws
from tests.support.owners import JobBuilder, JobSetBuilder, job_template, make_job, make_jobset

Json = dict[str, Any]

KEPT = frozenset({"schedulingConstraints", "preemptionPolicy"})
NATIVE = NativeApi(GroupsApi.NATIVE, served=True, kept=KEPT)
AUTO = replace(NATIVE, setting=GroupsApi.AUTO)
BARE = replace(AUTO, kept=frozenset())
CLASSES = (PriorityClass("modest", 10, preemption_policy="Never"),)

UNSERVED = "the API server does not serve podgroups.scheduling.k8s.io/v1beta1"
TREE = "minGroupCount of a native CompositePodGroup is immutable, and cannot follow Jobs that end"
TOPOLOGY = (
    "the API server drops it from a native PodGroup without its feature gate "
    "TopologyAwareWorkloadScheduling"
)
NEVER = (
    "the PriorityClass of its pods never preempts, and the API server drops preemptionPolicy from "
    "a native PodGroup without its feature gate PodGroupPreemptionPolicy"
)
BASIC = "a native PodGroup with the policy basic may not have it"
REQUEST = "Muster creates ProvisioningRequests only for groups of its own"
CLAIMS = "a native PodGroup creates the claims of its pods in another way"
EXPECTED = "its gang waits for pods that start later: a native PodGroup expects none"
WORKLOAD = "a Workload of Muster has the templates of its groups"
REPLICAS = (
    "a later LeaderWorkerSet may use the names of its groups again, and native groups must not be "
    "used again"
)


def at(word: str, path: str = "metadata") -> str:
    return f"{path}.annotations[{GROUP}/{word}]"


def app(kind: str, **words: str) -> Json:
    notes = {f"{GROUP}/{word.replace('_', '-')}": said for word, said in words.items()}
    spec = {"replicas": 2, "podManagementPolicy": "Parallel", "template": pod_template()}
    return {"kind": kind, "metadata": {"name": "a", "annotations": notes}, "spec": spec}


def pod_template(**spec: Any) -> Json:
    return {"metadata": {}, "spec": {"containers": [], **spec}}


def ray(**words: str) -> Json:
    head = {"headGroupSpec": {"template": pod_template()}}
    workers = {"workerGroupSpecs": [{"replicas": 2, "template": pod_template()}]}
    return app("RayCluster", **words) | {"spec": head | workers}


def mpi(**words: str) -> Json:
    roles = {it: {"replicas": 1, "template": pod_template()} for it in ("Launcher", "Worker")}
    return app("MPIJob", **words) | {"spec": {"mpiReplicaSpecs": roles}}


def job() -> JobBuilder:
    return make_job("a").asks(gang_mode="Gang").pods(2)


def jobset(mode: str = "Gang") -> JobSetBuilder:
    return make_jobset("a").asks(gang_mode=mode).replicated_job("w", 1, job_template().pods(2))


def ordered() -> Json:
    made = jobset().replicated_job("x", 1, job_template().pods(2)).build()
    made["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    return made


def admitted(
    kind: str, obj: Json, native: NativeApi, old: Json | None = None, **more: Any
) -> tuple[Json, list[str]]:
    """Return the object after admission, and the warnings."""
    review = Review(
        "UPDATE" if old else "CREATE", old, uid="r", namespace="default", native=native, **more
    )
    found = OWNER_KINDS[kind].admit(obj, review._replace(expects=True))
    assert found.causes == []
    patched: Json = jsonpatch.apply_patch(obj, found.patch)
    return patched, list(found.warnings)


def choice(kind: str, obj: Json, native: NativeApi, **more: Any) -> Choice:
    return Choice.of(admitted(kind, obj, native, **more)[0])


CASES = [
    pytest.param("Job", job().build(), "", id="a Job"),
    pytest.param("Job", job().asks(gang_mode="Basic").build(), "", id="a Job of mode Basic"),
    pytest.param(
        "Job", job().asks(preferred_topology="rack").build(), "",
        id="a preferred topology, as an annotation",
    ),
    pytest.param("Job", job().asks(preemption_delay="9s").build(), "", id="a delay, likewise"),
    pytest.param(
        "Job", job().asks(gang_mode="Basic", disruption_mode="All").build(),
        f"{at('disruption-mode')}: {BASIC}", id="Basic and All",
    ),
    pytest.param(
        "Job", job().asks(provisioning_request="check-capacity")
        .build(),
        f"{at('provisioning-request')}: {REQUEST}", id="a request for capacity",
    ),
    pytest.param(
        "Job", job().asks(shared_claims="gpu").claims(gpu="t").build(),
        f"{at('shared-claims')}: {CLAIMS}", id="shared claims",
    ),
    pytest.param("JobSet", jobset().build(), "", id="a JobSet's gang"),
    pytest.param(
        "JobSet", jobset("Composite").build(), f"{at('gang-mode')}: {TREE}", id="a tree"
    ),
    pytest.param("JobSet", ordered(), EXPECTED, id="a gang in start order"),
    pytest.param("StatefulSet", app("StatefulSet", gang_mode="Gang"), "", id="a StatefulSet"),
    pytest.param("Deployment", app("Deployment", gang_mode="Gang"), "", id="a Deployment"),
    pytest.param("RayCluster", ray(gang_mode="Gang"), "", id="a RayCluster"),
    pytest.param("MPIJob", mpi(gang_mode="Gang"), "", id="an MPIJob"),
    pytest.param(
        "LeaderWorkerSet", make_lws("a").asks(gang_mode="Gang").build(), REPLICAS,
        id="a LeaderWorkerSet",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "obj", "lacks"), CASES)
def test_groups_are_native_if_these_can_state_all_that_the_owner_asks(
    kind: str, obj: Json, lacks: str
) -> None:
    made, warnings = admitted(kind, obj, AUTO)

    assert Choice.of(made) == Choice(not lacks, not lacks, lacks)
    fallback = f"{lacks}: no native PodGroup is created, and it gets Muster's own"
    assert [it for it in warnings if "native" in it] == ([fallback] if lacks else [])
    # With `native`, such an owner waits, and with `muster` nothing changes.
    assert choice(kind, obj, NATIVE) == Choice(not lacks, True, lacks)
    plain, _ = admitted(kind, obj, NativeApi(served=True, kept=KEPT))
    assert Choice.of(plain) == Choice()
    assert admitted(kind, obj, NativeApi())[0] == plain


@pytest.mark.parametrize(
    ("obj", "lacks"),
    [
        pytest.param(job().asks(topology="rack").build(), f"{at('topology')}: {TOPOLOGY}"),
        pytest.param(job().asks(preferred_topology="rack").build(), ""),
        pytest.param(job().priority_class("modest").build(), NEVER),
        pytest.param(job().build(), ""),
    ],
)
def test_a_field_without_its_gate_is_not_relied_on(obj: Json, lacks: str) -> None:
    assert choice("Job", obj, replace(BARE, classes=CLASSES)).lacks == lacks
    assert choice("Job", obj, replace(AUTO, classes=CLASSES)).lacks == ""


@pytest.mark.parametrize("kind", ["Job", "JobSet"])
def test_where_they_are_not_served_or_a_user_has_a_workload_groups_are_musters(kind: str) -> None:
    obj = job().build() if kind == "Job" else jobset().build()
    assert choice(kind, obj, NativeApi(GroupsApi.AUTO)).lacks == UNSERVED
    assert choice(kind, obj, NativeApi(GroupsApi.NATIVE)) == Choice(False, True, UNSERVED)
    known: dict[OwnerName, Json] = {OwnerName(OWNER_KINDS[kind].kind.group, kind, "a"): {}}
    more = {"workloads": Workloads(known.get, known.get)}
    assert choice(kind, obj, AUTO, **more).lacks == WORKLOAD


def test_a_job_names_its_native_group_in_label_annotation_and_field() -> None:
    made, _ = admitted("Job", job().build(), NATIVE)
    name = made["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP]

    template = made["spec"]["template"]
    assert name.startswith("pg-job-a-")
    assert group_in_field(template) == name == template["metadata"]["labels"][f"{GROUP}/pod-group"]
    # An update of the manifest changes nothing, whatever the setting is by now.
    for setting in (AUTO, NativeApi()):
        assert admitted("Job", job().build(), setting, old=made)[0] == made
    # A copy gets a group of its own, of the API of now.
    copy, _ = admitted("Job", made, NativeApi())
    assert group_in_field(copy["spec"]["template"]) == ""
    assert copy["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP] == "pg-job-a"
    assert ANNOTATION_GROUPS_API not in copy["metadata"]["annotations"]


def test_a_native_group_is_the_wanted_one_without_what_the_api_lacks() -> None:
    made, _ = admitted(
        "Job", job().asks(preferred_topology="rack", preemption_delay="9s").build(), NATIVE
    )
    group = native_form(job_groups(made)[1])

    meta = group["metadata"]
    assert group["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert meta["ownerReferences"][0]["kind"] == "Job"
    assert "finalizers" not in meta
    assert meta["annotations"][f"{GROUP}/preferred-topology"] == "rack"
    assert meta["annotations"][f"{GROUP}/preemption-delay"] == "9s"
    assert group["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "disruptionMode": {"single": {}},
    }


@pytest.mark.parametrize("mode", ["Gang", "ReplicatedGang"])
def test_the_jobs_of_a_jobset_name_the_groups_that_it_gets(mode: str) -> None:
    wide = mode == "Gang"
    template = job_template().pods(2)
    made = make_jobset("a").asks(gang_mode="Gang") if wide else make_jobset("a")
    template = template if wide else template.asks(gang_mode=mode)
    obj = made.replicated_job("w", 2, template).build()
    first, _ = admitted("JobSet", obj, NATIVE)
    groups = [it["metadata"]["name"] for it in jobset_groups(first)[1:]]

    said = first["spec"]["replicatedJobs"][0]["template"]["metadata"]["annotations"]
    jobs = [make_job(f"a-w-{at}").of_jobset("a", "w", at).noted(said).build() for at in range(2)]
    named = [group_of_jobset_job("default", it) for it in jobs]
    assert list(dict.fromkeys(named)) == groups
    for it, name in zip(jobs, named, strict=True):
        # The JobSet has chosen, whatever the setting is by now.
        created, _ = admitted("Job", it, NativeApi())
        assert group_in_field(created["spec"]["template"]) == name
    assert admitted("JobSet", obj, NativeApi(), old=first)[0] == first
    again = OWNER_KINDS["JobSet"].admit(obj, Review("CREATE", uid="s", native=NATIVE)).patch
    later = [it["metadata"]["name"] for it in jobset_groups(jsonpatch.apply_patch(obj, again))[1:]]
    assert not set(later) & set(groups)


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        pytest.param("Deployment", app("Deployment", gang_mode="Gang"), id="Deployment"),
        pytest.param("RayCluster", ray(gang_mode="Gang"), id="RayCluster"),
        pytest.param("MPIJob", mpi(gang_mode="Gang"), id="MPIJob"),
    ],
)
def test_the_pods_of_other_kinds_state_the_api(kind: str, obj: Json) -> None:
    made, _ = admitted(kind, obj, NATIVE)

    def stated(one: Json) -> set[Any]:
        owner = OWNER_KINDS[kind]
        templates = [it.found for it in owner.templates(one)]
        return {
            it["metadata"].get("annotations", {}).get(ANNOTATION_GROUPS_API) for it in templates
        }

    assert stated(made) == {"native"}
    assert stated(admitted(kind, obj, NativeApi(), old=made)[0]) == {"native"}
    off = obj | {"metadata": obj["metadata"] | {"annotations": {}}}
    assert stated(admitted(kind, off, NATIVE, old=made)[0]) == {None}


def test_a_stated_reason_of_a_user_is_removed() -> None:
    obj = job().noted({ANNOTATION_NOT_NATIVE: "mine", ANNOTATION_GROUPS_API: "native"}).build()
    made, _ = admitted("Job", obj, NativeApi())
    assert not {ANNOTATION_NOT_NATIVE, ANNOTATION_GROUPS_API} & set(made["metadata"]["annotations"])


def test_every_kind_has_a_row() -> None:
    kinds = {it.values[0] for it in CASES}
    assert kinds == {kind.kind.kind for kind in OWNER_KINDS.values()}
