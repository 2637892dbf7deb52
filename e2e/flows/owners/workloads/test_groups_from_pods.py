"""Groups that pods request: bare pods, a plain Job. No group is created by hand."""

import pytest

from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_GROUP_BY,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_TOPOLOGY,
    LABEL_POD_GROUP,
)
from api.names import pod_group_of_value
from e2e.flows.owners.workloads.examples import ended, runs, runs_as_pods
from e2e.harness.environment import Environment
from e2e.harness.objects import POD_GROUPS, Json, job, pod
from kube.base.errors import Invalid
from kube.client.resources import JOBS, PODS

FOUR = {ANNOTATION_MIN_COUNT: "4"}


def member(env: Environment, name: str, value: str, **annotations: str) -> Json:
    made = pod(name, env.name, group="ring")
    made["metadata"]["labels"]["index"] = value
    made["metadata"]["annotations"] = FOUR | {ANNOTATION_GROUP_BY: "index"} | annotations
    # As a user writes it: the webhook sets the scheduler.
    del made["spec"]["schedulerName"]
    return made


async def test_bare_pods_are_gangs_by_a_label(env: Environment) -> None:
    await env.add_node(cpu=6)
    names = {value: pod_group_of_value("ring", "index", value) for value in ("0", "1")}
    for at in range(3):
        for value in names:
            await env.create(PODS, member(env, f"m-{value}-{at}", value))
    for name in names.values():
        await env.grouped(name)
    assert await env.bound("index") == 0

    await env.create(PODS, member(env, "m-0-3", "0"))
    await env.runs("index=0", 4)
    assert await env.bound("index=1") == 0
    await env.create(PODS, member(env, "m-1-3", "1"))
    await env.waits(names["1"], needed=4, free=2)

    await env.delete_pods("index=0")
    await env.runs("index=1", 4)
    await env.gone(POD_GROUPS, names["0"])


async def test_what_a_pod_says_wrong_is_refused_with_its_place(env: Environment) -> None:
    wrong = member(env, "wrong", "0", **{ANNOTATION_DISRUPTION_MODE: "Some"})
    wrong["metadata"]["annotations"][ANNOTATION_TOPOLOGY] = "no key"
    del wrong["metadata"]["labels"]["index"]

    with pytest.raises(Invalid) as refused:
        await env.create(PODS, wrong)

    assert {cause.field for cause in refused.value.causes} == {
        f"metadata.annotations[{ANNOTATION_DISRUPTION_MODE}]",
        f"metadata.annotations[{ANNOTATION_TOPOLOGY}]",
        "metadata.labels[index]",
    }


async def test_the_group_of_a_plain_job_goes_with_it(env: Environment) -> None:
    await env.add_node(cpu=4)
    made = job("plain", env.name, mode=None)
    labels, said = {LABEL_POD_GROUP: "of-job"}, dict(FOUR)
    made["spec"]["template"]["metadata"] = {"labels": labels, "annotations": said}
    uid = (await env.create(JOBS, made))["metadata"]["uid"]

    await env.scheduled("of-job")

    (owner,) = (await env.group("of-job"))["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", uid, True)
    await env.delete(JOBS, "plain")
    await env.gone(POD_GROUPS, "of-job")
    # The garbage collector deletes the pods independently, so they may end after their group.
    await ended(env)


@pytest.mark.parametrize(
    ("example", "groups"),
    [
        pytest.param(
            "pods-gang",
            [pod_group_of_value("rings", "ring", value) for value in "ab"],
            marks=pytest.mark.long,
        ),
        ("launcher-and-workers", ["ring"]),
    ],
)
async def test_the_examples_run(env: Environment, example: str, groups: list[str]) -> None:
    await runs(env, example, groups)


async def test_the_pods_of_other_kinds_are_gangs(env: Environment) -> None:
    await runs_as_pods(env, "sparkapplication-gang")
