"""Preparatory run of all tests, which records the marks that each test passes, and its time.

The result is stored in `.cache/mutation/`, named by the state of all Python files, and reused while
that is the same. The run is a process of its own (`python -m tools.mutation.recording`), so that
the process that runs mutants imports the production code without marks.
"""

from __future__ import annotations

import functools
import gc
import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from tools.mutation.marks import Mark, MarkingFinder
from tools.mutation.project import ROOT, Project

# No random order, no colours, no last failures: each run is the same and leaves no files behind.
# `-s`: the captured output of forked processes would go to one file.
PYTEST = [
    *("-qq", "-s", "--no-header", "--no-summary", "--rootdir=."),
    *("--randomly-dont-reorganize", "--randomly-seed=0"),
    *("-p", "no:cacheprovider", "--hypothesis-seed=0"),
]

# Seconds that a test may take while it is recorded. A timeout ends the run, so the limit is for
# tests that hang.
TIMEOUT = 900

# functools does not export this type.
_CACHED = type(functools.cache(len))


@dataclass(frozen=True, slots=True)
class Recording:
    """The time of each test, and for each mark the tests that pass it, as bits."""

    tests: list[str]
    seconds: list[float]
    processor: list[float]
    failed: list[str]
    """Tests that failed in this run, as tests that count calls do: marks are calls, too."""
    marks: dict[Mark, int]

    def executing(self, mark: Mark) -> list[int]:
        """Return the numbers of the tests that pass a mark, the fastest first."""
        bits = self.marks.get(mark, 0)
        found = [at for at, bit in enumerate(reversed(f"{bits:b}")) if bit == "1"]
        return sorted(found, key=self.seconds.__getitem__)

    def write(self, path: Path) -> None:
        marks = [[file, line, f"{bits:x}"] for (file, line), bits in self.marks.items()]
        fields = {name: getattr(self, name) for name in self.__slots__} | {"marks": marks}
        path.parent.mkdir(parents=True, exist_ok=True)
        # A killed run leaves no partial file under the final name.
        unfinished = path.with_suffix(".part")
        unfinished.write_bytes(gzip.compress(json.dumps(fields).encode(), 5))
        unfinished.replace(path)

    @classmethod
    def read(cls, path: Path) -> Recording:
        fields = json.loads(gzip.decompress(path.read_bytes()))
        marks = {(file, line): int(bits, 16) for file, line, bits in fields.pop("marks")}
        return cls(**fields, marks=marks)


def recording(project: Project) -> Recording:
    """Return the recording of this state of the files, from an earlier run if there is one."""
    path = project.cache / f"recording-{project.digest()}.json.gz"
    if not path.exists():
        print("recording which tests execute what", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "tools.mutation.recording", str(path), str(project.root)]
        lists = [",".join(project.targets), ",".join(project.tests)]
        environment = os.environ | {
            "PYTHONPATH": f"{project.root}{os.pathsep}{ROOT}",
            "PYTHONUNBUFFERED": "1",
        }
        project.cache.mkdir(parents=True, exist_ok=True)
        log = path.with_suffix(".log")
        with log.open("w") as said:
            done = subprocess.run(
                [*command, *lists],
                cwd=project.root,
                env=environment,
                stdout=said,
                stderr=said,
                check=False,
            )
        if done.returncode or not path.exists():
            raise SystemExit(f"the run was not recorded: see {log}")
    return Recording.read(path)


def caches(project: Project) -> list[Any]:
    """Return the cached functions of the project. Their cached results would hide a mutant."""
    root = str(project.root)
    return [
        found
        for found in gc.get_objects()
        if isinstance(found, _CACHED)
        and isinstance(found.__wrapped__, FunctionType)
        and found.__wrapped__.__code__.co_filename.startswith(root)
    ]


def without_examples() -> None:
    """Keep Hypothesis from saving examples that fail with a mutant, and reusing them later."""
    from hypothesis import settings

    current = settings.get_profile(settings.get_current_profile_name())
    settings.register_profile("mutation", current, database=None)
    settings.load_profile("mutation")


class _Recorder:
    """The plugin of pytest that records."""

    def __init__(self, project: Project, finder: MarkingFinder) -> None:
        self._project, self._finder = project, finder
        self._passed: dict[tuple[int, int], bytearray] = {}
        self._failed = False
        self.result = Recording([], [], [], [], {})

    def pytest_sessionstart(self) -> None:
        without_examples()

    def pytest_collection_finish(self) -> None:
        self._caches = caches(self._project)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        for cache in self._caches:
            cache.cache_clear()
        self._finder.seen.clear()
        self._failed = False
        started, processor = time.perf_counter(), time.process_time()
        outcome = yield
        self.result.seconds.append(time.perf_counter() - started)
        self.result.processor.append(time.process_time() - processor)
        self._keep(item.nodeid, tuple(self._finder.seen), item.session.testscollected)
        return outcome

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    def _keep(self, test: str, marks: Iterable[tuple[int, int]], tests: int) -> None:
        number = len(self.result.tests)
        self.result.tests.append(test)
        if self._failed:
            self.result.failed.append(test)
        for mark in marks:
            bits = self._passed.setdefault(mark, bytearray(tests // 8 + 1))
            bits[number // 8] |= 1 << number % 8

    def pytest_sessionfinish(self) -> None:
        for (file, line), bits in self._passed.items():
            self.result.marks[self._finder.files[file], line] = int.from_bytes(bits, "little")


def main(out: str, root: str, targets: str, tests: str) -> None:
    project = Project(Path(root), tuple(targets.split(",")), tuple(tests.split(",")))
    finder = MarkingFinder(project)
    finder.install()
    recorder = _Recorder(project, finder)
    arguments = [*PYTEST, *project.tests, "-vvv", f"--timeout={TIMEOUT}"]
    pytest.main(arguments, plugins=[recorder])
    if not recorder.result.tests:
        raise SystemExit("no test ran")
    recorder.result.write(Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
