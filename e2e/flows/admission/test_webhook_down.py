"""Without the webhook process, objects that do not request Muster are created as before."""

import pytest

from e2e.harness.environment import Environment
from e2e.harness.muster import WEBHOOK
from e2e.harness.objects import job, jobset, of_job, of_jobset, pod, replicated_job
from kube.base.errors import ApiError
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBS, JOBSETS, PODS

pytestmark = pytest.mark.timeout(400)


async def test_plain_objects_are_created_as_before_and_gangs_are_refused(env: Environment) -> None:
    await env.add_node(cpu=4)
    env.muster.kill(WEBHOOK)

    await env.create(PODS, pod("plain", env.name, scheduler="default-scheduler"))
    await env.create(JOBS, job("plain-job", env.name, mode=None, pods=2))
    await env.create(
        JOBSETS,
        jobset("plain-set", replicated_job("w", env.name, replicas=1, pods=2), mode=None),
    )
    await env.has_pods(of_job("plain-job"), 2)
    await env.has_pods(of_jobset("plain-set"), 2)
    plain = await env.client.get(PODS, "plain", env.name)
    assert plain["spec"]["schedulerName"] == "default-scheduler"

    with pytest.raises(ApiError, match="failed calling webhook"):
        await env.create(JOBS, job("gang", env.name))

    await env.muster.start(WEBHOOK)
    await env.create(JOBS, job("gang", env.name))
    await env.runs(of_job("gang"), 4)


async def test_gangs_that_are_known_already_are_placed_without_the_webhook(
    env: Environment,
) -> None:
    await env.add_node(cpu=3)
    await env.create(JOBS, job("gang", env.name))
    await env.waits("pg-job-gang", needed=4, free=3)

    env.muster.kill(WEBHOOK)
    await env.add_node(cpu=1)

    await env.runs(of_job("gang"), 4)
    await env.delete(JOBS, "gang")
    await env.empty()


@pytest.mark.long
async def test_owners_of_gangs_can_be_labelled_and_deleted_without_the_webhook(
    env: Environment,
) -> None:
    """Foreground deletion ends with an update that removes a finalizer."""
    await env.add_node(cpu=8)
    await env.create(JOBS, job("gang", env.name, pods=2))
    await env.create(JOBSETS, jobset("set", replicated_job("w", env.name, pods=2, replicas=1)))
    await env.runs(of_job("gang"), 2)
    await env.runs(of_jobset("set"), 2)
    env.muster.kill(WEBHOOK)

    for resource, name in ((JOBS, "gang"), (JOBSETS, "set")):
        labelled = PatchBuilder().add("/metadata/labels", {"team": "a"})
        await env.client.patch(resource, name, labelled, env.name)
        await env.client.delete(resource, name, env.name, propagation="Foreground")
    for resource, name in ((JOBS, "gang"), (JOBSETS, "set")):
        await env.gone(resource, name)
    await env.empty()

    await env.muster.start(WEBHOOK)
