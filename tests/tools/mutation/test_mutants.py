"""Mutants are drawn by size and by seed, and found again in later code."""

from pathlib import Path

import pytest

from tests.tools.mutation.toy import toy
from tools.mutation.mutants import LEAST, InvalidMutantError, draw, find_again, shares

ROW = {
    "file": "shop/till.py",
    "line": 18,
    "before": "        return sum(self.coins) + 0",
    "after": "        return sum(self.coins) - 0",
}


def test_each_target_gets_a_least_number_and_a_share_by_its_size() -> None:
    found = shares({"large": 9_000, "small": 1_000}, 100)

    assert found == {"large": LEAST + 63, "small": LEAST + 7}
    assert sum(shares({"a": 1, "b": 1, "c": 1}, 10).values()) == 10


def test_a_seed_draws_the_same_mutants_on_different_lines(tmp_path: Path) -> None:
    project = toy(tmp_path)

    first = [prepared.mutant for prepared in draw(project, 4, seed=3)]

    assert first == [prepared.mutant for prepared in draw(project, 4, seed=3)]
    assert len({mutant.line for mutant in first}) == 4
    assert draw(project, 4, 3, only="elsewhere") == []


def test_a_mutant_is_found_again_on_the_nearest_line_that_reads_as_it_did(tmp_path: Path) -> None:
    project = toy(tmp_path)
    path = tmp_path / "shop" / "till.py"
    path.write_text("# One line more.\n" + path.read_text())

    again = find_again(project, ROW)

    assert again.mutant.line == 19
    assert again.key[0] == "Till.total"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"before": "        return 7"}, id="no such line"),
        pytest.param({"file": "shop/gone.py"}, id="no such file"),
        pytest.param({"after": "        return ("}, id="not Python"),
        pytest.param({"before": "class Till:", "after": "class Bag:"}, id="in no function"),
    ],
)
def test_a_change_that_cannot_be_made_is_invalid(change: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(InvalidMutantError):
        find_again(toy(tmp_path), ROW | change)
