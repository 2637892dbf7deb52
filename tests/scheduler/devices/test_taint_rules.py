"""DeviceTaintRules add to the taints of slices, and their taints end with them."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.devices.taint_rules import DeviceTaintRule
from scheduler.core.explain.explain import explain
from scheduler.core.search.place import Placement, Refusal
from scheduler.core.values.device_asks import DeviceToleration
from scheduler.core.values.devices import DeviceClassInfo, DeviceTaint
from tests.scheduler.devices.builders import CLASS, DRIVER, ask, device, gpu, has, pool
from tests.scheduler.devices.cluster import DeviceCluster
from tests.support.counting import calls
from tools.testing.effort import examples

BROKEN = DeviceTaint("broken", "yes", "NoExecute")


def rule(name: str = "r", taint: DeviceTaint = BROKEN, **criteria: Any) -> DeviceTaintRule:
    return DeviceTaintRule(name, taint, **criteria)


def cluster() -> DeviceCluster:
    made = DeviceCluster()
    for name, size in (("n0", "small"), ("n1", "large")):
        made.gpu_node(name, *(device(f"gpu-{at}", {"size": size}) for at in range(2)))
    return made


def taken(made: DeviceCluster, count: int = 4) -> list[str]:
    """Return the devices for that many pods with one each, by pool, and undo the placements."""
    pods = [made.asks(None, ask(gpu())) for _ in range(count)]
    found: list[str] = []
    for pod in pods:
        decision = made.place_single(pod)
        if isinstance(decision, Placement):
            made.run(decision)
            found += made.devices_of(pod.device_claims)
    for pod in pods:
        made.state.remove_pod(pod.uid)
    return sorted(found)


ALL = ["n0:gpu-0", "n0:gpu-1", "n1:gpu-0", "n1:gpu-1"]


@pytest.mark.parametrize(
    ("criteria", "left"),
    [
        pytest.param({}, [], id="without criteria all devices"),
        pytest.param({"driver": DRIVER}, [], id="those of the driver"),
        pytest.param({"driver": "nic.example.com"}, ALL, id="not those of another driver"),
        pytest.param({"pool": "n0"}, ALL[2:], id="those of the pool, of any driver"),
        pytest.param({"device": "gpu-0"}, [ALL[1], ALL[3]], id="those of the name, in any pool"),
        pytest.param(
            {"driver": DRIVER, "pool": "n1", "device": "gpu-1"}, ALL[:3], id="the one device"
        ),
        pytest.param({"pool": "n1", "device": "gpu-7"}, ALL, id="none that is not there"),
        pytest.param({"device_class": "small"}, ALL[2:], id="those of the class"),
        pytest.param({"device_class": "nowhere"}, ALL, id="none of a class that is not there"),
        pytest.param({"selectors": (has("size", "large"),)}, ALL[:2], id="those selected"),
        pytest.param(
            {"device_class": "small", "selectors": (has("size", "large"),)}, ALL, id="both"
        ),
        pytest.param({"selectors": (has("color", "red"),)}, ALL, id="not where a selector fails"),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["before the slices", "after them"])
def test_a_rule_taints_what_meets_all_criteria(
    criteria: dict[str, Any], left: list[str], first: bool
) -> None:
    made = cluster()
    made.table.slices.set_rule(rule(**criteria))
    if first:
        for info in list(made.slices.values()):
            made.slice(info)

    assert taken(made) == left
    made.table.slices.remove_rule("r")
    assert taken(made) == ALL


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute", "None", "Later"])
def test_only_known_effects_keep_pods_away(effect: str) -> None:
    made = cluster()
    made.table.slices.set_rule(rule(taint=DeviceTaint("k", "", effect), pool="n0"))

    assert taken(made) == (ALL[2:] if effect.startswith("NoS") or effect == "NoExecute" else ALL)


def test_who_tolerates_the_taint_gets_the_device() -> None:
    made = cluster()
    made.table.slices.set_rule(rule())
    request = gpu()
    (option,) = request.options
    tolerations = (DeviceToleration("broken", "Exists"),)
    request = replace(request, options=(replace(option, tolerations=tolerations),))
    pods = [made.asks(None, ask(request)), made.asks(None, ask(gpu()))]

    assert isinstance(made.place_single(pods[0]), Placement)
    assert isinstance(made.place_single(pods[1]), Refusal)


def test_a_refusal_counts_what_rules_taint() -> None:
    made = cluster()
    made.table.slices.set_rule(rule(device="gpu-0"))
    refusal = made.place_single(made.asks(None, ask(gpu(2))))
    assert isinstance(refusal, Refusal)

    assert "(2 tainted)" in explain(made.state, refusal).summary


def test_a_rule_that_goes_leaves_the_equal_taint_of_the_driver() -> None:
    made = DeviceCluster()
    made.gpu_node("n0", device("gpu-0", taints=[BROKEN]), device("gpu-1"))
    made.table.slices.set_rule(rule())
    made.table.slices.set_rule(rule("again"))
    assert taken(made) == []
    made.table.slices.remove_rule("r")
    assert taken(made) == []
    made.table.slices.remove_rule("again")
    made.table.slices.remove_rule("again")

    assert taken(made) == ["n0:gpu-1"]


def test_a_rule_that_changes_is_for_other_devices_then() -> None:
    made = cluster()
    made.table.slices.set_rule(rule(pool="n0"))
    made.table.slices.set_rule(rule(pool="n1"))

    assert taken(made) == ALL[:2]


def test_a_class_that_comes_changes_or_goes_is_asked_again() -> None:
    made = cluster()
    made.table.slices.set_rule(rule(device_class="late"))
    assert taken(made) == ALL
    made.table.set_class(DeviceClassInfo("late", (has("size", "small"),)))
    assert taken(made) == ALL[2:]
    made.table.set_class(DeviceClassInfo("late", (has("size", "large"),)))
    assert taken(made) == ALL[:2]
    made.table.remove_class("late")
    assert taken(made) == ALL


def test_what_is_allocated_stays_allocated() -> None:
    made = cluster()
    pod = made.asks(None, ask(gpu(2)))
    made.write(made.place_single(pod))
    made.table.slices.set_rule(rule())

    assert len(made.devices_of(pod.device_claims)) == 2
    made.table.slices.remove_rule("r")
    assert len(taken(made)) == 2


def test_only_the_rows_of_slices_that_change_are_woken() -> None:
    made = cluster()
    made.state.take_changes()
    made.table.slices.set_rule(rule(pool="n1"))
    assert made.state.take_changes().rows == {made.state.nodes.row_of["n1"]}
    made.table.slices.set_rule(rule("other", pool="n7"))
    assert made.state.take_changes().rows == set()
    made.table.slices.remove_rule("r")
    assert made.state.take_changes().rows == {made.state.nodes.row_of["n1"]}


def test_a_slice_costs_what_its_own_rules_cost() -> None:
    made = cluster()
    info = pool(device("gpu-0"), pool="n0", node="n0", generation=2)

    def cost() -> int:
        return calls(lambda: made.slice(info))

    cost()
    before = cost()
    for at in range(2000):
        made.table.slices.set_rule(rule(f"r{at}", pool=f"other-{at}"))
    assert cost() < before + 20


RULES = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.fixed_dictionaries(
        {},
        optional={
            "driver": st.sampled_from([DRIVER, "nic.example.com"]),
            "pool": st.sampled_from(["n0", "n1"]),
            "device": st.sampled_from(["gpu-0", "gpu-1"]),
            "device_class": st.sampled_from(["small", CLASS, "late"]),
        },
    ),
    max_size=3,
)


@given(st.lists(RULES, min_size=1, max_size=4))
@examples(20, 100)
def test_rules_that_came_and_went_leave_what_the_last_ones_alone_make(
    history: list[dict[str, dict[str, Any]]],
) -> None:
    made, fresh = cluster(), cluster()
    for rules in history:
        for name in made.table.slices.rules.all.keys() - rules.keys():
            made.table.slices.remove_rule(name)
        for name, criteria in rules.items():
            made.table.slices.set_rule(rule(name, DeviceTaint(name), **criteria))
    for name, criteria in reversed(history[-1].items()):
        fresh.table.slices.set_rule(rule(name, DeviceTaint(name), **criteria))

    for row in range(2):
        mine, theirs = (
            [found.taints for _, found in each.table.view(row).sources] for each in (made, fresh)
        )
        assert mine == theirs
    assert made.table.slices.written == fresh.table.slices.written
