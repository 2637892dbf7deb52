"""Messages on a page of docs/, recorded from a run on a real control plane."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[4] / "docs"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A page with a block of messages per section; the text around it is written by hand."""

    path: Path

    def check(self, title: str, told: str, *, record: bool, server_kind: str) -> None:
        """Write the section's block, or fail if the run has other messages."""
        told = joined(told)
        if record:
            before, _, after = self._parts(title)
            self.path.write_text(f"{before}{told}{after}")
        elif server_kind != "existing":
            assert self.block(title) == told

    def block(self, title: str) -> str:
        """Return the messages below this heading."""
        return self._parts(title)[1]

    def _parts(self, title: str) -> tuple[str, str, str]:
        """Return the page before the block, the block, and the page after it."""
        head, opening, closing = f"\n### {title}\n", "\n```text\n", "\n```\n"
        above, found, section = self.path.read_text().partition(head)
        if not found:
            pytest.fail(f"docs/{self.path.name} has no section {title!r}")
        within = section.partition("\n#")[0]
        before, opened, rest = within.partition(opening)
        block, closed, _ = rest.partition(closing)
        if not (opened and closed):
            pytest.fail(f"section {title!r} of docs/{self.path.name} has no block of messages")
        above += f"{head}{before}{opening}"
        return above, block, section[len(before) + len(opening) + len(block) :]


TROUBLESHOOTING = Recorded(DOCS / "troubleshooting.md")


_OF_GROUP = re.compile(r"((?:Composite)?PodGroup [^\s\":]+: )(.+)$")
"""An owner's message: the group that it waits for, and the message of that group."""


def joined(told: str) -> str:
    """Join lines of the form `WHERE: MESSAGE` that differ in WHERE alone.

    An owner that repeats the message of its group is shown with the name of the group only.
    """
    places: dict[str, list[str]] = {}
    for line in told.splitlines():
        where, _, message = line.partition(": ")
        places.setdefault(message, []).append(where)
    return "\n".join(
        f"{', '.join(where)}: {_shortened(message, places)}" for message, where in places.items()
    )


def _shortened(message: str, all_messages: Iterable[str]) -> str:
    found = _OF_GROUP.search(message)
    if found is None or not any(
        other != message and other.endswith(f" {found[2]}") for other in all_messages
    ):
        return message
    return f"{message[: found.start(2)]}..."
