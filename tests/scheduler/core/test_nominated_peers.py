"""Required peers must exist without nominated pods too, because these may never run."""

import pytest

from scheduler.core.search.place import Refusal
from scheduler.core.values.model import Expression, PodSelector, PodTerm, Requirements, Spread
from tests.scheduler.state_builder import StateBuilder, requests

WEB = PodSelector((Expression("app", "In", ("web",)),), ("ns",))


def two_zones() -> StateBuilder:
    """Create node n0 in zone z0, n1 in z1."""
    builder = StateBuilder()
    for at in range(2):
        builder.node(f"n{at}", labels={"zone": f"z{at}"})
    return builder


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("itself", [False, True])
def test_a_nominated_pod_is_no_peer_that_affinity_needs(runs: bool, itself: bool) -> None:
    builder, web = two_zones(), {"app": "web"}
    nominated = builder.pod(labels=web)
    if runs:
        builder.pod(labels=web, node="n1")
    wants = Requirements(requests(1), required_affinity=(PodTerm(WEB, "zone"),))
    pod = builder.pod(requirements=wants, labels=web if itself else {})
    builder.nominate(builder.single(nominated), "n1")
    decision = builder.place_single(pod)
    if runs or itself:
        assert builder.where(decision) == {pod.name: "n1"}
    else:
        assert isinstance(decision, Refusal)


def test_a_nominated_pod_makes_no_domain_less_empty_for_spread() -> None:
    builder, web = two_zones(), {"app": "web"}
    builder.pod(labels=web, node="n0")
    nominated = builder.pod(labels=web)
    wants = Requirements(requests(1), spread=(Spread(WEB, "zone"),))
    pod = builder.pod(requirements=wants, labels=web)
    builder.nominate(builder.single(nominated), "n1")
    assert builder.where(builder.place_single(pod)) == {pod.name: "n1"}
