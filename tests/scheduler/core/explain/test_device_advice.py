"""The message about devices: the request, and the nodes' devices."""

import pytest

from scheduler.core.explain.device_advice import _MOST_LOOKS, DeviceAdvice
from scheduler.core.explain.explain import explain
from scheduler.core.search.place import Refusal
from scheduler.core.values.device_asks import Ask, DeviceOption, DeviceRequest, exactly
from scheduler.core.values.devices import DeviceTaint, NodeScope
from scheduler.core.values.model import Expression, NodeTerm, PodInfo
from tests.scheduler.devices.builders import (
    CLASS,
    ask,
    device,
    different,
    first_of,
    gpu,
    has,
    pool,
    same,
    units,
)
from tests.scheduler.devices.preemption import DevicePreemption

FOUR = ask(gpu(4))


def told(made: DevicePreemption, info: PodInfo) -> str:
    refusal = made.place_single(info)
    assert isinstance(refusal, Refusal)
    return explain(made.state, refusal).summary


def mixed() -> DevicePreemption:
    """Return three nodes with four devices each, of which some are in use or tainted."""
    made = DevicePreemption()
    bad = (DeviceTaint("broken"),)
    made.gpu_node("n0", *(device(f"d{at}") for at in range(4)))
    made.gpu_node("n1", *(device(f"d{at}") for at in range(4)))
    made.gpu_node("n2", *(device(f"d{at}", taints=bad if at < 3 else ()) for at in range(4)))
    made.holds("n0", "d0")
    made.holds("n1", "d0", "d1")
    return made


def test_the_best_node_and_what_keeps_the_others_are_told() -> None:
    made = mixed()

    summary = told(made, made.asks(None, FOUR))

    assert (
        "Request gpu needs 4 devices of class gpu; 3 free on the best of 3 nodes (3"
        " in use, 3 tainted)"
    ) in summary


def test_a_gang_is_told_how_many_are_free_in_all() -> None:
    made = mixed()
    made.gang("g", 7)
    for _ in range(7):
        made.asks("g", ask(gpu()))

    refusal = made.place("g")

    assert isinstance(refusal, Refusal)
    assert (
        "Request gpu needs 1 device of class gpu for each of 7 pods; 6 free on 3 nodes"
        " (3 in use, 3 tainted)"
    ) in explain(made.state, refusal).summary


def test_the_selector_that_takes_too_few_is_named() -> None:
    made = DevicePreemption()
    made.gpu_node("n0", *(device(f"d{at}", {"size": "large", "rail": at}) for at in range(4)))
    wanted = ask(gpu(2, has("size", "large"), has("rail", 1)))

    summary = told(made, made.asks(None, wanted))

    assert "needs 2 devices of class gpu; 1 free on the best of 1 node" in summary
    assert "3 not selected by request gpu: selector #1" in summary


def test_the_selector_of_the_class_is_named() -> None:
    made = DevicePreemption()
    made.gpu_node("n0", *(device(f"d{at}", {"size": "large"}) for at in range(2)))

    summary = told(made, made.asks(None, ask(exactly("gpu", "small"))))

    assert "2 not selected by class small: selector #0" in summary
    assert "request fewer or other devices, or add nodes that have them" in summary


def test_an_error_names_a_device_on_which_it_happens() -> None:
    made = DevicePreemption()
    made.gpu_node("n0", device("good", {"size": "large"}), device("odd"))

    summary = told(made, made.asks(None, ask(gpu(2, has("size", "large")))))

    assert (
        "1 with an error in request gpu: selector #0: CEL runtime error: no such key: size,"
        " such as device gpu.example.com/n0/odd"
    ) in summary


