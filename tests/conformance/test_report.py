"""Results as lines and as JUnit, and the command without a cluster."""

import asyncio
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from conformance import report
from conformance.__main__ import main
from conformance.checks import Finding
from conformance.runner import Result
from conformance.values.scenario import load
from tests.support.api_server import Reply, ScriptedServer, failure

FINDING = Finding("half", 12.34, ["low"], "3 pods are placed")
FIRST, SECOND, THIRD, FOURTH = load()[:4]
RESULTS = [
    Result(scenario=FIRST, outcome="passed", seconds=3),
    Result(scenario=SECOND, outcome="failed", seconds=4.2, findings=[FINDING]),
    Result(scenario=THIRD, outcome="skipped", note="needs topology"),
    Result(scenario=FOURTH, outcome="error", note="StageError: no KWOK"),
]


def test_a_failure_has_its_findings_below_it() -> None:
    assert report.line(RESULTS[1]).splitlines() == [
        f"failed   {SECOND.name:28}   4 s  {SECOND.title}",
        "          - half at 12.3 s: 3 pods are placed (low)",
    ]
    assert report.line(RESULTS[2]).endswith("needs topology")
    assert report.total(RESULTS) == "1 passed, 2 failed, 1 not supported"


def test_junit_has_each_scenario_with_what_had_to_happen() -> None:
    root = ET.fromstring(report.junit(RESULTS, "gang-conformance.x"))
    counts = {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    cases = {case.get("name"): [(it.tag, it.get("message")) for it in case] for case in root}
    assert cases == {
        FIRST.name: [],
        SECOND.name: [("failure", "half at 12.3 s: 3 pods are placed (low)")],
        THIRD.name: [("skipped", "needs topology")],
        FOURTH.name: [("error", "StageError: no KWOK")],
    }
    assert SECOND.outcome in (root[1][0].text or "")


def test_the_command_lists_scenarios_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--core"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{it.name}: {it.title}" for it in load() if it.core]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--adapter=none", "--list"], "invalid choice: 'none'"),
        ([], "--adapter is required"),
        (["--list", "--scenarios=/nowhere"], "/nowhere has no scenario"),
        (["--adapter=muster", "--kubeconfig=/nowhere"], "the cluster cannot be read: Invalid"),
        (["--adapter=muster", "--list", "--scenario=none"], "there is no scenario none"),
    ],
)
def test_wrong_use_is_explained(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_a_broken_scenario_file_is_wrong_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.yaml").write_text("title: a\n")
    with pytest.raises(SystemExit):
        main(["--adapter=muster", "--list", f"--scenarios={tmp_path}"])
    assert "broken.yaml: Object missing required field `outcome`" in capsys.readouterr().err


async def test_without_the_rights_to_read_pods_nothing_is_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recorder would see nothing, and the scheduler would be blamed for it."""
    version = Reply({"gitVersion": "v1"})
    answers = [version, Reply({"items": []}), failure(403, "Forbidden", "pods is forbidden")]
    async with ScriptedServer(*answers) as server:
        options = ["--adapter=muster", f"--kubeconfig={server.kubeconfig(tmp_path)}"]
        with pytest.raises(SystemExit):
            await asyncio.to_thread(main, options)
    assert "GET /api/v1/pods: pods is forbidden" in capsys.readouterr().err
    assert {seen.method for seen in server.seen} == {"GET"}
