"""docs/lab.md shows the output of its commands."""

import re
import shlex
from pathlib import Path

import pytest

from analysis.lab.importers import IMPORTERS
from analysis.lab.trace import Job
from analysis.lab.variants import PARTS
from cli import commands

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "lab.md").read_text("utf-8")
BLOCKS = re.findall(r"```console\n\$ (.*?[^\\])\n(.*?)```", PAGE, re.DOTALL)


def printed(command: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    words = shlex.split(command.replace("\\\n", ""))
    assert words.pop(0) == "muster"
    assert commands.main(words) == 0
    return capsys.readouterr().out.splitlines()


def column(lines: list[str], number: int) -> list[str]:
    """Return one variant's values, without the separators between the columns."""
    return [re.split(r"\s{2,}", line.strip())[number:][:1] for line in lines[1:-1]]  # type: ignore[misc]


def test_one_column_is_as_it_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    command, shown = BLOCKS[0]
    cheapest = printed(re.sub(r" --variant (?!in-order)\S+", "", command), capsys)

    assert column(cheapest, 1) == column(shown.splitlines(), 3)


@pytest.mark.long
@pytest.mark.parametrize("number", range(3))
def test_all_columns_are_as_it_says(
    number: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    command, shown = BLOCKS[number]

    assert printed(command, capsys) == shown.splitlines()


def test_the_tables_have_all_fields_parts_and_formats() -> None:
    said = set(re.findall(r"`([\w.=/-]+)`", PAGE))

    assert len(BLOCKS) == 3
    assert set(Job.__struct_fields__) - said - {"requests"} == set()
    assert PARTS.keys() - said - {"muster", "pack"} == set()
    assert IMPORTERS.keys() - said == set()
