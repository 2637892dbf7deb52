"""`muster lab`: from files to tables, reports and an exit code."""

import json
from pathlib import Path

import pytest

from cli import commands

CLUSTER = "pools: [{name: n, count: 2, resources: {cpu: 4}, domains: {rack: 1}}]"
TRACE = "name,arrival,duration,pods,cpu\na,0,100,6,1\nb,0,100,6,1\n"
RECIPE = "jobs: 30\nspan: 1h\nkinds: {a: {requests: {cpu: 1}, median: 5m, pods: {'2': 1}}}"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "c.yaml").write_text(CLUSTER)
    (tmp_path / "t.csv").write_text(TRACE)
    (tmp_path / "r.yaml").write_text(RECIPE)
    return tmp_path


def test_variants_are_compared(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["lab", "run", "--cluster", f"{files}/c.yaml", "--trace", f"{files}/t.csv"]
    more = ["--variant", "muster", "--variant", "nodes=2", "--json", f"{files}/o.json"]

    assert commands.main([*arguments, *more, "--html", f"{files}/o.html"]) == 0

    said = capsys.readouterr()
    assert "2 of 2" in said.out
    assert "decisions/s" in said.err
    results = json.loads((files / "o.json").read_text())["results"]
    assert [each["end"] for each in results] == [200, 100]
    assert "<svg" in (files / "o.html").read_text()


def test_a_broken_limit_is_the_exit_code(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["lab", "run", "--cluster", f"{files}/c.yaml", "--trace", f"{files}/t.csv"]

    assert commands.main([*arguments, "--fail-if", "wait.longest > 1m"]) == 1
    assert "wait.longest is 100" in capsys.readouterr().err
    assert commands.main([*arguments, "--fail-if", "wait.longest > 2m"]) == 0


def test_a_drawn_trace_is_the_one_that_is_run(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["lab", "run", "--cluster", f"{files}/c.yaml"]
    assert commands.main(["lab", "generate", f"{files}/r.yaml", "--seed", "5"]) == 0
    (files / "t.jsonl").write_text(capsys.readouterr().out)

    commands.main([*run, "--trace", f"{files}/t.jsonl"])
    of_file = capsys.readouterr().out
    commands.main([*run, "--recipe", f"{files}/r.yaml", "--seed", "5"])

    assert capsys.readouterr().out == of_file


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["run"], "use either --cluster FILE or --snapshot FILE"),
        (["run", "--cluster", "c.yaml"], "use either --trace FILE or --recipe FILE"),
        (["run", "--cluster", "none.yaml", "--trace", "t.csv"], "none.yaml"),
        (["run", "--cluster", "c.yaml", "--trace", "t.csv", "--variant", "x"], "unknown part 'x'"),
        (
            [
                "run",
                "--cluster",
                "c.yaml",
                "--trace",
                "t.csv",
                "--variant",
                "spread",
                "--variant",
                "spread",
            ],
            "Duplicate value: use each variant once",
        ),
        (["run", "--cluster", "c.yaml", "--trace", "t.csv", "--until", "x"], "--until: 'x'"),
        (["import", "swf", "t.csv"], "unknown format 'swf': use openb, philly, borg"),
    ],
)
def test_what_is_wrong_is_said(
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    problem: str,
) -> None:
    monkeypatch.chdir(files)

    assert commands.main(["lab", *arguments]) == 2
    assert problem in capsys.readouterr().err
