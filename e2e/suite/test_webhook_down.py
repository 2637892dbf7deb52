"""Without the webhook process, what does not ask for Muster is created as before."""

import pytest

from e2e.muster import WEBHOOK
from e2e.suite.objects import job, jobset, of_job, of_jobset, pod, replicated_job
from e2e.suite.stage import Stage
from kube.errors import ApiError
from kube.resources import JOBS, JOBSETS, PODS

pytestmark = pytest.mark.timeout(400)


async def test_plain_objects_are_created_as_before_and_gangs_are_refused(stage: Stage) -> None:
    await stage.add_node(cpu=4)
    stage.muster.kill(WEBHOOK)

    await stage.create(PODS, pod("plain", stage.name, scheduler="default-scheduler"))
    await stage.create(JOBS, job("plain-job", stage.name, mode=None, pods=2))
    await stage.create(
        JOBSETS,
        jobset("plain-set", replicated_job("w", stage.name, replicas=1, pods=2), mode=None),
    )
    await stage.has_pods(of_job("plain-job"), 2)
    await stage.has_pods(of_jobset("plain-set"), 2)
    plain = await stage.client.get(PODS, "plain", stage.name)
    assert plain["spec"]["schedulerName"] == "default-scheduler"

    with pytest.raises(ApiError, match="failed calling webhook"):
        await stage.create(JOBS, job("gang", stage.name))

    await stage.muster.start(WEBHOOK)
    await stage.create(JOBS, job("gang", stage.name))
    await stage.runs_whole(of_job("gang"), 4)


async def test_gangs_that_are_known_already_are_placed_without_the_webhook(stage: Stage) -> None:
    await stage.add_node(cpu=3)
    await stage.create(JOBS, job("gang", stage.name))
    await stage.waits("pg-job-gang", needed=4, free=3)

    stage.muster.kill(WEBHOOK)
    await stage.add_node(cpu=1)

    await stage.runs_whole(of_job("gang"), 4)
    await stage.delete(JOBS, "gang")
    await stage.empty()
