"""Several owners in one tree, in a simulation (6012-010)."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.simulate.simulate import simulate
from kube.base.errors import ConfigError
from scheduler.core.search.place import SearchBudget
from tests.cli.commands.test_solver_commands import pod_spec
from tests.scheduler.state_builder import StateBuilder
from tests.support.apps import deployment, stateful_set
from tests.support.lws import make_lws
from tests.support.owners import job_template, make_job, make_jobset

Json = dict[str, Any]


def app(obj: Json) -> Json:
    obj["spec"]["template"]["spec"] = pod_spec()
    return obj


def prefill(tree: str = "serve=2", pods: int = 2) -> Json:
    return app(stateful_set("prefill", pods, gang_mode="Gang", tree=tree))


def decode(tree: str = "serve=2", pods: int = 2) -> Json:
    return app(deployment("decode", pods, gang_mode="Gang", tree=tree))


def simulated(documents: list[Json], cpu: int) -> list[str]:
    state = StateBuilder()
    state.nodes(1, cpu=cpu)
    return simulate(state.state, documents, "default", SearchBudget()).lines


def test_owners_of_a_tree_are_decided_together() -> None:
    lines = simulated([prefill(), decode()], cpu=4)
    assert lines[0].startswith("CompositePodGroup default/tree-serve:")
    assert "  fits: n0 x4" in lines


def test_none_fits_if_one_does_not() -> None:
    lines = simulated([prefill(), decode()], cpu=3)
    assert not any("  fits" in line for line in lines)
    assert any("Insufficient cpu" in line for line in lines)


def test_an_owner_waits_for_others() -> None:
    lines = simulated([prefill()], cpu=4)
    assert not any("fits" in line for line in lines)
    assert any("The group has 1 of 2 child groups." in line for line in lines)


def test_other_kinds_are_below_the_root() -> None:
    lws = make_lws("l").replicas(2, 2).worker(**pod_spec())
    template = job_template().pods(2)
    jobset = make_jobset("s").asks(gang_mode="Composite", tree="serve=3")
    documents = [
        lws.asks(gang_mode="Gang", tree="serve=3").to_create(),
        jobset.replicated_job("w", 1, template).build() | {"kind": "JobSet"},
        make_job("j").pods(2).asks(gang_mode="Gang", tree="serve=3").build() | {"kind": "Job"},
    ]
    lines = simulated(documents, cpu=16)
    assert [line.partition(":")[0] for line in lines if not line.startswith(" ")] == [
        "CompositePodGroup default/tree-serve"
    ]


def test_owners_of_a_tree_agree() -> None:
    with pytest.raises(ConfigError, match="tree-serve: the owners of a tree need the same"):
        simulated([prefill(), decode("serve=1")], cpu=4)


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    minimum=st.integers(1, 4),
    cpu=st.integers(1, 10),
)
def test_as_many_owners_start_as_the_tree_asks_for_or_none(
    sizes: list[int], minimum: int, cpu: int
) -> None:
    made = [
        app(
            (deployment if at % 2 else stateful_set)(
                f"o{at}", pods, gang_mode="Gang", tree=f"serve={minimum}"
            )
        )
        for at, pods in enumerate(sizes)
    ]
    builder = StateBuilder()
    builder.nodes(1, cpu=cpu)
    simulate(builder.state, made, "default", SearchBudget())

    placed = Counter(
        pod.info.name.partition("-")[0] for pod in builder.state.pods.values() if pod.placed
    )
    assert all(placed[f"o{at}"] in (0, pods) for at, pods in enumerate(sizes))
    # Pods are equal, so the smallest owners fit if any do.
    fits = len(sizes) >= minimum and sum(sorted(sizes)[:minimum]) <= cpu
    assert (len(placed) >= minimum) == fits
    assert fits or not placed
