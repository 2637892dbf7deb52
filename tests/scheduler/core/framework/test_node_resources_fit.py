"""NodeResourcesFit: pods' requests compared to nodes' free resources."""

import numpy as np
import pytest

from scheduler.core.explain.explain import reasons
from scheduler.core.framework.node_resources_fit import usage_at, used_with
from scheduler.core.values.model import Requirements
from tests.scheduler.state_builder import GIB, StateBuilder, requests


@pytest.mark.parametrize(
    ("amounts", "want"),
    [
        pytest.param(requests(8), "Insufficient cpu", id="too few cores"),
        pytest.param(requests(1, gpu=1), "Insufficient gpu", id="a resource no node has"),
        pytest.param(requests(0), "Too many pods", id="only the pod count without requests"),
    ],
)
def test_reasons_name_the_resource(amounts: tuple[tuple[str, int], ...], want: str) -> None:
    builder = StateBuilder()
    builder.nodes(3)

    found = reasons(builder.state.framework, builder.state.shapes.intern(Requirements(amounts)))

    assert found == ((want, 3),)


def test_the_pod_count_is_a_resource() -> None:
    builder = StateBuilder()
    builder.node("n", pods=1)
    builder.pod(node="n", requirements=Requirements())
    shape = builder.state.shapes.intern(Requirements())

    assert reasons(builder.state.framework, shape) == (("Too many pods", 1),)


def test_utilisation_is_the_mean_over_the_requested_resources() -> None:
    """A quarter of the cpu and three quarters of the memory are in use: half."""
    builder = StateBuilder()
    builder.node("n", cpu=4)
    builder.pod(node="n", requirements=Requirements(requests(1, memory=48 * GIB)))
    shape = builder.state.shapes.intern(Requirements(requests(1, memory=16 * GIB)))

    used, step = usage_at(shape, builder.state.nodes, np.array([0]))

    assert (used.tolist(), step.tolist()) == ([500], [250])
    assert used_with(shape, builder.state.nodes, 0, 1) == 750
