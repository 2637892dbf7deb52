"""Which pages are run, and that nothing of them is left out unseen."""

import pytest

from e2e.controlplane.places import ROOT
from e2e.docs.page import blocks

RUN = {
    "doctor.md": "test_doctor.py",
    "guide.md": "test_guide.py",
    "install.md": "test_install.py",
    "operations.md": "test_operations.py",
    "upgrade.md": "test_upgrade.py",
}
MUST_BE_RUN = {"guide.md", "install.md", "upgrade.md"}

# How many blocks of a page say that they are not run.
NOT_RUN = {"install.md": 2, "operations.md": 1}


@pytest.mark.parametrize("page", sorted(MUST_BE_RUN | RUN.keys()))
def test_a_page_of_commands_is_run(page: str) -> None:
    if not (ROOT / "docs" / page).exists():
        pytest.skip(f"there is no {page}")
    assert page in RUN, f"write a test for docs/{page} in e2e/docs"
    test = (ROOT / "e2e" / "docs" / RUN[page]).read_text()

    assert f'Reader("{page}"' in test
    assert "reader.finish()" in test
    assert blocks(ROOT / "docs" / page)


@pytest.mark.parametrize("page", sorted(RUN))
def test_what_is_not_run_is_counted(page: str) -> None:
    left_out = [block.where for block in blocks(ROOT / "docs" / page) if block.not_run]

    assert len(left_out) == NOT_RUN.get(page, 0), left_out
