"""The scenarios are complete and consistent, and what is wrong in a file is an error."""

from pathlib import Path

import pytest

from conformance.adapters import ADAPTERS
from conformance.values.scenario import Gang, Scenario, ScenarioError, load, read
from tests.structure.graph import ROOT

HEAD = "title: a\noutcome: b\n"


def test_there_are_scenarios_of_each_need_and_a_core() -> None:
    found = load()
    assert 12 <= len(found) <= 20
    assert {need for it in found for need in it.needs} == {
        "minimum", "topology", "preemption", "kill",
    }  # fmt: skip
    assert 5 <= sum(it.core for it in found) <= 9


@pytest.mark.parametrize("scenario", load(), ids=lambda it: it.name)
def test_a_scenario_states_what_it_needs(scenario: Scenario) -> None:
    gangs = [it for it in scenario.groups().values() if isinstance(it, Gang)]
    verbs = {step.verb()[0] for step in scenario.steps}
    uses = {
        "minimum": any(gang.least < gang.members for gang in gangs),
        "topology": any(gang.one_rack for gang in gangs),
        "preemption": any(group.priority for group in scenario.groups().values()),
        "kill": bool(verbs & {"kill_at", "kill_scheduler"}),
    }
    assert scenario.needs == {need for need, used in uses.items() if used}
    assert verbs & {"settles", "complete", "reaches"}
    assert set(scenario.missing(scenario.needs)) == set()


def test_copies_are_numbered(tmp_path: Path) -> None:
    text = HEAD + "steps: [{gangs: [{name: a, members: 2, copies: 2}, {name: b, members: 1}]}]"
    assert list(_read(tmp_path, text).groups()) == ["a-1", "a-2", "b"]


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ("[{places: 1, evicts: a}]", "step 1 must have exactly one verb"),
        ("[{}]", "step 1 must have exactly one verb"),
        ("[{settles: {a: 1}}]", "no step creates a"),
        ("[{lose: {gang: a}}]", "no step creates a"),
        ("[{remove: a}]", "no step creates a"),
        ("[{nodes: [{cpus: 1}]}]", "unknown field `cpus`"),
        ("[{places: many}]", "Expected `int"),
        ("[", "while parsing"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, steps: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=r"^wrong\.yaml: ") as error:
        _read(tmp_path, f"{HEAD}steps: {steps}\n", "wrong.yaml")
    assert says in str(error.value)


def test_a_need_that_is_not_offered_is_missing() -> None:
    rack = next(it for it in load() if it.name == "rack-preemption")
    assert rack.missing(ADAPTERS["volcano"].offers) == ["topology"]
    assert rack.missing(ADAPTERS["native"].offers) == []


def _read(folder: Path, text: str, name: str = "it.yaml") -> Scenario:
    path = folder / name
    path.write_text(text)
    return read(path)


def test_the_page_lists_each_scenario() -> None:
    page = (ROOT / "docs" / "conformance.md").read_text("utf-8")
    listed = page.partition("| scenario | | needs |")[2].partition("\n\n")[0].splitlines()[2:]
    assert listed == [
        f"| `{it.name}` | {it.title} | {', '.join(sorted(it.needs))} |" for it in load()
    ]
