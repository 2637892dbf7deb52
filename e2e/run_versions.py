"""The suites of the real control plane on each Kubernetes version: `make test-versions`.

One version after the other; each is built first, once. Numbers as arguments choose some of them.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from e2e.controlplane.build import RELEASES
from e2e.controlplane.places import ROOT
from e2e.run_tests import REAL_SUITES, Outcome, summary

_BUILD = [sys.executable, "-m", "e2e.controlplane.build"]
_SUITES = [sys.executable, "-m", "pytest", "-q", "--cluster=real"]


def run_versions(versions: Sequence[str], arguments: Sequence[str] = ()) -> list[Outcome]:
    """Builds and runs each version, also after one failed. `arguments` instead of all suites."""
    outcomes = []
    for version in versions:
        environment = {**os.environ, "MUSTER_KUBERNETES": version}
        built = _timed(f"building Kubernetes {version}", _BUILD, environment)
        outcomes.append(built)
        if built.code == 0:
            command = [*_SUITES, *(arguments or REAL_SUITES)]
            outcomes.append(_timed(f"Kubernetes {version}", command, environment))
    return outcomes


def _timed(name: str, command: Sequence[str], environment: Mapping[str, str]) -> Outcome:
    print(f"== {name}", flush=True)
    started = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    return Outcome(name, done.returncode, f"{time.monotonic() - started:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=", ".join(RELEASES))
    parser.add_argument("--suite", action="append", help="instead of all suites, for instance one")
    parsed = parser.parse_args()
    if unknown := set(parsed.versions) - RELEASES.keys():
        parser.error(f"{', '.join(sorted(unknown))}: there are modules for {', '.join(RELEASES)}")
    outcomes = run_versions(parsed.versions or list(RELEASES), parsed.suite or ())
    print(summary(outcomes))
    return 1 if any(outcome.code for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
