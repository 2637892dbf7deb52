"""NodeUnschedulable: cordoned nodes fit only pods that tolerate the cordon's taint."""

import pytest

from scheduler.core.values.model import Requirements, Toleration
from tests.scheduler.core.framework.cluster import permitted_nodes, wants


@pytest.mark.parametrize(
    ("requirements", "want_nodes"),
    [
        pytest.param(wants(), "a b c", id="a plain pod avoids cordoned and tainted nodes"),
        pytest.param(
            wants(tolerations=(Toleration("node.kubernetes.io/unschedulable", "Exists", "", ""),)),
            "a b c cordoned",
            id="a cordon can be tolerated",
        ),
    ],
)
def test_permitted_nodes(requirements: Requirements, want_nodes: str) -> None:
    assert permitted_nodes(requirements) == want_nodes.split()
