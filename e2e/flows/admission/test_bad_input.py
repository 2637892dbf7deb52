"""Invalid input: each error is rejected with its field and its reason."""

from collections.abc import Callable
from typing import Any

import pytest

from api.constants import ANNOTATION_GANG_MODE, ANNOTATION_MIN_COUNT, LABEL_POD_GROUP
from e2e.harness.environment import Environment
from e2e.harness.objects import (
    POD_GROUPS,
    Json,
    job,
    jobset,
    pod,
    pod_group,
    replicated_job,
)
from kube.base.errors import ApiError, Forbidden, Invalid
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import JOBS, JOBSETS, PODS, Resource

pytestmark = pytest.mark.timeout(400)

MODE = f"metadata.annotations[{ANNOTATION_GANG_MODE}]"
COUNT = f"metadata.annotations[{ANNOTATION_MIN_COUNT}]"

Bad = Callable[[str], Json]


def with_annotation(obj: Json, key: str, value: str) -> Json:
    obj["metadata"].setdefault("annotations", {})[key] = value
    return obj


def of_unknown_class(group: Json) -> Json:
    group["spec"]["priorityClassName"] = "nowhere"
    return group


CASES: list[Any] = [
    pytest.param(
        JOBSETS,
        lambda room: jobset("bad", replicated_job("w", room, mode="Gang"), mode="Gang"),
        Invalid,
        [(f"spec.replicatedJobs[0].template.{MODE}", "FieldValueForbidden")],
        id="a gang at both levels of a JobSet",
    ),
    pytest.param(
        JOBSETS,
        lambda room: jobset("bad", replicated_job("w", room), mode="Horde"),
        Invalid,
        [(MODE, "FieldValueNotSupported")],
        id="an unknown mode of a JobSet",
    ),
    pytest.param(
        JOBS,
        lambda room: job("bad", room, mode="ReplicatedGang"),
        Invalid,
        [(MODE, "FieldValueNotSupported")],
        id="a mode of a Job that only a replicatedJob has",
    ),
    pytest.param(
        JOBS,
        lambda room: with_annotation(job("bad", room), ANNOTATION_MIN_COUNT, "0"),
        Invalid,
        [(COUNT, "FieldValueInvalid")],
        id="a minimum of no pods on a Job",
    ),
    pytest.param(
        JOBS,
        lambda room: with_annotation(job("bad", room, mode="Horde"), ANNOTATION_MIN_COUNT, "0"),
        Invalid,
        [(MODE, "FieldValueNotSupported"), (COUNT, "FieldValueInvalid")],
        id="two faults are told together",
    ),
    pytest.param(
        POD_GROUPS,
        lambda room: pod_group("bad", 0),
        Invalid,
        [("spec.schedulingPolicy.gang.minCount", "FieldValueInvalid")],
        id="a minimum of no pods on a PodGroup",
    ),
    pytest.param(
        POD_GROUPS,
        lambda room: of_unknown_class(pod_group("bad", 1)),
        Forbidden,
        [("spec.priorityClassName", "FieldValueForbidden")],
        id="an unknown priority class",
    ),
    pytest.param(
        PODS,
        lambda room: pod("bad", room, group="g" * 64),
        Invalid,
        [("metadata.labels", "FieldValueInvalid")],
        id="a group's name too long for a label",
    ),
]


@pytest.mark.parametrize(("resource", "bad", "error", "want"), CASES)
async def test_bad_input_is_refused_with_field_and_reason(
    env: Environment,
    resource: Resource,
    bad: Bad,
    error: type[ApiError],
    want: list[tuple[str, str]],
) -> None:
    with pytest.raises(error) as caught:
        await env.create(resource, bad(env.name))

    assert sorted((cause.field, cause.reason) for cause in caught.value.causes) == sorted(want)
    assert all(cause.message for cause in caught.value.causes)
    assert not await env.remaining()


async def test_the_mode_of_a_gang_is_fixed_once_it_is_created(env: Environment) -> None:
    await env.create(JOBSETS, jobset("fixed", replicated_job("w", env.name)))

    for ops in (
        PatchBuilder().replace(pointer("metadata", "annotations", ANNOTATION_GANG_MODE), "Basic"),
        PatchBuilder().remove(pointer("metadata", "annotations", ANNOTATION_GANG_MODE)),
    ):
        with pytest.raises(Invalid) as caught:
            await env.client.patch(JOBSETS, "fixed", ops, env.name)
        assert [(cause.field, cause.reason) for cause in caught.value.causes] == [
            (MODE, "FieldValueInvalid")
        ]


async def test_a_name_too_long_for_a_label_is_warned_of_and_shortened_for_owners(
    env: Environment,
) -> None:
    name = "j" * 63
    await env.create(JOBS, job(name, env.name, pods=1))
    await env.has_pods("", 1)

    [owned] = await env.pods()
    group = owned["metadata"]["labels"][LABEL_POD_GROUP]
    assert len(group) <= 63
    assert (await env.grouped(group))["spec"]["schedulingPolicy"] == {"gang": {"minCount": 1}}
