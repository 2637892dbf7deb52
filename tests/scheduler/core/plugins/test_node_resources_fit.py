"""NodeResourcesFit: what pods request against what nodes have free."""

from __future__ import annotations

import pytest

from scheduler.core.explain import reasons
from scheduler.core.model import Requirements
from tests.scheduler.state_builder import StateBuilder, requests


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
