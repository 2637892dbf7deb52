"""All suites: `make test` and `make test-long` call this.

It runs `make check`, the unit tests, `LOCAL_PARTS` of the end-to-end tests on the embedded cluster
and `REAL_PARTS` on real control planes built from their modules, with `--long` all of them on both,
and at last those on real nodes. The real ones are skipped if there is no Go and its package cannot
be installed, or if this machine cannot run nodes; with MUSTER_REQUIRE_REAL=1 that is an error.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Condition
from typing import Any, Final

from e2e.harness.controlplane import build
from e2e.harness.controlplane.build import RELEASES
from e2e.harness.controlplane.errors import BuildError, MissingGoError
from e2e.harness.controlplane.places import DURATIONS, ROOT, USUAL
from e2e.harness.controlplane.progress import Progress
from e2e.nodes.cluster import requirements
from tools.testing import report
from tools.testing.guardian import Guardian
from tools.testing.report import Cost, SuiteCost

NAMED_UNITS: Final[dict[str, Sequence[str]]] = {
    "decision core": ("tests/scheduler/core",),
    "scheduler": ("tests/scheduler", "--ignore=tests/scheduler/core"),
    # They start processes and wait for them.
    "commands": (
        "tests/tools/bench",
        "tests/cli",
        "tests/analysis",
        "tests/console",
        "tests/packaging",
    ),
}

LONG_UNITS: Final[dict[str, Sequence[str]]] = {
    "embedded cluster and tools": (
        "localcluster/tests",
        "tests/e2e",
        "tests/tools/mutation",
        "tests/tools/testing",
    ),
}
"""Suites with `--long` only: no user has these components.

The conformance suite compares the embedded cluster to the real servers in each run.
"""

_UNITS: Final = tuple(
    f"--ignore={folder}"
    for part in (NAMED_UNITS | LONG_UNITS).values()
    for folder in part
    if folder.startswith("tests/")
)

UNIT_PARTS: Final[Mapping[str, Sequence[str]]] = {**NAMED_UNITS, "the rest": ("tests", *_UNITS)}

NAMED_PARTS: Final[Mapping[str, Sequence[str]]] = {
    "decisions": (
        "e2e/faults/leaders",
        "e2e/faults/hostile",
        "e2e/flows/scheduling/gangs",
        "e2e/flows/scheduling/preemption",
        "e2e/flows/scheduling/reasons",
        "e2e/flows/admission/webhook",
    ),
    "owners": ("e2e/flows/admission/kinds", "e2e/flows/owners/jobs"),
    "installation": ("e2e/install",),
    "Kubernetes and neighbours": ("e2e/kubernetes", "e2e/neighbours"),
}
"""About three quarters of the end-to-end tests, by time."""

ALONE: Final[Mapping[str, Sequence[str]]] = {
    "three servers": ("e2e/faults/high_availability/test_matrix.py",),
}
"""Suites on the real control plane, with `--long` only, that run when the others have ended.

Three API servers and nine processes of Muster keep two cores busy.
"""

_NAMED: Final = tuple(
    f"--ignore={suite}" for part in {**NAMED_PARTS, **ALONE}.values() for suite in part
)

PARTS: Final[Mapping[str, Sequence[str]]] = {**NAMED_PARTS, "the rest": ("e2e", *_NAMED)}
"""Everything but `ALONE`: with `--long` on the embedded cluster, and again on the real one."""

REAL_PARTS: Final[Mapping[str, Sequence[str]]] = {
    "flows": (
        "e2e/flows/admission/test_admission.py",
        "e2e/flows/admission/test_bad_input.py",
        "e2e/flows/devices/test_devices.py",
        "e2e/flows/owners/test_gang_of_a_jobset.py",
        "e2e/faults/test_outage.py",
        "e2e/flows/devices/test_shared_claim.py",
        "e2e/flows/scheduling/test_two_gangs.py",
        "e2e/flows/admission/test_webhook_down.py",
        "e2e/flows/admission/kinds/test_owners.py",
        "e2e/flows/admission/kinds/test_table.py",
        "e2e/flows/admission/webhook/test_confined.py",
        "e2e/flows/native",
    ),
    "conformance and hostile tenants": (
        "e2e/kubernetes/apiserver",
        "e2e/install/docs",
        "e2e/faults/hostile/test_attacks.py",
        "e2e/faults/hostile/test_boundaries.py",
        "e2e/install/test_manifests.py",
        "e2e/install/test_protection.py",
        "e2e/install/test_versions.py",
    ),
    # The last three share a control plane.
    "installation": (
        "e2e/install/chart",
        "e2e/install/test_release.py",
        "e2e/kubernetes/scheduler/test_messages.py",
        "e2e/faults/hostile/test_beside_kube_scheduler.py",
        "e2e/flows/owners/workloads/test_sets.py",
    ),
}
"""Suites on the real control plane without `--long`: those that users rely on.

