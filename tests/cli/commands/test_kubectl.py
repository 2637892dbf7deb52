"""`kubectl muster`: the flags, the output and the completion of kubectl."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.constants import (
    ANNOTATION_MADE_FOR,
    ANNOTATION_NO_PODS_SINCE,
    LABEL_MANAGED_BY,
    MANAGED_BY,
)
from cli import __main__, commands
from cli.commands.completion import suggestions
from cli.commands.output import PLUGIN, print_table
from cli.demo.demo import install_kinds
from cli.trees.listing import POD_GROUPS
from kube.client.client import Client
from kube.client.resources import PODS
from localcluster.cluster import LocalCluster
from scheduler.core.search.place import SearchBudget
from scheduler.snapshot.snapshot import Limits, encode, queue_of, take
from tests.scheduler.state_builder import StateBuilder

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[3]
NO_PODS = "it was created from pods, and has had none since 2026-01-01T11:57:00Z"


def group(name: str) -> Json:
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    version = "scheduling.muster.dev/v1alpha3"
    metadata = {"name": name}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec}


def pod(name: str, of: str) -> Json:
    labels = {"scheduling.muster.dev/pod-group": of}
    spec = {"containers": [{"name": "c", "image": "none"}], "schedulerName": "muster-scheduler"}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A cluster with one group in each of two namespaces."""
    async with LocalCluster() as cluster, await Client.connect(cluster.kubeconfig) as client:
        await install_kinds(client)
        await client.create(POD_GROUPS, group("a"), "default")
        await client.create(POD_GROUPS, group("b"), "kube-system")
        client.kubeconfig = cluster.kubeconfig  # type: ignore[attr-defined]
        yield client


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    builder = StateBuilder()
    builder.nodes(2, cpu=1)
    builder.gang("g", 3)
    builder.pods("g", 3)
    file = tmp_path / "snapshot.json"
    limits = Limits.of(SearchBudget())
    file.write_bytes(encode(take(builder.state, queue_of(builder.state), limits)))
    return file


async def run(client: Client, *arguments: str, program: str = PLUGIN) -> tuple[int, str, str]:
    code = f"from cli import commands; exit(commands.main({list(arguments)!r}, {program!r}))"
    environment = {**os.environ, "KUBECONFIG": str(client.kubeconfig)}  # type: ignore[attr-defined]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code),
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_without_options_it_shows_the_namespace_of_the_context(client: Client) -> None:
    head = "NAME         STATUS    PODS   MINIMUM   MESSAGE"
    table = f"{head}\npodgroup/{{}}   Waiting   0/0    1         <none>\n"

    assert await run(client, "tree") == (0, table.format("a"), "")
    assert await run(client, "tree", "-n", "kube-system") == (0, table.format("b"), "")
    assert await run(client, "tree", "-n", "none") == (
        *(0, ""),
        "No resources found in none namespace.\n",
    )
    _, everything, _ = await run(client, "tree", "-A", "-o", "wide")
    assert [line.split() for line in everything.splitlines()] == [
        ["NAMESPACE", "NAME", "STATUS", "PODS", "MINIMUM", "HELD", "NODES", "MESSAGE"],
        ["default", "podgroup/a", "Waiting", "0/0", "1", "0", "<none>", "<none>"],
        ["kube-system", "podgroup/b", "Waiting", "0/0", "1", "0", "<none>", "<none>"],
    ]
    _, of_muster, _ = await run(client, "tree", program="muster")
    assert of_muster.splitlines() == [
        f"PodGroup {name}: Waiting, 0 of 0 pods scheduled (minCount 1)" for name in "ab"
    ]


@pytest.mark.long
async def test_gc_and_doctor_have_tables_and_documents(client: Client) -> None:
    left = group("left")
    left["metadata"] |= {
        "labels": {LABEL_MANAGED_BY: MANAGED_BY},
        "annotations": {
            ANNOTATION_MADE_FOR: "/Pod/left/",
            ANNOTATION_NO_PODS_SINCE: "2026-01-01T11:57:00Z",
        },
    }
    await client.create(POD_GROUPS, left, "default")

    assert await run(client, "gc", "-o", "name") == (
        *(0, "podgroup.scheduling.muster.dev/left\n", ""),
    )
    code, table, _ = await run(client, "gc", "--check")
    assert (code, table.splitlines()[1].split(maxsplit=2)) == (
        1,
        [
            "default",
            "podgroup.scheduling.muster.dev/left",
            "it was created from pods, and has had none since 2026-01-01T11:57:00Z",
        ],
    )
    code, table, _ = await run(client, "doctor", "-q")
    assert code == 3
    assert table.splitlines()[0].split() == ["SEVERITY", "OBJECT", "PROBLEM", "ACTION"]
    assert table.splitlines()[1].startswith("ERROR ")
    _, as_yaml, _ = await run(client, "doctor", "-o", "yaml")
    _, as_json, _ = await run(client, "doctor", "--json")
    assert yaml.safe_load(as_yaml) == json.loads(as_json)


