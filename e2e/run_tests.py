"""All suites: `make test` and `make test-long` call this.

The unit tests; the end-to-end and conformance suites on the embedded cluster; and `REAL_PARTS`
(with `--long` all) on real control planes built from their modules. These are left out where there
is no Go and its package cannot be installed; with MUSTER_REQUIRE_REAL=1 that is an error.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Final

from e2e.controlplane import build
from e2e.controlplane.errors import BuildError, MissingGoError
from e2e.controlplane.places import DURATIONS, ROOT
from e2e.controlplane.progress import Progress
from tools.testing import report
from tools.testing.guardian import Guardian
from tools.testing.report import Cost, SuiteCost

REAL_PARTS: Final[Mapping[str, Sequence[str]]] = {
    "flows": (
        "e2e/suite",
        "e2e/admission/test_owners.py",
        "e2e/controllers/test_group_claims.py",
        "e2e/client",
        "e2e/webhook/test_confined.py",
        "e2e/console/test_any_cluster.py",
        "e2e/workloads",
    ),
    "conformance": (
        "e2e/conformance",
        "e2e/test_controlplane.py",
        "e2e/test_manifests.py",
        "e2e/test_protection.py",
        "e2e/test_versions.py",
    ),
    "what is installed": ("e2e/chart", "e2e/docs", "e2e/test_release.py"),
    # Last, when little else runs: its tenants' gangs have to be bound within seconds.
    "hostile tenants": (
        "e2e/hostile/test_attacks.py",
        "e2e/hostile/test_beside_kube_scheduler.py",
        "e2e/hostile/test_beside_native_gangs.py",
        "e2e/hostile/test_boundaries.py",
        "e2e/hostile/test_fuzz.py",
        "e2e/hostile/test_unmapped_resources.py",
    ),
}
"""What runs on the real control plane without `--long`: what users count on, and what the embedded
server is held to. The other suites run on the embedded cluster then, and on both with `--long`.
Each part has a control plane of its own, so that two of them can run side by side."""

REAL_SUITES: Final = tuple(suite for part in REAL_PARTS.values() for suite in part)

NAMED_PARTS: Final[Mapping[str, Sequence[str]]] = {
    "decisions": ("e2e/faults", "e2e/hostile", "e2e/preemption", "e2e/scheduling", "e2e/webhook"),
    "owners": ("e2e/admission", "e2e/controllers", "e2e/lives", "e2e/workloads"),
}
"""About two thirds of what runs on the embedded cluster, by time."""

_IGNORED: Final = tuple(f"--ignore={folder}" for part in NAMED_PARTS.values() for folder in part)

PARTS: Final[Mapping[str, Sequence[str]]] = {**NAMED_PARTS, "the rest": ("e2e", *_IGNORED)}
"""Together everything: on the embedded cluster, and with `--long` on the real one too."""

LOCAL: Final = "end to end on the embedded cluster"
REAL: Final = "end to end on a real control plane"
LANES: Final = 3
"""Runs of pytest at a time; more would make flows with time limits fail on two cores."""

_FAILURE: Final = re.compile(r"^(?:FAILED|ERROR) \S+\.py\b.*$", re.MULTILINE)
"""A line of pytest's short summary, and not of a test's log."""

COSTS: Final = ROOT / ".cache" / "tests"
"""What the tests of each suite cost, as JSON."""
LAST: Final = COSTS / "last.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one suite went: `code` is 0 for a pass, None where it was left out.

    `failures` has a line for each test that failed.
    """

    name: str
    code: int | None
    note: str
    failures: Sequence[str] = ()
    cost: SuiteCost | None = None

    def line(self) -> str:
        word = {0: "passed", None: "left out"}.get(self.code, "FAILED")
        told = (f"            {failure}" for failure in self.failures)
        return "\n".join([f"  {word:9} {self.name}: {self.note}", *told])


