"""Held places in `muster explain`, `simulate`, `tree` and `replay`."""

import re
from typing import Any

import pytest

from analysis.explain.explain import explain_lines
from analysis.simulate.simulate import simulate
from api.features import USUAL, FeatureGates
from cli.commands.snapshots import branches_of
from cli.main import main
from cli.trees.snapshot_tree import branches
from cli.trees.text import tree_lines
from cli.trees.tree import Objects, build
from kube.base.errors import ConfigError
from scheduler.core.explain.holders import held_capacity, held_on, holders
from scheduler.core.search.place import SearchBudget
from scheduler.snapshot.snapshot import Limits, encode, take
from tests.scheduler.holding_harness import HoldingHarness, kind, template

Json = dict[str, Any]

ALL_ON = FeatureGates.of({"ExpectedPods": True})


async def holding(harness: HoldingHarness, *, rival: int = 0) -> None:
    """Run a driver in a cluster of nine slots, hold eight, and let a rival request three."""
    harness.builder.nodes(3, cpu=3)
    harness.group("train", 9, kind("driver", 1), kind("worker", 8))
    harness.pod("driver", "train")
    harness.group("rival", 3, priority=rival)
    for index in range(3):
        harness.pod(f"rival-{index}", "rival", priority=rival)


def lines_of(harness: HoldingHarness, name: str) -> str:
    state = harness.builder.state
    group = state.forest.groups["PodGroup", "ns", name]
    return "\n".join(explain_lines(state, group, SearchBudget(), USUAL, observed=harness.observed))


async def test_explain_says_who_holds_what_for_whom_and_until_when() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await holding(harness)
        await harness.settle(3)

        own = lines_of(harness, "train")
        assert own.startswith(
            "PodGroup ns/train: 1 of 1 pods scheduled, 8 expected, 8 held places, minCount 9\n"
            "  has 8 held places for pods that do not exist yet, until 2026-01-01T00:10:0"
        )
        assert "no pod waits" in own
        other = lines_of(harness, "rival")
        assert "Unschedulable (capacity)" in other
        assert "PodGroup ns/train, priority 0, has 8 held places" in other
        assert "which preemption may not take" in other


async def test_explain_says_which_places_would_be_taken() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await holding(harness)
        await harness.settle(3)
    harness.group("rival", 3, priority=5)
    for index in range(3):
        harness.pod(f"rival-{index}", "rival", priority=5)

    other = lines_of(harness, "rival")

    assert "has 8 held places for pods that do not exist yet, which preemption may take" in other
    assert re.search(r"would preempt (\d pods? and )?\d held places of lower priority:", other)


async def test_explain_of_what_would_start_says_which_places_it_would_hold() -> None:
    harness = HoldingHarness()
    await holding(harness)

    lines = lines_of(harness, "train")

    assert "PodGroup ns/train: 0 of 1 pods scheduled, 8 expected, minCount 9" in lines
    assert re.search(r"would be scheduled now: n\d x1\n", lines)
    assert "held places for pods that do not exist yet: n0 x" in lines


async def test_a_snapshot_and_its_tree_have_them(tmp_path: Any, capsys: Any) -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await holding(harness)
        await harness.settle(3)
    state, limits = harness.builder.state, Limits.of(SearchBudget())
    file = tmp_path / "snapshot.json"
    file.write_bytes(encode(take(state, harness.queue, limits)))

    drawn = tree_lines(branches_of(file))

    assert any(
        "PodGroup train: Waiting, 1 of 1 pods scheduled, 8 held places (minCount 9)" in line
        for line in drawn
    )
    assert drawn == tree_lines(branches(state, SearchBudget()))
    assert main(["replay", str(file)]) == 0
    assert main(["explain", "podgroup/rival", "-n", "ns", "--snapshot", str(file)]) == 0
    assert "PodGroup ns/train, priority 0, has 8 held places" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        ([{"name": "worker", "node": "n1", "count": 2}], "1 of 1 pods scheduled, 2 held places"),
        ([{"name": "worker", "node": "n1", "count": 1}], "1 of 1 pods scheduled, 1 held place"),
        ([{"name": "worker", "node": "n1", "count": -7}], "1 of 1 pods scheduled (min"),
        ([{"name": "worker"}], "1 of 1 pods scheduled (min"),
    ],
)
def test_the_tree_of_a_cluster_has_them(pods: list[Json], want: str) -> None:
    labels = {"scheduling.muster.dev/pod-group": "train"}
    group = {
        "metadata": {"namespace": "ns", "name": "train", "uid": "u"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
        "status": {"heldPlaces": {"pods": pods}},
    }
    pod = {
        "metadata": {"namespace": "ns", "name": "driver", "labels": labels},
        "spec": {"nodeName": "n0"},
    }

    (line, *_) = tree_lines(build(Objects(pod_groups=[group], pods=[pod])))

    assert want in line


def expecting(name: str, minimum: int, **kinds: int) -> Json:
    return {
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": minimum}},
            "expectedPods": [kind(each, count) for each, count in kinds.items()],
        },
    }


