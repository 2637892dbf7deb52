"""The start order of a JobSet's replicatedJobs, and pairs that never run at the same time."""

import random
from typing import Any

import pytest

from api.constants import MAX_EXPECTED_STAGE
from api.integration.jobset.start_order import is_ordered, stages
from api.integration.jobset.view import JobSetView, read_jobset

Json = dict[str, Any]

EDGES = {"r": "Ready", "c": "Complete"}


def jobset(*jobs: str, in_order: bool = False) -> JobSetView:
    """Parse `b=a:c,x:r`: replicatedJob b, after a is Complete and x Ready.

    `-b` is not in the gang.
    """
    order = {"startupPolicy": {"startupPolicyOrder": "InOrder"}} if in_order else {}
    made: Json = {"metadata": {"name": "j", "namespace": "default"}}
    made["metadata"]["annotations"] = {"scheduling.muster.dev/gang-mode": "Gang"}
    return read_jobset(made | {"spec": {"replicatedJobs": [*map(_job, jobs)]} | order})


def _job(said: str) -> Json:
    name, _, after = said.partition("=")
    entry: Json = {"name": name.lstrip("-"), "replicas": 1, "template": {"spec": {}}}
    if name.startswith("-"):
        entry["template"]["metadata"] = {"annotations": {"scheduling.muster.dev/gang-mode": "Off"}}
    edges = [it.split(":") for it in after.split(",") if it]
    if edges:
        entry["dependsOn"] = [{"name": on, "status": EDGES[how]} for on, how in edges]
    return entry


@pytest.mark.parametrize(
    ("view", "want"),
    [
        pytest.param(jobset("a", "b"), False, id="all at once"),
        pytest.param(jobset("a", in_order=True), False, id="in order, but one"),
        pytest.param(jobset("a", "b", in_order=True), True, id="in order"),
        pytest.param(jobset("-x", "a", in_order=True), False, id="in order, one in the gang"),
        pytest.param(jobset("a", "b=a:r"), True, id="after one is ready"),
        pytest.param(jobset("a", "b=a:c"), True, id="after one is complete"),
        pytest.param(jobset("-x", "a=x:c", "b=x:r"), False, id="after one outside the gang"),
        pytest.param(jobset("a", "-x=a:r", "b=x:r"), True, id="by way of one outside the gang"),
        pytest.param(jobset("a=nobody:c", "b=b:c"), False, id="after nobody, after itself"),
    ],
)
def test_an_order_is_one_among_the_gang(view: JobSetView, want: bool) -> None:
    assert is_ordered(view, view.wanted) is want


@pytest.mark.parametrize(
    ("view", "want"),
    [
        pytest.param(jobset("a", "b", in_order=True), "00", id="InOrder: all run together"),
        pytest.param(jobset("a", "b=a:r"), "00", id="ready: both run"),
        pytest.param(jobset("a", "b=a:c"), "12", id="complete: never together"),
        pytest.param(jobset("a", "b=a:c", "c=b:r"), "122", id="one carried on"),
        pytest.param(jobset("a", "b", "c=a:c,b:c"), "112", id="two initializers"),
        pytest.param(jobset("a", "b=a:c", "c=b:c"), "123", id="a chain"),
        pytest.param(jobset("a", "b=a:c", "c"), "120", id="one beside all"),
        pytest.param(jobset("a", "b=a:r", "c=b:c"), "012", id="what started first runs on"),
        pytest.param(jobset("a", "b", "c=a:c", "d=b:c"), "1111", id="two chains may overlap"),
        pytest.param(jobset("a", "-x=a:c", "b=x:r"), "12", id="by way of one outside the gang"),
        pytest.param(jobset("-x", "a=x:c", "b=x:c"), "00", id="after one outside the gang"),
    ],
)
def test_stages_are_of_what_never_runs_together(view: JobSetView, want: str) -> None:
    found = stages(view, view.wanted)

    assert "".join(str(found[job.name]) for job in view.wanted) == want


def test_more_stages_than_there_may_be_share_the_last() -> None:
    view = jobset("j0", *(f"j{at}=j{at - 1}:c" for at in range(1, 1000)))

    found = list(stages(view, view.wanted).values())

    assert found[:MAX_EXPECTED_STAGE] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert set(found[MAX_EXPECTED_STAGE:]) == {MAX_EXPECTED_STAGE}


@pytest.mark.parametrize("seed", range(200))
def test_two_of_different_stages_are_ended_and_created_one_after_the_other(seed: int) -> None:
    """The test follows the edges one by one, unlike the implementation."""
    chance = random.Random(seed)
    jobs, edges = [], dict[str, dict[str, str]]()
    for at in range(chance.randrange(1, 8)):
        earlier = chance.sample(range(at), chance.randrange(min(at, 3) + 1))
        edges[f"j{at}"] = {f"j{on}": chance.choice("rc") for on in earlier}
        after = ",".join(f"{on}:{how}" for on, how in edges[f"j{at}"].items())
        jobs.append(f"{chance.choice(('', '', '-'))}j{at}={after}")
    view = jobset(*jobs)

    def has_ended(first: str, later: str) -> bool:
        return any(
            (on == first and how == "c") or has_ended(first, on) for on, how in edges[later].items()
        )

    found = stages(view, view.wanted)
    for first in view.wanted:
        for later in view.wanted:
            low, high = found[first.name], found[later.name]
            assert not 0 < low < high or has_ended(first.name, later.name)
