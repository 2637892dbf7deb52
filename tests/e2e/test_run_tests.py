"""The run of all suites: its concurrency, and its behavior without a control plane."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Barrier, Lock

import pytest

from e2e import run_tests
from e2e.harness.controlplane import build
from e2e.harness.controlplane.build import RELEASES
from e2e.harness.controlplane.errors import BuildError, MissingGoError
from e2e.harness.controlplane.places import ROOT, USUAL
from e2e.nodes.cluster import requirements
from e2e.run_tests import (
    ALONE,
    CHECK,
    LANES,
    LAST_PARTS,
    LOCAL,
    LOCAL_PARTS,
    LONG_LANES,
    LONG_UNITS,
    NODES,
    PARTS,
    REAL,
    REAL_PARTS,
    REAL_SUITES,
    UNIT,
    UNIT_PARTS,
    Outcome,
)

Suite = Callable[[str, Sequence[str]], Outcome]


class Runs:
    """The recorded runs: name -> arguments, and the maximum concurrency."""

    def __init__(self) -> None:
        self.made: dict[str, Sequence[str]] = {}
        self.most = 0
        self.failing: set[str] = set()
        self.together = True
        self._now = 0
        self._lock = Lock()
        self.use(LANES)

    def use(self, lanes: int) -> None:
        """Require that the first lanes all begin before one of them ends."""
        self.lanes = lanes
        self._begun = Barrier(lanes)

    def __call__(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Outcome:
        with self._lock:
            assert name not in self.made
            self.made[name] = arguments
            first = self.together and len(self.made) <= self.lanes
            self._now += 1
            self.most = max(self.most, self._now)
        if first:
            self._begun.wait(timeout=20)
        with self._lock:
            self._now -= 1
        return Outcome(name, int(name in self.failing), "1 s")

    def of(self, cluster: str) -> list[Sequence[str]]:
        flag = f"--cluster={cluster}"
        return [
            arguments
            for name, arguments in self.made.items()
            if flag in arguments and not name.startswith("Kubernetes")
        ]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    """A recorder of the runs; nothing is run or built."""
    recorded = Runs()
    monkeypatch.setattr(run_tests, "_pytest", recorded)
    monkeypatch.setattr(run_tests, "_run", recorded)
    monkeypatch.setattr(build, "build", lambda *_, **__: None)
    monkeypatch.setattr(requirements, "missing", list)
    yield recorded
    assert recorded.most <= recorded.lanes


@pytest.mark.parametrize(
    ("error", "required", "word", "code"),
    [
        (MissingGoError("no Go, and no network"), False, "left out", None),
        (MissingGoError("no Go, and no network"), True, "FAILED", 1),
        (BuildError("it does not compile"), False, "FAILED", 1),
        (BuildError("it does not compile"), True, "FAILED", 1),
    ],
)
@pytest.mark.usefixtures("runs")
def test_a_real_suite_that_cannot_run_says_why(
    monkeypatch: pytest.MonkeyPatch, error: BuildError, required: bool, word: str, code: int | None
) -> None:
    """Each part reports it, and a build of several minutes is not repeated for each."""
    tried = []

    def fail(*_: object, **__: object) -> None:
        tried.append(1)
        raise error

    monkeypatch.setattr(build, "build", fail)

    outcomes = run_tests.run_suites(long=False, require_real=required)

    real = [outcome for outcome in outcomes if outcome.name.startswith(REAL)]
    others = [outcome for outcome in outcomes if outcome not in real]
    assert [outcome.code for outcome in others] == [0] * (1 + len(UNIT_PARTS) + len(PARTS))
    assert [outcome.code for outcome in real] == [code] * len(REAL_PARTS)
    assert [outcome.line() for outcome in real] == [
        f"  {word:9} {REAL}, {which}: {error}" for which in REAL_PARTS
    ]
    assert len(tried) == 1


def on(version: str) -> list[str]:
    """Return the runs for one Kubernetes version, in order."""
    names = (*REAL_PARTS, *LAST_PARTS.get(version, ()))
    parts = (f"Kubernetes {version}, {which}" for which in names)
    return [f"building Kubernetes {version}", *parts]


@pytest.mark.parametrize("failing", [None, *on("1.33.13")[:2]])
def test_each_version_is_built_and_run_also_after_one_that_failed(
    runs: Runs, failing: str | None
) -> None:
    runs.failing, runs.together = {failing} if failing else set(), False

    outcomes = run_tests.run_versions(["1.33.13", "1.34.4"])

    assert [outcome.name for outcome in outcomes] == [*on("1.33.13"), *on("1.34.4")]
    failed = {outcome.name for outcome in outcomes if outcome.code}
    built = failing != on("1.33.13")[0]
    assert failed == (runs.failing if built else set(on("1.33.13")))
    assert ("Kubernetes 1.33.13, flows" in runs.made) == built
    assert {REAL_PARTS["flows"][0], "--cluster=real"} <= set(runs.made["Kubernetes 1.34.4, flows"])


@pytest.mark.parametrize(
    ("long", "lanes", "first"),
    [(False, LANES, run_tests.FIRST), (True, LONG_LANES, run_tests.LONG_FIRST)],
)
def test_what_takes_long_begins_first_and_exists(
    runs: Runs, long: bool, lanes: int, first: Sequence[str]
) -> None:
    runs.use(lanes)

    run_tests.run_suites(long=long, require_real=True)

    # One of them may have to wait for the control plane.
    made = [name for name in runs.made if not name.startswith("building")]
    assert set(made[:lanes]) <= set(first[: lanes + 1])
    assert set(first) <= runs.made.keys()


@pytest.mark.parametrize("long", [False, True])
def test_outcomes_are_in_the_order_of_the_suites(runs: Runs, long: bool) -> None:
    runs.use(LONG_LANES if long else LANES)

    outcomes = run_tests.run_suites(long=long, require_real=True)

    assert [outcome.name for outcome in outcomes] == [
        CHECK,
        *(f"{UNIT}, {which}" for which in UNIT_PARTS),
        *(f"{UNIT}, {which}" for which in LONG_UNITS if long),
        *(f"{LOCAL}, {which}" for which in PARTS),
        *(f"{REAL}, {which}" for which in (PARTS if long else REAL_PARTS)),
        *(name for version in RELEASES if long and version != USUAL for name in on(version)),
        *(f"{REAL}, {which}" for which in ALONE if long),
        *([NODES] if long else []),
    ]
    assert runs.most == runs.lanes


@pytest.mark.parametrize(
    ("only", "names"),
    [
        ([CHECK], {CHECK}),
        (["1.33.13"], set(on("1.33.13"))),
        ([NODES, "make"], {CHECK, NODES}),
        ([f"{REAL}, "], {f"{REAL}, {which}" for which in (*PARTS, *ALONE)}),
    ],
)
def test_some_suites_can_be_chosen(runs: Runs, only: Sequence[str], names: set[str]) -> None:
    """None of the others is built either."""
    runs.together = False

    outcomes = run_tests.run_suites(long=True, require_real=True, only=only)

    assert {outcome.name for outcome in outcomes} == names
    assert {name for name in runs.made if name.startswith("building")} <= {
        *names,
        "building the nodes",
    }


@pytest.mark.parametrize(("required", "code"), [(False, None), (True, 1)])
def test_nodes_are_left_out_where_they_cannot_run(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, required: bool, code: int | None
) -> None:
    runs.use(LONG_LANES)
    monkeypatch.setattr(requirements, "missing", lambda: ["root", "the command unshare"])

    *_, last = run_tests.run_suites(long=True, require_real=required)

    assert (last.name, last.code, last.note) == (NODES, code, "root; the command unshare")


def test_nodes_run_last_and_only_if_they_are_built(runs: Runs) -> None:
    runs.use(LONG_LANES)
    runs.failing = {"building the nodes"}

    *_, last = run_tests.run_suites(long=True, require_real=True)

    assert (last.name, last.code) == (NODES, 1)
    assert NODES not in runs.made
    assert list(runs.made)[-1] == "building the nodes"


def test_no_part_on_a_real_control_plane_begins_before_it_is_built(
    monkeypatch: pytest.MonkeyPatch, runs: Runs
) -> None:
    begun_before: list[Sequence[str]] = []
    monkeypatch.setattr(build, "build", lambda *_, **__: begun_before.extend(runs.of("real")))

    run_tests.run_suites(long=False, require_real=True)

    assert begun_before == []
    assert len(runs.of("real")) == len(REAL_PARTS)


@pytest.mark.parametrize("cluster", ["local", "real"])
def test_the_parts_leave_nothing_out_and_run_nothing_twice(runs: Runs, cluster: str) -> None:
    """Each suite of a named part exists, and the last part ignores it."""
    runs.use(LONG_LANES)
    run_tests.run_suites(long=True, require_real=True)

    flags = {f"--cluster={cluster}", "--long"}
    *named, rest = sorted((set(it) - flags for it in runs.of(cluster)), key=lambda it: "e2e" in it)
    suites = [suite for part in named for suite in part]
    if cluster == "local":
        suites += [suite for part in ALONE.values() for suite in part]
    assert all((ROOT / suite).exists() for suite in suites)
    assert len(set(suites)) == len(suites)
    assert rest == {"e2e", *(f"--ignore={suite}" for suite in suites)}


def test_what_is_not_long_runs_on_one_of_the_two_at_least(runs: Runs) -> None:
    """The embedded cluster omits what the real control plane runs, and no more."""
    run_tests.run_suites(long=False, require_real=True)

    left_out = {
        it.removeprefix("--ignore=") for part in runs.of("local") for it in part if "ignore" in it
    }
    named = {it for part in (*PARTS.values(), *ALONE.values()) for it in part}
    assert left_out - named == {*REAL_SUITES}
    assert LOCAL_PARTS.keys() == PARTS.keys()


def test_the_parts_of_the_unit_tests_leave_nothing_out() -> None:
    *named, rest = UNIT_PARTS.values()
    arguments = [argument for part in (*named, *LONG_UNITS.values()) for argument in part]
    folders = [it for it in arguments if not it.startswith("--")]
    assert all((ROOT / folder).is_dir() for folder in folders)
    assert {it.removeprefix("--ignore=") for it in {*arguments} - {*folders}} <= {*folders}
    ignored = {f"--ignore={folder}" for folder in folders if folder != "localcluster/tests"}
    assert set(rest) == {"tests", *ignored}
    assert "localcluster/tests" in folders


def test_the_parts_on_a_real_control_plane_exist_and_none_is_in_another(runs: Runs) -> None:
    run_tests.run_suites(long=False, require_real=True)

    suites = [Path(it) for part in runs.of("real") for it in part if not it.startswith("--")]
    assert sorted(suites) == sorted(map(Path, run_tests.REAL_SUITES))
    assert all((ROOT / suite).exists() for suite in suites)
    assert not any(one in other.parents for one in suites for other in suites)
    assert len(set(suites)) == len(suites)


def test_the_summary_names_each_test_that_failed_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines are not truncated, and exclude the log of the failed test."""
    monkeypatch.setattr(run_tests, "COSTS", tmp_path / "costs")
    said = "a harm that is told in many words; " * 2 + "all of them"
    suite = tmp_path / "test_of_harm.py"
    suite.write_text(
        "import logging, pytest\n"
        f"def test_harm():\n    logging.error('x.py is odd')\n    raise ValueError({said!r})\n"
        "@pytest.fixture\ndef broken():\n    raise OSError('no cluster')\n"
        "def test_more(broken):\n    pass\n"
        "def test_well():\n    pass\n"
    )

    plugins = ("-p", "conftest", "-p", "no:cacheprovider", "-p", "no:randomly")
    outcome = run_tests._pytest("suite", [str(suite), "-ra", *plugins])

    assert outcome.code == 1
    assert outcome.cost is not None
    assert len(outcome.cost.tests) == 3
    assert outcome.cost.whole.processor > 0
    error, failure = outcome.failures
    assert error.startswith("ERROR ")
    assert error.endswith("test_of_harm.py::test_more - OSError: no cluster")
    assert failure.startswith("FAILED ")
    assert failure.endswith(f"test_of_harm.py::test_harm - ValueError: {said}")
    assert outcome.line().splitlines()[1:] == [f"{' ' * 12}{each}" for each in outcome.failures]