def member(name: str, of: str) -> Json:
    labels = {"scheduling.muster.dev/pod-group": of}
    return {"kind": "Pod", "metadata": {"name": name, "labels": labels}, **template()}


def test_a_simulation_counts_what_a_group_expects() -> None:
    harness = HoldingHarness()
    harness.builder.nodes(3, cpu=3)
    documents = [expecting("train", 9, driver=1, worker=8), member("driver", "train")]

    fits = simulate(harness.builder.state, documents, "ns", SearchBudget(), gates=ALL_ON).lines
    more = [expecting("other", 2, driver=1, worker=1), member("first", "other")]
    waits = simulate(harness.builder.state, more, "ns", SearchBudget(), gates=ALL_ON).lines

    assert fits[0] == "PodGroup ns/train: 0 of 1 pods scheduled, 8 expected, minCount 9"
    assert re.fullmatch(r"  fits: n\d x1", fits[1])
    assert fits[2].startswith("    held places for pods that do not exist yet: n0 x")
    assert len(fits) == 3
    assert any(line.startswith("  Unschedulable (capacity)") for line in waits)
    assert any("PodGroup ns/train, priority 0, has 8 held places" in line for line in waits)


def test_a_simulated_group_without_any_pod_waits_for_its_first() -> None:
    harness = HoldingHarness()
    harness.builder.nodes(3, cpu=3)

    lines = simulate(
        harness.builder.state, [expecting("train", 2, worker=2)], "ns", SearchBudget(), gates=ALL_ON
    ).lines

    assert "None of the expected pods exists yet" in "\n".join(lines)


async def test_held_room_counts_apart() -> None:
    harness = HoldingHarness()
    async with harness.leading():
        await holding(harness)
        await harness.settle(3)
    state = harness.builder.state
    (holder,) = holders(state)

    assert (holder.group[2], holder.priority, holder.total) == ("train", 0, 8)
    assert holder.places == held_on(state.forest.groups["PodGroup", "ns", "train"])
    assert holder.places == harness.held("train")
    cpu, pods = state.nodes.resources.indices["cpu"], state.nodes.resources.indices["pods"]
    found = held_capacity(state)
    for name, row in state.nodes.row_of.items():
        assert found[cpu, row] == 1000 * harness.held("train").get(name, 0)
        assert found[pods, row] == harness.held("train").get(name, 0)


@pytest.mark.parametrize("devices", [8, 7])
def test_a_simulation_counts_the_devices_of_those_that_are_expected(devices: int) -> None:
    harness = HoldingHarness()
    harness.builder.node("n0", 20)
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
    group = expecting("train", 9, driver=1, worker=8)
    group["spec"]["expectedPods"][1]["template"]["spec"] |= claims
    documents = [group, member("driver", "train"), *device_objects(devices)]

    lines = simulate(harness.builder.state, documents, "ns", SearchBudget(), gates=ALL_ON).lines

    assert any("fits:" in line for line in lines) == (devices == 8)


def test_a_template_that_a_simulation_does_not_have_is_asked_for() -> None:
    harness = HoldingHarness()
    harness.builder.node("n0", 20)
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "other"}]}
    group = expecting("train", 2, worker=2)
    group["spec"]["expectedPods"][0]["template"]["spec"] |= claims
    documents = [group, *device_objects(8)]

    with pytest.raises(ConfigError, match='could not find ResourceClaimTemplate "ns/other"'):
        simulate(harness.builder.state, documents, "ns", SearchBudget(), gates=ALL_ON)


def device_objects(devices: int) -> list[Json]:
    """Return a class, a slice of node n0 with that many devices, and a template for one."""
    exactly = {"deviceClassName": "gpu", "count": 1, "allocationMode": "ExactCount"}
    claim = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    content = {
        "driver": "gpu.example.com",
        "nodeName": "n0",
        "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"d{index}"} for index in range(devices)],
    }
    return [
        {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": content},
        {"kind": "ResourceClaimTemplate", "metadata": {"name": "t"}, "spec": {"spec": claim}},
    ]
