"""Slices by annotations: their values, who may have them, and the groups that get them."""

from typing import Any

import jsonpatch
import pytest

from api.constants import (
    ANNOTATION_MIN_COUNT,
    ANNOTATION_SLICE_JOB_PODS,
    ANNOTATION_SLICE_SIZE,
    ANNOTATION_SLICE_TOPOLOGY,
    GROUP,
)
from api.groups import Form, GroupReference, groups_of_object
from api.integration.common.owner_kind import Review
from api.integration.job.admission import job_admission, job_groups
from api.integration.jobset.admission import jobset_admission, jobset_groups
from api.integration.lws.admission import lws_admission, lws_groups
from api.integration.pods.groups_from_pods import ask_of, check_pod, group_object
from api.integration.single_group.kind import NO_UPDATE, single_group
from api.rules import table
from api.rules.validation import validate
from api.slices import SliceOptions, job_pods, read_slices
from tests.support import apps
from tests.support.lws import make_lws
from tests.support.owners import JobBuilder, JobSetBuilder, job_template, make_job, make_jobset

Json = dict[str, Any]
FORBIDDEN, INVALID, REQUIRED = "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"
NOTE = f"metadata.annotations[{GROUP}/{{}}]"
SIZE, TOPOLOGY = NOTE.format("slice-size"), NOTE.format("slice-topology")


@pytest.mark.parametrize(
    ("size", "key", "want"),
    [
        pytest.param("16", "rack", SliceOptions(16, "rack"), id="both"),
        pytest.param("016", "a.b/c", SliceOptions(16, "a.b/c"), id="a number with a zero"),
        pytest.param("100000", "rack", SliceOptions(100_000, "rack"), id="the largest"),
        pytest.param("100001", "rack", [ANNOTATION_SLICE_SIZE], id="too large"),
        pytest.param("1000000000000", "rack", [ANNOTATION_SLICE_SIZE], id="a hostile size"),
        pytest.param("0", "rack", [ANNOTATION_SLICE_SIZE], id="zero"),
        pytest.param("-1", "rack", [ANNOTATION_SLICE_SIZE], id="negative"),
        pytest.param("1.5", "rack", [ANNOTATION_SLICE_SIZE], id="no integer"),
        pytest.param("१", "rack", [ANNOTATION_SLICE_SIZE], id="another script"),
        pytest.param("16,4", "a,b", [ANNOTATION_SLICE_SIZE, ANNOTATION_SLICE_TOPOLOGY], id="lists"),
        pytest.param(16, "rack", [ANNOTATION_SLICE_SIZE], id="no text"),
        pytest.param("4", "not a key", [ANNOTATION_SLICE_TOPOLOGY], id="no label key"),
        pytest.param("4", None, [ANNOTATION_SLICE_TOPOLOGY], id="no key"),
        pytest.param(None, "rack", [ANNOTATION_SLICE_SIZE], id="no size"),
        pytest.param(None, None, [], id="none"),
    ],
)
def test_values(size: Any, key: Any, want: SliceOptions | list[str]) -> None:
    written = {ANNOTATION_SLICE_SIZE: size, ANNOTATION_SLICE_TOPOLOGY: key}
    found = read_slices({name: value for name, value in written.items() if value is not None})

    assert (found if isinstance(found, SliceOptions) else [it.annotation for it in found]) == want


@pytest.mark.parametrize(("written", "want"), [("4", 4), ("", 0), ("x", 0), ("9" * 10, 0)])
def test_the_number_of_indexes_of_a_job(written: str, want: int) -> None:
    assert job_pods({ANNOTATION_SLICE_JOB_PODS: written}) == want


def _gang(**words: str) -> JobBuilder:
    return make_job("a").asks(gang_mode="Gang", **words)


