"""The cases of the end-to-end measurements."""

import pytest

from bench.e2e import claims
from bench.e2e.cases import CASES
from bench.e2e.objects import OURS


@pytest.mark.parametrize("name", CASES)
def test_a_small_case_keeps_its_shape(name: str) -> None:
    case = CASES[name]
    small = case.scaled(100, 0.1)
    assert small.pods == pytest.approx(case.pods * 0.1, rel=0.5, abs=case.size)
    assert (small.racks, small.rate, small.subjects) == (case.racks, case.rate, case.subjects)


CLAIMS = [name for name, case in CASES.items() if case.claims is not None]


@pytest.mark.parametrize("name", CLAIMS)
def test_devices_suffice_for_all_pods(name: str) -> None:
    case = CASES[name]
    content = case.claims
    assert content is not None
    made = [device for each in claims.slices(case) for device in each["spec"].get("devices", ())]

    if content.content == "partitions":
        wanted = 4 * case.pods  # besides those that others have, and those that exclude them
        assert len(made) == wanted + 2 * case.pods
    else:
        sharers = max(1, content.sharers)
        free = len(made) * (1 - content.taken)
        assert free >= case.pods / sharers


@pytest.mark.parametrize("name", CLAIMS)
def test_a_pods_claim_is_named_after_it_or_shared_within_its_gang(name: str) -> None:
    case = CASES[name]
    content = case.claims
    assert content is not None
    names = [
        (gang, claims.claim_of(content, pod["metadata"]["name"]))
        for gang, pods in OURS.waiting(case)
        for pod in pods
    ]

    assert len(set(names)) == case.pods // max(1, content.sharers)
    assert len({claim for _, claim in names}) == len(set(names))
