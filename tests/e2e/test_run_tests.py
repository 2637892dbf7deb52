"""What a run does where the real control plane cannot be built."""

from collections.abc import Sequence

import pytest

from e2e import run_tests
from e2e.controlplane import build
from e2e.controlplane.errors import BuildError, MissingGoError
from e2e.controlplane.places import ROOT


@pytest.mark.parametrize(
    ("error", "required", "word", "code"),
    [
        (MissingGoError("no Go, and no network"), False, "left out", None),
        (MissingGoError("no Go, and no network"), True, "FAILED", 1),
        (BuildError("it does not compile"), False, "FAILED", 1),
        (BuildError("it does not compile"), True, "FAILED", 1),
    ],
)
def test_a_real_suite_that_cannot_run_says_why(
    monkeypatch: pytest.MonkeyPatch, error: BuildError, required: bool, word: str, code: int | None
) -> None:
    def suites(name: str, arguments: Sequence[str]) -> run_tests.Outcome:
        return run_tests.Outcome(name, 0, "1 s")

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(run_tests, "_pytest", suites)
    monkeypatch.setattr(build, "build", fail)

    *others, real = run_tests.run_suites(long=False, require_real=required)

    assert [outcome.code for outcome in others] == [0, 0, 0]
    assert real.code == code
    assert real.line() == f"  {word:9} end to end on a real control plane: {error}"


def test_the_lanes_of_the_embedded_cluster_leave_nothing_out_and_run_nothing_twice() -> None:
    """Each folder of one lane exists, and is what the other lane ignores."""
    given: list[Sequence[str]] = []

    def suites(name: str, arguments: Sequence[str]) -> run_tests.Outcome:
        given.append(arguments)
        return run_tests.Outcome(name, 0, "1 s")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_tests, "_pytest", suites)
        patch.setattr(build, "build", lambda *_, **__: None)
        run_tests.run_suites(long=False, require_real=True)

    lanes = [set(arguments) for arguments in given if "--cluster=local" in arguments]
    one, rest = sorted(lanes, key=lambda lane: "e2e" in lane)
    folders = one - {"--cluster=local"}
    assert all((ROOT / folder).is_dir() for folder in folders)
    assert rest == {"e2e", "--cluster=local", *(f"--ignore={folder}" for folder in folders)}
