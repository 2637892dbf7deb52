"""The match conditions of the manifests, evaluated as by an API server.

A condition that fails to evaluate rejects the request if the policy is Fail, so every structure
must evaluate to true or false.
"""

from typing import Any

import pytest

from api.constants import FOREIGN_GROUPS_ENABLED, LABEL_FOREIGN_GROUPS
from localcluster.schemas.cel import compile_condition
from localcluster.schemas.webhook_rules import CONDITION_VARIABLES
from webhooks.server.registration import load_manifests

ASKS = {"scheduling.muster.dev/gang-mode": "Gang"}
OTHER = {"example.dev/gang-mode": "Gang"}
DELEGATES = {"scheduling.k8s.io/group-template-name": "t"}
SPEC = {"schedulingPolicy": {"gang": {"minCount": 4}}}


def reaches(
    webhook: str,
    new: dict[str, Any] | None,
    old: dict[str, Any] | None = None,
    phase: str = "validate",
    version: str = "v1alpha3",
) -> bool:
    """Return True if the named webhook is called; `version` is what the client wrote."""
    (conditions,) = (
        entry["matchConditions"]
        for manifest in load_manifests()
        for entry in manifest["webhooks"]
        if entry["name"] == f"{webhook}.{phase}.scheduling.muster.dev"
    )
    asked = {"requestKind": {"version": version}}
    values = {"object": new, "oldObject": old, "request": asked}
    return all(
        compile_condition(condition["expression"], CONDITION_VARIABLES).evaluate(values)
        for condition in conditions
    )


def obj(annotations: Any = None, spec: Any = None, **fields: Any) -> dict[str, Any]:
    """Return an object; None omits a field."""
    metadata: dict[str, Any] = {"name": "x"}
    if annotations is not None:
        metadata["annotations"] = annotations
    return {"metadata": metadata} | ({} if spec is None else {"spec": spec}) | fields


def jobset(*templates: Any, **spec: Any) -> dict[str, Any]:
    """Return a JobSet with these replicatedJobs."""
    return obj(spec={"replicatedJobs": list(templates), **spec})


def delegated(template: Any) -> dict[str, Any]:
    return obj(DELEGATES, {"template": template})


def cron_job(
    annotations: Any = None, own: Any = None, pods: Any = None, schedule: str = "@daily"
) -> dict[str, Any]:
    """Return a CronJob with annotations of its Jobs, and its own."""
    template = obj(annotations, {"template": {"spec": pods or {}}})
    return obj(own, {"jobTemplate": template, "schedule": schedule})


@pytest.mark.parametrize(
    ("new", "old", "want"),
    [
        pytest.param(cron_job(ASKS), None, True, id="its Jobs ask"),
        pytest.param(cron_job(own=ASKS), None, True, id="it asks itself, which has no effect"),
        pytest.param(cron_job(OTHER, OTHER), None, False, id="other annotations"),
        pytest.param(cron_job(), None, False, id="no annotations"),
        pytest.param(cron_job({}), None, False, id="empty annotations"),
        pytest.param(
            cron_job(DELEGATES, pods={"schedulerName": "muster-scheduler"}),
            None,
            True,
            id="delegated Jobs of our scheduler",
        ),
        pytest.param(
            cron_job(DELEGATES, pods={"schedulerName": "other"}),
            None,
            False,
            id="delegated Jobs of another scheduler",
        ),
        pytest.param(cron_job(DELEGATES), None, False, id="delegated Jobs of the default one"),
        pytest.param(cron_job(ASKS), cron_job(ASKS), False, id="nothing changed"),
        pytest.param(
            cron_job(ASKS), cron_job(ASKS) | {"status": {"active": []}}, False, id="its status"
        ),
        pytest.param(cron_job(ASKS), cron_job(), True, id="its Jobs ask from now on"),
        pytest.param(cron_job(), cron_job(ASKS), False, id="they ask no more"),
        pytest.param(cron_job(own=ASKS), cron_job(own=OTHER), True, id="asks from now on"),
        pytest.param(cron_job(own=ASKS), cron_job(), True, id="asks with its first annotation"),
        pytest.param(
            cron_job(ASKS), cron_job(ASKS, schedule="@hourly"), True, id="another schedule"
        ),
        pytest.param({"metadata": {"annotations": None}}, None, False, id="null annotations"),
        pytest.param({"metadata": {}, "spec": {}}, None, False, id="no template"),
        pytest.param(
            obj(spec={"jobTemplate": {"metadata": {"annotations": None}}}),
            None,
            False,
            id="null annotations of its Jobs",
        ),
    ],
)
def test_cron_jobs_come_when_they_are_new_or_changed_and_ask(
    new: dict[str, Any], old: dict[str, Any] | None, want: bool
) -> None:
    assert reaches("cronjobs", new, old) is want


