"""The pools that a node can access, and the usable ones among them."""

import pytest

from scheduler.core.values.devices import NodeScope, SliceInfo
from tests.scheduler.core.devices.solving import view_of
from tests.scheduler.devices.builders import device, pool

RACK = NodeScope(terms=())
"""The scope of nodes selected by label; the test decides if `n` is among them."""
A, B = device("a"), device("b")


@pytest.mark.parametrize(
    ("slices", "want", "flaws"),
    [
        pytest.param([pool(A)], "a", "", id="a pool of the node"),
        pytest.param([pool(A, node="m", pool="m")], "", "", id="a pool of another node"),
        pytest.param([pool(A, scope=RACK)], "a", "", id="a pool for nodes by label"),
        pytest.param([pool(A, scope=NodeScope(everywhere=True))], "a", "", id="for all nodes"),
        pytest.param(
            [pool(device("a", node="n"), device("b", node="m"), per_device=True)],
            "a",
            "",
            id="each device for its own node",
        ),
        pytest.param(
            [pool(A, name="1", slices=2), pool(B, name="2", slices=2)], "a b", "", id="two slices"
        ),
        pytest.param([pool(A, slices=2)], "", "being updated", id="one of two slices"),
        pytest.param(
            [pool(A, name="1", slices=2), pool(B, name="2", slices=2, node="m")],
            "a",
            "",
            id="the other is for another node",
        ),
        pytest.param(
            [pool(A, name="1"), pool(B, name="2", generation=2)], "b", "", id="a newer generation"
        ),
        pytest.param(
            [pool(A, name="1", slices=2), pool(B, name="2", node="m", generation=2, slices=2)],
            "",
            "",
            id="a newer one elsewhere, and slices are missing: the old ones are ignored",
        ),
        pytest.param(
            [pool(A, name="1"), pool(B, name="2", node="m", generation=2)],
            "a",
            "",
            id="a newer one elsewhere, and none is missing: nobody looks further",
        ),
        pytest.param(
            [pool(A, name="1", slices=2), pool(device("a"), name="2", slices=2)],
            "",
            "invalid",
            id="a name twice",
        ),
        pytest.param(
            [pool(A, name="1", slices=2), pool(device("a"), name="2", slices=2, node="m")],
            "a",
            "",
            id="a name twice, which the node does not see",
        ),
        pytest.param(
            [
                pool(device("a", uses={"x": {"c": 1}}), name="1", slices=3),
                pool(name="2", slices=3, counters={"x": {"c": 1}}),
                pool(name="3", slices=3, counters={"x": {"c": 1}}),
            ],
            "",
            "invalid",
            id="a counter set twice",
        ),
        pytest.param(
            [
                pool(device("a", uses={"x": {"d": 1}}), name="1", slices=2),
                pool(name="2", slices=2, counters={"x": {"c": 1}}),
            ],
            "",
            "invalid",
            id="a counter that is not in the set",
        ),
        pytest.param(
            [
                pool(device("a", uses={"x": {"c": 1}}), name="1", slices=3),
                pool(device("b", uses={"y": {"c": 1}}), name="2", slices=3, node="m"),
                pool(name="3", slices=3, counters={"x": {"c": 1}}),
            ],
            "",
            "invalid",
            id="a counter set that only a device of another node looks for",
        ),
        pytest.param(
            [pool(A), pool(B, pool="other", slices=2)],
            "a",
            "being updated",
            id="another pool is incomplete",
        ),
    ],
)
def test_pools(slices: list[SliceInfo], want: str, flaws: str) -> None:
    view = view_of(slices, inside=[RACK])

    seen = [key[2] for at, key in enumerate(view.keys) if view.visible >> at & 1]
    found = [
        "being updated" if pool.incomplete else "invalid" for pool in view.pools if not pool.usable
    ]
    assert (" ".join(seen), " ".join(found)) == (want, flaws)


READY = device("r", binding=["Ready"])


@pytest.mark.parametrize(
    ("slices", "want"),
    [
        pytest.param(
            [pool(READY, pool="1"), pool(A, pool="2")], "2 1", id="tried after the others"
        ),
        pytest.param(
            [pool(READY, pool="1", slices=2), pool(A, pool="2", slices=2)],
            "1 2",
            id="named in its place, where it gives no devices",
        ),
        pytest.param(
            [
                pool(A, name="1", pool="1", slices=3),
                pool(READY, name="2", pool="1", slices=3, node="m"),
                pool(name="3", pool="1", slices=3, counters={"x": {"c": 1}}),
                pool(B, pool="2"),
            ],
            "1 2",
            id="tried in its place, where only another node sees the device",
        ),
    ],
)
def test_a_pool_with_binding_conditions(slices: list[SliceInfo], want: str) -> None:
    assert " ".join(pool.key[1] for pool in view_of(slices).pools) == want
