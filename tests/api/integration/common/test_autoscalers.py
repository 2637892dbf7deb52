"""Autoscaler hints on the pods of Jobs and JobSets: set at creation, and unchanged afterwards."""

import copy
from typing import Any

import jsonpatch
import pytest

from api.constants import (
    ANNOTATION_DO_NOT_DISRUPT,
    ANNOTATION_SAFE_TO_EVICT,
    JOB,
    JOB_LABEL_UID,
    JOBSET,
    JOBSET_LABEL_NAME,
    JOBSET_LABEL_REPLICATED_JOB,
    JOBSET_LABEL_UID,
    LABEL_POD_GROUP,
)
from api.group_affinity import REQUIRED
from api.integration.common.autoscalers import SILENT, Autoscalers
from api.integration.common.owner_kind import Review
from api.integration.common.workloads import NO_WORKLOADS, OwnerName, Workloads
from api.integration.job.admission import job_admission
from api.integration.jobset.admission import jobset_admission
from tests.support.owners import JobBuilder, JobSetBuilder, job_template, make_job, make_jobset

Json = dict[str, Any]

ZONE, HOST, RACK = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "example.com/rack"
LEFT_ALONE = {ANNOTATION_DO_NOT_DISRUPT: "true", ANNOTATION_SAFE_TO_EVICT: "false"}
ANY_GROUP = {"key": LABEL_POD_GROUP, "operator": "Exists"}
TOLD = Autoscalers()


def given(owner: OwnerName, *templates: Json, composite: Json | None = None) -> Workloads:
    """Return a user's Workload for one owner."""
    spec: Json = {"podGroupTemplates": list(templates)}
    if composite is not None:
        spec = {"compositePodGroupTemplates": [composite]}
    found = {owner: {"spec": spec}}
    return Workloads(found.get, found.get)


def template(name: str, key: str = "", mode: str = "", *, preferred: bool = False) -> Json:
    made: Json = {"name": name, "schedulingPolicy": {"gang": {"minCount": 2}}}
    if key:
        entry = {"key": key} | ({"preferred": True} if preferred else {})
        made["schedulingConstraints"] = {"topology": [entry]}
    return made | ({"disruptionMode": {mode: {}}} if mode else {})


def admitted(
    job: Json,
    old: Json | None = None,
    *,
    workloads: Workloads = NO_WORKLOADS,
    autoscalers: Autoscalers = TOLD,
) -> Json:
    admission = job_admission(
        job,
        Review(
            "CREATE" if old is None else "UPDATE",
            old,
            uid="r",
            namespace="default",
            workloads=workloads,
            autoscalers=autoscalers,
        ),
    )
    patched: Json = jsonpatch.apply_patch(job, admission.patch)
    return patched


def affinity(job: Json) -> list[Json]:
    spec = job["spec"]["template"]["spec"]
    found: list[Json] = spec.get("affinity", {}).get("podAffinity", {}).get(REQUIRED, [])
    return found


def told(job: Json) -> dict[str, str]:
    """Return the pods' annotations against disruption."""
    notes = job["spec"]["template"]["metadata"].get("annotations", {})
    return {key: notes[key] for key in LEFT_ALONE if key in notes}


def to_job(group: str, key: str = ZONE) -> Json:
    return {
        "topologyKey": key,
        "labelSelector": {"matchLabels": {LABEL_POD_GROUP: group}},
        "matchLabelKeys": [JOB_LABEL_UID],
    }


def to_leaf(group: str, key: str = ZONE) -> Json:
    return to_job(group, key) | {"matchLabelKeys": [JOBSET_LABEL_UID]}


def to_composite(key: str, replicated_job: str = "") -> Json:
    named = {JOBSET_LABEL_NAME: "s"}
    if replicated_job:
        named[JOBSET_LABEL_REPLICATED_JOB] = replicated_job
    return {
        "topologyKey": key,
        "labelSelector": {"matchLabels": named, "matchExpressions": [ANY_GROUP]},
        "matchLabelKeys": [JOBSET_LABEL_UID],
    }