@pytest.mark.parametrize(
    ("wanted", "want"),
    [
        pytest.param(
            ask(gpu(3), constraints=[same("rail")]),
            "Constraint on gpu.example.com/rail needs 3 devices with one value; 2 free on the"
            " best of 1 node",
            id="one value",
        ),
        pytest.param(
            ask(gpu(3), constraints=[different("rail")]),
            "Constraint on gpu.example.com/rail needs 3 devices with different values; 2 free on"
            " the best of 1 node",
            id="different values",
        ),
        pytest.param(
            ask(gpu(3), gpu(2, name="more")),
            "Its requests need 5 devices together; 4 free on the best of 1 node",
            id="together",
        ),
        pytest.param(
            ask(first_of("any", gpu(5, name="a"), gpu(6, name="b"))),
            "Request any/a needs 5 devices of class gpu; 4 free on the best of 1 node; its 1 other"
            " alternative does not fit either",
            id="alternatives",
        ),
        pytest.param(
            ask(exactly("x", CLASS, capacity=units(memory=9))),
            "Request x needs 1 device of class gpu; 0 free on the best of 1 node (4"
            " not selected by the"
            " capacity of request x)",
            id="capacity",
        ),
    ],
)
def test_constraints_and_requests_together(wanted: Ask, want: str) -> None:
    made = DevicePreemption()
    made.gpu_node("n0", *(device(f"d{at}", {"rail": at // 2}) for at in range(4)))

    assert want in told(made, made.asks(None, wanted))


def test_a_request_for_all_devices() -> None:
    made = mixed()
    made.node("bare")

    summary = told(made, made.asks(None, ask(exactly("all", CLASS, every=True))))

    assert (
        "Request all needs all devices of class gpu; of 4 nodes, 1 have none, 2 have"
        " some in use, 1 have"
        " tainted ones"
    ) in summary


def test_which_claim_of_several_is_meant() -> None:
    made = mixed()
    named = made.claim("common", FOUR)

    assert "Request gpu of claim 2 needs 4" in told(made, made.asks(None, ask(gpu()), FOUR))
    assert "Request gpu of ResourceClaim common needs 4" in told(made, made.asks(None, named))


def test_the_best_place_of_a_shared_claim_is_told() -> None:
    made = DevicePreemption()
    for at in range(4):
        made.node(f"n{at}", 2, labels={"rack": f"r{at // 2}"})
    scope = NodeScope(terms=(NodeTerm((Expression("rack", "In", ("r1",)),)),))
    made.slice(pool(device("switch"), pool="net", scope=scope))
    key = made.claim("imex", ask(gpu()))
    made.gang("g", 6)
    for _ in range(6):
        made.asks("g", key)

    refusal = made.place("g")

    assert isinstance(refusal, Refusal)
    assert (
        "ResourceClaim imex keeps all of its pods on the nodes that can use its devices, and the"
        " best of these have capacity for 4 of 6"
    ) in explain(made.state, refusal).summary


def test_devices_that_several_nodes_see_are_not_counted_twice() -> None:
    made = DevicePreemption()
    made.node("n0")
    made.node("n1")
    made.slice(pool(device("a"), device("b"), pool="net", scope=NodeScope(everywhere=True)))
    made.holds("n0", claims=(made.allocated("c", "n0", "a", pool="net", local=False),))

    summary = told(made, made.asks(None, ask(gpu(2))))

    assert "needs 2 devices of class gpu; 1 free on the best of 2 nodes." in summary


def test_nothing_is_said_of_devices_where_others_things_are_short() -> None:
    made = DevicePreemption()
    made.gpu_node("n0", count=4, cpu=2)

    summary = told(made, made.asks(None, ask(gpu()), cpu=3))

    assert "device" not in summary
    assert "Insufficient cpu" in summary


def test_who_has_the_devices_is_not_told() -> None:
    made = DevicePreemption()
    made.gpu_node("n0", count=1)
    secret = made.allocated("hush", "n0", "gpu-0")
    made.holds("n0", claims=(secret,))

    assert "hush" not in told(made, made.asks(None, ask(gpu())))


def test_what_words_cost_is_bounded() -> None:
    """Every node has another usage, and a claim the maximum number of options."""
    made = DevicePreemption()
    for at in range(40):
        made.gpu_node(f"n{at}", count=6)
        used = [f"gpu-{bit}" for bit in range(6) if at >> bit & 1]
        if used:
            made.holds(f"n{at}", *used)
    options = tuple(DeviceOption(f"r/{at}", CLASS, count=9 + at % 2) for at in range(8))
    requests = tuple(DeviceRequest(f"r{at}", (*options[:7], DeviceOption("r/z", CLASS)), True)
                     for at in range(32))  # fmt: skip
    info = made.asks(None, Ask(requests))
    refusal = made.place_single(info)
    assert isinstance(refusal, Refusal)

    advice = DeviceAdvice(made.state.framework, made.single(info).shape, refusal.shortage)

    assert advice.message() == ""
    assert _MOST_LOOKS < advice._looks < 3 * _MOST_LOOKS
