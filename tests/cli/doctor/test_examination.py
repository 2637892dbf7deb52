"""All checks together: each runs despite errors of the others, and none writes."""

import json
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli import commands
from cli.doctor.examination import Examination, Options
from cli.doctor.findings import Severity
from kube.base.errors import Unreachable
from kube.client.client import Client
from localcluster.cluster import LocalCluster
from tests.support.api_server import Reply, ScriptedServer, Seen, failure

OPTIONS = Options(renewals=0)
VERSION = Reply({"major": "1", "minor": "36", "gitVersion": "v1.36.3"})


async def findings(
    handler: Any, tmp_path: Path, options: Options = OPTIONS
) -> tuple[list[Any], list[Seen]]:
    async with ScriptedServer() as server:
        server.handler = handler
        async with await Client.connect(server.kubeconfig(tmp_path)) as client:
            return await Examination(client, options).run(), server.seen


async def test_an_account_without_any_right_gets_a_finding_for_each_check(tmp_path: Path) -> None:
    async def refuse(seen: Seen) -> Reply:
        return VERSION if seen.path == "/version" else failure(403, "Forbidden", "no")

    found, _ = await findings(refuse, tmp_path)

    assert {one.check for one in found if one.severity == Severity.WARNING} == {
        "leases", "parts", "definitions", "registration", "admission", "access", "groups",
        "unscheduled", "annotations", "set-aside", "neighbours", "topology",
    }  # fmt: skip
    assert all("administrator" in one.action for one in found if "could not run" in one.problem)


async def test_answers_of_any_form_end_no_check(tmp_path: Path) -> None:
    async def nonsense(_seen: Seen) -> Reply:
        return Reply(b'{"items": {"a": 1}, "metadata": [], "spec": 7, "status": null, "data": "x"}')

    found, seen = await findings(nonsense, tmp_path)

    paths = {one.path for one in seen}
    assert any(path.startswith("/apis/scheduling.k8s.io") for path in paths)
    assert found


async def test_all_that_is_written_is_a_dry_run_or_a_question(tmp_path: Path) -> None:
    async def empty(_seen: Seen) -> Reply:
        return Reply({"metadata": {}, "items": [], "status": {"allowed": True}})

    _, seen = await findings(empty, tmp_path)

    written = [one for one in seen if one.method != "GET"]
    assert written
    for one in written:
        assert one.method == "POST"
        assert one.query == {"dryRun": "All"} or one.path.endswith("/subjectaccessreviews")


async def test_no_cluster_is_an_error(tmp_path: Path) -> None:
    async with ScriptedServer() as server:
        config = server.kubeconfig(tmp_path)
    async with await Client.connect(config) as client:
        with pytest.raises(Unreachable):
            await Examination(client, OPTIONS).run()


async def test_a_large_cluster_takes_little_memory(tmp_path: Path) -> None:
    """10,000 pending pods are read in pages, and only one page is kept in memory."""
    pod = {
        "metadata": {"name": "p", "namespace": "ns", "labels": {"a": "b" * 200}},
        "spec": {"schedulerName": "muster-scheduler"},
        "status": {"conditions": [{"type": "PodScheduled"}]},
    }
    body = json.dumps({"metadata": {"continue": "x"}, "items": [pod] * 500}).encode()
    last = json.dumps({"metadata": {}, "items": []}).encode()
    left = 20

    async def many(seen: Seen) -> Reply:
        nonlocal left
        if seen.path != "/api/v1/pods":
            return failure(404, "NotFound", "no") if seen.path != "/version" else VERSION
        left -= 1
        return Reply(body if left > 0 else last)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await findings(many, tmp_path)

    assert left == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024


async def test_a_cluster_without_muster_says_what_is_missing() -> None:
    async with LocalCluster() as cluster, await Client.connect(cluster.kubeconfig) as client:
        found = await Examination(client, OPTIONS).run()

    errors = {one.check for one in found if one.severity == Severity.ERROR}
    assert {"definitions", "registration", "leases"} <= errors


async def test_the_check_of_admission_alone_reads_nothing(tmp_path: Path) -> None:
    async def refusing(seen: Seen) -> Reply:
        asked.append((seen.method, seen.path.rpartition("/")[2]))
        return VERSION if seen.path == "/version" else failure(500, "InternalError", "no webhook")

    asked: list[tuple[str, str]] = []
    found, _ = await findings(refusing, tmp_path, replace(OPTIONS, admission_only=True))

    assert {one.check for one in found if one.severity == Severity.ERROR} == {"admission"}
    assert sorted(asked) == [
        ("GET", "version"),
        *[("POST", "podgroups")] * 4,
        ("POST", "workloads"),
    ]


@pytest.mark.parametrize("command", [["doctor"], ["support-bundle", "x.tar.gz"]])
def test_the_commands_say_which_kubeconfig_is_missing(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main([*command, "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err
