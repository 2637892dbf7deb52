"""The devices of one pod: kube-scheduler's solution, device by device."""

from typing import Any

import pytest

from scheduler.core.devices.allocator import MOST_DEVICES, DevicesRefused, Solution
from scheduler.core.values.device_asks import Ask, DeviceToleration, exactly
from scheduler.core.values.devices import DeviceTaint, NodeScope, SliceInfo
from tests.scheduler.core.devices.solving import devices, outcome
from tests.scheduler.devices.builders import (
    CLASS,
    ask,
    device,
    different,
    first_of,
    gpu,
    gpus,
    has,
    policy,
    pool,
    same,
    units,
)

NONE = "cannot allocate all claims"
SMALL, LARGE = has("size", "small"), has("size", "large")
MIXED = pool(
    device("a", {"size": "small"}), device("b", {"size": "large"}), device("c", {"size": "large"})
)
ODD = pool(device("a"), device("b", {"size": "large"}))
TAINTED = pool(
    device("a", taints=[DeviceTaint("sick", "yes")]),
    device("b", taints=[DeviceTaint("sick", "yes", "NoExecute")]),
    device("c", taints=[DeviceTaint("slow", "", "None"), DeviceTaint("odd", "", "Future")]),
)


def every(*selectors: str, name: str = "all", device_class: str = CLASS, **more: Any) -> Any:
    return exactly(name, device_class, *selectors, every=True, **more)


def admin(name: str = "admin", **more: Any) -> Any:
    return exactly(name, CLASS, admin=True, **more)


def tolerating(*tolerations: DeviceToleration, count: int = 1) -> Any:
    return exactly("gpu", CLASS, count=count, tolerations=tolerations)