@pytest.mark.parametrize(
    ("builder", "want"),
    [
        pytest.param(_gang(slice_size="4", slice_topology="rack").pods(8), [], id="two slices"),
        pytest.param(
            _gang(slice_size="3", slice_topology="rack").pods(8),
            [(SIZE, INVALID)],
            id="8 pods are no slices of 3",
        ),
        pytest.param(
            _gang(slice_size="9", slice_topology="rack").pods(8),
            [(SIZE, INVALID)],
            id="more than there are pods",
        ),
        pytest.param(
            _gang(slice_size="4", slice_topology="rack", min_count="6").pods(8),
            [(NOTE.format("min-count"), INVALID)],
            id="a min-count of no complete slices",
        ),
        pytest.param(
            _gang(slice_size="4", slice_topology="rack", min_count="4").pods(8), [], id="elastic"
        ),
        pytest.param(_gang(slice_size="4").pods(8), [(TOPOLOGY, REQUIRED)], id="no topology"),
        pytest.param(_gang(slice_topology="rack").pods(8), [(SIZE, REQUIRED)], id="no size"),
        pytest.param(
            _gang(slice_size="x", slice_topology="/").pods(8),
            [(SIZE, INVALID), (TOPOLOGY, INVALID)],
            id="all faults at once",
        ),
    ],
)
def test_jobs(builder: JobBuilder, want: list[tuple[str, str]]) -> None:
    causes = job_admission(builder.build(), Review("CREATE", uid="r", namespace="ns")).causes

    assert [(it.field, it.reason) for it in causes] == want


def _admitted_job(**spec: int) -> Json:
    job = _gang(slice_size="4", slice_topology="rack").pods(8).build()
    patched: Json = jsonpatch.apply_patch(
        job, job_admission(job, Review("CREATE", uid="r", namespace="ns")).patch
    )
    return {**patched, "spec": patched["spec"] | spec}


@pytest.mark.parametrize(
    ("parallelism", "completions", "want"),
    [(12, 12, []), (10, 12, [SIZE]), (8, 10, [SIZE])],
    ids=["of complete slices", "pods without a slice", "last pods without a slice"],
)
def test_an_elastic_job_grows_by_slices(
    parallelism: int, completions: int, want: list[str]
) -> None:
    old, new = _admitted_job(), _admitted_job(parallelism=parallelism, completions=completions)

    causes = job_admission(new, Review("UPDATE", old, uid="r", namespace="ns")).causes

    assert [it.field for it in causes] == want


def test_slices_are_immutable() -> None:
    old, new = _admitted_job(), _admitted_job()
    new["metadata"] = new["metadata"] | {
        "annotations": new["metadata"]["annotations"] | {ANNOTATION_SLICE_SIZE: "2"}
    }

    causes = job_admission(new, Review("UPDATE", old, uid="r", namespace="ns")).causes

    assert [it.field for it in causes] == [SIZE]


def test_the_group_of_a_job_has_its_slices() -> None:
    _, group = job_groups(_admitted_job())

    notes = group["metadata"]["annotations"]
    assert (notes[ANNOTATION_SLICE_SIZE], notes[ANNOTATION_SLICE_TOPOLOGY]) == ("4", "rack")
    assert ANNOTATION_SLICE_JOB_PODS not in notes


def _jobset(mode: str, *sizes: tuple[int, int], **words: str) -> JobSetBuilder:
    """Return a JobSet with replicatedJobs of so many Jobs and pods."""
    jobset = make_jobset().asks(gang_mode=mode, **words)
    for number, (replicas, pods) in enumerate(sizes):
        jobset = jobset.replicated_job(f"r{number}", replicas, job_template().pods(pods))
    return jobset


def _notes(builder: JobSetBuilder) -> list[tuple[str, str, str]]:
    admission = jobset_admission(builder.build(), Review("CREATE"))
    assert admission.causes == []
    found = jobset_groups(jsonpatch.apply_patch(builder.build(), admission.patch))
    notes = [it["metadata"]["annotations"] for it in found if it["kind"] == "PodGroup"]
    keys = (ANNOTATION_SLICE_SIZE, ANNOTATION_SLICE_TOPOLOGY, ANNOTATION_SLICE_JOB_PODS)
    return [tuple(it.get(key, "") for key in keys) for it in notes]


