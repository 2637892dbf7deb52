"""Groups that pods ask for: bare pods, a plain Job, a StatefulSet. No group is made by hand."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_GROUP_BY,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_TOPOLOGY,
    LABEL_POD_GROUP,
    SCHEDULER_NAME,
)
from api.names import pod_group_of_value
from e2e.suite.environment import Environment
from e2e.suite.objects import Json, job, pod, pod_spec
from kube.errors import Invalid, NotFound
from kube.patch import PatchBuilder, pointer
from kube.resources import JOBS, PODS, Resource

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOUR = {ANNOTATION_MIN_COUNT: "4"}
_NO_MAKERS = "the embedded cluster has neither StatefulSets nor Deployments"
_KINDS = {it.kind: it for it in (JOBS, PODS, STATEFUL_SETS)}
_TEMPLATE = ("spec", "template", "metadata", "annotations")


def member(env: Environment, name: str, value: str, **annotations: str) -> Json:
    made = pod(name, env.name, group="ring")
    made["metadata"]["labels"]["index"] = value
    made["metadata"]["annotations"] = FOUR | {ANNOTATION_GROUP_BY: "index"} | annotations
    # As a user writes it: the webhook completes the scheduler.
    del made["spec"]["schedulerName"]
    return made


async def gone(env: Environment, group: str) -> None:
    async def probe() -> bool:
        try:
            await env.group(group)
        except NotFound:
            return True
        return False

    await env.until(f"{group} to be gone", probe)


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

    for found in await env.pods("index=0"):
        await env.delete(PODS, found["metadata"]["name"])
    await env.runs("index=1", 4)
    await gone(env, names["0"])


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
    await gone(env, "of-job")
    assert await env.pods() == []


async def test_a_stateful_set_is_a_gang_through_an_update(
    env: Environment, server_kind: str
) -> None:
    if server_kind == "local":
        pytest.skip(_NO_MAKERS)
    await env.add_node(cpu=8)
    await env.create(STATEFUL_SETS, stateful_set(env))
    await env.scheduled("db")
    group = await env.group("db")
    assert group["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"
    try:
        ops = PatchBuilder().add(pointer(*_TEMPLATE, ANNOTATION_MIN_COUNT), "2")
        await env.client.patch(STATEFUL_SETS, "db", ops, env.name)

        async def follows() -> bool:
            spec = (await env.group("db"))["spec"]
            return bool(spec["schedulingPolicy"]["gang"]["minCount"] == 2)

        await env.until("minCount to follow the template", follows)
        await env.runs("app=db", 4)
        assert (await env.group("db"))["metadata"]["uid"] == group["metadata"]["uid"]
    finally:
        await env.delete(STATEFUL_SETS, "db")
    await gone(env, "db")


async def test_the_group_of_a_deployment_is_owned_by_it_and_not_by_a_replica_set(
    env: Environment, server_kind: str
) -> None:
    if server_kind == "local":
        pytest.skip(_NO_MAKERS)
    await env.add_node(cpu=4)
    made = stateful_set(env) | {"kind": "Deployment"}
    for field in ("serviceName", "podManagementPolicy"):
        del made["spec"][field]
    uid = (await env.create(DEPLOYMENTS, made))["metadata"]["uid"]
    try:
        await env.scheduled("db")
        (owner,) = (await env.group("db"))["metadata"]["ownerReferences"]
        assert owner["uid"] == uid
    finally:
        await env.delete(DEPLOYMENTS, "db")
    await gone(env, "db")


@pytest.mark.parametrize(
    ("example", "groups", "alone"),
    [
        ("pods-gang", [pod_group_of_value("rings", "ring", value) for value in "ab"], True),
        ("launcher-and-workers", ["ring"], True),
        ("statefulset-gang", ["ring"], False),
    ],
)
async def test_the_examples_run(
    env: Environment, server_kind: str, example: str, groups: list[str], alone: bool
) -> None:
    if server_kind == "local" and not alone:
        pytest.skip(_NO_MAKERS)
    await env.add_node(cpu=4)
    manifest = (EXAMPLES / f"{example}.yaml").read_text()
    made = [(_KINDS[obj["kind"]], obj) for obj in yaml.safe_load_all(manifest)]
    for kind, obj in made:
        await env.create(kind, obj)

    for name in groups:
        await env.scheduled(name)
    pods = await env.pods()
    assert all(pod["spec"].get("nodeName") for pod in pods)
    assert {pod["spec"]["schedulerName"] for pod in pods} == {SCHEDULER_NAME}

    for kind, obj in made:
        await env.delete(kind, obj["metadata"]["name"])
    for name in groups:
        await gone(env, name)


def stateful_set(env: Environment) -> Json:
    labels = {"app": "db"}
    spec: dict[str, Any] = pod_spec(env.name) | {"restartPolicy": "Always"}
    # No grace: nothing ends these pods but their deletion, and each is replaced in turn.
    spec["terminationGracePeriodSeconds"] = 0
    meta = {"labels": labels | {LABEL_POD_GROUP: "db"}, "annotations": dict(FOUR)}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db",
            "replicas": 4,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": meta, "spec": spec},
        },
    }