@pytest.mark.parametrize(
    ("new", "want"),
    [
        pytest.param(delegated({"spec": {"schedulerName": "muster-scheduler"}}), True, id="ours"),
        pytest.param(delegated({"spec": {"schedulerName": "other"}}), False, id="another's"),
        pytest.param(delegated({"spec": {}}), False, id="the default scheduler"),
        pytest.param(delegated({"spec": None}), False, id="null"),
        pytest.param(delegated(None), False, id="null template"),
    ],
)
@pytest.mark.parametrize("phase", ["mutate", "validate"])
def test_delegated_jobs_of_our_scheduler(phase: str, new: dict[str, Any], want: bool) -> None:
    assert reaches("jobs", new, phase=phase) is want


@pytest.mark.parametrize(
    ("new", "old", "want"),
    [
        pytest.param(obj(ASKS), None, True, id="it asks"),
        pytest.param(obj(OTHER), None, False, id="another annotation"),
        pytest.param(obj(), None, False, id="no annotations"),
        pytest.param(obj({}), None, False, id="empty annotations"),
        pytest.param({"metadata": {"annotations": None}}, None, False, id="null annotations"),
        pytest.param(obj(ASKS), obj(), True, id="it asks from now on"),
        pytest.param(obj(), obj(ASKS), True, id="it asks no more"),
        pytest.param(obj(OTHER), obj(), False, id="an update of something else"),
        pytest.param(
            obj({"scheduling.muster.dev/group-scope": "JobSet"}), None, True, id="a mark of ours"
        ),
    ],
)
@pytest.mark.parametrize("phase", ["mutate", "validate"])
@pytest.mark.parametrize(
    "webhook", ["jobs", "jobsets", "statefulsets", "deployments", "leaderworkersets"]
)
def test_owners_that_ask_by_annotation(
    webhook: str, phase: str, new: dict[str, Any], old: dict[str, Any] | None, want: bool
) -> None:
    assert reaches(webhook, new, old, phase) is want


def asked(spec: Any = None, mark: str = "Gang", /, **metadata: Any) -> dict[str, Any]:
    """Return an object that requests Muster, with these entries of its metadata."""
    made = obj(ASKS | {"scheduling.muster.dev/gang-mode": mark}, spec)
    made["metadata"] |= {"labels": {"a": "b"}, "finalizers": ["example.com/one"]} | metadata
    return made


WAITING = {"scheduling.muster.dev/waiting-for": "room"}
REVISION = {"deployment.kubernetes.io/revision": "2"}


@pytest.mark.parametrize(
    ("new", "old", "want"),
    [
        pytest.param(asked({"a": 1}), asked({"a": 1}), False, id="nothing changed"),
        pytest.param(asked({"a": 1}, finalizers=[]), asked({"a": 1}), False, id="a finalizer"),
        pytest.param(asked(finalizers=None), asked(), False, id="a finalizer without a spec"),
        pytest.param(asked({}, labels={}), asked({}), False, id="a label"),
        pytest.param(asked({}, ownerReferences=[{}]), asked({}), False, id="an owner"),
        pytest.param(asked({}) | {"status": {}}, asked({}), False, id="the status"),
        pytest.param(
            asked({}, annotations=ASKS | REVISION), asked({}), False, id="another's annotation"
        ),
        pytest.param(
            asked({}, annotations=ASKS),
            asked({}, annotations=ASKS | WAITING),
            False,
            id="a message",
        ),
        pytest.param(asked({"a": 2}), asked({"a": 1}), True, id="the spec"),
        pytest.param(asked(None), asked({"a": 1}), True, id="the spec was dropped"),
        pytest.param(asked({}), asked({}, "Basic"), True, id="the mode"),
        pytest.param(asked({}, annotations={}), asked({}), True, id="the mode was taken off"),
        pytest.param(asked({}), asked({}, annotations=None), True, id="the mode was set"),
        pytest.param(
            asked({}, annotations=ASKS | DELEGATES), asked({}), True, id="a template was named"
        ),
    ],
)
@pytest.mark.parametrize("phase", ["mutate", "validate"])
@pytest.mark.parametrize(
    "webhook", ["jobs", "jobsets", "statefulsets", "deployments", "leaderworkersets"]
)
def test_an_update_of_an_owner_comes_only_where_it_may_matter(
    webhook: str, phase: str, new: dict[str, Any], old: dict[str, Any], want: bool
) -> None:
    """All other updates pass while the webhook is down, so that deletions can complete."""
    assert reaches(webhook, new, old, phase) is want


