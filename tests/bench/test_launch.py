"""What a launch costs: processor time and memory of real commands, beside another tree's."""

from pathlib import Path

import pytest

from bench import launch, launch_results
from bench.launch import ROOT, Bench, Sample, UnknownError
from bench.launch_results import Launched


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "kubeconfig")


def test_a_command_costs_processor_time(bench: Bench) -> None:
    assert bench.command(ROOT, "--help").seconds > 0.0


def test_a_command_that_is_not_known_is_no_sample(bench: Bench) -> None:
    with pytest.raises(UnknownError, match="nonesuch"):
        bench.command(ROOT, "nonesuch")


def test_a_process_that_cannot_start_is_no_sample(bench: Bench) -> None:
    with pytest.raises(SystemExit, match="scheduler did not become ready"):
        bench.process(ROOT, "scheduler")


class Recorded(Bench):
    """What each run costs is told in advance; an older tree has no `doctor`."""

    def __init__(self, seconds: list[float]) -> None:
        super().__init__(Path())
        self._seconds = iter(seconds)

    def command(self, tree: Path, name: str) -> Sample:
        if tree != ROOT and name.startswith("doctor"):
            raise UnknownError(name)
        return Sample(next(self._seconds))

    def process(self, tree: Path, name: str) -> Sample:
        return Sample(next(self._seconds), 50.0 if tree == ROOT else 100.0)


def test_the_least_of_the_runs_counts_and_trees_take_turns() -> None:
    bench = Recorded([0.2, 2.0, 0.3, 1.0, *[0.1] * 100])
    first, *others = launch.measure(bench, [ROOT, Path("/other")], 2)

    assert first == Launched("--help", 0.2, launch.COMMANDS["--help"], before_seconds=1.0)
    by_name = {it.name: it for it in others}
    assert by_name["doctor --quiet"].before_seconds == 0.0
    assert (by_name["webhook"].mib, by_name["webhook"].before_mib) == (50.0, 100.0)


def test_the_table_leaves_out_what_was_not_measured() -> None:
    rows = launch_results.table(
        [Launched("gc", 0.5, 0.6), Launched("webhook", 1.0, 0.9, 70, 1.2, 93)]
    )

    assert "| `muster gc` | 0.50 s | 0.60 s |  |  |  |" in rows
    assert "| `muster webhook` | 1.00 s | 0.90 s | 1.20 s | 70 MiB | 93 MiB |" in rows
    assert not Launched("webhook", 1.0, 0.9).kept


def test_what_is_kept_is_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_results, "FILE", tmp_path / "launch.json")
    assert launch_results.load() == []
    results = [Launched("gc", 0.5, 0.6), Launched("webhook", 1.0, 0.9, 70, 1.2, 93)]

    launch_results.keep(results)

    assert launch_results.load() == results