def gang(**words: str) -> JobBuilder:
    return make_job("a").asks(gang_mode="Gang", **words)


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(gang(topology=ZONE), [to_job("pg-job-a")], id="a zone"),
        pytest.param(gang(topology=HOST), [], id="a node, which cannot grow"),
        pytest.param(gang(topology=RACK), [], id="a key that no autoscaler knows"),
        pytest.param(gang(preferred_topology=ZONE), [], id="a preference"),
        pytest.param(gang(), [], id="no topology"),
        pytest.param(make_job("a").asks(topology=ZONE), [], id="no group"),
        pytest.param(gang(topology=ZONE).in_group("mine"), [], id="a user's group"),
        pytest.param(gang(topology=ZONE).managed_by("x.io/y"), [], id="another controller's Job"),
        pytest.param(
            make_job("a").asks(gang_mode="Basic", topology=ZONE), [to_job("pg-job-a")], id="Basic"
        ),
        pytest.param(gang(topology=ZONE).suspended(), [to_job("pg-job-a")], id="suspended"),
    ],
)
def test_the_domain_of_a_job(job: JobBuilder, want: list[Json]) -> None:
    created = admitted(job.build())

    assert affinity(created) == want
    assert affinity(admitted(job.build(), autoscalers=SILENT)) == []


def test_keys_that_are_configured() -> None:
    known = Autoscalers(frozenset({RACK}))

    assert affinity(admitted(gang(topology=RACK).build(), autoscalers=known)) == [
        to_job("pg-job-a", RACK)
    ]
    assert affinity(admitted(gang(topology=ZONE).build(), autoscalers=known)) == []


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param({"disruption_mode": "All"}, LEFT_ALONE, id="All"),
        pytest.param({"disruption_mode": "Single"}, {}, id="Single"),
        pytest.param({}, {}, id="nothing"),
    ],
)
def test_gangs_that_are_to_be_left_alone(words: dict[str, str], want: dict[str, str]) -> None:
    silent = Autoscalers(do_not_disrupt=False)

    assert told(admitted(gang(**words).build())) == want
    assert told(admitted(gang(**words).build(), autoscalers=silent)) == {}


def test_what_the_user_says_of_a_key_stays() -> None:
    job = gang(disruption_mode="All").build()
    job["spec"]["template"]["metadata"] = {"annotations": {ANNOTATION_DO_NOT_DISRUPT: "30m"}}

    assert told(admitted(job)) == LEFT_ALONE | {ANNOTATION_DO_NOT_DISRUPT: "30m"}


def jobset_job(jobset: JobSetBuilder, at: int = 0, *, marked: Json | None = None) -> Json:
    """Return the first Job of a replicatedJob, as the JobSet controller creates it."""
    made = jobset.build()
    stored = marked or jsonpatch.apply_patch(made, jobset_admission(made, Review("CREATE")).patch)
    entry = stored["spec"]["replicatedJobs"][at]
    job: Json = copy.deepcopy(entry["template"])
    labels = {
        JOBSET_LABEL_NAME: stored["metadata"]["name"],
        JOBSET_LABEL_UID: "uid-s",
        JOBSET_LABEL_REPLICATED_JOB: entry["name"],
        "jobset.sigs.k8s.io/job-index": "0",
    }
    job.setdefault("metadata", {}).update(name=f"s-{entry['name']}-0", labels=labels)
    job["spec"]["template"].setdefault("metadata", {})["labels"] = labels
    return job


def composite(**words: str) -> JobSetBuilder:
    workers = job_template().asks(topology=HOST, replicated_job_topology=RACK)
    jobset = make_jobset("s").asks(gang_mode="Composite", **words)
    return jobset.replicated_job("w", 2, workers).replicated_job("d", 1)


RACKS = Autoscalers(frozenset({ZONE, HOST, RACK}))


@pytest.mark.parametrize(
    ("jobset", "at", "want"),
    [
        pytest.param(
            make_jobset("s").asks(gang_mode="Gang", topology=ZONE).replicated_job("w", 2),
            0,
            [to_leaf("pg-s")],
            id="one gang",
        ),
        pytest.param(
            make_jobset("s").replicated_job(
                "w", 2, job_template().asks(gang_mode="Gang", topology=ZONE)
            ),
            0,
            [to_leaf("pg-s-w-9d43324bb0")],
            id="a gang for each replicatedJob",
        ),
        pytest.param(
            make_jobset("s").replicated_job(
                "w", 2, job_template().asks(gang_mode="ReplicatedGang", topology=ZONE)
            ),
            0,
            [to_leaf("pg-s-w-0")],
            id="a gang for each Job",
        ),
        pytest.param(
            composite(topology=ZONE),
            0,
            [to_composite(ZONE), to_composite(RACK, "w"), to_leaf("pg-s-w-0", HOST)],
            id="a tree with three levels of constraints",
        ),
        pytest.param(composite(topology=ZONE), 1, [to_composite(ZONE)], id="its other branch"),
        pytest.param(
            composite(topology=HOST),
            0,
            [to_composite(HOST), to_composite(RACK, "w")],
            id="one term for each key, the widest",
        ),
        pytest.param(
            composite(preferred_topology=ZONE),
            0,
            [to_composite(RACK, "w"), to_leaf("pg-s-w-0", HOST)],
            id="a preference at the root",
        ),
        pytest.param(
            make_jobset("s").asks(topology=ZONE).replicated_job("w", 2), 0, [], id="no mode"
        ),
    ],
)
def test_the_domains_of_a_jobset(jobset: JobSetBuilder, at: int, want: list[Json]) -> None:
    assert affinity(admitted(jobset_job(jobset, at), autoscalers=RACKS)) == want