@pytest.mark.parametrize(
    ("new", "want"),
    [
        pytest.param(jobset(gangConfig={"gangMode": "Gang"}), True, id="by its field"),
        pytest.param(jobset({"gangConfig": {}}), True, id="by a replicatedJob's field"),
        pytest.param(
            jobset({}, {"template": {"metadata": {"annotations": ASKS}}}),
            True,
            id="by a replicatedJob's annotation",
        ),
        pytest.param(
            jobset({"template": {"metadata": {"annotations": OTHER}}}),
            False,
            id="another annotation of a template",
        ),
        pytest.param(jobset({"template": {"spec": {}}}), False, id="a template without metadata"),
        pytest.param(jobset({"template": None}), False, id="a null template"),
        pytest.param(jobset({"template": {"metadata": None}}), False, id="null metadata"),
        pytest.param(
            jobset({"template": {"metadata": {"annotations": None}}}), False, id="null annotations"
        ),
        pytest.param(jobset(), False, id="no replicatedJobs"),
        pytest.param(obj(spec={"replicatedJobs": None}), False, id="null replicatedJobs"),
        pytest.param(obj(spec={}), False, id="an empty spec"),
        pytest.param({"metadata": {}, "spec": None}, False, id="a null spec"),
    ],
)
def test_jobsets_that_ask(new: dict[str, Any], want: bool) -> None:
    assert reaches("jobsets", new) is want


@pytest.mark.parametrize(
    ("new", "old", "want"),
    [
        pytest.param(obj(spec=SPEC), None, True, id="creation"),
        pytest.param(obj(spec=SPEC), obj(spec=SPEC), False, id="nothing changed"),
        pytest.param(
            obj(spec=SPEC), obj(ASKS, spec=SPEC, status={"x": 1}), False, id="the spec stayed"
        ),
        pytest.param(obj(spec=SPEC | {"priority": 1}), obj(spec=SPEC), True, id="the spec changed"),
        pytest.param(obj(), obj(spec=SPEC), True, id="the spec was dropped"),
        pytest.param(obj(spec=SPEC), obj(), True, id="the spec is new"),
    ],
)
@pytest.mark.parametrize("webhook", ["workloads", "podgroups", "compositepodgroups"])
def test_groups_come_only_when_their_spec_changes(
    webhook: str, new: dict[str, Any], old: dict[str, Any] | None, want: bool
) -> None:
    assert reaches(webhook, new, old) is want


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({"conditions": []}, False, id="the scheduler's own status"),
        pytest.param({"resourceClaimStatuses": [{"name": "a"}]}, True, id="names of claims"),
        pytest.param(None, False, id="a null status"),
    ],
)
def test_a_status_comes_only_when_it_names_claims(status: Any, want: bool) -> None:
    assert reaches("podgroups-status", obj(spec=SPEC, status=status), obj(spec=SPEC)) is want
    assert reaches("podgroups-status", obj(spec=SPEC), obj(spec=SPEC)) is False


NAMED = {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "g.a"}]}


@pytest.mark.parametrize(
    ("old", "want"),
    [
        pytest.param(NAMED, False, id="the same claims"),
        pytest.param({"resourceClaimStatuses": [{"name": "a"}]}, True, id="others"),
        pytest.param({"conditions": []}, True, id="none"),
        pytest.param(None, True, id="a null status"),
    ],
)
def test_the_scheduler_writes_the_status_of_a_group_with_claims_without_the_webhook(
    old: Any, want: bool
) -> None:
    new = obj(spec=SPEC, status=NAMED | {"members": 3})

    assert reaches("podgroups-status", new, obj(spec=SPEC, status=old)) is want


def test_the_first_names_of_claims_come() -> None:
    assert reaches("podgroups-status", obj(spec=SPEC, status=NAMED), obj(spec=SPEC)) is True


