"""Any response of the API server to a request of the controllers: the final state is the same.

The test plays the life cycle of each owner kind without faults. Then it repeats it for each kind of
request and for each response that an API server may send: the first requests of this kind get the
response, and the final objects must be the same.
"""

import asyncio
from functools import cache
from typing import Any, NamedTuple

import pytest
from _pytest.mark import ParameterSet

from api.constants import (
    ANNOTATION_PROVISIONING_REQUEST,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    TRAIN_JOB,
)
from api.provisioning import consumed
from controllers.cache.capacity_requests import REQUESTS
from controllers.cache.objects import CLAIM_TEMPLATES, CLAIMS
from kube.base.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from tests.controllers.asking import asking
from tests.controllers.conftest import ControllerHarness
from tests.support.apps import admitted, deployment
from tests.support.builders import make_pod
from tests.support.memory_api import Request
from tests.support.owners import job_template, make_job, make_jobset
from tools.testing.effort import selected

Json = dict[str, Any]
TIMES = 3
"""Number of requests that get the response."""
HOUR = 3600.0


class Answer(NamedTuple):
    """A response; with `done` the request was carried out anyway."""

    error: Exception
    done: bool = False


ANSWERS = {
    "400": Answer(ApiError(400, "BadRequest", "no")),
    "401": Answer(Unauthorized(401, "Unauthorized", "no")),
    "403": Answer(Forbidden(403, "Forbidden", "exceeded quota")),
    "404": Answer(NotFound(404, "NotFound", "the server could not find the requested resource")),
    "409": Answer(Conflict(409, "Conflict", "the object has been modified", name="x")),
    "410": Answer(Gone(410, "Expired", "too old")),
    "422": Answer(Invalid(422, "Invalid", "spec: Forbidden: no", name="x")),
    "429": Answer(TooManyRequests(429, "TooManyRequests", "later", retry_after=5)),
    "500": Answer(ServerError(500, "InternalError", "failed calling webhook")),
    "500, done": Answer(ServerError(500, "InternalError", "etcdserver: request timed out"), True),
    "503": Answer(ServerError(503, "ServiceUnavailable", "", retry_after=5)),
    "504, done": Answer(ServerError(504, "Timeout", "request did not complete"), True),
    "no response": Answer(Unreachable("", "/", "reset")),
    "no response, done": Answer(Unreachable("", "/", "reset"), True),
}

"""The responses for an existing object, for which no API server reports a missing object.

It reports a missing kind right after a start, and while a CRD changes.
"""

SHORT = ("403", "404", "429", "504, done", "no response, done")
"""One for each meaning of a response."""

Kind = tuple[str, str, str]
"""Verb, collection and subresource of a request."""


