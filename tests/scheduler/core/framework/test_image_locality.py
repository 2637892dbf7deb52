"""ImageLocality: points of nodes for the images that they have."""

from collections.abc import Mapping

import pytest

from tests.scheduler.state_builder import StateBuilder

MIB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "images", "want"),
    [
        pytest.param({}, ("web:1",), None, id="no node has the image"),
        pytest.param({"n0": {"web:1": 900}}, (), None, id="a pod without images"),
        # 900 MiB on one of two nodes counts as 450: (450 - 23) / (1000 - 23).
        pytest.param({"n0": {"web:1": 900}}, ("web:1",), [43, 0], id="on one of two nodes"),
        pytest.param(
            {"n0": {"web:1": 900}, "n1": {"web:1": 900}}, ("web:1",), [89, 89], id="on both"
        ),
        pytest.param({"n0": {"web:1": 46}}, ("web:1",), None, id="23 MiB or less do not count"),
        pytest.param({"n0": {"web:1": 9000}}, ("web:1",), [100, 0], id="at most 1000 MiB count"),
        # Each container counts, also with the same image: (900 - 23) / (2000 - 23).
        pytest.param({"n0": {"web:1": 900}}, ("web:1", "web:1"), [44, 0], id="twice"),
        # The image that is not there counts for the most that is possible.
        pytest.param({"n0": {"web:1": 900}}, ("web:1", "db:1"), [21, 0], id="one of two"),
    ],
)
def test_points(
    sizes: Mapping[str, Mapping[str, int]], images: tuple[str, ...], want: list[int] | None
) -> None:
    builder = StateBuilder()
    builder.nodes(2)
    for node, those in sizes.items():
        builder.state.set_images(node, [(name, size * MIB) for name, size in those.items()])

    found = builder.state.framework.plugins.image_locality.points(images)

    assert (None if found is None else found.tolist()) == want


def test_points_follow_the_images_and_the_number_of_nodes() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    points = builder.state.framework.plugins.image_locality.points
    builder.state.set_images("n0", [("web:1", 500 * MIB)])
    first = points(("web:1",))
    builder.node("n1")
    second = points(("web:1",))
    builder.state.remove_node("n0")

    assert first is not None
    assert second is not None
    assert (first.tolist(), second.tolist()) == ([48], [23, 0])
    assert points(("web:1",)) is None
