"""Groups that the API server rejects: the owner reports it until it is resolved."""

from typing import Any

import pytest

from api.constants import ANNOTATION_WAITING_FOR, LABEL_TEMPLATE, LABEL_WORKLOAD
from controllers.cache.objects import COMPOSITES, POD_GROUPS, WORKLOADS
from kube.base.errors import ApiError, Forbidden, Invalid, NotFound, ServerError, TooManyRequests
from kube.client.resources import NAMESPACES, Resource
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import make_pod
from tests.support.owners import make_job, make_jobset

Json = dict[str, Any]
QUOTA = "exceeded quota: q, requested: 1, used: 0, limited: 0"
REFUSALS = {
    "a quota": Forbidden(403, "Forbidden", QUOTA),
    "a webhook": ApiError(400, "BadRequest", "admission webhook denied the request: no"),
    "a rule": Invalid(422, "Invalid", "spec.priority: Forbidden: no"),
    "no such kind": NotFound(404, "NotFound", "the server could not find the requested resource"),
}


def submit(harness: ControllerHarness) -> None:
    jobset = make_jobset("a").asks(gang_mode="Composite").replicated_job("w").build()
    harness.submit_jobset(jobset)


def waiting_for(harness: ControllerHarness) -> str:
    notes = harness.api.objects["JobSet", "default", "a"]["metadata"].get("annotations", {})
    return str(notes.get(ANNOTATION_WAITING_FOR, ""))


@pytest.mark.parametrize("error", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("kind", [WORKLOADS, COMPOSITES, POD_GROUPS], ids=lambda it: it.kind)
async def test_the_owner_says_so_until_they_are_made(
    harness: ControllerHarness, kind: Resource, error: ApiError
) -> None:
    rule = harness.api.client.fail(error, verbs=["create"], of=kind, times=10**6)
    submit(harness)
    for _ in range(10):
        await harness.settle(seconds=60)

    assert waiting_for(harness).startswith(f"GroupNotMade: failed to create {kind.kind} ")
    assert waiting_for(harness).endswith(f": {error.message}")
    assert harness.recorded.events == [("JobSet", "a", "GroupNotMade")]
    assert f"GroupNotMade: {harness.recorded.messages[0]}" == waiting_for(harness)
    creates = [it.collection for it in harness.api.sent if it.verb == "create"]
    assert 10 <= creates.count(kind.full_name) <= 10 * 60

    harness.api.client.rules.remove(rule)
    await harness.settle(seconds=60)
    assert waiting_for(harness) == ""
    assert harness.api.names("PodGroup") != []


async def test_a_change_that_is_refused_is_told_too(harness: ControllerHarness) -> None:
    harness.submit_job(make_job("j").asks(gang_mode="Gang").pods(2).build())
    await harness.settle()
    error = Forbidden(403, "Forbidden", "denied by a policy")
    harness.api.client.fail(error, verbs=["patch"], of=POD_GROUPS, times=10**6)
    harness.change("Job", "j", parallelism=1, completions=1)
    await harness.settle(seconds=1)

    notes = harness.api.objects["Job", "default", "j"]["metadata"]["annotations"]
    said = "GroupNotMade: failed to change PodGroup pg-job-j: denied by a policy"
    assert notes[ANNOTATION_WAITING_FOR] == said


async def test_a_webhook_that_is_down_is_told_if_it_lasts(harness: ControllerHarness) -> None:
    error = ServerError(500, "InternalError", "failed calling webhook")
    harness.api.client.fail(error, verbs=["create"], of=POD_GROUPS, times=10**6)
    submit(harness)
    await harness.settle()
    assert waiting_for(harness) == ""
    for _ in range(10):
        await harness.settle(seconds=5)

    assert waiting_for(harness) == "failed to write its groups: failed calling webhook"
    harness.api.recover()
    await harness.settle(seconds=60)
    assert waiting_for(harness) == ""


async def test_a_server_that_throttles_is_nothing_to_tell(harness: ControllerHarness) -> None:
    error = TooManyRequests(429, "TooManyRequests", "later", retry_after=20)
    harness.api.client.fail(error, verbs=["create"], of=POD_GROUPS, times=10**6)
    submit(harness)
    for _ in range(10):
        await harness.settle(seconds=30)

    assert waiting_for(harness) == ""
    assert harness.recorded.events == []


async def test_nothing_is_told_in_a_namespace_that_goes(harness: ControllerHarness) -> None:
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kubernetes"]}
    harness.api.put({"kind": "Namespace", "metadata": {"name": "default", **gone}})
    harness.api.client.fail(REFUSALS["a quota"], verbs=["create"], times=10**6)
    submit(harness)
    await harness.settle(seconds=60)

    assert harness.caches.is_terminating("default")
    assert harness.recorded.events == []
    assert NAMESPACES.full_name not in {it.collection for it in harness.api.sent}


async def test_the_workload_says_so_of_groups_that_pods_name_by_its_template(
    harness: ControllerHarness,
) -> None:
    template = {"name": "t", "schedulingPolicy": {"basic": {}}}
    metadata = {"name": "w", "namespace": "default"}
    spec = {"podGroupTemplates": [template]}
    harness.api.put({"kind": "Workload", "metadata": metadata, "spec": spec})
    harness.api.client.fail(REFUSALS["a quota"], verbs=["create"], of=POD_GROUPS, times=10**6)
    pod = make_pod("p").label(LABEL_WORKLOAD, "w").label(LABEL_TEMPLATE, "t").build()
    harness.api.put(pod | {"kind": "Pod"})
    await harness.settle(seconds=60)
    assert harness.recorded.events == [("Workload", "w", "GroupNotMade")]

    harness.api.recover()
    await harness.settle(seconds=60)
    assert harness.api.names("PodGroup") == ["w-t"]
