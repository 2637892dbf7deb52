"""The rule for commits, and which commits it is asked of."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import commits
from tests.commits import Repository, complaints, may_be_imperative

SCOPES = frozenset({"scheduler", "docs", "build"})
WHY = "\n\nIt was decided twice."


@pytest.mark.parametrize(
    "subject",
    [
        "scheduler: place a gang once",
        "scheduler, docs: say minCount where it is",
        "scheduler/core: place a gang once",
        "build: bring Go from a package",
        "docs: embed the tree's picture",
        "docs: pass the reader's question on",
        "docs: re-add what was lost",
        "scheduler: speed up topology: fewer domains",
        "docs: `muster explain` by example",
        "scheduler: " + "a" * 61,
    ],
)
def test_a_commit_that_follows_the_rule(subject: str) -> None:
    assert complaints(subject + WHY, SCOPES) == []


@pytest.mark.parametrize(
    ("subject", "complaint"),
    [
        ("Place a gang once", "the subject is not `scope: imperative subject`"),
        ("scheduler place a gang once", "the subject is not `scope: imperative subject`"),
        ("Scheduler: place a gang once", "the subject is not `scope: imperative subject`"),
        ("scheduler:place a gang once", "the subject is not `scope: imperative subject`"),
        ("scheduler: ", "the subject is not `scope: imperative subject`"),
        ("fixup! scheduler: place a gang once", "the subject is not `scope: imperative subject`"),
        (
            "feat: place a gang once",
            "the scope feat is no top-level folder and none of build, ci, core, release",
        ),
        (
            "docs, misc: place a gang once",
            "the scope misc is no top-level folder and none of build, ci, core, release",
        ),
        ("scheduler: Place a gang once", "Place does not begin in lower case"),
        (
            "scheduler: placed a gang once",
            "placed is not imperative: add, not adds, added or adding",
        ),
        ("scheduler: place a gang once.", "the subject ends with a full stop"),
        ("scheduler: " + "a" * 62, "the subject has 73 characters, 72 are the most"),
    ],
)
def test_a_subject_that_does_not_follow_the_rule(subject: str, complaint: str) -> None:
    assert complaints(subject + WHY, SCOPES) == [complaint]


@pytest.mark.parametrize(
    ("rest", "complaint"),
    [
        ("", ["there is no body that says why"]),
        ("\n\n\n", ["there is no body that says why"]),
        ("\n\nSigned-off-by: A <a@example.com>", ["there is no body that says why"]),
        ("\nIt was decided twice.", ["the second line is not blank"]),
        ("\n\nIt was decided twice.\n\nSigned-off-by: A <a@example.com>", []),
    ],
)
def test_a_body_is_blank_line_and_reason(rest: str, complaint: list[str]) -> None:
    assert complaints(f"docs: say why{rest}", SCOPES) == complaint


@pytest.mark.parametrize(
    "word",
    [
        *("add", "bring", "string", "ping", "feed", "need", "exceed", "seed", "shed", "shred"),
        *("embed", "pass", "address", "process", "focus", "alias", "fix", "use", "let", "go"),
    ],
)
def test_an_imperative_is_no_alarm(word: str) -> None:
    assert may_be_imperative(word)


@pytest.mark.parametrize(
    "word", ["adds", "added", "adding", "fixes", "fixed", "tests", "using", "tried", "running"]
)
def test_another_form_of_a_verb_is_seen(word: str) -> None:
    assert not may_be_imperative(word)


class Checkout:
    """A repository in which commits are made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "docs").mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, message: str) -> str:
        page = self.folder / "docs" / "page.md"
        page.write_text(page.read_text() + message if page.exists() else message)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")

    def check(self, start: str) -> tuple[str, list[str]]:
        return commits.check(Repository(self.folder), start)


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Checkout:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@example.com")
    return Checkout(tmp_path / "checkout")


def test_commits_since_the_start_are_looked_at_where_there_is_no_tag(checkout: Checkout) -> None:
    start = checkout.commit("What was written before the rule")
    checkout.commit("docs: say more\n\nIt was asked for.")
    bad = checkout.commit("Say even more")

    assert checkout.check(start) == (
        f"2 since {start} looked at",
        [
            f"{bad[:8]} Say even more",
            "  the subject is not `scope: imperative subject`",
            "  there is no body that says why",
        ],
    )


def test_commits_since_the_last_tag_are_looked_at_where_there_is_one(checkout: Checkout) -> None:
    start = checkout.commit("What was written before the rule")
    checkout.commit("What was released all the same")
    checkout.git("tag", "v0.1.0")

    assert checkout.check(start) == ("0 since v0.1.0 looked at", [])

    checkout.commit("docs: say more\n\nIt was asked for.")
    assert checkout.check(start) == ("1 since v0.1.0 looked at", [])


def test_merges_are_left_out(checkout: Checkout) -> None:
    start = checkout.commit("What was written before the rule")
    checkout.git("switch", "--quiet", "--create", "branch")
    checkout.commit("docs: say more\n\nIt was asked for.")
    checkout.git("switch", "--quiet", "main")
    checkout.git("merge", "--quiet", "--no-ff", "branch")

    assert checkout.check(start) == (f"1 since {start} looked at", [])


def test_a_scope_may_be_a_folder_that_is_gone_since(checkout: Checkout) -> None:
    start = checkout.commit("What was written before the rule")
    checkout.commit("docs: say more\n\nIt was asked for.")
    checkout.git("mv", "docs", "pages")
    (checkout.folder / "docs").mkdir()
    checkout.git("commit", "--quiet", "--message", "pages: take the pages in\n\nAs they are named.")

    assert checkout.check(start)[1] == []


def test_a_shallow_clone_has_all_its_commits_looked_at(checkout: Checkout, tmp_path: Path) -> None:
    start = checkout.commit("What was written before the rule")
    for index in range(3):
        checkout.commit(f"docs: say more {index}\n\nIt was asked for.")
    clone = tmp_path / "clone"
    checkout.git("clone", "--quiet", "--depth=2", checkout.folder.as_uri(), str(clone))

    assert commits.check(Repository(clone), start) == ("2 since the clone begins looked at", [])


def test_a_history_without_the_start_is_not_looked_at(checkout: Checkout) -> None:
    checkout.commit("What was imported in one piece")

    assert checkout.check("b027ef7c") == (
        "not looked at, there is neither a tag nor b027ef7c in this history",
        [],
    )


def test_outside_a_checkout_nothing_is_looked_at(checkout: Checkout, tmp_path: Path) -> None:
    # The second: unpacked within a repository that is not Muster's.
    for folder in (tmp_path, checkout.folder / "docs"):
        assert commits.check(Repository(folder), "b027ef7c") == (
            "not looked at, this is no checkout of a git repository",
            [],
        )


def test_without_git_nothing_is_looked_at(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    assert checkout.check("b027ef7c") == (
        "not looked at, this is no checkout of a git repository",
        [],
    )
