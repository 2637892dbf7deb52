"""Who reaches the webhook: the match conditions of the manifests, run as an API server runs them.

A condition that fails to evaluate refuses the request where the policy is to fail, so every
structure must give a plain yes or no.
"""

from __future__ import annotations

from typing import Any

import pytest

from localcluster.cel import compile_condition
from webhooks.registration import load_manifests

ASKS = {"scheduling.muster.dev/gang-mode": "Gang"}
OTHER = {"example.dev/gang-mode": "Gang"}
SPEC = {"schedulingPolicy": {"gang": {"minCount": 4}}}


def reaches(webhook: str, new: dict[str, Any] | None, old: dict[str, Any] | None = None) -> bool:
    """Whether the named validating webhook is called."""
    (conditions,) = (
        entry["matchConditions"]
        for manifest in load_manifests()
        for entry in manifest["webhooks"]
        if entry["name"] == f"{webhook}.validate.scheduling.muster.dev"
    )
    values = {"object": new, "oldObject": old}
    return all(
        compile_condition(condition["expression"], ("object", "oldObject")).evaluate(values)
        for condition in conditions
    )


def obj(annotations: Any = None, spec: Any = None, **fields: Any) -> dict[str, Any]:
    """An object; what is None is left out."""
    metadata: dict[str, Any] = {"name": "x"}
    if annotations is not None:
        metadata["annotations"] = annotations
    return {"metadata": metadata} | ({} if spec is None else {"spec": spec}) | fields


def jobset(*templates: Any, **spec: Any) -> dict[str, Any]:
    """A JobSet with these replicatedJobs."""
    return obj(spec={"replicatedJobs": list(templates), **spec})


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
@pytest.mark.parametrize("webhook", ["jobs", "jobsets"])
def test_jobs_and_jobsets_that_ask_by_annotation(
    webhook: str, new: dict[str, Any], old: dict[str, Any] | None, want: bool
) -> None:
    assert reaches(webhook, new, old) is want


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