@pytest.mark.parametrize(
    ("new", "old", "want"),
    [
        pytest.param(obj(spec={}), None, True, id="creation"),
        pytest.param(obj(spec=SPEC), obj(spec={}), True, id="the policy is given later"),
        pytest.param(obj(spec=SPEC), obj(spec=SPEC), False, id="it had a policy"),
        pytest.param(obj(spec={}), obj(spec={}), False, id="still without a policy"),
        pytest.param(obj(spec=None), obj(spec={}), False, id="a spec that went away"),
        pytest.param(obj() | {"spec": None}, obj(spec={}), False, id="a null spec"),
        pytest.param(obj(spec=SPEC), obj() | {"spec": None}, False, id="a null spec before"),
    ],
)
def test_groups_are_completed_when_new_and_when_given_their_policy(
    new: dict[str, Any], old: dict[str, Any] | None, want: bool
) -> None:
    assert reaches("podgroups", new, old, "mutate") is want


DELAY = "scheduling.muster.dev/preemption-delay"


@pytest.mark.parametrize(
    ("new", "old", "want"),
    [
        pytest.param({DELAY: "soon"}, None, True, id="given"),
        pytest.param({DELAY: "soon"}, {"a": "b"}, True, id="given beside others"),
        pytest.param({DELAY: "soon"}, {DELAY: "1h"}, True, id="another"),
        pytest.param({DELAY: "1h", "a": "b"}, {DELAY: "1h"}, False, id="as it was"),
        pytest.param({"a": "b"}, {DELAY: "1h"}, False, id="taken away"),
        pytest.param(None, {DELAY: "1h"}, False, id="no annotations any more"),
    ],
)
@pytest.mark.parametrize(
    "key",
    [
        DELAY,
        "scheduling.muster.dev/min-run-time",
        "scheduling.muster.dev/start-timeout",
        "scheduling.muster.dev/hold-from",
        "scheduling.muster.dev/eviction-cost",
        "scheduling.muster.dev/last-checkpoint",
        "scheduling.muster.dev/movable",
        "scheduling.muster.dev/defragment-until",
        "scheduling.muster.dev/provisioning-request",
    ],
)
@pytest.mark.parametrize("webhook", ["podgroups-delay", "compositepodgroups-delay"])
def test_an_update_of_the_spec_alone_or_of_what_a_root_says_alone_is_asked_about_once(
    webhook: str, key: str, new: Any, old: Any, want: bool
) -> None:
    other = SPEC | {"priority": 1}
    new, old = (
        said and {key if each == DELAY else each: value for each, value in said.items()}
        for said in (new, old)
    )

    assert reaches(webhook, obj(new, SPEC), obj(old, SPEC)) is want
    assert not reaches(webhook, obj(new, other), obj(old, SPEC))
    assert not reaches(webhook, {"metadata": {"annotations": new}}, obj(old, SPEC))


@pytest.mark.parametrize("webhook", ["workloads", "podgroups"])
def test_an_update_by_an_older_version_is_completed(webhook: str) -> None:
    same = obj(spec=SPEC)

    assert reaches(webhook, same, same, "mutate", "v1alpha2")
    assert not reaches(webhook, same, same, "mutate", "v1alpha3")


LABEL = "scheduling.muster.dev/pod-group"


def pod(labels: Any = None, **spec: Any) -> dict[str, Any]:
    """Return a pod; None omits a field."""
    metadata = {"name": "x"} if labels is None else {"name": "x", "labels": labels}
    return {"metadata": metadata, "spec": {"schedulerName": "muster-scheduler"} | spec}


def opened(new: dict[str, Any]) -> dict[str, Any]:
    """Return the same pod before its scheduler was set."""
    return new | {"spec": (new["spec"] or {}) | {"schedulerName": "default-scheduler"}}


NONE = (False, False, False)