SLICED = {"slice_size": "4", "slice_topology": "rack"}


@pytest.mark.parametrize(
    ("builder", "want"),
    [
        pytest.param(_jobset("Gang", (4, 2), **SLICED), [("4", "rack", "2")], id="over Jobs"),
        pytest.param(
            _jobset("Gang", (1, 4), (1, 8), **SLICED), [("4", "rack", "")], id="Jobs of two sizes"
        ),
        pytest.param(
            make_jobset().replicated_job(
                "r", 4, job_template().pods(2).asks(gang_mode="Gang", **SLICED)
            ),
            [("4", "rack", "2")],
            id="of a replicatedJob",
        ),
        pytest.param(
            make_jobset().replicated_job(
                "r", 2, job_template().pods(8).asks(gang_mode="ReplicatedGang", **SLICED)
            ),
            [("4", "rack", "")] * 2,
            id="of each Job",
        ),
        pytest.param(
            make_jobset()
            .asks(gang_mode="Composite")
            .replicated_job("r", 2, job_template().pods(8).asks(**SLICED)),
            [("4", "rack", "")] * 2,
            id="of each Job of a tree",
        ),
    ],
)
def test_groups_of_jobsets(builder: JobSetBuilder, want: list[tuple[str, str, str]]) -> None:
    assert _notes(builder) == want


@pytest.mark.parametrize(
    ("builder", "want"),
    [
        pytest.param(_jobset("Gang", (3, 2), **SLICED), [SIZE], id="6 pods"),
        pytest.param(
            _jobset("Gang", (1, 6), (1, 2), **SLICED),
            [SIZE, SIZE],
            id="Jobs of two sizes that share a slice",
        ),
        pytest.param(_jobset("Composite", (1, 4), **SLICED), [SIZE], id="the root of a tree"),
    ],
)
def test_jobsets_without_complete_slices(builder: JobSetBuilder, want: list[str]) -> None:
    causes = jobset_admission(builder.build(), Review("CREATE")).causes

    assert [it.field for it in causes] == want


def test_a_gang_that_expects_pods_of_a_later_job_has_no_slices() -> None:
    jobset = _jobset("Gang", (1, 4), (1, 4), **SLICED).in_order().build()

    causes = jobset_admission(jobset, Review("CREATE", expects=True)).causes

    assert [it.field for it in causes] == [SIZE]


@pytest.mark.parametrize(
    ("size", "mode", "startup", "want"),
    [
        ("2", "Gang", "LeaderCreated", []),
        ("2", "Composite", "LeaderCreated", []),
        ("3", "Gang", "LeaderCreated", [SIZE]),
        ("2", "Gang", "LeaderReady", [SIZE]),
    ],
)
def test_leader_worker_sets(size: str, mode: str, startup: str, want: list[str]) -> None:
    lws = make_lws().replicas(2, 4).asks(gang_mode=mode, slice_size=size, slice_topology="rack")
    obj = lws.build()
    obj["spec"]["startupPolicy"] = startup

    assert [it.field for it in lws_admission(obj, Review("CREATE")).causes] == want


def test_each_replica_of_a_leader_worker_set_has_slices() -> None:
    lws = make_lws().replicas(2, 4).asks(gang_mode="Gang", slice_size="2", slice_topology="rack")
    obj = lws.build()
    made: Json = jsonpatch.apply_patch(obj, lws_admission(obj, Review("CREATE")).patch)

    groups = [it for it in lws_groups(made) if it["kind"] == "PodGroup"]

    assert [it["metadata"]["annotations"][ANNOTATION_SLICE_SIZE] for it in groups] == ["2", "2"]


