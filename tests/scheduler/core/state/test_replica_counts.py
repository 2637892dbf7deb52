"""Replicas by node: of controllers, of Services, and the bounds of their cost."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from scheduler.core.state.replica_counts import MOST_COUNTED, MOST_SERVICES, Replicas
from scheduler.core.values.model import PodInfo
from tests.scheduler.state_builder import StateBuilder

WEB: Mapping[str, str] = {"app": "web"}


def controlled(builder: StateBuilder, **changes: object) -> PodInfo:
    info = replace(builder.pod(node=str(changes.pop("on", ""))), controller="rs", **changes)  # type: ignore[arg-type]
    builder.state.set_pod(info)
    return info


def there(builder: StateBuilder, replicas: Replicas = "rs") -> dict[str, int]:
    found = builder.state.replicas.on_nodes(replicas)
    assert found is not None
    return dict(found)


def selected(builder: StateBuilder, *services: Mapping[str, str]) -> None:
    for number, selector in enumerate(services):
        builder.state.replicas.set_service(("ns", f"s{number}"), selector)


def test_pods_count_as_they_come_and_go() -> None:
    builder = StateBuilder()
    builder.nodes(2)
    first, second = controlled(builder, on="n0"), controlled(builder, on="n0")
    waiting = controlled(builder)
    assert there(builder) == {"n0": 2}

    builder.state.assume([builder.single(waiting)], [1])
    builder.state.set_pod(replace(first, terminating=True))
    assert there(builder) == {"n0": 1, "n1": 1}

    builder.state.forget(waiting.uid)
    builder.state.remove_pod(second.uid)
    assert there(builder) == {}
    assert len(builder.state.replicas) == 0


def test_a_pod_counts_before_its_node_is_known() -> None:
    builder = StateBuilder()
    controlled(builder, on="later")
    builder.node("later")

    assert there(builder) == {"later": 1}


def test_a_finished_pod_does_not_count() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    builder.gang("g", 1)
    controlled(builder, on="n0", group="g", phase="Succeeded")

    assert there(builder) == {}


def test_a_discarded_pod_does_not_count() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    first = controlled(builder, on="n0")
    controlled(builder, on="n0")

    builder.state.discard_pod(first.uid)

    assert there(builder) == {"n0": 1}


@pytest.mark.parametrize(
    ("services", "want"),
    [
        pytest.param([], None, id="no Service"),
        pytest.param([WEB], (("app", "web"),), id="one Service"),
        pytest.param([WEB, WEB], (("app", "web"),), id="two alike"),
        pytest.param([WEB, {"tier": "1"}], (("app", "web"), ("tier", "1")), id="merged"),
        pytest.param([{"app": "db"}, {"tier": "2"}, {}], None, id="Services of other pods"),
        pytest.param(
            [{"app": "web", "tier": "2"}, {"app": "web", "tier": "1"}],
            (("app", "web"), ("tier", "1")),
            id="all labels of a selector",
        ),
    ],
)
def test_the_services_of_a_pod(
    services: list[Mapping[str, str]], want: tuple[tuple[str, str], ...] | None
) -> None:
    builder = StateBuilder()
    selected(builder, *services)
    info = builder.pod(labels={"app": "web", "tier": "1", "other": "x"})

    found = builder.state.replicas.replicas_of(info)

    assert found == (None if want is None else ("ns", want))


def test_a_controller_goes_before_services() -> None:
    builder = StateBuilder()
    selected(builder, WEB)

    info = replace(builder.pod(labels=WEB), controller="rs")

    assert builder.state.replicas.replicas_of(info) == "rs"


def test_pods_of_a_service_are_counted_once_it_is_needed_and_then_kept() -> None:
    builder = StateBuilder()
    builder.nodes(2)
    web: Replicas = ("ns", (("app", "web"),))
    first = builder.pod(node="n0", labels=WEB)
    builder.pod(node="n0", labels=WEB, namespace="elsewhere")
    assert there(builder, web) == {"n0": 1}

    builder.pod(node="n1", labels=WEB)
    builder.state.remove_pod(first.uid)
    assert there(builder, web) == {"n1": 1}

    # Labels change in place.
    last = builder.pod(node="n0")
    builder.state.set_pod(replace(last, labels=WEB))
    assert there(builder, web) == {"n0": 1, "n1": 1}


def test_a_changed_or_deleted_service_leaves_nothing() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    builder.pod(node="n0", labels=WEB)
    selected(builder, WEB)
    assert there(builder, ("ns", (("app", "web"),))) == {"n0": 1}

    selected(builder, {"app": "db"})
    assert dict(builder.state.replicas.services) == {("ns", "s0"): (("app", "db"),)}
    builder.state.replicas.remove_service(("ns", "s0"))

    assert len(builder.state.replicas) == 0


# One namespace must not slow others.


class Watched(dict[str, str]):
    """Labels that count how often they are compared."""

    compared = 0

    def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
        type(self).compared += 1
        return super().get(key, default)


def test_thousands_of_services_cost_a_pod_a_bounded_number_of_comparisons() -> None:
    builder = StateBuilder()
    for number in range(3_000):
        builder.state.replicas.set_service(("ns", f"s{number}"), {"app": "web", f"x{number}": "1"})
    labels = Watched({"app": "web", "tier": "1", **{f"x{number}": "1" for number in range(20)}})
    info = replace(builder.pod(), labels=labels)
    Watched.compared = 0

    builder.state.replicas.replicas_of(info)

    # Each of the pod's labels may lead to as many Services.
    assert Watched.compared <= 2 * MOST_SERVICES * len(labels)


def test_services_of_one_namespace_are_not_compared_with_pods_of_another() -> None:
    builder = StateBuilder()
    selected(builder, *({"app": "web", f"x{number}": "1"} for number in range(1_000)))
    info = replace(builder.pod(namespace="quiet"), labels=Watched(WEB))
    Watched.compared = 0

    assert builder.state.replicas.replicas_of(info) is None
    assert Watched.compared == 0


def test_only_so_many_selectors_of_a_namespace_are_counted() -> None:
    builder = StateBuilder()
    replicas = builder.state.replicas
    for number in range(MOST_COUNTED):
        assert replicas.on_nodes(("ns", (("n", str(number)),))) == {}

    assert replicas.on_nodes(("ns", (("n", "more"),))) is None
    assert replicas.on_nodes(("quiet", (("n", "more"),))) == {}
    # Those that are counted stay.
    assert replicas.on_nodes(("ns", (("n", "0"),))) == {}
