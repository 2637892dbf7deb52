"""NodePorts: host ports, by protocol and address."""

import pytest

from scheduler.core.explain.explain import reasons
from scheduler.core.values.model import Requirements
from tests.scheduler.core.framework.cluster import TWO_EACH, open_nodes, port, racks_of_gang, wants
from tests.scheduler.state_builder import StateBuilder


@pytest.mark.parametrize(
    ("there", "here", "want"),
    [
        pytest.param(port(), port(), "n", id="one port, one node"),
        pytest.param(port(), port(81), "m n", id="another port"),
        pytest.param(port(), port(protocol="UDP"), "m n", id="another protocol"),
        pytest.param(port(), port(address="10.0.0.1"), "n", id="all addresses are taken"),
        pytest.param(port(address="10.0.0.1"), port(), "n", id="one of all addresses is taken"),
        pytest.param(
            port(address="10.0.0.1"), port(address="10.0.0.2"), "m n", id="another address"
        ),
        pytest.param(port(address="10.0.0.1"), port(address="10.0.0.1"), "n", id="same address"),
        pytest.param(port(), wants(), "m n", id="no port"),
    ],
)
def test_host_ports(there: Requirements, here: Requirements, want: str) -> None:
    builder = StateBuilder()
    builder.node("m")
    builder.pod(node="m", requirements=there, ours=False)
    builder.node("n")

    info = builder.pod(requirements=here)

    assert open_nodes(builder, info) == want


def test_taken_ports_are_a_reason_of_their_own() -> None:
    builder = StateBuilder()
    builder.node("n")
    builder.pod(node="n", requirements=port())
    info = builder.pod(requirements=port())

    assert reasons(builder.state.framework, builder.single(info).shape) == (
        ("node(s) didn't have free ports for the requested pod ports", 1),
    )


@pytest.mark.parametrize(
    ("requirements", "count", "want"),
    [
        pytest.param(port(), 6, TWO_EACH, id="a port each"),
        pytest.param(port(), 7, None, id="more ports than nodes"),
    ],
)
def test_members_of_a_gang_count_for_each_other(
    requirements: Requirements, count: int, want: list[str] | None
) -> None:
    assert racks_of_gang(requirements, count) == want
