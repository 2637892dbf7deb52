"""The status of a PodDisruptionBudget."""

from typing import Any

import pytest

from localcluster.base.clock import timestamp
from localcluster.controllers.disruption import budget_status
from localcluster.tests.controllers.builders import Obj, at, make_pod

NOW = at(100)


def pdb(**spec: Any) -> Obj:
    return {"metadata": {"name": "guard", "namespace": "default", "generation": 3}, "spec": spec}


def healthy(count: int) -> list[Obj]:
    return [make_pod(f"p{i}", phase="Running", ready=True) for i in range(count)]


@pytest.mark.parametrize(
    ("spec", "pods", "scale", "want"),
    [
        pytest.param({"minAvailable": 2}, healthy(3), {}, (1, 3, 2, 3), id="one more than needed"),
        pytest.param({"minAvailable": 3}, healthy(3), {}, (0, 3, 3, 3), id="none to spare"),
        pytest.param(
            {"minAvailable": 1},
            [*healthy(1), make_pod("pending")],
            {},
            (0, 1, 1, 2),
            id="a pod that is not ready is not healthy",
        ),
        pytest.param(
            {"minAvailable": 1},
            [*healthy(1), make_pod("going", phase="Running", ready=True, deleted_at=90)],
            {},
            (0, 1, 1, 2),
            id="a pod being deleted is not healthy",
        ),
        pytest.param(
            {"maxUnavailable": 1}, healthy(3), {"job": 4}, (0, 3, 3, 4), id="one is missing already"
        ),
        pytest.param(
            {"maxUnavailable": "50%"}, healthy(4), {"job": 4}, (2, 4, 2, 4), id="half may go"
        ),
        pytest.param(
            {"minAvailable": "30%"},
            healthy(4),
            {"job": 4},
            (2, 4, 2, 4),
            id="a share is rounded up",
        ),
        pytest.param({"minAvailable": 0}, [], {}, (0, 0, 0, 0), id="no pods, no evictions"),
    ],
)
def test_evictions_are_allowed_by_what_is_healthy(
    spec: Obj, pods: list[Obj], scale: dict[str, int], want: tuple[int, int, int, int]
) -> None:
    status = budget_status(pdb(**spec), pods, scale, NOW)

    fields = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    assert tuple(status[field] for field in fields) == want
    assert status["observedGeneration"] == 3
    (condition,) = status["conditions"]
    assert condition["status"] == ("True" if want[0] else "False")


@pytest.mark.parametrize(
    ("since", "want"),
    [
        pytest.param(90, 0, id="a granted eviction counts until it is seen"),
        pytest.param(-60, 1, id="it is given up after two minutes"),
    ],
)
def test_a_granted_eviction_is_remembered(since: float, want: int) -> None:
    budget = pdb(minAvailable=1)
    budget["status"] = {"disruptedPods": {"p0": timestamp(at(since))}}

    status = budget_status(budget, healthy(2), {}, NOW)

    assert status["disruptionsAllowed"] == want
    assert ("disruptedPods" in status) is not want


def test_a_granted_eviction_that_is_seen_is_forgotten() -> None:
    budget = pdb(minAvailable=1)
    budget["status"] = {"disruptedPods": {"p0": timestamp(at(90)), "gone": timestamp(at(90))}}
    going = make_pod("p0", phase="Running", ready=True, deleted_at=95)

    status = budget_status(budget, [going, *healthy(3)[1:]], {}, NOW)

    assert "disruptedPods" not in status
    assert status["currentHealthy"] == 2


def test_a_status_that_holds_stays_the_same() -> None:
    budget = pdb(minAvailable=1)
    first = budget_status(budget, healthy(2), {}, NOW)

    again = budget_status({**budget, "status": first}, healthy(2), {}, at(200))

    assert again == first
