"""Routing from a webhook's Service to its ready endpoints."""

from typing import Any

from localcluster.admission.routing import Routing
from localcluster.base import resources
from localcluster.base.store import Store

SERVICE = ("system", "hooks")
SLICES = resources.ENDPOINT_SLICES.collection


def slice_of(
    name: str, port: int, *, ready: bool | None = True, service: str = "hooks"
) -> dict[str, Any]:
    conditions = {} if ready is None else {"ready": ready}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": "system",
            "labels": {"kubernetes.io/service-name": service},
        },
        "ports": [{"name": "https", "port": port}],
        "endpoints": [{"addresses": ["192.0.2.2"], "conditions": conditions}],
    }


def routing(*slices: dict[str, Any], namespace: str = "system") -> Routing:
    store = Store(history=10)
    for one in slices:
        store.create(SLICES, (namespace, one["metadata"]["name"]), one)
    return Routing(store, {("system", "other"): ("127.0.0.1", 1)})


def test_the_endpoints_that_are_ready_take_turns() -> None:
    found = routing(slice_of("a", 1), slice_of("b", 2, ready=False), slice_of("c", 3, ready=None))

    assert [found.get(SERVICE) for _ in range(4)] == [
        ("192.0.2.2", 1),
        ("192.0.2.2", 3),
        ("192.0.2.2", 1),
        ("192.0.2.2", 3),
    ]


def test_a_service_without_ready_endpoints_is_nowhere() -> None:
    assert routing().get(SERVICE) is None
    assert routing(slice_of("a", 1, ready=False)).get(SERVICE) is None
    assert routing(slice_of("a", 1, service="x")).get(SERVICE) is None
    assert routing(slice_of("a", 1), namespace="elsewhere").get(SERVICE) is None


def test_a_stand_in_comes_before_endpoints() -> None:
    assert routing(slice_of("a", 1, service="other")).get(("system", "other")) == ("127.0.0.1", 1)