@pytest.mark.parametrize(
    ("jobset", "want"),
    [
        pytest.param(composite(disruption_mode="All"), LEFT_ALONE, id="All at the root"),
        pytest.param(composite(), {}, id="nothing"),
        pytest.param(
            make_jobset("s")
            .asks(gang_mode="Composite")
            .replicated_job("w", 2, job_template().asks(replicated_job_disruption_mode="All")),
            LEFT_ALONE,
            id="All in the middle",
        ),
        pytest.param(
            make_jobset("s")
            .asks(gang_mode="Composite")
            .replicated_job("w", 2, job_template().asks(disruption_mode="All")),
            LEFT_ALONE,
            id="All of each Job",
        ),
        pytest.param(
            make_jobset("s").asks(gang_mode="Gang", disruption_mode="All").replicated_job("w"),
            LEFT_ALONE,
            id="All of one gang",
        ),
        pytest.param(
            make_jobset("s").replicated_job(
                "w", 2, job_template().asks(gang_mode="Gang", replicated_job_disruption_mode="All")
            ),
            {},
            id="an option without effect",
        ),
    ],
)
def test_jobsets_that_are_to_be_left_alone(jobset: JobSetBuilder, want: dict[str, str]) -> None:
    assert told(admitted(jobset_job(jobset))) == want


def test_what_a_jobset_notes_is_its_own_and_put_back() -> None:
    made = composite(topology=ZONE).build()
    for job in made["spec"]["replicatedJobs"]:
        notes = job["template"].setdefault("metadata", {}).setdefault("annotations", {})
        notes["scheduling.muster.dev/jobset-options"] = "topology=forged"
    stored = jsonpatch.apply_patch(made, jobset_admission(made, Review("CREATE")).patch)
    again = jsonpatch.apply_patch(
        composite(topology=ZONE).build(),
        jobset_admission(composite(topology=ZONE).build(), Review("UPDATE", stored)).patch,
    )

    notes = [
        job["template"]["metadata"]["annotations"]["scheduling.muster.dev/jobset-options"]
        for job in stored["spec"]["replicatedJobs"]
    ]
    assert notes == [f"mode=Composite,topology={ZONE}"] * 2
    assert again["spec"] == stored["spec"]


def test_a_forged_note_on_a_jobset_that_asks_for_nothing_is_taken_off() -> None:
    template = job_template().asks(gang_mode="Gang", jobset_options=f"topology={ZONE}")
    made = make_jobset("s").replicated_job("w", 1, template)

    assert affinity(admitted(jobset_job(made))) == []


OF_A = OwnerName(JOB.group, JOB.kind, "a")
OF_S = OwnerName(JOBSET.group, JOBSET.kind, "s")


@pytest.mark.parametrize(
    ("workloads", "want", "left_alone"),
    [
        pytest.param(given(OF_A, template("x", HOST, "all")), [HOST], True, id="the only template"),
        pytest.param(given(OF_A, template("x", HOST, preferred=True)), [], False, id="preferred"),
        pytest.param(given(OF_A, template("x")), [], False, id="no constraint"),
        pytest.param(
            given(OF_A, template("x", HOST), template("pg-job-a", RACK)), [RACK], False, id="named"
        ),
        pytest.param(given(OF_A, template("x"), template("y")), [], False, id="none of them"),
        pytest.param(given(OF_S, template("x", HOST)), [ZONE], False, id="of another owner"),
    ],
)
def test_the_workload_of_a_user_counts_instead_of_the_annotations(
    workloads: Workloads, want: list[str], left_alone: bool
) -> None:
    job = gang(topology=ZONE).build()
    created = admitted(job, workloads=workloads, autoscalers=RACKS)

    assert [term["topologyKey"] for term in affinity(created)] == want
    assert bool(told(created)) == left_alone


