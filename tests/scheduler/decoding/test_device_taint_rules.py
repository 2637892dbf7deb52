"""DeviceTaintRules as delivered, in all served versions."""

from typing import Any

import msgspec
import pytest

from scheduler.core.devices.taint_rules import DeviceTaintRule
from scheduler.core.state.state import State
from scheduler.core.values.devices import DeviceTaint
from scheduler.decoding.device_decode import NotUnderstoodError, device_taint_rule
from scheduler.decoding.device_objects import TaintRule, decode_taint_rule
from scheduler.watch.object_handlers import taint_rule_handler

TAINT = {
    "key": "broken",
    "value": "yes",
    "effect": "NoExecute",
    "timeAdded": "2026-01-01T00:00:00Z",
}


def written(selector: Any = None, **more: Any) -> TaintRule:
    spec = {"taint": TAINT, **({} if selector is None else {"deviceSelector": selector}), **more}
    status = {"conditions": [{"type": "EvictionInProgress"}]}
    obj = {"metadata": {"name": "r", "uid": "u"}, "spec": spec, "status": status}
    return decode_taint_rule(msgspec.json.encode(obj))


@pytest.mark.parametrize(
    ("selector", "criteria"),
    [
        pytest.param(None, {}, id="no selector"),
        pytest.param({}, {}, id="an empty one"),
        pytest.param(
            {"driver": "d", "pool": "p", "device": "x"},
            {"driver": "d", "pool": "p", "device": "x"},
            id="all that 1.36 knows",
        ),
        pytest.param(
            {"deviceClassName": "c", "selectors": [{"cel": {"expression": "true"}}]},
            {"device_class": "c", "selectors": ("true",)},
            id="what 1.34 knows besides",
        ),
    ],
)
def test_a_rule(selector: Any, criteria: dict[str, Any]) -> None:
    want = DeviceTaintRule("r", DeviceTaint("broken", "yes", "NoExecute"), **criteria)

    assert device_taint_rule(written(selector), (1, 36)) == want
    # Since 1.37 a rule must have a selector to taint anything (kubernetes/kubernetes#141998).
    assert device_taint_rule(written(selector), (1, 37)) == (None if selector is None else want)


@pytest.mark.parametrize(
    ("selector", "more", "problem"),
    [
        ({"vendor": "v"}, {}, "uses spec.deviceSelector.vendor, which Muster does not know"),
        ({}, {"until": 1}, "uses spec.until, which Muster does not know"),
        ({"selectors": [{}]}, {}, "spec.deviceSelector.selectors\\[0\\] has no cel"),
        ({"driver": 1}, {}, "spec.deviceSelector.driver: Expected"),
    ],
)
def test_a_rule_that_is_not_understood_is_named(
    selector: Any, more: dict[str, Any], problem: str
) -> None:
    with pytest.raises(NotUnderstoodError, match=problem):
        device_taint_rule(written(selector, **more), (1, 36))


def test_events_set_and_remove_rules_and_what_is_set_aside_is_none() -> None:
    state, changes = State(), list[int]()
    handler = taint_rule_handler(state, lambda: changes.append(1))
    rules = state.devices.slices.rules.all

    handler.upsert(written({"pool": "p"}))
    assert rules["r"].pool == "p"
    handler.upsert(written({"pool": "q"}))
    assert rules["r"].pool == "q"
    handler.set_aside(("", "r"), b"")
    assert not rules
    handler.upsert(written())
    handler.delete(("", "r"))
    assert not rules
    assert len(changes) == 5