class Playing(ControllerHarness):
    """A harness that knows the groups for which the scheduler has no capacity."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: set[str] = set()


async def life(harness: Playing) -> None:
    """Create owners of each kind, change, suspend and delete them; some are kept."""
    for kind in (REQUESTS, CLAIMS, CLAIM_TEMPLATES):
        harness.caches.serve(kind)
    put = harness.api.put
    tree = make_jobset("tree").asks(gang_mode="Composite")
    harness.submit_jobset(tree.replicated_job("w", 2, job_template().pods(2, 2)).build())
    for name in ("job", "grows"):
        made = make_job(name).asks(gang_mode="Gang").pods(2, 2).build()
        harness.submit_job(made | {"metadata": made["metadata"] | {"uid": f"uid-{name}"}})
    put(admitted(deployment(gang_mode="Gang"), request_uid="r"))
    template = {"name": "t", "schedulingPolicy": {"basic": {}}}
    workload = {"kind": "Workload", "metadata": {"name": "w", "namespace": "default"}}
    put(workload | {"spec": {"podGroupTemplates": [template]}})
    named = make_pod("named").label(LABEL_WORKLOAD, "w").label(LABEL_TEMPLATE, "t").build()
    for pod in (named, asking("asks").build(), asking("ends", "ends", "1").build()):
        put(pod | {"kind": "Pod"})
    claims(harness)
    capacity(harness)
    train_job(harness)
    await passes(harness, 120)

    grown = harness.api.objects["Job", "default", "grows"]
    put(grown | {"spec": grown["spec"] | {"parallelism": 3, "completions": 3}})
    harness.api.remove("JobSet", "default", "tree")
    harness.api.remove("Pod", "default", "ends")
    harness.api.remove("PodGroup", "default", "pg-job-job")
    waits(harness, "pg-job-grows")
    await passes(harness, HOUR)


def claims(harness: Playing) -> None:
    spec = {"devices": {"requests": [{"name": "c", "exactly": {"deviceClassName": "d"}}]}}
    meta = {"name": "devices", "namespace": "default"}
    harness.api.put({"kind": CLAIM_TEMPLATES.kind, "metadata": meta, "spec": {"spec": spec}})
    entry = {"name": "d", "resourceClaimTemplateName": "devices"}
    gang = {"schedulingPolicy": {"gang": {"minCount": 1}}, "resourceClaims": [entry]}
    meta = {"name": "shares", "namespace": "default"}
    harness.api.put({"kind": "PodGroup", "metadata": meta, "spec": gang})


def capacity(harness: Playing) -> None:
    wanted = "best-effort-atomic-scale-up"
    notes = {ANNOTATION_PROVISIONING_REQUEST: wanted}
    meta = {"name": "asks-for-nodes", "namespace": "default", "annotations": notes}
    gang = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    group = harness.api.put({"kind": "PodGroup", "metadata": meta, "spec": gang})
    pod = make_pod("needs-a-node").in_group("asks-for-nodes").build() | {"kind": "Pod"}
    pod["metadata"]["annotations"] = consumed("asks-for-nodes", wanted)
    harness.api.put(pod)
    blocker = {"kind": "capacity", "summary": "needs room"}
    harness.api.put(group | {"status": {"blocker": blocker}})


def train_job(harness: Playing) -> None:
    api = f"{TRAIN_JOB.group}/v1alpha1"
    meta: Json = {"name": "tune", "namespace": "default"}
    made = harness.api.put({"apiVersion": api, "kind": TRAIN_JOB.kind, "metadata": meta})
    owner = {"apiVersion": api, "kind": TRAIN_JOB.kind, "name": "tune", "controller": True}
    references = [owner | {"uid": made["metadata"]["uid"]}]
    jobset = make_jobset("tune").asks(gang_mode="Gang").replicated_job("w").build()
    named = {"uid": "uid-of-tune", "ownerReferences": references}
    harness.submit_jobset(jobset | {"metadata": jobset["metadata"] | named})
    waits(harness, "pg-tune")


def waits(harness: Playing, name: str) -> None:
    """Let the scheduler report the group as pending, once it exists."""
    harness.waiting.add(name)


async def passes(harness: Playing, seconds: float) -> None:
    end = harness.clock.monotonic() + seconds
    step = 1.0
    while harness.clock.monotonic() < end:
        await harness.settle(seconds=step)
        step = min(step * 1.5, 60.0)
        for name in harness.waiting:
            stored = harness.api.objects.get(("PodGroup", "default", name))
            if stored is not None and not stored.get("status"):
                harness.api.put(stored | {"status": {"blocker": {"summary": "needs room"}}})


def outcome(harness: Playing) -> dict[tuple[str, str], Json]:
    """Return the final objects, except for UIDs and times."""
    return {
        (kind, name): clean({key: obj.get(key) for key in ("metadata", "spec", "status")})
        for (kind, _, name), obj in harness.api.objects.items()
    }


_OF_THE_MOMENT = ("uid", "resourceVersion", "creationTimestamp", "generation", "deletionTimestamp")


def clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: clean(it)
            for key, it in value.items()
            if key not in (*_OF_THE_MOMENT, "scheduling.muster.dev/made-for") and it is not None
        }
    return [clean(it) for it in value] if isinstance(value, list) else value


def kind_of(request: Request) -> Kind:
    return request.verb, request.collection, request.subresource


@cache
def played() -> tuple[frozenset[Kind], dict[tuple[str, str], Json]]:
    """Return the kinds of requests of a life without faults, and its final objects."""

    async def play() -> tuple[frozenset[Kind], dict[tuple[str, str], Json]]:
        harness = Playing()
        await life(harness)
        kinds = frozenset(kind_of(it) for it in harness.api.sent if it.collection)
        harness.close()
        return kinds, outcome(harness)

    return asyncio.run(play())


def cases() -> list[ParameterSet]:
    found = {
        f"{' '.join(filter(None, kind))}: {name}": (kind, answer)
        for kind in sorted(played()[0])
        for name, answer in ANSWERS.items()
    }
    return selected(found, {name for name in found if name.partition(": ")[2] in SHORT})


@pytest.mark.parametrize("case", cases())
async def test_all_ends_as_without_trouble(case: tuple[Kind, Answer]) -> None:
    kind, answer = case
    harness, left = Playing(), [TIMES]

    def act(request: Request) -> None:
        if kind_of(request) == kind and left[0]:
            left[0] -= 1
            raise answer.error

    harness.api.client.on(act, answered=answer.done)
    await life(harness)
    harness.close()

    assert left[0] < TIMES
    assert outcome(harness) == played()[1]
