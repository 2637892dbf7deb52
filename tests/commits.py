"""Checks that commits are written as CONTRIBUTING.md says: `python -m tests.commits`.

Looks at the commits since the last tag, or where there is none since START; merges are left out.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

START = "b027ef7c"
"""The last commit of the time before the rule. It counts as long as no tag follows it."""

LONGEST_SUBJECT = 72
SCOPES = frozenset({"build", "ci", "core", "release"})
"""What a subject may begin with beside the top-level folders."""

_ROOT = Path(__file__).resolve().parents[1]
_SUBJECT = re.compile(r"(?P<scopes>[a-z0-9][\w./-]*(?:, [a-z0-9][\w./-]*)*): (?P<text>\S.*)")
_FORMAT = "--format=%H%n%B"
_TRAILER = re.compile(r"(?:[A-Z][A-Za-z-]*-by|Change-Id): ")


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit's name and its message, as it was written."""

    name: str
    message: str


def complaints(message: str, scopes: AbstractSet[str]) -> list[str]:
    """What is wrong with a message, where a subject may begin with one of `scopes`."""
    subject, *rest = message.rstrip().split("\n")
    found = [*_about_length(subject), *_about_subject(subject, scopes)]
    if rest and rest[0]:
        found.append("the second line is not blank")
    if not any(line.strip() and not _TRAILER.match(line) for line in rest):
        found.append("there is no body that says why")
    return found


def _about_length(subject: str) -> Iterator[str]:
    if len(subject) > LONGEST_SUBJECT:
        yield f"the subject has {len(subject)} characters, {LONGEST_SUBJECT} are the most"
    if subject.endswith("."):
        yield "the subject ends with a full stop"


def _about_subject(subject: str, scopes: AbstractSet[str]) -> Iterator[str]:
    found = _SUBJECT.fullmatch(subject)
    if found is None:
        yield "the subject is not `scope: imperative subject`"
        return
    for scope in found["scopes"].split(", "):
        if scope.split("/")[0] not in scopes:
            others = ", ".join(sorted(SCOPES))
            yield f"the scope {scope} is no top-level folder and none of {others}"
    text = found["text"]
    if text[0].isupper():
        yield f"{text.split()[0]} does not begin in lower case"
    elif (word := re.match(r"[a-z]+(?![\w'’.-])", text)) and not may_be_imperative(word[0]):
        yield f"{word[0]} is not imperative: add, not adds, added or adding"


def may_be_imperative(word: str) -> bool:
    """False for what is plainly another form of a verb; never for an imperative."""
    stem = re.search(r"[aeiouy].*(?:ed|ing)$", word)  # not shed, not bring
    if stem is not None:
        return word.endswith("eed") or word == "embed"
    return not re.search(r"[^aius]s$", word)  # not alias, this, focus, pass


class Repository:
    """What is asked of git about one folder."""

    def __init__(self, folder: Path) -> None:
        """`folder` is the top of the checkout, if there is one."""
        self._folder = folder

    def is_checkout(self) -> bool:
        """False where git is missing, and where the folder only lies within another checkout."""
        top = self._ask("rev-parse", "--show-toplevel")
        return top is not None and Path(top) == self._folder.resolve()

    def since(self, start: str) -> str | None:
        """The last tag, or else `start`; None where the history goes back to neither."""
        tag = self._ask("describe", "--tags", "--abbrev=0", "HEAD")
        if tag is None and self._ask("merge-base", "--is-ancestor", start, "HEAD") is not None:
            return start
        return tag

    def is_shallow(self) -> bool:
        """Whether older commits were left out when this was cloned."""
        return self._ask("rev-parse", "--is-shallow-repository") == "true"

    def commits(self, since: str | None) -> list[Commit]:
        """Those of the history after `since`, or all that there are, without merges."""
        newest = f"{since}..HEAD" if since else "HEAD"
        listed = self._ask("log", "-z", "--no-merges", "--no-show-signature", _FORMAT, newest)
        parts = (part.partition("\n") for part in (listed or "").split("\0") if part)
        return [Commit(name, message) for name, _, message in parts]

    def folders(self, commit: str) -> frozenset[str]:
        """The top-level folders as they were then."""
        return frozenset((self._ask("ls-tree", "-d", "--name-only", commit) or "").split())

    def _ask(self, *arguments: str) -> str | None:
        command = ["git", "-C", str(self._folder), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        except OSError:  # there is no git
            return None
        return done.stdout.strip() if done.returncode == 0 else None


def check(repository: Repository, start: str = START) -> tuple[str, list[str]]:
    """What was looked at, and what is wrong line by line."""
    if not repository.is_checkout():
        return "not looked at, this is no checkout of a git repository", []
    since = repository.since(start)
    if since is None and not repository.is_shallow():
        return f"not looked at, there is neither a tag nor {start} in this history", []
    wrong: list[str] = []
    commits = repository.commits(since)
    for commit in commits:
        # Its own folders: one may have had another name then.
        if found := complaints(commit.message, SCOPES | repository.folders(commit.name)):
            wrong.append(f"{commit.name[:8]} {commit.message.partition(chr(10))[0]}")
            wrong += [f"  {line}" for line in found]
    return f"{len(commits)} since {since or 'the clone begins'} looked at", wrong


def main() -> int:
    looked, wrong = check(Repository(_ROOT))
    sys.stdout.write(f"commits: {looked}\n")
    if wrong:
        sys.stderr.write("\n".join([*wrong, "how they are written is in CONTRIBUTING.md", ""]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