def test_the_tree_of_a_users_workload() -> None:
    middle = template("cpg-w", mode="all") | {"podGroupTemplates": [template("pg-w", HOST)]}
    root = template("cpg-s", ZONE) | {"compositePodGroupTemplates": [middle]}
    workloads = given(OF_S, composite=root)

    created = admitted(jobset_job(composite()), workloads=workloads, autoscalers=RACKS)

    assert affinity(created) == [to_composite(ZONE), to_leaf("pg-s-w-0", HOST)]
    assert told(created) == LEFT_ALONE


def delegated() -> Json:
    job = make_job("a").scheduler("muster-scheduler").build()
    job["metadata"] |= {
        "annotations": {"scheduling.k8s.io/group-template-name": "leaf"},
        "ownerReferences": [
            {"apiVersion": "x.io/v1", "kind": "Train", "name": "t", "controller": True}
        ],
    }
    return job


def test_a_delegated_job_follows_the_template_that_it_names() -> None:
    root = template("root", RACK) | {"podGroupTemplates": [template("leaf", ZONE, "all")]}
    workloads = given(OwnerName("x.io", "Train", "t"), composite=root)

    created = admitted(delegated(), workloads=workloads, autoscalers=RACKS)

    assert affinity(created) == [to_job("pg-job-a")]
    assert told(created) == LEFT_ALONE
    assert affinity(admitted(delegated())) == []


def test_a_pod_affinity_of_the_user_is_left_as_it_is() -> None:
    own = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "cache"}}}
    job = gang(topology=ZONE).build()
    job["spec"]["template"]["spec"]["affinity"] = {"podAffinity": {REQUIRED: [own]}}

    assert affinity(admitted(job)) == [own]


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({}, id="empty"),
        pytest.param({"nodeAffinity": {"x": 1}}, id="of nodes"),
        pytest.param({"podAffinity": {"preferred": []}}, id="preferred"),
        pytest.param({"podAffinity": None}, id="null"),
        pytest.param({"podAffinity": {REQUIRED: None}}, id="a list that is null"),
    ],
)
def test_other_affinity_stays_beside_it(said: Json) -> None:
    job = gang(topology=ZONE).build()
    job["spec"]["template"]["spec"]["affinity"] = said
    created = admitted(job)

    assert affinity(created) == [to_job("pg-job-a")]
    kept = created["spec"]["template"]["spec"]["affinity"]
    assert (
        kept.items() >= {key: value for key, value in said.items() if key != "podAffinity"}.items()
    )


@pytest.mark.parametrize("said", ["x", 7, [], {"podAffinity": "x"}, {"podAffinity": {REQUIRED: 3}}])
def test_nonsense_is_left_to_the_api_server(said: Any) -> None:
    job = gang(topology=ZONE, disruption_mode="All").build()
    job["spec"]["template"]["spec"]["affinity"] = said

    admitted(job)


def test_a_copy_of_another_job_gets_terms_of_its_own() -> None:
    first = admitted(gang(topology=ZONE).build())
    second = copy.deepcopy(first)
    second["metadata"]["name"] = "b"
    without = copy.deepcopy(second)
    del without["metadata"]["annotations"]["scheduling.muster.dev/topology"]

    assert affinity(admitted(second)) == [to_job("pg-job-b")]
    assert affinity(admitted(without)) == []


@pytest.mark.parametrize("autoscalers", [TOLD, SILENT], ids=["on", "switched off since"])
def test_the_unchanged_manifest_applied_again_changes_nothing(autoscalers: Autoscalers) -> None:
    manifest = gang(topology=ZONE, disruption_mode="All").build()
    stored = admitted(manifest)

    assert admitted(manifest, stored, autoscalers=autoscalers)["spec"] == stored["spec"]
    assert admitted(stored, stored, autoscalers=autoscalers) == stored


def test_nothing_is_added_to_a_job_that_was_made_without() -> None:
    manifest = gang(topology=ZONE, disruption_mode="All").build()
    stored = admitted(manifest, autoscalers=SILENT)

    assert admitted(manifest, stored)["spec"] == stored["spec"]


def test_a_suspended_job_may_say_otherwise_later() -> None:
    stored = admitted(gang(disruption_mode="All").suspended().build())
    changed = copy.deepcopy(stored)
    notes = changed["spec"]["template"]["metadata"]["annotations"]
    notes[ANNOTATION_DO_NOT_DISRUPT] = "false"

    assert told(admitted(changed, stored))[ANNOTATION_DO_NOT_DISRUPT] == "false"


def test_what_a_user_takes_back_of_a_gang_of_mode_single_is_gone() -> None:
    stored = admitted(gang().suspended().build())
    stored["spec"]["template"]["metadata"]["annotations"] |= LEFT_ALONE

    assert told(admitted(gang().suspended().build(), stored)) == {}
