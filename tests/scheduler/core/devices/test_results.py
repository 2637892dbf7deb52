"""The allocation results written into claims."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from scheduler.core.devices.allocator import Solution
from scheduler.core.devices.requests import resolve
from scheduler.core.devices.results import allocations
from scheduler.core.values.device_asks import Ask, DeviceConfig, DeviceToleration, exactly
from scheduler.core.values.devices import (
    AllocatedConfig,
    Allocation,
    DeviceClassInfo,
    NodeScope,
    SliceInfo,
)
from scheduler.core.values.model import NEWEST_RELEASE, Expression, NodeTerm, Release
from tests.scheduler.core.devices.solving import outcome, resolved
from tests.scheduler.devices.builders import (
    CLASS,
    CLASSES,
    DRIVER,
    HERE,
    ask,
    device,
    first_of,
    gpu,
    gpus,
    pool,
    units,
)

LOCAL = (NodeTerm((), (Expression("metadata.name", "In", (HERE,)),)),)
RACK = Expression("rack", "In", ("r1",))
ZONE = Expression("zone", "In", ("z",))
ALL = NodeScope(everywhere=True)
RELEASES: tuple[Release, ...] = ((1, 36), (1, 37))


def given(
    slices: Iterable[SliceInfo],
    *asks: Ask,
    classes: dict[str, DeviceClassInfo] = CLASSES,
    inside: Iterable[NodeScope] = (),
    release: Release = NEWEST_RELEASE,
) -> tuple[Allocation, ...]:
    answer, view = outcome(slices, asks, classes=classes, inside=list(inside))
    assert isinstance(answer, Solution), answer
    return allocations(resolved(asks, classes), answer.pods[0], view, HERE, release)


def scope(*expressions: Expression) -> NodeScope:
    return NodeScope(terms=(NodeTerm(expressions),))


@pytest.mark.parametrize(
    ("slices", "want"),
    [
        pytest.param([gpus(1)], LOCAL, id="a device of the node"),
        pytest.param([pool(device("a"), scope=ALL)], None, id="a device of all nodes"),
        pytest.param([pool(device("a"), scope=scope(RACK))], (NodeTerm((RACK,)),), id="of a rack"),
        pytest.param(
            [pool(replace(device("a"), binds_to_node=True), scope=ALL)], LOCAL, id="it binds itself"
        ),
        pytest.param(
            [pool(device("a", node=HERE), per_device=True)], LOCAL, id="the device's own node"
        ),
    ],
)
def test_nodes(slices: list[SliceInfo], want: object) -> None:
    inside = [scope(RACK)]
    assert given(slices, ask(gpu()), inside=inside)[0].nodes == want


def test_nodes_that_can_use_all_devices() -> None:
    both = [scope(RACK), scope(ZONE, RACK)]
    slices = [pool(device("a"), pool=str(at), scope=each) for at, each in enumerate(both)]

    assert given(slices, ask(gpu(2)), inside=both)[0].nodes == (NodeTerm((RACK, ZONE)),)


def test_a_claim_without_devices_can_be_used_everywhere() -> None:
    assert given([gpus(1)], ask()) == (Allocation(()),)


def test_what_a_result_says() -> None:
    toleration = DeviceToleration("k", "Exists", seconds=5)
    found = pool(device("nic", capacity={"rate": 4}, shared=True, binding=["Ready"]))
    request = exactly("a", CLASS, tolerations=(toleration,), capacity=units(rate=3))
    (result,) = given([found], ask(first_of("nic", request)))[0].devices

    assert result.request == "nic/a"
    assert result.key == (DRIVER, HERE, "nic")
    assert result.tolerations == (toleration,)
    assert (result.share, result.consumed) == ("", units(rate=3))
    assert result.binding_conditions == ("Ready",)
    assert not result.admin


def test_admin_access_is_said() -> None:
    allocation = given([gpus(1)], ask(exactly("a", CLASS, admin=True)))[0]

    assert [each.admin for each in allocation.devices] == [True]


def test_configuration() -> None:
    classes = {
        "gpu": DeviceClassInfo("gpu", (), (DeviceConfig("{class}"),)),
        "none": DeviceClassInfo("none"),
    }
    claim = Ask(
        (gpu(name="x"), first_of("y", gpu(name="one"), gpu(name="two")), exactly("z", "none")),
        config=(
            DeviceConfig("{all}"),
            DeviceConfig("{x}", ("x",)),
            DeviceConfig("{both}", ("x", "y")),
            DeviceConfig("{unused}", ("y/two",)),
            DeviceConfig("{used}", ("y/one",)),
        ),
    )

    found = [given([gpus(3)], claim, classes=classes, release=it)[0].config for it in RELEASES]

    own, of_class = claim.config, AllocatedConfig(DeviceConfig("{class}", ("x", "y/one")), True)
    assert found == [
        (of_class, *(AllocatedConfig(own[at], of_class=False) for at in (0, 1, 2, 2, 4))),
        (of_class, *(AllocatedConfig(own[at], of_class=False) for at in (0, 1, 2, 4))),
    ]


@pytest.mark.parametrize(
    ("requests", "concise"),
    [
        (("x", "y"), ()),
        (("x", "y/one"), ()),
        (("x", "y/two"), ("x", "y/two")),
        (("x",), ("x",)),
    ],
)
def test_a_configuration_for_all_requests_names_none_since_1_37(
    requests: tuple[str, ...], concise: tuple[str, ...]
) -> None:
    """The same holds for that of a class."""
    classes = {"gpu": DeviceClassInfo("gpu", (), (DeviceConfig("{class}"),))}
    claim = Ask(
        (gpu(name="x"), first_of("y", gpu(name="one"), gpu(name="two"))),
        config=(DeviceConfig("{}", requests),),
    )

    found = [given([gpus(3)], claim, classes=classes, release=it)[0].config for it in RELEASES]

    assert [[each.config.requests for each in config] for config in found] == [
        [("x", "y/one"), *[requests] * sum(it in {*requests} for it in ("x", "y", "y/one"))],
        [(), concise],
    ]


@pytest.mark.parametrize(
    ("claim", "want"),
    [
        pytest.param(
            ask(exactly("x", "none")),
            "request x: device class none does not exist",
            id="no such class",
        ),
        pytest.param(
            ask(first_of("l", gpu(name="a"), exactly("b", "none"))),
            "request l/b: device class none does not exist",
            id="in a list",
        ),
        pytest.param(
            ask(gpu(30, name="a"), gpu(3, name="b")),
            "number of requested devices 33 exceeds the claim limit of 32",
            id="too many devices",
        ),
    ],
)
def test_what_no_node_can_meet(claim: Ask, want: str) -> None:
    assert resolve(claim, CLASSES) == want