@pytest.mark.parametrize(
    ("slices", "asks", "used", "want"),
    [
        pytest.param([gpus(3)], [ask(gpu())], "", "gpu-0", id="the first device"),
        pytest.param([gpus(3)], [ask(gpu())], "gpu-0", "gpu-1", id="the first that is free"),
        pytest.param([gpus(3)], [ask(gpu(2))], "gpu-1", "gpu-0 gpu-2", id="two around one in use"),
        pytest.param([gpus(3)], [ask(gpu(3))], "gpu-1", NONE, id="one is missing"),
        pytest.param([], [ask(gpu())], "", NONE, id="no devices at all"),
        pytest.param([gpus(1)], [ask()], "", "", id="a claim without requests"),
        pytest.param([MIXED], [ask(gpu(1, LARGE))], "", "b", id="the first that is selected"),
        pytest.param(
            [MIXED], [ask(exactly("g", "small", LARGE))], "", NONE, id="class and request disagree"
        ),
        pytest.param(
            [gpus(2)], [ask(exactly("nic", "other"))], "", NONE, id="a class of another driver"
        ),
        pytest.param(
            [MIXED],
            [ask(gpu(1, name="any"), gpu(1, SMALL, name="small"))],
            "",
            "b a",
            id="a later request gets the device that only it can use",
        ),
        pytest.param(
            [MIXED],
            [ask(gpu()), ask(gpu(1, SMALL))],
            "",
            "b / a",
            id="so does a later claim",
        ),
        pytest.param(
            [
                pool(device("a", {"size": "small"}), name="s2", slices=2),
                pool(device("b", {"size": "large"}), name="s1", slices=2),
            ],
            [ask(gpu())],
            "",
            "b",
            id="slices by name",
        ),
        pytest.param(
            [pool(device("z"), pool="p2"), pool(device("y"), pool="p1")],
            [ask(gpu())],
            "",
            "y",
            id="pools by name",
        ),
        pytest.param(
            [pool(device("g"), driver="x.com"), pool(device("n"), driver="A.com")],
            [ask(gpu())],
            "",
            "n",
            id="pools by driver, by its bytes",
        ),
        pytest.param(
            [pool(device("a", binding=["Ready"]), pool="p1"), pool(device("b"), pool="p2")],
            [ask(gpu())],
            "",
            "b",
            id="devices with binding conditions last",
        ),
        pytest.param(
            [ODD], [ask(gpu(1, LARGE))], "", "request gpu: selector #0: CEL runtime error: no such"
            " key: size", id="a selector fails on the first device",
        ),
        pytest.param(
            [ODD], [ask(gpu(1, LARGE))], "a", "b", id="not on one in use, which is not looked at"
        ),
        pytest.param(
            [pool(device("b", {"size": "large"}), device("a"))],
            [ask(gpu(1, LARGE))],
            "",
            "b",
            id="not on one after the solution",
        ),
        pytest.param(
            [ODD],
            [ask(gpu(3, LARGE))],
            "",
            "request gpu: selector #0: CEL runtime error: no such key: size",
            id="a selector fails, where too few devices are left besides",
        ),
        pytest.param(
            [ODD],
            [ask(first_of("gpu", gpu(3, LARGE, name="big"), gpu(name="any")))],
            "",
            "request gpu/big: selector #0: CEL runtime error: no such key: size",
            id="a selector of the first option fails, though there are too few for it",
        ),
        pytest.param(
            [ODD],
            [ask(first_of("gpu", gpu(name="any"), gpu(1, LARGE, name="big")), gpu(4))],
            "",
            "request gpu/big: selector #0: CEL runtime error: no such key: size",
            id="a selector of the second option fails, before there are too few for another",
        ),
        pytest.param(
            [gpus(1)],
            [ask(gpu(1, "what"))],
            "",
            "request gpu: selector #0: CEL compile error: what",
            id="a selector that cannot be compiled",
        ),
        # All
        pytest.param([gpus(3)], [ask(every())], "", "gpu-0 gpu-1 gpu-2", id="all devices"),
        pytest.param([gpus(3)], [ask(every())], "gpu-1", NONE, id="all, and one is in use"),
        pytest.param([MIXED], [ask(every(LARGE))], "a", "b c", id="all that are selected"),
        pytest.param([MIXED], [ask(every(has("size", "huge")))], "", NONE, id="all of none"),
        pytest.param(
            [MIXED], [ask(gpu(1, SMALL), every(LARGE))], "", "a b c", id="all beside one"
        ),
        pytest.param([gpus(2)], [ask(gpu(), every())], "", NONE, id="all, after one of them went"),
        pytest.param(
            [MIXED], [ask(gpu(), every(SMALL))], "", "b a", id="all makes the one before it move"
        ),
        pytest.param(
            [gpus(1), pool(device("x"), pool="other", slices=2)],
            [ask(every())],
            "",
            "request all: asks for all devices, but resource pool gpu.example.com/other is"
            " currently being updated",
            id="all with an incomplete pool",
        ),
        pytest.param(
            [gpus(1), pool(device("x"), device("x"), pool="other", driver="nic.example.com")],
            [ask(every())],
            "",
            "request all: asks for all devices, but resource pool nic.example.com/other is"
            " currently invalid",
            id="all with an invalid pool of another driver",
        ),
        pytest.param(
            [gpus(1), pool(device("x"), pool="other", slices=2)],
            [ask(first_of("list", every(name="a"), gpu(name="b")))],
            "",
            "request list/a: asks for all devices, but resource pool gpu.example.com/other is"
            " currently being updated",
            id="which ends a list, too",
        ),
        pytest.param(
            [pool(device("a", {"rail": 1}), device("b", {"rail": 2}))],
            [ask(every(), constraints=[same("rail")]), ask(gpu(3))],
            "",
            "request all: cannot add all devices because a claim constraint on"
            " gpu.example.com/rail would not be satisfied",
            id="a constraint that all break comes before too few for a later claim",
        ),
        pytest.param(
            [pool(device("a", {"rail": 1}), device("b", {"rail": 2}))],
            [ask(every(), constraints=[same("rail")])],
            "",
            "request all: cannot add all devices because a claim constraint on"
            " gpu.example.com/rail would not be satisfied",
            id="all that break a constraint",
        ),
        pytest.param(
            [pool(device("a", capacity={"memory": 40}), device("b", capacity={"memory": 80}))],
            [ask(every(capacity=units(memory=60)))],
            "",
            "b",
            id="all leaves out what is too small",
        ),
        pytest.param([gpus(33)], [ask(every())], "",
            "number of requested devices 33 exceeds the claim limit of 32", id="all are too many"),
        pytest.param(
            [gpus(40)],
            [ask(gpu(30), first_of("more", gpu(4, name="four"), gpu(2, name="two")))],
            "",
            " ".join(f"gpu-{at}" for at in range(32)),
            id="an option beyond 32 devices is skipped",
        ),
        # Administration
        pytest.param([gpus(1)], [ask(admin())], "gpu-0", "gpu-0", id="admin access to one in use"),
        pytest.param([gpus(1)], [ask(admin(count=2))], "", NONE, id="not twice in a claim"),
        pytest.param(
            [gpus(1)], [ask(admin()), ask(admin())], "", "gpu-0 / gpu-0", id="but in two claims"
        ),
        pytest.param([gpus(2)], [ask(admin(every=True))], "gpu-0", "gpu-0 gpu-1", id="admin, all"),
        pytest.param(
            [gpus(1)], [ask(admin()), ask(gpu())], "", NONE, id="closed to the pod's own request"
        ),
        pytest.param(
            [gpus(1)], [ask(gpu()), ask(admin())], "", "gpu-0 / gpu-0", id="in this order it is not"
        ),
        # Taints
        pytest.param([TAINTED], [ask(gpu())], "", "c", id="taints that say nothing"),
        pytest.param([TAINTED], [ask(gpu(2))], "", NONE, id="taints that are not tolerated"),
        pytest.param(
            [TAINTED],
            [ask(tolerating(DeviceToleration("sick", "Equal", "yes"), count=3))],
            "",
            "a b c",
            id="both effects tolerated",
        ),
        pytest.param(
            [TAINTED],
            [ask(tolerating(DeviceToleration("sick", "", "yes", "NoExecute")))],
            "",
            "b",
            id="one effect tolerated, without an operator",
        ),
        pytest.param(
            [TAINTED], [ask(tolerating(DeviceToleration("", "Exists")))], "", "a", id="any taint"
        ),
        pytest.param(
            [TAINTED],
            [ask(tolerating(DeviceToleration("sick", "Equal", "no")))],
            "",
            "c",
            id="another value",
        ),
        pytest.param([TAINTED], [ask(every())], "", NONE, id="all, and some are tainted"),
    ],
)  # fmt: skip
def test_devices(slices: list[SliceInfo], asks: list[Ask], used: str, want: str) -> None:
    assert devices(*outcome(slices, asks, used=used)) == want


