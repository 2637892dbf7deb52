"""Terms between pods whose stages never run at the same time."""

from typing import Any

import pytest

from tests.scheduler.holding_harness import HoldingHarness, Json, kind

HOST = "kubernetes.io/hostname"
PORT: dict[str, Any] = {"port": 8080}


def term(app: str) -> Json:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST}


def required(rule: str, app: str) -> Json:
    field = {"requiredDuringSchedulingIgnoredDuringExecution": [term(app)]}
    return {"affinity": {rule: field}}


def spread(app: str) -> Json:
    rule = {**term(app), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [rule]}


def two_nodes(harness: HoldingHarness, cpu: int = 1) -> None:
    for name in ("n0", "n1"):
        harness.builder.node(name, cpu, labels={HOST: name})


def ordered(harness: HoldingHarness, first: Json, then: Json, count: int = 2) -> None:
    """Create an existing initializer, and trainers that follow it."""
    initializer = kind("initializer", 1, stage=1, **first)
    harness.group("train", 1 + count, initializer, kind("trainer", count, stage=2, **then))
    harness.pod("initializer", "train", **first)


CASES = [
    pytest.param(PORT, PORT, id="host ports"),
    pytest.param({"app": "a"}, required("podAntiAffinity", "a"), id="anti-affinity of later pods"),
    pytest.param(required("podAntiAffinity", "b"), {"app": "b"}, id="of those that run before"),
    pytest.param({"app": "a"}, {"app": "a", **spread("a")}, id="spreading"),
]


@pytest.mark.parametrize(("first", "then"), CASES)
async def test_pods_that_never_meet_do_not_exclude_each_other(
    first: dict[str, Any], then: dict[str, Any]
) -> None:
    """There are two slots for two trainers; the initializer uses one of them before."""
    harness = HoldingHarness()
    async with harness.leading():
        two_nodes(harness)
        ordered(harness, first, then)
        await harness.settle(2)
        assert list(harness.where()) == ["initializer"]
        assert harness.held("train") == {"n0": 1, "n1": 1}

        state = harness.builder.state
        state.set_pod(harness.with_phase("uid-initializer", "Succeeded"))
        for index in range(2):
            harness.pod(f"trainer-{index}", "train", **then)
        await harness.settle(3)
        assert sorted(harness.where("trainer").values()) == ["n0", "n1"]


@pytest.mark.parametrize(("first", "then"), CASES[:3])
async def test_pods_that_exist_exclude_each_other_whatever_their_owner_says(
    first: dict[str, Any], then: dict[str, Any]
) -> None:
    """The trainers arrive while the initializer runs: none gets its node."""
    harness = HoldingHarness()
    async with harness.leading(unsettled="a trainer waits"):
        two_nodes(harness, cpu=4)
        ordered(harness, first, then)
        await harness.settle(2)
        on = harness.where()["initializer"]
        for index in range(2):
            harness.pod(f"trainer-{index}", "train", **then)
        await harness.settle(3)
        assert on not in harness.where("trainer").values()

        harness.builder.state.set_pod(harness.with_phase("uid-initializer", "Succeeded"))
        await harness.settle(3)
        assert len(harness.where("trainer")) == 2


@pytest.mark.parametrize(("first", "then"), CASES[:3])
async def test_pods_without_a_stage_meet_those_of_each(
    first: dict[str, Any], then: dict[str, Any]
) -> None:
    harness = HoldingHarness()
    async with harness.leading():
        two_nodes(harness, cpu=4)
        harness.group("train", 2, kind("driver", 1, **first), kind("trainer", 1, stage=2, **then))
        harness.pod("driver", "train", **first)
        await harness.settle(3)
        assert harness.where()["driver"] not in harness.held("train")
        assert sum(harness.held("train").values()) == 1


async def test_another_root_meets_them_all() -> None:
    harness = HoldingHarness()
    async with harness.leading(unsettled="the rival waits"):
        two_nodes(harness, cpu=4)
        ordered(harness, PORT, PORT)
        await harness.settle(2)
        harness.group("rival", 1)
        harness.pod("rival", "rival", **PORT)
        await harness.settle(3)
        assert not harness.where("rival")


async def test_a_pod_that_will_have_ended_is_no_company_for_one_that_comes_later() -> None:
    harness = HoldingHarness()
    async with harness.leading(unsettled="can never run"):
        two_nodes(harness, cpu=4)
        ordered(harness, {"app": "a"}, required("podAffinity", "a"))
        await harness.settle(3)
        assert not harness.where()
        assert "pod affinity rules" in harness.summary(("PodGroup", "ns", "train"))


async def test_company_that_stays_counts_for_every_stage() -> None:
    harness = HoldingHarness()
    then = required("podAffinity", "a")
    async with harness.leading():
        two_nodes(harness, cpu=4)
        initializer, trainer = kind("initializer", 1, stage=1), kind("trainer", 2, stage=2, **then)
        harness.group("train", 4, kind("driver", 1, app="a"), initializer, trainer)
        harness.pod("initializer", "train")
        await harness.settle(3)
        assert list(harness.where()) == ["initializer"]
        assert 2 in harness.held("train").values() or 3 in harness.held("train").values()


async def test_the_first_of_a_later_stage_needs_no_company_of_an_earlier_one() -> None:
    """Pods that match their own term: the initializer matches it, too, but will be deleted."""
    harness = HoldingHarness()
    rules = {"app": "a", **required("podAffinity", "a")}
    async with harness.leading():
        two_nodes(harness)
        harness.builder.node("big", 2, labels={HOST: "big"})
        ordered(harness, rules, rules)
        await harness.settle(3)
        assert list(harness.where()) == ["initializer"]
        assert harness.held("train") == {"big": 2}


async def test_a_pod_is_of_the_kind_whose_labels_it_has() -> None:
    """The kinds have equal requests: only the pods' labels distinguish them."""
    harness = HoldingHarness()
    async with harness.leading():
        two_nodes(harness, cpu=4)
        kinds = kind("a", 1, app="trainer", stage=2), kind("b", 1, app="initializer", stage=1)
        key = harness.group("train", 2, *kinds)
        harness.pod("initializer", "train", app="initializer")
        await harness.settle(2)
        came = {each.name: each.came for each in harness.expected.kinds(key)}
        assert came == {"a": (), "b": ("uid-initializer",)}


async def test_of_equal_kinds_a_pod_is_of_the_one_that_comes_first() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        two_nodes(harness, cpu=4)
        key = harness.group("train", 2, kind("a", 1, stage=2), kind("b", 1, stage=1))
        harness.pod("initializer", "train")
        await harness.settle(2)
        came = {each.name: each.came for each in harness.expected.kinds(key)}
        assert came == {"a": (), "b": ("uid-initializer",)}
