"""Pools of very many devices: unavailable ones cost no step, and do not change results."""

from scheduler.core.devices.allocator import Solution, allocate
from scheduler.core.devices.layouts import FREE, DeviceUsage
from scheduler.core.values.device_asks import DeviceConstraint
from scheduler.core.values.devices import SliceInfo
from tests.scheduler.core.devices.solving import layout_of, resolved, view_of
from tests.scheduler.devices.builders import DRIVER, ask, device, gpu, pool

POOLS = 700
PAIR = ask(gpu(2), constraints=[DeviceConstraint(f"{DRIVER}/card")])


def card(number: int, *, halves: int = 4) -> list[SliceInfo]:
    """Return a pool of one card, whose partitions have the card's number."""
    name = f"card{number:03}"
    parts = [
        device(f"{name}-{at}", {"card": number}, uses={"card": {"memory": 10}})
        for at in range(halves)
    ]
    return [
        pool(*parts, name=name, pool=name, slices=2),
        pool(name=f"{name}-set", pool=name, slices=2, counters={"card": {"memory": 20}}),
    ]


def test_pools_whose_counters_are_used_up_cost_no_steps() -> None:
    """Two of four partitions are in use in all pools but the last: the others are unavailable."""
    view = view_of([each for number in range(POOLS) for each in card(number)])
    asks = resolved([PAIR])
    layout = layout_of(view, asks)
    used = sum(
        1 << view.positions[key] for key in view.keys if key[2][-1] in "01" and key[1] != "card699"
    )

    found = allocate(layout, DeviceUsage(used), [asks])

    assert isinstance(found, Solution)
    assert [view.keys[pick.position][2] for pick in found.pods[0]] == ["card699-0", "card699-1"]
    assert found.steps == 2


def test_devices_with_other_values_are_not_tried() -> None:
    """The first device of each card is the only one with its value, except for the last card's."""
    view = view_of(
        [pool(*(device(f"d{at:04}", {"card": min(at, POOLS)}) for at in range(701 + 1)))]
    )
    asks = resolved([PAIR])

    found = allocate(layout_of(view, asks), FREE, [asks])

    assert isinstance(found, Solution)
    assert [view.keys[pick.position][2] for pick in found.pods[0]] == ["d0700", "d0701"]
    assert found.steps == POOLS + 2


def test_what_is_left_of_counters_follows_from_the_usage_alone() -> None:
    """One layout is used with one usage after the other, in any order."""
    slices = card(0)
    view = view_of(slices)
    asks = resolved([ask(gpu())])
    layout = layout_of(view, asks)
    usages = [0b0011, 0, 0b0001, 0b1100, 0b0011, 0b1111, 0]

    found = [isinstance(allocate(layout, DeviceUsage(used), [asks]), Solution) for used in usages]
    fresh = [
        isinstance(allocate(layout_of(view, asks), DeviceUsage(used), [asks]), Solution)
        for used in usages
    ]

    assert found == fresh == [False, True, True, False, False, False, True]
