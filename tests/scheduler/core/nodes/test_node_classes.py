"""The nodes that share a class, and changes of a node's class."""

from tests.scheduler.core.framework.cluster import wants
from tests.scheduler.state_builder import StateBuilder


def test_a_relabelled_node_is_filtered_again() -> None:
    builder = StateBuilder()
    builder.node("n", labels={"zone": "x"})
    shape = builder.state.shapes.intern(wants(selector=(("zone", "y"),)))
    before = int(builder.state.framework.slots(shape).sum())
    builder.node("n", labels={"zone": "y"})

    assert (before, int(builder.state.framework.slots(shape).sum())) == (0, 4)


def test_labels_that_no_pod_asks_for_make_no_classes() -> None:
    builder = StateBuilder()
    for index in range(100):
        builder.node(f"n{index}", labels={"kubernetes.io/hostname": f"n{index}"})

    assert len(builder.state.nodes.classes.all) == 1
