"""The site of the documentation: every link has a target, and no page loads external files."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docs.site_files import names
from tests.structure.graph import ROOT

# `make check` builds the site, too, and fails if a link leads nowhere.
pytestmark = [pytest.mark.timeout(120), pytest.mark.long]

# `Attribute of tag`: the resources that a browser loads to show a page.
LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")}
# Python-Markdown starts a list or a fence only after an empty line; otherwise it shows text.
LEFT_OVER = re.compile(r"^\s*(?:[-*] |\d+\. |```|\|)", re.MULTILINE)


@dataclass
class Page(HTMLParser):
    """The links, anchors and paragraphs of a page of the site."""

    path: Path
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    paragraphs: list[str] = field(default_factory=list)
    _open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"p", "code"}:
            self._open.append(tag)
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if name in {"href", "src"} and value:
                self.links.append(value)
                if (tag, name) in LOADED and ("rel", "canonical") not in attrs:
                    self.loaded.append(value)

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "p":
            self.paragraphs.append(data)


def build(config: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the strict build of `make docs`, into another folder."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(
        [*command, f"--config-file={config}", f"--site-dir={folder}"],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}


def dangling(page: Page, pages: dict[Path, Page]) -> Iterator[str]:
    """Yield links without a target file or anchor."""
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
        if target.is_dir():
            target /= "index.html"
        found = pages.get(target)
        if not target.is_file() or (
            parts.fragment and found is not None and unquote(parts.fragment) not in found.ids
        ):
            yield link


def test_every_file_that_is_meant_for_it_is_on_the_site(site: Path) -> None:
    there = {path.relative_to(site).as_posix() for path in site.rglob("*")}
    wanted = {
        re.sub(r"(README)?\.md$", lambda it: "index.html" if it[1] else ".html", name)
        for name in names(ROOT)
    }

    assert "index.html" in wanted
    assert wanted <= there


def test_every_link_and_picture_leads_somewhere(pages: dict[Path, Page]) -> None:
    """The test includes links in HTML, which MkDocs does not check."""
    found = {page.path.name: list(dangling(page, pages)) for page in pages.values()}

    assert {name: links for name, links in found.items() if links} == {}
    assert sum(len(page.links) for page in pages.values()) > 1000


def test_nothing_is_fetched_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    fetched = [link for page in pages.values() for link in page.loaded if urlsplit(link).netloc]
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))

    assert fetched == []
    assert not re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", styles)
    # The theme's script would download the renderer of such diagrams.
    assert not [path for path in pages if 'class="mermaid"' in path.read_text("utf-8")]


def test_no_markdown_is_left_as_text(pages: dict[Path, Page]) -> None:
    left = [(page.path.name, text) for page in pages.values() for text in page.paragraphs]

    assert [(name, text) for name, text in left if LEFT_OVER.search(text)] == []


@pytest.mark.long
def test_what_is_broken_ends_the_build(tmp_path: Path) -> None:
    """The errors are a page outside of the navigation, and links and anchors without a target."""
    copy = tmp_path / "copy"
    for name in ("mkdocs.yml", "docs/site_files.py", *names(ROOT)):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy / name)
    (copy / "docs" / "forgotten.md").write_text("# Forgotten\n")
    for name, text in {
        "README.md": "[one](docs/nowhere.md)",
        "CONTRIBUTING.md": "[two](docs/guide.md#no-such-heading)",
        "docs/guide.md": "[three](../examples/nothing.yaml) [four](#not-here)",
    }.items():
        with (copy / name).open("a") as file:
            file.write(f"\n{text}\n")

    done = build(copy / "mkdocs.yml", tmp_path / "site")

    assert done.returncode != 0
    for words in (
        "docs/forgotten.md",
        "docs/nowhere.md",
        "no-such-heading",
        "nothing.yaml",
        "#not-here",
    ):
        assert words in done.stderr, words
