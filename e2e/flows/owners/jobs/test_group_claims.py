"""One claim for a complete group: created, recorded, recreated, deleted.

Also of a Job or JobSet.
"""

import copy
from pathlib import Path
from typing import Any

import pytest

from api.constants import ANNOTATION_CLAIM_TEMPLATES, ANNOTATION_SHARED_CLAIMS
from e2e.flows.owners.jobs.queries import wait_for_objects
from e2e.flows.owners.jobs.test_apply import ONE_OF_WAYS, REPLACE, submit, submit_first
from e2e.harness.devices import CLAIM_TEMPLATES, CLAIMS, claim, claim_template, request, with_claims
from e2e.harness.environment import Environment
from e2e.harness.objects import (
    POD_GROUPS,
    Json,
    job,
    jobset,
    of_job,
    of_jobset,
    pod,
    pod_group,
    replicated_job,
)
from e2e.harness.support.kubectl import Kubectl
from kube.base.errors import Invalid
from kube.client.resources import EVENTS, JOBS, JOBSETS, PODS

pytestmark = pytest.mark.since("1.34", "resource.k8s.io/v1 is served since 1.34")

TEMPLATE = {"resourceClaimTemplateName": "channel"}


def sharing(name: str, minimum: int = 2) -> Json:
    made = pod_group(name, minimum)
    made["spec"]["resourceClaims"] = [{"name": "imex", **TEMPLATE}]
    return made


def with_template(spec: Json) -> Json:
    return with_claims(spec, {"imex": TEMPLATE})


async def make_template(env: Environment) -> None:
    made = claim_template("channel", request("channels"))
    made["spec"]["metadata"] = {"labels": {"team": "a"}}
    await env.create(CLAIM_TEMPLATES, made)


async def told(env: Environment, kind: str, name: str, reason: str, words: str) -> None:
    """Wait for an event about an object."""

    async def probe() -> bool:
        return any(
            words in it["message"]
            for it in (await env.client.list(EVENTS, env.name))["items"]
            if (it["involvedObject"]["kind"], it["involvedObject"]["name"]) == (kind, name)
            and it["reason"] == reason
        )

    await env.until(f"{kind} {name} to be told {reason}: {words}", probe)


async def recorded(env: Environment, group: str, other: str = "") -> Json:
    """Wait until the group's status names its claim, with another UID than `other`.

    Return the claim.
    """
    found: Json = {}

    async def probe() -> bool:
        nonlocal found
        status = (await env.grouped(group)).get("status") or {}
        listed = (await env.client.list(CLAIMS, env.name))["items"]
        mine = [it for it in listed if it["metadata"]["name"] == f"{group}.imex"]
        found = next(iter(mine), {})
        uid = found.get("metadata", {}).get("uid", other)
        said = [{"name": "imex", "resourceClaimName": f"{group}.imex"}]
        return status.get("resourceClaimStatuses") == said and uid != other

    await env.until(f"{group} to have its claim", probe)
    return found


def owner(found: Json) -> tuple[Any, ...]:
    (reference,) = found["metadata"]["ownerReferences"]
    return reference["kind"], reference["name"], reference["uid"], reference["controller"]


