"""The output of findings, and lists that are read page by page."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from analysis.explain.plain_text import LONGEST, clean
from cli.doctor.findings import (
    EXIT_CODES,
    About,
    Check,
    Severity,
    check_failed,
    highest,
    report,
    text_lines,
)
from kube.base.errors import Forbidden, KubeError, NotFound, TooLarge, Unreachable
from kube.client.client import Client
from kube.client.paging import PAGE, all_of, pages
from kube.client.resources import JOBSETS, NODES, PODS
from tests.structure.graph import ROOT
from tests.support.api_server import Reply, ScriptedServer, failure

ABOUT = About("Job", "t", "ns")
ALL = [
    Check("a", ABOUT).info("fine"),
    Check("b", ABOUT).warning("odd", "look"),
    Check("c", ABOUT).error("bad", "act"),
]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("plain – ü", "plain – ü", id="text of any language"),
        pytest.param("\x1b[2Jx\r\n\t", "\\x1b[2Jx\\r\\n\\t", id="control characters"),
        pytest.param("\x9b1m", "\\x9b1m", id="the other control characters"),
        pytest.param("a\u202eb\u2066", "a\\u202eb\\u2066", id="what reorders text"),
        pytest.param("a\u2028b", "a\\u2028b", id="a line separator"),
        pytest.param("x" * 2 * LONGEST, "x" * LONGEST + "…", id="too long"),
    ],
)
def test_what_is_shown_of_a_text(text: str, want: str) -> None:
    assert clean(text) == want


def test_the_worst_comes_first_with_what_to_do() -> None:
    assert list(text_lines(ALL)) == [
        "ERROR   Job ns/t: bad",
        "        do: act",
        "WARNING Job ns/t: odd",
        "        do: look",
        "INFO    Job ns/t: fine",
        "1 error, 1 warning, 1 note",
    ]
    assert "INFO    Job ns/t: fine" not in list(text_lines(ALL, all_of_them=False))


def test_machines_get_the_same_and_nothing_that_a_terminal_obeys() -> None:
    hostile = Check("c", About("Job", "\x1b]0;x\x07")).error("\x1b[31m", "\x9b")

    found = report([*ALL, hostile], "0.1.0")

    assert found["severity"] == "error"
    assert [one["severity"] for one in found["findings"]] == ["error", "error", "warning", "info"]
    assert found["findings"][0]["object"] == {"kind": "Job", "namespace": "ns", "name": "t"}
    assert not {"\x1b", "\x9b", "\x07"} & set(json.dumps(found, ensure_ascii=False))


def test_the_exit_code_is_that_of_the_highest_severity() -> None:
    codes = [EXIT_CODES[highest(ALL[:count])] for count in range(4)]

    assert codes == [0, 0, 1, 3]


@pytest.mark.parametrize(
    ("problem", "action"),
    [
        (Forbidden(403, "Forbidden", "no"), "administrator"),
        (NotFound(404, "NotFound", "no"), "install the missing kind"),
        (TooLarge("too large"), "objects of this size"),
        (Unreachable("GET", "/", "reset"), "check that the API server responds"),
        (KubeError("odd"), "run muster doctor again"),
    ],
)
def test_a_check_that_cannot_be_made_is_a_warning(problem: KubeError, action: str) -> None:
    finding = check_failed(Check("x", ABOUT), problem)

    assert finding.severity == Severity.WARNING
    assert action in finding.action


def test_every_check_is_documented() -> None:
    makers = {"Check", "Limited"}
    named = {
        str(call.args[0].value)
        for path in (ROOT / "cli" / "doctor").glob("*.py")
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in makers
        and call.args
        and isinstance(call.args[0], ast.Constant)
    }
    page = (ROOT / "docs" / "doctor.md").read_text("utf-8")
    documented = set(re.findall(r"^\| `([a-z][a-z-]*)` \|", page, re.MULTILINE))

    assert documented == named
    assert all(f"| {code} |" in page for code in EXIT_CODES.values())


@pytest.fixture
async def server() -> Any:
    async with ScriptedServer() as server:
        yield server


@pytest.fixture
async def client(server: ScriptedServer, tmp_path: Path) -> Any:
    async with await Client.connect(server.kubeconfig(tmp_path)) as client:
        yield client


def page(*names: str, token: str = "") -> Reply:
    items = [{"metadata": {"name": name}} for name in names]
    return Reply({"metadata": {"continue": token}, "items": items})


async def test_a_list_is_read_page_by_page(server: ScriptedServer, client: Client) -> None:
    await server.answer(page("a", "b", token="more"), page("c"))

    read = [
        [one["metadata"]["name"] for one in items]
        async for items in pages(client, PODS, field_selector="spec.nodeName=", metadata_only=True)
    ]

    assert read == [["a", "b"], ["c"]]
    first, second = server.seen
    assert first.query == {"fieldSelector": "spec.nodeName=", "limit": str(PAGE)}
    assert second.query["continue"] == "more"
    assert "PartialObjectMetadataList" in first.headers["Accept"]


async def test_no_more_is_read_than_wanted(server: ScriptedServer, client: Client) -> None:
    await server.answer(page("a", "b", token="more"))

    assert len(await all_of(client, NODES, most=1)) == 1
    assert len(server.seen) == 1


async def test_a_kind_that_is_not_served_has_no_objects(
    server: ScriptedServer, client: Client
) -> None:
    await server.answer(failure(404, "NotFound"))

    assert await all_of(client, JOBSETS, most=5) == []


async def test_a_page_of_too_many_bytes_is_read_in_smaller_ones(
    server: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kube.client.paging._LARGEST", 1000)
    await server.answer(page("x" * 2000, "b"), page("a", token="more"), page("b"))

    assert len(await all_of(client, PODS, most=5)) == 2
    assert [one.query["limit"] for one in server.seen] == ["500", "250", "250"]