def test_a_scaled_stateful_set_needs_complete_slices_only() -> None:
    """The subresource `scale` passes no rule: 6 pods are one slice of 4, and two that wait."""
    obj = apps.admitted(_stateful_set(8))
    obj["spec"]["replicas"] = 6
    kind = apps.kind_of(obj)

    group = single_group(kind.read(obj), NO_UPDATE, 6)

    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 4}}
    assert group["metadata"]["annotations"][ANNOTATION_SLICE_SIZE] == "4"


def _stateful_set(replicas: int) -> Json:
    return apps.stateful_set(
        replicas=replicas, gang_mode="Gang", slice_size="4", slice_topology="rack"
    )


def test_pods_describe_the_slices_of_their_group() -> None:
    notes = {
        ANNOTATION_MIN_COUNT: "8",
        ANNOTATION_SLICE_SIZE: "4",
        ANNOTATION_SLICE_TOPOLOGY: "rack",
    }
    ask = ask_of(GroupReference("g", Form.LABEL), notes)
    assert ask is not None

    made = group_object("ns", "g", ask, None)

    assert made["metadata"]["annotations"][ANNOTATION_SLICE_SIZE] == "4"
    assert made["metadata"]["annotations"][ANNOTATION_SLICE_TOPOLOGY] == "rack"
    pod = {
        "metadata": {
            "labels": {f"{GROUP}/pod-group": "g"},
            "annotations": notes | {ANNOTATION_SLICE_SIZE: "3"},
        },
        "spec": {"schedulerName": "muster-scheduler"},
    }
    assert [it.field for it in check_pod(groups_of_object(pod, ours=True), pod)] == [SIZE]


def _group(kind: str, notes: Json, **spec: Any) -> Json:
    policy = "minCount" if kind == "PodGroup" else "minGroupCount"
    return {
        "apiVersion": f"{GROUP}/v1alpha3",
        "kind": kind,
        "metadata": {"name": "g", "namespace": "ns", "annotations": notes},
        "spec": {
            "schedulingPolicy": {"gang": {policy: 8}},
            "workloadRef": {"workloadName": "w", "templateName": "t"},
            "disruptionMode": {"single": {}},
            **spec,
        },
    }


GOOD = {ANNOTATION_SLICE_SIZE: "4", ANNOTATION_SLICE_TOPOLOGY: "rack"}


@pytest.mark.parametrize(
    ("group", "want"),
    [
        pytest.param(_group("PodGroup", GOOD), [], id="a PodGroup"),
        pytest.param(
            _group("PodGroup", GOOD | {ANNOTATION_SLICE_SIZE: "1000000000"}),
            [table.SLICE_SIZE],
            id="a hostile size",
        ),
        pytest.param(
            _group("PodGroup", {ANNOTATION_SLICE_SIZE: "4"}),
            [table.SLICE_TOPOLOGY_REQUIRED],
            id="no topology",
        ),
        pytest.param(
            _group("PodGroup", {ANNOTATION_SLICE_TOPOLOGY: "rack"}),
            [table.SLICE_SIZE_REQUIRED],
            id="no size",
        ),
        pytest.param(
            _group("PodGroup", GOOD | {ANNOTATION_SLICE_TOPOLOGY: "/"}),
            [table.SLICE_TOPOLOGY],
            id="no label key",
        ),
        pytest.param(_group("CompositePodGroup", GOOD), [table.SLICE_LEAF], id="a composite"),
        pytest.param(
            _group(
                "PodGroup",
                GOOD,
                expectedPods=[
                    {
                        "name": "k",
                        "count": 1,
                        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
                    }
                ],
            ),
            [table.SLICE_EXPECTED],
            id="expected pods",
        ),
    ],
)
def test_groups(group: Json, want: list[table.Rule]) -> None:
    found = validate(group["kind"], group, None, "CREATE").causes

    assert [it.field for it in found] == [rule.where[0] for rule in want]
    assert all(rule.text in cause.message for rule, cause in zip(want, found, strict=True))
