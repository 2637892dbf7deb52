"""VolumeBinding: the nodes that can use a bound volume."""

from typing import Any

import pytest

from scheduler.core.values.model import Expression, NodeTerm
from tests.scheduler.core.framework.cluster import (
    SSD,
    bound,
    cluster_in_zones,
    open_nodes,
    using,
    why,
)


@pytest.mark.parametrize(
    ("volume", "want", "reason"),
    [
        pytest.param({}, "a b c", "", id="a volume for all"),
        pytest.param(
            {"affinity": SSD},
            "a",
            "node(s) didn't match PersistentVolume's node affinity",
            id="node affinity by label",
        ),
        pytest.param(
            {"affinity": (NodeTerm((), (Expression("metadata.name", "In", ("b",)),)),)},
            "a b c",
            "",
            id="node affinity by a field, which volumes do not see",
        ),
    ],
)
def test_a_bound_claim(volume: dict[str, Any], want: str, reason: str) -> None:
    builder = cluster_in_zones()
    bound(builder, "data", **volume)

    info = builder.pod(requirements=using("data"))

    assert open_nodes(builder, info) == want
    assert why(builder, info) == ({reason} if reason else set())
