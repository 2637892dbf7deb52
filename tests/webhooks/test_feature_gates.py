"""Objects that need a disabled gate are rejected at creation, and kept once stored."""

import copy
from typing import Any

import pytest

from api.constants import (
    COMPOSITE_POD_GROUP,
    COSCHEDULING,
    CRON_JOB,
    DEPLOYMENT,
    JOB,
    JOBSET,
    LEADER_WORKER_SET,
    POD_GROUP,
    STATEFUL_SET,
    WORKLOAD,
    KindName,
)
from api.features import USUAL, Feature, FeatureGates
from tests.support.apps import deployment, stateful_set
from tests.support.lws import make_lws
from tests.webhooks.kinds.test_jobs import job, jobset
from tests.webhooks.review_requests import (
    POD,
    FakeLister,
    Read,
    composite,
    encoded,
    pod_group,
    read,
    review_of,
)
from webhooks.routing.reviewer import ROUTES, Reviewer

Json = dict[str, Any]

TREE, TOPOLOGY = Feature.COMPOSITE_POD_GROUP, Feature.TOPOLOGY
RACK: Json = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
NOTE = "metadata.annotations[scheduling.muster.dev/{}]"
SUBSETS = {"subsets": [{"name": "a", "minMember": 1}]}


def noted(obj: Json, **notes: str) -> Json:
    """Return the object with additional annotations of ours."""
    made = copy.deepcopy(obj)
    said = {f"scheduling.muster.dev/{key.replace('_', '-')}": it for key, it in notes.items()}
    made["metadata"]["annotations"] = made["metadata"].get("annotations", {}) | said
    return made


def of_kind(kind: KindName, spec: Json) -> Json:
    meta = {"name": "g", "namespace": "team"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}


def ask(kind: KindName, new: Json, old: Json | None = None, *off: Feature) -> Read:
    """Return the response of validation with these features disabled."""
    route = next(
        it for it, served in ROUTES.items() if served.kind == kind and it.startswith("validate/")
    )
    review = review_of(kind, new, old)
    reviewer = Reviewer(FakeLister(gates=USUAL.without(*off)))
    return read(reviewer.review(route, encoded(review)), review)


GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}
CASES = [
    pytest.param(Feature.POD_GROUP, POD_GROUP, of_kind(POD_GROUP, GANG), "kind", id="a PodGroup"),
    pytest.param(
        Feature.GANG, POD_GROUP, of_kind(POD_GROUP, GANG), "spec.schedulingPolicy.gang", id="a gang"
    ),
    pytest.param(
        Feature.WORKLOAD,
        WORKLOAD,
        of_kind(WORKLOAD, {"podGroupTemplates": [{"name": "leaf", **GANG}]}),
        "kind",
        id="a Workload",
    ),
    pytest.param(Feature.GANG, JOB, job(), NOTE.format("gang-mode"), id="the gang of a Job"),
    pytest.param(TREE, COMPOSITE_POD_GROUP, composite(), "kind", id="a composite"),
    pytest.param(
        TREE, JOB, noted(job(), tree="t=2"), NOTE.format("tree"), id="a Job in a tree of owners"
    ),
    pytest.param(
        TREE,
        POD_GROUP,
        pod_group(
            parentCompositePodGroupName="top",
            workloadRef={"workloadName": "w", "templateName": "t"},
        ),
        "spec.parentCompositePodGroupName",
        id="a leaf",
    ),
    pytest.param(
        TREE,
        WORKLOAD,
        of_kind(
            WORKLOAD,
            {
                "compositePodGroupTemplates": [
                    {
                        "name": "top",
                        "schedulingPolicy": {"gang": {"minGroupCount": 1}},
                        "podGroupTemplates": [{"name": "leaf", **GANG}],
                    }
                ]
            },
        ),
        "spec.compositePodGroupTemplates",
        id="a Workload with a tree",
    ),
    pytest.param(
        TOPOLOGY,
        POD_GROUP,
        pod_group(**RACK),
        "spec.schedulingConstraints.topology",
        id="a group with a topology",
    ),
    pytest.param(
        TOPOLOGY,
        WORKLOAD,
        of_kind(WORKLOAD, {"podGroupTemplates": [{"name": "leaf", **GANG, **RACK}]}),
        "spec.podGroupTemplates[0].schedulingConstraints.topology",
        id="a template with a topology",
    ),
    pytest.param(
        TOPOLOGY, JOB, noted(job(), topology="rack"), NOTE.format("topology"), id="a Job's topology"
    ),
    pytest.param(
        TOPOLOGY,
        JOBSET,
        noted(jobset(), preferred_topology="rack"),
        NOTE.format("preferred-topology"),
        id="a JobSet's preferred topology",
    ),
    pytest.param(Feature.JOB, JOB, job(), NOTE.format("gang-mode"), id="a Job"),
    pytest.param(Feature.JOBSET, JOBSET, jobset(), NOTE.format("gang-mode"), id="a JobSet"),
    pytest.param(
        Feature.STATEFUL_SET,
        STATEFUL_SET,
        stateful_set(gang_mode="Gang"),
        NOTE.format("gang-mode"),
        id="a StatefulSet",
    ),
    pytest.param(
        Feature.DEPLOYMENT,
        DEPLOYMENT,
        deployment(gang_mode="Gang"),
        NOTE.format("gang-mode"),
        id="a Deployment",
    ),
    pytest.param(
        TOPOLOGY,
        DEPLOYMENT,
        deployment(gang_mode="Gang", topology="rack"),
        NOTE.format("topology"),
        id="a Deployment's topology",
    ),
    pytest.param(
        TREE,
        JOBSET,
        jobset(mode="Composite"),
        NOTE.format("gang-mode"),
        id="a JobSet that is a tree",
    ),
    pytest.param(
        Feature.LEADER_WORKER_SET,
        LEADER_WORKER_SET,
        make_lws().asks(gang_mode="Gang").build(),
        NOTE.format("gang-mode"),
        id="a LeaderWorkerSet",
    ),
    pytest.param(
        TREE,
        LEADER_WORKER_SET,
        make_lws().asks(gang_mode="Composite").build(),
        NOTE.format("gang-mode"),
        id="a LeaderWorkerSet that is a tree",
    ),
    pytest.param(
        TREE,
        LEADER_WORKER_SET,
        make_lws().asks(gang_mode="Gang").leader_ready().build(),
        NOTE.format("gang-mode"),
        id="a LeaderWorkerSet whose leaders come first",
    ),
    pytest.param(
        TOPOLOGY,
        LEADER_WORKER_SET,
        make_lws().asks(gang_mode="Gang", topology="rack").build(),
        NOTE.format("topology"),
        id="the topology of a LeaderWorkerSet",
    ),
    pytest.param(
        Feature.COSCHEDULING, COSCHEDULING, of_kind(COSCHEDULING, SUBSETS), "kind", id="KEP-3370"
    ),
]


@pytest.mark.parametrize(("feature", "kind", "new", "field"), CASES)
def test_a_new_object_that_uses_what_is_off_is_refused_by_field_and_gate(
    feature: Feature, kind: KindName, new: Json, field: str
) -> None:
    answer = ask(kind, new, None, feature)

    said = f"feature gate {feature} is off"
    assert not answer.allowed
    assert [it["field"] for it in answer.causes if said in it["message"]] == [field]
    assert answer.code == 422


@pytest.mark.parametrize(("feature", "kind", "new", "field"), CASES)
def test_the_same_is_allowed_while_it_is_on(
    feature: Feature, kind: KindName, new: Json, field: str
) -> None:
    others = [it for it in Feature if it not in (feature, *_also_used(new))]

    assert ask(kind, new, None, *others).allowed, field


def _also_used(new: Json) -> list[Feature]:
    """Return the additional features of an object: gangs, and those of its owner."""
    own = {
        "Job": Feature.JOB,
        "Deployment": Feature.DEPLOYMENT,
        "LeaderWorkerSet": Feature.LEADER_WORKER_SET,
    }
    basic = [Feature.WORKLOAD, Feature.POD_GROUP, Feature.GANG]
    return [*basic, own.get(new["kind"], Feature.JOBSET)]