RAILS = pool(
    device("a", {"rail": 1, "numa": 0}),
    device("b", {"rail": 2, "numa": 0}),
    device("c", {"rail": 2, "numa": 1}),
    device("d", {"rail": "2"}),
    device("e", {"rail": "v2.0.0"}),
)


@pytest.mark.parametrize(
    ("request_", "constraints", "want"),
    [
        pytest.param([gpu(2)], [same("rail")], "b c", id="the first value that two devices have"),
        pytest.param([gpu(2)], [same("numa")], "a b", id="an attribute that one lacks"),
        pytest.param([gpu(3)], [same("rail")], NONE, id="of another type is another value"),
        pytest.param([gpu(2)], [same("rail"), same("numa")], NONE, id="two constraints"),
        pytest.param([gpu(2)], [same("none")], NONE, id="an attribute that nobody has"),
        pytest.param(
            [gpu(2)], [same("rail", domain="other.com")], NONE, id="an attribute of another domain"
        ),
        pytest.param(
            [gpu(1, name="x"), gpu(1, name="y"), gpu(1, name="z")],
            [same("rail", "x", "y")],
            "b c a",
            id="only the requests that it names",
        ),
        pytest.param(
            [gpu(1, name="x"), first_of("y", gpu(1, name="one"))],
            [same("rail", "y", "x")],
            "b c",
            id="a list by its name",
        ),
        pytest.param(
            [gpu(1, name="x"), first_of("y", gpu(1, name="one"), gpu(1, name="two"))],
            [same("none", "y/one")],
            "a b",
            id="an option of a list by its own name",
        ),
        pytest.param([gpu(3)], [different("rail")], "a b d", id="each another value"),
        pytest.param([gpu(5)], [different("rail")], NONE, id="too few values"),
        pytest.param([gpu(3)], [different("numa")], NONE, id="too few that have it"),
        pytest.param(
            [gpu(1, name="x"), gpu(2, name="y")],
            [different("rail")],
            "a b d",
            id="distinct over two requests, of which one has several devices",
        ),
        pytest.param(
            [gpu(2)], [same("numa"), different("rail")], "a b", id="same here, distinct there"
        ),
    ],
)
def test_constraints(request_: list[Any], constraints: list[Any], want: str) -> None:
    asks = [ask(*request_, constraints=constraints)]
    assert devices(*outcome([RAILS], asks)) == want


