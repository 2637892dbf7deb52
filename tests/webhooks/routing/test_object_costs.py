"""The cost of a user's object is proportional to its bytes: no number causes work.

The webhook processes one review at a time, for all namespaces. Work is counted in function calls,
which are the same on every machine.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from api.constants import (
    JOB,
    JOBSET,
    LEADER_WORKER_SET,
    MAX_JOBS,
    MAX_REPLICATED_JOBS,
)
from api.features import Feature, FeatureGates
from api.integration.common.minimum import NO_PODS
from api.integration.job.admission import job_groups
from api.integration.jobset.admission import jobset_expected, jobset_groups, jobset_pod_counts
from api.integration.kinds import SINGLE_GROUP_KINDS
from api.integration.lws.admission import lws_expected, lws_groups
from api.integration.single_group.kind import NO_UPDATE, SingleGroupKind, single_group
from controllers.cache import decoding
from tests.support.counting import calls
from tests.webhooks.object_fields import Kind, kinds, lists, numbers
from tests.webhooks.review_requests import FakeLister, encoded, read, review_of
from tools.testing.effort import is_long, selected
from webhooks.routing.reviewer import ROUTES, Reviewer

Json = dict[str, Any]

SIZE = 384 << 10 if is_long() else 12 << 10
"""Size in bytes. API servers accept 3 MiB, but what grows faster than the bytes shows before."""

OF_A_NUMBER = 3_000
"""Maximum calls above those for the same object with a small number."""

OF_A_BYTE = 8
"""Maximum calls for each byte of an object, in mutation and validation together."""

OF_A_JOBSETS_JOB = 2_500
"""Maximum calls for each replicatedJob that is read."""

OF_A_GROUP = 150
"""Maximum calls of the controllers for each group of a stored object."""

KINDS = kinds()
SHORT = {"a JobSet in mode Gang", "a JobSet with a gang for each Job", "a Job", "a pod"}
REVIEWER = Reviewer(FakeLister(gates=FeatureGates.of({each.value: True for each in Feature})))


def reviews(kind: Kind, obj: Json, old: Json | None) -> int:
    """Return the cost of mutation and validation together."""
    body = msgspec.json.encode(review_of(kind.name, obj, old))
    routes = [name for name, route in ROUTES.items() if route.kind == kind.name]
    assert routes
    return sum(calls(partial(REVIEWER.review, route, body)) for route in routes)


def reconciled(kind: Kind, obj: Json) -> int:
    """Return the controllers' cost to compute an object's groups, regardless of admission."""
    return calls(lambda: CONTROLLERS[kind.name.plural](obj))


def of_jobset(jobset: Json) -> None:
    decoding.decode_jobset(msgspec.json.encode(jobset))
    jobset_groups(jobset)
    jobset_pod_counts(jobset, lambda _job, _group: (None, NO_PODS))
    jobset_expected(jobset, lambda _job, _group: (None, NO_PODS))


def of_job(job: Json) -> None:
    decoding.decode_job(msgspec.json.encode(job))
    job_groups(job)


def of_single_group(kind: SingleGroupKind, obj: Json) -> None:
    decoding.decode_single_group(kind, msgspec.json.encode(obj))
    single_group(kind.read(obj), NO_UPDATE, 0)


def of_lws(lws: Json) -> None:
    decoding.decode_lws(msgspec.json.encode(lws))
    lws_groups(lws, expects=True)
    lws_expected(lws)


CONTROLLERS: dict[str, Callable[[Json], None]] = {
    JOBSET.plural: of_jobset,
    JOB.plural: of_job,
    **{it.kind.plural: partial(of_single_group, it) for it in SINGLE_GROUP_KINDS.values()},
    LEADER_WORKER_SET.plural: of_lws,
}


def stored(kind: Kind, obj: Json) -> Json:
    """Return the object with the fields that admission sets when it accepts it."""
    route = f"mutate/{kind.name.plural}"
    review = review_of(kind.name, obj)
    return read(REVIEWER.review(route, encoded(review)), review).result or {}


@pytest.mark.parametrize("name", KINDS)
def test_no_number_costs_anything_at_admission(name: str) -> None:
    kind = KINDS[name]
    new, update = reviews(kind, kind.base, None), reviews(kind, kind.base, kind.base)
    costly = []
    for extreme in numbers(kind):
        more = (
            reviews(kind, extreme.obj, None) - new,
            reviews(kind, extreme.obj, kind.base) - update,
        )
        if max(more) > OF_A_NUMBER:
            costly.append((extreme.path, more))

    assert costly == []


@pytest.mark.parametrize(
    "name", [name for name, kind in KINDS.items() if kind.name.plural in CONTROLLERS]
)
def test_no_number_of_a_stored_object_costs_more_than_the_most_groups(name: str) -> None:
    kind = KINDS[name]
    kind = kind._replace(base=stored(kind, kind.base))
    few = reconciled(kind, kind.base)
    costs = {extreme.path: reconciled(kind, extreme.obj) - few for extreme in numbers(kind)}

    assert {path: cost for path, cost in costs.items() if cost > MAX_JOBS * OF_A_GROUP} == {}


@pytest.mark.parametrize("name", selected({name: name for name in KINDS}, SHORT))
def test_a_large_object_costs_no_more_than_its_bytes(name: str) -> None:
    kind = KINDS[name]
    base = reviews(kind, kind.base, kind.base)
    limit = SIZE * OF_A_BYTE
    if kind.name == JOBSET:
        limit += min(MAX_REPLICATED_JOBS, SIZE // 200) * OF_A_JOBSETS_JOB
    costly = []
    for extreme in lists(kind, SIZE):
        cost = max(reviews(kind, extreme.obj, old) for old in (None, extreme.obj)) - base
        if cost > limit:
            costly.append((extreme.path, extreme.items, cost))

    assert costly == []
