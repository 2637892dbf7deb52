"""Static files: libraries are identical to their packages, and no page needs inline code."""

import hashlib
import re
from pathlib import Path
from typing import Final

import pytest

from e2e.console.fake import STATIC

AXE: Final = Path(__file__).parent / "axe"
FOLDERS: Final = (STATIC / "vendor", AXE)
ROW: Final = re.compile(r"^\| (\S+) \| \S+ \| `([0-9a-f]{64})` \|$", re.MULTILINE)
OURS: Final = sorted({*STATIC.glob("js/**/*.js"), *STATIC.glob("style/*.css")})
UNSAFE: Final = (
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "dangerouslySetInnerHTML",
    "document.write",
    "eval(",
    "new Function",
    "localStorage",
    "sessionStorage",
    "http://",
    "https://",
)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.name))
def test_each_vendored_file_is_the_one_of_its_package(folder: Path) -> None:
    listed = dict(ROW.findall((folder / "README.md").read_text()))
    files = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "README.md"
    }
    assert files == listed


def test_every_package_brings_its_licence() -> None:
    for folder in (*(STATIC / "vendor").iterdir(), AXE):
        if folder.is_dir():
            assert (folder / "LICENSE").is_file(), folder


def test_the_page_has_no_inline_script_or_style() -> None:
    page = (STATIC / "index.html").read_text()

    assert "style=" not in page
    assert "<style" not in page
    assert not re.search(r"\son\w+=", page)
    for script in re.findall(r"<script[^>]*>", page):
        assert ' src="/static/' in script


@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.name))
def test_no_file_of_ours_has_what_turns_text_into_markup(path: Path) -> None:
    text = path.read_text()

    assert not [word for word in UNSAFE if word in text]
    assert len(text.splitlines()) <= 400
