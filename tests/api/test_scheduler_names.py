"""The schedulerNames of Muster, and invalid lists of them."""

import pytest

from api.scheduler_names import USUAL, SchedulerNames, faults_of

BOTH = SchedulerNames(("muster-scheduler", "muster-spread"))


@pytest.mark.parametrize(
    ("name", "ours", "allowed"),
    [
        pytest.param("muster-scheduler", True, True, id="the first"),
        pytest.param("muster-spread", True, True, id="another"),
        pytest.param("default-scheduler", False, True, id="who chose none"),
        pytest.param("", False, True, id="who chose none, before the API server filled it in"),
        pytest.param("volcano", False, False, id="a third scheduler"),
    ],
)
def test_whose_pods_are_ours(name: str, ours: bool, allowed: bool) -> None:
    assert (name in BOTH, BOTH.allow(name)) == (ours, allowed)
    assert BOTH.default == "muster-scheduler"


def test_without_configuration_one_name_counts() -> None:
    assert USUAL.all == ("muster-scheduler",)


@pytest.mark.parametrize(
    ("names", "want"),
    [
        pytest.param(["a", "b.c-d"], [], id="good ones"),
        pytest.param([], ["schedulerNames must have between 1 and 8 names, not 0"], id="none"),
        pytest.param(
            [f"s{i}" for i in range(9)],
            ["schedulerNames must have between 1 and 8 names, not 9"],
            id="many",
        ),
        pytest.param(
            ["a", "a"],
            ["schedulerName 'a' is listed more than once: remove the duplicate"],
            id="one twice",
        ),
        pytest.param(
            ["default-scheduler"],
            ["schedulerName default-scheduler is kube-scheduler's: use another name"],
            id="kube-scheduler's",
        ),
    ],
)
def test_a_list_of_names_is_checked(names: list[str], want: list[str]) -> None:
    assert faults_of(names) == want


@pytest.mark.parametrize("name", ["", "A", "a'] || true || ['", "a b", "x" * 64, "-a", "a\n"])
def test_a_name_that_could_not_be_one_is_refused(name: str) -> None:
    """Names become part of CEL expressions and of events."""
    (fault,) = faults_of([name])
    assert "must consist of lower case alphanumeric characters" in fault
