"""`muster simulate` of gangs whose pods are created in order: accepted by the feature gate."""

from typing import Any

import pytest

from analysis.simulate.simulate import simulate
from api import features
from api.features import Feature, FeatureGates
from kube.base.errors import ConfigError
from scheduler.core.search.place import SearchBudget
from tests.analysis.what_if.test_what_if import cluster
from tests.support.owners import job_template, make_jobset

Json = dict[str, Any]
ON = FeatureGates(features.USUAL.on | {Feature.EXPECTED_PODS})


def in_order(workers: int) -> Json:
    made = make_jobset("training").asks(gang_mode="Gang").in_order()
    made.replicated_job("driver", 1, job_template().pods(1, 1))
    return made.replicated_job("workers", 1, job_template().pods(workers, workers)).build()


def lines(workers: int, gates: FeatureGates) -> list[str]:
    made = in_order(workers)
    for replicated in made["spec"]["replicatedJobs"]:
        spec = replicated["template"]["spec"]["template"]["spec"]
        spec["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    state = cluster(racks=1, nodes=1, cpu=4).state
    return simulate(state, [made], "default", SearchBudget(), gates=gates).lines


def test_the_whole_is_placed_or_waits() -> None:
    """The first pods get nodes at once, and the others held places."""
    _, *placed = lines(3, ON)
    held = "    held places for pods that do not exist yet: r1-1 x3"
    assert placed == ["  fits: r1-1 x1", held]
    assert any("needs capacity for" in line for line in lines(4, ON))


def test_without_the_gate_it_is_refused_as_at_admission() -> None:
    with pytest.raises(ConfigError, match="startupPolicyOrder"):
        lines(3, features.USUAL)
