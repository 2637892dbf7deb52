"""Selectors on devices, evaluated as by kube-scheduler."""

import pytest

from scheduler.cel.errors import SelectorError
from scheduler.cel.selectors import CompiledSelector, compile_selector
from tests.scheduler.cel.devices import corpus, from_json, written_devices

ELSEWHERE = "not evaluated by Muster"
CORPUS = corpus()
DEVICES = [(each["driver"], from_json(each)) for each in written_devices()]


def verdicts(selector: CompiledSelector) -> str:
    return "".join(verdict(selector, at) for at in range(len(DEVICES)))


def verdict(selector: CompiledSelector, at: int) -> str:
    try:
        return "y" if selector.evaluate(*DEVICES[at]) else "n"
    except SelectorError:
        return "!"


@pytest.mark.parametrize("group", [name for name in CORPUS if name != ELSEWHERE])
def test_every_device_is_judged_as_kube_scheduler_does(group: str) -> None:
    expected = [pair for pair in CORPUS[group] if pair[0] != "refused"]

    judged = [(verdicts(compile_selector(text)), text) for _, text in expected]

    assert judged == expected


def test_the_corpus_has_every_verdict_in_numbers() -> None:
    judged = "".join(v for group in CORPUS.values() for v, _ in group if v != "refused")

    assert len(judged) > 3000
    assert all(judged.count(letter) > 500 for letter in "yn!")


@pytest.mark.parametrize(("_", "text"), CORPUS[ELSEWHERE])
def test_what_is_not_evaluated_is_refused_before_any_device_is_judged(_: str, text: str) -> None:
    with pytest.raises(SelectorError, match="CEL compile error"):
        compile_selector(text)


@pytest.mark.parametrize("text", [text for v, text in CORPUS["syntax"] if v == "refused"])
def test_what_the_api_server_does_not_parse_selects_nothing(text: str) -> None:
    try:
        selector = compile_selector(text)
    except SelectorError:
        return
    assert set(verdicts(selector)) == {"!"}
