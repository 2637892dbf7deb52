"""The pages that are run, with every block accounted for."""

import pytest

from e2e.harness.controlplane.places import ROOT
from e2e.install.docs.page import blocks
from e2e.install.upgrade import test_chart
from e2e.install.upgrade.test_chart import BY_CHART

RUN = {
    "doctor.md": "test_doctor.py",
    "guide.md": "test_guide.py",
    "install.md": "test_install.py",
    "operations.md": "test_operations.py",
    "upgrade.md": "test_upgrade.py",
}
MUST_BE_RUN = {"guide.md", "install.md", "upgrade.md"}

# The number of blocks of a page that are marked as not run.
NOT_RUN = {"install.md": 2, "operations.md": 1}


@pytest.mark.parametrize("page", sorted(MUST_BE_RUN | RUN.keys()))
def test_a_page_of_commands_is_run(page: str) -> None:
    if not (ROOT / "docs" / page).exists():
        pytest.skip(f"there is no {page}")
    assert page in RUN, f"write a test for docs/{page} in e2e/install/docs"
    test = (ROOT / "e2e" / "install" / "docs" / RUN[page]).read_text()

    assert f'Reader("{page}"' in test
    assert "reader.finish(" in test
    assert blocks(ROOT / "docs" / page)


def test_the_commands_for_helm_are_run_with_the_upgrades() -> None:
    flow = (ROOT / "e2e" / "install" / "upgrade" / "test_chart.py").read_text()
    names = {name: value for name, value in vars(test_chart).items() if value in BY_CHART}

    assert sorted(names.values()) == sorted(BY_CHART)
    assert [name for name in names if f"chart.follows({name})" not in flow] == []


def test_the_readme_shows_output_of_the_guide() -> None:
    """The guide's commands are run, so that their output is real."""
    shown, real = (
        {each for block in blocks(ROOT / page) for each in block.commands if each.shown}
        for page in ("README.md", "docs/guide.md")
    )
    assert shown
    assert shown <= real


@pytest.mark.parametrize("page", sorted(RUN))
def test_what_is_not_run_is_counted(page: str) -> None:
    left_out = [block.where for block in blocks(ROOT / "docs" / page) if block.not_run]

    assert len(left_out) == NOT_RUN.get(page, 0), left_out
