"""NodeName: a pod that names its node is placed there."""

import pytest

from scheduler.core.values.model import Requirements
from tests.scheduler.core.framework.cluster import permitted_nodes, wants


@pytest.mark.parametrize(
    ("requirements", "want_nodes"),
    [
        pytest.param(wants(node_name="b"), "b", id="nodeName leaves one node"),
    ],
)
def test_permitted_nodes(requirements: Requirements, want_nodes: str) -> None:
    assert permitted_nodes(requirements) == want_nodes.split()
