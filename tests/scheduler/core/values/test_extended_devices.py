"""Containers' extended resources as requests of a claim: KEP-5004 and kube-scheduler."""

import pytest

from scheduler.core.values.extended_devices import (
    ContainerDevices,
    RequestMapping,
    ask_for,
    mappings,
    may_be_mapped,
)

GPU, NIC = "example.com/gpu", "example.com/nic"
CLASSES = {GPU: "gpu", NIC: "nic"}


def init(index: int, gpus: int) -> ContainerDevices:
    return ContainerDevices(f"i{index}", index, ends=True, amounts=((GPU, 1, gpus),))


def main(index: int, gpus: int) -> ContainerDevices:
    return ContainerDevices(f"c{index}", index, ends=False, amounts=((GPU, 1, gpus),))


def short(index: int) -> str:
    return f"container-{index}-request-1"


@pytest.mark.parametrize(
    ("containers", "want", "uses"),
    [
        pytest.param((main(0, 2),), {0: 2}, [("c0", 0)], id="a container"),
        pytest.param(
            (main(0, 2), main(1, 1)), {0: 2, 1: 1}, [("c0", 0), ("c1", 1)], id="two containers"
        ),
        pytest.param(
            (init(0, 2), main(1, 2)),
            {1: 2},
            [("c1", 1), ("i0", 1)],
            id="an init container uses those of the container",
        ),
        pytest.param(
            (init(0, 5), main(1, 2)),
            {0: 3, 1: 2},
            [("c1", 1), ("i0", 1), ("i0", 0)],
            id="it asks for what it needs besides",
        ),
        pytest.param(
            (init(0, 3), init(1, 4), main(2, 1)),
            {1: 3, 2: 1},
            [("c2", 2), ("i0", 2), ("i0", 1), ("i1", 2), ("i1", 1)],
            id="the largest of several requests for more serves all",
        ),
        pytest.param(
            (init(0, 4), init(1, 4), main(2, 1)),
            {0: 3, 2: 1},
            [("c2", 2), ("i0", 2), ("i0", 0), ("i1", 2), ("i1", 0)],
            id="of two that are as large it is the first",
        ),
        pytest.param(
            (main(0, 1), init(1, 2), main(2, 1)),
            {0: 1, 1: 1, 2: 1},
            [("c0", 0), ("c2", 2), ("i1", 2), ("i1", 1)],
            id="a sidecar that runs before keeps its own",
        ),
        pytest.param(
            (init(0, 1), main(1, 2), main(2, 2)),
            {1: 2, 2: 2},
            [("c1", 1), ("c2", 2), ("i0", 1)],
            id="it uses no more than it needs",
        ),
        pytest.param((main(0, 0),), {}, [], id="nothing is requested"),
    ],
)
def test_requests_of_the_claim(
    containers: tuple[ContainerDevices, ...], want: dict[int, int], uses: list[tuple[str, int]]
) -> None:
    ask = ask_for(containers, {GPU: "gpu"})

    found = {each.name: each.options[0].count for each in ask.requests}
    assert found == {short(index): count for index, count in want.items()}
    assert {each.options[0].device_class for each in ask.requests} <= {"gpu"}
    assert mappings(containers, ask) == [
        RequestMapping(name, GPU, short(index)) for name, index in uses
    ]


def test_a_claim_is_only_for_the_resources_that_the_node_does_not_offer() -> None:
    both = (ContainerDevices("c", 0, ends=False, amounts=((GPU, 1, 2), (NIC, 3, 1))),)

    only = ask_for(both, {NIC: "nic"})
    all_of_them = ask_for(both, CLASSES)

    assert [each.name for each in only.requests] == ["container-0-request-3"]
    assert mappings(both, only) == [RequestMapping("c", NIC, "container-0-request-3")]
    assert only.classes == {"nic"}
    assert [each.name for each in all_of_them.requests] == [
        "container-0-request-1",
        "container-0-request-3",
    ]
    assert len(mappings(both, all_of_them)) == 2


def test_requests_are_in_the_order_of_their_names() -> None:
    """kube-scheduler sorts them as text, so that the tenth is before the second."""
    many = tuple(main(index, 1) for index in range(11))

    names = [each.name for each in ask_for(many, {GPU: "gpu"}).requests]

    assert names == sorted(names)
    assert names[1:3] == [short(1), short(10)]


@pytest.mark.parametrize(
    ("resource", "want"),
    [
        ("example.com/gpu", True),
        ("deviceclass.resource.kubernetes.io/gpu", True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/gpu", False),
        ("gpu.kubernetes.io/gpu", False),
        ("requests.example.com/gpu", False),
    ],
)
def test_which_resources_a_class_may_stand_for(resource: str, *, want: bool) -> None:
    assert may_be_mapped(resource) == want
