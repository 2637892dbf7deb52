"""VolumeZone: volumes with zone labels are used only in those zones."""

from typing import Any

import pytest

from tests.scheduler.core.framework.cluster import (
    ZONE,
    bound,
    cluster_in_zones,
    open_nodes,
    using,
    why,
)


@pytest.mark.parametrize(
    ("volume", "want", "reason"),
    [
        pytest.param(
            {"labels": {ZONE: "x"}},
            "a c",
            "node(s) had no available volume zone",
            id="a zone, which nodes without zones are in as well",
        ),
        pytest.param({"labels": {ZONE: "x__y"}}, "a b c", "", id="two zones"),
    ],
)
def test_a_bound_claim(volume: dict[str, Any], want: str, reason: str) -> None:
    builder = cluster_in_zones()
    bound(builder, "data", **volume)

    info = builder.pod(requirements=using("data"))

    assert open_nodes(builder, info) == want
    assert why(builder, info) == ({reason} if reason else set())
