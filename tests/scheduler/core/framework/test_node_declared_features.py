"""NodeDeclaredFeatures: a node declares the features that a pod needs (KEP-5328)."""

import pytest

from scheduler.core.explain.explain import reasons
from scheduler.core.framework.node_declared_features import REASON
from scheduler.core.search.place import Placement
from scheduler.core.values.model import NodeInfo, PodInfo, Release
from tests.scheduler.core.framework.cluster import wants
from tests.scheduler.state_builder import StateBuilder

RESTART, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"


def permitted(features: tuple[str, ...], release: Release = (1, 37)) -> str:
    """Return the names of the nodes that take a pod which needs these features."""
    builder = StateBuilder()
    state = builder.state
    state.set_release(release)
    for name, declared in (("a", ()), ("b", (RESTART,)), ("c", (RESTART, USERS))):
        amounts = {"cpu": 4000, "memory": 1 << 33, "pods": 110}
        state.set_node(NodeInfo(name, amounts, declared_features=declared))
    pod = builder.single(builder.pod(requirements=wants(declared_features=features)))
    rows = state.framework.permitted(pod.shape).nonzero()[0].tolist()
    return " ".join(state.nodes.name_of(row) for row in rows)


@pytest.mark.parametrize(
    ("features", "release", "want"),
    [
        pytest.param((), (1, 37), "a b c", id="needs none"),
        pytest.param((RESTART,), (1, 37), "b c", id="one"),
        pytest.param((USERS,), (1, 36), "c", id="the other"),
        pytest.param((RESTART, USERS), (1, 37), "c", id="both"),
        pytest.param(("Unknown",), (1, 37), "", id="no node declares it"),
        pytest.param((RESTART, USERS), (1, 35), "a b c", id="the filter is off before 1.36"),
    ],
)
def test_permitted_nodes(features: tuple[str, ...], release: Release, want: str) -> None:
    assert permitted(features, release) == want


def refused(builder: StateBuilder, pod: PodInfo) -> bool:
    return not isinstance(builder.place_single(pod), Placement)


def test_a_kubelet_that_begins_to_declare_a_feature_takes_the_pod() -> None:
    builder = StateBuilder()
    node = builder.node("a")
    pod = builder.pod(requirements=wants(declared_features=(RESTART,)))
    assert refused(builder, pod)
    assert dict(reasons(builder.state.framework, builder.single(pod).shape)) == {REASON: 1}

    builder.state.take_changes()
    builder.state.set_node(NodeInfo(node.name, node.allocatable, declared_features=(RESTART,)))

    assert builder.state.take_changes()
    assert not refused(builder, pod)


def test_an_upgraded_api_server_turns_the_filter_on_for_waiting_pods() -> None:
    builder = StateBuilder()
    builder.node("a")
    builder.state.set_release((1, 35))
    pod = builder.pod(requirements=wants(declared_features=(RESTART,)))
    assert not refused(builder, pod)

    builder.state.set_release((1, 36))

    assert refused(builder, pod)
