"""docs/lab.md shows the output of its commands."""

import re
import shlex
from itertools import chain
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


def selection(shown: str, lines: list[str]) -> list[str]:
    """Return `lines` as the page shows them: `...` stands for those up to the next one."""
    result, rest = [], iter(lines)
    wanted = shown.splitlines()
    for at, line in enumerate(wanted):
        if line != "...":
            result.append(next(rest, "no more lines"))
        elif at + 1 < len(wanted):
            result.append(line)
            found = wanted[at + 1]
            rest = chain([found] if found in rest else [], rest)
        else:
            result.append(line)
            rest = iter(())
    return [*result, *rest]


def column(lines: list[str], number: int) -> list[str]:
    """Return one variant's values, without the separators between the columns."""
    return [re.split(r"\s{2,}", line.strip())[number:][:1] for line in lines[1:-1]]  # type: ignore[misc]


@pytest.mark.long
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

    assert selection(shown, printed(command, capsys)) == shown.splitlines()


@pytest.mark.parametrize(
    ("shown", "same"),
    [
        ("a\nb\nc", True),
        ("a\n...\nc", True),
        ("...\nb\n...", True),
        ("a\n...\nx\n...", False),
        ("a\nb", False),
        ("a\n...\nb\nx", False),
    ],
)
def test_left_out_lines_are_marked(shown: str, same: bool) -> None:
    assert (selection(shown, ["a", "b", "c"]) == shown.splitlines()) == same


def test_the_tables_have_all_fields_parts_and_formats() -> None:
    said = set(re.findall(r"`([\w.=/-]+)`", PAGE))

    assert len(BLOCKS) == 3
    assert set(Job.__struct_fields__) - said - {"requests"} == set()
    assert PARTS.keys() - said - {"muster", "pack"} == set()
    assert IMPORTERS.keys() - said == set()