async def test_a_claim_follows_the_life_of_its_group(env: Environment) -> None:
    group = await env.create(POD_GROUPS, sharing("g"))
    await told(env, "PodGroup", "g", "FailedResourceClaimCreation", "not found")

    await make_template(env)
    first = await recorded(env, "g")
    assert owner(first) == ("PodGroup", "g", group["metadata"]["uid"], True)
    assert first["metadata"]["labels"]["team"] == "a"
    assert first["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "channels"

    await env.delete(CLAIMS, "g.imex")
    again = await recorded(env, "g", other=first["metadata"]["uid"])
    assert owner(again) == owner(first)

    wrong = pod("p", env.name, group="g")
    wrong["spec"] = with_template(wrong["spec"])
    with pytest.raises(Invalid, match=r"use resourceClaimName g\.imex instead"):
        await env.create(PODS, wrong)

    await env.delete(POD_GROUPS, "g")
    await wait_for_objects(env, CLAIMS)


@pytest.mark.long
async def test_a_claim_of_somebody_else_is_left_alone(env: Environment) -> None:
    await make_template(env)
    before = await env.create(CLAIMS, claim("g.imex", request("others")))
    await env.create(POD_GROUPS, sharing("g"))
    await told(env, "PodGroup", "g", "NameTaken", "ResourceClaim g.imex exists")

    found = await env.client.get(CLAIMS, "g.imex", env.name)
    assert found["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert "resourceClaimStatuses" not in ((await env.group("g")).get("status") or {})

    member = pod("p", env.name, group="g")
    member["spec"]["resourceClaims"] = [{"name": "imex", "resourceClaimName": "g.imex"}]
    await env.create(PODS, member)

    async def waits() -> bool:
        status = (await env.client.get(PODS, "p", env.name)).get("status") or {}
        said = [it.get("message", "") for it in status.get("conditions") or []]
        return any("was not created for PodGroup" in message for message in said)

    await env.until("the pod not to start with it", waits)
    await env.delete(PODS, "p")
    await env.delete(POD_GROUPS, "g")
    await wait_for_objects(env, POD_GROUPS)
    await env.delete(CLAIMS, "g.imex")
    await env.create(POD_GROUPS, sharing("g"))
    await recorded(env, "g")


async def test_a_job_and_a_jobset_share_a_claim(env: Environment) -> None:
    await make_template(env)
    made = job("j", env.name, pods=2)
    made["metadata"]["annotations"][ANNOTATION_SHARED_CLAIMS] = "imex"
    made["spec"]["template"]["spec"] = with_template(made["spec"]["template"]["spec"])
    workers = replicated_job("w", env.name, replicas=2, pods=1)
    spec = workers["template"]["spec"]["template"]
    spec["spec"] = with_template(spec["spec"])
    many = jobset("s", workers)
    many["metadata"]["annotations"][ANNOTATION_SHARED_CLAIMS] = "imex"

    stored = await env.create(JOBS, made)
    await env.create(JOBSETS, many)

    assert stored["metadata"]["annotations"][ANNOTATION_CLAIM_TEMPLATES] == "imex=channel"
    for selector, group in ((of_job("j"), "pg-job-j"), (of_jobset("s"), "pg-s")):
        await recorded(env, group)
        await env.has_pods(selector, 2)
        named = [it["spec"]["resourceClaims"] for it in await env.pods(selector)]
        assert named == [[{"name": "imex", "resourceClaimName": f"{group}.imex"}]] * 2
    await wait_for_objects(env, CLAIMS, "pg-job-j.imex", "pg-s.imex")

    await env.delete(JOBS, "j")
    await env.delete(JOBSETS, "s")
    await wait_for_objects(env, CLAIMS)


async def test_more_pods_than_a_claim_serves_are_refused(env: Environment) -> None:
    made = job("j", env.name, pods=257)
    made["metadata"]["annotations"][ANNOTATION_SHARED_CLAIMS] = "imex"
    made["spec"]["template"]["spec"] = with_template(made["spec"]["template"]["spec"])

    with pytest.raises(Invalid, match="257 pods would use ResourceClaim imex at the same time"):
        await env.create(JOBS, made)


@pytest.mark.parametrize("way", ONE_OF_WAYS)
@pytest.mark.long
async def test_the_manifest_of_a_job_that_shares_is_applied_again(
    env: Environment, tmp_path: Path, way: str
) -> None:
    """Pod templates do not change, and the file differs from the Job by now."""
    kubectl = Kubectl(env.cluster.kubeconfig, tmp_path)
    made = job("j", env.name, pods=1)
    made["metadata"]["namespace"] = env.name
    made["metadata"]["annotations"][ANNOTATION_SHARED_CLAIMS] = "imex"
    made["spec"]["template"]["spec"] = with_template(made["spec"]["template"]["spec"])
    await submit_first(kubectl, way, made)
    before = await env.client.get(JOBS, "j", env.name)

    if way == REPLACE:  # it must repeat the fields that the server generated
        spec = copy.deepcopy(before["spec"])
        spec["template"]["spec"]["resourceClaims"] = [{"name": "imex", **TEMPLATE}]
        made["spec"] = spec
    for _ in range(2):
        await submit(kubectl, way, made)

    after = await env.client.get(JOBS, "j", env.name)
    assert after["spec"] == before["spec"]
    assert after["spec"]["template"]["spec"]["resourceClaims"] == [
        {"name": "imex", "resourceClaimName": "pg-job-j.imex"}
    ]
    for key in (ANNOTATION_CLAIM_TEMPLATES, ANNOTATION_SHARED_CLAIMS):
        assert after["metadata"]["annotations"][key] == before["metadata"]["annotations"][key]
