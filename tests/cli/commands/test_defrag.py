"""`muster defrag` on a snapshot: what would be moved, at what cost, or why nothing helps."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.commands import main
from scheduler.core.search.place import SearchBudget
from scheduler.core.values.model import POD_GROUP
from scheduler.core.values.run_protection import RunProtection
from scheduler.snapshot.snapshot import Limits, encode, queue_of, take
from tests.scheduler.move_builder import NOW, MoveBuilder

Run = Callable[..., int]


def split() -> MoveBuilder:
    """Return two racks, half full each; a gang of four needs a complete rack."""
    builder = MoveBuilder()
    builder.state.units.protection = RunProtection(now=NOW, most=1.0, window=3600.0)
    builder.nodes(4, cpu=2, rack_of=2)
    builder.group("a", 2)
    builder.run_pods("a", "n0", "n1")
    builder.movable("b", "n2", "n3")
    builder.group("large", 4, topology="rack")
    builder.waits("large", 4)
    builder.group("small", 1)
    builder.waits("small", 1)
    return builder


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def code(builder: MoveBuilder, *arguments: str) -> int:
        file = tmp_path / "snapshot.json"
        state = builder.state
        file.write_bytes(encode(take(state, queue_of(state), Limits.of(SearchBudget()))))
        return main(["defrag", "--snapshot", str(file), "-n", "ns", *arguments])

    return code


def test_the_plan_with_cost_and_gain(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(split(), "podgroup/large") == 0

    said = capsys.readouterr().out
    assert said.splitlines() == [
        "PodGroup ns/large: fits after 1 move",
        "  gain: 4 pods on n2 x2, n3 x2",
        "  move ns/PodGroup/b: 2 pods to n0 x1, n1 x1",
        "    cost: 33333 pod-minutes since the last checkpoint, of 33333 that it ran",
        "Nothing is moved: add --apply.",
    ]


def test_the_same_for_programs(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(split(), "podgroup/large", "-o", "json") == 0

    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert item["result"] == "moves"
    assert item["nodes"] == {"n2": 2, "n3": 2}
    (moved,) = item["moves"]
    assert (moved["id"], moved["nodes"]) == ("ns/PodGroup/b", {"n0": 1, "n1": 1})


def test_nothing_has_to_be_moved(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(split(), "podgroup/small") == 0
    assert "fits now, nothing has to be moved" in capsys.readouterr().out
    assert run(split(), "podgroup/b") == 0
    assert "does not wait for capacity" in capsys.readouterr().out


def test_the_reason_why_no_move_helps(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    builder = split()
    builder.change((POD_GROUP, "ns", "b"), movable=False)

    assert run(builder, "podgroup/large") == 1
    assert "No gangs are moved: no gang may be moved for it." in capsys.readouterr().out


def test_a_snapshot_cannot_be_changed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(split(), "podgroup/large", "--apply") == 2
    assert "--apply: cannot be used with --snapshot" in capsys.readouterr().err
