"""What users can create and change while a part of Muster does not run.

docs/webhook.md has the table; each test plays one column of it.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

import pytest

from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_PREEMPTION_DELAY,
    ANNOTATION_START_TIMEOUT,
    GROUP,
    POD_GROUP,
    V1ALPHA2,
)
from e2e.harness.controlplane.places import ROOT
from e2e.harness.environment import Environment
from e2e.harness.muster import CONTROLLER, SCHEDULER, WEBHOOK
from e2e.harness.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    Json,
    job,
    job_spec,
    jobset,
    of_job,
    pod,
    pod_group,
    replicated_job,
)
from kube.base.errors import ApiError, NotFound, Unreachable
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import JOBS, JOBSETS, PODS, Resource

pytestmark = pytest.mark.timeout(400)

Action = Callable[[Environment], Awaitable[object]]

PAGE: Final = ROOT / "docs" / "webhook.md"
HEADING: Final = "## Requests while a part does not run"
CRON_JOBS: Final = Resource("batch", "v1", "cronjobs", "CronJob")
OLDER_POD_GROUPS: Final = Resource(GROUP, V1ALPHA2, POD_GROUP.plural, POD_GROUP.kind)


def creates(resource: Resource, obj: Callable[[str], Json]) -> Action:
    """Return a request that creates the object for the nodes of the test."""
    return lambda env: env.create(resource, obj(env.name))


def changes(resource: Resource, name: str, *path: str, to: object) -> Action:
    """Return a request that sets one field of an existing object."""
    patch = PatchBuilder().add(pointer(*path), to)
    return lambda env: env.client.patch(resource, name, patch, env.name)


def group(resource: Resource, **spec: object) -> Json:
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return head | {"metadata": {"name": "new"}, "spec": spec}


def plain_jobset(room: str) -> Json:
    return jobset("plain", replicated_job("w", room, replicas=1, pods=1), mode=None)


def gang_jobset(room: str) -> Json:
    return jobset("gang", replicated_job("w", room, replicas=1, pods=2))


def cron_job(room: str) -> Json:
    notes = {"annotations": {ANNOTATION_GANG_MODE: "Gang"}}
    template = {"metadata": notes, "spec": job_spec(1, room)}
    return {
        "apiVersion": CRON_JOBS.api_version,
        "kind": CRON_JOBS.kind,
        "metadata": {"name": "yearly"},
        "spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": template},
    }


LEAF: Final = {"name": "t", "schedulingPolicy": {"gang": {"minCount": 1}}}
ROOT_POLICY: Final = {"gang": {"minGroupCount": 1}}
TREE: Final = {"workloadName": "new", "templateName": "root"}

REQUESTS: Final[Mapping[str, Action]] = {
    "create a Pod that does not ask for Muster": creates(
        PODS, lambda room: pod("other", room, scheduler="default-scheduler")
    ),
    "create a Job that does not ask for Muster": creates(
        JOBS, lambda room: job("plain", room, mode=None, pods=1)
    ),
    "create a JobSet that does not ask for Muster": creates(JOBSETS, plain_jobset),
    "create a Pod with Muster's `schedulerName` and no group": creates(
        PODS, lambda room: pod("single", room)
    ),
    "create a Job with `gang-mode`": creates(JOBS, lambda room: job("gang", room, pods=2)),
    "create a JobSet with `gang-mode`": creates(JOBSETS, gang_jobset),
    "create a CronJob whose Jobs have `gang-mode`": creates(CRON_JOBS, cron_job),
    "create a Workload": creates(WORKLOADS, lambda _: group(WORKLOADS, podGroupTemplates=[LEAF])),
    "create a PodGroup": creates(POD_GROUPS, lambda _: pod_group("new", 1)),
    "create a CompositePodGroup": creates(
        COMPOSITE_POD_GROUPS,
        lambda _: group(COMPOSITE_POD_GROUPS, schedulingPolicy=ROOT_POLICY, workloadRef=TREE),
    ),
    "create a Pod of a group": creates(PODS, lambda room: pod("member", room, group="own")),
    "change the spec of a gang's Job": changes(JOBS, "known", "spec", "backoffLimit", to=3),
    "change an annotation of Muster's on a gang's Job": changes(
        JOBS, "known", "metadata", "annotations", ANNOTATION_START_TIMEOUT, to="10m"
    ),
    "change a label or another annotation of a gang's Job": changes(
        JOBS, "known", "metadata", "labels", to={"team": "a"}
    ),
    "change `preemption-delay` of a PodGroup": changes(
        POD_GROUPS, "own", "metadata", "annotations", to={ANNOTATION_PREEMPTION_DELAY: "1m"}
    ),
    "read a PodGroup in an older version": lambda env: env.client.get(
        OLDER_POD_GROUPS, "own", env.name
    ),
    "delete a gang's Job": lambda env: env.delete(JOBS, "known"),
}


def test_the_page_lists_exactly_these_requests() -> None:
    assert list(column("webhook")) == list(REQUESTS)


async def test_without_a_webhook_what_asks_for_muster_is_rejected(env: Environment) -> None:
    await prepare(env)
    env.muster.kill(WEBHOOK)

    assert await played(env) == column("webhook")

    # What was rejected can be requested again.
    await env.muster.start(WEBHOOK)
    await REQUESTS["create a Job with `gang-mode`"](env)
    await REQUESTS["create a Pod of a group"](env)
    await env.runs(of_job("gang"), 2)
    await env.scheduled("own")


@pytest.mark.long
async def test_a_webhook_that_hangs_rejects_the_same(env: Environment) -> None:
    """A request waits until the timeout of the webhook, or is not sent to it."""
    await prepare(env)

    with env.muster.paused(WEBHOOK):
        assert await played(env) == column("webhook")

    await REQUESTS["create a Job with `gang-mode`"](env)
    await env.runs(of_job("gang"), 2)


async def test_without_a_controller_gangs_wait_for_their_groups(env: Environment) -> None:
    await prepare(env)
    env.muster.kill(CONTROLLER)

    assert await played(env) == column("controller")

    await env.has_pods(of_job("gang"), 2)
    assert await env.bound(of_job("gang")) == 0
    await env.muster.start(CONTROLLER)
    await env.runs(of_job("gang"), 2)
    await env.gone(POD_GROUPS, "pg-job-known")


async def test_without_a_scheduler_pods_of_muster_wait(env: Environment) -> None:
    await prepare(env)
    env.muster.kill(SCHEDULER)

    assert await played(env) == column("scheduler")

    await env.has_pods(of_job("gang"), 2)
    assert await env.bound(of_job("gang")) == 0
    await env.gone(POD_GROUPS, "pg-job-known")
    await env.muster.start(SCHEDULER)
    await env.runs(of_job("gang"), 2)


async def prepare(env: Environment) -> None:
    """Create what the requests change: a gang that runs, and a PodGroup without pods."""
    await env.add_node(cpu=12)
    await env.create(JOBS, job("known", env.name, pods=2))
    await env.runs(of_job("known"), 2)
    await env.create(POD_GROUPS, pod_group("own", 1))


async def played(env: Environment) -> dict[str, str]:
    """Return by request whether it was accepted or rejected. Any other error is raised."""
    results = {}
    try:
        for name, request in REQUESTS.items():
            results[name] = await result(env, request)
    finally:
        with suppress(NotFound):
            await env.delete(CRON_JOBS, "yearly")
    return results


async def result(env: Environment, request: Action) -> str:
    try:
        await request(env)
    except Unreachable:  # a conversion that hangs, at a server that waits as long as the client
        return "rejected"
    except ApiError as error:
        if not re.search("failed calling webhook|conversion webhook for .* failed", str(error)):
            raise
        return "rejected"
    return "accepted"


def column(part: str) -> dict[str, str]:
    """Return the first word of each cell below the part, by request."""
    section = PAGE.read_text("utf-8").partition(HEADING)[2].partition("\n## ")[0]
    head, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    )
    at = head.index(part)
    return {row[0]: re.split(r"\W", row[at])[0] for row in rows}
