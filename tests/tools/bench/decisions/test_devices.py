"""The benchmarks of device decisions, at a small size."""

from collections.abc import Callable, Iterable

import pytest

from scheduler.decoding.device_decode import resource_claim_info, slice_info
from scheduler.decoding.device_objects import decode_resource_claim, decode_resource_slice
from tools.bench.decisions import devices
from tools.bench.decisions.clusters import full
from tools.bench.decisions.device_clusters import (
    ONE,
    PAIR_OF_A_POOL,
    PAIR_OF_A_RAIL,
    TWO_SHARES,
    full_of_holders,
    parts_for_all,
    shared_by_all,
    slice_of,
)

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("run", "count"),
    [
        pytest.param(lambda: devices.one_by_one(PAIR_OF_A_RAIL, 10, 4), 4, id="one by one"),
        pytest.param(lambda: devices.together(10, 4), 1, id="together"),
        pytest.param(lambda: devices.one_large(known=True, nodes=10, pods=30), 1, id="known"),
        pytest.param(lambda: devices.one_large(known=False, nodes=10, pods=30), 1, id="cold"),
        pytest.param(lambda: devices.refusal(10), 8, id="refusal"),
        pytest.param(lambda: devices.read(10), 1, id="read"),
        pytest.param(lambda: devices.slices_change(10, 5), 5, id="slices"),
        pytest.param(lambda: devices.claims_come(10, 10), 1, id="claims"),
        pytest.param(devices.searches, 3, id="searches"),
        pytest.param(
            lambda: devices.for_all(shared_by_all(5, 8), TWO_SHARES, 8), 7, id="shares"
        ),
        pytest.param(
            lambda: devices.for_all(parts_for_all(5, 8), PAIR_OF_A_POOL, 8), 7, id="partitions"
        ),
    ],
)  # fmt: skip
def test_a_small_case_yields_its_times(run: Callable[[], Iterable[float]], count: int) -> None:
    times = list(run())

    assert len(times) == count
    assert min(times) >= 0


@pytest.mark.parametrize("claims", [False, True])
def test_gangs_evict_for_room_and_for_devices(claims: bool) -> None:
    state = full_of_holders(200) if claims else full(200)

    assert len(list(devices.evicting(state, claims=claims, gangs=8))) >= 4


def test_nodes_are_in_as_many_device_states_as_asked_for() -> None:
    assert min(devices.in_states(16, nodes=64)) >= 0


def test_what_comes_from_the_api_server_is_what_the_other_cases_make() -> None:
    made = slice_of("n00003", 8)
    line = devices._written(made)

    assert slice_info(decode_resource_slice(line)) == (made, ())
    claim, problem = resource_claim_info(decode_resource_claim(devices._claim(3)))
    assert not problem
    assert claim.ask == ONE
    assert claim.reserved == {"uid-3"}
    assert claim.allocation is not None
