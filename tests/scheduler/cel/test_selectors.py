"""Each selector is evaluated once per device, and each decision within its allowance."""

import pytest

from scheduler.cel.errors import CostExhaustedError
from scheduler.cel.selectors import COST, Selectors
from scheduler.core.values.devices import DeviceInfo
from tests.scheduler.cel.devices import device

PLAIN = DeviceInfo("d")
FIRST = "device.attributes['d'].index < 10"


def test_a_pair_is_judged_once() -> None:
    selectors = Selectors()

    answers = [selectors.evaluate(FIRST, "d", device(index=at % 3)) for at in range(30)]

    assert all(answer is True for answer in answers)
    assert selectors.evaluations == 3


def test_the_driver_and_whether_it_is_shared_tell_devices_apart() -> None:
    selectors = Selectors()
    text = "device.driver == 'd' && !device.allowMultipleAllocations"

    assert selectors.evaluate(text, "d", PLAIN) is True
    assert selectors.evaluate(text, "e", PLAIN) is False
    assert selectors.evaluate(text, "d", DeviceInfo("d", shared=True)) is False


def test_errors_are_remembered_too() -> None:
    selectors = Selectors()

    for _ in range(5):
        assert selectors.evaluate(FIRST, "d", PLAIN) == "CEL runtime error: no such key: index"
        assert str(selectors.evaluate("1 +", "d", PLAIN)).startswith("CEL compile error: syntax")

    assert selectors.evaluations == 1
    assert selectors.problem("1 +").startswith("CEL compile error: syntax")
    assert selectors.problem(FIRST) == ""


def test_true_and_one_are_not_the_same_device() -> None:
    selectors = Selectors()
    text = "device.attributes['d'].index == 1"

    assert selectors.evaluate(text, "d", device(index=True)) is False
    assert selectors.evaluate(text, "d", device(index=1)) is True


def test_what_is_kept_is_bounded() -> None:
    selectors = Selectors(verdicts=100)

    for at in range(1000):
        assert selectors.evaluate(
            f"device.attributes['d'].index != {at % 7}", "d", device(index=-1 - at)
        )
        assert len(selectors) <= 100

    selectors = Selectors()
    for at in range(200):
        text = f"device.driver != '{'x' * 9000}{at}'"
        assert selectors.evaluate(text, "d", PLAIN) is True
    assert selectors.length <= 256 * 1024


def test_one_selector_with_more_devices_than_are_kept_forgets_its_own() -> None:
    selectors = Selectors(verdicts=10)

    for at in range(100):
        assert selectors.evaluate(FIRST, "d", device(index=at)) is (at < 10)

    assert len(selectors) <= 10


def test_a_decision_that_is_cut_short_goes_on_where_it_stopped() -> None:
    selectors = Selectors()
    loops = "lists.range(300).exists(x, lists.range(20).exists(y, x < y - 99))"
    costly = f"{loops} == (device.driver == 'e')"
    devices = [device(index=at) for at in range(40)]
    attempts = 0
    while True:
        attempts += 1
        selectors.allowance = 2 * COST
        before = selectors.cost
        try:
            assert all(selectors.evaluate(costly, "d", each) for each in devices)
            break
        except CostExhaustedError:
            assert 2 * COST <= selectors.cost - before < 3 * COST + 10_000

    assert attempts > 3
    assert selectors.evaluations == len(devices)


def test_what_is_known_needs_no_allowance() -> None:
    selectors = Selectors()
    selectors.evaluate(FIRST, "d", device(index=1))
    selectors.allowance = 0

    assert selectors.evaluate(FIRST, "d", device(index=1)) is True
    with pytest.raises(CostExhaustedError):
        selectors.evaluate(FIRST, "d", device(index=2))
    with pytest.raises(CostExhaustedError):
        selectors.problem("true")