async def test_a_watch_prints_what_changes(client: Client) -> None:
    code = f"from cli import commands; exit(commands.main(['tree', '-w'], {PLUGIN!r}))"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code),
        cwd=ROOT,
        env={**os.environ, "KUBECONFIG": str(client.kubeconfig), "PYTHONUNBUFFERED": "1"},  # type: ignore[attr-defined]
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        first = [(await process.stdout.readline()).split()[0] for _ in range(2)]
        await client.create(PODS, pod("one", "a"), "default")
        changed = (await process.stdout.readline()).split()
    finally:
        process.terminate()
        await process.wait()

    assert first == [b"NAME", b"podgroup/a"]
    assert changed == [b"podgroup/a", b"Waiting", b"0/1", b"1", b"<none>"]


def test_a_snapshot_has_all_formats(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def out(*arguments: str) -> str:
        assert commands.main([*arguments, "--snapshot", str(snapshot)], PLUGIN) in {0, 1}
        return capsys.readouterr().out

    (shown,) = json.loads(out("tree", "-o", "json"))["items"]
    assert (shown["kind"], shown["name"], shown["members"]) == ("PodGroup", "g", 3)
    assert out("tree", "-o", "name") == "podgroup.scheduling.muster.dev/g\n"
    (found,) = yaml.safe_load(out("explain", "podgroup/g", "-n", "ns", "-o", "yaml"))["items"]
    assert found["explanation"][0] == "PodGroup ns/g: 0 of 3 pods scheduled, minCount 3"
    assert found["decision"]["blocker"]["kind"] == "capacity"
    plain = out("explain", "podgroup/g", "-n", "ns", "-o", "wide")
    assert plain.splitlines() == found["explanation"]
    manifest = snapshot.with_name("pod.yaml")
    manifest.write_text(yaml.safe_dump({"kind": "Pod"} | pod("p", "")))
    made = json.loads(out("simulate", "-f", str(manifest), "-n", "ns", "-o", "json"))
    (root,) = made["roots"]
    assert (made["fits"], root["name"], made["notes"]) == (root["fits"], "p", [])
    assert out("simulate", "-f", str(manifest), "-o", "name") == "pod/p\n"


def test_columns_are_three_spaces_apart(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("NAME", "STATUS", "MESSAGE"), ("a", "Scheduled", ""), ("\x1b[1m", "x", "long text")]
    widths = print_table(rows, "nothing")

    assert capsys.readouterr().out == (
        "NAME      STATUS      MESSAGE\n"
        "a         Scheduled   <none>\n"
        "\\x1b[1m   x           long text\n"
    )
    # A row that follows is below the same columns.
    print_table([("b", "y", "z")], "", widths)
    assert capsys.readouterr().out == "b         y           z\n"
    print_table(rows[:1], "nothing")
    assert capsys.readouterr() == ("", "nothing\n")


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["tr"], ["tree", ":4"]),
        (["tree", "--all"], ["--all-namespaces", ":4"]),
        (["tree", "-o", ""], ["json", "yaml", "wide", "name", ":4"]),
        (["tree", "-o", "j"], ["json", ":4"]),
        (["explain", "pod"], ["podgroup/", "pod/", ":4"]),
        (["simulate", "-f", ""], [":0"]),
        (["simulate", "-f", "jo"], [":0"]),
    ],
)
def test_words_are_completed_by_kubectls_protocol(
    words: list[str], want: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))

    assert [line.partition("\t")[0] for line in suggestions(words)] == want


def test_names_come_from_kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text('#!/bin/sh\necho "$@" > "$0.said"; echo "kind/one kind/two"\n')
    kubectl.chmod(0o755)
    environment = dict(os.environ) | {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    monkeypatch.setattr(os, "environ", environment)

    words = ["explain", "--context", "c", "-n", "ns", "podgroup/t"]
    assert list(suggestions(words)) == ["podgroup/two", ":4"]
    assert (tmp_path / "kubectl.said").read_text().split() == [
        *("get", "podgroups.scheduling.muster.dev", "--output=name", "--request-timeout=3s"),
        *("--context=c", "--namespace=ns"),
    ]
    assert list(suggestions(["tree", "--namespace", ""])) == ["one", "two", ":4"]
    assert list(suggestions(["tree", "--context", "kind/"])) == ["kind/one", "kind/two", ":4"]
    kubectl.write_text("#!/bin/sh\nexit 1\n")
    assert list(suggestions(["tree", "--namespace", ""])) == [":0"]


def test_the_programs_of_the_plugin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-muster", "tree", "--he"])
    assert __main__.complete() == 0
    assert capsys.readouterr().out == "--help\tShow this message and exit.\n:4\n"

    os.environ.pop("_MUSTER_COMPLETE")
    monkeypatch.setattr(sys, "argv", ["kubectl-muster", "tree", "--help"])
    assert __main__.kubectl() == 0
    assert "Usage: kubectl muster tree [OPTIONS]" in capsys.readouterr().out
