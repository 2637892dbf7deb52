"""All suites: `make test` and `make test-long` call this.

The unit tests; the end-to-end and conformance suites on the embedded cluster; and `REAL_SUITES`
(with `--long` all) on a real control plane built from its modules. These are left out where there
is no Go and its package cannot be installed; with MUSTER_REQUIRE_REAL=1 that is an error.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from e2e.controlplane import build
from e2e.controlplane.errors import BuildError, MissingGoError
from e2e.controlplane.places import DURATIONS, ROOT
from e2e.controlplane.progress import Progress

REAL_SUITES = (
    "e2e/suite",
    "e2e/admission/test_owners.py",
    "e2e/chart",
    "e2e/conformance",
    "e2e/controllers/test_group_claims.py",
    "e2e/client",
    "e2e/docs",
    "e2e/hostile/test_attacks.py",
    "e2e/hostile/test_beside_kube_scheduler.py",
    "e2e/hostile/test_beside_native_gangs.py",
    "e2e/hostile/test_boundaries.py",
    "e2e/hostile/test_fuzz.py",
    "e2e/test_controlplane.py",
    "e2e/test_manifests.py",
    "e2e/test_protection.py",
    "e2e/test_release.py",
    "e2e/test_versions.py",
    "e2e/webhook/test_confined.py",
    "e2e/workloads",
)
"""What runs on the real control plane without `--long`: what users count on, and what the embedded
server is held to. The other suites run on the embedded cluster then, and on both with `--long`."""


ONE_LANE = ("e2e/hostile", "e2e/preemption", "e2e/scheduling", "e2e/webhook")
"""About half of what runs on the embedded cluster, by time; the rest is the other lane."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one suite went: `code` is 0 for a pass, None where it was left out."""

    name: str
    code: int | None
    note: str

    def line(self) -> str:
        word = {0: "passed", None: "left out"}.get(self.code, "FAILED")
        return f"  {word:9} {self.name}: {self.note}"


def run_suites(*, long: bool, require_real: bool) -> list[Outcome]:
    """Runs every suite, also after one failed.

    The suites on a cluster mostly wait for it, so those on embedded clusters run beside the others,
    in two lanes.
    """
    flags = ["--long"] if long else []
    rest = ["e2e", *(f"--ignore={folder}" for folder in ONE_LANE)]
    local = "end to end on the embedded cluster"
    with ThreadPoolExecutor() as lanes:
        embedded = [
            lanes.submit(_pytest, f"{local}, {which}", [*folders, "--cluster=local", *flags])
            for which, folders in (("one half", ONE_LANE), ("the other", rest))
        ]
        unit = _pytest("unit tests", ["tests", "localcluster/tests", *flags])
        real = _real(flags, required=require_real)
        return [unit, *(lane.result() for lane in embedded), real]


def _real(flags: Sequence[str], *, required: bool) -> Outcome:
    name = "end to end on a real control plane"
    try:
        # Whole lines also on a terminal: another suite writes beside it. Karpenter and
        # LeaderWorkerSet take minutes to build, and run beside Muster in the long profile alone.
        long = "--long" in flags
        progress = Progress(sys.stdout, DURATIONS, live=False)
        build.build(progress, neighbours=long, workloads=long)
    except MissingGoError as error:
        return Outcome(name, 1 if required else None, str(error))
    except BuildError as error:
        return Outcome(name, 1, str(error))
    suites = ["e2e"] if "--long" in flags else REAL_SUITES
    return _pytest(name, [*suites, "--cluster=real", *flags])


def _pytest(name: str, arguments: Sequence[str]) -> Outcome:
    """One run of pytest; what it prints is shown when it ends, not mixed with its neighbour's."""
    _say(f"== {name}: begun")
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    outcome = Outcome(name, done.returncode, f"{time.monotonic() - started:.0f} s")
    _say(f"== {name}\n{done.stdout}{outcome.line()}")
    return outcome


def _say(text: str) -> None:
    """In one write, so that two lanes' lines do not run into each other."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def summary(outcomes: Sequence[Outcome]) -> str:
    return "\n".join(["", "summary", *(outcome.line() for outcome in outcomes)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="the full counts")
    parsed = parser.parse_args()
    required = os.environ.get("MUSTER_REQUIRE_REAL") == "1"
    outcomes = run_suites(long=parsed.long, require_real=required)
    print(summary(outcomes))
    return 1 if any(outcome.code for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
