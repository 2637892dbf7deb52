"""Any request gets a timely response, never a 500, and no accepted object breaks a rule.

In the long profile 15,000 inputs: 10 batches of its 1,500 examples.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from api.constants import COMPOSITE_POD_GROUP, POD_GROUP, WORKLOAD, KindName
from api.models import v1alpha3
from api.priority import PriorityClass
from api.rules.validation import validate
from tests.api.strategies import objects
from tests.webhooks.listener_thread import Caller, serving
from tests.webhooks.review_requests import FakeLister, encoded, pod_group, review_of
from tools.testing.effort import is_long
from webhooks.routing.reviewer import ROUTES

TEMPLATE = {"name": "a", "schedulingPolicy": {"gang": {"minCount": 2}}}
WORLD = FakeLister(
    [PriorityClass("a", 100), PriorityClass("b", 5, global_default=True)],
    deleting={("team", "d")},
    workloads={("team", "a"): {"spec": {"podGroupTemplates": [TEMPLATE]}}},
    composites={("team", "b"): "c", ("team", "c"): "b"},
    deleting_groups={("team", "e"): ()},
)
OURS: list[tuple[KindName, type[BaseModel]]] = [
    (WORKLOAD, v1alpha3.Workload),
    (POD_GROUP, v1alpha3.PodGroup),
    (COMPOSITE_POD_GROUP, v1alpha3.CompositePodGroup),
]
OPERATIONS = st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"])

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
WORDS = """
metadata spec annotations labels finalizers name generateName schedulingPolicy gang basic
minCount minGroupCount workloadRef workloadName templateName priority priorityClassName
parentCompositePodGroupName podGroupTemplates compositePodGroupTemplates disruptionMode
resourceClaims schedulingGroup podGroupName template schedulerName replicatedJobs status
resourceClaimStatuses subsets controllerRef topology key scheduling.muster.dev/gang-mode
scheduling.muster.dev/pod-group scheduling.muster.dev/min-count parallelism
"""
# The keys that handlers read, so that odd values occur where they are read.
KEYS = st.sampled_from(WORDS.split())
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [
        "a",
        "b",
        "Gang",
        "muster-scheduler",
        0,
        1,
        -1,
        2**40,
        10**40,
        -(10**40),
        1e300,
        None,
        [],
        {},
        "",
    ]
)
SHAPED = st.recursive(
    JSON | VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=25,
)
SHAPED_OBJECTS = st.dictionaries(KEYS, SHAPED, max_size=6)


EFFORT = settings(suppress_health_check=list(HealthCheck))


def batches(count: int) -> pytest.MarkDecorator:
    """Repeat the examples of the long profile; a single large run slows down with each one."""
    return pytest.mark.parametrize("batch", range(count if is_long() else 1))


@pytest.fixture(scope="module")
def caller() -> Iterator[Caller]:
    with serving(WORLD) as one:
        yield one


def bodies() -> st.SearchStrategy[bytes]:
    """Draw bytes of all kinds: noise, JSON that is no review, and damaged reviews."""
    whole = encoded(review_of(POD_GROUP, pod_group()))

    def damaged(place: int, cut: int, noise: bytes) -> bytes:
        return whole[:place] + noise + whole[place + cut :]

    damage = st.builds(damaged, st.integers(0, len(whole)), st.integers(0, 40), st.binary())
    return st.one_of(
        st.binary(max_size=300), JSON.map(lambda one: json.dumps(one).encode()), damage
    )


@batches(3)
@EFFORT
@example(route="convert", body=b'{"kind": "\xbc"}')
@example(route="validate/podgroups", body=b'{"kind": "\xbc"}')
@given(route=st.sampled_from([*ROUTES, "convert"]), body=bodies())
def test_any_bytes_are_answered(caller: Caller, batch: int, route: str, body: bytes) -> None:
    status, answer = caller.post(f"/{route}", body)

    assert status in {200, 400}
    assert json.loads(answer)["kind"] in {"Status", "AdmissionReview", "ConversionReview"}


@batches(4)
@EFFORT
@given(
    route=st.sampled_from(list(ROUTES)),
    operation=OPERATIONS,
    new=st.none() | SHAPED_OBJECTS,
    old=st.none() | SHAPED_OBJECTS,
    asked=st.sampled_from(
        [{}, {"subresource": "status"}, {"version": "v1alpha2"}, {"version": "x"}]
    ),
)
def test_objects_of_any_structure_are_answered(
    caller: Caller,
    batch: int,
    route: str,
    operation: str,
    new: Any,
    old: Any,
    asked: dict[str, str],
) -> None:
    review = review_of(ROUTES[route].kind, new, old, operation=operation, **asked)

    answer = caller.review(route, review)

    assert answer.allowed or answer.faults
    assert answer.code in {200, 403, 422}
    assert all(field for field, _ in answer.faults)


@st.composite
def some_object(draw: st.DrawFn) -> tuple[KindName, dict[str, Any]]:
    """Draw an object by its schema, sometimes with one part replaced by anything."""
    kind, model = draw(st.sampled_from(OURS))
    obj = draw(objects(kind.kind, kind.version, model))
    if draw(st.booleans()):
        spec = obj.setdefault("spec", {})
        spec[draw(KEYS)] = draw(SHAPED)
    return kind, obj


@batches(3)
@EFFORT
@given(made=some_object())
def test_what_is_accepted_breaks_no_rule(
    caller: Caller, batch: int, made: tuple[KindName, dict[str, Any]]
) -> None:
    kind, obj = made
    if kind is not WORKLOAD:
        answer = caller.review(f"mutate/{kind.plural}", review_of(kind, obj))
        if not answer.allowed:
            assert answer.code == 403
            return
        again = caller.review(f"mutate/{kind.plural}", review_of(kind, answer.result))
        assert again.result == answer.result
        obj = answer.result or {}

    answer = caller.review(f"validate/{kind.plural}", review_of(kind, obj))

    broken = validate(kind.kind, obj, None, "CREATE")
    assert answer.allowed is (not broken.causes)
    unchanged = caller.review(f"validate/{kind.plural}", review_of(kind, obj, copy.deepcopy(obj)))
    assert unchanged.allowed
