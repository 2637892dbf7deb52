"""What tells devices apart, and that each selector is judged once for what it does not."""

from __future__ import annotations

import pytest

from scheduler.core.devices.kinds import Kinds, watched_by
from scheduler.core.devices.model import DeviceInfo
from tests.scheduler.devices.builders import (
    DRIVER,
    ask,
    device,
    gpu,
    has,
    judge,
    same,
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param('device.driver == "x"', set(), id="nothing"),
        pytest.param('device.attributes["d"].model == "a"', {"model"}, id="one by name"),
        pytest.param("device.attributes['d'].model == 'a'", {"model"}, id="the other quotes"),
        pytest.param(
            'device.attributes["d"].a == 1 && device.attributes["e"].b', {"a", "b"}, id="two"
        ),
        pytest.param('"d" in device.attributes', None, id="the map itself"),
        pytest.param('device.attributes["d"].exists(k, true)', None, id="a function over a domain"),
        pytest.param('device.attributes["d"].exists (k, true)', None, id="with a blank"),
        pytest.param("device.attributes[device.driver].a", None, id="a domain that is computed"),
        pytest.param('device.attributes["d"]["a"] == 1', None, id="a name as an index"),
        pytest.param('device.attributes["d"].?a.hasValue()', None, id="an optional one"),
        pytest.param('cel.bind(x, device.attributes["d"], x.a)', None, id="a domain by a name"),
        pytest.param('device.attributes["d\\"]"].a', None, id="an escaped quote"),
    ],
)
def test_what_a_selector_looks_at(text: str, want: set[str] | None) -> None:
    watched = watched_by([ask(gpu(1, text))], ())

    assert watched == (None if want is None else frozenset(want))


def test_constraints_look_at_attributes_too() -> None:
    watched = watched_by([ask(gpu(2), constraints=[same("rail")])], ())

    assert watched == frozenset({"rail"})


def test_devices_that_differ_in_nothing_watched_are_one_kind() -> None:
    kinds = Kinds(frozenset({"model"}))
    first = kinds.of(DRIVER, device("a", {"model": "x", "uuid": "1"}))

    assert kinds.of(DRIVER, device("b", {"model": "x", "uuid": "2"})) is first
    assert kinds.of(DRIVER, device("c", {"model": "y", "uuid": "1"})) is not first
    assert kinds.of("other.com", device("a", {"model": "x"})) is not first
    assert kinds.of(DRIVER, device("d", {"model": "x"}, capacity={"m": 1})) is not first
    assert len(kinds) == 4


def test_a_domain_in_front_of_a_watched_name_tells_apart() -> None:
    kinds = Kinds(frozenset({"model"}))

    assert kinds.of(DRIVER, device("a", {"x.com/model": 1})) is not kinds.of(DRIVER, device("a"))


def test_true_is_not_one() -> None:
    kinds = Kinds(None)
    one, true = device("a", {"x": 1}), device("b", {"x": True})

    assert kinds.of(DRIVER, one) is not kinds.of(DRIVER, true)


def test_a_selector_is_judged_once_per_kind() -> None:
    judged: list[str] = []

    def counting(expression: str, driver: str, sample: DeviceInfo) -> bool | str:
        judged.append(expression)
        return judge(expression, driver, sample)

    kind = Kinds(frozenset({"model"})).of(DRIVER, device("a", {"model": "x"}))

    assert kind.verdict(has("model", "x"), counting) is True
    assert kind.verdict(has("model", "x"), counting) is True
    assert kind.verdict(has("model", "y"), counting) is False
    assert judged == [has("model", "x"), has("model", "y")]