The conformance suite is included, which also runs on the embedded server with `--long`. Each part
has its own control plane, so that they can run concurrently.
"""

LAST_PARTS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "1.36.3": {
        "what 1.37 lacks": (
            "e2e/faults/hostile/test_beside_native_gangs.py",
            "e2e/faults/hostile/test_unmapped_resources.py",
            "e2e/kubernetes/apiserver/test_devices.py",
            "--long",
        ),
    },
}
"""Additional parts of a version: suites that later versions skip."""

REAL_SUITES: Final = tuple(suite for part in REAL_PARTS.values() for suite in part)

_ELSEWHERE: Final = tuple(f"--ignore={suite}" for suite in REAL_SUITES)

LOCAL_PARTS: Final[Mapping[str, Sequence[str]]] = {
    which: (*suites, *_ELSEWHERE) for which, suites in PARTS.items()
}
"""Suites on the embedded cluster without `--long`: those not run on the real control plane."""

NODES_SUITE: Final = ("e2e/nodes", "--cluster=nodes")

BUILD: Final = (sys.executable, "-m", "e2e.harness.controlplane.build")
BUILD_NODES: Final = (sys.executable, "-m", "e2e.nodes.cluster.build")
CHECK: Final = "make check"
UNIT: Final = "unit tests"
LOCAL: Final = "end to end on the embedded cluster"
REAL: Final = "end to end on a real control plane"
NODES: Final = "end to end on real nodes"
FIRST: Final = (
    f"{REAL}, conformance and hostile tenants",
    f"{REAL}, flows",
    f"{REAL}, installation",
    f"{UNIT}, decision core",
    f"{UNIT}, scheduler",
    f"{UNIT}, the rest",
    f"{UNIT}, commands",
    CHECK,
    f"{LOCAL}, the rest",
    f"{LOCAL}, decisions",
    f"{LOCAL}, owners",
    f"{LOCAL}, installation",
    f"{LOCAL}, Kubernetes and neighbours",
)
"""Suites that begin first.

Suites with a control plane wait for it most of the time, so they begin first. Long suites follow,
so that the lanes end together.
"""
LONG_FIRST: Final = (
    f"{REAL}, the rest",
    f"{REAL}, Kubernetes and neighbours",
    f"{REAL}, decisions",
    f"{REAL}, installation",
    f"{REAL}, owners",
    f"{UNIT}, scheduler",
)
"""The same with `--long`: the longest suites."""
_FRESH_SECONDS: Final = 5.0
"""Seconds in which the build reports that it is up to date."""
_NICENESS: Final = 5
NICE: Final = (CHECK, f"{UNIT}, decision core", f"{UNIT}, scheduler", f"{UNIT}, the rest")
"""Suites with a lower priority than those with servers, which wait half of their time.

Not with `--long`: the unit tests of the scheduler are the longest suite then, and would end last.
"""
LANES: Final = 8
"""Number of suites at a time. Most of them wait for a cluster half of their time on two cores."""
LONG_LANES: Final = 3
"""The same with `--long`: each suite has a control plane for an hour or more.

