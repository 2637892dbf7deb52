"""Namespaces with held places, and their number, however many groups there are."""

import json
from typing import Any

import pytest

from cli.doctor.findings import Finding, Severity
from cli.doctor.held_places import MOST_NAMED, HeldPlaceCounts

Json = dict[str, Any]


def group(namespace: str, *counts: object) -> Json:
    pods = [{"name": "worker", "node": f"n{at}", "count": it} for at, it in enumerate(counts)]
    meta = {"name": "train", "namespace": namespace}
    return {"metadata": meta, "status": {"heldPlaces": {"pods": pods}}}


def found(*groups: Json) -> list[Finding]:
    held = HeldPlaceCounts()
    for each in groups:
        held.see(each)
    return list(held.findings())


def test_those_that_hold_the_most_are_named_first() -> None:
    notes = found(group("few", 1), group("many", 4, 4), group("many", 3), group("none"))

    assert [(note.about.name, note.problem) for note in notes] == [
        ("many", "2 groups have 11 held places for pods that do not exist yet"),
        ("few", "1 group has 1 held place for pods that do not exist yet"),
    ]
    assert {note.severity for note in notes} == {Severity.INFO}
    assert "podsPerNamespace" in notes[0].action


def test_of_many_namespaces_few_are_named_and_all_are_counted() -> None:
    notes = found(*(group(f"ns-{at}", at + 1) for at in range(200)))

    assert len(notes) == MOST_NAMED + 1
    assert notes[0].about.name == "ns-199"
    assert notes[-1].problem == (
        "200 groups have 20100 held places for pods that do not exist yet, in 200"
        " namespaces in total"
    )


@pytest.mark.parametrize("status", [{}, {"heldPlaces": None}, {"heldPlaces": {"pods": None}}])
def test_nothing_is_said_of_groups_that_hold_none(status: Json) -> None:
    obj = {"metadata": {"name": "g", "namespace": "ns"}, "status": status}

    assert not found(obj, json.loads(json.dumps(group("ns", "x", -4, None))))
