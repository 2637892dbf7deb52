"""VolumeRestrictions: a ReadWriteOncePod claim is used by one pod at a time."""

from __future__ import annotations

from scheduler.core.place import Placement
from scheduler.core.plugins.volume_restrictions import REASON as ONE_POD
from tests.scheduler.core.plugins.cluster import (
    bound,
    cluster_in_zones,
    open_nodes,
    using,
    why,
)


def test_a_claim_for_one_pod_is_used_once() -> None:
    builder = cluster_in_zones()
    bound(builder, "data", one_pod=True)
    user = builder.pod(node="c", requirements=using("data"), ours=False)
    info = builder.pod(requirements=using("data"))
    before = (open_nodes(builder, info), why(builder, info))
    builder.state.remove_pod(user.uid)

    assert before == (
        "",
        {ONE_POD},
    )
    assert open_nodes(builder, info) == "a b c"


def test_two_members_do_not_share_a_claim_for_one_pod() -> None:
    builder = cluster_in_zones()
    bound(builder, "data", one_pod=True)
    builder.gang("g", 1)
    for _ in range(2):
        builder.pod("g", requirements=using("data"))

    decision = builder.place("g")

    assert isinstance(decision, Placement)
    assert len(decision.pods) == 1
