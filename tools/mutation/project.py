"""The files of a repository that mutants are drawn from, and the tests that run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("scheduler/core", "scheduler", "controllers", "webhooks", "certs")
TESTS = ("tests", "localcluster/tests")


@dataclass(frozen=True)
class Project:
    """A repository: its root, its target folders and its test folders, relative to the root."""

    root: Path = ROOT
    targets: tuple[str, ...] = TARGETS
    tests: tuple[str, ...] = TESTS

    @cached_property
    def files(self) -> dict[str, str]:
        """The target of each production file. A file belongs to the innermost target folder."""
        found = {}
        for target in sorted(self.targets, key=len):
            for path in sorted((self.root / target).rglob("*.py")):
                found[path.relative_to(self.root).as_posix()] = target
        return found

    def read(self, file: str) -> str:
        return (self.root / file).read_text("utf-8")

    def module(self, file: str) -> str:
        """Return the dotted name of a file's module."""
        parts = Path(file).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def cache(self) -> Path:
        return self.root / ".cache" / "mutation"

    def digest(self) -> str:
        """Return a name for the state of all Python files except this tool's, committed or not."""
        content = hashlib.sha256(repr((self.targets, self.tests)).encode())
        for path in sorted((*self.root.glob("*.py"), *self.root.glob("[a-z]*/**/*.py"))):
            name = path.relative_to(self.root).as_posix()
            if not name.startswith(("tools/", "tests/tools/")):
                content.update(name.encode() + b"\0" + path.read_bytes())
        return content.hexdigest()[:12]