def run_suites(*, long: bool, require_real: bool) -> list[Outcome]:
    """Runs every suite, also after one failed; answers in the order in which they are begun.

    The suites on a cluster mostly wait for it, so three run at a time, and the next follows in
    whichever lane is free first: no part is so long that the other lanes wait for it at the end.
    """
    flags = ["--long"] if long else []
    built = Built(long=long)

    def real(name: str, suites: Sequence[str]) -> Outcome:
        if error := built.error():
            missing = isinstance(error, MissingGoError) and not require_real
            return Outcome(name, None if missing else 1, str(error))
        return _pytest(name, [*suites, "--cluster=real", *flags])

    with ThreadPoolExecutor(LANES) as lanes:
        begun = [lanes.submit(_pytest, "unit tests", ["tests", "localcluster/tests", *flags])]
        for which, suites in PARTS.items():
            arguments = [*suites, "--cluster=local", *flags]
            begun.append(lanes.submit(_pytest, f"{LOCAL}, {which}", arguments))
        for which, suites in (PARTS if long else REAL_PARTS).items():
            begun.append(lanes.submit(real, f"{REAL}, {which}", suites))
        return [suite.result() for suite in begun]


class Built:
    """The real control plane, built by the first who asks; all others wait for it."""

    def __init__(self, *, long: bool) -> None:
        self._long = long
        self._lock = Lock()
        self._done = False
        self._error: BuildError | None = None

    def error(self) -> BuildError | None:
        """Why there is none, MissingGoError where no Go is to be had; None once it is built."""
        with self._lock:
            if not self._done:
                self._build()
                self._done = True
            return self._error

    def _build(self) -> None:
        # Whole lines also on a terminal: another suite writes beside it. Karpenter and
        # LeaderWorkerSet take minutes to build, and run beside Muster in the long profile alone.
        progress = Progress(sys.stdout, DURATIONS, live=False)
        try:
            build.build(progress, neighbours=self._long, workloads=self._long)
        except BuildError as error:
            self._error = error


def _pytest(name: str, arguments: Sequence[str]) -> Outcome:
    """Run pytest once; its output is shown when it ends, not mixed with that of another lane."""
    _say(f"== {name}: begins")
    COSTS.mkdir(parents=True, exist_ok=True)
    cost = COSTS / f"{re.sub(r'[^a-z0-9]+', '-', name)}.json"
    cost.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", f"--usage={cost}", *arguments]
    started = time.monotonic()
    child = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with child:
        assert child.stdout is not None
        output = child.stdout.read()
        # Not `wait`: only this call tells what the child and its servers have used.
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    whole = Cost(time.monotonic() - started, used.ru_utime + used.ru_stime)
    note = f"{whole.wall:.0f} s, {whole.processor:.0f} s of processor time"
    failures = _FAILURE.findall(output)
    outcome = Outcome(name, child.returncode, note, failures, SuiteCost.read(name, whole, cost))
    _say(f"== {name}\n{output}{outcome.line()}")
    return outcome


def _interrupt(number: int, _: object) -> None:
    """End at once; the guardian ends all that runs."""
    os._exit(128 + number)


def _say(text: str) -> None:
    """In one write, so that two lanes' lines do not run into each other."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _report(outcomes: Sequence[Outcome]) -> None:
    """Print what the tests cost, next to the last run's figures, and keep it for the next."""
    suites = [outcome.cost for outcome in outcomes if outcome.cost is not None]
    last = json.loads(LAST.read_text()) if LAST.is_file() else {}
    _say(report.text(suites, last))
    LAST.write_text(json.dumps({**last, **report.to_keep(suites)}, indent=1, sort_keys=True))


def summary(outcomes: Sequence[Outcome]) -> str:
    return "\n".join(["", "summary", *(outcome.line() for outcome in outcomes)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="the full counts")
    parsed = parser.parse_args()
    required = os.environ.get("MUSTER_REQUIRE_REAL") == "1"
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    guardian = Guardian.begin()
    outcomes = run_suites(long=parsed.long, require_real=required)
    guardian.end()
    _report(outcomes)
    print(summary(outcomes))
    return 1 if any(outcome.code for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