@pytest.mark.parametrize(("feature", "kind", "new", "field"), CASES)
def test_what_is_stored_can_be_updated(
    feature: Feature, kind: KindName, new: Json, field: str
) -> None:
    """The updates change labels and remove finalizers: no stored object gets stuck."""
    stored = copy.deepcopy(new)
    stored["metadata"]["finalizers"] = ["example.com/kept"]
    changed = copy.deepcopy(new)
    changed["metadata"]["labels"] = {"team": "a"}

    assert ask(kind, changed, stored, feature).allowed, field


def test_every_feature_that_is_off_is_said_in_one_answer() -> None:
    answer = ask(COMPOSITE_POD_GROUP, composite(**RACK), None, TREE, TOPOLOGY)

    assert [cause["field"] for cause in answer.causes] == [
        "kind",
        "spec.schedulingConstraints.topology",
    ]


def test_an_exclusive_topology_uses_topology_and_trees() -> None:
    exclusive = make_lws().asks(gang_mode="Gang").exclusive("rack").build()

    answer = ask(LEADER_WORKER_SET, exclusive, None, TREE, TOPOLOGY)

    assert [cause["field"] for cause in answer.causes] == [
        NOTE.format("gang-mode"),
        "metadata.annotations[leaderworkerset.sigs.k8s.io/exclusive-topology]",
    ]


def test_a_job_of_a_stored_jobset_is_made_while_the_gates_are_off() -> None:
    """A JobSet created before is restarted; its controller must not get a rejection."""
    made = job(mode=None, **{"jobset.sigs.k8s.io/jobset-name": "a"})
    made["metadata"]["annotations"] = {"scheduling.muster.dev/group-scope": "JobSet"}

    assert ask(JOB, made, None, Feature.JOB, Feature.JOBSET, TOPOLOGY).allowed


def test_options_without_effect_refuse_nothing() -> None:
    plain = noted(job(mode="Off"), topology="rack")

    assert ask(JOB, plain, None, Feature.JOB, TOPOLOGY).allowed


def test_a_cron_job_is_told_what_its_jobs_would_be() -> None:
    template = {key: job()[key] for key in ("metadata", "spec")}
    spec = {"schedule": "* * * * *", "jobTemplate": template}

    answer = ask(CRON_JOB, of_kind(CRON_JOB, spec), None, Feature.JOB)

    assert answer.allowed
    assert any("feature gate WorkloadWithJob is off" in warning for warning in answer.warnings)


@pytest.mark.parametrize(
    ("feature", "labels"),
    [
        (Feature.COSCHEDULING, {"scheduling.x-k8s.io/pod-group": "g"}),
        (
            Feature.IMPLICIT_POD_GROUPS,
            {"scheduling.muster.dev/workload": "w", "scheduling.muster.dev/template": "t"},
        ),
        (Feature.POD_GROUPS_FROM_PODS, {"scheduling.muster.dev/pod-group": "g"}),
    ],
)
def test_a_pod_that_names_a_group_by_what_is_off_is_warned_and_not_refused(
    feature: Feature, labels: dict[str, str]
) -> None:
    """It may replace a running one, and its creator would retry forever."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "team",
            "labels": labels,
            "annotations": {"scheduling.muster.dev/min-count": "4"},
        },
        "spec": {"schedulerName": "muster-scheduler", "containers": [{"name": "a", "image": "a"}]},
    }

    answer, usual = ask(POD, pod, None, feature), ask(POD, pod)

    assert answer.allowed
    assert [it for it in answer.warnings if f"feature gate {feature} is off" in it]
    assert not [it for it in usual.warnings if "feature gate" in it]


def test_a_gang_that_starts_in_order_is_accepted_with_expected_pods_only() -> None:
    """Without the gate the advice is unchanged; stored gangs continue in either case."""
    ordered = jobset()
    ordered["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    gates = FeatureGates(USUAL.on | {Feature.EXPECTED_PODS})

    answer = ask(JOBSET, ordered)
    review = review_of(JOBSET, ordered)
    accepted = Reviewer(FakeLister(gates=gates)).review("validate/jobsets", encoded(review))

    assert [it["field"] for it in answer.causes] == ["spec.startupPolicy.startupPolicyOrder"]
    assert "use gang-mode on the replicatedJobs instead" in answer.causes[0]["message"]
    assert read(accepted, review).allowed
    assert ask(JOBSET, ordered, ordered).allowed
