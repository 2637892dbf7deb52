"""One error response of the API server, to each kind of request, leaves no work undone.

The responses are those of a kube-apiserver that starts, is overloaded, loses etcd or is replaced,
and those caused by other writers. Each is sent once; the work of the request is completed in the
end, in few requests.
"""

import math
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import pytest

from kube.base.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from scheduler.decoding.objects import decode_group
from scheduler.preemption.evictor import SPARED_FOR
from tests.scheduler.binding.test_volume_binder import prepared
from tests.scheduler.claims.test_allocations import cluster, run
from tests.scheduler.core.framework.cluster import claim, disk, user
from tests.scheduler.eviction_harness import EvictionHarness
from tests.scheduler.holding_harness import POD_GROUPS
from tests.support.memory_api import Event, Request
from tools.testing.effort import selected

WITHIN = int(SPARED_FOR) + 60
"""Seconds to complete; a victim whose deletion is rejected is spared for a while."""

RETRY_AFTER = 7.0


class Answer(NamedTuple):
    """An error, and True if the request was carried out anyway."""

    error: KubeError
    carried_out: bool = False


def api_error(kind: type[ApiError], status: int, after: float | None = None) -> ApiError:
    return kind(status, kind.__name__, "as the table says", retry_after=after)


LOST = Unreachable("POST", "/", "reset")

ANSWERS = {
    "403": Answer(api_error(Forbidden, 403)),
    "404": Answer(api_error(NotFound, 404)),
    "409": Answer(api_error(Conflict, 409)),
    "410": Answer(api_error(Gone, 410)),
    "429": Answer(api_error(TooManyRequests, 429, RETRY_AFTER)),
    "500": Answer(api_error(ServerError, 500)),
    "504": Answer(api_error(ServerError, 504)),
    "504 and carried out": Answer(api_error(ServerError, 504), carried_out=True),
    "no answer": Answer(LOST),
    "no answer and carried out": Answer(LOST, carried_out=True),
}


SHORT = ANSWERS.keys() - {"504", "no answer and carried out"}
"""The two omitted ones have the same effect as 500 and "504 and carried out"."""


def patches(collection: str, path: str, condition: str = "") -> Callable[[Request], bool]:
    def matches(request: Request) -> bool:
        return (
            request.verb == "patch"
            and request.collection == collection
            and any(op["path"].startswith(path) and _names(op, condition) for op in request.body)
        )

    return matches


def _names(op: dict[str, Any], condition: str) -> bool:
    value = op.get("value")
    values = value if isinstance(value, list) else [value]
    return not condition or any(
        isinstance(each, dict) and each.get("type") == condition for each in values
    )


def sends(verb: str, collection: str, subresource: str = "") -> Callable[[Request], bool]:
    return lambda request: (
        (request.verb, request.collection, request.subresource) == (verb, collection, subresource)
    )


GROUPS = "podgroups.scheduling.muster.dev"
RESERVATIONS = "reservations.scheduling.muster.dev"

KINDS: dict[str, Callable[[Request], bool]] = {
    "Binding": sends("create", "pods", "binding"),
    "create a Reservation": sends("create", RESERVATIONS),
    "delete a Reservation": sends("delete", RESERVATIONS),
    "read a victim's group": sends("get", GROUPS),
    "mark a victim": patches("pods", "/status/conditions", "DisruptionTarget"),
    "mark a victim's group": patches(GROUPS, "/status/conditions", "DisruptionTarget"),
    "delete a victim": sends("delete", "pods"),
    "nominate": patches("pods", "/status/nominatedNodeName"),
    "status of a pod": patches("pods", "/status/conditions", "PodScheduled"),
    "status of a group": lambda request: (
        request.verb == "patch"
        and request.collection == GROUPS
        and request.body[-1]["path"] == "/status"
    ),
}


def stage() -> EvictionHarness:
    """Set up a gang of two that preempts another, and one that does not fit."""
    harness = EvictionHarness()
    builder = harness.builder
    builder.nodes(2, cpu=1)
    harness.observe(builder.group("low", 2, mode="all"))
    builder.runs("low", "n0", "n1")
    for name, pods in (("high", 2), ("waits", 3)):
        harness.observe(builder.group(name, pods, priority=5))
        builder.waits(name, pods, priority=5)
    harness.observe_pods()

    def told(event: Event, _kind: str) -> None:
        key = ("PodGroup", "ns", event.obj["metadata"]["name"])
        harness.observed[key] = decode_group(event.raw)

    harness.status_api.follow(POD_GROUPS, told)
    return harness