def test_a_constraint_holds_within_its_claim_only() -> None:
    one = ask(gpu(2), constraints=[same("numa")])
    slices = [pool(*(device(f"d{at}", {"numa": at // 2}) for at in range(4)))]
    assert devices(*outcome(slices, [one, one])) == "d0 d1 / d2 d3"


def test_a_qualified_name_is_looked_up_before_the_drivers_own() -> None:
    full = "gpu.example.com/rail"
    slices = [pool(device("a", {full: 1, "rail": 9}), device("b", {"rail": 1}))]
    assert devices(*outcome(slices, [ask(gpu(2), constraints=[same("rail")])])) == "a b"


LIST = first_of("gpu", gpu(1, LARGE, name="big"), gpu(2, SMALL, name="two"))
PAIR = [device(f"s{at}", {"size": "small"}) for at in range(2)]
BIG = device("big", {"size": "large"})


@pytest.mark.parametrize(
    ("found", "asks", "used", "want", "score"),
    [
        pytest.param([*PAIR, BIG], [ask(LIST)], "", "big", 8, id="the first option"),
        pytest.param([*PAIR, BIG], [ask(LIST)], "big", "s0 s1", 7, id="the second, if it is gone"),
        pytest.param(PAIR[:1], [ask(LIST)], "", NONE, 0, id="neither"),
        pytest.param(
            [*PAIR, BIG],
            [ask(LIST), ask(gpu(1, LARGE))],
            "",
            "s0 s1 / big",
            7,
            id="the second, if a later claim needs what the first takes",
        ),
        pytest.param(
            [*PAIR, BIG, device("big2", {"size": "large"})],
            [ask(LIST), ask(LIST)],
            "",
            "big / big2",
            16,
            id="two lists",
        ),
    ],
)
def test_lists(found: list[Any], asks: list[Ask], used: str, want: str, score: int) -> None:
    answer, view = outcome([pool(*found)], asks, used=used)

    assert devices(answer, view) == want
    assert (answer.score if isinstance(answer, Solution) else 0) == score


def halves(count: int, of: str = "card", *, cards: int = 1) -> list[Any]:
    """Return partitions of 10 GB; a whole card has 20."""
    return [
        device(f"{of}{card}-{at}", {"size": "half"}, uses={f"{of}{card}": {"memory": 10}})
        for card in range(cards)
        for at in range(count)
    ]


CARD = pool(
    device("whole", {"size": "large"}, uses={"card0": {"memory": 20}}),
    *halves(3),
    name="d",
    slices=2,
)
COUNTERS = pool(name="c", slices=2, counters={"card0": {"memory": 20}})


@pytest.mark.parametrize(
    ("slices", "asks", "used", "want"),
    [
        pytest.param([CARD, COUNTERS], [ask(gpu())], "", "whole", id="a whole card"),
        pytest.param([CARD, COUNTERS], [ask(gpu(2))], "", "card0-0 card0-1", id="two partitions"),
        pytest.param([CARD, COUNTERS], [ask(gpu(3))], "", NONE, id="three exceed the counter"),
        pytest.param([CARD, COUNTERS], [ask(gpu())], "card0-2", "card0-0", id="one is in use"),
        pytest.param([CARD, COUNTERS], [ask(gpu())], "whole", NONE, id="the whole is in use"),
        pytest.param(
            [CARD, COUNTERS], [ask(gpu())], "whole card0-0", NONE, id="more in use than there is"
        ),
        pytest.param(
            [CARD, COUNTERS],
            [ask(gpu()), ask(gpu())],
            "",
            "card0-0 / card0-1",
            id="the first claim leaves the whole card for the second's sake",
        ),
        pytest.param(
            [CARD], [ask(gpu())], "", "cannot allocate all claims", id="a slice is missing"
        ),
        pytest.param(
            [CARD, pool(name="c", slices=2, counters={"card1": {"memory": 20}})],
            [ask(gpu())],
            "",
            "invalid resource pools were encountered",
            id="a counter set that is not there",
        ),
        pytest.param(
            [CARD, COUNTERS], [ask(admin(count=2)), ask(gpu(1, LARGE))], "", NONE,
            id="what the pod has for administration takes of the counters",
        ),
    ],
)  # fmt: skip
def test_partitions(slices: list[SliceInfo], asks: list[Ask], used: str, want: str) -> None:
    assert devices(*outcome(slices, asks, used=used)) == want


def test_partitions_elsewhere_in_the_pool_count() -> None:
    here, there = NodeScope("n"), NodeScope("m")
    slices = [
        pool(
            device("a", uses={"card": {"memory": 10}}, scope=here),
            device("b", uses={"card": {"memory": 10}}, scope=there),
            name="d", per_device=True, slices=2,
        ),
        pool(
            name="c", slices=2, scope=NodeScope(everywhere=True), counters={"card": {"memory": 10}}
        ),
    ]  # fmt: skip

    assert devices(*outcome(slices, [ask(gpu())])) == "a"
    assert devices(*outcome(slices, [ask(gpu())], used="b")) == NONE
    assert devices(*outcome(slices, [ask(gpu(2))])) == NONE


def nic(amount: int, **limits: Any) -> SliceInfo:
    """Return a shared device with bandwidth."""
    return pool(device("nic", capacity={"rate": (amount, policy(**limits))}, shared=True))


def rate(amount: int, count: int = 1, name: str = "nic") -> Ask:
    return ask(exactly(name, CLASS, count=count, capacity=units(rate=amount)))


@pytest.mark.parametrize(
    ("slices", "asks", "in_use", "want"),
    [
        pytest.param([nic(10)], [rate(6)], 0, "6", id="what is asked for"),
        pytest.param([nic(10)], [rate(6)], 4, "6", id="what is left"),
        pytest.param([nic(10)], [rate(6)], 5, NONE, id="too little left"),
        pytest.param([nic(10)], [rate(6), rate(4)], 0, "6 4", id="two shares"),
        pytest.param([nic(10)], [rate(6), rate(5)], 0, NONE, id="two are too much"),
        pytest.param([nic(10)], [rate(2, 2)], 0, NONE, id="one request takes a device once"),
        pytest.param([nic(10)], [rate(11)], 0, NONE, id="more than it has"),
        pytest.param([nic(10)], [ask(gpu())], 0, "10", id="nothing asked: all of it"),
        pytest.param([nic(10, default=2)], [ask(gpu())], 8, "2", id="nothing asked: the default"),
        pytest.param([nic(10, minimum=4)], [rate(0)], 0, "4", id="up to the minimum"),
        pytest.param([nic(10, minimum=4, step=3)], [rate(5)], 0, "7", id="up to a whole step"),
        pytest.param([nic(10, minimum=4, step=3)], [rate(7)], 0, "7", id="a whole step"),
        pytest.param([nic(10, minimum=1, maximum=5)], [rate(6)], 0, NONE, id="over the maximum"),
        pytest.param([nic(10, v1=2, v2=8)], [rate(3)], 0, "8", id="the next valid value"),
        pytest.param([nic(10, v1=2, v2=8)], [rate(9)], 0, NONE, id="beyond all valid values"),
        pytest.param(
            [nic(10)], [ask(exactly("n", CLASS, capacity=units(queues=1)))], 0, NONE,
            id="a capacity that it lacks",
        ),
        pytest.param(
            [pool(device("x", capacity={"rate": 4}), device("y", capacity={"rate": 9}))],
            [rate(5)],
            0,
            "y",
            id="a device that is not shared is compared, and taken whole",
        ),
    ],
)  # fmt: skip
def test_capacities(slices: list[SliceInfo], asks: list[Ask], in_use: int, want: str) -> None:
    shares = {"nic": units(rate=in_use)} if in_use else {}
    answer, view = outcome(slices, asks, shares=shares)
    if isinstance(answer, Solution):
        picks = answer.pods[0]
        amounts = [dict(pick.consumed or ()).get("rate") for pick in picks]
        shown = [
            str(amount // 10**9) if amount is not None else view.keys[pick.position][2]
            for pick, amount in zip(picks, amounts, strict=True)
        ]
        assert " ".join(shown) == want
    else:
        assert answer.reason == want


@pytest.mark.parametrize(
    ("constraints", "left", "since_1_37", "before_1_37"),
    [
        pytest.param([], 4, "a b c", "a b c", id="all have as much"),
        pytest.param([], 3, NONE, "a c", id="one has less"),
        pytest.param([same("size")], 3, "a constraint", "a c", id="which is also another's size"),
    ],
)
def test_all_devices_and_one_that_is_nearly_full(
    constraints: list[Any], left: int, since_1_37: str, before_1_37: str
) -> None:
    sizes = {"a": "small", "b": "large" if constraints else "small", "c": "small"}
    devices_ = [
        device(name, {"size": size}, capacity={"rate": 10}, shared=True)
        for name, size in sizes.items()
    ]
    asks = [ask(every(capacity=units(rate=4)), constraints=constraints)]
    shares = {"b": units(rate=10 - left)}

    for all_with_room, want in ((False, since_1_37), (True, before_1_37)):
        found = outcome([pool(*devices_)], asks, shares=shares, all_with_room=all_with_room)
        said = devices(*found)
        assert ("a constraint" if "a claim constraint" in said else said) == want


def test_a_shared_device_without_capacity_has_no_limit() -> None:
    slices = [pool(device("nic", shared=True))]
    answer, view = outcome(slices, [ask(gpu()) for _ in range(20)])

    assert devices(answer, view) == " / ".join(["nic"] * 20)


def test_a_shared_device_is_charged_to_its_counters_once() -> None:
    slices = [
        pool(
            device("nic", shared=True, uses={"card": {"slots": 1}}),
            device("other", uses={"card": {"slots": 1}}),
            name="d",
            slices=2,
        ),
        pool(name="c", slices=2, counters={"card": {"slots": 1}}),
    ]

    assert devices(*outcome(slices, [ask(gpu()), ask(gpu())])) == "nic / nic"
    assert devices(*outcome(slices, [ask(gpu())], shares={"nic": ()})) == "nic"
    assert devices(*outcome(slices, [ask(gpu())], used="other")) == NONE


def test_distinct_shares_of_one_device_need_two_devices() -> None:
    devices_ = [device(name, {"id": at}, shared=True) for at, name in enumerate("ab")]
    one = ask(gpu(1, name="x"), gpu(1, name="y"), constraints=[different("id")])

    assert devices(*outcome([pool(*devices_)], [one])) == "a b"
    assert devices(*outcome([pool(devices_[0])], [one])) == NONE


def test_pods_that_would_take_each_others_devices_are_served_together() -> None:
    any_one, small = [ask(gpu())], [ask(gpu(1, SMALL))]

    assert devices(*outcome([MIXED], any_one, small)) == "b // a"


def test_what_one_pod_has_for_administration_is_open_to_the_next() -> None:
    assert devices(*outcome([gpus(1)], [ask(admin())], [ask(gpu())])) == "gpu-0 // gpu-0"


def test_what_is_taken_for_administration_is_not_in_use() -> None:
    answer, _ = outcome([gpus(2)], [ask(admin())])

    assert isinstance(answer, Solution)
    assert answer.usage.used == 0


def binding_pairs(pairs: int) -> list[SliceInfo]:
    """Return devices with distinct rails."""
    return [pool(*(device(f"d{at:02}", {"rail": at, "size": "s"}) for at in range(pairs)))]


@pytest.mark.parametrize("count", [2, 4])
def test_a_hard_search_ends(count: int) -> None:
    claim = ask(
        *(gpu(2, name=f"r{at}") for at in range(count)),
        constraints=[same("rail", f"r{count - 1}")],
    )
    answer, _ = outcome(binding_pairs(20), [claim], steps=500)

    assert isinstance(answer, DevicesRefused)
    assert answer.cut
    assert answer.reason == "found no devices for its claims in 500 steps"
    assert answer.steps == 500


def test_devices_that_nothing_tells_apart_are_tried_once() -> None:
    """10 of 20 would be 184,756 combinations."""
    slices = [gpus(20, {"size": "large"}), pool(device("x", {"size": "small"}), pool="x")]
    two_of_one = exactly("small", "small", count=2)
    answer, _ = outcome([gpus(20)], [ask(gpu(10), gpu(11, name="more"))], steps=10**6)
    refused, _ = outcome(slices, [ask(gpu(10), first_of("small", two_of_one))], steps=10**6)

    assert isinstance(answer, DevicesRefused)
    assert isinstance(refused, DevicesRefused)
    assert answer.steps == 0
    assert refused.steps < 100


def test_too_few_devices_need_no_search() -> None:
    answer, _ = outcome([gpus(8)], *([ask(gpu(2))] for _ in range(5)))

    assert isinstance(answer, DevicesRefused)
    assert answer.steps == 0


def test_a_search_has_a_limit_of_devices() -> None:
    shared = [pool(device(f"n{at}", shared=True)) for at in range(1)]
    answer, _ = outcome(shared, [ask(gpu()) for _ in range(MOST_DEVICES + 1)])

    assert devices(answer, outcome(shared, [ask(gpu())])[1]) == (
        f"its claims ask for {MOST_DEVICES + 1} devices, {MOST_DEVICES} are the most"
    )


def test_the_deepest_search_that_is_allowed_fits_the_stack() -> None:
    listed = [ask(first_of("l", gpu(1, name="a"))) for _ in range(MOST_DEVICES)]
    answer, _ = outcome([pool(device("nic", shared=True))], listed)

    assert isinstance(answer, Solution)
