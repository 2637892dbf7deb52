"""Device kinds: the attributes that a selector reads, and the verdicts of a chain."""

import pytest

from scheduler.core.devices.kinds import NOTHING, Watched, attributes_read, verdict, watched_by
from scheduler.core.devices.requests import Chain
from scheduler.core.values.devices import DeviceClassInfo
from tests.scheduler.core.devices.solving import resolved
from tests.scheduler.devices.builders import (
    CLASS,
    DRIVER,
    ask,
    device,
    different,
    evaluate,
    first_of,
    gpu,
    has,
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
    found = attributes_read([("device.driver == 'y'",), (text,)])

    assert found == (None if want is None else frozenset(want))


def test_options_are_watched_with_their_classes_and_constraints_with_their_attributes() -> None:
    classes = {CLASS: DeviceClassInfo(CLASS, ("of class",))}
    choice = first_of("l", gpu(1, "a", "b"), gpu(1, "c", name="other"))
    asked = resolved([ask(choice, gpu(2), constraints=[same("rail"), different("slot")])], classes)

    watched = watched_by(asked)

    assert watched.chains == {("of class", "a", "b"), ("of class", "c"), ("of class",)}
    assert watched.compared == {f"{DRIVER}/rail", f"{DRIVER}/slot"}


def test_two_are_watched_together() -> None:
    one = Watched(frozenset({("a",)}), frozenset({"x"}))
    other = Watched(frozenset({("b",)}))

    assert one | NOTHING is one
    assert one | other == other | one
    assert (one | other).chains == {("a",), ("b",)}


@pytest.mark.parametrize(
    ("chain", "want", "judged"),
    [
        pytest.param((), True, 0, id="no selector"),
        pytest.param((has("x", 1), "true"), True, 2, id="all select"),
        pytest.param((has("x", 2), "nonsense"), False, 1, id="one does not"),
        pytest.param(
            ("true", has("y", 1), "true"), (1, "CEL runtime error: no such key: y"), 2, id="error"
        ),
    ],
)
def test_a_chain_ends_with_the_first_that_does_not_select(
    chain: Chain, want: object, judged: int
) -> None:
    asked: list[str] = []

    def counting(expression: str, driver: str, sample: object) -> bool | str:
        asked.append(expression)
        return evaluate(expression, driver, device("d", {"x": 1}))

    assert verdict(chain, DRIVER, device("d", {"x": 1}), counting) == want
    assert asked == list(chain[:judged])