@pytest.mark.parametrize(
    ("new", "want"),
    [
        pytest.param(pod({LABEL: "g"}), (True, True, False), id="the group's label"),
        pytest.param(
            pod({"scheduling.muster.dev/workload": "w"}),
            (True, True, False),
            id="the workload's label",
        ),
        pytest.param(
            pod({"scheduling.muster.dev/template": "t"}),
            (True, True, False),
            id="the template's label",
        ),
        pytest.param(
            pod({"scheduling.muster.dev/replica-key": "0"}),
            (True, True, False),
            id="a replica key",
        ),
        pytest.param(
            pod({"scheduling.x-k8s.io/pod-group": "g"}),
            (True, False, True),
            id="scheduler-plugins",
        ),
        pytest.param(
            pod({"scheduling.muster.dev/subset": "s"}), (True, False, False), id="a subset"
        ),
        pytest.param(
            pod(schedulingGroup={"podGroupName": "g"}),
            (True, False, True),
            id="the field of 1.36",
        ),
        pytest.param(pod(workloadRef={"name": "w"}), (True, False, True), id="the field of 1.35"),
        pytest.param(pod(schedulingGroup=None, workloadRef=None), NONE, id="null fields"),
        pytest.param(pod({"app": "x"}), NONE, id="another label"),
        pytest.param(pod({}), NONE, id="empty labels"),
        pytest.param(pod(), NONE, id="no labels"),
        pytest.param({"metadata": {"labels": None}, "spec": {}}, NONE, id="null labels"),
        pytest.param({"metadata": {}, "spec": None}, NONE, id="a null spec"),
        pytest.param({"metadata": {}}, NONE, id="no spec"),
    ],
)
def test_only_pods_that_name_a_group_come(
    new: dict[str, Any], want: tuple[bool, bool, bool]
) -> None:
    """`want` is for validation, for mutation, and for mutation in a namespace that opts in."""
    open_ = opened(new) if new.get("spec") else new

    assert (
        reaches("pods", new),
        reaches("pods", open_, phase="mutate"),
        reaches("foreign-pods", open_, phase="mutate"),
    ) == want


def test_pods_that_use_foreign_forms_come_only_from_namespaces_that_opt_in() -> None:
    (hook,) = (
        entry
        for manifest in load_manifests()
        for entry in manifest["webhooks"]
        if entry["name"].startswith("foreign-pods.")
    )

    assert hook["namespaceSelector"] == {
        "matchLabels": {LABEL_FOREIGN_GROUPS: FOREIGN_GROUPS_ENABLED}
    }


def test_a_pod_whose_scheduler_is_chosen_is_not_asked_about_it() -> None:
    assert not reaches("pods", pod({LABEL: "g"}), phase="mutate")
    assert reaches("pods", {"metadata": {"labels": {LABEL: "g"}}, "spec": {}}, phase="mutate")
    assert not reaches("pods", opened(pod({LABEL: "g"})))
    assert not reaches("pods", {"metadata": {"labels": {LABEL: "g"}}, "spec": {}})


@pytest.mark.parametrize(
    ("new", "old", "want"),
    [
        pytest.param({LABEL: "g"}, {LABEL: "g"}, False, id="nothing changed"),
        pytest.param({LABEL: "g", "more": "x"}, {LABEL: "g"}, False, id="another label"),
        pytest.param({LABEL: "h"}, {LABEL: "g"}, True, id="another group"),
        pytest.param({LABEL: "g"}, None, True, id="a group from now on"),
        pytest.param(None, {LABEL: "g"}, True, id="no group any more"),
        pytest.param(
            {LABEL: "g", "scheduling.muster.dev/subset": "s"}, {LABEL: "g"}, True, id="a subset"
        ),
    ],
)
def test_pods_that_exist_come_only_when_their_reference_differs(
    new: dict[str, str] | None, old: dict[str, str] | None, want: bool
) -> None:
    assert reaches("pods", pod(new), pod(old)) is want


@pytest.mark.parametrize(
    ("new", "old", "want"),
    [
        pytest.param(("index", "0"), ("index", "0"), False, id="nothing changed"),
        pytest.param(("index", "1"), ("index", "0"), True, id="another value"),
        pytest.param(("", "0"), ("index", "0"), True, id="no longer divided"),
        pytest.param(("index", "0"), ("", "0"), True, id="divided from now on"),
        pytest.param(("", "1"), ("", "0"), False, id="never divided"),
    ],
)
def test_pods_of_a_divided_group_come_when_their_part_differs(
    new: tuple[str, str], old: tuple[str, str], want: bool
) -> None:
    def made(key: str, value: str, **noise: str) -> dict[str, Any]:
        found = pod({LABEL: "g", "index": value})
        by = {"scheduling.muster.dev/group-by": key} if key else {}
        found["metadata"]["annotations"] = by | noise
        return found

    assert reaches("pods", made(*new, theirs="2"), made(*old, theirs="1")) is want
