"""Null as an element of any list: no part of Muster raises for it.

An API server accepts it in objects without a schema, as those of other projects, and users write it
into files.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec
import pytest

from analysis.simulate.simulate import simulate
from api.constants import (
    COMPOSITE_POD_GROUP,
    POD_GROUP,
    KindName,
)
from kube.base.errors import ConfigError
from kube.client.resources import (
    CSI_NODES,
    DAEMON_SETS,
    DEVICE_CLASSES,
    NODES,
    PDBS,
    PODS,
    PVCS,
    PVS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    Resource,
)
from localcluster.definitions import builtin
from localcluster.definitions.notation import inline
from scheduler.core.search.place import SearchBudget
from scheduler.decoding.device_decode import NotUnderstoodError
from scheduler.support.kinds import GROUPS
from tests.scheduler.crossings.build import Built
from tests.scheduler.state_builder import StateBuilder
from tests.webhooks.object_fields import Kind, kinds, null_elements
from tests.webhooks.review_requests import encoded, read, review_of
from tests.webhooks.routing.test_object_costs import CONTROLLERS, REVIEWER, stored
from tools.testing.effort import count
from webhooks.routing.reviewer import ROUTES

Json = dict[str, Any]

KINDS = kinds()

NODE: Json = {
    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "4", "pods": "10"}},
}
WATCHED: dict[Resource, Json] = {
    NODES: NODE,
    PODS: {"spec": {"schedulerName": "muster-scheduler", "containers": [{"name": "c"}]}},
    PDBS: {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
    DAEMON_SETS: {},
    PVCS: {"spec": {"storageClassName": "s"}},
    PVS: {"spec": {"capacity": {"storage": "1Gi"}}},
    STORAGE_CLASSES: {"provisioner": "x"},
    CSI_NODES: {"spec": {"drivers": []}},
    DEVICE_CLASSES: {"spec": {}},
    RESOURCE_SLICES: {
        "spec": {
            "driver": "d",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "n",
            "devices": [{"name": "a"}],
        }
    },
    RESOURCE_CLAIMS: {
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "x"}}]}}
    },
    RESOURCE_CLAIM_TEMPLATES: {
        "spec": {
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "x"}}]}}
        }
    },
}


@pytest.mark.parametrize("name", KINDS)
def test_admission_and_the_controllers_take_it(name: str) -> None:
    kind = KINDS[name]
    marked = (
        kind._replace(base=stored(kind, kind.base)) if kind.name.plural in CONTROLLERS else kind
    )
    for extreme in list(null_elements(kind))[:: count(3, 1)]:
        for route in (it for it, said in ROUTES.items() if said.kind == kind.name):
            for old in (None, kind.base):
                review = review_of(kind.name, extreme.obj, old)
                read(REVIEWER.review(route, encoded(review)), review)
    for extreme in null_elements(marked):
        if kind.name.plural in CONTROLLERS:
            with suppress(msgspec.DecodeError):
                CONTROLLERS[kind.name.plural](extreme.obj)


@pytest.mark.parametrize("name", KINDS)
def test_simulate_takes_it_or_names_the_object(name: str) -> None:
    for extreme in list(null_elements(KINDS[name]))[:: count(20, 1)]:
        with pytest.raises(ConfigError, match=r"\[\d\]: Invalid value: null: set it, or remove it"):
            simulate(StateBuilder().state, [extreme.obj], "team", SearchBudget())


@cache
def schema_of(kind: str) -> Json:
    found: Json = inline(builtin.types(), kind)
    return found


def objects(resource: Resource) -> Iterator[tuple[str, Json]]:
    """Yield objects of a kind that the scheduler watches, with null in each list."""
    name = KindName(resource.group, resource.version, resource.plural, resource.kind)
    base = {"metadata": {"name": "a", "namespace": "team", "uid": "u"}} | WATCHED[resource]
    every = count(3, 1) if resource == PODS else 1
    for extreme in list(null_elements(Kind(name, schema_of(resource.kind), base)))[::every]:
        yield extreme.path, extreme.obj


@pytest.mark.parametrize("resource", WATCHED, ids=lambda it: it.kind)
def test_the_scheduler_takes_it_or_cannot_decode_it(resource: Resource) -> None:
    """An undecodable object is skipped, with an event; a handler must not fail half-way."""
    for path, obj in objects(resource):
        built = Built({})
        try:
            built.deliver(resource, obj)
        except (msgspec.DecodeError, NotUnderstoodError):
            continue
        except Exception as error:
            raise AssertionError(path) from error


@pytest.mark.parametrize("kind", [POD_GROUP, COMPOSITE_POD_GROUP], ids=lambda it: it.kind)
def test_the_scheduler_takes_it_in_groups(kind: KindName) -> None:
    for extreme in null_elements(next(it for it in KINDS.values() if it.name == kind)):
        with suppress(msgspec.DecodeError):
            Built({}).deliver(GROUPS[kind.kind], extreme.obj)
