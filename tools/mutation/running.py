"""Run the tests that execute a mutant, in a forked process for each mutant."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn

import pytest

from tools.mutation.mutants import CodeKey, Prepared
from tools.mutation.project import Project
from tools.mutation.recording import PYTEST, Recording, caches, without_examples

# Limit of one test. A mutant that is ten times as slow is not wrong for that. The constant is for
# tests of milliseconds, which a pause of the machine makes a hundred times as slow.
PROCESSOR_TIMES, PROCESSOR_SECONDS = 10, 30
# A test that waits for an event that never comes uses no processor time. Other work on the machine
# must not count as that.
TIMES, SECONDS = 20, 90

CAUGHT, TIMED_OUT, SURVIVED, NOT_EXECUTED = "caught", "timed out", "survived", "not executed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome for a mutant, and the test that caught it."""

    outcome: str
    test: str = ""
    message: str = ""
    ran: int = 0


class Runner:
    """The plugin of pytest that runs mutants instead of the collected tests."""

    def __init__(
        self,
        project: Project,
        recorded: Recording,
        mutants: Sequence[Prepared],
        out: Path,
        jobs: int,
    ) -> None:
        self._project, self._recorded, self._out = project, recorded, out
        self._mutants, self._jobs = mutants, jobs
        self._numbers = {test: at for at, test in enumerate(recorded.tests)}
        self._reliable: set[str] = set()
        self._unusable: set[str] = set()
        self._failed: pytest.TestReport | None = None
        self._items: dict[str, pytest.Item] = {}
        self._functions: dict[tuple[str, CodeKey], list[FunctionType]] = {}

    def pytest_sessionstart(self) -> None:
        without_examples()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        for file in {prepared.mutant.file for prepared in self._mutants}:
            module = importlib.import_module(self._project.module(file))
            if module.__file__ != str(self._project.root / file):
                raise pytest.UsageError(f"{file} is imported from {module.__file__}")
        self._functions = live_functions(self._project)
        for cache in caches(self._project):
            cache.cache_clear()
        gc.collect()
        gc.freeze()  # a collection in a child would copy every page that it shares with this one
        workers = [self._start_worker(number) for number in range(1, self._jobs)]
        self._work(0)
        for worker in workers:
            os.waitpid(worker, 0)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._failed is None:
            self._failed = report

    def _start_worker(self, number: int) -> int:
        worker = os.fork()
        if not worker:
            try:
                self._work(number)
            finally:
                os._exit(0)
        return worker

    def _work(self, number: int) -> None:
        """Run each mutant of one worker, and write its outcome immediately."""
        for at in range(number, len(self._mutants), self._jobs):
            prepared = self._mutants[at]
            outcome = self._reliable_outcome(prepared)
            row = {"at": at, **asdict(prepared.mutant), **asdict(outcome)}
            with self._out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{outcome.outcome:12} {prepared.mutant.name}", file=sys.stderr, flush=True)

    def _reliable_outcome(self, prepared: Prepared) -> Outcome:
        """Return the outcome without tests that also fail alone and without the mutant."""
        while True:
            tests = [self._recorded.tests[at] for at in self._recorded.executing(prepared.mark)]
            tests = [test for test in tests if test in self._items and test not in self._unusable]
            if not tests:
                return Outcome(NOT_EXECUTED)
            if not self._functions.get((prepared.mutant.file, prepared.key)):
                return Outcome(NOT_EXECUTED, message="no such function after all imports")
            outcome = self._run(prepared, tests)
            if not outcome.test or outcome.test in self._reliable:
                return outcome
            if self._run(None, [outcome.test]).outcome == SURVIVED:
                self._reliable.add(outcome.test)
                return outcome
            print(f"left out, it fails by itself: {outcome.test}", file=sys.stderr)
            self._unusable.add(outcome.test)

    def _run(self, prepared: Prepared | None, tests: Sequence[str]) -> Outcome:
        """Run tests in a process of their own, with a mutant or without."""
        folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        child = os.fork()
        if not child:
            self._child(prepared, tests, folder)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # processes that the tests started and did not end
        said = _read(folder / "said")
        shutil.rmtree(folder, ignore_errors=True)
        if said.get("outcome"):
            return Outcome(**said)
        test, ran = said.get("test", tests[0]), said.get("ran", 0)
        crashed = os.WIFSIGNALED(status) and os.WTERMSIG(status) not in _LIMITS
        return Outcome(CAUGHT if crashed else TIMED_OUT, test, f"status {status}", ran)

    def _child(self, prepared: Prepared | None, tests: Sequence[str], folder: Path) -> NoReturn:
        try:
            # A process group of its own, so that the parent can end all that the tests started.
            os.setpgid(0, 0)
            # Output of the tests would mix with that of the run.
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in range(3):
                os.dup2(nothing, descriptor)
            tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
            os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
            if prepared is not None:
                self._install(prepared)
            self._run_tests(tests, folder / "said")
        finally:
            # Without the cleanup of pytest and of Python, which belongs to the parent.
            os._exit(1)

    def _install(self, prepared: Prepared) -> None:
        for function in self._functions[prepared.mutant.file, prepared.key]:
            function.__code__ = prepared.code

    def _run_tests(self, tests: Sequence[str], said: Path) -> None:
        for ran, (test, following) in enumerate(zip(tests, [*tests[1:], ""], strict=True), 1):
            said.write_text(json.dumps({"test": test, "ran": ran}))
            self._limit(self._numbers[test])
            item, after = self._items[test], self._items.get(following)
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            if self._failed is not None:
                outcome = Outcome(CAUGHT, test, _message(self._failed), ran)
                said.write_text(json.dumps(asdict(outcome)))
                return
        said.write_text(json.dumps(asdict(Outcome(SURVIVED, ran=len(tests)))))

    def _limit(self, number: int) -> None:
        """Let the kernel end the process if the next test takes too long."""
        processor = PROCESSOR_SECONDS + PROCESSOR_TIMES * self._recorded.processor[number]
        signal.setitimer(signal.ITIMER_PROF, processor)
        signal.setitimer(signal.ITIMER_REAL, SECONDS + TIMES * self._recorded.seconds[number])


_LIMITS = {signal.SIGPROF, signal.SIGALRM}


def _message(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return str(text).partition("\n")[0][:200]


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found


def live_functions(project: Project) -> dict[tuple[str, CodeKey], list[FunctionType]]:
    """Return all live functions of the project's targets, by file and code object.

    A function is one object, whether imported by name, wrapped by a decorator, or in a property.
    Its code is replaced in place.
    """
    files = {str(project.root / file): file for file in project.files}
    found: dict[tuple[str, CodeKey], list[FunctionType]] = defaultdict(list)
    for function in gc.get_objects():
        if isinstance(function, FunctionType):
            code = function.__code__
            if file := files.get(code.co_filename):
                found[file, (code.co_qualname, code.co_firstlineno)].append(function)
    return found


def run(
    project: Project, recorded: Recording, mutants: Sequence[Prepared], out: Path, jobs: int = 1
) -> list[dict[str, Any]]:
    """Run mutants; `out` gets a line of JSON for each, as soon as it is known."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("")
    runner = Runner(project, recorded, mutants, out, jobs)
    pytest.main([*PYTEST, *project.tests], plugins=[runner])
    rows: Iterable[dict[str, Any]] = map(json.loads, out.read_text().splitlines())
    return sorted(rows, key=lambda row: row["at"])
