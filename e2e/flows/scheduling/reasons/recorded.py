"""Documents of which each section is what a run on a real control plane shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[4] / "docs"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A document in docs/; its sections come in the order of `titles`."""

    name: str
    introduction: str
    titles: Sequence[str]

    @property
    def path(self) -> Path:
        return DOCS / self.name

    def check(self, title: str, told: str, *, record: bool, server_kind: str) -> None:
        """Write the section, or fail if a run shows something else."""
        if record:
            self._write(title, told)
        elif server_kind != "existing":
            assert self._section(title) == told

    def _section(self, title: str) -> str:
        text = self.path.read_text()
        head = f"## {title}\n\n```text\n"
        if head not in text:
            pytest.fail(f"docs/{self.name} has no section {title!r}")
        return text.partition(head)[2].partition("\n```\n")[0]

    def _write(self, title: str, told: str) -> None:
        """Put the section where the list has it."""
        before = self.path.read_text() if self.path.exists() else ""
        kept = [it for it in self.titles if it == title or f"## {it}\n" in before]
        texts = {it: told if it == title else self._section(it) for it in kept}
        sections = (f"\n## {it}\n\n```text\n{text}\n```\n" for it, text in texts.items())
        self.path.write_text(self.introduction + "".join(sections))
