"""VolumeBinding: the existing volume for a claim that waits for its first consumer."""

from typing import Any

import pytest

from scheduler.core.values.model import Expression
from tests.scheduler.core.framework.cluster import (
    DATA,
    HOST,
    assumed_volumes,
    claim,
    cluster_of,
    disk,
    open_nodes,
    run,
    user,
)
from tests.scheduler.state_builder import GIB


@pytest.mark.parametrize(
    ("volume", "wants", "fits"),
    [
        pytest.param({}, {}, True, id="as large as asked"),
        pytest.param({"size": 3 * GIB}, {}, True, id="larger"),
        pytest.param({"size": GIB}, {}, False, id="smaller"),
        pytest.param({"storage_class": "other"}, {}, False, id="of another class"),
        pytest.param({"access": ("ReadOnlyMany",)}, {}, False, id="without the access mode"),
        pytest.param(
            {}, {"access": ("ReadOnlyMany", "ReadWriteOnce")}, False, id="with one of two modes"
        ),
        pytest.param({"mode": "Block"}, {}, False, id="a Block volume for a Filesystem claim"),
        pytest.param(
            {"mode": "Block"}, {"mode": "Block"}, True, id="a Block volume for a Block claim"
        ),
        pytest.param({"attributes": "fast"}, {}, False, id="of another attributes class"),
        pytest.param(
            {"attributes": "fast"}, {"attributes": "fast"}, True, id="of the same attributes class"
        ),
        pytest.param({}, {"selector": (Expression("tier", "In", ("gold",)),)}, True, id="selected"),
        pytest.param(
            {}, {"selector": (Expression("tier", "NotIn", ("gold",)),)}, False, id="not selected"
        ),
        pytest.param({"available": False}, {}, False, id="not available yet"),
        pytest.param({"terminating": True}, {}, False, id="terminating"),
        pytest.param({"claim": ("ns", "other")}, {}, False, id="meant for another claim"),
        pytest.param({"claim": DATA, "available": False}, {}, True, id="meant for the claim"),
        pytest.param(
            {"claim": DATA, "claim_uid": "u-data"}, {}, True, id="meant for the claim with this uid"
        ),
        pytest.param(
            {"claim": DATA, "claim_uid": "old"},
            {},
            False,
            id="meant for an earlier claim of that name",
        ),
        pytest.param({"claim": DATA, "size": GIB}, {}, False, id="meant for it and too small"),
        pytest.param(
            {"claim": DATA, "storage_class": "other"},
            {},
            False,
            id="meant for it, of another class",
        ),
        pytest.param(
            {"claim": DATA, "access": (), "labels": {}},
            {"selector": (Expression("tier", "Exists", ()),)},
            True,
            id="meant for it, whatever its modes and labels",
        ),
        pytest.param(
            {"claim": DATA, "terminating": True}, {}, False, id="meant for it and terminating"
        ),
        pytest.param(
            {},
            {"requested_volume": "disk"},
            False,
            id="named by the claim: left to the volume controller",
        ),
    ],
)
def test_which_volume_will_do(volume: dict[str, Any], wants: dict[str, Any], fits: bool) -> None:
    builder = cluster_of()
    disk(builder, "disk", "b", **volume)
    claim(builder, **wants)

    info = user(builder, "data")

    assert open_nodes(builder, info) == ("b" if fits else "")
    assert run(builder, info) == ("b" if fits else "")
    assert assumed_volumes(builder) == ({"data": ("disk", "b")} if fits else {})


def test_a_volume_is_found_where_it_is_once_its_node_or_label_comes() -> None:
    builder = cluster_of("a")
    disk(builder, "disk", "late")
    claim(builder)
    info = user(builder, "data")
    seen = [open_nodes(builder, info)]
    builder.node("late", labels={HOST: "late"})
    seen.append(open_nodes(builder, info))
    builder.node("a", labels={HOST: "late"})
    seen.append(open_nodes(builder, info))
    builder.state.remove_node("late")
    seen.append(open_nodes(builder, info))

    assert seen == ["", "late", "a late", "a"]


def test_a_volume_that_is_made_again_elsewhere_is_found_there() -> None:
    builder = cluster_of()
    disk(builder, "disk", "a")
    claim(builder)
    info = user(builder, "data")
    seen = [open_nodes(builder, info)]
    builder.state.volumes.remove_volume("disk")
    disk(builder, "disk", "b")

    assert [*seen, open_nodes(builder, info)] == ["a", "b"]


@pytest.mark.parametrize(
    ("volumes", "want"),
    [
        pytest.param({"big": {"size": 9 * GIB}, "small": {}}, "small", id="the smallest"),
        pytest.param({"z": {}, "y": {}}, "y", id="by name among equals"),
        pytest.param(
            {"small": {}, "own": {"size": 9 * GIB, "claim": DATA}}, "own", id="its own first"
        ),
    ],
)
def test_of_several_volumes(volumes: dict[str, dict[str, Any]], want: str) -> None:
    builder = cluster_of()
    for name, fields in volumes.items():
        disk(builder, name, "b", **fields)
    claim(builder)

    run(builder, user(builder, "data"))

    assert assumed_volumes(builder) == {"data": (want, "b")}


def test_a_volume_meant_for_the_claim_excludes_all_others() -> None:
    builder = cluster_of()
    disk(builder, "own", "a", claim=DATA)
    disk(builder, "other", "b")
    claim(builder)

    assert open_nodes(builder, user(builder, "data")) == "a"