Hostile tenants and upgrades keep its API server busy. With four of these on two cores, a round trip
took seconds, and flows ended by their time limits.
"""

_FAILURE: Final = re.compile(r"^(?:FAILED|ERROR) \S+\.py\b.*$", re.MULTILINE)
"""Pattern of a line in pytest's short summary, but not of a test's log."""

COSTS: Final = ROOT / ".cache" / "tests"
"""Folder of each suite's output, and of the costs of its tests as JSON."""
LAST: Final = COSTS / "last.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one suite: `code` is 0 for a pass, None if it was skipped.

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


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite to run; it may begin once its prerequisite `after` is done."""

    name: str
    run: Callable[[], Outcome]
    after: Future[Any] | None = None

    @property
    def is_ready(self) -> bool:
        return self.after is None or self.after.done()


def run_suites(*, long: bool, require_real: bool, only: Sequence[str] = ()) -> list[Outcome]:
    """Run every suite, even after a failure; return the outcomes in the order of the suites.

    With `only`, run those whose names contain one of these texts. The real control plane is built
    meanwhile, if needed.
    """
    flags = ["--long"] if long else []
    with ThreadPoolExecutor(1) as builder:
        built = builder.submit(_build, long=long)
        with suppress(TimeoutError):  # an existing build reports in a moment
            built.result(timeout=_FRESH_SECONDS)

        def real(name: str, suites: Sequence[str]) -> Outcome:
            if error := built.result():
                missing = isinstance(error, MissingGoError) and not require_real
                return Outcome(name, None if missing else 1, str(error))
            return _pytest(name, [*suites, "--cluster=real", *flags])

        made = [Suite(CHECK, partial(_run, CHECK, ["make", "check"]))]
        for which, suites in {**UNIT_PARTS, **(LONG_UNITS if long else {})}.items():
            name = f"{UNIT}, {which}"
            made.append(Suite(name, partial(_pytest, name, [*suites, *flags])))
        for which, suites in (PARTS if long else LOCAL_PARTS).items():
            name, arguments = f"{LOCAL}, {which}", [*suites, "--cluster=local", *flags]
            made.append(Suite(name, partial(_pytest, name, arguments)))
        for which, suites in (PARTS if long else REAL_PARTS).items():
            name = f"{REAL}, {which}"
            made.append(Suite(name, partial(real, name, suites), built))
        if long:
            others = (it for it in RELEASES if it != USUAL)
            versions = [it for it in others if _is_chosen(f"Kubernetes {it}", only)]
            made += _on_versions(versions, builder)
        chosen = [suite for suite in made if _is_chosen(suite.name, only)]
        outcomes = _in_lanes(chosen, *((LONG_LANES, LONG_FIRST) if long else (LANES, FIRST)))
        for which, suites in ALONE.items() if long else ():
            name = f"{REAL}, {which}"
            if _is_chosen(name, only):
                outcomes.append(real(name, suites))
    # Alone, too: kubelets that wait for a processor lose their nodes.
    if long and _is_chosen(NODES, only):
        outcomes.append(_on_nodes(require_real=require_real))
    return outcomes


def _is_chosen(name: str, only: Sequence[str]) -> bool:
    return not only or any(text in name for text in only)


def _on_nodes(*, require_real: bool) -> Outcome:
    if missing := requirements.missing():
        return Outcome(NODES, 1 if require_real else None, "; ".join(missing))
    built = _run("building the nodes", BUILD_NODES)
    return replace(built, name=NODES) if built.code else _pytest(NODES, NODES_SUITE)


def run_versions(versions: Sequence[str]) -> list[Outcome]:
    """Run the suites of the real control plane on each of these Kubernetes versions."""
    with ThreadPoolExecutor(1) as builder:
        return _in_lanes(_on_versions(versions, builder), LONG_LANES, ())


def _on_versions(versions: Sequence[str], builder: ThreadPoolExecutor) -> list[Suite]:
    made = []
    for version in versions:
        name, environment = f"building Kubernetes {version}", {"MUSTER_KUBERNETES": version}
        built = builder.submit(_run, name, BUILD, environment)
        made.append(Suite(name, built.result, built))
        for which, suites in {**REAL_PARTS, **LAST_PARTS.get(version, {})}.items():
            name = f"Kubernetes {version}, {which}"
            made.append(Suite(name, partial(_after, built, name, suites, environment), built))
    return made


def _after(
    built: Future[Outcome], name: str, suites: Sequence[str], environment: Mapping[str, str]
) -> Outcome:
    if built.result().code:
        return Outcome(name, 1, "its control plane is not built")
    return _pytest(name, [*suites, "--cluster=real"], environment)


def _in_lanes(suites: Sequence[Suite], count: int, first: Sequence[str]) -> list[Outcome]:
    """Run `count` at a time, `first` first; suites that wait for a build let others pass."""
    order = {name: at for at, name in enumerate(first)}
    left = sorted(suites, key=lambda suite: order.get(suite.name, len(order)))
    changed = Condition()

    def woken(_: object) -> None:
        with changed:
            changed.notify_all()

    def lane() -> list[tuple[str, Outcome]]:
        done: list[tuple[str, Outcome]] = []
        while True:
            with changed:
                changed.wait_for(lambda: not left or any(it.is_ready for it in left))
                if not left:
                    return done
                suite = next(it for it in left if it.is_ready)
                left.remove(suite)
            done.append((suite.name, suite.run()))

    for awaited in {suite.after for suite in suites if suite.after}:
        awaited.add_done_callback(woken)
    with ThreadPoolExecutor(count) as lanes:
        running = [lanes.submit(lane) for _ in range(count)]
        outcomes = dict(pair for done in running for pair in done.result())
    return [outcomes[suite.name] for suite in suites]


def _build(*, long: bool) -> BuildError | None:
    """Build the real control plane. Return the error, MissingGoError without a Go."""
    # Complete lines even on a terminal, because suites write at the same time. Karpenter and the
    # controllers of other workloads take minutes to build, and run only in the long profile.
    progress = Progress(sys.stdout, DURATIONS, live=False)
    try:
        build.build(progress, neighbours=long, workloads=long)
        if long:
            build.build(progress, monitoring=True)
    except BuildError as error:
        return error
    return None


def _pytest(
    name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
) -> Outcome:
    """Run pytest once, and read the cost of each of its tests."""
    cost = _file_of(name, "json")
    cost.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", f"--usage={cost}", *arguments]
    outcome = _run(name, command, environment)
    assert outcome.cost is not None
    return replace(outcome, cost=SuiteCost.read(name, outcome.cost.whole, cost))


def _run(
    name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
) -> Outcome:
    """Run a command, with additional environment variables if given.

    Its output is shown when it ends, not mixed with that of another lane. Until then it is in a
    file.
    """
    log = _file_of(name, "log")
    _say(f"== {name}: begins; its output is in {os.path.relpath(log, ROOT)}")
    started = time.monotonic()
    with log.open("wb") as output_file:
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdout=output_file,
            stderr=subprocess.STDOUT,
            # Linux divides the processors between sessions first. In one session, all suites
            # together would have as much as a single server of theirs, which has its own.
            start_new_session=True,
        )
    if name in NICE and "--long" not in command:
        _lower_priority(child.pid)
    with child:
        # Not `wait`: only this call returns the resource usage of the child and its servers.
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    output = log.read_text(errors="replace")
    whole = Cost(time.monotonic() - started, used.ru_utime + used.ru_stime)
    note = f"{whole.wall:.0f} s, {whole.processor:.0f} s of processor time"
    failures = _FAILURE.findall(output)
    outcome = Outcome(name, child.returncode, note, failures, SuiteCost(name, whole))
    _say(f"== {name}\n{output}{outcome.line()}")
    return outcome


def _file_of(name: str, ending: str) -> Path:
    """Return the file of a suite in `COSTS`, whose folder exists then."""
    COSTS.mkdir(parents=True, exist_ok=True)
    return COSTS / f"{re.sub(r'[^a-z0-9.]+', '-', name.lower())}.{ending}"


def _lower_priority(pid: int) -> None:
    """Let the session that the process leads give way to others, whatever divides the processors.

    The process may have ended, and the kernel may have no groups of sessions.
    """
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, _NICENESS)
        Path(f"/proc/{pid}/autogroup").write_text(str(_NICENESS))


def _interrupt(number: int, _: object) -> None:
    """Exit at once; the guardian ends all running processes."""
    os._exit(128 + number)


def _say(text: str) -> None:
    """Write in one call, so that two lanes' lines do not mix."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _report(outcomes: Sequence[Outcome]) -> None:
    """Print the tests' costs, next to the last run's figures, and store them for the next."""
    suites = [outcome.cost for outcome in outcomes if outcome.cost is not None]
    last = json.loads(LAST.read_text()) if LAST.is_file() else {}
    _say(report.text(suites, last))
    LAST.write_text(json.dumps({**last, **report.to_keep(suites)}, indent=1, sort_keys=True))


def summary(outcomes: Sequence[Outcome]) -> str:
    return "\n".join(["", "summary", *(outcome.line() for outcome in outcomes)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="the full counts")
    parser.add_argument(
        "--versions", nargs="*", metavar="VERSION", choices=RELEASES,
        help=f"the suites of the real control plane alone, on these of {', '.join(RELEASES)}",
    )  # fmt: skip
    parser.add_argument(
        "--only", nargs="+", default=(), metavar="TEXT", help="suites whose names contain a text"
    )
    parsed = parser.parse_args()
    required = os.environ.get("MUSTER_REQUIRE_REAL") == "1"
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    guardian = Guardian.begin()
    if parsed.versions is None:
        outcomes = run_suites(long=parsed.long, require_real=required, only=parsed.only)
    else:
        outcomes = run_versions(parsed.versions or list(RELEASES))
    guardian.end()
    _report(outcomes)
    print(summary(outcomes))
    return 1 if any(outcome.code for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