def left(harness: EvictionHarness) -> list[str]:
    """Return the unfinished work."""
    pods = harness.builder.state.pods.values()
    bound = {pod.info.group for pod in pods if pod.info.node}
    waiting = [pod.info for pod in pods if pod.info.group == "waits"]
    said = [name for kind, name, _ in harness.status_api.patches if kind == "Pod"]
    checks = {
        "the victims are gone": bound == {"high"},
        "the gang is bound": sum(pod.info.group == "high" for pod in pods if pod.info.node) == 2,
        "its status says so": harness.condition(("PodGroup", "ns", "high"))[0] == "True",
        "the other's status": harness.condition(("PodGroup", "ns", "waits"))[0] == "False",
        "its pods' statuses": {info.name for info in waiting} <= set(said),
        "no Reservation is left": not harness.evictor_api.reservations,
    }
    return [what for what, done in checks.items() if not done]


async def until_all_is_done(harness: EvictionHarness) -> None:
    async with harness.leading(unsettled="it ends as soon as all is done"):
        for second in range(0, WITHIN, 2):
            await harness.settle(2)
            if second < 4:
                continue  # the victims take a while
            harness.evictor_api.end()
            if not left(harness):
                return


def pause_of(sent: list[tuple[float, Request]]) -> float:
    """Return the seconds until the first request is repeated; infinite if it is not."""
    (first, refused), *others = sent
    again = [at for at, request in others if request.path == refused.path]
    return min(again, default=math.inf) - first


@pytest.mark.parametrize("answer", selected({name: name for name in ANSWERS}, SHORT))
@pytest.mark.parametrize("kind", KINDS)
async def test_one_bad_answer_leaves_nothing_undone(kind: str, answer: str) -> None:
    harness, matches, given = stage(), KINDS[kind], ANSWERS[answer]
    # 404 means that the object is deleted already.
    carried_out = given.carried_out or (answer == "404" and "delete" in kind)
    sent: list[tuple[float, Request]] = []
    times = count()

    def answers(request: Request) -> None:
        if matches(request) and next(times) == 0:
            raise given.error

    def counts(request: Request) -> None:
        if matches(request):
            sent.append((harness.clock.monotonic(), request))

    for api in {id(api): api for api in (harness.evictor_api, harness.status_api)}.values():
        api.on(counts)
        api.on(answers, answered=carried_out)
    await until_all_is_done(harness)
    assert left(harness) == []
    assert next(times) > 0, "no such request was sent"
    assert len(sent) <= 20
    if answer == "429":
        assert pause_of(sent) >= RETRY_AFTER
    if "group" not in kind or answer not in ("404", "410"):
        assert "PodGroup/low" in harness.evictor_api.marked


VOLUMES = "persistentvolumes"

OF_VOLUMES = {"read a volume": sends("get", VOLUMES), "bind a volume": sends("patch", VOLUMES)}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("kind", OF_VOLUMES)
async def test_one_bad_answer_about_a_volume_stops_no_pod(kind: str, answer: str) -> None:
    harness, given = prepared(), ANSWERS[answer]
    disk(harness.builder, "disk", "b")
    claim(harness.builder)
    info = user(harness.builder, "data")
    sent: list[tuple[float, Request]] = []

    def counts(request: Request) -> None:
        if OF_VOLUMES[kind](request):
            sent.append((harness.clock.monotonic(), request))

    def answers(request: Request) -> None:
        if OF_VOLUMES[kind](request) and len(sent) == 1:
            raise given.error

    harness.api.on(counts)
    harness.api.on(answers, answered=given.carried_out)
    async with harness.leading():
        await harness.settle(60)

    assert harness.api.bound == {info.name: "b"}
    assert 0 < len(sent) <= 10
    if answer == "429":
        assert pause_of(sent) >= RETRY_AFTER


CLAIMS = "resourceclaims.resource.k8s.io"

OF_CLAIMS = {
    "write the finalizer of a claim": sends("patch", CLAIMS),
    "allocate a claim": sends("patch", CLAIMS, "status"),
}


@pytest.mark.parametrize("answer", [each for each in ANSWERS if each != "404"])
@pytest.mark.parametrize("kind", OF_CLAIMS)
async def test_one_bad_answer_about_a_claim_stops_no_pod(kind: str, answer: str) -> None:
    """After a 404 for the claim, its pod waits until it is recreated."""
    harness, given = cluster(1), ANSWERS[answer]
    harness.pod("p")
    harness.claim("p-0", owner="p")
    sent: list[tuple[float, Request]] = []

    def counts(request: Request) -> None:
        if OF_CLAIMS[kind](request):
            sent.append((harness.clock.monotonic(), request))

    def answers(request: Request) -> None:
        if OF_CLAIMS[kind](request) and len(sent) == 1:
            raise given.error

    harness.api.on(counts)
    harness.api.on(answers, answered=given.carried_out)
    await run(harness, 60)

    assert harness.api.bound == {"p": "n0"}
    assert harness.held() == {"p-0": ["n0/d0"]}
    assert 0 < len(sent) <= 10
